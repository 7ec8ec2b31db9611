//! The levels of log messages.

use serde::{Deserialize, Serialize};

/// The severity of a log message, lowest first (MCP 2025-11-25, utilities/logging).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "named as in RFC 5424")]
#[derive(strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum LogLevel {
    Debug,
    #[default]
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// The name in messages and on the screen.
    pub fn label(self) -> &'static str {
        self.into()
    }
}
