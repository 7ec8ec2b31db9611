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
    block_on, calls,
    checkpoints::{self, Offer},
    fail::{Fail, code},
    json as documents,
    live::{Event, Live},
    read,
    saved::{Saved, SavedTask},
    target::Targets,
};
use crate::{
    domain::{
        CLIENT_ID, Checkpoint, CheckpointConvention, Phase, ServerRef, SessionRequest,
        SessionResponse, TaskId, TaskView, Tool, server_url, text,
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
        return from_file(context, &mut reader, path, adopt);
    }
    if let Some(client_id) = &adopt.client_id {
        return checkpoints::take_over(context, &mut reader, adopt, client_id);
    }
    let server = Targets::of(context, &mut reader)?.one()?;
    let name = server.name.clone();
    block_on(async {
        let mut live = Live::open(context, vec![server])?;
        let what = SessionRequest::Adopt {
            server: name.clone(),
            server_task: adopt.server_task.clone(),
        };
        let ids = match live.ask(context, what).await {
            Ok(SessionResponse::Adopted(ids)) => ids,
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
            task.status.label(),
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
    wanted: &Adopt,
) -> Result<u8, Fail> {
    let failed =
        |why: String| Fail::usage(format!("could not adopt from {}: {why}", path.display()));
    let saved = read_file(path).map_err(failed)?;
    let passed_over = u64::try_from(saved.passed_over).unwrap_or(u64::MAX);
    if saved.passed_over > 0 {
        context.terminal.remark(&format!(
            "skipped {} (finished, without a tool name, or duplicates)",
            text::plural(passed_over, "task")
        ));
    }
    if saved.tasks.is_empty() {
        context
            .terminal
            .remark("nothing to adopt: the file has no unfinished tasks");
        return Ok(code::OK);
    }
    let tasks = meant(saved.tasks, wanted.server_task.as_deref()).map_err(failed)?;
    let servers = Targets::of(context, reader)?;
    let server = match &saved.url {
        _ if !servers.names().is_empty() => servers.one()?,
        Some(url) => servers.named(url)?,
        None => servers.one()?,
    };
    let url = server.url.clone().or(saved.url).unwrap_or_default();
    let mut offers = Vec::new();
    for (task, offer) in block_on(offers_of(context, &server, tasks, &wanted.pairs))? {
        match offer {
            Some(offer) => offers.push(offer),
            None => say_short(context, path, &server, &task),
        }
    }
    if offers.is_empty() {
        return Err(Fail::usage("nothing was called"));
    }
    for offer in &offers {
        let first = match offer.goes_on {
            Some(_) => ", once nobody works on it any more",
            None => "",
        };
        let words = format!(
            "would call {} {} on {} ({}){first}; there it is {}",
            offer.tool,
            Value::Object(offer.arguments.clone()),
            server.name,
            server_url::redacted(&url),
            offer.stands
        );
        context.terminal.say(&text::clean_line(&words));
    }
    if !wanted.yes && !says_yes(context, "call them? y/N")? {
        return Err(Fail::usage("nothing was called; --yes calls them"));
    }
    let ids = block_on(checkpoints::start_all(context, server, offers))?;
    tell(context, reader, &ids)?;
    Ok(code::OK)
}

fn read_file(path: &Path) -> Result<Saved, String> {
    let mut json = String::new();
    let mut file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|meta| meta.len() > FILE_BYTES) {
        return Err("it is too large for a client's state".to_owned());
    }
    let read = file.by_ref().take(FILE_BYTES).read_to_string(&mut json);
    read.map_err(|error| error.to_string())?;
    Saved::read(&json)
}

/// The tasks of a file that are meant: the one that is named, else all; each has a client.
fn meant(tasks: Vec<SavedTask>, named: Option<&str>) -> Result<Vec<SavedTask>, String> {
    let ids: Vec<String> = tasks.iter().map(|task| task.id.clone()).collect();
    let is_meant = |task: &SavedTask| named.is_none_or(|id| task.id == id);
    let tasks: Vec<SavedTask> = tasks.into_iter().filter(is_meant).collect();
    if let (Some(id), []) = (named, tasks.as_slice()) {
        let ids = text::clean_line(&ids.join(", ")).into_owned();
        return Err(format!("it has no unfinished task {id}; it has {ids}"));
    }
    match tasks.iter().find(|task| task.client_id().is_none()) {
        Some(task) => Err(format!(
            "{} has no client_id, so no checkpoint is its own",
            task.tool
        )),
        None => Ok(tasks),
    }
}

/// What would be called for each task; `None` where nobody knows its arguments. The server's list may tell them, and it
/// says whether somebody works on a task.
async fn offers_of(
    context: &mut Context<'_>,
    server: &ServerRef,
    tasks: Vec<SavedTask>,
    pairs: &[String],
) -> Result<Vec<(SavedTask, Option<Offer>)>, Fail> {
    let convention = context.config()?.convention(&server.name);
    let client_of = |task: &SavedTask| task.client_id().unwrap_or_default().to_owned();
    let mut clients: Vec<String> = tasks.iter().map(client_of).collect();
    clients.sort();
    clients.dedup();
    let tools_of: Vec<String> = tasks.iter().map(|task| task.tool.clone()).collect();
    let (lists, tools) = checkpoints::look(context, server, &clients, &tools_of).await?;
    let mut offers = Vec::new();
    for task in tasks {
        let client_id = client_of(&task);
        let mut listed = clients.iter().zip(&lists);
        let listed = listed.find(|(client, _)| **client == client_id);
        let listed = listed.map_or(&[][..], |(_, list)| list);
        let is_alone = tools_of.iter().filter(|it| **it == task.tool).count() == 1;
        let found = listed_as(listed, &task, is_alone);
        let mut known = Some(task.arguments.clone()).filter(|_| task.has_arguments);
        if let Some(known) = &mut known {
            known.remove(CLIENT_ID);
        }
        let known = known.or_else(|| checkpoints::shown_arguments(found?));
        let key = (convention.client_id.as_str(), client_id.as_str());
        let tool = tools.iter().find(|tool| tool.name == task.tool);
        let arguments = checkpoints::whole_arguments(known, pairs, key, tool)?;
        let offer = arguments.map(|arguments| Offer {
            tool: task.tool.clone(),
            arguments,
            goes_on: found.map(|found| found.id.clone()),
            once: task.once(),
            stands: found.map_or_else(|| task.stands.clone(), checkpoints::stands),
        });
        offers.push((task, offer));
    }
    Ok(offers)
}

/// The checkpoint of a task of a file. Such a client mostly has an id of its own for it: then it is the one that its server
/// has of this tool, where the file has only one too.
fn listed_as<'l>(
    listed: &'l [Checkpoint],
    task: &SavedTask,
    is_alone: bool,
) -> Option<&'l Checkpoint> {
    let by_id = listed.iter().find(|it| it.id == task.id);
    let of_tool = |it: &&Checkpoint| it.is_unsettled && it.tool.as_ref() == Some(&task.tool);
    let mut others = listed.iter().filter(of_tool);
    by_id.or_else(|| match (others.next(), others.next()) {
        (Some(only), None) if is_alone => Some(only),
        _ => None,
    })
}

