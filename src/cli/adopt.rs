//! `adopt`: tasks that somebody else started, on a server that lists them or in the state file of a tutorial's client;
//! the checkpoints of a client have a file of their own.
//!
//! Invariant: what a file names is called only after a yes, and once: the same file twice starts nothing twice.

use std::{
    io::{BufRead as _, Read as _},
    path::Path,
    time::Duration,
};

use serde_json::Value;

use super::{
    Context,
    args::Adopt,
    block_on, calls, checkpoints, dice,
    fail::{Fail, code},
    json as documents,
    live::{Event, Live},
    read,
    saved::{Saved, SavedTask},
    servers::Servers,
};
use crate::{
    domain::{
        Ask, Convention, Done, NewCall, Phase, ServerRef, TaskId, TaskView, Tool, place, text,
    },
    store::Reader,
};

/// A state file holds a few tasks; whatever is larger is another file.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// How long a call that was taken over may take to be under way, before it is left to the next driver.
const BEGIN_WITHIN: Duration = Duration::from_secs(10);

/// `adopt`.
pub(super) fn adopt(context: &mut Context<'_>, adopt: &Adopt) -> Result<u8, Fail> {
    context.may_act()?;
    let mut reader = context.reader_to_act()?;
    if let Some(path) = &adopt.from {
        return from_file(context, &mut reader, path, adopt.yes);
    }
    if let Some(client_id) = &adopt.client_id {
        return checkpoints::take_over(context, &mut reader, adopt, client_id);
    }
    let server = Servers::of(context, &mut reader)?.one()?;
    let name = server.name.clone();
    block_on(async {
        let mut live = Live::open(context, vec![server])?;
        let what = Ask::Adopt {
            server: name.clone(),
            server_task: adopt.server_task.clone(),
        };
        let ids = match live.ask(context, what).await {
            Ok(Done::Adopted(ids)) => ids,
            Ok(_) => Vec::new(),
            Err(fail) => {
                live.close();
                return Err(fail);
            }
        };
        if ids.is_empty() {
            let name = text::clean_line(name.as_str());
            let words = format!("{name} lists nothing that this session does not know already");
            context.terminal.remark(&words);
        }
        tell(context, &mut reader, &ids)?;
        live.leave(context, &[]).await;
        Ok(code::OK)
    })
}

/// One line, or one document, for each task.
pub(super) fn tell(
    context: &mut Context<'_>,
    reader: &mut Reader,
    ids: &[TaskId],
) -> Result<(), Fail> {
    for id in ids {
        let task = context.find(reader, id.as_str())?;
        if context.global.json {
            let document = read::document(context, reader, &task)?;
            context.terminal.document(&documents::text_of(&document))?;
            continue;
        }
        let theirs = task
            .server_task_id
            .as_deref()
            .or(task.client_id.as_deref())
            .map_or(String::new(), |theirs| {
                format!(", its id there is {theirs}")
            });
        let words = format!(
            "{id} {}: {} on {}{theirs}",
            task.status.word(),
            calls::title(&task).trim_end(),
            task.server
        );
        context.terminal.line(&text::clean_line(&words))?;
    }
    Ok(())
}

