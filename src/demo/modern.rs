//! Tasks of the modern era on the wire, and `subscriptions/listen`.
//!
//! The SDK handles the rest of this era. Its `subscriptions/listen` filter lacks `taskIds`, so that method arrives as a
//! custom request and is answered here, on the SDK's stream.

use rmcp::{
    ErrorData, RoleServer,
    model::{CustomNotification, DetailedTask, InputRequest, InputRequests, Task, TaskPayload},
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{
    context::{internal, with},
    database::rfc3339,
    handler::Handler,
    tasks::{self, POLL_MS},
};
use crate::demo::handler::needs_tasks;

/// The `_meta` key that links a notification to its subscription.
const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// A task as in the result of its creation.
pub(super) fn task(task: &tasks::TaskRecord) -> Task {
    let task_view = Task::new(
        task.id.as_str(),
        task.status,
        rfc3339(task.created_ms),
        rfc3339(task.updated_ms),
    )
    .with_status_message(task.message.as_str())
    .with_poll_interval_ms(POLL_MS);
    task_view.with_ttl_ms(task.ttl_ms.unsigned_abs())
}

/// A task as in the result of `tasks/get`.
pub(super) fn detailed(task: &tasks::TaskRecord) -> DetailedTask {
    use rmcp::model::TaskStatus;
    let part = |name: &str| {
        let outcome = task.outcome.as_ref()?;
        outcome.get(name)?.as_object().cloned()
    };
    let payload = match task.status {
        TaskStatus::InputRequired => TaskPayload::InputRequired {
            input_requests: elicitation(task),
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

fn elicitation(task: &tasks::TaskRecord) -> InputRequests {
    task.open_questions()
        .filter_map(|(key, request)| {
            let request = serde_json::from_value::<InputRequest>(request.clone()).ok()?;
            Some((key.clone(), request))
        })
        .collect()
}

/// Notifies a client of changes to its tasks until they are all settled or the client disconnects.
pub(super) async fn listen(
    handler: &Handler,
    params: &Value,
    context: RequestContext<RoleServer>,
) -> Result<Value, ErrorData> {
    let knows_tasks = context
        .client_capabilities()
        .is_some_and(|capabilities| capabilities.supports_tasks());
    let task_ids = params
        .pointer("/notifications/taskIds")
        .and_then(Value::as_array);
    if task_ids.is_some() && !knows_tasks {
        return Err(needs_tasks());
    }
    let tasks = &handler.shared.tasks;
    // Subscribed before the tasks are read, so that no change in between is missed.
    let mut changes = tasks.changes.subscribe();
    let mut watched = Vec::new();
    for id in task_ids.into_iter().flatten().filter_map(Value::as_str) {
        if let Some(task) = tasks.get(id).map_err(internal)? {
            watched.push(task);
        }
    }
    let meta = json!({SUBSCRIPTION_KEY: context.id.clone().into_json_value()});
    let notify = async |method: &str, params: Value| {
        let params = with(params, "_meta", meta.clone());
        let notification = CustomNotification::new(method, Some(params));
        context.peer.send_notification(notification.into()).await
    };
    let ids: Vec<_> = watched.iter().map(|task| &task.id).collect();
    let accepted = task_ids.map_or(json!({}), |_| json!({"taskIds": ids}));
    let acknowledgment = json!({"notifications": accepted});
    notify("notifications/subscriptions/acknowledged", acknowledgment)
        .await
        .map_err(internal)?;
    while task_ids.is_none() || watched.iter().any(|task| !task.status.is_terminal()) {
        tokio::select! {
            _ = changes.changed() => {}
            () = context.ct.cancelled() => break,
        }
        for known in &mut watched {
            let Some(now) = tasks.get(&known.id).map_err(internal)? else {
                // Expired: no more updates will come.
                known.status = rmcp::model::TaskStatus::Failed;
                continue;
            };
            let view =
                |task: &tasks::TaskRecord| serde_json::to_value(detailed(task)).unwrap_or_default();
            let (before, after) = (view(known), view(&now));
            *known = now;
            if before != after && notify("notifications/tasks", after).await.is_err() {
                return Ok(json!({}));
            }
        }
    }
    Ok(json!({"resultType": "complete", "_meta": meta}))
}
