//! Whether a call can be left now.

use std::{sync::Arc, time::Duration};

use crate::domain::{Connectivity, IfCut, Phase, TaskErrorKind, TaskView};

/// How long `--detach` waits before it says why. Most calls can be left after a moment.
pub(super) const SILENT_WAIT: Duration = Duration::from_secs(1);

/// What to print while a call cannot be left yet.
pub(super) fn detach_wait_message(
    if_cut: Option<&IfCut>,
    is_driver: bool,
    waited: Duration,
) -> Option<String> {
    let if_cut = if_cut.filter(|if_cut| if_cut.is_lost())?;
    (waited >= SILENT_WAIT).then(|| {
        if is_driver {
            format!(
                "waiting, because quitting now would lose the call ({}); press Ctrl-C twice to quit anyway",
                if_cut.reason.message()
            )
        } else {
            // Only the exit of the driver ends a call.
            "waiting until the call is sent; press Ctrl-C to quit (the call is kept)".to_owned()
        }
    })
}

/// Whether quitting leaves the call running.
pub(super) enum DetachState {
    NotYet,
    Now,
    /// Quitting always ends it, for this reason.
    Never(String),
    Refused,
}

pub(super) fn detach_state(view: &Arc<TaskView>, is_driver: bool) -> DetachState {
    let phase = view.task.attempt().map(|attempt| attempt.phase);
    let error = view.task.end.error.as_ref().map(|error| error.kind);
    match (&view.if_cut, phase) {
        _ if matches!(
            error,
            Some(TaskErrorKind::Refused | TaskErrorKind::Unreachable)
        ) =>
        {
            DetachState::Refused
        }
        // The driver stays and sends it when it can.
        (_, Some(Phase::Queued) | None) if !is_driver => match view.contact {
            Connectivity::Offline { .. } | Connectivity::NeedsLogin => DetachState::Now,
            _ => DetachState::NotYet,
        },
        _ if !is_driver => DetachState::Now,
        // Certain once the first event came without an id.
        (Some(if_cut), Some(Phase::Open))
            if if_cut.is_lost() && view.task.resumability.stream == Some(false) =>
        {
            DetachState::Never(if_cut.reason.message())
        }
        (Some(if_cut), _) if if_cut.is_lost() => DetachState::NotYet,
        _ if view.task.status.ends_waiting() => DetachState::Now,
        (_, Some(Phase::Queued) | None) => DetachState::NotYet,
        _ => DetachState::Now,
    }
}
