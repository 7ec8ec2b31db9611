//! The words and numbers of a row: a sign, a word and a meaning for each state.

use core::time::Duration;

use crate::{
    app::{State, TaskRow, until},
    domain::{
        Connectivity, ControlKind, LinkState, LostReason, Progress, ServerView, Stamp, Status,
        Wall, Window, text, whole_percent,
    },
};

use super::{glyphs::Glyphs, theme::Role};

/// A state as it is shown: never a colour alone.
pub(crate) struct Shown {
    pub(crate) glyph: &'static str,
    pub(crate) word: String,
    pub(crate) role: Role,
}

impl Shown {
    fn new(glyph: &'static str, word: impl Into<String>, role: Role) -> Self {
        Self {
            glyph,
            word: word.into(),
            role,
        }
    }
}

/// `8s`, `12 m`: an age that fits beside a word.
pub(crate) fn brief(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..100 => format!("{seconds}s"),
        seconds @ 100..6_000 => format!("{}m", seconds / 60),
        seconds @ 6_000..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// `40 s`, `12 m`, `3 h`: an age of which only the order of magnitude matters.
fn coarse(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} m", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// The state of a task.
pub(crate) fn state_of(
    state: &State,
    task_row: &TaskRow,
    glyphs: &'static Glyphs,
    now: Stamp,
) -> Shown {
    let task = &task_row.view.task;
    let contact = task_row.view.contact.at(now);
    match &task.status {
        Status::Completed => {
            return Shown::new(glyphs.done, task.status.row_word(), Role::Done);
        }
        Status::Failed => return Shown::new(glyphs.failed, "failed", Role::Failed),
        Status::Cancelled => return Shown::new(glyphs.cancelled, "cancelled", Role::Cancelled),
        Status::Lost(_) => return Shown::new(glyphs.lost, "lost", Role::Failed),
        Status::Unknown(_) => return Shown::new(glyphs.unknown, "unknown", Role::Needs),
        Status::InputRequired => {
            let asked_at = task.open_question().map(|question| question.asked_at);
            let age = coarse(now.wall.since(asked_at.unwrap_or(task.updated_at)));
            let word = task.status.row_word();
            return Shown::new(glyphs.asks, format!("{word} {age}"), Role::Needs);
        }
        Status::Paused | Status::Running => {}
    }
    if let Connectivity::Unwatched { .. } = contact {
        let word = format!("{}?", task.status.label());
        return Shown::new(glyphs.restored, word, Role::Waiting);
    }
    if let Some(asked) = task.asked {
        let age = brief(now.wall.since(asked.at));
        let word = match asked.what {
            // "cancelling" leaves no room for its age in the column.
            ControlKind::Cancelling => "stopping",
            other => other.label(),
        };
        return Shown::new(glyphs.paused, format!("{word} {age}"), Role::Cut);
    }
    match contact {
        Connectivity::NeedsLogin => {
            let server = state.server(&task.server);
            // A sign-in is a word; whatever else is wanted stands beside it.
            let wants_other = server.is_some_and(|server| {
                let is_other = match server.state {
                    LinkState::NeedsLogin { takes_sign_in, .. } => !takes_sign_in,
                    LinkState::NotStarted { .. } => true,
                    _ => false,
                };
                server.obstacle.is_some() || is_other
            });
            let word = if wants_other { "waits" } else { "sign in" };
            Shown::new(glyphs.asks, word, Role::Needs)
        }
        Connectivity::Reconnecting { .. } => {
            let age = text::span(now.wall.since(task_row.connectivity_since));
            Shown::new(glyphs.cut, format!("cut {age}"), Role::Cut)
        }
        Connectivity::Offline { since, .. } => {
            let age = brief(now.wall.since(since));
            Shown::new(glyphs.offline, format!("offline {age}"), Role::Cut)
        }
        _ if task.status == Status::Paused => Shown::new(glyphs.paused, "paused", Role::Waiting),
        Connectivity::Quiet { last_byte } => {
            let age = brief(now.wall.since(last_byte));
            Shown::new(glyphs.running, format!("quiet {age}"), Role::Running)
        }
        _ if task.is_queued() => Shown::new(glyphs.restored, "queued", Role::Waiting),
        _ => Shown::new(glyphs.running, "running", Role::Running),
    }
}

/// Why a task is lost, as short as a row of the list needs it; the detail pane has the whole.
pub(crate) fn lost(reason: &LostReason) -> &'static str {
    match reason {
        LostReason::SessionGone {
            after_restart: true,
            ..
        } => "server restarted",
        LostReason::SessionGone {
            after_restart: false,
            ..
        } => "server session gone",
        LostReason::ReplayGone { .. } => "replay gone",
        LostReason::CancelledByDisconnect { .. } => "cut, so cancelled",
        LostReason::ProcessEnded { .. } => "its program ended",
        LostReason::TooMuch { .. } => "too much at once",
        LostReason::TaskGone { .. } => "server task gone",
        LostReason::TaskExpired => "expired",
        LostReason::GivenUp => "given up by you",
    }
}

/// What cannot be known of a task, as short as a row of the list needs it.
pub(crate) fn unknown(window: &Window) -> String {
    match window {
        Window::BeforeFirstId => "may have run".to_owned(),
        Window::NoIds => "no event ids".to_owned(),
        Window::NoReplay => "no replay".to_owned(),
        Window::HttpStatus(status) => format!("HTTP {status}"),
        Window::BeforeTaskId => "may be a task".to_owned(),
        Window::NoCheckpoint => "no checkpoint".to_owned(),
    }
}

