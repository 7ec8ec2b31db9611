//! Hosts of the modern era (2026-07-28): no handshake, subscriptions, and questions in rounds.

use serde_json::{Map, Value, json};

use super::{Asked, Call, Effect, Greeting, Proxy};
use crate::{
    domain::{Answer, GaveUpReason, Question, SessionRequest, TaskId, TaskView},
    proxy::{
        era::{MODERN, RequestMeta, SUBSCRIPTION_ID},
        message,
    },
};

/// The code of 2026-07-28 for a revision that the server does not speak.
const UNSUPPORTED_VERSION: i64 = -32022;

impl Proxy {
    /// Notes what a request of the modern era says of its host. Returns whether it can be served.
    pub(super) fn meets(&mut self, id: &str, params: &Map<String, Value>) -> bool {
        let Some(meta) = RequestMeta::of(params) else {
            self.host.is_modern = false;
            return true;
        };
        if meta.version != MODERN.label() {
            let data = json!({"supported": [MODERN.label()], "requested": meta.version});
            let words = "unsupported protocol version";
            let line = message::error(id, UNSUPPORTED_VERSION, words, Some(&data.to_string()));
            self.effects.push(Effect::ToHost(line));
            return false;
        }
        let wants_logs = meta.wants_logs;
        self.meet(meta.client_info, meta.capabilities);
        (self.host.is_modern, self.host.wants_logs) = (true, wants_logs);
        true
    }

    pub(super) fn discover(&mut self, id: String) {
        let server = self.options.server.clone();
        self.ask(
            Asked::Introduce(Some((id, Greeting::Discover))),
            SessionRequest::Introduce(server),
        );
    }

    /// Opens a subscription: what it asks for is accepted, as far as the proxy hears of it.
    pub(super) fn subscribe(&mut self, id: String, params: &Map<String, Value>) {
        let asked = params.get("notifications").and_then(Value::as_object);
        let mut accepted = asked.cloned().unwrap_or_default();
        accepted.retain(|key, value| key.ends_with("ListChanged") && *value == true);
        let id_value: Value = serde_json::from_str(&id).unwrap_or_default();
        let params = json!({"notifications": accepted, "_meta": {SUBSCRIPTION_ID: id_value}});
        let line = message::notification("notifications/subscriptions/acknowledged", &params);
        self.effects.push(Effect::ToHost(line));
        self.subscriptions.insert(id, accepted);
    }

    /// Passes a notification of the server on, as the host's era allows.
    pub(super) fn notified(&mut self, notification: String) {
        if !self.host.is_modern {
            return self.effects.push(Effect::ToHost(notification));
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&notification) else {
            return;
        };
        let method = value.get("method").and_then(Value::as_str);
        let wanted = match method.unwrap_or_default() {
            "notifications/message" => {
                if self.host.wants_logs {
                    self.effects.push(Effect::ToHost(notification));
                }
                return;
            }
            "notifications/tools/list_changed" => "toolsListChanged",
            "notifications/prompts/list_changed" => "promptsListChanged",
            "notifications/resources/list_changed" => "resourcesListChanged",
            _ => return,
        };
        let subscriptions = self.subscriptions.iter();
        let wanting = subscriptions.filter(|(_, accepted)| accepted.contains_key(wanted));
        for (id, _) in wanting {
            let id: Value = serde_json::from_str(id).unwrap_or_default();
            if let Some(message) = value.as_object_mut() {
                let params = json!({"_meta": {SUBSCRIPTION_ID: id}});
                message.insert("params".to_owned(), params);
            }
            self.effects.push(Effect::ToHost(value.to_string()));
        }
    }

    /// Ends the calls of a task that asks something: the host makes them again with the answers.
    pub(super) fn ask_in_round(&mut self, view: &TaskView) {
        let task = &view.task.id;
        let is_new = |question: &&Question| {
            let mut known = self.questions.known.iter();
            !known.any(|(of, key)| of == task && question.has_key(key))
        };
        let open = view.task.open_questions().filter(is_new);
        let requests = open.filter_map(|question| {
            let params = self.shown(question)?;
            let request = json!({"method": "elicitation/create", "params": params});
            Some((question.key.clone(), request))
        });
        let requests: Map<String, Value> = requests.collect();
        if requests.is_empty() {
            return;
        }
        let waiting = self.calls.iter();
        let waiting = waiting.filter(|(_, call)| call.task.as_ref() == Some(task));
        let ids: Vec<String> = waiting.map(|(id, _)| id.clone()).collect();
        let result = json!({
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": task.as_str(),
        });
        for id in ids {
            self.respond(&id, &result);
            if let Some(call) = self.calls.remove(&id) {
                self.gave_up(&call, GaveUpReason::Ticket);
            }
        }
    }

    /// A call that the host makes again with answers. Returns false if it is a call like any other.
    pub(super) fn continues_round(
        &mut self,
        id: &str,
        call: &Call,
        params: &Map<String, Value>,
    ) -> bool {
        let state = params.get("requestState").and_then(Value::as_str);
        let task = state.and_then(TaskId::parse);
        let is_ours = |task: &TaskId| self.views.get(task).is_some_and(|view| self.is_ours(view));
        let Some(task) = task.filter(is_ours) else {
            return false;
        };
        let answers = params.get("inputResponses").and_then(Value::as_object);
        for (key, response) in answers.into_iter().flatten() {
            let Some(answer) = answer_of(response) else {
                continue;
            };
            self.questions.known.insert((task.clone(), key.clone()));
            let request = SessionRequest::Answer {
                id: task.clone(),
                key: Some(key.clone()),
                answer,
            };
            self.ask(Asked::Note, request);
        }
        let mut call = call.clone();
        call.task = Some(task.clone());
        self.calls.insert(id.to_owned(), call);
        let id = id.to_owned();
        self.ask(Asked::Collect { id }, SessionRequest::Collect(task));
        true
    }
}

/// An ElicitResult; `None` if it is none.
pub(super) fn answer_of(result: &Value) -> Option<Answer> {
    match result.get("action").and_then(Value::as_str)? {
        "accept" => Some(Answer::Accept {
            content: result.get("content").map(Value::to_string),
        }),
        "decline" => Some(Answer::Decline),
        "cancel" => Some(Answer::Dismiss),
        _ => None,
    }
}
