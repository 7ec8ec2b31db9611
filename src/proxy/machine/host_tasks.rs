//! Calls that a host follows as tasks, instead of waiting for a result or a ticket.
//!
//! Sources: MCP 2025-11-25, basic/utilities/tasks; the tasks extension of 2026-07-28.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{Asked, Call, CallList, CallRole, Members, Proxy};
use crate::{
    domain::{SessionRequest, TaskId, TaskView},
    proxy::{
        host_task::{self, EXTENSION, PAGE, is_over},
        message,
        raw::{self, RawMembers},
        ticket::{COLLECT, failure},
    },
};

/// The code of 2026-07-28 for a request that needs a capability which the host has not declared.
const MISSING_CAPABILITY: i64 = -32021;

const UNKNOWN_TASK: &str = "unknown task";

impl Proxy {
    /// A request for tasks. Returns false if the host is offered none.
    pub(super) fn task_requested(&mut self, id: &str, method: &str, params: &str) -> bool {
        if self.host.is_modern && !self.host.has_tasks {
            let extensions = json!({"extensions": {EXTENSION: {}}});
            let data = json!({"requiredCapabilities": extensions}).to_string();
            let words = "the request does not declare the tasks extension";
            self.send(message::error(id, MISSING_CAPABILITY, words, Some(&data)));
            return true;
        }
        if !self.host.has_tasks {
            return false;
        }
        let id = id.to_owned();
        match (method, self.host.is_modern) {
            ("tasks/list", false) => {
                let after = raw::text(params, "cursor");
                let after = after.and_then(|cursor| TaskId::parse(&cursor));
                if raw::member(params, "cursor").is_some() && after.is_none() {
                    self.refuse(&id, message::INVALID_PARAMS, "unknown cursor");
                    return true;
                }
                let list = CallList::Tasks(after);
                self.ask(Asked::Calls { id, list }, self.own_calls());
            }
            ("tasks/get" | "tasks/cancel", _)
            | ("tasks/result", false)
            | ("tasks/update", true) => {
                let task = raw::text(params, "taskId");
                let Some(task) = task.and_then(|task| TaskId::parse(&task)) else {
                    self.refuse(&id, message::INVALID_PARAMS, UNKNOWN_TASK);
                    return true;
                };
                self.ask_for_task(id, task, method, params);
            }
            _ => return false,
        }
        true
    }

    /// Asks for the snapshot of the task that a request is about.
    pub(super) fn ask_for_task(&mut self, id: String, task: TaskId, method: &str, params: &str) {
        let asked = Asked::Task {
            id,
            task: task.clone(),
            method: method.to_owned(),
            params: params.to_owned(),
            other_server: None,
        };
        self.ask(asked, SessionRequest::Follow(task));
    }

    /// The task of a request is known, if it is one of this host.
    pub(super) fn task_asked_for(
        &mut self,
        id: &str,
        view: Option<&TaskView>,
        method: &str,
        params: &str,
    ) {
        match method {
            "tools/call" => return self.round_continues(id, view, params),
            COLLECT => return self.collect(id, view, params),
            _ => {}
        }
        let Some(view) = view else {
            return self.refuse(id, message::INVALID_PARAMS, UNKNOWN_TASK);
        };
        match method {
            "tasks/get" => self.get_task(id, view),
            "tasks/cancel" => self.cancel_task(id, view),
            "tasks/result" => self.wait_for_task(id, view, CallRole::TaskResult),
            _ => self.update_task(id, view, params),
        }
    }

    pub(super) fn list_tasks(&mut self, id: &str, calls: &[TaskView], after: Option<&TaskId>) {
        let mut calls: Vec<&TaskView> = calls.iter().collect();
        calls.sort_by_key(|view| &view.task.id);
        let is_next = |view: &&TaskView| after.is_none_or(|after| view.task.id > *after);
        let mut calls = calls.into_iter().filter(is_next);
        let page: Vec<&TaskView> = calls.by_ref().take(PAGE).collect();
        let last = page.last().map(|view| view.task.id.as_str());
        let next = last.filter(|_| calls.next().is_some());
        let tasks: Vec<_> = page.iter().map(|view| self.host_task(view)).collect();
        let result = message::with(json!({"tasks": tasks}), "nextCursor", next.map(Value::from));
        self.respond(id, &result);
    }

