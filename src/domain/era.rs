//! The revisions of MCP, and the two eras that they fall into.

use serde::{Deserialize, Serialize};

/// The protocol families. What a lost connection means differs: in the modern era it cancels a plain call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Era {
    /// Handshake, session, streams with cursors: 2025-03-26 to 2025-11-25; before those one stream for everything.
    Stateful,
    /// No handshake, no session, no resumption; long work lives in server tasks: 2026-07-28.
    Modern,
}

/// Protocol revisions, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ProtocolVersion {
    /// HTTP+SSE: everything the server says comes on one stream, and what that stream loses is lost. A last resort, whatever
    /// revision the server would speak on it.
    #[serde(rename = "2024-11-05")]
    V20241105,
    /// The first with one HTTP endpoint.
    #[serde(rename = "2025-03-26")]
    V20250326,
    /// The first that wants the version header.
    #[serde(rename = "2025-06-18")]
    V20250618,
    /// The first that primes its streams, and the one with experimental tasks.
    #[serde(rename = "2025-11-25")]
    V20251125,
    /// The first without sessions; its tasks are an extension.
    #[serde(rename = "2026-07-28")]
    V20260728,
}

impl ProtocolVersion {
    /// Those that can be asked for, oldest first; HTTP+SSE is none of them.
    pub const ALL: [Self; 4] = [
        Self::V20250326,
        Self::V20250618,
        Self::V20251125,
        Self::V20260728,
    ];

    /// The revision as it stands on the wire.
    pub fn label(self) -> &'static str {
        match self {
            Self::V20241105 => "2024-11-05",
            Self::V20250326 => "2025-03-26",
            Self::V20250618 => "2025-06-18",
            Self::V20251125 => "2025-11-25",
            Self::V20260728 => "2026-07-28",
        }
    }

    /// Reads a revision; `None` for one that we do not ask for.
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|version| version.label() == word)
    }

    /// The era that it belongs to.
    pub fn era(self) -> Era {
        if self < Self::V20260728 {
            Era::Stateful
        } else {
            Era::Modern
        }
    }
}

/// What is known of a server in the modern era. It needs no session there, so it may speak the older revisions beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModernSupport {
    /// It was not asked yet.
    #[default]
    Unknown,
    /// It does not speak it.
    Refused,
    /// It speaks it.
    Offered {
        /// Whether it offers the tasks extension.
        has_tasks: bool,
    },
}

/// Why a call is made in its era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EraReason {
    /// `--protocol` or the configuration asks for the revision.
    Asked,
    /// The server speaks one era, as far as known.
    OnlyOne,
    /// Modern: the tool can be a task of the extension there.
    CanBeTask,
    /// Stateful: the tool can be a core task there.
    CoreTask,
    /// Stateful: the tool keeps a checkpoint and continues to work without its connection there.
    Checkpoint,
    /// Stateful: its events carry ids there.
    EventIds,
    /// Stateful: nobody has seen yet whether its events carry ids there.
    MayGiveIds,
    /// Modern: its events carry no ids in the stateful era.
    NoIds,
}

impl EraReason {
    /// The sentence for people. `None` where what is known of the server says more ([`super::LinkRecord::era_why`]).
    pub fn message(self) -> Option<&'static str> {
        match self {
            Self::OnlyOne | Self::Asked => None,
            Self::CanBeTask => {
                Some("this tool can be a task in it, and a task outlives a lost connection")
            }
            Self::CoreTask => Some("this tool can be a task in it, and not in 2026-07-28"),
            Self::Checkpoint => Some(
                "this tool continues without its connection in it; in 2026-07-28 it would stop with it",
            ),
            Self::EventIds => Some(
                "the events of this tool carry ids in it, so its stream can be resumed; in 2026-07-28 a lost connection cancels a plain call",
            ),
            Self::MayGiveIds => Some(
                "a stream with event ids can be resumed in it; in 2026-07-28 a lost connection cancels a plain call",
            ),
            Self::NoIds => Some(
                "the events of this tool carry no ids in the older revisions, so nothing could be resumed there either",
            ),
        }
    }
}

/// What a person chooses of revisions: one, or `auto`, the one that survives a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProtocolChoice(pub Option<ProtocolVersion>);

impl std::str::FromStr for ProtocolChoice {
    type Err = String;

    /// Reads the word of `--protocol` and of the configuration; fails with the words that it takes.
    fn from_str(word: &str) -> Result<Self, String> {
        match ProtocolVersion::read(word) {
            None if word != "auto" => {
                let words = ProtocolVersion::ALL.map(ProtocolVersion::label).join(", ");
                Err(format!("it is one of auto, {words}"))
            }
            version => Ok(Self(version)),
        }
    }
}
