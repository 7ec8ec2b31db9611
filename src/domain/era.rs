//! The revisions of MCP and the two protocol eras.

use serde::{Deserialize, Serialize};

/// The protocol families. They differ in what a lost connection means: in the modern era it cancels a plain call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Era {
    /// 2025-03-26 to 2025-11-25: initialization, sessions, resumable streams. Also HTTP+SSE of 2024-11-05.
    Stateful,
    /// 2026-07-28: no initialization, sessions or resumption; long work runs as server tasks.
    Modern,
}

/// Protocol revisions, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ProtocolVersion {
    /// HTTP+SSE: all server messages come on one stream that can't be resumed. Used as a last resort. Stands for that
    /// transport, whatever revision the server negotiates on it.
    #[serde(rename = "2024-11-05")]
    V20241105,
    /// The first with Streamable HTTP.
    #[serde(rename = "2025-03-26")]
    V20250326,
    /// The first that requires the `MCP-Protocol-Version` header.
    #[serde(rename = "2025-06-18")]
    V20250618,
    /// The first whose streams begin with an event id; has experimental tasks.
    #[serde(rename = "2025-11-25")]
    V20251125,
    /// The first without sessions; tasks are an extension.
    #[serde(rename = "2026-07-28")]
    V20260728,
}

impl ProtocolVersion {
    /// The revisions a user can select, oldest first; HTTP+SSE can't be selected.
    pub const ALL: [Self; 4] = [
        Self::V20250326,
        Self::V20250618,
        Self::V20251125,
        Self::V20260728,
    ];

    /// The revision as sent in messages.
    pub fn label(self) -> &'static str {
        match self {
            Self::V20241105 => "2024-11-05",
            Self::V20250326 => "2025-03-26",
            Self::V20250618 => "2025-06-18",
            Self::V20251125 => "2025-11-25",
            Self::V20260728 => "2026-07-28",
        }
    }

    /// Parses a selectable revision ([`Self::ALL`]).
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.label() == text)
    }

    /// The era of this revision.
    pub fn era(self) -> Era {
        if self < Self::V20260728 {
            Era::Stateful
        } else {
            Era::Modern
        }
    }
}

/// What is known about a server's support of the modern era. It may support older revisions as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModernSupport {
    /// Not asked yet.
    #[default]
    Unknown,
    /// Not supported.
    Refused,
    /// Supported.
    Offered {
        /// Whether the server offers the tasks extension.
        has_tasks: bool,
    },
}

/// Why a call uses its protocol era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraReason {
    /// `--protocol` or the config file sets the revision.
    Asked,
    /// The server supports only one era, as far as known.
    OnlyOne,
    /// Modern: the tool can run as a task of the extension.
    CanBeTask,
    /// Stateful: the tool can run as a core task.
    CoreTask,
    /// Stateful: the tool keeps a checkpoint and continues without its connection.
    Checkpoint,
    /// Stateful: the tool's events have ids.
    EventIds,
    /// Stateful: not known yet whether the tool's events have ids.
    MayGiveIds,
    /// Modern: the tool's events have no ids in the stateful era.
    NoIds,
}

impl EraReason {
    /// An explanation for the user. `None` if [`super::LinkRecord::era_why`] explains it better.
    pub fn message(self) -> Option<&'static str> {
        match self {
            Self::OnlyOne | Self::Asked => None,
            Self::CanBeTask => {
                Some("this tool can run as a task, which survives a lost connection")
            }
            Self::CoreTask => Some("this tool can run as a task, but not with MCP 2026-07-28"),
            Self::Checkpoint => Some(
                "in this revision, the tool keeps running when its connection closes; with MCP 2026-07-28 it would stop",
            ),
            Self::EventIds => Some(
                "this tool's events have ids, so its stream can be resumed; with MCP 2026-07-28, a lost connection cancels a call that isn't a server task",
            ),
            Self::MayGiveIds => Some(
                "a stream with event ids can be resumed; with MCP 2026-07-28, a lost connection cancels a call that isn't a server task",
            ),
            Self::NoIds => Some(
                "this tool's events have no ids in older revisions, so its stream couldn't be resumed there either",
            ),
        }
    }
}

/// A revision that longhaul does not speak; the text lists those that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of auto, {}", ProtocolVersion::ALL.map(ProtocolVersion::label).join(", "))]
pub struct RevisionError;

/// The user's choice of a revision; `None` is `auto`: pick the one that recovers best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProtocolChoice(pub Option<ProtocolVersion>);

impl std::str::FromStr for ProtocolChoice {
    type Err = RevisionError;

    /// Parses the value of `--protocol` and of the config file.
    fn from_str(text: &str) -> Result<Self, RevisionError> {
        match ProtocolVersion::parse(text) {
            None if text != "auto" => Err(RevisionError),
            version => Ok(Self(version)),
        }
    }
}
