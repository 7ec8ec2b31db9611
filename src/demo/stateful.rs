//! Tasks of 2025-11-25 on the wire, and the methods around them.
//!
//! The SDK has dropped these tasks, so everything is answered here, on the SDK's sessions and streams. In sessions of older
//! revisions the same requests get the response of their revision.

use std::sync::Arc;

use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{CallToolRequestParams, CustomNotification, CustomRequest, TaskStatus},
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{
    catalog::{ToolTaskSupport, catalog, task_support},
    context::{cancelled, internal, invalid, not_found, supports_forms, with},
    database::rfc3339,
    handler::{Handler, ProtocolEra, find_task, start_task},
    sessions::RequestHandle,
    tasks::{POLL_MS, TaskRecord, TaskStore},
};

/// Tasks per page of `tasks/list`.
const PAGE_SIZE: i64 = 20;

/// The `_meta` key that links a message to a task.
const RELATED_TASK_KEY: &str = "io.modelcontextprotocol/related-task";

/// A task on the wire.
fn view(task: &TaskRecord) -> Value {
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

/// The status on the wire: in 2025-11-25 a tool result with `isError` counts as failed.
fn status(task: &TaskRecord) -> TaskStatus {
    let outcome = task.outcome.as_ref();
    let is_error = outcome.and_then(|it| it.get("result")?.get("isError")?.as_bool());
    if is_error == Some(true) {
        TaskStatus::Failed
    } else {
        task.status
    }
}

/// Answers a custom request.
pub(super) async fn answer(
    handler: &Handler,
    era: ProtocolEra,
    method: &str,
    params: Value,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let has_tasks = era == ProtocolEra::StatefulTasks;
    let tasks = &handler.shared.tasks;
    match method {
        "tools/list" => Ok(tools(has_tasks)),
        "tools/call" => call(handler, has_tasks, params, context).await,
        "tasks/get" if has_tasks => Ok(view(&requested_task(handler, &params)?)),
        "tasks/result" if has_tasks => {
            let task = requested_task(handler, &params)?;
            result(tasks, handler, &task.id, context).await
        }
        "tasks/list" if has_tasks => list(tasks, &params),
        "tasks/cancel" if has_tasks => {
            let task = requested_task(handler, &params)?;
            if !tasks.cancel(&task.id).map_err(internal)? {
                return Err(invalid("the task has already finished"));
            }
            Ok(view(&find_task(&handler.shared, &task.id)?))
        }
        _ => Err(not_found(method)),
    }
}

/// The task named by a request's parameters.
fn requested_task(handler: &Handler, params: &Value) -> Result<TaskRecord, ErrorData> {
    let id = params.get("taskId").and_then(Value::as_str);
    find_task(
        &handler.shared,
        id.ok_or_else(|| invalid("missing taskId"))?,
    )
}

fn tools(has_tasks: bool) -> Value {
    let tools: Vec<_> = catalog()
        .into_iter()
        .map(|(tool, support)| match json!(tool) {
            tool if has_tasks => with(tool, "execution", json!({"taskSupport": support})),
            tool => tool,
        })
        .collect();
    json!({"tools": tools})
}

/// A `tools/call` with a `task` parameter.
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
        // Older revisions ignore the `task` parameter.
        let result = handler.call_tool(request, context).await?;
        let result = rmcp::model::ServerResult::from(result);
        return Ok(without_result_type(
            serde_json::to_value(result).map_err(internal)?,
        ));
    }
    let tool = request.name.as_ref();
    if task_support(tool) == ToolTaskSupport::Never {
        return Err(not_found(format!("{tool} can't run as a task")));
    }
    if tool == "deploy" && !supports_forms(context.client_capabilities().as_ref()) {
        return Err(invalid(
            "deploy needs a client that supports form elicitation",
        ));
    }
    let task = start_task(&handler.shared, tool, request.arguments, ttl_ms)?;
    let tasks = Arc::clone(&handler.shared.tasks);
    let result = json!({"task": view(&task)});
    tokio::spawn(async move { notify_changes(&tasks, task, &context.peer).await });
    Ok(result)
}

