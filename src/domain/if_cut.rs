//! What happens to a call's work if its connection breaks for good on our side: at a reboot, if the keeper is killed, or,
//! without a keeper, when this process ends.

use serde::{Deserialize, Serialize};

use super::{
    Era, EraReason, Phase, ProtocolVersion, ServerCapabilities, ServerTask, Status, Task, TaskKind,
    TaskSupport, Tool, Wall, text,
};

/// What happens to the work of a call, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CutOutcome {
    /// The work or its result is lost.
    Lost,
    /// The server keeps working, but keeps what we miss for an unknown time.
    Likely,
    /// The server stops at a checkpoint, and longhaul continues from there.
    Pauses,
    /// The server keeps working, and longhaul finds the call again.
    Continues,
}

impl CutOutcome {
    /// The word for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Lost => "LOST",
            other => other.code(),
        }
    }

    /// The word for programs.
    pub fn code(self) -> &'static str {
        self.into()
    }
}

/// Why a cut has its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum CutReason {
    /// Nothing was sent yet; longhaul sends it later.
    NotSent,
    /// The server waits for an answer and holds nothing open.
    AwaitsAnswer,
    /// The tool has a checkpoint and works on without its connection.
    Checkpoint {
        /// The last known step, if there is one.
        step: Option<f64>,
    },
    /// A task of the tasks extension.
    ServerTask,
    /// A task that survives the session it was started in.
    UnboundTask,
    /// The last call of this tool ran as a server task.
    RanAsTask,
    /// The task is paused at a checkpoint.
    AlreadyPaused,
    /// The tool has a checkpoint and stops when its connection ends.
    CheckpointOfConnection {
        /// The last known step, if there is one.
        step: Option<f64>,
    },
    /// The server stores the events of the stream.
    EventStore,
    /// A task that the server may end with its session.
    SessionTask,
    /// A server task that is older than its time to live.
    ExpiredTask,
    /// longhaul runs the server's process.
    ServerProcess,
    /// A plain call in a revision in which a closed connection cancels the call.
    ModernCall,
    /// The last call of this tool was plain, and a closed connection cancels it.
    RanPlain,
    /// The server decides whether the call becomes a task.
    MayBeTask,
    /// The transport of 2024-11-05 can't resume.
    HttpSse,
    /// The stream is open, and the server no longer knows the MCP session in which it could be resumed.
    SessionGone,
    /// The stream's events have no ids.
    NoEventIds,
    /// The stream has no event id yet.
    NoEventIdYet,
    /// The server has not answered yet.
    NoResponseYet,
    /// The server was never asked for a stream.
    NotKnown,
}

impl CutReason {
    /// What it means for the work.
    pub fn outcome(&self) -> CutOutcome {
        match self {
            Self::NotSent
            | Self::AwaitsAnswer
            | Self::Checkpoint { .. }
            | Self::ServerTask
            | Self::UnboundTask
            | Self::RanAsTask => CutOutcome::Continues,
            Self::AlreadyPaused | Self::CheckpointOfConnection { .. } => CutOutcome::Pauses,
            Self::EventStore | Self::SessionTask | Self::ExpiredTask => CutOutcome::Likely,
            Self::ServerProcess
            | Self::ModernCall
            | Self::RanPlain
            | Self::MayBeTask
            | Self::HttpSse
            | Self::SessionGone
            | Self::NoEventIds
            | Self::NoEventIdYet
            | Self::NoResponseYet
            | Self::NotKnown => CutOutcome::Lost,
        }
    }

    /// The reason for programs, in `snake_case`: its name in saved data.
    pub fn code(&self) -> String {
        let saved = serde_json::to_value(self).unwrap_or_default();
        let code = saved.get("is").and_then(serde_json::Value::as_str);
        code.unwrap_or_default().to_owned()
    }