/// When the next try is due, while contact is gone.
pub(crate) fn next_try(contact: &Connectivity) -> Option<Wall> {
    match contact {
        Connectivity::Reconnecting { next, .. } | Connectivity::Offline { next, .. } => Some(*next),
        _ => None,
    }
}

/// The state of a server: what a person has to do there first; no more of contact than its calls show.
pub(crate) fn server(
    state: &State,
    server: &ServerView,
    glyphs: &'static Glyphs,
    now: Stamp,
) -> Shown {
    match (&server.obstacle, &server.state) {
        (Some(obstacle), _) => Shown::new(glyphs.asks, obstacle.message(), Role::Needs),
        (None, LinkState::Live) => match contact_at(state, server, now) {
            Reach::Live => link_state(&server.state, glyphs, now),
            Reach::Idle => link_state(&LinkState::Idle, glyphs, now),
            Reach::Quiet(age) => Shown::new(
                glyphs.running,
                format!("quiet {}", brief(age)),
                Role::Running,
            ),
            Reach::Cut(age) => {
                Shown::new(glyphs.cut, format!("cut {}", text::span(age)), Role::Cut)
            }
        },
        (None, state) => link_state(state, glyphs, now),
    }
}

/// Where a server stands among others: what a person has to see to first, then what is out of reach, then what is well.
pub(crate) fn rank(state: &State, server: &ServerView, now: Stamp) -> u8 {
    match &server.state {
        _ if server.obstacle.is_some() => 0,
        LinkState::NeedsLogin { .. } | LinkState::NotStarted { .. } => 0,
        LinkState::Down { .. } => 1,
        LinkState::Connecting => 2,
        LinkState::Idle => 4,
        LinkState::Live => match contact_at(state, server, now) {
            Reach::Cut(_) => 1,
            Reach::Quiet(_) => 2,
            Reach::Live => 3,
            Reach::Idle => 4,
        },
    }
}

/// How a server is reached, by the calls that are open there.
enum Reach {
    Live,
    Quiet(Duration),
    Cut(Duration),
    /// Nothing is open there, so nothing is known of it since.
    Idle,
}

/// Open calls that are looked at for this in a frame; a session has few.
const LOOKED_AT: usize = 1_000;

fn contact_at(state: &State, server: &ServerView, now: Stamp) -> Reach {
    let (mut quiet, mut cut) = (None, None);
    let mut is_any = false;
    let open = state.open_tasks().take(LOOKED_AT);
    for task_row in open.filter(|task_row| task_row.view.task.server == server.name) {
        is_any = true;
        let least = |known: Option<Duration>, age: Duration| {
            Some(known.map_or(age, |known| known.min(age)))
        };
        match task_row.view.contact.at(now) {
            Connectivity::Quiet { last_byte } => quiet = least(quiet, now.wall.since(last_byte)),
            Connectivity::Reconnecting { .. } => {
                cut = least(cut, now.wall.since(task_row.connectivity_since));
            }
            Connectivity::Offline { since, .. } => cut = least(cut, now.wall.since(since)),
            Connectivity::Live { .. }
            | Connectivity::Idle
            | Connectivity::NeedsLogin
            | Connectivity::Unwatched { .. } => return Reach::Live,
        }
    }
    match (quiet, cut) {
        (Some(age), _) => Reach::Quiet(age),
        (None, Some(age)) => Reach::Cut(age),
        (None, None) if is_any => Reach::Live,
        (None, None) => Reach::Idle,
    }
}

fn link_state(state: &LinkState, glyphs: &'static Glyphs, now: Stamp) -> Shown {
    match state {
        LinkState::Idle => Shown::new(glyphs.offline, "idle", Role::Dim),
        LinkState::Connecting => Shown::new(glyphs.cut, "connecting", Role::Cut),
        LinkState::Live => Shown::new(glyphs.running, "live", Role::Done),
        LinkState::Down { tries, next, .. } => {
            let word = match until(*next, now).as_str() {
                "now" => format!("try {} now", tries.saturating_add(1)),
                left => format!("try {} in {left}", tries.saturating_add(1)),
            };
            Shown::new(glyphs.cut, word, Role::Cut)
        }
        LinkState::NeedsLogin {
            takes_sign_in: true,
            ..
        } => Shown::new(glyphs.asks, "wants sign-in", Role::Needs),
        LinkState::NeedsLogin { .. } => Shown::new(glyphs.asks, "wants credentials", Role::Needs),
        LinkState::NotStarted { is_approved, .. } => {
            let word = if *is_approved {
                "not started"
            } else {
                "not approved"
            };
            Shown::new(glyphs.asks, word, Role::Needs)
        }
    }
}

/// `30/50`, or `41` without a total; both short (`2.1k/4.6k`) where the whole would not fit beside a bar.
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

/// `~35%`: a share that was read out of the server's words.
pub(crate) fn guess(share: f64) -> String {
    format!("~{}%", whole_percent(share))
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

/// A part of `columns`, rounded down.
pub(crate) fn share(ratio: f64, columns: u16) -> u16 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ratio is clamped to 0..=1"
    )]
    let part = (ratio.clamp(0.0, 1.0) * f64::from(columns)) as u16;
    part.min(columns)
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
    fn counts_read_well() {
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
    fn a_countdown_never_shows_zero_seconds() {
        let now = Stamp::default();
        assert_eq!(until(Wall(1), now), "1 s");
        assert_eq!(until(Wall(4_000), now), "4 s");
        assert_eq!(until(Wall(0), now), "now");
    }
}
