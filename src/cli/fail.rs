//! How a command ends when it does not end well: an exit code that scripts rely on, and words that say what to do next.

use std::io;

use super::terminal::Unread;
pub(super) use crate::domain::exit as code;
use crate::{
    domain::{RequestError, Status, Task, TaskErrorKind},
    store::StoreError,
};

/// Why a command ends early.
#[derive(Debug)]
pub(super) enum Fail {
    /// Nobody reads our stdout any more, and there is nobody to tell.
    Unread(Unread),
    /// In words, for stderr.
    Said {
        /// The exit code.
        code: u8,
        /// Goes on after `longhaul: `.
        words: String,
    },
}

impl Fail {
    pub(super) fn new(code: u8, words: impl Into<String>) -> Self {
        Self::Said {
            code,
            words: words.into(),
        }
    }

    /// What it says, for the screen.
    pub(super) fn into_words(self) -> String {
        match self {
            Self::Said { words, .. } => words,
            Self::Unread(_) => "nobody reads".to_owned(),
        }
    }

    /// A mistake in what was asked; nothing was done.
    pub(super) fn usage(words: impl Into<String>) -> Self {
        Self::new(code::REFUSED, words)
    }
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Unread(Unread::Closed),
            io::ErrorKind::TimedOut => Self::Unread(Unread::Untaken),
            _ => Self::new(
                code::CANNOT_SAVE,
                format!("could not write to stdout: {error}"),
            ),
        }
    }
}

impl From<StoreError> for Fail {
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::BadName(_) => code::REFUSED,
            _ => code::CANNOT_SAVE,
        };
        Self::new(code, format!("could not {error}"))
    }
}

impl From<RequestError> for Fail {
    fn from(refused: RequestError) -> Self {
        let code = match refused {
            RequestError::Usage(_) | RequestError::Settled(_) | RequestError::WouldLoseWork(_) => {
                code::REFUSED
            }
            RequestError::NeedsLogin(_) => code::NEEDS_LOGIN,
            RequestError::Unreachable(_) => code::UNREACHABLE,
            RequestError::CannotSave(_) => code::CANNOT_SAVE,
        };
        Self::new(code, refused.to_string())
    }
}

/// The exit code of a task that has come to an end, or to a person.
pub(super) fn outcome(task: &Task) -> u8 {
    match (&task.status, &task.error) {
        (Status::Completed | Status::Running | Status::Paused, _) => code::OK,
        (Status::Cancelled, _) => code::CANCELLED,
        (Status::Lost(_) | Status::Unknown(_), _) => code::UNKNOWN,
        (Status::InputRequired, _) => code::INPUT,
        (Status::Failed, Some(error)) => match error.kind {
            TaskErrorKind::Tool | TaskErrorKind::Protocol => code::TOOL_FAILED,
            TaskErrorKind::Refused if matches!(error.code, Some(401 | 403)) => code::NEEDS_LOGIN,
            TaskErrorKind::Refused => code::REFUSED,
            TaskErrorKind::Unreachable => code::UNREACHABLE,
            TaskErrorKind::TimedOut => code::TIMED_OUT,
        },
        (Status::Failed, None) => code::TOOL_FAILED,
    }
}

/// The worst of several outcomes: what nobody can know before what failed, then what was stopped, then what waits for a
/// person. What is no outcome of a task, e.g. a session that cannot be written, comes before all of these.
pub(super) fn worst(codes: impl Iterator<Item = u8>) -> u8 {
    const WORST_FIRST: [u8; 8] = [
        code::UNKNOWN,
        code::TOOL_FAILED,
        code::REFUSED,
        code::NEEDS_LOGIN,
        code::UNREACHABLE,
        code::TIMED_OUT,
        code::CANCELLED,
        code::INPUT,
    ];
    let rank = |code: &u8| WORST_FIRST.iter().position(|worse| worse == code);
    codes
        .filter(|code| *code != code::OK)
        .min_by_key(rank)
        .unwrap_or(code::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_hides_nothing_that_is_worse() {
        for (codes, expected) in [
            (&[][..], code::OK),
            (&[code::OK, code::OK], code::OK),
            (
                &[code::INPUT, code::TOOL_FAILED, code::OK],
                code::TOOL_FAILED,
            ),
            (&[code::TOOL_FAILED, code::UNKNOWN], code::UNKNOWN),
            (&[code::NEEDS_LOGIN, code::UNREACHABLE], code::NEEDS_LOGIN),
            (&[code::UNKNOWN, code::CANNOT_SAVE], code::CANNOT_SAVE),
        ] {
            assert_eq!(worst(codes.iter().copied()), expected, "{codes:?}");
        }
    }
}
