//! Questions of the server: shown by the host, if it can, and on longhaul's screen. The first answer counts.

use serde_json::{Value, json};

use super::{Asked, Effect, Proxy, modern::answer_of};
use crate::{
    domain::{Question, SessionRequest, TaskId, TaskView},
    proxy::{message, questions::Relayed},
};

impl Proxy {
    /// Asks the host what is new, and takes back what was answered elsewhere.
    pub(super) fn relay_questions(&mut self, view: &TaskView) {
        let task = &view.task.id;
        let is_open = |relayed: &Relayed| {
            let mut open = view.task.open_questions();
            open.any(|question| question.has_key(&relayed.key))
        };
        let answered = self.questions.open.iter();
        let answered = answered.filter(|(_, it)| it.task == *task && !is_open(it));
        let answered: Vec<String> = answered.map(|(id, _)| id.clone()).collect();
        for id in answered {
            self.questions.open.remove(&id);
            let params = json!({"requestId": id, "reason": "answered on longhaul's screen"});
            let line = message::notification("notifications/cancelled", &params);
            self.effects.push(Effect::ToHost(line));
        }
        let mut calls = self.calls.values();
        if !calls.any(|call| call.task.as_ref() == Some(task)) {
            return;
        }
        if self.host.is_modern {
            return self.ask_in_round(view);
        }
        for question in view.task.open_questions() {
            self.relay(task, question);
        }
    }

    /// What the host is asked, if it can show such a question.
    pub(super) fn shown(&self, question: &Question) -> Option<Value> {
        let mut params: Value = serde_json::from_str(&question.request).unwrap_or_default();
        let is_page = params.get("mode").and_then(Value::as_str) == Some("url");
        let can_show = if is_page {
            self.host.shows_pages
        } else {
            self.host.shows_forms
        };
        let members = params.as_object_mut().filter(|_| can_show)?;
        // What it says belongs to longhaul's own connection.
        members.remove("_meta");
        Some(params)
    }

    fn relay(&mut self, task: &TaskId, question: &Question) {
        let mut known = self.questions.known.iter();
        if known.any(|(of, key)| of == task && question.has_key(key)) {
            return;
        }
        let Some(params) = self.shown(question) else {
            return;
        };
        let known = (task.clone(), question.key.clone());
        self.questions.known.insert(known);
        self.questions.asked += 1;
        let id = format!("longhaul-{}", self.questions.asked);
        let line = message::request(&id, "elicitation/create", &params);
        self.effects.push(Effect::ToHost(line));
        let relayed = Relayed {
            task: task.clone(),
            key: question.key.clone(),
        };
        self.questions.open.insert(id, relayed);
    }

    /// The host has answered; `id` is JSON text.
    pub(super) fn question_answered(&mut self, id: &str, outcome: Result<Value, Value>) {
        let id: String = serde_json::from_str(id).unwrap_or_default();
        let Some(relayed) = self.questions.open.remove(&id) else {
            return;
        };
        // A host that can't ask after all leaves it to the person at the screen.
        let Ok(result) = outcome else {
            return;
        };
        let Some(answer) = answer_of(&result) else {
            return;
        };
        let request = SessionRequest::Answer {
            id: relayed.task,
            key: Some(relayed.key),
            answer,
        };
        self.ask(Asked::Note, request);
    }
}
