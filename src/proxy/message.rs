//! JSON-RPC messages of a host, and those for it.

use core::fmt::Display;

use serde_json::{Map, Value, json, value::RawValue};

use super::raw::{self, MembersByName};
use crate::domain::{Forwarded, without_lone_surrogates};

/// The members of a JSON object.
pub(super) type Members = Map<String, Value>;

/// A message from the host.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum HostMessage {
    /// A request; the id is its JSON text.
    Request {
        id: String,
        method: String,
        params: Members,
        /// The text of `params`: a [`Value`] does not hold every number.
        text: String,
    },
    Notification {
        method: String,
        params: Members,
        /// The JSON text of `requestId`.
        request: Option<String>,
        /// The whole message.
        text: String,
    },
    /// A response to a request of ours.
    Response { id: String, outcome: Forwarded },
}

/// The codes of JSON-RPC 2.0.
pub(super) const PARSE_ERROR: i64 = -32700;
pub(super) const INVALID_REQUEST: i64 = -32600;
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// Where the server can't be reached or refuses.
pub(super) const SERVER_ERROR: i64 = -32000;

/// A line that is not a message, and the error response that it gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    /// The id of the request, as JSON text, if there is one.
    pub(super) id: Option<String>,
    pub(super) code: i64,
    pub(super) why: &'static str,
}

impl Malformed {
    fn not_a_message(id: Option<String>) -> Self {
        let (code, why) = (INVALID_REQUEST, "not a JSON-RPC message");
        Self { id, code, why }
    }

    fn unreadable(id: Option<String>) -> Self {
        let (code, why) = (PARSE_ERROR, "not JSON, or nested too deeply");
        Self { id, code, why }
    }
}

/// Parses one line: a message, or a batch of them (2025-03-26). Hosts that cut text in the middle of a character send lone
/// surrogates, which are replaced.
pub(super) fn parse(line: String) -> Vec<Result<HostMessage, Malformed>> {
    let line = without_lone_surrogates(line);
    let messages = match serde_json::from_str::<&RawValue>(&line) {
        Ok(batch) if batch.get().starts_with('[') => serde_json::from_str(&line),
        Ok(message) => Ok(vec![message]),
        Err(error) => Err(error),
    };
    match messages {
        Ok(batch) if batch.is_empty() => vec![Err(Malformed::not_a_message(None))],
        Ok(messages) => messages.into_iter().map(parse_message).collect(),
        Err(_) => vec![Err(Malformed::unreadable(None))],
    }
}

fn parse_message(message: &RawValue) -> Result<HostMessage, Malformed> {
    let Ok(members) = serde_json::from_str::<MembersByName<'_>>(message.get()) else {
        return Err(Malformed::not_a_message(None));
    };
    let text_of = |key: &str| members.get(key).map(|value| value.get());
    let id = text_of("id").map(str::to_owned);
    let text = text_of("params").filter(|params| params.starts_with('{'));
    let text = text.unwrap_or("{}").to_owned();
    let Ok(params) = serde_json::from_str::<Members>(&text) else {
        return Err(Malformed::unreadable(id));
    };
    let method = text_of("method").map(serde_json::from_str::<String>);
    match (method, id) {
        (Some(Ok(method)), Some(id)) => Ok(HostMessage::Request {
            id,
            method,
            params,
            text,
        }),
        (Some(Ok(method)), None) => Ok(HostMessage::Notification {
            method,
            params,
            request: raw::member(&text, "requestId").map(str::to_owned),
            text: message.get().to_owned(),
        }),
        (None, Some(id)) => {
            let error = text_of("error").filter(|error| *error != "null");
            let outcome = match (text_of("result"), error) {
                (Some(result), None) => Forwarded::Result(result.to_owned()),
                (_, Some(error)) if error.starts_with('{') => Forwarded::Error(error.to_owned()),
                _ => Forwarded::Error(internal_error("the host gave no result").to_string()),
            };
            Ok(HostMessage::Response { id, outcome })
        }
        (_, id) => Err(Malformed::not_a_message(id)),
    }
}

