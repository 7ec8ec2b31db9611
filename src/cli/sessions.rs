//! `sessions`: what is saved in the state directory, and taking some of it away for good.
//!
//! Invariant: a session that somebody drives is never removed, and none with something unsettled unless that is asked for.

use serde_json::{Value, json};

use super::{
    Context,
    args::RemoveSessionsArgs,
    fail::{Fail, code},
    json as documents, lines,
};
use crate::{
    domain::{Task, Wall, text},
    store::{DriverLock, ListFilter, Paths, Reader, StoreError},
};

/// What the file of a session says.
struct Held {
    tasks: usize,
    unsettled: usize,
    saved_at: Option<Wall>,
    /// What could not be read of it.
    remark: Option<String>,
}

fn held(paths: &Paths) -> Result<Held, StoreError> {
    let mut reader = Reader::open(paths)?;
    let tasks = reader.tasks(ListFilter::default())?;
    let is_unsettled = |task: &&Task| !task.status.is_settled();
    Ok(Held {
        unsettled: tasks.iter().filter(is_unsettled).count(),
        tasks: tasks.len(),
        remark: reader.remark(),
        saved_at: reader.saved_at()?,
    })
}

fn count(count: usize, one: &str) -> String {
    text::plural(u64::try_from(count).unwrap_or(u64::MAX), one)
}

/// `sessions list`.
pub(super) fn list(context: &mut Context<'_>) -> Result<u8, Fail> {
    let now = context.clock.now().wall;
    let titles = [
        "SESSION",
        "SIZE",
        "TASKS",
        "UNSETTLED",
        "DRIVER",
        "LAST USED",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    let mut all = Vec::new();
    for paths in context.paths.all()? {
        let (name, bytes, driver) = (paths.session(), paths.size(), DriverLock::holder(&paths));
        let held = held(&paths).map_err(|error| format!("could not {error}"));
        let of = |number: fn(&Held) -> usize| {
            held.as_ref()
                .map_or("?".to_owned(), |it| number(it).to_string())
        };
        let saved_at = held.as_ref().ok().and_then(|it| it.saved_at);
        rows.push(vec![
            name.to_owned(),
            text::bytes(bytes),
            of(|it| it.tasks),
            of(|it| it.unsettled),
            driver.map_or("-".to_owned(), |pid| format!("process {pid}")),
            saved_at.map_or("-".to_owned(), |at| lines::clock(at, now)),
        ]);
        let trouble = match &held {
            Ok(held) => held.remark.clone(),
            Err(words) => Some(words.clone()),
        };
        if let Some(words) = trouble.as_ref().filter(|_| !context.global.json) {
            context.terminal.say(&format!("longhaul: {words}"));
        }
        all.push(json!({
            "name": name,
            "bytes": bytes,
            "tasks": held.as_ref().ok().map(|it| it.tasks),
            "unsettled": held.as_ref().ok().map(|it| it.unsettled),
            "driver": driver,
            "saved_at": saved_at.map(Wall::rfc3339),
            "error": trouble,
        }));
    }
    if context.global.json {
        let document = documents::pretty(&Value::Array(all));
        context.terminal.document(&document)?;
        return Ok(code::OK);
    }
    if all.is_empty() {
        context
            .terminal
            .remark("no session yet; `longhaul call TOOL` makes one");
        return Ok(code::OK);
    }
    let ending = context.terminal.ending();
    for line in lines::table(&rows, context.terminal.out_columns(), 0, ending) {
        context.terminal.line(&line)?;
    }
    Ok(code::OK)
}

/// `sessions rm`.
pub(super) fn remove(context: &mut Context<'_>, remove: &RemoveSessionsArgs) -> Result<u8, Fail> {
    context.may_act()?;
    let all = context.paths.all()?;
    let found = |name: &String| {
        let found = all.iter().find(|paths| paths.session() == name);
        found.ok_or_else(|| {
            Fail::usage(format!(
                "there is no session {name:?}; `longhaul sessions list{}` lists what there is",
                context.flags_to("", "")
            ))
        })
    };
    // Nothing goes before every name was understood.
    let wanted = remove
        .names
        .iter()
        .map(found)
        .collect::<Result<Vec<_>, _>>()?;
    let mut said = Vec::new();
    let mut ends_with = code::OK;
    for paths in wanted {
        let (name, bytes) = (paths.session(), paths.size());
        let kept = take_away(paths, remove.force, &context.flags_to(paths.session(), "")).err();
        if kept.is_some() {
            ends_with = code::REFUSED;
        }
        if !context.global.json {
            match &kept {
                None => {
                    let size = text::bytes(bytes);
                    context.terminal.line(&format!("removed {name} ({size})"))?;
                }
                Some(why) => context
                    .terminal
                    .say(&format!("longhaul: kept {name}: {why}")),
            }
        }
        said.push(json!({"name": name, "removed": kept.is_none(), "kept_because": kept}));
    }
    if context.global.json {
        let document = documents::pretty(&Value::Array(said));
        context.terminal.document(&document)?;
    }
    Ok(ends_with)
}

/// Removes a session, or says why it stays; `flags` lead to it.
fn take_away(paths: &Paths, is_forced: bool, flags: &str) -> Result<(), String> {
    let could_not = |error: StoreError| format!("could not {error}");
    let Some(lock) = DriverLock::try_take(paths).map_err(could_not)? else {
        let who = DriverLock::holder(paths);
        let who = who.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        return Err(format!("{who} drives it; leave it there first"));
    };
    if !is_forced {
        let held =
            held(paths).map_err(|error| format!("{}; --force removes it", could_not(error)))?;
        if held.unsettled > 0 {
            let tasks = count(held.unsettled, "task");
            return Err(format!(
                "{tasks} in it unsettled (`longhaul ls{flags}` shows them); --force removes it all the same, \
                 and nothing is sent"
            ));
        }
        if let Some(remark) = held.remark {
            return Err(format!("{remark}; --force removes it all the same"));
        }
    }
    paths.remove(lock).map_err(could_not)
}
