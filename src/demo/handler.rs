//! What a client may ask: the SDK's handler, for one server session or, in the modern era, for one request.
//!
//! Owns which requests become server tasks, and the answers that are no tool's. The SDK routes, validates and spells;
//! what it has no types for arrives here as a custom request, see `dialect`. Must not know HTTP.

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
    call::{Call, LEVELS, LOGGER, Level, Round, Shared, internal, invalid},
    catalogue::{Support, catalogue, support},
    dialect, modern,
    questions::Asking,
    stateful,
    tasks::{Outcome, Task},
    tools::Job,
};

/// How long a modern client may keep the list of tools, in milliseconds.
const TOOLS_TTL_MS: u64 = 60_000;

/// What a request's revision of the protocol allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// Sessions without tasks: 2025-03-26 and 2025-06-18.
    Stateful,
    /// Sessions with tasks of their own kind: 2025-11-25.
    StatefulTasks,
    /// 2026-07-28.
    Modern,
}

impl Era {
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Self {
        match context.protocol_version() {
            Some(version) if version >= ProtocolVersion::V_2026_07_28 => Self::Modern,
            Some(version) if version >= ProtocolVersion::V_2025_11_25 => Self::StatefulTasks,
            _ => Self::Stateful,
        }
    }
}

/// The handler.
pub(super) struct Handler {
    pub(super) shared: Arc<Shared>,
    /// Index into `LEVELS` of the mildest level that the client wants.
    pub(super) level: Arc<AtomicUsize>,
}

impl Handler {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            level: Arc::new(AtomicUsize::new(Level::Info as usize)),
        }
    }

    /// Runs a call on its own stream. A modern one may end with a question, and comes again with the answer.
    async fn answer(
        &self,
        job: Job,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut round = None;
        if Era::of(&context) == Era::Modern {
            let work = json!([request.name, request.arguments]).to_string();
            let tickets = &self.shared.tickets;
            if let Some(ticket) = &request.request_state
                && !tickets.counts(ticket, &work).map_err(internal)?
            {
                return Err(invalid("the requestState is not of this call, or too old"));
            }
            round = Some(Round::new(
                work,
                request.request_state,
                request.input_responses,
            ));
        }
        let call = Call::plain(&self.shared, &self.level, context, round).await;
        let result = job.run(&call).await;
        if let Some((key, question, ticket)) = call.question()? {
            let question = serde_json::from_value(question).map_err(internal)?;
            let questions = InputRequests::from([(key, question)]);
            return Ok(InputRequiredResult::new(Some(questions), Some(ticket)).into());
        }
        result.map(CallToolResponse::from)
    }

    fn info(capabilities: &Value) -> ServerConfig {
        // Spelled as JSON because the SDK marks its name for logging as deprecated; the stateful eras still have it.
        let capabilities: ServerCapabilities =
            serde_json::from_value(capabilities.clone()).unwrap_or_default();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(LOGGER, env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "A server to break and to come back to. resumable_data_processing keeps a checkpoint for each client_id.",
            )
    }
}

/// Makes a task of a job and lets it run.
pub(super) fn begin_task(
    shared: &Arc<Shared>,
    tool: &str,
    arguments: Option<JsonObject>,
    ttl_ms: Option<i64>,
) -> Result<Task, ErrorData> {
    // What cannot be understood never becomes a task.
    Job::of(tool, arguments.clone())?;
    let task = shared
        .tasks
        .create(tool, &arguments.unwrap_or_default(), ttl_ms)
        .map_err(internal)?;
    run_task(shared, &task);
    Ok(task)
}

/// Lets a task run, or go on at its step after a boot.
pub(super) fn run_task(shared: &Arc<Shared>, task: &Task) {
    let (shared, known) = (Arc::clone(shared), task.clone());
    Arc::clone(&shared.tasks).run(task, |cancel| async move {
        let call = Call::of_task(&shared, &known, cancel);
        let result = match Job::of(&known.tool, Some(known.arguments)) {
            Ok(job) => job.run(&call).await,
            Err(error) => Err(error),
        };
        let object = |value: Result<Value, _>| match value {
            Ok(Value::Object(object)) => object,
            _ => JsonObject::new(),
        };
        match result {
            Ok(result) => Outcome::Answered(object(serde_json::to_value(result))),
            Err(error) => Outcome::Failed(object(serde_json::to_value(error))),
        }
    });
}

