//! From what we want to the text of a JSON-RPC message.

use serde_json::{Value, json, value::RawValue};

use crate::domain::ProtocolVersion;

/// `initialize`; asks for `version`, declares no capability that this build cannot serve.
pub fn initialize(id: &str, version: ProtocolVersion) -> String {
    request(
        id,
        "initialize",
        &json!({
            "protocolVersion": version.word(),
            "capabilities": {},
            "clientInfo": {"name": "longhaul", "version": env!("CARGO_PKG_VERSION")},
        }),
    )
}

/// `notifications/initialized`, which ends the handshake.
pub fn initialized() -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string()
}

/// `ping`.
pub fn ping(id: &str) -> String {
    request(id, "ping", &json!({}))
}

/// `tools/list`, from the page at `cursor`.
pub fn list_tools(id: &str, cursor: Option<&str>) -> String {
    request(
        id,
        "tools/list",
        &cursor.map_or(json!({}), |cursor| json!({"cursor": cursor})),
    )
}

/// `tools/call` with a progress token.
pub fn call_tool(id: &str, token: &str, tool: &str, arguments: &Value) -> String {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": token}});
    request(id, "tools/call", &params)
}

/// `notifications/cancelled` for one of our requests.
pub fn cancelled(request_id: &str, reason: &str) -> String {
    let params = json!({"requestId": request_id, "reason": reason});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

/// The empty answer to a request of the server, e.g. its ping.
pub fn answer_empty(id: &RawValue) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, id.get())
}

/// The answer to a request of the server that this build does not serve.
pub fn answer_unsupported(id: &RawValue, method: &str) -> String {
    let error = json!({"code": -32601, "message": format!("not supported: {method}")});
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.get())
}

fn request(id: &str, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_server_request_goes_back_as_it_came() {
        for id in ["7", "\"s-1\"", "7.0"] {
            let raw = RawValue::from_string(id.to_owned()).unwrap();
            assert!(answer_empty(&raw).contains(&format!("\"id\":{id},")));
            assert!(answer_unsupported(&raw, "roots/list").contains(&format!("\"id\":{id},")));
        }
    }

    #[test]
    fn a_call_carries_its_token_and_arguments() {
        let call = call_tool("p-1", "t-1", "render", &json!({"scene": 12}));
        let call: Value = serde_json::from_str(&call).unwrap();
        assert_eq!(call["params"]["_meta"]["progressToken"], "t-1");
        assert_eq!(call["params"]["arguments"]["scene"], 12);
    }
}
