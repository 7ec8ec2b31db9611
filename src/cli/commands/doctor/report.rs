//! The checks and their results.

use serde_json::{Value, json};

use crate::{
    cli::{CliResult, Context},
    domain::text,
};

/// The widest column for subjects; a longer subject shifts only its own line.
const MAX_SUBJECT_COLS: usize = 28;

/// The severity of a check result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Severity {
    Ok,
    Warning,
    #[strum(serialize = "error")]
    Wrong,
}

/// The result of one check.
pub(super) struct Check {
    /// E.g. `terminal`, `disk` or `server lab`.
    subject: String,
    pub(super) severity: Severity,
    message: String,
    /// What to do about it.
    next: Option<String>,
}

#[derive(Default)]
pub(super) struct Checks {
    /// What the next checks are about.
    subject: String,
    pub(super) all: Vec<Check>,
}

impl Checks {
    /// Sets what the next checks are about.
    pub(super) fn about(&mut self, subject: impl Into<String>) {
        self.subject = subject.into();
    }

    pub(super) fn ok(&mut self, message: impl Into<String>) {
        self.add(Severity::Ok, message.into(), None);
    }

    pub(super) fn warning(&mut self, message: impl Into<String>, next: impl Into<String>) {
        self.add(Severity::Warning, message.into(), Some(next.into()));
    }

    pub(super) fn wrong(&mut self, message: impl Into<String>, next: impl Into<String>) {
        self.add(Severity::Wrong, message.into(), Some(next.into()));
    }

    pub(super) fn add(&mut self, severity: Severity, message: String, next: Option<String>) {
        self.all.push(Check {
            subject: self.subject.clone(),
            severity,
            message,
            next,
        });
    }
}

pub(super) fn print(context: &mut Context<'_>, checks: &Checks) -> CliResult<()> {
    let with_flags = |text: &String| context.terminal.with_flags(text);
    if context.global.json {
        let check = |it: &Check| {
            json!({"of": it.subject, "verdict": <&str>::from(it.severity),
            "message": with_flags(&it.message), "next": it.next.as_ref().map(with_flags)})
        };
        let all: Vec<Value> = checks.all.iter().map(check).collect();
        return context.terminal.print_pretty(all);
    }
    let width = checks.all.iter().map(|check| text::width(&check.subject));
    let width = width.max().unwrap_or(0).min(MAX_SUBJECT_COLS);
    for check in &checks.all {
        let next = check.next.as_ref();
        let next = next.map_or(String::new(), |next| format!("; {next}"));
        let (label, subject) = (<&str>::from(check.severity), &check.subject);
        let line = format!("{label:<8} {subject:<width$}  {}{next}", check.message);
        context.print(&context.terminal.with_flags(&line))?;
    }
    Ok(())
}
