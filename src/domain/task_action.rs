//! Whether a task can be paused, resumed or cancelled, and why not: the one place that decides it.

use super::{ControlKind, Status, Task};

/// Why a task can't be paused, resumed or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionRefusal {
    /// It has ended.
    Settled,
    /// It is already paused.
    AlreadyPaused,
    /// Its call is not sent yet, so nothing runs.
    NotStarted,
    /// It continues once its question is answered. On the screen, the key only says so; a link accepts the request and
    /// at least retries the connection.
    WaitsForAnswer,
    /// It is unknown whether it runs.
    Unknown,
    /// The server has no pause tool.
    NoPauseTool,
    /// The tool keeps no checkpoint to pause at.
    NoCheckpoint,
    /// The server session that it ran in is gone.
    SessionGone,
    /// The server is spoken to in an era without sessions, so a stream of a session can't be resumed.
    SessionlessEra,
    /// There is neither a checkpoint nor an event id to look for it by.
    NoWayBack,
}

/// What the link of a task knows about its server.
#[derive(Clone, Copy, Debug)]
pub struct ServerSupport {
    /// Whether the server has the pause tool of the checkpoint convention.
    pub has_pause_tool: bool,
    /// Whether the session that the task ran in is gone.
    pub is_session_gone: bool,
    /// Whether the task's call was made in a session, and the server is now spoken to without one.
    pub has_left_session: bool,
}

impl Task {
    /// Why the task refuses this, by what is known of the task alone. A link can refuse for reasons of its server too.
    pub fn refusal(&self, what: ControlKind) -> Option<ActionRefusal> {
        match (what, &self.status) {
            (_, status) if status.is_settled() => Some(ActionRefusal::Settled),
            (ControlKind::Pausing, Status::Paused) => Some(ActionRefusal::AlreadyPaused),
            (ControlKind::Pausing, Status::Unknown(_)) => Some(ActionRefusal::Unknown),
            (ControlKind::Pausing | ControlKind::Resuming, Status::InputRequired) => {
                Some(ActionRefusal::WaitsForAnswer)
            }
            (ControlKind::Pausing, _) if self.is_queued() => Some(ActionRefusal::NotStarted),
            _ => None,
        }
    }

    /// Whether it can be removed from the list: nothing runs, or the server did not respond to its cancel.
    pub fn can_be_removed(&self) -> bool {
        let was_cancelled = self.attempt().is_some_and(|it| it.was_cancelled);
        match self.status {
            Status::Running | Status::InputRequired => was_cancelled && self.control.is_none(),
            _ => true,
        }
    }

    /// Why the task's link refuses this.
    pub fn refusal_at(&self, what: ControlKind, server: &ServerSupport) -> Option<ActionRefusal> {
        let has_checkpoint = self.resumability.checkpoint;
        let is_unknown = matches!(self.status, Status::Unknown(_));
        let attempt = self.attempt();
        let newest = attempt.and_then(|attempt| attempt.cursors.newest.as_ref());
        let by_task = self.refusal(what);
        let by_task = by_task.filter(|refusal| *refusal != ActionRefusal::WaitsForAnswer);
        by_task.or(match what {
            ControlKind::Pausing if !server.has_pause_tool => Some(ActionRefusal::NoPauseTool),
            ControlKind::Pausing if !has_checkpoint => Some(ActionRefusal::NoCheckpoint),
            ControlKind::Cancelling if is_unknown && server.is_session_gone && !has_checkpoint => {
                Some(ActionRefusal::SessionGone)
            }
            ControlKind::Resuming if !is_unknown || has_checkpoint => None,
            ControlKind::Resuming if server.has_left_session => Some(ActionRefusal::SessionlessEra),
            ControlKind::Resuming if newest.is_none() => Some(ActionRefusal::NoWayBack),
            ControlKind::Resuming if server.is_session_gone => Some(ActionRefusal::SessionGone),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{NewCall, ServerName, TaskId, UnknownReason, Wall};

    fn task(status: Status) -> Task {
        let server = ServerName::new("lab");
        let id = TaskId::from_bits(1);
        let call = NewCall::new(id, server, "work".to_owned(), "{}".to_owned());
        let mut task = Task::new(Wall(0), call);
        task.status = status;
        task
    }

    const ABLE: ServerSupport = ServerSupport {
        has_pause_tool: true,
        is_session_gone: false,
        has_left_session: false,
    };

    #[test]
    fn settled_tasks_refuse_every_action() {
        for what in [
            ControlKind::Pausing,
            ControlKind::Resuming,
            ControlKind::Cancelling,
        ] {
            let refusal = task(Status::Completed).refusal(what);
            assert_eq!(refusal, Some(ActionRefusal::Settled));
        }
    }

    #[test]
    fn pausing_needs_a_pause_tool_and_a_checkpoint() {
        let mut task = task(Status::Running);
        let without_tool = ServerSupport {
            has_pause_tool: false,
            ..ABLE
        };
        let pausing = ControlKind::Pausing;
        assert_eq!(
            task.refusal_at(pausing, &without_tool),
            Some(ActionRefusal::NoPauseTool)
        );
        assert_eq!(
            task.refusal_at(pausing, &ABLE),
            Some(ActionRefusal::NoCheckpoint)
        );
        task.resumability.checkpoint = true;
        assert_eq!(task.refusal_at(pausing, &ABLE), None);
        task.status = Status::Paused;
        assert_eq!(
            task.refusal_at(pausing, &ABLE),
            Some(ActionRefusal::AlreadyPaused)
        );
    }

    #[test]
    fn unknown_tasks_need_a_way_back_to_be_resumed() {
        let mut task = task(Status::Unknown(UnknownReason::BeforeFirstId));
        let resuming = ControlKind::Resuming;
        assert_eq!(
            task.refusal_at(resuming, &ABLE),
            Some(ActionRefusal::NoWayBack)
        );
        task.resumability.checkpoint = true;
        assert_eq!(task.refusal_at(resuming, &ABLE), None);
    }

    #[test]
    fn unknown_tasks_of_a_lost_session_cannot_be_cancelled() {
        let task = task(Status::Unknown(UnknownReason::BeforeFirstId));
        let gone = ServerSupport {
            is_session_gone: true,
            ..ABLE
        };
        let cancelling = ControlKind::Cancelling;
        assert_eq!(
            task.refusal_at(cancelling, &gone),
            Some(ActionRefusal::SessionGone)
        );
        assert_eq!(task.refusal_at(cancelling, &ABLE), None);
    }
}
