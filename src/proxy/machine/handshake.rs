//! The handshake with the host: the server's own introduction, as far as the proxy can keep what it promises.

use core::time::Duration;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{Asked, Host, IntroductionMethod, Members, Proxy};
use crate::{
    domain::{
        Era, HostCapabilities, HostProfile, Introduction, ProtocolVersion, SessionRequest, TaskId,
    },
    proxy::{
        era::{MODERN, SERVER_INFO},
        host_task::{self, EXTENSION},
        hosts,
        raw::RawMembers,
    },
};

/// The capabilities that pass through. The server's tasks do not: longhaul offers its own.
const CAPABILITIES: [&str; 7] = [
    "completions",
    "experimental",
    "extensions",
    "logging",
    "prompts",
    "resources",
    "tools",
];

/// The members of a server's introduction that are the connection's own, or don't pass unchanged.
const KNOWN_MEMBERS: [&str; 8] = [
    "protocolVersion",
    "supportedVersions",
    "capabilities",
    "serverInfo",
    "_meta",
    "resultType",
    "ttlMs",
    "cacheScope",
];

impl Proxy {
    pub(super) fn initialize(&mut self, id: String, params: &Members) {
        self.meet(params.get("clientInfo"), params.get("capabilities"));
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let oldest = ProtocolVersion::V20241105;
        let version = asked
            .and_then(|asked| match ProtocolVersion::parse(asked) {
                // A user can't select it, because there it stands for a transport.
                None => (asked == oldest.label()).then_some(oldest),
                version => version,
            })
            .filter(|version| version.era() == Era::Stateful)
            .unwrap_or(ProtocolVersion::V20251125);
        self.host.has_tasks = version == ProtocolVersion::V20251125;
        let asked = Asked::Introduce(Some((id, IntroductionMethod::Initialize(version))));
        self.ask(asked, self.introduce());
    }

