//! The request handler that the SDK calls: one per server session or, in the modern era, per request.
//!
//! It decides which calls become server tasks and answers everything that is not a tool call. Requests that the SDK has
//! no types for arrive here as custom requests; see `passthrough`.

use std::sync::{Arc, atomic::AtomicU8};

use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, ClientCapabilities, JsonObject, ProtocolVersion, TaskStatus},
    service::RequestContext,
};
use serde_json::json;

use super::{
    context::{SharedState, ToolContext, internal, invalid, supports_forms},
    tasks::TaskRecord,
    tools::ToolInvocation,
};

/// How long a modern client may cache the tool list, in milliseconds.
pub(super) const TOOLS_TTL_MS: u64 = 60_000;

/// The protocol revisions that a request may use, grouped by what they support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolEra {
    /// Sessions without tasks: 2025-03-26 and 2025-06-18.
    Stateful,
    /// Sessions with the tasks of 2025-11-25.
    StatefulTasks,
    /// 2026-07-28.
    Modern,
}

impl ProtocolEra {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        match context.protocol_version() {
            Some(version) if version >= ProtocolVersion::V_2026_07_28 => Self::Modern,
            Some(version) if version >= ProtocolVersion::V_2025_11_25 => Self::StatefulTasks,
            _ => Self::Stateful,
        }
    }
}

/// The request handler.
pub(super) struct Handler {
    pub(super) shared: Arc<SharedState>,
    /// The lowest [`LogSeverity`] that the client wants.
    pub(super) min_severity: Arc<AtomicU8>,
}

impl Handler {
    /// Runs a call on its own stream.
    pub(super) async fn run_call(
        &self,
        invocation: ToolInvocation,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let context = ToolContext::for_request(&self.shared, &self.min_severity, context).await;
        let result = invocation.run(&context).await;
        result.map(CallToolResponse::from)
    }
}

/// Creates a server task for a tool call and starts it.
pub(super) fn start_task(
    shared: &Arc<SharedState>,
    tool: &str,
    arguments: Option<JsonObject>,
    ttl_ms: Option<i64>,
) -> Result<TaskRecord, ErrorData> {
    // Invalid arguments fail the request before a task exists.
    ToolInvocation::parse(tool, arguments.clone())?;
    let task = shared
        .tasks
        .create(tool, &arguments.unwrap_or_default(), ttl_ms)
        .map_err(internal)?;
    run_task(shared, &task);
    Ok(task)
}

/// Runs a task, from its last completed step if the server was restarted.
pub(super) fn run_task(shared: &Arc<SharedState>, task: &TaskRecord) {
    let (shared, record) = (Arc::clone(shared), task.clone());
    Arc::clone(&shared.tasks).run(task, |cancel| async move {
        let tool_context = ToolContext::for_task(&shared, &record, cancel);
        let result = match ToolInvocation::parse(&record.tool, Some(record.arguments)) {
            Ok(invocation) => invocation.run(&tool_context).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(result) => (TaskStatus::Completed, json!({"result": result})),
            Err(error) => (TaskStatus::Failed, json!({"error": error})),
        }
    });
}

/// The task with this id, or the error that both eras return for an unknown one.
pub(super) fn find_task(shared: &SharedState, id: &str) -> Result<TaskRecord, ErrorData> {
    let found = shared.tasks.get(id).map_err(internal)?;
    found.ok_or_else(|| invalid("unknown or expired task"))
}

/// Whether a modern call becomes a task. Fails if the tool needs a capability that the client did not declare.
pub(super) fn wants_task(
    invocation: &ToolInvocation,
    capabilities: Option<&ClientCapabilities>,
) -> Result<bool, ErrorData> {
    let knows_tasks = capabilities.is_some_and(ClientCapabilities::supports_tasks);
    match invocation {
        ToolInvocation::Crunch(args) => Ok(args.as_task && knows_tasks),
        ToolInvocation::RenderMovie(_) | ToolInvocation::Deploy(_) if !knows_tasks => {
            Err(needs_tasks())
        }
        ToolInvocation::Deploy(_) if !supports_forms(capabilities) => Err(needs_forms()),
        ToolInvocation::RenderMovie(_) | ToolInvocation::Deploy(_) => Ok(true),
        _ => Ok(false),
    }
}

/// The error for a client that lacks the tasks capability.
pub(super) fn needs_tasks() -> ErrorData {
    ErrorData::missing_required_client_capability(
        ClientCapabilities::builder().enable_tasks().build(),
    )
}

/// The error for a client that shows no forms.
fn needs_forms() -> ErrorData {
    let wanted = json!({"elicitation": {"form": {}}});
    ErrorData::missing_required_client_capability(
        serde_json::from_value(wanted).unwrap_or_default(),
    )
}
