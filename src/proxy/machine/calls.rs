//! The host's calls: started as tasks, watched, and answered in time.

use core::time::Duration;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Asked, CALLS, Call, Effect, Proxy};
use crate::{
    domain::{Caller, GaveUpReason, Mono, NewCall, SessionRequest, Status, TaskId, TaskView, text},
    proxy::{
        message,
        ticket::{self, COLLECT, TASKS},
        tool_list::Strictness,
    },
};

/// How long a host hears nothing of a call at most, if it wants progress.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Members of `_meta` in which hosts name their calls.
const CALL_IDS: [&str; 2] = ["claudecode/toolUseId", "callId"];

/// The most bytes of a tool's name that are kept.
const NAME_BYTES: usize = text::NAME_BYTES;

impl Call {
    /// When something has to be told to the host.
    pub(super) fn due(&self) -> Option<Mono> {
        let heartbeat = self.progress_token.is_some() && self.task.is_some();
        let heartbeat = heartbeat.then(|| self.told_at.after(HEARTBEAT));
        // Without a task there is nothing to hold a ticket for.
        let ticket = self.until.filter(|_| self.task.is_some());
        ticket.into_iter().chain(heartbeat).min()
    }
}

impl Proxy {
    pub(super) fn call(&mut self, id: String, params: &Map<String, Value>) {
        if self.calls.contains_key(&id) {
            let words = "a request with this id is still open";
            return self.refuse(&id, message::INVALID_REQUEST, words);
        }
        if self.calls.len() >= CALLS {
            let words = "too many calls are open; wait for some of them";
            return self.refuse(&id, message::SERVER_ERROR, words);
        }
        let name = params.get("name").and_then(Value::as_str);
        let Some(name) = name.filter(|name| name.len() <= NAME_BYTES) else {
            return self.refuse(&id, message::INVALID_PARAMS, "the call names no tool");
        };
        let name = name.to_owned();
        let arguments = match params.get("arguments") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(arguments)) => arguments.clone(),
            Some(_) => {
                let words = "the arguments are not an object";
                return self.refuse(&id, message::INVALID_PARAMS, words);
            }
        };
        let meta = params.get("_meta").and_then(Value::as_object);
        let mut call = Call {
            task: None,
            tool: name.clone(),
            progress_token: meta.and_then(|meta| meta.get("progressToken").cloned()),
            began: self.now.mono,
            until: self
                .patience()
                .map(|patience| self.now.mono.after(patience)),
            told: None,
            told_at: self.now.mono,
            is_reading: false,
        };
        match name.as_str() {
            TASKS => {
                let now = self.now.wall;
                let open = self
                    .views
                    .values()
                    .filter(|view| is_uncollected(view) && !self.delivered.contains(&view.task.id));
                let list = ticket::list(open.map(Arc::as_ref), now);
                self.respond(&id, &list);
            }
            COLLECT => {
                let task = arguments.get("id").and_then(Value::as_str);
                let task = task.and_then(|it| TaskId::parse(it.trim()));
                let is_ours =
                    |task: &TaskId| self.views.get(task).is_some_and(|view| self.is_ours(view));
                let known = task.filter(is_ours);
                let Some(task) = known else {
                    let words = "no call of this host has that id; longhaul_tasks lists them";
                    return self.respond(&id, &failure(words));
                };
                call.task = Some(task.clone());
                self.calls.insert(id.clone(), call);
                self.ask(Asked::Collect { id }, SessionRequest::Collect(task));
            }
            _ if self.continues_round(&id, &call, params) => {}
            _ => {
                let new = self.new_call(&id, name, arguments, meta);
                self.calls.insert(id.clone(), call);
                self.ask(Asked::Start { id }, SessionRequest::Start(Box::new(new)));
            }
        }
    }

    fn new_call(
        &mut self,
        request_id: &str,
        tool: String,
        arguments: Map<String, Value>,
        meta: Option<&Map<String, Value>>,
    ) -> NewCall {
        let call_id = CALL_IDS.iter().find_map(|key| meta?.get(*key)?.as_str());
        let mut call = NewCall::new(
            TaskId::from_bits(self.rng.u64(..)),
            self.options.server.clone(),
            tool,
            Value::Object(arguments).to_string(),
        );
        // The server checks them, and says what is wrong in its own words.
        call.is_unchecked = true;
        call.caller = Some(Box::new(Caller {
            host: self.host.name.clone(),
            version: self.host.version.clone(),
            directory: self.options.directory.clone(),
            request_id: request_id.to_owned(),
            call_id: call_id.map(str::to_owned),
            meta: meta.map(|meta| Value::Object(meta.clone()).to_string()),
            gave_up: None,
            timeout_ms: None,
            repeats: 0,
            delivered_at: None,
        }));
        call
    }

    /// The task of a call is saved.
    pub(super) fn started(&mut self, id: &str, task: TaskId) {
        let Some(call) = self.calls.get_mut(id) else {
            // Cancelled in between.
            return self.started_in_vain(id, task);
        };
        call.task = Some(task.clone());
        if let Some(view) = self.views.get(&task).cloned() {
            self.task_changed(&view);
        }
    }

    pub(super) fn task_changed(&mut self, view: &Arc<TaskView>) {
        let task = &view.task.id;
        self.relay_questions(view);
        let ids: Vec<String> = self
            .calls
            .iter()
            .filter(|(_, call)| call.task.as_ref() == Some(task))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            self.tell_progress(&id, view);
            let is_over =
                view.task.status.is_settled() || matches!(view.task.status, Status::Unknown(_));
            let Some(call) = self.calls.get_mut(&id).filter(|_| is_over) else {
                continue;
            };
            if !std::mem::replace(&mut call.is_reading, true) {
                self.effects.push(Effect::ReadResult(task.clone()));
            }
        }
    }

    /// Passes progress on under the host's own token.
    fn tell_progress(&mut self, id: &str, view: &TaskView) {
        let Some(progress) = &view.task.progress else {
            return;
        };
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        let Some(token) = &call.progress_token else {
            return;
        };
        if call.told.is_some_and(|told| progress.value <= told) {
            return;
        }
        let mut params = json!({"progressToken": token, "progress": number(progress.value)});
        if let Some(params) = params.as_object_mut() {
            if let Some(total) = progress.total {
                params.insert("total".to_owned(), number(total));
            }
            if let Some(message) = &progress.message {
                params.insert("message".to_owned(), message.as_str().into());
            }
        }
        (call.told, call.told_at) = (Some(progress.value), self.now.mono);
        self.effects.push(Effect::ToHost(message::notification(
            "notifications/progress",
            &params,
        )));
    }

    /// Hands out tickets and heartbeats that are due.
    pub(super) fn tend_calls(&mut self) {
        let now = self.now.mono;
        let is_due = |call: &Call| call.due().is_some_and(|due| now >= due);
        let due = self.calls.iter().filter(|(_, call)| is_due(call));
        let due: Vec<String> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            let Some(call) = self.calls.get_mut(&id) else {
                continue;
            };
            let view = call.task.as_ref().and_then(|task| self.views.get(task));
            let Some(view) = view.cloned() else {
                // Not published yet; it is a matter of milliseconds.
                call.told_at = now;
                continue;
            };
            if call.until.is_some_and(|until| now >= until) && !call.is_reading {
                self.hand_ticket(&id, &view);
            } else {
                self.heartbeat(&id, &view);
            }
        }
    }

    fn hand_ticket(&mut self, id: &str, view: &TaskView) {
        let Some(call) = self.calls.remove(id) else {
            return;
        };
        let schema = self.schemas.of(&call.tool);
        let is_structured = schema == Some(Strictness::AllowsTicket);
        let mut ticket = ticket::ticket(view, is_structured, self.now.wall);
        if schema == Some(Strictness::Strict)
            && let Some(members) = ticket.as_object_mut()
        {
            // The host would reject any other result that does not match the tool's schema.
            members.insert("isError".to_owned(), true.into());
        }
        self.respond(id, &ticket);
        self.gave_up(&call, GaveUpReason::Ticket);
    }

    /// Progress must rise, so a heartbeat adds a little to what was told.
    fn heartbeat(&mut self, id: &str, view: &TaskView) {
        let now = self.now;
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        call.told_at = now.mono;
        let Some(token) = &call.progress_token else {
            return;
        };
        let told = call
            .told
            .map_or(0.0, |told| told + told.abs().max(1.0) * 1e-6);
        call.told = Some(told);
        let mut params = json!({
            "progressToken": token,
            "progress": number(told),
            "message": ticket::heartbeat(view, now.wall),
        });
        let total = view.task.progress.as_ref().and_then(|it| it.total);
        if let (Some(total), Some(params)) = (total, params.as_object_mut()) {
            params.insert("total".to_owned(), number(total));
        }
        self.effects.push(Effect::ToHost(message::notification(
            "notifications/progress",
            &params,
        )));
    }
}

/// Whether the host can still collect the result of a task.
fn is_uncollected(view: &TaskView) -> bool {
    let caller = view.task.caller.as_ref();
    caller.is_some_and(|caller| caller.delivered_at.is_none())
}

/// A result that says that something failed.
pub(super) fn failure(words: &str) -> Value {
    json!({"content": [{"type": "text", "text": words}], "isError": true})
}

/// A number as servers write it: whole ones without a fraction.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within 2^53")]
        return Value::from(value as i64);
    }
    Value::from(value)
}
