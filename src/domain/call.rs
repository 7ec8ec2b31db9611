//! A call to make, and the server to make it on.

use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::{Caller, OnInput, Progress, ProtocolVersion, ServerName, TaskId};

/// A new call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewCall {
    /// Chosen by the client, so that repeating the request after a lost response starts only one task.
    pub id: TaskId,
    /// The server.
    pub server: ServerName,
    /// The tool.
    pub tool: String,
    /// The arguments, as the text of a JSON object.
    pub arguments: String,
    /// The user's name for the task.
    pub name: Option<String>,
    /// The user's tag.
    pub tag: Option<String>,
    /// The key of `--once`: if a task already used it, return that one instead of starting another.
    pub once: Option<String>,
    /// The task this one repeats.
    pub origin: Option<TaskId>,
    /// The server's id of a checkpoint that another program's call made. longhaul follows it in the server's list and
    /// calls the tool only if the checkpoint has stopped moving.
    #[serde(rename = "goes_on")]
    pub checkpoint: Option<String>,
    /// Refuse the call if quitting is known to end it (`--detach`).
    pub must_survive: bool,
    /// Send it even if its arguments don't match the tool's schema.
    #[serde(default)]
    pub is_unchecked: bool,
    /// Never attach to an earlier call of the same host.
    #[serde(default)]
    pub never_attaches: bool,
    /// Earlier calls whose results the caller has read, which the driver may not know yet: this call repeats none of them.
    #[serde(default)]
    pub has_read: Vec<TaskId>,
    /// Time limits.
    pub limits: Limits,
    /// How to handle the server's questions.
    #[serde(default)]
    pub on_input: OnInput,
    /// The MCP revision to use (`--protocol`).
    pub protocol: Option<ProtocolVersion>,
    /// Who made it, if it came through `longhaul proxy`.
    pub caller: Option<Box<Caller>>,
}

impl NewCall {
    /// A call without any options.
    pub fn new(id: TaskId, server: ServerName, tool: String, arguments: String) -> Self {
        Self {
            id,
            server,
            tool,
            arguments,
            ..Self::default()
        }
    }
}

/// Time limits of a task; both are off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Cancel after this long without activity.
    pub idle: Option<Duration>,
    /// Cancel after this total duration.
    pub hard: Option<Duration>,
}

/// A checkpoint as its server lists it; no text is sanitized.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The server's id of the checkpoint.
    pub id: String,
    /// The tool that made it.
    pub tool: Option<String>,
    /// The server's status text.
    pub status: String,
    /// Its progress, if the list has numbers.
    pub progress: Option<Progress>,
    /// The arguments of its call as the text of a JSON object; most servers don't list them.
    pub arguments: Option<String>,
    /// Whether it can still be continued.
    pub is_unsettled: bool,
}

/// A server by name and URL, with headers that are sent but never saved.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerRef {
    /// Its name; made from the URL's host and port if the user gave only a URL.
    pub name: ServerName,
    /// Its endpoint; `None` if the session already knows the server.
    pub url: Option<String>,
    /// Headers from the command line, as name and value. Their values are secrets.
    pub headers: Vec<(String, String)>,
    /// Headers from the config file, expanded with the variables of the requesting process: the driver may have other
    /// variables. Their values are secrets. Valid until the config changes.
    #[serde(rename = "filled")]
    pub config_headers: Vec<(String, String)>,
    /// The only MCP revision to use under this name from now on.
    pub protocol: Option<String>,
}

impl ServerRef {
    /// A server without headers, in the revision that longhaul chooses.
    pub fn new(name: ServerName, url: Option<String>) -> Self {
        Self {
            name,
            url,
            ..Self::default()
        }
    }
}

// Written by hand: header values are secrets.
impl std::fmt::Debug for ServerRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerRef")
            .field("name", &self.name)
            .field("headers", &self.headers.len())
            .field("config_headers", &self.config_headers.len())
            .finish_non_exhaustive()
    }
}
