//! Requests that pass from a host behind `longhaul proxy` to its server.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Value, json};

use super::Link;
use crate::{
    domain::{
        Forwarded, HostProfile, HostRequest, Introduction, RequestError, SessionRequestId,
        SessionResponse, text,
    },
    link::{
        in_flight::{InFlight, RequestKind},
        queued_requests::QueuedRequest,
    },
    protocol::{Method, RpcOutcome, encode},
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
        request: HostRequest,
        is_repeated: bool,
    ) {
        let mut params = Cow::Borrowed(request.params.as_str());
        let session = self.record.session_number;
        match request.method.as_str() {
            "logging/setLevel" => {
                if let Some(level) = self.hosts.log_level() {
                    let is_repeat =
                        self.session.log_level.replace((session, level)) == Some((session, level));
                    // Without a key, no host waits for the response.
                    if is_repeat && request.key.is_empty() {
                        let done = Forwarded::Result("{}".to_owned());
                        return self.answer(ask, Ok(SessionResponse::Forwarded(done)));
                    }
                    let mut with: Map<String, Value> =
                        serde_json::from_str(&params).unwrap_or_default();
                    with.insert("level".to_owned(), level.label().into());
                    params = Value::Object(with).to_string().into();
                }
            }
            "resources/unsubscribe" => {
                let params: Map<String, Value> = serde_json::from_str(&params).unwrap_or_default();
                let uri = params.get("uri").and_then(Value::as_str);
                let wanted = self.hosts.resources();
                let is_wanted = wanted.iter().any(|it| Some(it.as_str()) == uri);
                if is_wanted {
                    // Another host is still subscribed.
                    let done = Forwarded::Result("{}".to_owned());
                    return self.answer(ask, Ok(SessionResponse::Forwarded(done)));
                }
            }
            _ => {}
        }
        let id = self.in_flight.new_request_id();
        let method = encode::forwarded(self.session_version(), &id, &request, &params);
        let kind = RequestKind::Forward {
            ask,
            request: Box::new(request),
            is_repeated,
        };
        self.send_request(kind, method, id);
    }

    /// A host does not wait for a request any more. What has not been sent yet is not sent.
    pub(super) fn cancel_forward(&mut self, key: &str, reason: &str) {
        let is_it = |it: &mut QueuedRequest| it.is_forward(key);
        let queued = self.queued_requests.extract_if(.., is_it).next();
        if let Some(queued) = queued {
            return self.forward_failed(queued.id, "was not asked: the request was cancelled");
        }
        let Some((exchange, ask, _)) = self.in_flight.forward(key) else {
            return;
        };
        let in_flight = self.in_flight.get(exchange).cloned();
        self.close(exchange);
        // In the modern era, closing the stream is the cancel; on pipes there is none.
        let is_told = |it: &InFlight| !it.is_modern || self.record.is_process();
        if let Some(id) = in_flight.filter(is_told).and_then(|it| it.request_id) {
            let method = encode::cancelled_notification(&id, reason);
            self.send_now(RequestKind::Reply(None), method);
        }
        self.forward_failed(ask, "was asked to cancel the request");
    }

    /// Passes on a notification of a host. The modern era has none.
    pub(super) fn notify_server(&mut self, ask: SessionRequestId, message: String) {
        if self.record.is_stateful() {
            self.send_now(RequestKind::Reply(None), Method::post(message));
        }
        self.answer(ask, Ok(SessionResponse::Accepted));
    }

    /// Tells a new session what the one before it kept for the hosts.
    pub(super) fn restore_host_state(&mut self) {
        let resources = self.hosts.resources().into_iter().cloned().collect();
        self.send_level();
        self.send_for_resources("resources/subscribe", resources);
    }

    /// Tells the server what no host wants any more, now that some of these have gone.
    pub(super) fn drop_host_state(&mut self, before: &[HostProfile]) {
        let wanted = self.hosts.resources();
        let resources = before.iter().flat_map(|host| &host.resources);
        let dropped = resources.filter(|uri| !wanted.contains(uri)).cloned();
        let dropped: BTreeSet<String> = dropped.collect();
        let level = before.iter().filter_map(|host| host.log_level).min();
        if level != self.hosts.log_level() {
            self.send_level();
        }
        self.send_for_resources("resources/unsubscribe", dropped);
    }

    /// Asks for the log messages that the hosts want.
    fn send_level(&mut self) {
        if let Some(level) = self.hosts.log_level() {
            self.note_to_server("logging/setLevel", &json!({"level": level.label()}));
        }
    }

    fn send_for_resources(&mut self, method: &str, resources: BTreeSet<String>) {
        for uri in resources {
            self.note_to_server(method, &json!({"uri": uri}));
        }
    }

    /// Sends a request whose response does not matter. No request of a client has the number 0.
    fn note_to_server(&mut self, method: &str, params: &Value) {
        let request = HostRequest {
            method: method.to_owned(),
            params: params.to_string(),
            ..HostRequest::default()
        };
        self.forward(0, request, false);
    }

    pub(super) fn forward_answered(&mut self, ask: SessionRequestId, outcome: RpcOutcome<'_>) {
        let forwarded = match outcome {
            Ok(result) => Forwarded::Result(result.to_owned()),
            Err(error) => Forwarded::Error(serde_json::to_string(&error).unwrap_or_default()),
        };
        self.answer(ask, Ok(SessionResponse::Forwarded(forwarded)));
    }

    pub(super) fn forward_failed(&mut self, ask: SessionRequestId, what: &str) {
        let words = format!("{} {}", self.record.name, text::clean_line(what));
        self.answer(ask, Err(RequestError::Unreachable(words)));
    }
}
