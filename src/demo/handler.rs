//! The request handler that the SDK calls: one per server session or, in the modern era, per request.
//!
//! It decides which calls become server tasks and answers everything that is not a tool call. Requests that the SDK has
//! no types for arrive here as custom requests; see `passthrough`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities,
        CompleteRequestMethod, CompleteRequestParams, CompleteResult, CreateTaskResult,
        CustomRequest, CustomResult, DiscoverResult, ErrorCode, GetTaskParams, GetTaskResult,
        Implementation, InitializeRequestParams, InitializeResult, InputRequests,
        InputRequiredResult, JsonObject, ListPromptsRequestMethod, ListPromptsResult,
        ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
        ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ServerCapabilities, ServerConfig, TASKS_EXTENSION_ID, Tool,
        UpdateTaskParams,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

use super::{
    catalog::{ToolTaskSupport, catalog, task_support},
    context::{
        InputRound, LEVELS, LOGGER, LogSeverity, SharedState, ToolContext, internal, invalid,
    },
    elicitation::ElicitationSupport,
    modern, passthrough, stateful,
    tasks::{TaskOutcome, TaskRecord},
    tools::ToolInvocation,
};

/// How long a modern client may cache the tool list, in milliseconds.
const TOOLS_TTL_MS: u64 = 60_000;

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
    async fn run_call(
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

    fn info(capabilities: &Value) -> ServerConfig {
        // Built from JSON, because the SDK's logging capability is deprecated while the stateful eras still have it.
        let capabilities: ServerCapabilities =
            serde_json::from_value(capabilities.clone()).unwrap_or_default();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(LOGGER, env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "A demo server with faults to trigger. resumable_data_processing keeps a checkpoint for each client_id.",
            )
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
        let object = |value: Result<Value, _>| match value {
            Ok(Value::Object(object)) => object,
            _ => JsonObject::new(),
        };
        match result {
            Ok(result) => TaskOutcome::Completed(object(serde_json::to_value(result))),
            Err(error) => TaskOutcome::Failed(object(serde_json::to_value(error))),
        }
    });
}

/// The task with this id, or the error that both eras return for an unknown one.
pub(super) fn find_task(shared: &SharedState, id: &str) -> Result<TaskRecord, ErrorData> {
    shared
        .tasks
        .get(id)
        .map_err(internal)?
        .ok_or_else(|| invalid("unknown or expired task"))
}

/// Whether a modern call becomes a task. Fails if the tool needs a capability that the client did not declare.
fn wants_task(
    invocation: &ToolInvocation,
    capabilities: Option<&ClientCapabilities>,
) -> Result<bool, ErrorData> {
    let knows_tasks = capabilities.is_some_and(ClientCapabilities::supports_tasks);
    let elicitation = ElicitationSupport::of(capabilities);
    match invocation {
        ToolInvocation::Crunch(args) => Ok(args.as_task && knows_tasks),
        ToolInvocation::Render(_) | ToolInvocation::Deploy(_) if !knows_tasks => {
            Err(modern::needs_tasks())
        }
        ToolInvocation::Deploy(_) | ToolInvocation::Book(_) if !elicitation.form => {
            Err(modern::needs_elicitation("form"))
        }
        ToolInvocation::Sign(_) if !elicitation.url => Err(modern::needs_elicitation("url")),
        ToolInvocation::Render(_) | ToolInvocation::Deploy(_) => Ok(true),
        _ => Ok(false),
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        Self::info(&json!({"tools": {}, "logging": {}, "extensions": {TASKS_EXTENSION_ID: {}}}))
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        // Extensions exist only in the modern era; `passthrough` adds the task capability of 2025-11-25.
        result.capabilities.extensions = None;
        Ok(result)
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        // Modern calls send no log messages.
        info.capabilities.logging = None;
        Ok(DiscoverResult::from_server_info(
            self.supported_protocol_versions().into_owned(),
            info,
        ))
    }

    // By default the SDK answers these with empty lists, but the server does not declare these capabilities.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            ListResourceTemplatesRequestMethod,
        >())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = ListToolsResult {
            tools: catalog().into_iter().map(|entry| entry.tool).collect(),
            ..ListToolsResult::default()
        };
        if ProtocolEra::of(&context) == ProtocolEra::Modern {
            list.ttl_ms = Some(TOOLS_TTL_MS);
            list.cache_scope = Some(CacheScope::Public);
        }
        Ok(list)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        catalog()
            .into_iter()
            .map(|entry| entry.tool)
            .find(|tool| tool.name == name)
    }

    #[expect(
        deprecated,
        reason = "logging/setLevel exists in the stateful eras, which this server speaks"
    )]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let level = serde_json::to_value(request.level).map_err(internal)?;
        let index = LEVELS
            .iter()
            .position(|name| level == *name)
            .unwrap_or(LogSeverity::Info as usize);
        self.min_log_level.store(index, Ordering::Relaxed);
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.as_ref();
        let invocation = ToolInvocation::parse(tool, request.arguments.clone())?;
        match ProtocolEra::of(&context) {
            ProtocolEra::Modern
                if wants_task(&invocation, context.client_capabilities().as_ref())? =>
            {
                let task = start_task(&self.shared, tool, request.arguments, None)?;
                return Ok(CreateTaskResult::new(modern::task(&task)).into());
            }
            ProtocolEra::StatefulTasks if task_support(tool) == ToolTaskSupport::Required => {
                let message = format!("{tool} only runs as a task");
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
            }
            // Without task support, the work runs on the call's own stream.
            _ => {}
        }
        self.run_call(invocation, request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = find_task(&self.shared, &request.task_id)?;
        Ok(GetTaskResult::new(modern::detailed(&task)))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let task = find_task(&self.shared, &request.task_id)?;
        self.shared
            .tasks
            .answer(&task.id, request.input_responses)
            .map_err(internal)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let task = find_task(&self.shared, &request.task_id)?;
        // The modern era acknowledges the request even if the task is already settled.
        self.shared.tasks.cancel(&task.id).map_err(internal)?;
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let Some(method) = passthrough::original(&request.method) else {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                request.method,
                None,
            ));
        };
        let params = request.params.unwrap_or_default();
        match ProtocolEra::of(&context) {
            ProtocolEra::Modern => modern::answer(self, method, &params, context).await,
            era => stateful::answer(self, era, method, params, context).await,
        }
        .map(CustomResult::new)
    }
}
