//! What a cancel of the host means, and the calls that wait to be cancelled.

use core::time::Duration;
use std::collections::BTreeMap;

use super::hosts::Cancels;
use crate::domain::{Mono, TaskId};

/// Two waits are the same limit if they differ by at most this part.
const SAME_WITHIN: u32 = 20;

/// The calls that are cancelled unless the host makes them again.
#[derive(Debug, Default)]
pub(super) struct PendingCancels {
    /// When, and how long their callers had waited.
    pub(super) due: BTreeMap<TaskId, (Mono, Duration)>,
    /// Calls that were cancelled before they were started, by the ids that their tasks would have: why, and how long their
    /// callers had waited.
    pub(super) early: BTreeMap<TaskId, (String, Duration)>,
    /// How long the last caller waited that cancelled without a reason and then repeated the call.
    pub(super) unclear: Option<Duration>,
}

/// A result that was written to the host.
#[derive(Debug)]
pub(super) struct Written {
    /// The host's request, as the JSON text of its id.
    pub(super) request: String,
    pub(super) task: TaskId,
    /// When the host began to wait.
    pub(super) began: Mono,
}

impl PendingCancels {
    pub(super) fn next(&self) -> Option<Mono> {
        self.due.values().map(|(at, _)| *at).min()
    }

    /// Records a call that was cancelled and repeated. Returns whether this shows the host's timeout: a person also stops
    /// and repeats calls, but hardly twice in a row after the same time.
    pub(super) fn shows_limit(&mut self, waited: Duration) -> bool {
        let earlier = self.unclear.replace(waited);
        earlier.is_some_and(|earlier| waited.abs_diff(earlier) <= waited / SAME_WITHIN)
    }
}

/// What a cancel of the host means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Timeout,
    Person,
    /// Either.
    Unclear,
}

/// Reads the reason of a cancel. Hosts write it as they like, and some write the same for both.
pub(super) fn meaning(reason: &str, host: Cancels) -> Meaning {
    let reason = reason.to_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| reason.contains(part));
    let mut words = reason.split(|at: char| !at.is_alphanumeric());
    let names_person = |word: &str| {
        matches!(word, "esc" | "escape")
            || word.starts_with("user")
            || word.starts_with("interrupt")
    };
    if has(&["timed out", "timeout", "time out", "deadline"]) {
        Meaning::Timeout
    } else if words.any(names_person) || host.are_by_person() {
        Meaning::Person
    } else {
        Meaning::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_waits_show_the_limit_of_a_host() {
        let mut cancels = PendingCancels::default();
        let mut shows = |ms| cancels.shows_limit(Duration::from_millis(ms));
        assert!(!shows(2_000), "a person can stop a call after any time");
        assert!(!shows(60_000) && shows(60_450));
    }

    #[test]
    fn reasons_of_real_hosts() {
        let of = |reason| meaning(reason, Cancels::Unclear);
        assert_eq!(
            of("McpError: MCP error -32001: Request timed out"),
            Meaning::Timeout
        );
        assert_eq!(of("MCP request cancelled by caller"), Meaning::Unclear);
        assert_eq!(
            of("AbortError: The operation was aborted."),
            Meaning::Unclear
        );
        assert_eq!(of(""), Meaning::Unclear);
        assert_eq!(of("User pressed Esc"), Meaning::Person);
        for reason in ["user_interrupted", "the users' choice", "ESC"] {
            assert_eq!(of(reason), Meaning::Person, "{reason}");
        }
        for reason in ["request rescheduled", "moved to an escalation", "superuser"] {
            assert_eq!(of(reason), Meaning::Unclear, "{reason}");
        }
        assert_eq!(meaning("", Cancels::NamesTimeouts), Meaning::Person);
    }
}
