//! Questions of the server: elicitations, which the host and longhaul's screen show, so that the first answer counts;
//! sampling and roots, which only the host can answer.

use core::time::Duration;

use serde_json::json;

use super::{Asked, CallRole, Proxy};
use crate::{
    domain::{Answer, Forwarded, Question, QuestionKind, SessionRequest, TaskId, TaskView},
    proxy::{
        era, host_task,
        message::internal_error,
        questions::Relayed,
        raw::{self, RawMembers},
    },
};

/// How long a host may take to say which directories it works in.
const ROOTS_WITHIN: Duration = Duration::from_secs(10);

impl Proxy {
    /// Asks the host what is new, and takes back what was answered elsewhere.
    pub(super) fn relay_questions(&mut self, view: &TaskView) {
        self.withdraw_answered(view);
        // Some servers give up on a question and end their call.
        let is_asking = !view.task.status.is_settled() && !view.task.questions.is_empty();
        if !is_asking || !self.follows(&view.task.id) {
            return;
        }
        if self.host.is_modern {
            return self.ask_in_round(view);
        }
        for question in view.task.questions.iter().filter(|it| it.is_open()) {
            self.relay(view, question);
        }
    }

    /// Whether the host waits for a task, or has not got the result of a call that it made.
    fn follows(&self, task: &TaskId) -> bool {
        let mut calls = self.calls.values();
        calls.any(|call| call.task.as_ref() == Some(task)) || self.open_tasks.contains(task)
    }

    /// Whether a question can only be about the calls of this host. Another one is for the screen.
    pub(super) fn is_own(&self, question: &Question) -> bool {
        let process = question.only_for.as_ref();
        process.is_none_or(|process| *process == self.process())
            && question.shared_with.iter().all(|task| self.follows(task))
    }

    fn withdraw_answered(&mut self, view: &TaskView) {
        let is_over = view.task.status.is_settled();
        let is_answered = |relayed: &Relayed| {
            let Relayed::Question {
                task,
                key,
                asked_at,
                ..
            } = relayed
            else {
                return false;
            };
            let questions = view.task.questions.iter();
            let mut open = questions.filter(|it| !is_over && it.is_open());
            *task == view.task.id
                && !open.any(|question| question.has_key(key) && question.asked_at == *asked_at)
        };
        let reason = if is_over {
            "the call has ended"
        } else {
            "answered in longhaul, or withdrawn by the server"
        };
        self.withdraw(reason, is_answered);
    }

    /// Tells the host that some questions no longer need an answer.
    pub(super) fn withdraw(&mut self, reason: &str, is_it: impl Fn(&Relayed) -> bool) {
        let withdrawn = self.questions.open.iter();
        let withdrawn = withdrawn.filter(|(_, relayed)| is_it(relayed));
        let withdrawn: Vec<String> = withdrawn.map(|(id, _)| id.clone()).collect();
        for id in withdrawn {
            self.questions.open.remove(&id);
            let params = json!({"requestId": id, "reason": reason});
            self.notify("notifications/cancelled", &params);
        }
    }

    /// The parameters of a question for the host, if it can answer such questions.
    pub(super) fn shown(&self, kind: QuestionKind, request: &str) -> Option<RawMembers> {
        if !self.host.profile.capabilities.can_answer(kind) {
            return None;
        }
        if kind.is_elicitation() {
            let is_page = raw::text(request, "mode").as_deref() == Some("url");
            let modes = self.host.profile.capabilities.0.get("elicitation");
            let has = |mode| modes.is_some_and(|modes| modes.get(mode).is_some());
            // Before there were modes, there were only forms (2025-06-18).
            let can_show = has(if is_page { "url" } else { "form" }) || !is_page && !has("url");
            if !can_show {
                return None;
            }
        }
        let request = if matches!(request, "" | "null") {
            "{}"
        } else {
            request
        };
        let mut params = RawMembers::parse(request)?;
        if let Some(mut meta) = params.get("_meta").and_then(RawMembers::parse) {
            // These belong to longhaul's own connection.
            meta.retain(|key| key != "progressToken" && !key.starts_with(era::PROTOCOL_META));
            if meta.is_empty() {
                params.remove("_meta");
            } else {
                params.set("_meta", &meta.to_string());
            }
        }
        Some(params)
    }