/// An error of longhaul's own, as the `error` member of a response.
pub(super) fn internal_error(words: &str) -> Value {
    json!({"code": INTERNAL_ERROR, "message": words})
}

/// An object with one more member, if there is a value for it.
pub(super) fn with(mut object: Value, key: &str, value: Option<Value>) -> Value {
    if let (Some(members), Some(value)) = (object.as_object_mut(), value) {
        members.insert(key.to_owned(), value);
    }
    object
}

/// A response with a result, which is JSON text and stays as it is.
pub(super) fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// An error response; `data` is JSON text.
pub(super) fn error(id: &str, code: i64, message: &str, data: Option<&str>) -> String {
    let message = Value::from(message);
    let data = data.map_or_else(String::new, |data| format!(r#","data":{data}"#));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}{data}}}}}"#)
}

/// A notification; `params` is JSON.
pub(super) fn notification(method: &str, params: &impl Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// A request of ours; `params` is JSON.
pub(super) fn request(id: &str, method: &str, params: &impl Display) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{params}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_three_kinds_of_messages() {
        let read = |line: &str| parse(line.to_owned()).remove(0).unwrap();
        assert!(matches!(
            read(r#"{"id":"7","method":"ping"}"#),
            HostMessage::Request { id, .. } if id == "\"7\""
        ));
        assert!(matches!(
            read(r#"{"method":"notifications/initialized","params":null}"#),
            HostMessage::Notification { .. }
        ));
        let error = read(r#"{"id":7,"error":{"code":1}}"#);
        assert!(matches!(
            error,
            HostMessage::Response {
                outcome: Forwarded::Error(_),
                ..
            }
        ));
    }

    #[test]
    fn what_is_no_message_gets_an_error() {
        for (line, code) in [
            ("{", -32700),
            ("[]", -32600),
            ("{\"id\":1,\"method\":2}", -32600),
        ] {
            let read = parse(line.to_owned()).remove(0);
            assert_eq!(read.unwrap_err().code, code);
        }
    }

    #[test]
    fn a_request_that_cant_be_read_keeps_its_id() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let line = format!(r#"{{"method":"tools/call","params":{{"x":{deep}}},"id":"a"}}"#);
        let read = parse(line).remove(0).unwrap_err();
        assert_eq!((read.id.as_deref(), read.code), (Some("\"a\""), -32700));
    }

    #[test]
    fn the_parameters_of_a_request_stay_as_they_are() {
        let params = r#"{"arguments":{"wei": 1180591620717411303424, "x": 1.50},"name":"pay"}"#;
        let line = format!(r#"{{"id":1,"method":"tools/call","params":{params}}}"#);
        let read = parse(line).remove(0);
        let Ok(HostMessage::Request { text, .. }) = read else {
            panic!("a request");
        };
        assert_eq!(text, params);
    }

    #[test]
    fn reads_lone_surrogates_and_batches() {
        let line = r#"[{"id":1,"method":"ping"},{"id":2,"method":"x\ud83d"},3]"#;
        let read = parse(line.to_owned());
        assert!(matches!(
            read.as_slice(),
            [Ok(_), Ok(HostMessage::Request { method, .. }), Err(_)] if method == "x\u{fffd}"
        ));
    }

    #[test]
    fn errors_keep_their_data() {
        let line = error("1", -32042, "visit \"this\"", Some(r#"{"url":"x"}"#));
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["error"]["data"]["url"], "x");
        assert_eq!(value["error"]["message"], "visit \"this\"");
    }

    #[test]
    fn an_error_that_is_null_is_none() {
        let read = parse(r#"{"id":7,"result":{"roots":[]},"error":null}"#.to_owned()).remove(0);
        let Ok(HostMessage::Response { outcome, .. }) = read else {
            panic!("{read:?}");
        };
        assert_eq!(outcome, Forwarded::Result(r#"{"roots":[]}"#.to_owned()));
    }
}
