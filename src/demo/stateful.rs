//! The tasks of 2025-11-25: how a task is spelled, and the methods around it.
//!
//! The SDK has dropped this kind of task, so all of it is answered here, over the SDK's sessions and streams. In a session
//! of an older revision the same requests get what that revision gives them. Must not know how they reached us (`dialect`).

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CustomNotification, CustomRequest, ErrorCode, TaskStatus},
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{
    call::{cancelled, internal, invalid},
    catalogue::{Support, catalogue, support},
    disk::rfc3339,
    handler::{Era, Handler, begin_task, known_task},
    questions::Asking,
    sessions::Slot,
    tasks::{POLL_MS, Task, Tasks},
};

/// Tasks on one page of the list.
const PAGE: i64 = 20;
/// The key that ties a message to a task.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A task as it is spelled.
fn view(task: &Task) -> Value {
    json!({
        "taskId": task.id,
        "status": status(task),
        "statusMessage": task.message,
        "createdAt": rfc3339(task.created_ms),
        "lastUpdatedAt": rfc3339(task.updated_ms),
        "ttl": task.ttl_ms,
        "pollInterval": POLL_MS,
    })
}

/// Here a tool's own error counts as a failed task.
fn status(task: &Task) -> TaskStatus {
    let is_error = task
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.get("result")?.get("isError")?.as_bool());
    if is_error == Some(true) {
        TaskStatus::Failed
    } else {
        task.status
    }
}

/// Answers what the SDK has no types for.
pub(super) async fn answer(
    handler: &Handler,
    era: Era,
    method: &str,
    params: Value,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let has_tasks = era == Era::StatefulTasks;
    let tasks = &handler.shared.tasks;
    match method {
        "tools/list" => Ok(tools(has_tasks)),
        "tools/call" => call(handler, has_tasks, params, context).await,
        "tasks/get" if has_tasks => Ok(view(&named(handler, &params)?)),
        "tasks/result" if has_tasks => {
            let task = named(handler, &params)?;
            result(tasks, handler, &task.id, context).await
        }
        "tasks/list" if has_tasks => list(tasks, &params),
        "tasks/cancel" if has_tasks => {
            let task = named(handler, &params)?;
            if !tasks.cancel(&task.id).map_err(internal)? {
                return Err(invalid("the task is over"));
            }
            Ok(view(&known_task(&handler.shared, &task.id)?))
        }
        _ => Err(not_found(method)),
    }
}

fn not_found(words: impl Into<String>) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, words.into(), None)
}

/// The task that a request names.
fn named(handler: &Handler, params: &Value) -> Result<Task, ErrorData> {
    let id = params.get("taskId").and_then(Value::as_str);
    known_task(&handler.shared, id.ok_or_else(|| invalid("no taskId"))?)
}

fn tools(has_tasks: bool) -> Value {
    let tools: Vec<_> = catalogue()
        .into_iter()
        .map(|card| {
            let mut tool = serde_json::to_value(card.tool).unwrap_or_default();
            if has_tasks && let Value::Object(tool) = &mut tool {
                let execution = json!({"taskSupport": card.support.label()});
                tool.insert("execution".to_owned(), execution);
            }
            tool
        })
        .collect();
    json!({"tools": tools})
}

/// A call that wishes to be a task.
async fn call(
    handler: &Handler,
    has_tasks: bool,
    params: Value,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let ttl_ms = params.pointer("/task/ttl").and_then(Value::as_i64);
    let request: CallToolRequestParams =
        serde_json::from_value(params).map_err(|error| invalid(error.to_string()))?;
    if !has_tasks {
        // A revision without tasks does not see the wish.
        let result = handler.call_tool(request, context).await?;
        let result = rmcp::model::ServerResult::from(result);
        return Ok(plain(serde_json::to_value(result).map_err(internal)?));
    }
    let tool = request.name.as_ref();
    if support(tool) == Support::Never {
        return Err(not_found(format!("{tool} does not run as a task")));
    }
    if tool == "deploy" && !Asking::of(context.client_capabilities().as_ref()).form {
        return Err(invalid("deploy needs a client that can be asked"));
    }
    let task = begin_task(&handler.shared, tool, request.arguments, ttl_ms)?;
    let tasks = std::sync::Arc::clone(&handler.shared.tasks);
    let made = json!({"task": view(&task)});
    tokio::spawn(async move { tell(&tasks, task, &context.peer).await });
    Ok(made)
}

