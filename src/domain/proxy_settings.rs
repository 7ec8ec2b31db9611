//! What the user sets for agents' calls.

use core::time::Duration;
use std::collections::BTreeSet;

use super::text::{self, DurationError};

/// How long hosts are kept waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatienceChoice {
    /// As the table of hosts says.
    #[default]
    ByHost,
    /// This long.
    Fixed(Duration),
    /// Until the result is there.
    Unlimited,
}

impl PatienceChoice {
    /// Parses `auto`, `off` or a duration.
    pub fn parse(value: &str) -> Result<Self, DurationError> {
        match value {
            "auto" => Ok(Self::ByHost),
            "off" => Ok(Self::Unlimited),
            _ => text::parse_duration(value).map(Self::Fixed),
        }
    }
}

/// What a cancelled request of the host means for its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum OnCancel {
    /// The call continues after a timeout, and is cancelled if a person stopped it.
    #[default]
    TimeoutContinues,
    /// The call always continues.
    Continue,
    /// The call is always cancelled.
    Stop,
}

/// The settings for one server, or for all. What is absent is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// How long calls are held before the host gets a ticket.
    pub patience: Option<PatienceChoice>,
    /// What a cancel means.
    pub on_cancel: Option<OnCancel>,
    /// How long a result that no host collects stays collectable.
    pub keep: Option<Duration>,
    /// Tools whose calls never attach to an earlier one.
    pub never_attach: BTreeSet<String>,
}

impl ProxySettings {
    /// These settings, with `others` for what they don't set.
    #[must_use]
    pub fn or(self, others: &Self) -> Self {
        let mut never_attach = self.never_attach;
        never_attach.extend(others.never_attach.iter().cloned());
        Self {
            patience: self.patience.or(others.patience),
            on_cancel: self.on_cancel.or(others.on_cancel),
            keep: self.keep.or(others.keep),
            never_attach,
        }
    }
}