    fn get_task(&mut self, id: &str, view: &TaskView) {
        let is_cancelled = self.cancelled.contains(&view.task.id);
        if self.host.is_modern && is_over(view) && !is_cancelled {
            return self.wait_for_task(id, view, CallRole::TaskGet);
        }
        let task = Value::Object(self.host_task(view)).to_string();
        let mut task = RawMembers::parse(&task).unwrap_or_default();
        if self.host.is_modern && !is_cancelled {
            let requests = self.input_requests(view);
            if requests.is_empty() {
                // Only a person at the screen can answer what it asks.
                task.set("status", r#""working""#);
            } else {
                task.set("status", r#""input_required""#);
                task.set("inputRequests", &requests.to_string());
            }
        }
        self.respond_to(id, "", &task.to_string());
    }

    /// Reads the result of a task once there is one, for a request that waits for it.
    fn wait_for_task(&mut self, id: &str, view: &TaskView, role: CallRole) {
        let task = view.task.id.clone();
        if role == CallRole::TaskResult && self.cancelled.contains(&task) {
            return self.respond_cancelled(id, &task);
        }
        let call = Call::new(role, &view.task.tool, self.now.mono);
        self.wait_for(id, call, task);
    }

    fn cancel_task(&mut self, id: &str, view: &TaskView) {
        let task = &view.task.id;
        if is_over(view) || self.cancelled.contains(task) {
            if self.host.is_modern {
                return self.respond(id, &json!({}));
            }
            let words = "the task has already ended";
            return self.refuse(id, message::INVALID_PARAMS, words);
        }
        // Its server may need a while, but the host must not see it work any more.
        self.cancelled.insert(task.clone());
        self.cancel(task.clone());
        let waiting = self.requests_for(task).into_iter();
        for (id, _) in waiting.filter(|(_, role)| *role == CallRole::TaskResult) {
            self.calls.remove(&id);
            self.respond_cancelled(&id, task);
        }
        let result = if self.host.is_modern {
            json!({})
        } else {
            Value::Object(self.host_task(view))
        };
        self.respond(id, &result);
    }

    /// The response to `tasks/result` for a task that the host has cancelled.
    fn respond_cancelled(&mut self, id: &str, task: &TaskId) {
        let mut result = failure(&format!("{task} was cancelled"));
        host_task::relate(&mut result, task);
        self.respond(id, &result);
    }

    fn update_task(&mut self, id: &str, view: &TaskView, params: &str) {
        self.answer_from_host(view, params);
        self.respond(id, &json!({}));
    }

    /// Answers a call with a task, which the host follows from then on.
    pub(super) fn hand_task(&mut self, id: &str, view: &TaskView) {
        let Some(mut call) = self.calls.remove(id) else {
            return;
        };
        let mut task = self.host_task(view);
        // Every task begins like this.
        task.insert("status".to_owned(), "working".into());
        let result = if call.can_follow {
            task.insert("resultType".to_owned(), "task".into());
            // The extension has no progress.
            call.progress_token = None;
            Value::Object(task)
        } else {
            json!({"task": task})
        };
        self.respond(id, &result);
        (call.role, call.until) = (CallRole::Task, None);
        call.sent_status = Some("working");
        if !is_over(view) {
            // The host may use the id of its request again.
            self.calls.insert(format!("task {}", view.task.id), call);
        }
    }

    /// Notifies a host of 2025-11-25 of the status of a task that it follows.
    pub(super) fn send_status(&mut self, id: &str, view: &TaskView) {
        let status = host_task::status(view, self.cancelled.contains(&view.task.id));
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        let is_news = call.role == CallRole::Task && call.sent_status != Some(status);
        if is_news && !self.host.is_modern {
            call.sent_status = Some(status);
            let params = Value::Object(self.host_task(view));
            self.notify("notifications/tasks/status", &params);
        }
    }

    fn host_task(&self, view: &TaskView) -> Members {
        let status = host_task::status(view, self.cancelled.contains(&view.task.id));
        host_task::object(view, status, self.host.is_modern, self.now.wall)
    }

    /// The response to `tasks/get` of the modern era for a task that has ended, with its result or its error.
    pub(super) fn ended_task(&self, view: &TaskView, outcome: Result<&str, &Value>) -> String {
        let (status, key, value) = match outcome {
            // That its tool failed is in the result.
            Ok(result) => ("completed", "result", Cow::Borrowed(result)),
            Err(_) if host_task::status(view, false) == "cancelled" => {
                return Value::Object(self.host_task(view)).to_string();
            }
            Err(error) => ("failed", "error", error.to_string().into()),
        };
        let mut task = host_task::object(view, status, true, self.now.wall);
        // The result may have a type of its own.
        task.insert("resultType".to_owned(), "complete".into());
        let mut task = RawMembers::parse(&Value::Object(task).to_string()).unwrap_or_default();
        task.set(key, &value);
        task.to_string()
    }
}
