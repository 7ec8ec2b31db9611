//! Labels and numbers for rows: a glyph, a text and a role for each state, and compact number formats.

use core::time::Duration;

use crate::{
    app::{State, TaskRow, time_left},
    domain::{
        Connectivity, ControlKind, LinkState, LostReason, Progress, ServerView, Stamp, Status,
        Task, UnknownReason, Wall, text,
    },
    ui::{Glyphs, Role},
};

/// A state as displayed: glyph and text, never color alone.
pub(crate) struct StateLabel {
    pub(crate) glyph: &'static str,
    pub(crate) text: String,
    pub(crate) role: Role,
}

impl StateLabel {
    fn new(glyph: &'static str, text: impl Into<String>, role: Role) -> Self {
        Self {
            glyph,
            text: text.into(),
            role,
        }
    }
}

/// `8s`, `12m`: a compact age.
pub(crate) fn brief(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// `2.1 s`, and from ten seconds as [`text::span`].
pub(crate) fn fine(age: Duration) -> String {
    match age.as_secs() {
        0..10 => format!("{:.1} s", age.as_secs_f64()),
        _ => text::span(age),
    }
}

/// The state of a task: its status, or the connection's state while it runs.
pub(crate) fn state_of(
    state: &State,
    task_row: &TaskRow,
    glyphs: &'static Glyphs,
    now: Stamp,
) -> StateLabel {
    let task = &task_row.view.task;
    let contact = task_row.view.contact.at(now);
    match &task.status {
        Status::Completed => {
            return StateLabel::new(glyphs.done, task.status.row_label(), Role::Done);
        }
        Status::Failed => return StateLabel::new(glyphs.failed, "failed", Role::Failed),
        Status::Cancelled => {
            return StateLabel::new(glyphs.cancelled, "cancelled", Role::Cancelled);
        }
        Status::Lost(_) => return StateLabel::new(glyphs.lost, "lost", Role::Failed),
        Status::Unknown(_) => return StateLabel::new(glyphs.unknown, "unknown", Role::Needs),
        Status::InputRequired => {
            let asked_at = task.open_question().map(|question| question.asked_at);
            let age = brief(now.wall.since(asked_at.unwrap_or(task.updated_at)));
            let text = task.status.row_label();
            return StateLabel::new(glyphs.asks, format!("{text} {age}"), Role::Needs);
        }
        Status::Paused | Status::Running => {}
    }
    if let Connectivity::Unwatched { .. } = contact {
        let text = format!("{}?", task.status.label());
        return StateLabel::new(glyphs.restored, text, Role::Waiting);
    }
    if let Some(asked) = task.control {
        let age = brief(now.wall.since(asked.at));
        let text = match asked.what {
            // The age would not fit into the column.
            ControlKind::Cancelling => asked.what.label().to_owned(),
            other => format!("{} {age}", other.label()),
        };
        return StateLabel::new(glyphs.paused, text, Role::Warning);
    }
    match contact {
        Connectivity::NeedsLogin => {
            let server = state.server(&task.server);
            // The PROGRESS column says what is needed if it is not a sign-in.
            let wants_other = server.is_some_and(|server| {
                let is_other = match server.state {
                    LinkState::NeedsLogin { takes_sign_in, .. } => !takes_sign_in,
                    LinkState::NotStarted { .. } => true,
                    _ => false,
                };
                server.obstacle.is_some() || is_other
            });
            let text = if wants_other { "waiting" } else { "sign in" };
            StateLabel::new(glyphs.asks, text, Role::Needs)
        }
        Connectivity::Reconnecting { .. } if !task.is_queued() => {
            StateLabel::new(glyphs.reconnecting, contact.label(), Role::Warning)
        }
        Connectivity::Reconnecting { .. } | Connectivity::Offline { .. } if task.is_queued() => {
            StateLabel::new(glyphs.offline, Task::QUEUED, Role::Warning)
        }
        Connectivity::Offline { since, .. } => {
            let age = brief(now.wall.since(since));
            StateLabel::new(glyphs.offline, format!("offline {age}"), Role::Warning)
        }
        _ if task.status == Status::Paused => {
            StateLabel::new(glyphs.paused, "paused", Role::Waiting)
        }
        Connectivity::Quiet { last_byte } => {
            let age = brief(now.wall.since(last_byte));
            StateLabel::new(glyphs.running, format!("quiet {age}"), Role::Running)
        }
        _ if task.is_queued() => StateLabel::new(glyphs.restored, Task::QUEUED, Role::Waiting),
        _ => StateLabel::new(glyphs.running, "running", Role::Running),
    }
}

/// Why a task is lost, short enough for a row; the detail pane shows the full reason.
pub(crate) fn lost(reason: &LostReason) -> &'static str {
    match reason {
        LostReason::SessionGone { .. } => "MCP session gone",
        LostReason::ReplayGone { .. } => "events expired",
        LostReason::CancelledByDisconnect { .. } => "connection closed",
        LostReason::ProcessEnded { .. } => "server process ended",
        LostReason::TooMuch { .. } => "too much data at once",
        LostReason::TaskGone { .. } => "server task gone",
        LostReason::TaskExpired => "expired",
        LostReason::Removed => "removed while running",
        LostReason::GivenUp => "you marked it as lost",
    }
}