    /// The reason for people: a fragment that follows the outcome and a colon.
    pub fn message(&self) -> String {
        let fixed = match self {
            Self::Checkpoint { step: Some(step) } => {
                let step = text::amount(*step);
                return format!("the server keeps working; its checkpoint is at step {step}");
            }
            Self::CheckpointOfConnection { step: Some(step) } => {
                let step = text::amount(*step);
                return format!(
                    "MCP 2026-07-28 ends a call when its connection closes; longhaul continues from step {step}"
                );
            }
            Self::NotSent => "not sent yet; longhaul will send it later",
            Self::AwaitsAnswer => "nothing is running; the question stays until you answer it",
            Self::Checkpoint { step: None } => "the tool keeps a checkpoint on the server",
            Self::ServerTask => {
                "the server runs the call as a task, which longhaul finds by its id"
            }
            Self::UnboundTask => "a server task, which outlives the MCP session",
            Self::RanAsTask => "the last call to this tool ran as a server task",
            Self::AlreadyPaused => "the call is paused, and the server keeps the checkpoint",
            Self::CheckpointOfConnection { step: None } => {
                "MCP 2026-07-28 ends a call when its connection closes; the checkpoint stays on the server"
            }
            Self::EventStore => {
                "resumable as long as the server keeps the events and the MCP session"
            }
            Self::SessionTask => "resumable unless the task ends when its MCP session does",
            Self::ExpiredTask => "server task; its TTL has expired",
            Self::ServerProcess => "this server is a child process of longhaul and ends with it",
            Self::ModernCall => {
                "with MCP 2026-07-28, closing the connection cancels a call that isn't a server task"
            }
            Self::RanPlain => {
                "the last call to this tool wasn't a server task, and closing the connection cancels such a call"
            }
            Self::MayBeTask => {
                "a lost connection cancels the call, unless the server runs it as a task"
            }
            Self::HttpSse => "this server uses HTTP+SSE (2024-11-05), which can't be resumed",
            Self::SessionGone => {
                "the server no longer knows the MCP session; only the open stream can bring the result"
            }
            Self::NoEventIds => "the stream's events have no ids, so the call can't be resumed",
            Self::NoEventIdYet => "no event id received yet, so the call can't be resumed",
            Self::NoResponseYet => "the server hasn't answered yet, so the call can't be resumed",
            Self::NotKnown => "assumed until the server sends event ids",
        };
        fixed.to_owned()
    }
}

/// What a cut would do to a call; every view and command uses the same values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IfCut {
    /// Why; it determines the outcome.
    pub reason: CutReason,
    /// When the server may forget the call, if known.
    pub until: Option<Wall>,
}

impl From<CutReason> for IfCut {
    fn from(reason: CutReason) -> Self {
        Self {
            reason,
            until: None,
        }
    }
}

impl IfCut {
    /// The reason for people, with the time after which the server may forget the call.
    pub fn message(&self, show_time: impl FnOnce(Wall) -> String) -> String {
        let why = self.reason.message();
        let what = match self.reason {
            CutReason::EventStore => "the events",
            _ => "the task",
        };
        match self.until.map(show_time) {
            Some(until) => format!("{why}; the server may delete {what} after about {until}"),
            None => why,
        }
    }

    /// What a cut would do to a task, judged by its record; `None` if the task has settled or is unknown.
    pub fn of_task(task: &Task) -> Option<Self> {
        match &task.status {
            status if status.is_settled() => return None,
            // Not connected anyway, and the user has to decide what became of it.
            Status::Unknown(_) => return None,
            Status::Paused => return Some(CutReason::AlreadyPaused.into()),
            _ => {}
        }
        let Some(attempt) = task.attempt() else {
            return Some(CutReason::NotSent.into());
        };
        if attempt.is_of_process && attempt.phase != Phase::Queued {
            return Some(CutReason::ServerProcess.into());
        }
        if let Some(server_task) = &task.server_task {
            return Some(Self::of_server_task(server_task));
        }
        if task.status == Status::InputRequired && task.waits_in_round() {
            return Some(CutReason::AwaitsAnswer.into());
        }
        let era = attempt.version.map(ProtocolVersion::era);
        let was_received = attempt.phase >= Phase::Open || attempt.number > 1;
        let step = task.progress.as_ref().map(|progress| progress.value);
        let reason = match attempt.phase {
            Phase::Queued if attempt.number == 1 || !task.resumability.checkpoint => {
                CutReason::NotSent
            }
            _ if task.resumability.checkpoint && was_received => {
                if era == Some(Era::Modern) {
                    CutReason::CheckpointOfConnection { step }
                } else {
                    CutReason::Checkpoint { step }
                }
            }
            // Without a step, the server may still answer that it runs the call as a task.
            _ if era == Some(Era::Modern) && attempt.last_value.is_none() => CutReason::MayBeTask,
            _ if era == Some(Era::Modern) => CutReason::ModernCall,
            _ if attempt.version == Some(ProtocolVersion::V20241105) => CutReason::HttpSse,
            _ if attempt.cursors.is_session_gone => CutReason::SessionGone,
            _ if attempt.cursors.newest.is_some() => CutReason::EventStore,
            Phase::Open if task.resumability.stream == Some(false) => CutReason::NoEventIds,
            Phase::Open => CutReason::NoEventIdYet,
            _ => CutReason::NoResponseYet,
        };
        Some(reason.into())
    }