fn say_short(context: &mut Context<'_>, path: &Path, server: &ServerRef, task: &SavedTask) {
    let words = format!(
        "{} is {}: the file does not hold its arguments, and its checkpoint is found by them; give them: longhaul{} adopt -s {} --from {} {} KEY=VALUE ...",
        task.tool,
        task.stands,
        context.flags(),
        super::quoted(server.name.as_str()),
        super::quoted(&path.display().to_string()),
        super::quoted(&task.id),
    );
    context.terminal.say(&text::clean_line(&words));
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

pub(super) fn must_keep_checkpoint(
    tools: &[Tool],
    name: &str,
    convention: &CheckpointConvention,
) -> Result<(), Fail> {
    let tool = tools.iter().find(|tool| tool.name == name);
    match tool.map(|tool| tool.keeps_checkpoint(tools, convention)) {
        Some(true) => Ok(()),
        Some(false) => Err(Fail::usage(format!(
            "{name} keeps no checkpoint there, so it would start over; nothing was called"
        ))),
        None => Err(Fail::usage(format!(
            "the server has no tool {name}; nothing was called"
        ))),
    }
}

/// Waits until leaving does no harm any more, or nothing moves.
pub(super) async fn under_way(
    context: &mut Context<'_>,
    live: &mut Live,
    ids: &[TaskId],
) -> Result<(), Fail> {
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
            Ok(Ok(Event::Session(_))) => {}
            Ok(Ok(Event::Interrupted | Event::Ended)) | Err(_) => break,
            Ok(Err(fail)) => return Err(fail),
        }
    }
    Ok(())
}