/// Why a task's state is unknown, short enough for a row.
pub(crate) fn unknown(window: &UnknownReason) -> String {
    match window {
        UnknownReason::BeforeFirstId => "may have run".to_owned(),
        UnknownReason::NoIds => "no event ids".to_owned(),
        UnknownReason::NoReplay => "can't be resumed".to_owned(),
        UnknownReason::HttpStatus(status) => format!("HTTP {status}"),
        UnknownReason::NotMcp(media) => format!("{:.60}, not MCP", text::clean_line(media)),
        UnknownReason::BadResponse { .. } => "bad response".to_owned(),
        UnknownReason::BeforeTaskId => "may still be running".to_owned(),
        UnknownReason::NoCheckpoint => "no checkpoint".to_owned(),
    }
}

/// The time of the next connection attempt, while the connection is lost.
pub(crate) fn next_try(contact: &Connectivity) -> Option<Wall> {
    match contact {
        Connectivity::Reconnecting { next, .. } | Connectivity::Offline { next, .. } => Some(*next),
        _ => None,
    }
}

/// The state of a server, and its rank: servers with a low one need attention.
pub(crate) fn server(
    state: &State,
    server: &ServerView,
    glyphs: &'static Glyphs,
    now: Stamp,
) -> (u8, StateLabel) {
    let needs = |text: &str| (0, StateLabel::new(glyphs.asks, text, Role::Needs));
    if let Some(obstacle) = &server.obstacle {
        return needs(&obstacle.message());
    }
    match &server.state {
        LinkState::Idle => idle(glyphs),
        LinkState::Live => live(state, server, glyphs, now),
        LinkState::Connecting => {
            let label = StateLabel::new(glyphs.reconnecting, "connecting", Role::Warning);
            (2, label)
        }
        LinkState::Down { next, .. } => {
            let left = time_left(*next, now);
            let text = left.map_or("retrying".to_owned(), |left| format!("retry in {left}"));
            let label = StateLabel::new(glyphs.reconnecting, text, Role::Warning);
            (1, label)
        }
        LinkState::NeedsLogin {
            takes_sign_in: true,
            ..
        } => needs("needs sign-in"),
        LinkState::NeedsLogin { .. } => needs("needs credentials"),
        LinkState::NotStarted {
            is_approved: true, ..
        } => needs("not started"),
        LinkState::NotStarted { .. } => needs("not approved"),
    }
}

fn idle(glyphs: &'static Glyphs) -> (u8, StateLabel) {
    (4, StateLabel::new(glyphs.offline, "idle", Role::Dim))
}

