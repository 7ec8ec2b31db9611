//! Values of options that need more than a text.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};

use crate::domain::{
    Status, Task, Wall,
    text::{self, DurationError},
};

/// A time limit: a duration, or `None` for `off`, which overrides the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit(pub(super) Option<Duration>);

/// `--since`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Since {
    /// Since a time.
    At(Wall),
    /// Within a duration.
    Ago(Duration),
}

impl Since {
    /// The absolute time, as of `now`.
    pub(super) fn at(self, now: Wall) -> Wall {
        match self {
            Self::At(at) => at,
            Self::Ago(ago) => {
                let ms = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
                Wall(now.0.saturating_sub(ms))
            }
        }
    }
}

/// A text that `--since` does not take.
#[derive(Debug, thiserror::Error)]
#[error("invalid time {0:?}: use RFC 3339 (2026-11-20T06:00:00Z) or a duration such as 10m")]
pub(super) struct SinceError(String);

pub(super) fn limit(text: &str) -> Result<Limit, DurationError> {
    text::parse_limit(text).map(Limit)
}

pub(super) fn since(text: &str) -> Result<Since, SinceError> {
    if let Some(at) = Wall::parse_rfc3339(text) {
        return Ok(Since::At(at));
    }
    text::parse_duration(text)
        .map(Since::Ago)
        .map_err(|_| SinceError(text.to_owned()))
}

/// Parses a whole number; the error of Rust's own parser is not for users.
pub(super) fn whole_number(text: &str) -> Result<usize, NotWhole> {
    text.parse().map_err(|_| NotWhole(""))
}

/// The same without 0.
pub(super) fn number_from_1(text: &str) -> Result<u32, NotWhole> {
    let number = text.parse().ok();
    number
        .filter(|number| *number > 0)
        .ok_or(NotWhole(" from 1"))
}

/// Why a text is not a number of lines or tasks.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("expected a whole number{0}")]
pub(super) struct NotWhole(&'static str);

/// Parses the status of a task; `done` is an alias of `completed`.
pub(super) fn status_label() -> impl clap::builder::TypedValueParser<Value = &'static str> {
    let completed = Status::Completed.label();
    let labels = || std::iter::once(Task::QUEUED).chain(Status::LABELS.iter().copied());
    let values = labels().map(|label| {
        let value = PossibleValue::new(label);
        if label == completed {
            value.alias("done")
        } else {
            value
        }
    });
    PossibleValuesParser::new(values)
        .map(move |typed| labels().find(|label| *label == typed).unwrap_or(completed))
}

/// Parses one of the names of an enum, which are those of the configuration too.
pub(super) fn one_of<T>() -> impl clap::builder::TypedValueParser<Value = T>
where
    T: strum::VariantArray + Copy + Default + Into<&'static str> + Send + Sync,
{
    let name = |it: &T| -> &'static str { (*it).into() };
    PossibleValuesParser::new(T::VARIANTS.iter().map(name)).map(move |typed| {
        let found = T::VARIANTS.iter().find(|it| name(it) == typed);
        found.copied().unwrap_or_default()
    })
}

/// The help heading of the options that every command takes.
pub(super) const GLOBAL: &str = "Global options";

/// Text below the help of a command: examples to copy, then the exit codes.
pub(super) fn help(examples: &str) -> String {
    format!("Examples:\n{examples}\n\n{EXIT_CODES}")
}

/// Printed below every help text, because scripts rely on the exit codes.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  success                      6  input needed
  1  the tool or command failed   7  timed out
  2  usage error or refusal;      8  cancelled
     nothing was run             70  internal error (bug)
  3  sign-in, approval or a      73  can't write the session file
     variable needed             75  the keeper was stopped, or
  4  unreachable                     does not answer
  5  unknown or lost            130  interrupted; the task is kept";