/// Removes `resultType`, which only the modern era has.
fn without_result_type(mut result: Value) -> Value {
    if let Value::Object(result) = &mut result {
        result.remove("resultType");
    }
    result
}

/// Notifies the session that created a task of its changes, until the task is settled or the session ends.
async fn notify_changes(tasks: &TaskStore, mut known: TaskRecord, peer: &Peer<RoleServer>) {
    let mut changes = tasks.changes.subscribe();
    while !known.status.is_terminal() && changes.changed().await.is_ok() {
        let Ok(Some(now)) = tasks.get(&known.id) else {
            return;
        };
        let has_changed = view(&known) != view(&now);
        known = now;
        let status = CustomNotification::new("notifications/tasks/status", Some(view(&known)));
        if has_changed && peer.send_notification(status.into()).await.is_err() {
            return;
        }
    }
}

fn list(tasks: &TaskStore, params: &Value) -> Result<Value, ErrorData> {
    let after = match params.get("cursor") {
        None | Some(Value::Null) => 0,
        Some(cursor) => cursor
            .as_str()
            .and_then(|cursor| cursor.parse::<i64>().ok())
            .ok_or_else(|| invalid("invalid cursor"))?,
    };
    // One more than a page, to see whether there is a next page.
    let mut found = tasks.page(after, PAGE_SIZE + 1).map_err(internal)?;
    let has_more = found.len() > usize::try_from(PAGE_SIZE).unwrap_or(usize::MAX);
    if has_more {
        found.pop();
    }
    let mut answer = json!({"tasks": found.iter().map(view).collect::<Vec<_>>()});
    if has_more && let (Value::Object(answer), Some(last)) = (&mut answer, found.last()) {
        answer.insert("nextCursor".to_owned(), last.row.to_string().into());
    }
    Ok(answer)
}

/// Answers `tasks/result`: waits until the task is settled and asks its questions on this request's stream.
async fn result(
    tasks: &TaskStore,
    handler: &Handler,
    id: &str,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let handle = context.extensions.get::<Arc<RequestHandle>>().cloned();
    let gone = async {
        match &handle {
            Some(handle) => handle.cancel.cancelled().await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(gone);
    let related = json!({RELATED_TASK_KEY: {"taskId": id}});
    let mut changes = tasks.changes.subscribe();
    loop {
        changes.borrow_and_update();
        let task = find_task(&handler.shared, id)?;
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
                () = question_closed(tasks, id, key) => Ok(()),
            }
        };
        tokio::select! {
            done = step => done?,
            () = &mut gone => return Err(cancelled()),
            () = context.ct.cancelled() => return Err(cancelled()),
        }
    }
}

/// Sends a task's question to the client and returns the answer.
async fn ask(
    peer: &Peer<RoleServer>,
    request: &Value,
    related: &Value,
) -> Result<Value, ErrorData> {
    let params = request.get("params").cloned().unwrap_or_default();
    let params = with(params, "_meta", related.clone());
    let method = request.get("method").and_then(Value::as_str);
    let request = CustomRequest::new(method.unwrap_or_default(), Some(params));
    let answer = peer.send_request(request.into()).await.map_err(internal)?;
    serde_json::to_value(answer).map_err(internal)
}

/// Returns once a question is no longer open: answered on another stream, or its task was settled.
async fn question_closed(tasks: &TaskStore, id: &str, key: &str) {
    let mut changes = tasks.changes.subscribe();
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

/// The response that the call would have received.
fn outcome(task: &TaskRecord, related: Value) -> Result<Value, ErrorData> {
    let part = |name: &str| task.outcome.as_ref()?.get(name).cloned();
    if let Some(error) = part("error") {
        return Err(serde_json::from_value(error).map_err(internal)?);
    }
    let result = without_result_type(part("result").ok_or_else(cancelled)?);
    Ok(with(result, "_meta", related))
}
