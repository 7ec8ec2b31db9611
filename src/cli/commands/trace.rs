//! `trace`: prints recorded traffic, for people or for scripts.
//!
//! Must not know how traffic is recorded. Invariant: contacts no server and changes nothing.

use std::time::Duration;

use crate::{
    cli::{
        CliError, CliResult, Context, args::TraceArgs, code, environment::block_on, format,
        json as documents,
    },
    domain::{ServerName, TaskId, TrafficEntry, Wall, is_task_id_prefix, text},
    store::{Lookup, TraceReader},
};

/// How often `--follow` checks for new messages.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// `trace`.
pub(in crate::cli) fn trace(context: &mut Context<'_>, trace: &TraceArgs) -> CliResult {
    let named = trace.of.as_ref().or(context.global.server.first());
    let (mut reader, task) = match named {
        None => (TraceReader::of_all(&context.paths)?, None),
        Some(of) => find_records(context, of)?,
    };
    let text = trace.grep.as_ref().map(|text| text.to_lowercase());
    let is_wanted = |entry: &TrafficEntry| {
        (task.is_none() || entry.task == task)
            && text.as_ref().is_none_or(|text| entry.what.contains(text))
    };
    let (is_of_all, is_recorded) = (named.is_none(), reader.has_any());
    let mut entries = reader.read()?;
    entries.retain(is_wanted);
    if let Some(count) = trace.lines {
        let surplus = entries.len().saturating_sub(count);
        entries.drain(..surplus);
    }
    if entries.is_empty() && !trace.follow {
        let message = empty_message(trace, is_recorded);
        context.info(&message);
    }
    print(context, trace, &entries)?;
    if !trace.follow {
        return Ok(code::OK);
    }
    block_on(async {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await; // sleep: another process may be recording
            if is_of_all {
                reader.take_in(&context.paths)?;
            }
            let mut entries = reader.read()?;
            entries.retain(is_wanted);
            print(context, trace, &entries)?;
        }
    })
}

/// The records of a server, or of a task's server with the task's id.
fn find_records(context: &Context<'_>, of: &str) -> CliResult<(TraceReader, Option<TaskId>)> {
    let name = ServerName::new(of);
    let records = TraceReader::of_servers(&context.paths, [&name]);
    let mut reader = context.reader()?;
    if records.has_any() || reader.links()?.iter().any(|link| link.name == name) {
        return Ok((records, None));
    }
    if !is_task_id_prefix(of) || matches!(reader.task(of)?, Lookup::None) {
        return Err(CliError::usage(format!(
            "no server or task \"{of}\" in session {}; `longhaul ls --all` lists the tasks",
            &context.paths.session
        )));
    }
    let task = context.find(&mut reader, of)?;
    let records = TraceReader::of_servers(&context.paths, [&task.server]);
    Ok((records, Some(task.id)))
}

/// What to print if there are no messages.
fn empty_message(trace: &TraceArgs, is_recorded: bool) -> String {
    if is_recorded && (trace.grep.is_some() || trace.lines == Some(0)) {
        return "no recorded message matches".to_owned();
    }
    let of = trace.of.as_deref().unwrap_or("this session");
    format!(
        "no recorded traffic for {of}; to record some, use `longhaul --trace call TOOL`, `trace = true` in [servers.NAME] \
         of the configuration, or :trace on the screen"
    )
}

fn print(context: &mut Context<'_>, trace: &TraceArgs, entries: &[TrafficEntry]) -> CliResult<()> {
    for entry in entries {
        if context.global.json {
            let document = serde_json::to_value(entry).unwrap_or_default();
            context.terminal.print_json(&document)?;
        } else if trace.full {
            context.print_lines(full_message(context, entry))?;
        } else {
            let head = head(context, entry);
            // A terminal gets cut lines, a pipe gets all of them.
            let columns = context.terminal.out_columns.unwrap_or(usize::MAX);
            let body_cols = columns.saturating_sub(text::width(&head) + 1);
            let line = entry.what.line(body_cols, context.terminal.ending);
            let line = format!("{head} {line}");
            context.print(&line)?;
        }
    }
    Ok(())
}

/// `06:51:58.120 > lab 12 q7m2xk`.
fn head(context: &Context<'_>, entry: &TrafficEntry) -> String {
    let task = entry.task.as_ref().map_or("-", TaskId::as_str);
    format!(
        "{} {} {} {} {task:<6}",
        clock(entry.at, context.clock.now().wall),
        entry.dir.sign(),
        entry.server,
        entry.exchange,
    )
}

fn clock(at: Wall, now: Wall) -> String {
    format!("{}.{:03}", format::clock(at, now), at.0.rem_euclid(1000))
}

/// A message with its headers and its whole body; JSON is indented.
fn full_message(context: &Context<'_>, entry: &TrafficEntry) -> Vec<String> {
    let what = &entry.what;
    let mut shown = vec![format!("{} {}", head(context, entry), what.head())];
    let headers = what.headers().iter();
    shown.extend(headers.map(|(name, value)| format!("    {name}: {value}")));
    let (data, left_out) = what.data();
    if !data.is_empty() {
        let indented = serde_json::from_str(data).map(|value| documents::pretty(&value));
        let indented = indented.unwrap_or_else(|_| text::clean_block(data).into_owned());
        shown.extend(indented.lines().map(|line| format!("    {line}")));
    }
    if left_out > 0 {
        shown.push(format!("    ... and {} more", text::bytes(left_out)));
    }
    shown
}