    /// Notes who the host is and what it can do.
    pub(super) fn meet(&mut self, info: Option<&Value>, capabilities: Option<&Value>) {
        let info = |key: &str| {
            let value = info.and_then(|info| info.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let name = match info("name") {
            name if name.is_empty() => "unknown".to_owned(),
            name => name,
        };
        let limit = hosts::limit_of(&name, self.options.tool_timeout.as_deref());
        let cancels = hosts::cancels_of(&name);
        let capabilities = capabilities.and_then(Value::as_object).cloned();
        let mut capabilities = capabilities.unwrap_or_default();
        // Its own tasks are of its connection to the proxy.
        capabilities.remove("tasks");
        let extensions = capabilities.get_mut("extensions");
        let tasks = extensions.and_then(|it| it.as_object_mut()?.remove(EXTENSION));
        self.host = Host {
            profile: HostProfile {
                name,
                version: info("version"),
                capabilities: HostCapabilities(capabilities),
                resources: std::mem::take(&mut self.host.profile.resources),
                ..HostProfile::default()
            },
            limit,
            cancels,
            is_modern: false,
            log_level: None,
            has_tasks: tasks.is_some(),
            is_initialized: self.host.is_initialized,
        };
    }

    pub(super) fn introduced(
        &mut self,
        host: Option<(String, IntroductionMethod)>,
        introduction: Introduction,
    ) {
        let server = self.options.server.as_str();
        match &host {
            Some((id, IntroductionMethod::Initialize(version))) => {
                let result = handshake(&introduction, *version, server);
                self.respond_to(id, "", &result.to_string());
            }
            Some((id, IntroductionMethod::Discover)) => {
                let result = discovery(&introduction, server);
                self.respond_to(id, "server/discover", &result.to_string());
            }
            Some((_, IntroductionMethod::Listen(_))) | None => {}
        }
        // What was seen earlier may have been before the user set another limit.
        let setting = self.options.tool_timeout.as_deref();
        let is_set = hosts::set_limit(&self.host.profile.name, setting).is_some();
        if let Some(timeout) = introduction.timeout_ms.filter(|_| !is_set) {
            self.learn_limit(Duration::from_millis(timeout));
        }
        self.introduction = Some(introduction);
        if let Some((id, IntroductionMethod::Listen(wanted))) = host {
            self.open_subscription(id, wanted);
        }
    }

    /// A new driver knows nothing of what its predecessor's clients wait for.
    pub(super) fn driver_changed(&mut self) {
        self.is_undriven = false;
        if self.introduction.is_some() {
            self.host.profile.knows_lists = true;
            self.ask(Asked::Introduce(None), self.introduce());
            self.repeat_server_state();
        }
        let calls = self.calls.values();
        let answered = self.written.iter().map(|it| it.task.clone());
        let tasks = calls.filter_map(|call| call.task.clone());
        let tasks: BTreeSet<TaskId> = tasks.chain(answered).collect();
        for task in &tasks {
            self.ask(Asked::Note, SessionRequest::Collect(task.clone()));
        }
        for task in self
            .open_tasks
            .difference(&tasks)
            .cloned()
            .collect::<Vec<_>>()
        {
            self.ask(Asked::Note, SessionRequest::Follow(task));
        }
    }

    pub(super) fn is_server_modern(&self) -> bool {
        let version = self.introduction.as_ref().map(|it| it.version);
        version.is_some_and(|version| version.era() == Era::Modern)
    }
}

/// What a server says of itself: its capabilities, its name, and what passes unchanged.
fn server_info(introduction: &Introduction, server: &str) -> (Members, Value, RawMembers) {
    let mut others = RawMembers::parse(&introduction.result).unwrap_or_default();
    others.retain(|key| !KNOWN_MEMBERS.contains(&key));
    let result: Members = serde_json::from_str(&introduction.result).unwrap_or_default();
    let mut capabilities = Map::new();
    if let Some(offered) = result.get("capabilities").and_then(Value::as_object) {
        for (key, value) in offered {
            if CAPABILITIES.contains(&key.as_str()) {
                capabilities.insert(key.clone(), value.clone());
            }
        }
    }
    let extensions = capabilities.get_mut("extensions");
    if let Some(extensions) = extensions.and_then(Value::as_object_mut) {
        extensions.remove(EXTENSION);
    }
    // Without it the host would not ask for longhaul's own tools.
    capabilities
        .entry("tools")
        .or_insert_with(|| json!({"listChanged": true}));
    let in_meta = result.get("_meta").and_then(|meta| meta.get(SERVER_INFO));
    let info = result.get("serverInfo").or(in_meta).cloned();
    let info = info.unwrap_or_else(|| json!({"name": server, "version": ""}));
    (capabilities, info, others)
}

/// The result of `initialize` for the host.
fn handshake(introduction: &Introduction, version: ProtocolVersion, server: &str) -> RawMembers {
    let (mut capabilities, info, mut result) = server_info(introduction, server);
    if introduction.version.era() == Era::Modern
        && let Some(resources) = capabilities.get_mut("resources")
        && let Some(resources) = resources.as_object_mut()
    {
        // There is no such request in the modern era.
        resources.remove("subscribe");
    }
    if version == ProtocolVersion::V20251125 {
        capabilities.insert("tasks".to_owned(), host_task::capability());
    }
    result.set("protocolVersion", &json!(version.label()).to_string());
    result.set("capabilities", &Value::Object(capabilities).to_string());
    result.set("serverInfo", &info.to_string());
    result
}

/// The result of `server/discover` for the host.
fn discovery(introduction: &Introduction, server: &str) -> RawMembers {
    let (mut capabilities, info, mut result) = server_info(introduction, server);
    let extensions = capabilities.entry("extensions");
    let extensions = extensions.or_insert_with(|| json!({}));
    if let Some(extensions) = extensions.as_object_mut() {
        extensions.insert(EXTENSION.to_owned(), json!({}));
    }
    result.set("supportedVersions", &json!([MODERN.label()]).to_string());
    result.set("capabilities", &Value::Object(capabilities).to_string());
    result.set("_meta", &json!({SERVER_INFO: info}).to_string());
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_introduces_itself_through_the_proxy() {
        let told = json!({"capabilities": {"prompts": {"listChanged": true}, "tasks": {}, "resources": {"subscribe": true}},
            "_meta": {SERVER_INFO: {"name": "lab", "version": "3"}}, "instructions": "be kind", "x": 5});
        let introduction = |version| Introduction {
            version,
            result: told.to_string(),
            timeout_ms: None,
        };
        let to_old = |version| {
            let result = handshake(&introduction(version), ProtocolVersion::V20250326, "x");
            serde_json::from_str::<Value>(&result.to_string()).unwrap()
        };
        let modern = to_old(ProtocolVersion::V20260728);
        assert_eq!(modern["protocolVersion"], "2025-03-26");
        assert_eq!(modern["serverInfo"]["name"], "lab");
        assert_eq!(
            (&modern["instructions"], &modern["x"]),
            (&json!("be kind"), &json!(5))
        );
        let expected = json!({"prompts": {"listChanged": true}, "resources": {}, "tools": {"listChanged": true}});
        assert_eq!(modern["capabilities"], expected);
        let stateful = to_old(ProtocolVersion::V20251125);
        assert_eq!(stateful["capabilities"]["resources"]["subscribe"], true);
    }
}
