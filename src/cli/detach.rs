//! Whether a call can be left now.

use std::{sync::Arc, time::Duration};

use crate::domain::{Connectivity, LeaveImpact, Phase, TaskView, text};

/// How long `--detach` waits before it says why. Most calls can be left after a moment.
pub(in crate::cli) const SILENT_WAIT: Duration = Duration::from_secs(1);

/// What to print while a call cannot be left yet.
pub(in crate::cli) fn detach_wait_message(
    leaving: Option<&LeaveImpact>,
    is_driver: bool,
    waited: Duration,
) -> Option<String> {
    let Some(LeaveImpact::Dies { why }) = leaving else {
        return None;
    };
    (waited >= SILENT_WAIT).then(|| {
        if is_driver {
            format!(
                "waiting: quitting now would end it ({}); press Ctrl-C twice to quit anyway",
                text::clean_line(why)
            )
        } else {
            // Only the driver's exit ends a call.
            "waiting until the call is sent; another longhaul drives it, so Ctrl-C quits without ending it"
                .to_owned()
        }
    })
}

/// Whether quitting leaves the call running.
pub(in crate::cli) enum DetachState {
    NotYet,
    Now,
    /// Quitting always ends it, for this reason.
    Never(String),
    Refused,
}

pub(in crate::cli) fn detach_state(view: &Arc<TaskView>, is_driver: bool) -> DetachState {
    let phase = view.task.attempt().map(|attempt| attempt.phase);
    match (&view.leaving, phase) {
        _ if view.task.error.is_some() => DetachState::Refused,
        // The driver stays and sends it when it can.
        (_, Some(Phase::Queued) | None) if !is_driver => match view.contact {
            Connectivity::Offline { .. } => DetachState::Now,
            _ => DetachState::NotYet,
        },
        _ if !is_driver => DetachState::Now,
        // Certain once the first event came without an id.
        (Some(LeaveImpact::Dies { why }), Some(Phase::Open))
            if view.task.resumability.stream == Some(false) =>
        {
            DetachState::Never(why.clone())
        }
        (Some(LeaveImpact::Dies { .. }), _) => DetachState::NotYet,
        _ if view.task.status.ends_waiting() => DetachState::Now,
        (_, Some(Phase::Queued) | None) => DetachState::NotYet,
        _ => DetachState::Now,
    }
}