    /// The same at `now`: an `until` in the past becomes [`CutReason::ExpiredTask`].
    #[must_use]
    pub fn at(self, now: Wall) -> Self {
        match self.until {
            Some(until) if until <= now => CutReason::ExpiredTask.into(),
            _ => self,
        }
    }

    /// What to expect of a call of `tool`, before anything is sent. `tools` are all tools of the server.
    pub fn of_call(tool: &Tool, tools: &[Tool], capabilities: &ServerCapabilities) -> Self {
        if capabilities.is_process {
            return CutReason::ServerProcess.into();
        }
        let keeps_checkpoint = tool.keeps_checkpoint(tools, &capabilities.convention);
        let (era, reason) = capabilities.era_of(&tool.name, Some(tool), keeps_checkpoint);
        match era {
            Era::Modern if keeps_checkpoint && reason != EraReason::CanBeTask => {
                return CutReason::CheckpointOfConnection { step: None }.into();
            }
            Era::Stateful if keeps_checkpoint => {
                return CutReason::Checkpoint { step: None }.into();
            }
            Era::Modern => {
                let ran = capabilities.ran_as_task.get(&tool.name);
                return match ran {
                    _ if !capabilities.has_extension() => CutReason::ModernCall,
                    Some(true) => CutReason::RanAsTask,
                    Some(false) => CutReason::RanPlain,
                    None => CutReason::MayBeTask,
                }
                .into();
            }
            Era::Stateful => {}
        }
        if capabilities.version == Some(ProtocolVersion::V20241105) {
            return CutReason::HttpSse.into();
        }
        if capabilities.tasks.is_some() && tool.task_support != TaskSupport::Forbidden {
            return Self::of_core_task(capabilities.binds_tasks, None);
        }
        match capabilities.gives_ids_of(&tool.name) {
            Some(true) => CutReason::EventStore,
            Some(false) => CutReason::NoEventIds,
            None => CutReason::NotKnown,
        }
        .into()
    }

    fn of_core_task(binds_tasks: Option<bool>, until: Option<Wall>) -> Self {
        let reason = if binds_tasks == Some(false) {
            CutReason::UnboundTask
        } else {
            CutReason::SessionTask
        };
        Self { reason, until }
    }

    fn of_server_task(task: &ServerTask) -> Self {
        match task.kind {
            TaskKind::Core => Self::of_core_task(task.is_bound.or(Some(true)), task.expires_at()),
            TaskKind::Extension => Self {
                reason: CutReason::ServerTask,
                until: task.expires_at(),
            },
        }
    }

    /// What happens to the work.
    pub fn outcome(&self) -> CutOutcome {
        self.reason.outcome()
    }

    /// The outcome's word for people.
    pub fn label(&self) -> &'static str {
        self.outcome().label()
    }

    /// Whether a cut loses the call or its result.
    pub fn is_lost(&self) -> bool {
        self.outcome() == CutOutcome::Lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_past_its_time_to_live_is_only_likely() {
        let bound = IfCut::of_core_task(Some(true), Some(Wall(5_000)));
        assert_eq!(bound.clone().at(Wall(4_999)), bound);
        assert_eq!(bound.at(Wall(5_000)), CutReason::ExpiredTask.into());
        let unbound = IfCut::of_core_task(Some(false), Some(Wall(5_000)));
        assert_eq!(unbound.at(Wall(5_000)).outcome(), CutOutcome::Likely);
    }

    #[test]
    fn codes_are_those_of_the_saved_form() {
        for reason in [
            CutReason::NotSent,
            CutReason::NoEventIdYet,
            CutReason::HttpSse,
        ] {
            let json = serde_json::to_value(&reason).unwrap();
            assert_eq!(json["is"], reason.code());
        }
    }
}
