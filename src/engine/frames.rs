//! The first frames on the driver's socket. They stay as they are for good, so that any client can ask any keeper for its
//! status or stop it, however their versions differ.
//!
//! Frames are JSON values, one per line. The driver begins with a [`Hello`]. The client answers with a [`FirstFrame`]: its
//! own hello, after which requests and events follow, or a [`Verb`], after which the driver answers and hangs up.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::domain::{Connectivity, TaskId};

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

/// A client with this capability gets only the snapshots of the tasks that it follows.
const ONLY_FOLLOWED: &str = "only-followed";

impl Hello {
    /// The hello of this program on a socket of this contract.
    pub(super) fn ours(contract: u32) -> Self {
        Self {
            contract,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Vec::new(),
        }
    }

    /// As [`Self::ours`], from a client that wants only the snapshots of the tasks that it follows.
    pub(super) fn of_follower(contract: u32) -> Self {
        Self {
            capabilities: vec![ONLY_FOLLOWED.to_owned()],
            ..Self::ours(contract)
        }
    }

    /// Whether it wants only the snapshots of the tasks that it follows.
    pub(super) fn wants_only_followed(&self) -> bool {
        self.capabilities.iter().any(|it| it == ONLY_FOLLOWED)
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verb {
    /// Asks for a [`KeeperStatus`].
    Status,
    /// Asks a keeper to save everything and exit; it hangs up when that is done.
    Stop,
    /// Asks a keeper to become another program.
    Upgrade(UpgradeRequest),
    /// Asks for the [`TaskConnections`]. A driver of another contract may answer differently, or hang up.
    Connections,
}

/// What only the driver of a session knows about its unfinished tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskConnections {
    /// Their connections.
    pub tasks: BTreeMap<TaskId, Connectivity>,
    /// How many tasks have changed since they could be saved.
    pub unsaved: usize,
    /// Why they could not be saved.
    pub unsaved_why: Option<String>,
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
    /// Tasks that have not ended, or whose end is not on disk.
    pub unsettled: usize,
    /// Of them, those whose newest changes could not be saved; 0 from a keeper of an older version.
    #[serde(default)]
    pub unsaved: usize,
    /// Why they could not be saved.
    #[serde(default)]
    pub unsaved_why: Option<String>,
    /// Connected clients.
    pub clients: usize,
}

/// A client's request to upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeRequest {
    /// The new program.
    pub program: PathBuf,
    /// Whether calls that can't be continued are lost.
    pub is_forced: bool,
}

/// A call that would not survive an upgrade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldCall {
    /// The task.
    pub id: TaskId,
    /// What it is called.
    pub title: String,
    /// Why nothing leads back to it.
    pub reason: String,
}

/// A keeper that was upgraded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upgraded {
    /// The new one.
    pub status: KeeperStatus,
    /// How long nothing was read or sent.
    pub paused_ms: u64,
}

/// The answer to a verb.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VerbAnswer {
    /// To [`Verb::Status`].
    Status(KeeperStatus),
    /// To [`Verb::Connections`].
    Connections(TaskConnections),
    /// To [`Verb::Stop`]: it is stopping now.
    Stopping(KeeperStatus),
    /// To [`Verb::Stop`] and [`Verb::Upgrade`]: the driver is not a keeper, so only its own user can stop it.
    NotAKeeper(KeeperStatus),
    /// To [`Verb::Upgrade`].
    #[serde(untagged)]
    Upgrade(UpgradeOutcome),
}

/// How an upgrade went.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpgradeOutcome {
    /// Another program drives the session now; it says so itself.
    Upgraded(Upgraded),
    /// Nothing leads back to these calls, so the keeper stays as it is.
    Held(Vec<HeldCall>),
    /// The keeper stays as it is.
    NotUpgraded {
        /// The reason.
        why: String,
        /// Whether it may work a moment later.
        is_passing: bool,
    },
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
