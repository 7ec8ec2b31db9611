//! `trace`: what was recorded of the wire, as lines for people or for scripts.
//!
//! Must not know how it is recorded. Invariant: nothing is contacted and nothing is changed.

use std::time::Duration;

use super::{
    Context,
    args::Trace,
    block_on,
    fail::{Fail, code},
    json as documents, lines,
};
use crate::{
    domain::{ServerName, TaskId, TrafficEntry, Wall, is_task_id_prefix, text},
    store::{Lookup, TraceReader},
};

/// How often a record is looked at that is followed.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Which messages are meant.
#[derive(Default)]
struct Wanted {
    task: Option<TaskId>,
    /// In lowercase.
    text: Option<String>,
}

impl Wanted {
    fn fits(&self, entry: &TrafficEntry) -> bool {
        (self.task.is_none() || entry.task == self.task)
            && self
                .text
                .as_ref()
                .is_none_or(|text| entry.what.contains(text))
    }
}

/// `trace`.
pub(super) fn trace(context: &mut Context<'_>, trace: &Trace) -> Result<u8, Fail> {
    let named = trace.of.as_ref().or(context.global.server.first());
    let (mut reader, task) = match named {
        None => (TraceReader::of_all(&context.paths)?, None),
        Some(of) => meant(context, of)?,
    };
    let wanted = Wanted {
        task,
        text: trace.grep.as_ref().map(|text| text.to_lowercase()),
    };
    let (is_of_all, is_recorded) = (named.is_none(), reader.has_any());
    let mut entries = reader.read()?;
    entries.retain(|entry| wanted.fits(entry));
    if let Some(count) = trace.lines {
        let surplus = entries.len().saturating_sub(count);
        entries.drain(..surplus);
    }
    if entries.is_empty() && !trace.follow {
        let words = nothing(context, trace, is_recorded);
        context.terminal.remark(&words);
    }
    print(context, trace, &entries)?;
    if !trace.follow {
        return Ok(code::OK);
    }
    block_on(async {
        loop {
            tokio::time::sleep(LOOK_EVERY).await; // sleep: whoever records may be another process
            if is_of_all {
                reader.take_in(&context.paths)?;
            }
            let mut entries = reader.read()?;
            entries.retain(|entry| wanted.fits(entry));
            print(context, trace, &entries)?;
        }
    })
}

/// The records to look into, and the task that is meant, if it is one.
fn meant(context: &Context<'_>, of: &str) -> Result<(TraceReader, Option<TaskId>), Fail> {
    let name = ServerName::new(of);
    let records = TraceReader::of_servers(&context.paths, [&name]);
    let mut reader = context.reader()?;
    if records.has_any() || reader.links()?.iter().any(|link| link.name == name) {
        return Ok((records, None));
    }
    if !is_task_id_prefix(of) || matches!(reader.task(of)?, Lookup::None) {
        return Err(Fail::usage(format!(
            "{} is no server of session {} and begins no id of a task there; `longhaul{} ls --all` lists both",
            text::clean_line(of),
            context.paths.session(),
            context.flags()
        )));
    }
    let task = context.find(&mut reader, of)?;
    let records = TraceReader::of_servers(&context.paths, [&task.server]);
    Ok((records, Some(task.id)))
}

/// What there is to say instead of messages.
fn nothing(context: &Context<'_>, trace: &Trace, is_recorded: bool) -> String {
    let flags = context.flags();
    if is_recorded && (trace.grep.is_some() || trace.lines == Some(0)) {
        return "no recorded message fits".to_owned();
    }
    let of = trace.of.as_deref().unwrap_or("this session");
    format!(
        "nothing is recorded of {}. RecordingSwitch it on: `longhaul{flags} --trace call TOOL`, or `trace = true` in [servers.NAME] \
         of the configuration, or :trace on the screen",
        text::clean_line(of)
    )
}

fn print(context: &mut Context<'_>, trace: &Trace, entries: &[TrafficEntry]) -> Result<(), Fail> {
    for entry in entries {
        if context.global.json {
            let document = serde_json::to_value(entry).unwrap_or_default();
            context.terminal.document(&documents::text_of(&document))?;
        } else if trace.full {
            for line in whole(context, entry) {
                context.terminal.line(&line)?;
            }
        } else {
            let head = head(context, entry);
            // Only a terminal has an end of a line; a pipe gets all of it.
            let columns = context.terminal.out_columns().unwrap_or(usize::MAX);
            let room = columns.saturating_sub(text::width(&head) + 1);
            let line = entry.what.line(room, context.terminal.ending());
            let line = format!("{head} {line}");
            context.terminal.line(&line)?;
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
        text::clean_line(entry.server.as_str()),
        entry.exchange,
    )
}

fn clock(at: Wall, now: Wall) -> String {
    format!("{}.{:03}", lines::clock(at, now), at.0.rem_euclid(1000))
}

/// A message with its headers and its whole body, JSON laid out.
fn whole(context: &Context<'_>, entry: &TrafficEntry) -> Vec<String> {
    let what = &entry.what;
    let mut shown = vec![format!("{} {}", head(context, entry), what.head())];
    let headers = what.headers().iter();
    shown.extend(
        headers.map(|(name, value)| text::clean_line(&format!("    {name}: {value}")).into_owned()),
    );
    let (data, left_out) = what.data();
    if !data.is_empty() {
        let laid_out = serde_json::from_str(data).map(|value| documents::pretty(&value));
        let laid_out = laid_out.unwrap_or_else(|_| text::clean_block(data).into_owned());
        shown.extend(laid_out.lines().map(|line| format!("    {line}")));
    }
    if left_out > 0 {
        shown.push(format!("    ... and {} more", text::bytes(left_out)));
    }
    shown
}
