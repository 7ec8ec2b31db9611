//! The modern era's tasks: how a task is spelled, and `subscriptions/listen`.
//!
//! The SDK answers all else of this era. It knows `subscriptions/listen` too, but its filter has no `taskIds`, so that
//! method reaches us as a custom request and is answered here, on the SDK's stream.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ClientCapabilities, CustomNotification, DetailedTask, InputRequest, InputRequests, Task,
        TaskPayload,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{
    call::internal,
    disk::rfc3339,
    handler::Handler,
    tasks::{self, POLL_MS},
};

/// The key that ties a notification to its subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The refusal of a request that cannot be served without a task.
pub(super) fn needs_tasks() -> ErrorData {
    ErrorData::missing_required_client_capability(
        ClientCapabilities::builder().enable_tasks().build(),
    )
}

/// The refusal of a request that cannot be served without asking its client.
pub(super) fn needs_elicitation(mode: &str) -> ErrorData {
    let wanted = json!({"elicitation": {mode: {}}});
    ErrorData::missing_required_client_capability(
        serde_json::from_value(wanted).unwrap_or_default(),
    )
}

/// A task as a create result holds it.
pub(super) fn task(task: &tasks::Task) -> Task {
    let spelled = Task::new(
        task.id.as_str(),
        task.status,
        rfc3339(task.created_ms),
        rfc3339(task.updated_ms),
    )
    .with_status_message(task.message.as_str())
    .with_poll_interval_ms(POLL_MS);
    spelled.with_ttl_ms(task.ttl_ms.unsigned_abs())
}

/// A task as `tasks/get` answers it.
pub(super) fn detailed(task: &tasks::Task) -> DetailedTask {
    use rmcp::model::TaskStatus;
    let part = |name: &str| {
        let outcome = task.outcome.as_ref()?;
        outcome.get(name)?.as_object().cloned()
    };
    let payload = match task.status {
        TaskStatus::InputRequired => TaskPayload::InputRequired {
            input_requests: questions(task),
        },
        TaskStatus::Completed => TaskPayload::Completed {
            result: part("result").unwrap_or_default(),
        },
        TaskStatus::Failed => TaskPayload::Failed {
            error: part("error").unwrap_or_default(),
        },
        TaskStatus::Cancelled => TaskPayload::Cancelled,
        _ => TaskPayload::Working,
    };
    DetailedTask::new(self::task(task), payload)
}

fn questions(task: &tasks::Task) -> InputRequests {
    task.open_questions()
        .filter_map(|(key, request)| {
            let request = serde_json::from_value::<InputRequest>(request.clone()).ok()?;
            Some((key.clone(), request))
        })
        .collect()
}

/// Answers what the SDK has no types for.
pub(super) async fn answer(
    handler: &Handler,
    method: &str,
    params: &Value,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    if method == "subscriptions/listen" {
        return listen(handler, params, context).await;
    }
    let code = rmcp::model::ErrorCode::METHOD_NOT_FOUND;
    Err(ErrorData::new(code, method.to_owned(), None))
}

/// Tells a client of the changes of its tasks, until they are all settled or the client goes.
async fn listen(
    handler: &Handler,
    params: &Value,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let knows_tasks = context
        .client_capabilities()
        .is_some_and(|capabilities| capabilities.supports_tasks());
    let asked = params
        .pointer("/notifications/taskIds")
        .and_then(Value::as_array);
    if asked.is_some() && !knows_tasks {
        return Err(needs_tasks());
    }
    let tasks = &handler.shared.tasks;
    // Subscribed before the first look: a change between the two must not be missed.
    let mut changes = tasks.changes();
    let mut watched = Vec::new();
    for id in asked.into_iter().flatten().filter_map(Value::as_str) {
        if let Some(task) = tasks.get(id).map_err(internal)? {
            watched.push(task);
        }
    }
    let meta = json!({SUBSCRIPTION: context.id.clone().into_json_value()});
    let notify = async |method: &str, mut params: Value| {
        if let Value::Object(params) = &mut params {
            params.insert("_meta".to_owned(), meta.clone());
        }
        let notification = CustomNotification::new(method, Some(params));
        context.peer.send_notification(notification.into()).await
    };
    let mut accepted = json!({});
    if let Value::Object(accepted) = &mut accepted
        && asked.is_some()
    {
        let ids: Vec<_> = watched.iter().map(|task| task.id.clone()).collect();
        accepted.insert("taskIds".to_owned(), ids.into());
    }
    let said = json!({"notifications": accepted});
    notify("notifications/subscriptions/acknowledged", said)
        .await
        .map_err(internal)?;
    while asked.is_none() || watched.iter().any(|task| !task.status.is_terminal()) {
        tokio::select! {
            _ = changes.changed() => {}
            () = context.ct.cancelled() => break,
        }
        for known in &mut watched {
            let Some(now) = tasks.get(&known.id).map_err(internal)? else {
                // It has expired: nothing more will be heard of it.
                known.status = rmcp::model::TaskStatus::Failed;
                continue;
            };
            let view =
                |task: &tasks::Task| serde_json::to_value(detailed(task)).unwrap_or_default();
            let (before, after) = (view(known), view(&now));
            *known = now;
            if before != after && notify("notifications/tasks", after).await.is_err() {
                return Ok(json!({}));
            }
        }
    }
    Ok(json!({"resultType": "complete", "_meta": meta}))
}
