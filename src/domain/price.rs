//! The price of leaving: what ends when this program does.

use serde::{Deserialize, Serialize};

use super::Wall;

/// What leaving would do to a running task; the same words everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Price {
    /// Nothing is lost.
    Safe {
        /// Why.
        why: String,
    },
    /// It can most likely be picked up again.
    Likely {
        /// Why only likely.
        why: String,
        /// Until when, where that is known.
        until: Option<Wall>,
    },
    /// It, or its result, is gone.
    Dies {
        /// Why.
        why: String,
    },
}

impl Price {
    /// The word of the LEAVE column: only DIES shouts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Safe { .. } => "safe",
            Self::Likely { .. } => "likely",
            Self::Dies { .. } => "DIES",
        }
    }

    /// The reason in words.
    pub fn why(&self) -> &str {
        match self {
            Self::Safe { why } | Self::Likely { why, .. } | Self::Dies { why } => why,
        }
    }

    /// Whether leaving now would end it.
    pub fn dies(&self) -> bool {
        matches!(self, Self::Dies { .. })
    }
}
