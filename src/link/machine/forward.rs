//! Requests that pass from a host behind `longhaul proxy` to its server.

use serde_json::{Map, Value, json};

use super::Link;
use crate::{
    domain::{
        Forwarded, HostProfile, Introduction, RequestError, SessionRequestId, SessionResponse, text,
    },
    link::in_flight::RequestKind,
    protocol::{RpcError, encode},
};

impl Link {
    pub(super) fn introduce(&mut self, ask: SessionRequestId) {
        let result = self.record.introduction.clone().unwrap_or_else(|| {
            // Saved by an older longhaul, or too large to keep.
            let name = self.record.name.as_str();
            let info = json!({"name": name, "version": ""});
            json!({"capabilities": {"tools": {}}, "serverInfo": info}).to_string()
        });
        let introduction = Introduction {
            version: self.session_version(),
            result,
            // The driver knows all calls.
            timeout_ms: None,
        };
        self.answer(ask, Ok(SessionResponse::Introduced(introduction)));
    }

    pub(super) fn forward(
        &mut self,
        ask: SessionRequestId,
        method: &str,
        params: &str,
        host: &HostProfile,
    ) {
        let mut params: Map<String, Value> = serde_json::from_str(params).unwrap_or_default();
        match method {
            "logging/setLevel" => {
                if let Some(level) = self.hosts.log_level() {
                    params.insert("level".to_owned(), level.label().into());
                }
            }
            "resources/unsubscribe" => {
                let uri = params.get("uri").and_then(Value::as_str);
                let is_wanted = self
                    .hosts
                    .resources()
                    .iter()
                    .any(|it| Some(it.as_str()) == uri);
                if is_wanted {
                    // Another host is still subscribed.
                    let done = Forwarded::Result("{}".to_owned());
                    return self.answer(ask, Ok(SessionResponse::Forwarded(done)));
                }
            }
            _ => {}
        }
        let id = self.in_flight.new_request_id();
        let request = encode::forwarded(self.session_version(), &id, method, params, host);
        self.send(RequestKind::Forward { ask }, request, Some(id), None);
    }

    /// Tells a new session what the one before it kept for the hosts.
    pub(super) fn restore_host_state(&mut self) {
        let level = self.hosts.log_level();
        let level = level.map(|level| ("logging/setLevel", json!({"level": level.label()})));
        let resources = self.hosts.resources().into_iter();
        let resources = resources.map(|uri| ("resources/subscribe", json!({"uri": uri})));
        for (method, params) in level.into_iter().chain(resources).collect::<Vec<_>>() {
            // No request of a client has the number 0.
            self.forward(0, method, &params.to_string(), &HostProfile::default());
        }
    }

    pub(super) fn forward_answered(
        &mut self,
        ask: SessionRequestId,
        outcome: Result<&str, RpcError>,
    ) {
        let forwarded = match outcome {
            Ok(result) => Forwarded::Result(result.to_owned()),
            Err(error) => Forwarded::Error(serde_json::to_string(&error).unwrap_or_default()),
        };
        self.answer(ask, Ok(SessionResponse::Forwarded(forwarded)));
    }

    pub(super) fn forward_failed(&mut self, ask: SessionRequestId, why: &str) {
        let why = text::clean_line(why);
        let words = format!("{} did not answer ({why})", self.record.name);
        self.answer(ask, Err(RequestError::Unreachable(words)));
    }
}