/// A result without what only the modern era has.
fn plain(mut result: Value) -> Value {
    if let Value::Object(result) = &mut result {
        result.remove("resultType");
    }
    result
}

/// Tells the session that made a task of its changes, until the task is settled or the session ends.
async fn tell(tasks: &Tasks, mut known: Task, peer: &Peer<RoleServer>) {
    let mut changes = tasks.changes();
    while !known.status.is_terminal() && changes.changed().await.is_ok() {
        let Ok(Some(now)) = tasks.get(&known.id) else {
            return;
        };
        let is_news = view(&known) != view(&now);
        known = now;
        let news = CustomNotification::new("notifications/tasks/status", Some(view(&known)));
        if is_news && peer.send_notification(news.into()).await.is_err() {
            return;
        }
    }
}

fn list(tasks: &Tasks, params: &Value) -> Result<Value, ErrorData> {
    let after = match params.get("cursor") {
        None | Some(Value::Null) => 0,
        Some(cursor) => cursor
            .as_str()
            .and_then(|cursor| cursor.parse::<i64>().ok())
            .ok_or_else(|| invalid("an unknown cursor"))?,
    };
    // One more than a page tells whether there is another.
    let mut found = tasks.page(after, PAGE + 1).map_err(internal)?;
    let has_more = found.len() > usize::try_from(PAGE).unwrap_or(usize::MAX);
    if has_more {
        found.pop();
    }
    let mut answer = json!({"tasks": found.iter().map(view).collect::<Vec<_>>()});
    if has_more && let (Value::Object(answer), Some(last)) = (&mut answer, found.last()) {
        answer.insert("nextCursor".to_owned(), last.row.to_string().into());
    }
    Ok(answer)
}

/// Waits for the end of a task; what the task asks meanwhile is asked on this request's stream.
async fn result(
    tasks: &Tasks,
    handler: &Handler,
    id: &str,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let slot = context.extensions.get::<Slot>().cloned();
    let gone = async {
        match &slot {
            Some(slot) => slot.cancel().cancelled_owned().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(gone);
    let related = json!({RELATED: {"taskId": id}});
    let mut changes = tasks.changes();
    loop {
        changes.borrow_and_update();
        let task = known_task(&handler.shared, id)?;
        if task.status.is_terminal() {
            return outcome(&task, related);
        }
        let question = task.open_questions().next();
        let step = async {
            let Some((key, request)) = question else {
                let _ = changes.changed().await;
                return Ok(());
            };
            tokio::select! {
                answer = ask(&context.peer, request, &related) => {
                    tasks.answer(id, [(key.clone(), answer?)]).map_err(internal)
                }
                () = closed(tasks, id, key) => Ok(()),
            }
        };
        tokio::select! {
            done = step => done?,
            () = &mut gone => return Err(cancelled()),
            () = context.ct.cancelled() => return Err(cancelled()),
        }
    }
}

/// Sends a task's question and returns its answer.
async fn ask(
    peer: &Peer<RoleServer>,
    request: &Value,
    related: &Value,
) -> Result<Value, ErrorData> {
    let mut params = request.get("params").cloned().unwrap_or_default();
    if let Value::Object(params) = &mut params {
        params.insert("_meta".to_owned(), related.clone());
    }
    let method = request.get("method").and_then(Value::as_str);
    let request = CustomRequest::new(method.unwrap_or_default(), Some(params));
    let answer = peer.send_request(request.into()).await.map_err(internal)?;
    serde_json::to_value(answer).map_err(internal)
}

/// Returns once a question is no longer open, because it was answered elsewhere or its task is over.
async fn closed(tasks: &Tasks, id: &str, key: &str) {
    let mut changes = tasks.changes();
    loop {
        changes.borrow_and_update();
        let task = tasks.get(id).ok().flatten();
        let is_open = task.is_some_and(|task| {
            !task.status.is_terminal() && task.open_questions().any(|(open, _)| open == key)
        });
        if !is_open || changes.changed().await.is_err() {
            return;
        }
    }
}

/// What the call would have been answered.
fn outcome(task: &Task, related: Value) -> Result<Value, ErrorData> {
    let part = |name: &str| task.outcome.as_ref()?.get(name).cloned();
    if let Some(error) = part("error") {
        return Err(serde_json::from_value(error).map_err(internal)?);
    }
    let mut result = plain(part("result").ok_or_else(cancelled)?);
    if let Value::Object(result) = &mut result {
        result.insert("_meta".to_owned(), related);
    }
    Ok(result)
}
