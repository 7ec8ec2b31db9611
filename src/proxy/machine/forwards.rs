//! Requests of the host that are not calls, and notifications that MCP doesn't define: they are passed on to the server.

use serde_json::json;

use super::{Asked, Call, Proxy, asked::ForwardedRequest};
use crate::{
    domain::{
        Forwarded, HostCapabilities, HostProfile, HostRequest, Introduction, QuestionKind,
        SessionRequest, TaskId,
    },
    proxy::{
        message,
        questions::Relayed,
        raw::{self, RawMembers},
    },
};

/// How many requests and notifications of a host may be open at the server, each of which needs a connection of the
/// keeper's.
const FORWARDS: usize = 200;

/// What a server without tools would list.
pub(super) const NO_TOOLS: &str = r#"{"tools":[]}"#;

impl Proxy {
    /// `rounds` is how often the server has asked something for this request, and `params` the text of the parameters.
    pub(super) fn forward(&mut self, rounds: u32, id: String, method: &str, params: String) {
        if !self.may_forward() {
            let words = "too many requests are open; wait until the server has answered some";
            return self.refuse(&id, message::SERVER_ERROR, words);
        }
        let key = format!("{}-{}", self.process(), self.next_request);
        let token = raw::progress_token(&params);
        let asked = Asked::Forward(ForwardedRequest {
            id,
            method: method.to_owned(),
            is_first_page: raw::member(&params, "cursor").is_none(),
            params: self.takes_rounds(method).then(|| params.clone()),
            rounds,
            key: key.clone(),
            progress_token: token.map(str::to_owned),
        });
        let wants_progress = token.is_some();
        let request = SessionRequest::Forward {
            server: self.options.server.clone(),
            request: HostRequest {
                method: method.to_owned(),
                params,
                host: Box::new(self.forwarding_host(method)),
                key,
                wants_progress,
            },
        };
        self.ask(asked, request);
    }

    /// Distinguishes this process of the host from all others.
    pub(super) fn process(&self) -> String {
        format!("host-{:x}", self.options.seed)
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
        let result = match outcome {
            Forwarded::Result(result) => result.as_str(),
            Forwarded::Error(error) if self.is_without_tools(request, error) => NO_TOOLS,
            Forwarded::Error(error) => {
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
                return self.send(line);
            }
        };
        let list = (request.method == "tools/list").then(|| {
            let offers_tasks = self.host.has_tasks && !self.host.is_modern;
            (self.schemas).page(result, request.is_first_page, offers_tasks)
        });
        let list = list.flatten();
        self.respond_to(id, &request.method, list.as_deref().unwrap_or(result));
    }

    /// Whether a request that failed asked for the tools of a server that has none: the host then gets only our own.
    /// `error` is that of the server, if it responded.
    pub(super) fn is_without_tools(&self, request: &ForwardedRequest, error: &str) -> bool {
        let has_none = |introduction: &Introduction| {
            let capabilities = raw::member(&introduction.result, "capabilities");
            capabilities.is_none_or(|it| raw::member(it, "tools").is_none())
        };
        let is_unknown = raw::member(error, "code") == Some("-32601");
        request.method == "tools/list"
            && (is_unknown || self.introduction.as_ref().is_some_and(has_none))
    }

    /// Passes on what the server sends about a request: its progress, under the host's own token, and questions. Returns
    /// any other message, under the host's own token too if it names one that is known.
    pub(super) fn pass_about_forward(&mut self, message: String) -> Option<String> {
        let Some(mut members) = RawMembers::parse(&message) else {
            return Some(message);
        };
        let text = |key| serde_json::from_str(members.get(key)?).ok();
        let method: String = text("method").unwrap_or_default();
        let params = members.get("params").unwrap_or("{}").to_owned();
        if let (Some(id), Some(key)) = (text("id"), text("forward")) {
            self.ask_about_forward(id, key, &method, &params);
            return None;
        }
        let mut params = RawMembers::parse(&params).unwrap_or_default();
        let token = params.get("progressToken");
        let token = token.and_then(|token| self.host_token(token));
        let is_progress = method == "notifications/progress";
        let message = match token {
            Some(token) => {
                params.set("progressToken", &token);
                members.set("params", &params.to_string());
                members.to_string()
            }
            None if is_progress => return None,
            None => message,
        };
        if is_progress {
            self.send(message);
            return None;
        }
        Some(message)
    }

    /// The host's own token for one of longhaul's; both are JSON text.
    fn host_token(&self, token: &str) -> Option<String> {
        let token: String = serde_json::from_str(token).ok()?;
        let of_request = self.asked.values().find_map(|asked| match asked {
            Asked::Forward(request) if request.key == token => request.progress_token.as_ref(),
            _ => None,
        });
        let is_its = |task: &TaskId| {
            let attempts = self.views.get(task).map(|view| &view.task.attempts);
            attempts.is_some_and(|attempts| attempts.iter().any(|it| it.token == token))
        };
        let of_call = |call: &Call| {
            let token = call.progress_token.clone();
            token.filter(|_| call.task.as_ref().is_some_and(is_its))
        };
        let of_request = of_request.cloned();
        of_request.or_else(|| self.calls.values().find_map(of_call))
    }

    /// Asks the host what the server asks in its request with this id.
    fn ask_about_forward(&mut self, id: String, key: String, method: &str, params: &str) {
        let kind = QuestionKind::of_method(method).filter(|_| !self.host.is_modern);
        if let Some(params) = kind.and_then(|kind| self.shown(kind, params)) {
            return self.ask_host(Relayed::OfForward { id, key }, method, &params);
        }
        let error = json!({"code": message::METHOD_NOT_FOUND, "message": "Method not found"});
        self.respond_to_server(id, Forwarded::Error(error.to_string()));
    }

    /// Answers a request of the server.
    pub(super) fn respond_to_server(&mut self, id: String, outcome: Forwarded) {
        let server = self.options.server.clone();
        let request = SessionRequest::Respond {
            server,
            id,
            outcome,
        };
        self.ask(Asked::Note, request);
    }

    /// Takes back what the host was asked for a request that has ended.
    pub(super) fn withdraw_of_forward(&mut self, ended: &str) {
        let is_its =
            |relayed: &Relayed| matches!(relayed, Relayed::OfForward { key, .. } if key == ended);
        self.withdraw("the request has ended", is_its);
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
            self.withdraw_of_forward(&key);
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
