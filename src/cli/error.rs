//! Errors of commands: an exit code that scripts rely on, and a message that says what to do next.

use std::io;

pub(super) use crate::domain::exit as code;
use crate::{
    config::ConfigError,
    domain::{RequestError, Status, Task, TaskErrorKind},
    store::StoreError,
};

/// What a command returns: its exit code, or another value on the way there.
pub(super) type CliResult<T = u8> = Result<T, CliError>;

/// Why a command ends early.
#[derive(Debug)]
pub(super) enum CliError {
    /// Nobody reads stdout any more, so no message is printed.
    StdoutUnread(StdoutLoss),
    /// An error message for stderr.
    Message {
        /// The exit code.
        code: u8,
        /// The text after `longhaul: `.
        text: String,
    },
}

impl CliError {
    pub(super) fn new(code: u8, message: impl Into<String>) -> Self {
        let text: String = message.into();
        // The operating system's error number means nothing to the user.
        let text = match text.split_once(" (os error ") {
            Some((before, after)) => {
                let after = after.split_once(')').map_or("", |(_, after)| after);
                format!("{before}{after}")
            }
            None => text,
        };
        Self::Message { code, text }
    }

    /// The message.
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Message { text, .. } => text,
            Self::StdoutUnread(_) => "stdout is not being read",
        }
    }

    /// The exit code.
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Message { code, .. } => *code,
            Self::StdoutUnread(_) => code::INTERRUPTED,
        }
    }

    /// Adds more if the process that runs the session's calls does not answer.
    pub(super) fn if_silent(self, more: impl FnOnce() -> String) -> Self {
        match self {
            Self::Message { code, text } if code == code::DRIVER_SILENT => {
                Self::new(code, format!("{text}; {}", more()))
            }
            other => other,
        }
    }

    /// For `map_err`: what should always work did not.
    pub(super) fn bug<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Self + Copy {
        move |error| Self::new(code::BUG, format!("could not {what}: {error}"))
    }

    /// A usage error; nothing was done.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(code::REFUSED, message)
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::StdoutUnread(StdoutLoss::Closed),
            io::ErrorKind::TimedOut => Self::StdoutUnread(StdoutLoss::Stalled),
            _ => Self::new(
                code::CANNOT_SAVE,
                format!("could not write to stdout: {error}"),
            ),
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let code = match error {
            ConfigError::Unwritten { .. } | ConfigError::Changed(_) | ConfigError::Store(_) => {
                code::CANNOT_SAVE
            }
            ConfigError::Unsound(_) => code::BUG,
            _ => code::REFUSED,
        };
        Self::new(code, error.to_string())
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::BadName(_) => code::REFUSED,
            _ => code::CANNOT_SAVE,
        };
        Self::new(code, format!("could not {error}"))
    }
}

impl From<RequestError> for CliError {
    fn from(error: RequestError) -> Self {
        let code = match error {
            RequestError::Usage(_) | RequestError::Settled(_) => code::REFUSED,
            RequestError::NeedsLogin(_) => code::NEEDS_LOGIN,
            RequestError::Unreachable(_) => code::UNREACHABLE,
            RequestError::CannotSave(_) => code::CANNOT_SAVE,
        };
        Self::new(code, error.to_string())
    }
}

/// The exit code for a task that has ended or needs a person.
pub(super) fn exit_code_of(task: &Task) -> u8 {
    match (&task.status, &task.end.error) {
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

/// The worst of several exit codes: unknown, then failed, then stopped, then waiting for a person. Codes that are not about
/// a task, e.g. a session that cannot be saved, are worse than all of these.
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
    let rank = |code: &u8| WORST_FIRST.iter().position(|known| known == code);
    codes
        .filter(|code| *code != code::OK)
        .min_by_key(rank)
        .unwrap_or(code::OK)
}

/// Why nobody reads stdout any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StdoutLoss {
    /// It was closed.
    Closed,
    /// Its reader stopped reading, and a signal told us to exit.
    Stalled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worst_follows_the_order_of_severity() {
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
