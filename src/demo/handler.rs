//! The request handler that the SDK calls: one per server session or, in the modern era, per request.
//!
//! It decides which calls become server tasks and answers everything that is not a tool call. Requests that the SDK has
//! no types for arrive here as custom requests; see `passthrough`.

use std::sync::{Arc, atomic::AtomicUsize};

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, ClientCapabilities, InputRequests,
        InputRequiredResult, JsonObject, ProtocolVersion, TaskStatus,
    },
    service::RequestContext,
};
use serde_json::json;

use super::{
    context::{InputRound, LogSeverity, SharedState, ToolContext, internal, invalid},
    tasks::TaskRecord,
    tools::ToolInvocation,
};
use crate::demo::elicitation_support::ElicitationSupport;

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
    /// The index into `LEVELS` of the least severe level that the client wants.
    pub(super) min_log_level: Arc<AtomicUsize>,
}

impl Handler {
    pub(super) fn new(shared: Arc<SharedState>) -> Self {
        Self {
            shared,
            min_log_level: Arc::new(AtomicUsize::new(LogSeverity::Info as usize)),
        }
    }

    /// Runs a call on its own stream. In the modern era the response may be a question; the client then repeats the
    /// call with the answer.
    pub(super) async fn run_call(
        &self,
        invocation: ToolInvocation,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut input_round = None;
        if ProtocolEra::of(&context) == ProtocolEra::Modern {
            let call_key = json!([request.name, request.arguments]).to_string();
            let tokens = &self.shared.tokens;
            if let Some(token) = &request.request_state
                && !tokens.is_valid(token, &call_key).map_err(internal)?
            {
                return Err(invalid(
                    "the requestState belongs to another call or has expired",
                ));
            }
            input_round = Some(InputRound::new(
                call_key,
                request.request_state,
                request.input_responses,
            ));
        }
        let tool_context =
            ToolContext::for_request(&self.shared, &self.min_log_level, context, input_round).await;
        let result = invocation.run(&tool_context).await;
        if let Some((key, question, token)) = tool_context.take_question()? {
            let question = serde_json::from_value(question).map_err(internal)?;
            let requests = InputRequests::from([(key, question)]);
            return Ok(InputRequiredResult::new(Some(requests), Some(token)).into());
        }
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
    let elicitation = ElicitationSupport::of(capabilities);
    match invocation {
        ToolInvocation::Crunch(args) => Ok(args.as_task && knows_tasks),
        ToolInvocation::RenderMovie(_) | ToolInvocation::Deploy(_) if !knows_tasks => {
            Err(needs_tasks())
        }
        ToolInvocation::Deploy(_) | ToolInvocation::BookRoom { .. } if !elicitation.form => {
            Err(needs_elicitation("form"))
        }
        ToolInvocation::SignContract { .. } if !elicitation.url => Err(needs_elicitation("url")),
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

/// The error for a client that lacks an elicitation mode.
pub(super) fn needs_elicitation(mode: &str) -> ErrorData {
    let wanted = json!({"elicitation": {mode: {}}});
    ErrorData::missing_required_client_capability(
        serde_json::from_value(wanted).unwrap_or_default(),
    )
}
