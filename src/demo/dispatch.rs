//! The methods of the protocol, in the revision of each request.

use std::sync::atomic::Ordering;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CreateTaskResult,
        CustomRequest, CustomResult, DiscoverResult, GetTaskParams, GetTaskResult, Implementation,
        InitializeRequestParams, InitializeResult, ListToolsResult, PaginatedRequestParams,
        ServerConfig, TASKS_EXTENSION_ID, Tool, UpdateTaskParams,
    },
    service::RequestContext,
};
use serde_json::json;

use crate::demo::{
    catalog::{ToolTaskSupport, catalog, task_support},
    context::{LogSeverity, internal, not_found},
    handler::{Handler, ProtocolEra, TOOLS_TTL_MS, find_task, start_task, wants_task},
    modern,
    options::NAME,
    passthrough, stateful,
    tools::ToolInvocation,
};

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        // Built from JSON, because the SDK's logging capability is deprecated while the stateful eras still have it.
        let capabilities =
            json!({"tools": {}, "logging": {}, "extensions": {TASKS_EXTENSION_ID: {}}});
        ServerConfig::new(serde_json::from_value(capabilities).unwrap_or_default())
            .with_server_info(Implementation::new(NAME, env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "A demo server with faults to trigger. resumable_data_processing keeps a checkpoint for each client_id.",
            )
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

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = ListToolsResult {
            tools: catalog().into_iter().map(|(tool, _)| tool).collect(),
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
            .map(|(tool, _)| tool)
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
        let severity = match level.as_str() {
            Some("debug") => LogSeverity::Debug as u8,
            Some("info") => LogSeverity::Info as u8,
            Some("notice" | "warning") => LogSeverity::Warning as u8,
            _ => u8::MAX,
        };
        self.min_severity.store(severity, Ordering::Relaxed);
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
                return Err(not_found(format!("{tool} only runs as a task")));
            }
            // Without task support, the work runs on the call's own stream.
            _ => {}
        }
        self.run_call(invocation, context).await
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
            return Err(not_found(request.method));
        };
        let params = request.params.unwrap_or_default();
        match ProtocolEra::of(&context) {
            ProtocolEra::Modern if method == "subscriptions/listen" => {
                modern::listen(self, &params, context).await
            }
            ProtocolEra::Modern => Err(not_found(method)),
            era => stateful::answer(self, era, method, params, context).await,
        }
        .map(CustomResult::new)
    }
}