    fn relay(&mut self, view: &TaskView, question: &Question) {
        let task = &view.task.id;
        if self.questions.is_known(task, question) {
            return;
        }
        if !self.is_own(question) {
            return self.decline_for_others(task, question);
        }
        let Some(params) = self.shown(question.kind, &question.request) else {
            return;
        };
        let mut params = params.to_string();
        let is_task = |role| matches!(role, CallRole::Task | CallRole::TaskResult);
        let mut calls = self.calls.values();
        if calls.any(|call| call.task.as_ref() == Some(task) && is_task(call.role)) {
            params = host_task::related_to(&params, task);
        }
        self.questions.know(task, question);
        let relayed = Relayed::Question {
            task: task.clone(),
            key: question.key.clone(),
            kind: question.kind,
            asked_at: question.asked_at,
        };
        self.ask_host(relayed, question.kind.method(), &params);
    }

    /// A question that may be about the call of another process is for the screen, or for nobody if only a host can
    /// answer it.
    fn decline_for_others(&mut self, task: &TaskId, question: &Question) {
        if !question.kind.is_elicitation() {
            self.questions.know(task, question);
            let (id, key) = (task.clone(), Some(question.key.clone()));
            let answer = Answer::Decline;
            self.ask(Asked::Note, SessionRequest::Answer { id, key, answer });
        }
    }

    /// Asks the host for the directories that it works in, if a server wants to know them.
    pub(super) fn ask_for_roots(&mut self) {
        if !self.host.is_initialized {
            return;
        }
        for number in std::mem::take(&mut self.questions.roots_wanted) {
            let until = self.now.mono.after(ROOTS_WITHIN);
            let relayed = Relayed::Roots { number, until };
            self.ask_host(relayed, QuestionKind::Roots.method(), &"{}");
        }
    }

    /// Answers for a host that doesn't, because the server waits for the roots of all hosts.
    pub(super) fn tend_roots(&mut self) {
        let due = self.questions.roots_due();
        let due = due.filter(|(.., until)| *until <= self.now.mono);
        let due: Vec<(String, u64)> = due.map(|(id, number, _)| (id.clone(), number)).collect();
        for (id, number) in due {
            self.questions.open.remove(&id);
            let error = internal_error("the host did not answer").to_string();
            self.give_roots(number, Forwarded::Error(error));
        }
    }

    fn give_roots(&mut self, number: u64, outcome: Forwarded) {
        let roots = match outcome {
            Forwarded::Result(result) => {
                let roots = raw::member(&result, "roots").filter(|roots| roots.starts_with('['));
                Forwarded::Result(roots.unwrap_or("[]").to_owned())
            }
            Forwarded::Error(error) => Forwarded::Error(error),
        };
        let request = SessionRequest::Roots {
            server: self.options.server.clone(),
            number,
            roots,
        };
        self.ask(Asked::Note, request);
    }

    /// The host has answered; `id` is JSON text.
    pub(super) fn question_answered(&mut self, id: &str, outcome: Forwarded) {
        let id: String = serde_json::from_str(id).unwrap_or_default();
        match self.questions.open.remove(&id) {
            Some(Relayed::Question {
                task, key, kind, ..
            }) => {
                if let Some(answer) = answer_of(kind, outcome) {
                    self.answer(task, key, answer);
                }
            }
            Some(Relayed::Round { number, key }) => self.round_answered(number, &key, &outcome),
            Some(Relayed::Roots { number, .. }) => self.give_roots(number, outcome),
            Some(Relayed::OfForward { id, .. }) => self.respond_to_server(id, outcome),
            None => {}
        }
    }

