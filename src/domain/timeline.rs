//! The life of a task as periods: when it ran, was paused, was cut off, or waited for an answer.

use serde::{Deserialize, Serialize};

use super::{HistoryEntry, HistoryEvent, Status, Task, UnknownReason, Wall};

/// What a task was doing during a period, the most notable last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Activity {
    /// Nothing was sent to the server yet.
    Queued,
    /// It ran, as far as is known.
    Running,
    /// No longhaul was running to watch it.
    #[strum(serialize = "no longhaul process")]
    Unwatched,
    /// It was paused.
    Paused,
    /// The connection was lost.
    Disconnected,
    /// A question waited for the user's answer.
    Asking,
}

impl Activity {
    /// The name on the screen.
    pub fn label(self) -> &'static str {
        self.into()
    }
}

/// A change in a task's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turn {
    /// The call was sent, for the first time or again.
    Sent,
    /// The server refused to run the call, which is queued again.
    Queued,
    /// The connection came back.
    Connected,
    /// The connection was lost.
    #[serde(rename = "cut")]
    Disconnected,
    /// The last longhaul that watched it exited.
    Unwatched,
    /// It runs, or runs again.
    Running,
    /// It is paused.
    Paused,
    /// It asks a question.
    Asking,
}

/// A turn and its time.
pub type Milestone = (Wall, Turn);

/// The turn in a task's life that a history entry reports, if it does.
pub fn milestone(entry: &HistoryEntry) -> Option<Milestone> {
    let turn = match &entry.what {
        HistoryEvent::Started { .. } => Turn::Sent,
        HistoryEvent::Contact { state, .. } => match state.as_str() {
            "live" => Turn::Connected,
            "unwatched" => Turn::Unwatched,
            _ => Turn::Disconnected,
        },
        HistoryEvent::InputRequired { .. } => Turn::Asking,
        // Its connection is gone for good.
        HistoryEvent::Status { status, .. } | HistoryEvent::Settled { status, .. }
            if status == Status::Unknown(UnknownReason::NoIds).label() =>
        {
            Turn::Disconnected
        }
        HistoryEvent::Status { status, .. } => match status.as_str() {
            status if status == Status::Paused.label() => Turn::Paused,
            status if status == Status::InputRequired.label() => Turn::Asking,
            status if status == Status::Running.label() => Turn::Running,
            Task::QUEUED => Turn::Queued,
            _ => return None,
        },
        HistoryEvent::Progress(_) | HistoryEvent::Log { .. } | HistoryEvent::Settled { .. } => {
            return None;
        }
    };
    Some((entry.at, turn))
}

/// A period with one activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// What the task was doing.
    pub activity: Activity,
    /// Its begin.
    pub from: Wall,
    /// Its end, where the next one begins.
    pub to: Wall,
}

/// The life of a task from its creation to its end, or to the present, without gaps.
pub fn periods(
    created_at: Wall,
    end: Wall,
    milestones: impl IntoIterator<Item = Milestone>,
) -> Vec<Period> {
    let end = end.max(created_at);
    let mut all: Vec<Period> = Vec::new();
    let mut life = Life::default();
    let (mut activity, mut from) = (life.activity(), created_at);
    for (at, turn) in milestones {
        life.take(turn);
        let next = life.activity();
        if next == activity {
            continue;
        }
        // The clock may have been set back, but a life must not go back.
        let to = at.clamp(from, end);
        if to > from {
            all.push(Period { activity, from, to });
        }
        (activity, from) = (next, to);
    }
    if end > from || all.is_empty() {
        all.push(Period {
            activity,
            from,
            to: end,
        });
    }
    all
}

/// What is known of a task at one point of its life: connection and status change independently.
#[derive(Default)]
struct Life {
    is_sent: bool,
    /// Why nothing arrives.
    away: Option<Activity>,
    /// What the task is doing instead of running.
    holds: Option<Activity>,
}

impl Life {
    fn take(&mut self, turn: Turn) {
        match turn {
            Turn::Sent => {
                *self = Self {
                    is_sent: true,
                    ..Self::default()
                }
            }
            Turn::Queued => *self = Self::default(),
            Turn::Connected => self.away = None,
            Turn::Disconnected => self.away = Some(Activity::Disconnected),
            Turn::Unwatched => self.away = Some(Activity::Unwatched),
            // Only a process that watches the task reports this.
            Turn::Running => {
                self.away.take_if(|away| *away == Activity::Unwatched);
                self.holds = None;
            }
            Turn::Paused => self.holds = Some(Activity::Paused),
            Turn::Asking => self.holds = Some(Activity::Asking),
        }
    }

    fn activity(&self) -> Activity {
        match (self.away, self.holds) {
            (Some(Activity::Unwatched), _) => Activity::Unwatched,
            // A task that waits for an answer or is paused has nothing to say, so a cut changes nothing for it.
            (_, Some(holds)) => holds,
            (Some(away), None) => away,
            (None, None) if self.is_sent => Activity::Running,
            (None, None) => Activity::Queued,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Activity::{Asking, Disconnected, Paused, Queued, Running, Unwatched};

    /// The activities and their ends, of a task that was created at 0.
    fn life(milestones: &[(i64, Turn)], end: i64) -> Vec<(Activity, i64)> {
        let milestones = milestones.iter().map(|(at, turn)| (Wall(*at), *turn));
        let all = periods(Wall(0), Wall(end), milestones);
        let begins = all.iter().skip(1).map(|period| period.from);
        assert!(begins.eq(all.iter().map(|period| period.to).take(all.len() - 1)));
        all.iter()
            .map(|period| (period.activity, period.to.0))
            .collect()
    }

    #[test]
    fn a_life_has_no_gaps() {
        let turns = [
            (10, Turn::Sent),
            (20, Turn::Disconnected),
            (30, Turn::Connected),
            (40, Turn::Asking),
            (45, Turn::Disconnected),
            (50, Turn::Connected),
            (60, Turn::Running),
            (70, Turn::Paused),
            (80, Turn::Unwatched),
            (85, Turn::Running),
            (86, Turn::Unwatched),
            (90, Turn::Sent),
        ];
        let expected = [
            (Queued, 10),
            (Running, 20),
            (Disconnected, 30),
            (Running, 40),
            (Asking, 60),
            (Running, 70),
            (Paused, 80),
            (Unwatched, 85),
            (Running, 86),
            (Unwatched, 90),
            (Running, 100),
        ];
        assert_eq!(life(&turns, 100), expected);
        assert_eq!(life(&turns, 95).last(), Some(&(Running, 95)));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_negative_period() {
        let turns = [
            (50, Turn::Sent),
            (20, Turn::Disconnected),
            (30, Turn::Connected),
        ];
        assert_eq!(life(&turns, 60), [(Queued, 50), (Running, 60)]);
        assert_eq!(life(&turns, -5), [(Running, 0)]);
    }

    #[test]
    fn a_task_that_was_never_sent_only_waited() {
        assert_eq!(life(&[], 7), [(Queued, 7)]);
    }
}
