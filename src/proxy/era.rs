//! The two eras of MCP as a host speaks them: with a handshake, or with all of it in each request (2026-07-28).

use serde::Deserialize as _;
use serde_json::Value;

use super::{message::Members, raw::RawMembers};
use crate::domain::{LogLevel, ProtocolVersion};

/// The prefix of the keys of `_meta` that belong to the connection and to the protocol.
pub(super) const PROTOCOL_META: &str = "io.modelcontextprotocol/";

/// The keys of `_meta` in which a request of the modern era says who makes it.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Where a server names itself, and a notification its subscription.
pub(super) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// The member of a call in which a host returns what came with the questions: the id of the task.
pub(super) const REQUEST_STATE: &str = "requestState";

/// What results of the modern era have and others don't.
const MODERN_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// Methods whose results say how long they may be kept.
const CACHEABLE: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

/// The level of log messages that a host or a message names.
pub(super) fn log_level(name: &Value) -> Option<LogLevel> {
    LogLevel::deserialize(name).ok()
}

/// The revision of the modern era.
pub(super) const MODERN: ProtocolVersion = ProtocolVersion::V20260728;

/// What a request of the modern era says of the host.
#[derive(Clone, Debug)]
pub(super) struct RequestMeta<'m> {
    /// The revision that it asks for.
    pub(super) version: &'m str,
    pub(super) client_info: Option<&'m Value>,
    pub(super) capabilities: Option<&'m Value>,
    /// The least level of the log messages that it wants; none if absent.
    pub(super) log_level: Option<LogLevel>,
}

impl<'m> RequestMeta<'m> {
    /// `None` for a request of the era with a handshake.
    pub(super) fn of(params: &'m Members) -> Option<Self> {
        let meta = params.get("_meta")?;
        Some(Self {
            version: meta.get(VERSION)?.as_str()?,
            client_info: meta.get(CLIENT_INFO),
            capabilities: meta.get(CLIENT_CAPABILITIES),
            log_level: meta.get(LOG_LEVEL).and_then(log_level),
        })
    }
}

/// A server's result as a host of this era knows it. Most results need no change, and so keep every byte.
pub(super) fn result_for(is_modern: bool, method: &str, result: &str) -> String {
    let may_have_type = result.contains("\"resultType\"");
    if !is_modern && !may_have_type {
        return result.to_owned();
    }
    let Some(mut members) = RawMembers::parse(result) else {
        return result.to_owned();
    };
    let has_type = members.get("resultType").is_some();
    if has_type == is_modern && !(is_modern && CACHEABLE.contains(&method)) {
        return result.to_owned();
    }
    if is_modern {
        add_modern_members(&mut members, method);
    } else {
        for key in MODERN_MEMBERS {
            members.remove(key);
        }
    }
    members.to_string()
}

/// What a result of the modern era needs, where it is missing: a server of the other era says nothing of caching.
fn add_modern_members(members: &mut RawMembers, method: &str) {
    const COMPLETE: &str = r#""complete""#;
    let missing = [
        ("resultType", COMPLETE),
        ("ttlMs", "0"),
        ("cacheScope", r#""private""#),
    ];
    let is_complete = members
        .get("resultType")
        .is_none_or(|kind| kind == COMPLETE);
    let is_cacheable = is_complete && CACHEABLE.contains(&method);
    let count = if is_cacheable { 3 } else { 1 };
    for (key, json) in missing.into_iter().take(count) {
        if members.get(key).is_none() {
            members.set(key, json);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_bytes() {
        let result = r#"{"content" : [], "x":1.0 }"#;
        assert_eq!(result_for(false, "tools/call", result), result);
        let modern = r#"{"content":[],"resultType":"complete","ttlMs":0}"#;
        assert_eq!(result_for(false, "tools/call", modern), r#"{"content":[]}"#);
        assert_eq!(result_for(true, "tools/call", modern), modern);
        let expected = r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
        assert_eq!(result_for(true, "tools/list", r#"{"tools":[]}"#), expected);
    }

    #[test]
    fn results_keep_numbers_that_are_too_large_for_a_value() {
        let result = r#"{"structuredContent":{"wei":1180591620717411303424,"f":1.50}}"#;
        let typed = result.replacen('{', r#"{"resultType":"complete","#, 1);
        assert_eq!(result_for(false, "tools/call", &typed), result);
        let modern = result_for(true, "tools/call", result);
        assert!(modern.starts_with(result.trim_end_matches('}')), "{modern}");
    }
}
