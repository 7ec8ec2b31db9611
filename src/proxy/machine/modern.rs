//! Hosts of the modern era (2026-07-28): no handshake, subscriptions, and questions in rounds.

use serde_json::{Value, json};

use super::{Asked, CallRole, IntroductionMethod, Members, Proxy};
use crate::{
    domain::{GaveUpReason, TaskView},
    proxy::{
        era::{MODERN, REQUEST_STATE, RequestMeta, SUBSCRIPTION_ID, log_level},
        message,
    },
};

/// The code of 2026-07-28 for a revision that the server does not speak.
const UNSUPPORTED_VERSION: i64 = -32022;

/// The lists whose changes a host can subscribe to.
const LISTS: [&str; 3] = ["tools", "prompts", "resources"];

/// What a subscription to changes of a list asks for.
fn asked_for(list: &str) -> String {
    format!("{list}ListChanged")
}

impl Proxy {
    /// Notes what a request of the modern era says of its host. Returns whether it can be served.
    pub(super) fn meets(&mut self, id: &str, params: &Members) -> bool {
        let Some(meta) = RequestMeta::of(params) else {
            self.host.is_modern = false;
            return true;
        };
        if meta.version != MODERN.label() {
            let data = json!({"supported": [MODERN.label()], "requested": meta.version});
            let words = "unsupported protocol version";
            let data = data.to_string();
            self.send(message::error(id, UNSUPPORTED_VERSION, words, Some(&data)));
            return false;
        }
        let log_level = meta.log_level;
        self.meet(meta.client_info, meta.capabilities);
        (self.host.is_modern, self.host.log_level) = (true, log_level);
        self.send_level();
        true
    }

    pub(super) fn discover(&mut self, id: String) {
        let asked = Asked::Introduce(Some((id, IntroductionMethod::Discover)));
        self.ask(asked, self.introduce());
    }

    /// Makes the server known for a host that asks for something else first: from then on it gets notifications.
    pub(super) fn ensure_introduction(&mut self) {
        let mut asked = self.asked.values();
        let is_asked = asked.any(|asked| matches!(asked, Asked::Introduce(_)));
        if self.host.is_modern && self.introduction.is_none() && !is_asked {
            self.ask(Asked::Introduce(None), self.introduce());
        }
    }

    pub(super) fn subscribe(&mut self, id: String, params: &Members) {
        let wanted = params.get("notifications").and_then(Value::as_object);
        let wanted = wanted.cloned().unwrap_or_default();
        if self.introduction.is_some() {
            return self.open_subscription(id, wanted);
        }
        let asked = Asked::Introduce(Some((id, IntroductionMethod::Listen(wanted))));
        self.ask(asked, self.introduce());
    }

    /// Opens a subscription: what it asks for is accepted, as far as the server notifies of it.
    pub(super) fn open_subscription(&mut self, id: String, mut accepted: Members) {
        let offered = self.introduction.as_ref().map(|it| it.result.as_str());
        let offered: Value = serde_json::from_str(offered.unwrap_or_default()).unwrap_or_default();
        accepted.retain(|key, value| {
            let list = LISTS.iter().find(|list| asked_for(list) == *key);
            let path = list.map(|list| format!("/capabilities/{list}/listChanged"));
            let offers = path.and_then(|path| offered.pointer(&path));
            *value == true && offers == Some(&json!(true))
        });
        let id_value: Value = serde_json::from_str(&id).unwrap_or_default();
        let params = json!({"notifications": accepted, "_meta": {SUBSCRIPTION_ID: id_value}});
        self.notify("notifications/subscriptions/acknowledged", &params);
        self.subscriptions.insert(id, accepted);
    }

    /// Passes a notification of the server on, as the host's era allows.
    pub(super) fn notified(&mut self, notification: String) {
        let Some(notification) = self.pass_about_forward(notification) else {
            return;
        };
        let is_plain = !self.host.is_modern
            && self.host.is_initialized
            && self.host.log_level.is_none()
            && !notification.contains(SUBSCRIPTION_ID);
        if is_plain {
            return self.send(notification);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(&notification) else {
            return;
        };
        let method = value.get("method").and_then(Value::as_str);
        let method = method.unwrap_or_default().to_owned();
        if method == "notifications/message" {
            let level = value.pointer("/params/level").and_then(log_level);
            let is_wanted = match self.host.log_level {
                Some(least) => level.is_none_or(|level| level >= least),
                None => !self.host.is_modern,
            };
            if is_wanted {
                self.send(notification);
            }
            return;
        }
        if !self.host.is_modern {
            // Before `notifications/initialized`, a host gets log messages only.
            if self.host.is_initialized {
                let line = if without_subscription(&mut value) {
                    value.to_string()
                } else {
                    notification
                };
                self.send(line);
            }
            return;
        }
        let list = method.strip_prefix("notifications/");
        let list = list.and_then(|list| list.strip_suffix("/list_changed"));
        let Some(asked) = list.filter(|list| LISTS.contains(list)).map(asked_for) else {
            return;
        };
        let subscriptions = self.subscriptions.iter();
        let wanting = subscriptions.filter(|(_, accepted)| accepted.contains_key(&asked));
        let wanting: Vec<String> = wanting.map(|(id, _)| id.clone()).collect();
        for id in wanting {
            let id: Value = serde_json::from_str(&id).unwrap_or_default();
            let params = json!({"_meta": {SUBSCRIPTION_ID: id}});
            self.send(message::with(value.clone(), "params", Some(params)).to_string());
        }
    }

    /// Ends the calls of a task that asks something: the host makes them again with the answers.
    pub(super) fn ask_in_round(&mut self, view: &TaskView) {
        let task = &view.task.id;
        let mut requests = self.input_requests(view);
        for question in &view.task.questions {
            if self.questions.is_known(task, question) || !self.is_own(question) {
                requests.remove(&question.key);
            }
        }
        if requests.is_empty() {
            return;
        }
        let result = format!(
            r#"{{"resultType":"input_required","inputRequests":{requests},"{REQUEST_STATE}":"{task}"}}"#
        );
        let waiting = self.requests_for(task).into_iter();
        for (id, _) in waiting.filter(|(_, role)| *role == CallRole::Call) {
            self.respond_to(&id, "", &result);
            if let Some(call) = self.calls.remove(&id) {
                self.call_gave_up(&call, GaveUpReason::Ticket);
            }
        }
    }

    /// A call that the host makes again, with answers to the questions of a task.
    pub(super) fn round_continues(&mut self, id: &str, view: Option<&TaskView>, params: &str) {
        let Some(view) = view else {
            // Nothing may run a second time.
            let words = "unknown requestState: that call is not open";
            return self.refuse(id, message::INVALID_PARAMS, words);
        };
        self.answer_from_host(view, params);
        let call = self.new_wait(&view.task.tool, params);
        self.wait_for(id, call, view.task.id.clone());
    }
}

/// Removes the name of longhaul's own subscription from a notification. Returns whether there was one.
fn without_subscription(notification: &mut Value) -> bool {
    let Some(params) = notification
        .get_mut("params")
        .and_then(Value::as_object_mut)
    else {
        return false;
    };
    let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) else {
        return false;
    };
    let had = meta.remove(SUBSCRIPTION_ID).is_some();
    if had && meta.is_empty() {
        params.remove("_meta");
    }
    had
}