/// The task of an id, or the error that both eras have for a task that is not there.
pub(super) fn known_task(shared: &Shared, id: &str) -> Result<Task, ErrorData> {
    shared
        .tasks
        .get(id)
        .map_err(internal)?
        .ok_or_else(|| invalid("there is no such task, or it has expired"))
}

/// Whether a modern request becomes a task; an error if its client has not declared what it needs.
fn wants_task(job: &Job, capabilities: Option<&ClientCapabilities>) -> Result<bool, ErrorData> {
    let knows_tasks = capabilities.is_some_and(ClientCapabilities::supports_tasks);
    let asking = Asking::of(capabilities);
    match job {
        Job::Crunch(given) => Ok(given.as_task && knows_tasks),
        Job::Render(_) | Job::Deploy(_) if !knows_tasks => Err(modern::needs_tasks()),
        Job::Deploy(_) | Job::Book(_) if !asking.form => Err(modern::needs_elicitation("form")),
        Job::Sign(_) if !asking.url => Err(modern::needs_elicitation("url")),
        Job::Render(_) | Job::Deploy(_) => Ok(true),
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
        // The extension is of the modern era; a session of 2025-11-25 hears of its own tasks, see `stateful`.
        result.capabilities.extensions = None;
        Ok(result)
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        // A modern call is answered without log lines.
        info.capabilities.logging = None;
        Ok(DiscoverResult::from_server_info(
            self.supported_protocol_versions().into_owned(),
            info,
        ))
    }

    // The SDK answers these with empty lists; what was not declared does not exist.

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
            tools: catalogue().into_iter().map(|card| card.tool).collect(),
            ..ListToolsResult::default()
        };
        if Era::of(&context) == Era::Modern {
            list.ttl_ms = Some(TOOLS_TTL_MS);
            list.cache_scope = Some(CacheScope::Public);
        }
        Ok(list)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        catalogue()
            .into_iter()
            .map(|card| card.tool)
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
        let word = serde_json::to_value(request.level).map_err(internal)?;
        let index = LEVELS
            .iter()
            .position(|level| word == *level)
            .unwrap_or(Level::Info as usize);
        self.level.store(index, Ordering::Relaxed);
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.as_ref();
        let job = Job::of(tool, request.arguments.clone())?;
        match Era::of(&context) {
            Era::Modern if wants_task(&job, context.client_capabilities().as_ref())? => {
                let task = begin_task(&self.shared, tool, request.arguments, None)?;
                return Ok(CreateTaskResult::new(modern::task(&task)).into());
            }
            Era::StatefulTasks if support(tool) == Support::Required => {
                let words = format!("{tool} runs as a task only");
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, words, None));
            }
            // A revision without tasks gets the work on the call's own stream.
            _ => {}
        }
        self.answer(job, request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let task = known_task(&self.shared, &request.task_id)?;
        Ok(GetTaskResult::new(modern::detailed(&task)))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let task = known_task(&self.shared, &request.task_id)?;
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
        let task = known_task(&self.shared, &request.task_id)?;
        // A settled task is left as it is; the modern era acknowledges all the same.
        self.shared.tasks.cancel(&task.id).map_err(internal)?;
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let Some(method) = dialect::original(&request.method) else {
            return Err(ErrorData::new(
                ErrorCode::METHOD_NOT_FOUND,
                request.method,
                None,
            ));
        };
        let params = request.params.unwrap_or_default();
        match Era::of(&context) {
            Era::Modern => modern::answer(self, method, &params, context).await,
            era => stateful::answer(self, era, method, params, context).await,
        }
        .map(CustomResult::new)
    }
}