    fn answer(&mut self, id: TaskId, key: String, answer: Answer) {
        let key = Some(key);
        self.ask(Asked::Note, SessionRequest::Answer { id, key, answer });
    }

    /// The questions of a task as a modern host gets them: in a round, or with the task.
    pub(super) fn input_requests(&self, view: &TaskView) -> RawMembers {
        let mut requests = RawMembers::default();
        let questions = view.task.questions.iter();
        for question in questions.filter(|it| it.is_open() && self.is_own(it)) {
            if let Some(params) = self.shown(question.kind, &question.request) {
                let method = question.kind.method();
                let request = format!(r#"{{"method":"{method}","params":{params}}}"#);
                requests.set(&question.key, &request);
            }
        }
        requests
    }

    /// Answers questions with what a modern host sent for them, by their keys. `params` is the text of its parameters.
    pub(super) fn answer_from_host(&mut self, view: &TaskView, params: &str) {
        for (key, response) in raw::members(raw::member(params, "inputResponses")) {
            let questions = view.task.questions.iter();
            let mut open = questions.filter(|it| it.is_open() && self.is_own(it));
            let Some(question) = open.find(|question| question.has_key(&key)) else {
                continue;
            };
            let response = Forwarded::Result(response.get().to_owned());
            if let Some(answer) = answer_of(question.kind, response) {
                self.questions.know(&view.task.id, question);
                self.answer(view.task.id.clone(), key, answer);
            }
        }
    }
}

/// The answer of a host. `None` leaves an elicitation to the person at the screen.
fn answer_of(kind: QuestionKind, outcome: Forwarded) -> Option<Answer> {
    match (kind, outcome) {
        (QuestionKind::Elicitation, Forwarded::Result(result)) => {
            match raw::text(&result, "action")?.as_str() {
                "accept" => Some(Answer::Accept {
                    content: raw::member(&result, "content").map(str::to_owned),
                }),
                "decline" => Some(Answer::Decline),
                "cancel" => Some(Answer::Dismiss),
                _ => None,
            }
        }
        (QuestionKind::Elicitation, Forwarded::Error(_)) => None,
        (_, Forwarded::Result(json)) if json.starts_with('{') => Some(Answer::Result { json }),
        (_, Forwarded::Result(_)) => Some(Answer::Error {
            json: internal_error("not an object").to_string(),
        }),
        (_, Forwarded::Error(json)) => Some(Answer::Error { json }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{Mono, ProxySettings, ServerName, SessionEvent, Stamp},
        proxy::{Effect, ProxyInput, ProxyOptions},
    };

    #[test]
    fn a_silent_host_does_not_keep_roots_from_the_server() {
        let server = ServerName::new("lab");
        let options = ProxyOptions {
            server: server.clone(),
            directory: String::new(),
            flags: String::new(),
            limits: crate::domain::Limits::default(),
            settings: ProxySettings::default(),
            tool_timeout: None,
            seed: 1,
        };
        let mut now = Stamp::default();
        let mut proxy = Proxy::new(options, now);
        proxy.host.is_initialized = true;
        let wanted = SessionEvent::RootsWanted { server, number: 7 };
        let asked = proxy.handle(now, ProxyInput::Session(wanted));
        assert!(matches!(&asked[..], [Effect::ToHost(line)] if line.contains("roots/list")));
        let due = Mono::default().after(ROOTS_WITHIN);
        assert_eq!(proxy.next_wake(), Some(due));
        now.mono = due;
        let given = proxy.handle(now, ProxyInput::Timer);
        let is_error = |request: &SessionRequest| {
            matches!(
                request,
                SessionRequest::Roots {
                    number: 7,
                    roots: Forwarded::Error(_),
                    ..
                }
            )
        };
        assert!(matches!(&given[..], [Effect::Ask(_, request)] if is_error(request)));
        assert_eq!(proxy.next_wake(), None);
    }
}
