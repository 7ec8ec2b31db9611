//! `adopt`: tasks that somebody else started, on a server that lists them or in the state file of a tutorial's client;
//! the checkpoints of a client have a file of their own.
//!
//! Invariant: what a file names is called only after a yes, and once: the same file twice starts nothing twice.

use std::{
    io::{BufRead as _, Read as _},
    path::Path,
    time::Duration,
};

use serde_json::{Map, Value};

use super::{
    Context,
    args::Adopt,
    block_on, calls, checkpoints, dice,
    fail::{Fail, code},
    json as documents,
    live::{Event, Live},
    read,
    servers::Servers,
};
use crate::{
    domain::{
        Ask, CLIENT_ID, Done, Limits, NewCall, OnInput, Phase, ServerRef, TaskId, TaskView, Tool,
        place, text,
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
            calls::title(&task),
            task.server
        );
        context.terminal.line(&text::clean_line(&words))?;
    }
    Ok(())
}

/// What the file of a tutorial's client says.
#[derive(Debug, PartialEq)]
struct Saved {
    url: Option<String>,
    client_id: Option<String>,
    tasks: Vec<SavedTask>,
    /// How many of its tasks have ended or name no tool.
    passed_over: usize,
}

/// One unfinished task of such a file.
#[derive(Debug, PartialEq)]
struct SavedTask {
    id: String,
    tool: String,
    arguments: Map<String, Value>,
    /// `running, 60`.
    stands: String,
}

impl Saved {
    /// Reads the text of a file. Such clients were written by hand, so that several names for a thing are taken.
    fn read(json: &str) -> Result<Self, String> {
        let file: Map<String, Value> = match serde_json::from_str(json) {
            Ok(Value::Object(file)) => file,
            Ok(_) => return Err("it is no JSON object".to_owned()),
            Err(error) => return Err(format!("it is no JSON: {error}")),
        };
        let text_of = |keys: &[&str]| first_text(&file, keys);
        let listed = file.get("active_tasks").or_else(|| file.get("tasks"));
        let entries: Vec<(String, &Map<String, Value>)> = match listed {
            Some(Value::Object(tasks)) => {
                let object = |(id, task): (&String, _)| {
                    let task: &Value = task;
                    Some((id.clone(), task.as_object()?))
                };
                tasks.iter().filter_map(object).collect()
            }
            Some(Value::Array(tasks)) => {
                let objects = tasks.iter().filter_map(Value::as_object);
                let with_id = |task: &Map<String, Value>| first_text(task, &["task_id", "id"]);
                objects
                    .map(|task| (with_id(task).unwrap_or_default(), task))
                    .collect()
            }
            _ => return Err("it has no active_tasks".to_owned()),
        };
        let count = entries.len();
        let own_client = text_of(&[CLIENT_ID]);
        let tasks: Vec<SavedTask> = entries
            .into_iter()
            .filter_map(|(id, task)| saved_task(id, task, own_client.as_deref()))
            .collect();
        Ok(Self {
            url: text_of(&["server_url", "url", "base_url", "server"]),
            client_id: own_client,
            passed_over: count - tasks.len(),
            tasks,
        })
    }
}

fn first_text(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let texts = keys.iter().filter_map(|key| object.get(*key)?.as_str());
    texts.map(str::to_owned).find(|text| !text.is_empty())
}

