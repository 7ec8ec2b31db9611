//! The checks and their results.

use serde_json::{Value, json};

use crate::{
    cli::{context::Context, error::CliError},
    domain::text,
};

/// The widest column for subjects; a longer subject shifts only its own line.
const MAX_SUBJECT_COLS: usize = 28;

/// The severity of a check result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Severity {
    Ok,
    Warning,
    Wrong,
}

impl Severity {
    fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Wrong => "error",
        }
    }
}

/// The result of one check.
pub(in crate::cli) struct Check {
    /// E.g. `terminal`, `disk` or `server lab`.
    subject: String,
    pub(in crate::cli) severity: Severity,
    message: String,
    /// What to do about it.
    next: Option<String>,
}

#[derive(Default)]
pub(in crate::cli) struct Checks {
    /// What the next checks are about.
    subject: String,
    pub(in crate::cli) all: Vec<Check>,
}

impl Checks {
    /// Sets what the next checks are about.
    pub(in crate::cli) fn about(&mut self, subject: impl Into<String>) {
        self.subject = subject.into();
    }

    pub(in crate::cli) fn ok(&mut self, message: impl Into<String>) {
        self.add(Severity::Ok, message.into(), None);
    }

    pub(in crate::cli) fn warning(&mut self, message: impl Into<String>, next: impl Into<String>) {
        self.add(Severity::Warning, message.into(), Some(next.into()));
    }

    pub(in crate::cli) fn wrong(&mut self, message: impl Into<String>, next: impl Into<String>) {
        self.add(Severity::Wrong, message.into(), Some(next.into()));
    }

    pub(in crate::cli) fn add(
        &mut self,
        severity: Severity,
        message: String,
        next: Option<String>,
    ) {
        self.all.push(Check {
            subject: self.subject.clone(),
            severity,
            message,
            next,
        });
    }
}

pub(in crate::cli) fn print(context: &mut Context<'_>, checks: &Checks) -> Result<(), CliError> {
    if context.global.json {
        let check = |it: &Check| json!({"of": it.subject, "verdict": it.severity.label(), "message": it.message, "next": it.next});
        let all: Vec<Value> = checks.all.iter().map(check).collect();
        return context.terminal.print_pretty(all);
    }
    let width = checks.all.iter().map(|check| text::width(&check.subject));
    let width = width.max().unwrap_or(0).min(MAX_SUBJECT_COLS);
    for check in &checks.all {
        let next = check
            .next
            .as_ref()
            .map_or(String::new(), |next| format!("; {next}"));
        let (label, subject) = (check.severity.label(), &check.subject);
        let line = format!("{label:<8} {subject:<width$}  {}{next}", check.message);
        context.print(&text::clean_line(&line))?;
    }
    Ok(())
}
