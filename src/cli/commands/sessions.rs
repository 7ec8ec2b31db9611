//! `sessions`: lists and deletes the sessions in the state directory.
//!
//! Invariant: a session that a process drives is never deleted, and one with unfinished tasks only with `--force`, which
//! first stops a keeper without clients.

use serde_json::json;

use crate::{
    cli::{CliError, CliResult, Context, args::RemoveSessionsArgs, code, format},
    domain::{Task, Wall, text},
    engine::stop_unused_keeper,
    store::{DriverLock, ListFilter, Paths, Reader, StoreError},
};

/// What the file of a session says.
struct SessionSummary {
    tasks: usize,
    unsettled: usize,
    saved_at: Option<Wall>,
    /// What could not be read.
    notice: Option<String>,
}

fn summarize(paths: &Paths) -> Result<SessionSummary, StoreError> {
    let mut reader = Reader::open(paths)?;
    let tasks = reader.tasks(ListFilter::default())?;
    let is_unsettled = |task: &&Task| !task.status.is_settled();
    Ok(SessionSummary {
        unsettled: tasks.iter().filter(is_unsettled).count(),
        tasks: tasks.len(),
        notice: reader.notice(),
        saved_at: reader.saved_at()?,
    })
}

/// `sessions list`.
pub(in crate::cli) fn list(context: &mut Context<'_>) -> CliResult {
    let now = context.clock.now().wall;
    let titles = [
        "SESSION",
        "SIZE",
        "TASKS",
        "UNFINISHED",
        "RUN BY",
        "LAST USED",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let mut all = Vec::new();
    for paths in context.paths.all()? {
        let (name, bytes, driver) = (&paths.session, paths.size(), DriverLock::holder(&paths));
        let summary = summarize(&paths).map_err(|error| format!("could not {error}"));
        let count_of = |number: fn(&SessionSummary) -> usize| {
            summary
                .as_ref()
                .map_or("?".to_owned(), |it| number(it).to_string())
        };
        let saved_at = summary.as_ref().ok().and_then(|it| it.saved_at);
        rows.push(vec![
            name.to_owned(),
            text::bytes(bytes),
            count_of(|it| it.tasks),
            count_of(|it| it.unsettled),
            driver.map_or("-".to_owned(), |pid| format!("process {pid}")),
            saved_at.map_or("-".to_owned(), |at| format::clock(at, now)),
        ]);
        let (summary, error) = (summary.as_ref().ok(), summary.as_ref().err());
        let trouble = error.or(summary.and_then(|it| it.notice.as_ref()));
        if let Some(trouble) = trouble.filter(|_| !context.global.json) {
            context.warn(trouble);
        }
        all.push(json!({
            "name": name,
            "bytes": bytes,
            "tasks": summary.map(|it| it.tasks),
            "unfinished": summary.map(|it| it.unsettled),
            "driver": driver,
            "saved_at": saved_at.map(Wall::rfc3339),
            "error": trouble,
        }));
    }
    if context.global.json {
        return context.print_document(all);
    }
    if all.is_empty() {
        context.info("no sessions yet; `longhaul call TOOL` creates one");
        return Ok(code::OK);
    }
    let ending = context.terminal.ending;
    context.print_lines(format::table(
        &rows,
        context.terminal.out_columns,
        0,
        ending,
    ))?;
    Ok(code::OK)
}

/// `sessions rm`.
pub(in crate::cli) fn remove(context: &mut Context<'_>, remove: &RemoveSessionsArgs) -> CliResult {
    context.may_act()?;
    let all = context.paths.all()?;
    let found = |name: &String| {
        let found = all.iter().find(|paths| paths.session == *name);
        found.ok_or_else(|| {
            let message =
                format!("no session {name:?}; `longhaul sessions list` lists all sessions");
            CliError::usage(message)
        })
    };
    // Check all names before deleting anything.
    let selected = remove.names.iter().map(found);
    let selected = selected.collect::<Result<Vec<_>, _>>()?;
    let mut results = Vec::new();
    let mut exit_code = code::OK;
    for paths in selected {
        let (name, bytes) = (&paths.session, paths.size());
        let deleted = delete(paths, remove.force, &context.flags_to(&paths.session, ""));
        let kept = deleted.as_ref().err().map(CliError::message);
        if kept.is_some() {
            exit_code = code::REFUSED;
        }
        if !context.global.json {
            match &kept {
                None => {
                    let size = text::bytes(bytes);
                    let left = match deleted {
                        Ok(0) | Err(_) => String::new(),
                        Ok(count) => format!(
                            " with {} (its calls are not cancelled on the server)",
                            text::plural(count, "unfinished task")
                        ),
                    };
                    context.print(&format!("removed {name} ({size}){left}"))?;
                }
                Some(why) => context.warn(format!("kept {name}: {why}")),
            }
        }
        results.push(json!({"name": name, "removed": kept.is_none(), "kept_because": kept}));
    }
    if context.global.json {
        context.terminal.print_pretty(results)?;
    }
    Ok(exit_code)
}

/// Deletes a session; returns how many of its tasks were unfinished. `flags` select it in a hint.
fn delete(paths: &Paths, is_forced: bool, flags: &str) -> CliResult<usize> {
    // From before the keeper stops, which ends calls.
    let unsettled = summarize(paths).map_or(0, |it| it.unsettled);
    // If that fails, the lock says that the session is in use.
    let _ = stop_unused_keeper(paths, is_forced);
    let Some(lock) = DriverLock::try_take(paths)? else {
        let who = DriverLock::holder(paths);
        let who = who.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        return Err(CliError::usage(format!(
            "{who} is using it; stop that process first (if it is the keeper: `longhaul keeper stop{flags}`)"
        )));
    };
    if !is_forced {
        // Nobody changes it any more.
        let summary = summarize(paths).map_err(|error| {
            CliError::usage(format!("could not {error}; use --force to delete it"))
        })?;
        if summary.unsettled > 0 {
            return Err(CliError::usage(format!(
                "it has {} (see `longhaul ls{flags}`); use --force to delete it anyway (its calls are not cancelled on the server)",
                text::plural(summary.unsettled, "unfinished task")
            )));
        }
        if let Some(notice) = summary.notice {
            let message = format!("{notice}; use --force to delete it anyway");
            return Err(CliError::usage(message));
        }
    }
    lock.remove_session(paths)?;
    Ok(unsettled)
}
