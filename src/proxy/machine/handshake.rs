//! The handshake with the host: the server's own introduction, as far as the proxy can keep what it promises.

use serde_json::{Map, Value, json};

use super::{Asked, Host, Proxy};
use crate::{
    domain::{Era, Introduction, ProtocolVersion, SessionRequest},
    proxy::hosts,
};

/// The capabilities that pass through. Tasks do not: their ids belong to longhaul's own connection.
const CAPABILITIES: [&str; 6] = [
    "completions",
    "experimental",
    "logging",
    "prompts",
    "resources",
    "tools",
];

/// Where a server of the modern era names itself.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// What results of the modern era have and others don't.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

impl Proxy {
    pub(super) fn initialize(&mut self, id: String, params: &Map<String, Value>) {
        let info = |key: &str| {
            let value = params.get("clientInfo").and_then(|info| info.get(key));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let name = match info("name") {
            name if name.is_empty() => "unknown".to_owned(),
            name => name,
        };
        let limit = hosts::limit_of(&name, self.options.tool_timeout.as_deref());
        let elicitation = params
            .get("capabilities")
            .and_then(|capabilities| capabilities.get("elicitation"));
        let mode = |key: &str| elicitation.is_some_and(|it| it.get(key).is_some());
        self.host = Host {
            name,
            version: info("version"),
            limit,
            // Before there were modes, there were only forms (2025-06-18).
            shows_forms: mode("form") || elicitation.is_some() && !mode("url"),
            shows_pages: mode("url"),
        };
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        let version = asked
            .and_then(ProtocolVersion::parse)
            .filter(|version| version.era() == Era::Stateful)
            .unwrap_or(ProtocolVersion::V20251125);
        let server = self.options.server.clone();
        self.ask(
            Asked::Introduce(Some((id, version))),
            SessionRequest::Introduce(server),
        );
    }

    pub(super) fn introduced(
        &mut self,
        host: Option<(String, ProtocolVersion)>,
        introduction: Introduction,
    ) {
        if let Some((id, version)) = host {
            let result = handshake(&introduction, version, self.options.server.as_str());
            self.respond(&id, &result);
        }
        self.introduction = Some(introduction);
    }

    pub(super) fn is_server_modern(&self) -> bool {
        let version = self.introduction.as_ref().map(|it| it.version);
        version.is_some_and(|version| version.era() == Era::Modern)
    }
}

/// The result of `initialize` for the host.
fn handshake(introduction: &Introduction, version: ProtocolVersion, server: &str) -> Value {
    let told: Map<String, Value> = serde_json::from_str(&introduction.result).unwrap_or_default();
    let mut capabilities = Map::new();
    if let Some(offered) = told.get("capabilities").and_then(Value::as_object) {
        for (key, value) in offered {
            if CAPABILITIES.contains(&key.as_str()) {
                capabilities.insert(key.clone(), value.clone());
            }
        }
    }
    // Without it the host would not ask for longhaul's own tools.
    capabilities
        .entry("tools")
        .or_insert_with(|| json!({"listChanged": true}));
    if introduction.version.era() == Era::Modern
        && let Some(resources) = capabilities.get_mut("resources")
        && let Some(resources) = resources.as_object_mut()
    {
        // There is no such request in the modern era.
        resources.remove("subscribe");
    }
    let in_meta = told.get("_meta").and_then(|meta| meta.get(SERVER_INFO));
    let info = told.get("serverInfo").or(in_meta).cloned();
    let mut result = json!({
        "protocolVersion": version.label(),
        "capabilities": capabilities,
        "serverInfo": info.unwrap_or_else(|| json!({"name": server, "version": ""})),
    });
    if let (Some(result), Some(instructions)) = (result.as_object_mut(), told.get("instructions")) {
        result.insert("instructions".to_owned(), instructions.clone());
    }
    result
}

/// A server's result as a host of the stateful era knows it.
pub(super) fn for_host(result: &str) -> String {
    // Most results need no change, and so keep every byte.
    if !result.contains("\"resultType\"") {
        return result.to_owned();
    }
    let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(result) else {
        return result.to_owned();
    };
    members.retain(|key, _| !MODERN_MEMBERS.contains(&key.as_str()));
    Value::Object(members).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_introduces_itself_through_the_proxy() {
        let told = json!({"capabilities": {"prompts": {"listChanged": true}, "tasks": {}, "resources": {"subscribe": true}},
            "_meta": {SERVER_INFO: {"name": "lab", "version": "3"}}, "instructions": "be kind"});
        let introduction = |version| Introduction {
            version,
            result: told.to_string(),
        };
        let to_old = |version| handshake(&introduction(version), ProtocolVersion::V20250326, "x");
        let modern = to_old(ProtocolVersion::V20260728);
        assert_eq!(modern["protocolVersion"], "2025-03-26");
        assert_eq!(modern["serverInfo"]["name"], "lab");
        assert_eq!(modern["instructions"], "be kind");
        let expected = json!({"prompts": {"listChanged": true}, "resources": {}, "tools": {"listChanged": true}});
        assert_eq!(modern["capabilities"], expected);
        let stateful = to_old(ProtocolVersion::V20251125);
        assert_eq!(stateful["capabilities"]["resources"]["subscribe"], true);
    }

    #[test]
    fn results_keep_their_bytes() {
        let result = r#"{"content" : [], "x":1.0 }"#;
        assert_eq!(for_host(result), result);
        let modern = r#"{"content":[],"resultType":"complete","ttlMs":0}"#;
        assert_eq!(for_host(modern), r#"{"content":[]}"#);
    }
}