fn saved_task(id: String, task: &Map<String, Value>, client_id: Option<&str>) -> Option<SavedTask> {
    const ENDED: [&str; 8] = [
        "completed",
        "complete",
        "done",
        "finished",
        "failed",
        "error",
        "cancelled",
        "canceled",
    ];
    let status = first_text(task, &["status", "state"]).unwrap_or_else(|| "running".to_owned());
    if ENDED.contains(&status.to_lowercase().as_str()) {
        return None;
    }
    let tool = first_text(
        task,
        &["tool", "tool_name", "name", "task_name", "task_type"],
    )?;
    let given = ["arguments", "args", "params", "parameters"];
    let given = given.iter().find_map(|key| task.get(*key)?.as_object());
    let mut arguments = given.cloned().unwrap_or_default();
    let has_own = arguments.get(CLIENT_ID).is_some_and(Value::is_string);
    let of_task = first_text(task, &[CLIENT_ID]);
    let client_id = of_task.as_deref().or(client_id).filter(|_| !has_own);
    if let Some(client_id) = client_id {
        arguments.insert(CLIENT_ID.to_owned(), Value::String(client_id.to_owned()));
    }
    let progress = task
        .get("progress")
        .filter(|it| it.is_number() || it.is_string());
    let progress = progress.map_or(String::new(), |progress| format!(" at {progress}"));
    Some(SavedTask {
        id,
        tool,
        arguments,
        stands: format!("{status}{progress}"),
    })
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
            "{} of it ended or named no tool, and is left alone",
            text::plural(passed_over, "task")
        ));
    }
    if saved.tasks.is_empty() {
        context.terminal.remark("nothing of it is unfinished");
        return Ok(code::OK);
    }
    let no_client = |task: &&SavedTask| !task.arguments.contains_key(CLIENT_ID);
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
    let mut live = Live::open(context, vec![server])?;
    let begun = async {
        let tools = calls::list(context, &mut live, &name).await?;
        for task in &saved.tasks {
            must_keep_checkpoint(&tools, &task.tool)?;
        }
        let mut ids = Vec::new();
        for task in &saved.tasks {
            let client = task.arguments.get(CLIENT_ID).and_then(Value::as_str);
            let call = NewCall {
                id: TaskId::from_bits(dice()),
                server: name.clone(),
                tool: task.tool.clone(),
                arguments: Value::Object(task.arguments.clone()).to_string(),
                name: None,
                tag: None,
                once: Some(format!(
                    "adopted {} {}",
                    client.unwrap_or_default(),
                    task.id
                )),
                origin: None,
                goes_on: None,
                must_survive: false,
                limits: Limits::default(),
                on_input: OnInput::Ask,
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

pub(super) fn must_keep_checkpoint(tools: &[Tool], name: &str) -> Result<(), Fail> {
    let tool = tools.iter().find(|tool| tool.name == name);
    match tool.map(|tool| tool.keeps_checkpoint(tools)) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_file_is_read_in_the_shapes_that_people_write() {
        let of_map = json!({"client_id": "c-1", "session_id": "s", "server_url": "http://127.0.0.1:1/mcp", "active_tasks": {
            "t1": {"tool": "work", "arguments": {"n": 5}, "status": "running", "progress": 60},
            "t2": {"name": "work", "args": {"n": 6, "client_id": "mine"}, "status": "Paused"},
            "t3": {"tool": "work", "status": "completed"},
            "t4": {"status": "running"},
            "t5": 7,
        }});
        let saved = Saved::read(&of_map.to_string()).unwrap();
        let calls: Vec<_> = saved
            .tasks
            .iter()
            .map(|task| {
                (
                    task.id.as_str(),
                    json!(task.arguments),
                    task.stands.as_str(),
                )
            })
            .collect();
        assert_eq!(
            calls,
            [
                ("t1", json!({"n": 5, "client_id": "c-1"}), "running at 60"),
                ("t2", json!({"n": 6, "client_id": "mine"}), "Paused"),
            ]
        );
        assert_eq!(saved.passed_over, 2);
        let of_list = json!({"active_tasks": [{"task_id": "x", "tool_name": "work", "params": {}, "client_id": "c"}]});
        let saved = Saved::read(&of_list.to_string()).unwrap();
        assert_eq!((saved.tasks.len(), saved.url), (1, None));
        for wrong in ["", "[]", "{}", r#"{"active_tasks": 5}"#] {
            assert!(Saved::read(wrong).is_err(), "{wrong}");
        }
    }
}
