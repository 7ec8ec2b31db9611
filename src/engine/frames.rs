//! The first frames on the driver's socket. They stay as they are for good, so that any client can ask any keeper for its
//! status or stop it, however their versions differ.
//!
//! Frames are JSON values, one per line. The driver begins with a [`Hello`]. The client answers with a [`FirstFrame`]: its
//! own hello, after which requests and events follow, or a [`Verb`], after which the driver answers and hangs up.

use serde::{Deserialize, Serialize};

use crate::store::CONTRACT;

/// Who speaks at one end of the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The number of the protocol.
    pub(super) contract: u32,
    /// The version of longhaul, for messages only.
    pub(super) version: String,
    /// What this end understands beyond the contract.
    #[serde(default)]
    pub(super) capabilities: Vec<String>,
}

impl Hello {
    /// The hello of this program.
    pub(super) fn ours() -> Self {
        Self {
            contract: CONTRACT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Vec::new(),
        }
    }
}

/// What a client sends first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum FirstFrame {
    /// A single question.
    Verb {
        /// The question.
        verb: Verb,
    },
    /// A client that stays.
    Hello(Hello),
}

/// What every keeper of every version answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    /// Asks for a [`KeeperStatus`].
    Status,
    /// Asks a keeper to save everything and exit; it hangs up when that is done.
    Stop,
}

/// What a driver reports about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperStatus {
    /// Its process id.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// The number of the protocol that it speaks.
    pub contract: u32,
    /// Whether it is a keeper; otherwise it is a command or a screen that drives without one.
    pub is_keeper: bool,
    /// When it began to drive, in milliseconds since 1970.
    pub since_ms: i64,
    /// Tasks that have not ended.
    pub unsettled: usize,
    /// Connected clients.
    pub clients: usize,
}

/// The answer to a verb.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VerbAnswer {
    /// To [`Verb::Status`].
    Status(KeeperStatus),
    /// To [`Verb::Stop`]: it is stopping now.
    Stopping(KeeperStatus),
    /// To [`Verb::Stop`]: it is no keeper, so its own user decides.
    NotAKeeper(KeeperStatus),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_frames_are_frozen() {
        let read = |line: &str| serde_json::from_str::<FirstFrame>(line);
        assert!(matches!(
            read(r#"{"verb":"status"}"#),
            Ok(FirstFrame::Verb { verb: Verb::Status })
        ));
        assert!(matches!(
            read(r#"{"verb":"stop","why":"upgrade"}"#),
            Ok(FirstFrame::Verb { verb: Verb::Stop })
        ));
        // A newer client says more, and all of it is ignored.
        let hello = r#"{"contract":9,"version":"7.0.0","capabilities":["x"],"colour":"blue"}"#;
        assert!(matches!(read(hello), Ok(FirstFrame::Hello(hello)) if hello.contract == 9));
        assert!(read("ping").is_err());
    }
}
