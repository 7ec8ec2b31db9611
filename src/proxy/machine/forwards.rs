//! Requests of the host that are not calls, and notifications that MCP doesn't define: they are passed on to the server.

use serde_json::Value;

use super::{Asked, Members, Proxy};
use crate::{
    domain::{Forwarded, HostCapabilities, HostProfile, HostRequest, SessionRequest},
    proxy::{message, raw::RawMembers},
};

/// How many requests and notifications of a host may be open at the server, each of which needs a connection of the
/// keeper's.
const FORWARDS: usize = 200;

/// A request of the host that was passed on.
#[derive(Clone, Debug)]
pub(super) struct ForwardedRequest {
    /// The id of the host's request.
    pub(super) id: String,
    pub(super) method: String,
    is_first_page: bool,
    /// The parameters, if the server may ask something before it answers.
    pub(super) params: Option<Members>,
    /// How often it has asked already.
    pub(super) rounds: u32,
    /// The name of the request in the session, and its progress token there.
    key: String,
    /// The host's own token.
    progress_token: Option<Value>,
}

impl Proxy {
    /// `rounds` is how often the server has asked something for this request, and `text` that of the parameters.
    pub(super) fn forward(
        &mut self,
        rounds: u32,
        id: String,
        method: &str,
        params: &Members,
        text: String,
    ) {
        if !self.may_forward() {
            let words = "too many requests are open; wait until the server has answered some";
            return self.refuse(&id, message::SERVER_ERROR, words);
        }
        let key = format!("host-{:x}-{}", self.options.seed, self.next_request);
        let token = params.get("_meta").and_then(|it| it.get("progressToken"));
        let token = token.filter(|token| !token.is_null());
        let asked = Asked::Forward(ForwardedRequest {
            id,
            method: method.to_owned(),
            is_first_page: params.get("cursor").is_none_or(Value::is_null),
            params: self.takes_rounds(method).then(|| params.clone()),
            rounds,
            key: key.clone(),
            progress_token: token.cloned(),
        });
        let request = SessionRequest::Forward {
            server: self.options.server.clone(),
            request: HostRequest {
                method: method.to_owned(),
                params: text,
                host: Box::new(self.forwarding_host(method)),
                key,
                wants_progress: token.is_some(),
            },
        };
        self.ask(asked, request);
    }

    fn may_forward(&self) -> bool {
        let is_open = |asked: &&Asked| matches!(asked, Asked::Forward(_) | Asked::Unawaited);
        self.asked.values().filter(is_open).count() < FORWARDS
    }

    /// The host as the server sees it in a request that is not a call.
    fn forwarding_host(&self, method: &str) -> HostProfile {
        let mut host = self.host.profile.clone();
        if !self.host.is_modern && !self.takes_rounds(method) {
            host.capabilities = HostCapabilities::default();
        }
        host
    }

    /// Responds to the host as the server did.
    pub(super) fn forwarded(&mut self, request: &ForwardedRequest, outcome: &Forwarded) {
        let id = &request.id;
        match outcome {
            Forwarded::Result(result) => {
                let list = (request.method == "tools/list")
                    .then(|| {
                        let offers_tasks = self.host.has_tasks && !self.host.is_modern;
                        (self.schemas).page(result, request.is_first_page, offers_tasks)
                    })
                    .flatten();
                self.respond_to(id, &request.method, list.as_deref().unwrap_or(result));
            }
            Forwarded::Error(error) => {
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
                self.send(line);
            }
        }
    }

    /// Passes the progress of a request on, under the host's own token. Returns whether it was progress.
    pub(super) fn forward_progress(&mut self, notification: &str) -> bool {
        if !notification.contains("notifications/progress") {
            return false;
        }
        let message = RawMembers::parse(notification).filter(|message| {
            let method = message
                .get("method")
                .and_then(|it| serde_json::from_str(it).ok());
            method == Some("notifications/progress")
        });
        let Some(mut message) = message else {
            return false;
        };
        let mut params = message
            .get("params")
            .and_then(RawMembers::parse)
            .unwrap_or_default();
        let key = params
            .get("progressToken")
            .map(str::to_owned)
            .unwrap_or_default();
        let key: String = serde_json::from_str(&key).unwrap_or_default();
        let token = self.asked.values().find_map(|asked| match asked {
            Asked::Forward(request) if request.key == key => request.progress_token.as_ref(),
            _ => None,
        });
        if let Some(token) = token {
            params.set("progressToken", &token.to_string());
            message.set("params", &params.to_string());
            self.send(message.to_string());
        }
        true
    }

    /// The host does not wait for this request any more.
    pub(super) fn cancel_forward(&mut self, id: &str, reason: &str) {
        let is_it =
            |asked: &&mut Asked| matches!(asked, Asked::Forward(request) if request.id == id);
        let Some(asked) = self.asked.values_mut().find(is_it) else {
            return;
        };
        if let Asked::Forward(ForwardedRequest { key, .. }) =
            std::mem::replace(asked, Asked::Unawaited)
        {
            let request = SessionRequest::CancelForward {
                server: self.options.server.clone(),
                key,
                reason: reason.to_owned(),
            };
            self.ask(Asked::Note, request);
        }
    }

    /// Passes on a notification that MCP doesn't define.
    pub(super) fn pass_notification(&mut self, message: String) {
        if self.may_forward() && !self.is_server_modern() {
            let server = self.options.server.clone();
            self.ask(Asked::Unawaited, SessionRequest::Notify { server, message });
        }
    }
}