/// `adopt --from FILE`.
fn from_file(
    context: &mut Context<'_>,
    reader: &mut Reader,
    path: &Path,
    is_agreed: bool,
) -> Result<u8, Fail> {
    let shown = path.display().to_string();
    let failed = |why: String| Fail::usage(format!("could not adopt from {shown}: {why}"));
    let mut json = String::new();
    let mut file = std::fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    if file.metadata().is_ok_and(|meta| meta.len() > FILE_BYTES) {
        return Err(failed("it is too large for a client's state".to_owned()));
    }
    let read = file.by_ref().take(FILE_BYTES).read_to_string(&mut json);
    read.map_err(|error| failed(error.to_string()))?;
    let saved = Saved::read(&json).map_err(failed)?;
    let passed_over = u64::try_from(saved.passed_over).unwrap_or(u64::MAX);
    if saved.passed_over > 0 {
        context.terminal.remark(&format!(
            "left alone: {} of it that ended, name no tool or stand there twice",
            text::plural(passed_over, "task")
        ));
    }
    if saved.tasks.is_empty() {
        context.terminal.remark("nothing of it is unfinished");
        return Ok(code::OK);
    }
    let no_client = |task: &&SavedTask| task.client_id().is_none();
    if let Some(task) = saved.tasks.iter().find(no_client) {
        let words = format!(
            "{} has no client_id, so no checkpoint is its own",
            task.tool
        );
        return Err(failed(words));
    }
    let servers = Servers::of(context, reader)?;
    let server = match &saved.url {
        _ if !servers.names().is_empty() => servers.one()?,
        Some(url) => servers.named(url)?,
        None => servers.one()?,
    };
    let url = server.url.clone().or(saved.url.clone()).unwrap_or_default();
    for task in &saved.tasks {
        let words = format!(
            "would call {} {} on {} ({}); there it was {}",
            task.tool,
            Value::Object(task.arguments.clone()),
            server.name,
            place::shown(&url),
            task.stands
        );
        context.terminal.say(&text::clean_line(&words));
    }
    if !is_agreed && !says_yes(context, "call them? y/N")? {
        return Err(Fail::usage("nothing was called; --yes calls them"));
    }
    let ids = block_on(call_all(context, server, &saved))?;
    tell(context, reader, &ids)?;
    Ok(code::OK)
}

/// Asks a person, where there is one.
pub(super) fn says_yes(context: &mut Context<'_>, question: &str) -> Result<bool, Fail> {
    if !context.terminal.is_for_people() {
        return Ok(false);
    }
    context.terminal.say(question);
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

async fn call_all(
    context: &mut Context<'_>,
    server: ServerRef,
    saved: &Saved,
) -> Result<Vec<TaskId>, Fail> {
    let name = server.name.clone();
    let convention = context.config()?.convention(&name);
    let limits = context.config()?.usual_limits().of(&name);
    let mut live = Live::open(context, vec![server])?;
    let begun = async {
        let tools = calls::list(context, &mut live, &name).await?;
        for task in &saved.tasks {
            must_keep_checkpoint(&tools, &task.tool, &convention)?;
        }
        let mut ids = Vec::new();
        for task in &saved.tasks {
            let id = TaskId::from_bits(dice());
            let arguments = Value::Object(task.arguments.clone()).to_string();
            let call = NewCall {
                once: Some(task.once()),
                limits,
                ..NewCall::new(id, name.clone(), task.tool.clone(), arguments)
            };
            if let Done::Started(id) = live.ask(context, Ask::Start(Box::new(call))).await? {
                ids.push(id);
            }
        }
        under_way(context, &mut live, &ids).await?;
        Ok(ids)
    };
    match begun.await {
        Ok(ids) => {
            live.leave(context, &[]).await;
            Ok(ids)
        }
        Err(fail) => {
            live.close();
            Err(fail)
        }
    }
}

pub(super) fn must_keep_checkpoint(
    tools: &[Tool],
    name: &str,
    convention: &Convention,
) -> Result<(), Fail> {
    let tool = tools.iter().find(|tool| tool.name == name);
    match tool.map(|tool| tool.keeps_checkpoint(tools, convention)) {
        Some(true) => Ok(()),
        Some(false) => Err(Fail::usage(format!(
            "{name} keeps no checkpoint there, so it would begin anew; nothing was called"
        ))),
        None => Err(Fail::usage(format!(
            "the server has no tool {name}; nothing was called"
        ))),
    }
}

/// Waits until leaving does no harm any more, or nothing moves.
async fn under_way(context: &mut Context<'_>, live: &mut Live, ids: &[TaskId]) -> Result<(), Fail> {
    let is_begun = |view: &TaskView| {
        let attempt = view.task.attempt();
        view.task.status.ends_waiting() || attempt.is_some_and(|it| it.phase >= Phase::Open)
    };
    let until = tokio::time::Instant::now() + BEGIN_WITHIN;
    let is_open = |live: &Live| {
        let begun = |id| live.tasks.get(id).is_some_and(|view| is_begun(view));
        !ids.iter().all(begun)
    };
    while is_open(live) {
        match tokio::time::timeout_at(until, live.next(context)).await {
            Ok(Ok(Event::News(_))) => {}
            Ok(Ok(Event::Interrupted | Event::Ended)) | Err(_) => break,
            Ok(Err(fail)) => return Err(fail),
        }
    }
    Ok(())
}