/// The maximum number of open calls examined per frame.
const MAX_EXAMINED: usize = 1_000;

/// The state of a connected server, derived from its open calls.
fn live(
    state: &State,
    server: &ServerView,
    glyphs: &'static Glyphs,
    now: Stamp,
) -> (u8, StateLabel) {
    let live = || (3, StateLabel::new(glyphs.running, "live", Role::Done));
    let (mut quiet, mut is_disconnected, mut is_any) = (None::<Duration>, false, false);
    let open = state.open_tasks().take(MAX_EXAMINED);
    for task_row in open.filter(|task_row| task_row.view.task.server == server.name) {
        is_any = true;
        match task_row.view.contact.at(now) {
            Connectivity::Quiet { last_byte } => {
                let age = now.wall.since(last_byte);
                quiet = Some(quiet.map_or(age, |known| known.min(age)));
            }
            Connectivity::Reconnecting { .. } | Connectivity::Offline { .. } => {
                is_disconnected = true;
            }
            Connectivity::Live { .. }
            | Connectivity::Idle
            | Connectivity::NeedsLogin
            | Connectivity::Unwatched { .. } => return live(),
        }
    }
    match quiet {
        Some(age) => {
            let text = format!("quiet {}", brief(age));
            (2, StateLabel::new(glyphs.running, text, Role::Running))
        }
        None if is_disconnected => {
            let label = StateLabel::new(glyphs.reconnecting, "reconnecting", Role::Warning);
            (1, label)
        }
        None if is_any => live(),
        None => idle(glyphs),
    }
}

/// `30/50`, or `41` without a total; shortened (`2.1k/4.6k`) if it would not fit beside a bar.
pub(crate) fn count(progress: &Progress) -> String {
    const ROOM: usize = 9;
    let Some(total) = progress.total else {
        return text::amount(progress.value);
    };
    let whole = format!("{}/{}", text::amount(progress.value), text::amount(total));
    if whole.len() <= ROOM {
        whole
    } else {
        format!("{}/{}", short(progress.value), short(total))
    }
}

/// `140`, `2.1k`, `45.6k`, `1.2M`.
fn short(value: f64) -> String {
    match value {
        1_000.0..10_000.0 => format!("{:.1}k", value / 1e3),
        10_000.0..1e6 => format!("{:.0}k", value / 1e3),
        1e6..1e9 => format!("{:.0}M", value / 1e6),
        1e9..1e12 => format!("{:.0}G", value / 1e9),
        1e12..1e15 => format!("{:.0}T", value / 1e12),
        _ if value >= 1e15 => format!("{:.0}P", value / 1e15),
        _ => text::amount(value),
    }
}

/// `5.0/s`, `12/min`.
pub(crate) fn rate(rate: f64) -> String {
    if rate >= 0.1 {
        format!("{rate:.1}/s")
    } else {
        format!("{:.1}/min", rate * 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped_and_shortened() {
        assert_eq!(text::amount(1_000.0), "1,000");
        assert_eq!(text::amount(2.5), "2.5");
        assert_eq!(text::amount(21_000.0), "21.0k");
        let count = |value, total| count(&Progress::reported(value, Some(total), None).unwrap());
        assert_eq!(count(140.0, 1_000.0), "140/1,000");
        assert_eq!(count(2_100.0, 4_600.0), "2.1k/4.6k");
        assert_eq!(count(12_345.0, 456_789.0), "12k/457k");
        assert_eq!(count(1.5, 2e15), "1.5/2.0P");
    }

    #[test]
    fn countdown_never_shows_zero_seconds() {
        let now = Stamp::default();
        assert_eq!(time_left(Wall(1), now).as_deref(), Some("1 s"));
        assert_eq!(time_left(Wall(4_000), now).as_deref(), Some("4 s"));
        assert_eq!(time_left(Wall(0), now), None);
    }
}
