//! What is saved of a server, and what its calls can rely on.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::domain::{
    CheckpointConvention, Era, EraReason, EventId, HostCapabilities, ModernSupport,
    ProtocolVersion, ServerName, TaskCapability, TaskKind, TaskSupport, Tool, Wall, server_url,
};

/// The standalone stream (a GET without `Last-Event-ID`) of one MCP session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandaloneStream {
    /// The session it belongs to ([`LinkRecord::session_number`]); invalid for any other.
    pub session_number: u64,
    /// Whether the server offers no such stream.
    pub is_absent: bool,
    /// Whether progress of calls arrives on it rather than on their own streams.
    #[serde(default)]
    pub has_steps: bool,
    /// Where it can be resumed.
    pub cursors: Cursors,
    /// The server's `retry` time before reconnecting, in milliseconds.
    pub retry_ms: Option<u64>,
}

/// Everything known about a server that must survive a restart.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// The user's name for the server.
    pub name: ServerName,
    /// Its endpoint, without credentials.
    pub url: String,
    /// The negotiated revision.
    pub version: Option<ProtocolVersion>,
    /// The MCP session id, a secret; `None` before initialization and on servers without sessions.
    pub session: Option<String>,
    /// Counts initializations, so that an attempt can tell whether its session is still current.
    pub session_number: u64,
    /// Whether the session is initialized, as far as known.
    pub is_initialized: bool,
    /// The name and version the server reports; for display only.
    pub server_info: Option<String>,
    /// The result of `initialize` or `server/discover`, verbatim JSON; absent in older records and if it is too large.
    pub introduction: Option<String>,
    /// Its tools, as last listed.
    pub tools: Vec<Tool>,
    /// When the tools were listed.
    pub tools_at: Option<Wall>,
    /// Whether its stream events have ids; `None` until seen.
    pub gives_ids: Option<bool>,
    /// By tool: whether its stream events had ids.
    #[serde(default)]
    pub gave_ids: BTreeMap<String, bool>,
    /// Its support of the modern era. If it supports both eras, [`Self::version`] is that of the session.
    #[serde(default)]
    pub modern: ModernSupport,
    /// Whether it refuses initialization or assigns no session.
    #[serde(default)]
    pub refuses_session: bool,
    /// The revision that `--protocol` set for the current session; no other setting may reuse it.
    #[serde(alias = "wish")]
    pub asked_version: Option<ProtocolVersion>,
    /// The only revision used under this name (the demo lists its server under two names).
    pub pinned_version: Option<ProtocolVersion>,
    /// Why this revision was chosen, for the user.
    pub era_why: Option<String>,
    /// What its session was told that hosts can do.
    #[serde(default)]
    pub declared: HostCapabilities,
    /// Its support of server tasks.
    pub tasks: Option<TaskCapability>,
    /// Whether its core tasks end with the MCP session; `None` until seen.
    pub binds_tasks: Option<bool>,
    /// By tool: whether its last call ran as a server task. Only for servers that decide this themselves.
    #[serde(default)]
    pub ran_as_task: BTreeMap<String, bool>,
    /// The names of its checkpoint tools, as last configured.
    #[serde(default)]
    pub convention: CheckpointConvention,
    /// The stream for messages that belong to no call.
    #[serde(default)]
    pub standalone: StandaloneStream,
    /// The newest requests of the server that were answered, by [`Question::key`](super::Question::key), oldest first: if
    /// another stream replays one, it is not asked again.
    #[serde(default)]
    pub answered: Vec<String>,
}

impl LinkRecord {
    /// What the server supports, as far as known.
    pub fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            version: self.version,
            gives_ids: self.gives_ids(),
            tasks: self.tasks,
            binds_tasks: self.binds_tasks,
            ran_as_task: self.ran_as_task.clone(),
            gave_ids: self.gave_ids.clone(),
            modern: self.modern,
            pinned: self.pinned_version,
            convention: self.convention.clone(),
            is_process: self.is_process(),
        }
    }

    /// Whether it offers the tasks extension.
    pub fn has_extension(&self) -> bool {
        self.modern == (ModernSupport::Offered { has_tasks: true })
    }

    /// Whether its revision belongs to the stateful era.
    pub fn is_stateful(&self) -> bool {
        self.version
            .is_none_or(|version| version.era() == Era::Stateful)
    }

    /// Whether it is a stdio server: its session, calls and results end with its process.
    pub fn is_process(&self) -> bool {
        server_url::is_process(&self.url)
    }

    /// Whether its stream events have usable ids; `None` until seen. On HTTP+SSE and stdio, ids are useless.
    pub fn gives_ids(&self) -> Option<bool> {
        match self.version {
            _ if self.is_process() => Some(false),
            Some(ProtocolVersion::V20241105) => Some(false),
            _ => self.gives_ids,
        }
    }

    /// A record of a server that longhaul has never connected to.
    pub fn new(name: ServerName, url: impl Into<String>) -> Self {
        Self {
            name,
            url: url.into(),
            ..Self::default()
        }
    }
}

// Written by hand: the session id must not reach a log.
impl fmt::Debug for LinkRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkRecord")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("session", &self.session.as_ref().map(|_| "…"))
            .field("session_number", &self.session_number)
            .field("gives_ids", &self.gives_ids)
            .finish_non_exhaustive()
    }
}

/// What a server supports for recovering calls, as far as known. Determines what a cut would cost a new call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerCapabilities {
    /// The negotiated revision; `None` before the first connection.
    pub version: Option<ProtocolVersion>,
    /// Whether stream events have ids; `None` until seen.
    pub gives_ids: Option<bool>,
    /// Support of server tasks.
    pub tasks: Option<TaskCapability>,
    /// Whether core tasks end with the MCP session; `None` until seen.
    pub binds_tasks: Option<bool>,
    /// By tool: whether its last call ran as a server task.
    pub ran_as_task: BTreeMap<String, bool>,
    /// By tool: whether its stream events had ids.
    #[serde(default)]
    pub gave_ids: BTreeMap<String, bool>,
    /// Support of the modern era.
    #[serde(default)]
    pub modern: ModernSupport,
    /// The revision that the user set for all calls.
    pub pinned: Option<ProtocolVersion>,
    /// The names of its checkpoint tools.
    #[serde(default)]
    pub convention: CheckpointConvention,
    /// Whether it is a stdio server, whose process ends with longhaul.
    #[serde(default)]
    pub is_process: bool,
}

impl ServerCapabilities {
    /// For calls that use only this revision, if there is one.
    #[must_use]
    pub fn in_version(self, version: Option<ProtocolVersion>) -> Self {
        let pinned = version.or(self.pinned);
        Self { pinned, ..self }
    }

    /// The era for calling a tool, chosen so that the call can be recovered.
    pub fn era_of(
        &self,
        name: &str,
        tool: Option<&Tool>,
        keeps_checkpoint: bool,
    ) -> (Era, EraReason) {
        if let Some(version) = self.pinned {
            return (version.era(), EraReason::Asked);
        }
        let negotiated = self.version.map_or(Era::Stateful, ProtocolVersion::era);
        let ModernSupport::Offered { has_tasks } = self.modern else {
            return (negotiated, EraReason::OnlyOne);
        };
        if negotiated == Era::Modern || self.is_process {
            return (negotiated, EraReason::OnlyOne);
        }
        let support = tool.map_or(TaskSupport::Forbidden, |tool| tool.task_support);
        let is_task = support == TaskSupport::Required
            || support == TaskSupport::Optional && !keeps_checkpoint;
        let ran_as_task = self.ran_as_task.get(name).copied();
        // The modern era forbids calling a tool whose header names are invalid.
        let has_invalid_headers = tool.is_some_and(|tool| tool.header_error().is_some());
        let can_be_task = match ran_as_task {
            Some(true) => !keeps_checkpoint || is_task,
            Some(false) => false,
            None => is_task,
        };
        if has_tasks && can_be_task && !has_invalid_headers {
            return (Era::Modern, EraReason::CanBeTask);
        }
        if self.tasks.is_some() && is_task {
            return (Era::Stateful, EraReason::CoreTask);
        }
        if keeps_checkpoint {
            return (Era::Stateful, EraReason::Checkpoint);
        }
        match self.gives_ids_of(name) {
            Some(true) => (Era::Stateful, EraReason::EventIds),
            Some(false) if !has_invalid_headers => (Era::Modern, EraReason::NoIds),
            _ => (Era::Stateful, EraReason::MayGiveIds),
        }
    }

    /// Whether the stream events of this tool have ids in the stateful era; `None` until seen.
    pub fn gives_ids_of(&self, tool: &str) -> Option<bool> {
        self.gave_ids.get(tool).copied().or(self.gives_ids)
    }

    /// Whether the tasks extension is offered.
    pub fn has_extension(&self) -> bool {
        let is_extension = |offer: TaskCapability| offer.kind == TaskKind::Extension;
        self.modern == (ModernSupport::Offered { has_tasks: true })
            || self.tasks.is_some_and(is_extension)
    }

    /// Whether the cost of a cut is known before a call is sent, rather than a worst-case guess.
    pub fn is_known(&self, tool: &Tool, tools: &[Tool]) -> bool {
        if self.is_process {
            return true;
        }
        if self.version.is_none() {
            return false;
        }
        let keeps_checkpoint = tool.keeps_checkpoint(tools, &self.convention);
        match self.era_of(&tool.name, Some(tool), keeps_checkpoint).0 {
            // With the extension the server decides for each call; how the last one ran is only a hint.
            Era::Modern => self.modern != ModernSupport::Unknown && !self.has_extension(),
            Era::Stateful => self.gives_ids_of(&tool.name).is_some(),
        }
    }
}

/// Event ids of one stream. They are opaque and have no order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursors {
    /// The first id received, the earliest that can be probed.
    pub first: Option<EventId>,
    /// The newest id.
    pub newest: Option<EventId>,
    /// The newest id of an event with data; resumption starts here.
    pub data: Option<EventId>,
    /// The id before `data`: a probe from here must replay `data`.
    pub before: Option<EventId>,
    /// Whether the server no longer knows the MCP session in which the stream could be resumed.
    #[serde(default)]
    pub is_session_gone: bool,
}
