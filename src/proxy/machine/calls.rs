//! The host's calls: started as tasks, watched, and answered in time.

use core::time::Duration;
use std::sync::Arc;

use serde_json::Value;

use super::{Asked, CALLS, Call, CallList, CallRole, Effect, Members, Proxy};
use crate::{
    domain::{
        Caller, Collected, GaveUpReason, Mono, NewCall, ServerName, SessionRequest, Status, TaskId,
        TaskView, Wall, canonical_arguments, json_number, millis, text,
    },
    proxy::{
        era::REQUEST_STATE,
        host_task::{self, is_over},
        hosts::Cancels,
        message,
        raw::{self, RawMembers},
        ticket::{self, COLLECT, ResultPart, TASKS, failure},
        tool_list::Strictness,
    },
};

/// The longest time without a progress message, for a host that wants progress.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// After how long a call becomes a task for a host of the modern era that can follow it.
const TASK_AFTER: Duration = Duration::from_secs(2);

/// Equal calls that come within this time are meant to run side by side.
const SIDE_BY_SIDE: Duration = Duration::from_secs(1);

/// The same for a host that usually tells when it gives up. No host gives up sooner.
const LEAST_LIMIT: Duration = Duration::from_secs(3);

/// How long the first snapshot of a task may take.
const PUBLISHED_WITHIN: Duration = Duration::from_millis(100);

/// Members of `_meta` in which hosts name their calls.
const CALL_IDS: [&str; 2] = ["claudecode/toolUseId", "callId"];

/// The parameters of a call that longhaul sends itself, or replaces.
const KNOWN_PARAMS: [&str; 6] = [
    "name",
    "arguments",
    "_meta",
    "task",
    "inputResponses",
    REQUEST_STATE,
];

/// The most bytes of a tool's name that are kept.
const NAME_BYTES: usize = text::NAME_BYTES;

impl Call {
    /// A request that waits for a task as long as it takes.
    pub(super) fn new(role: CallRole, tool: &str, now: Mono) -> Self {
        Self {
            role,
            tool: tool.to_owned(),
            began: now,
            sent_at: now,
            ..Self::default()
        }
    }

    /// When the next progress or ticket is due.
    pub(super) fn due(&self) -> Option<Mono> {
        // Without a task there is nothing to hold a ticket for.
        self.task.as_ref()?;
        let heartbeat = self.sent_at.after(HEARTBEAT);
        Some(self.until.map_or(heartbeat, |until| until.min(heartbeat)))
    }
}

impl Proxy {
    /// `text` is that of the parameters.
    pub(super) fn call(&mut self, id: String, params: &Members, text: &str) {
        if self.calls.contains_key(&id) {
            let words = "a request with this id is still open";
            return self.refuse(&id, message::INVALID_REQUEST, words);
        }
        if self.calls.len() >= CALLS {
            let words = "too many calls are open; wait until some have ended";
            return self.refuse(&id, message::SERVER_ERROR, words);
        }
        let name = params.get("name").and_then(Value::as_str);
        let arguments = params.get("arguments").filter(|it| !it.is_null());
        let is_call = name.is_some_and(|name| name.len() <= NAME_BYTES)
            && arguments.is_none_or(Value::is_object);
        let (Some(name), true) = (name.map(str::to_owned), is_call) else {
            // It would run without being a task: not saved, and not to be found again.
            let words =
                "`name` must be a string of at most 1 kB, and `arguments` must be an object";
            return self.refuse(&id, message::INVALID_PARAMS, words);
        };
        let state = params.get(REQUEST_STATE).and_then(Value::as_str);
        if let Some(task) = state.and_then(TaskId::parse) {
            return self.ask_for_task(id, task, "tools/call", text);
        }
        match name.as_str() {
            TASKS => {
                let list = CallList::Tool;
                self.ask(Asked::Calls { id, list }, self.own_calls());
            }
            COLLECT => {
                let task = arguments.and_then(|arguments| arguments.get("id"));
                let Some(task) = task.and_then(Value::as_str) else {
                    let words = "`id` is missing; call longhaul_tasks for a list of ids";
                    return self.respond(&id, &failure(words));
                };
                let Some(task) = TaskId::parse(task.trim()) else {
                    return self.knows_no_call(&id);
                };
                self.ask_for_task(id, task, COLLECT, text);
            }
            _ => {
                let mut call = self.new_wait(&name, text);
                let may_be_silent = self.host.cancels.may_be_silent();
                let arguments = raw::member(text, "arguments").unwrap_or("{}");
                call.arguments =
                    may_be_silent.then(|| canonical_arguments(arguments).unwrap_or_default());
                if let Some(task) = self.given_up_silently(&call) {
                    return self.attach_to_open_call(&id, call, task);
                }
                let new = self.new_call(&id, name, arguments.to_owned(), text);
                self.calls.insert(id.clone(), call);
                let task = new.id.clone();
                self.ask(
                    Asked::Start { id, task },
                    SessionRequest::Start(Box::new(new)),
                );
            }
        }
    }

    /// A request that waits for a task, as long as the host does. `params` is the text of its parameters.
    pub(super) fn new_wait(&self, tool: &str, params: &str) -> Call {
        let wants_task = self.host.has_tasks && !self.host.is_modern;
        let task = raw::member(params, "task").filter(|_| wants_task);
        let wants_task = task.is_some_and(|task| task.starts_with('{'));
        let role = if wants_task {
            CallRole::WantsTask
        } else {
            CallRole::Call
        };
        Call {
            can_follow: self.host.is_modern && self.host.has_tasks,
            progress_token: raw::progress_token(params).map(str::to_owned),
            until: self.call_patience().map(|wait| self.now.mono.after(wait)),
            ..Call::new(role, tool, self.now.mono)
        }
    }

    /// Lets a request wait for a task.
    pub(super) fn wait_for(&mut self, id: &str, mut call: Call, task: TaskId) {
        call.task = Some(task.clone());
        self.calls.insert(id.to_owned(), call);
        let asked = Asked::Collect {
            id: id.to_owned(),
            task: task.clone(),
        };
        self.ask(asked, SessionRequest::Collect(task));
    }

    /// The open call that a host has most likely given up without a cancellation, because it makes the same call again.
    /// Calls that it means to run side by side come at about the same time.
    fn given_up_silently(&self, call: &Call) -> Option<TaskId> {
        let never = &self.options.settings.never_attach;
        let arguments = call.arguments.as_ref();
        let arguments = arguments.filter(|_| !never.contains(&call.tool))?;
        let may_tell = self.host.cancels == Cancels::UnclearOrSilent;
        let at_least = if may_tell { LEAST_LIMIT } else { SIDE_BY_SIDE };
        let is_it = |open: &&Call| {
            open.role == CallRole::Call
                && open.tool == call.tool
                && open.arguments.as_ref() == Some(arguments)
                && call.began.since(open.began) >= at_least
        };
        self.calls.values().find(is_it)?.task.clone()
    }

    /// Waits for the task of an earlier call. Both requests get its result.
    fn attach_to_open_call(&mut self, id: &str, mut call: Call, task: TaskId) {
        let is_it = |open: &&Call| open.task.as_ref() == Some(&task);
        let earlier = self.calls.values().filter(is_it).map(|open| open.began);
        if let Some(began) = earlier.max()
            && self.host.cancels != Cancels::SilentPerson
        {
            // Only for as long as this host runs: it may have meant two calls.
            self.learn_limit(call.began.since(began));
            call.until = self.call_patience().map(|wait| call.began.after(wait));
        }
        let request_id = id.to_owned();
        self.note(task.clone(), Collected::Repeated { request_id });
        self.wait_for(id, call, task);
    }

    fn new_call(
        &mut self,
        request_id: &str,
        tool: String,
        arguments: String,
        params: &str,
    ) -> NewCall {
        let meta = raw::member(params, "_meta").filter(|meta| meta.starts_with('{'));
        let mut call = NewCall::new(
            TaskId::from_bits(self.rng.u64(..)),
            self.options.server.clone(),
            tool,
            arguments,
        );
        // The server checks them, and says what is wrong in its own words.
        call.is_unchecked = true;
        call.limits = self.options.limits;
        let notes = self.asked.values();
        call.has_read = notes
            .filter_map(|asked| match asked {
                Asked::Delivered(task) => Some(task.clone()),
                _ => None,
            })
            .collect();
        let mut others = RawMembers::parse(params).unwrap_or_default();
        others.retain(|key| !KNOWN_PARAMS.contains(&key));
        let settings = &self.options.settings;
        call.never_attaches = settings.never_attach.contains(&call.tool);
        call.caller = Some(Box::new(Caller {
            host: self.host.profile.name.clone(),
            version: self.host.profile.version.clone(),
            directory: self.options.directory.clone(),
            capabilities: self.host.profile.capabilities.clone(),
            request_id: request_id.to_owned(),
            call_id: CALL_IDS.iter().find_map(|key| raw::text(meta?, key)),
            meta: meta.map(str::to_owned),
            other_params: (!others.is_empty()).then(|| others.to_string()),
            gave_up: None,
            timeout_ms: None,
            repeats: 0,
            delivered_at: None,
            keep_ms: millis(settings.keep.unwrap_or(Caller::KEEP)),
        }));
        call
    }

    /// The task of a call is saved: `own`, which the call proposed, or that of an earlier call.
    pub(super) fn started(&mut self, id: &str, own: &TaskId, task: TaskId) {
        // The host may have used the id of its request again since.
        if let Some((reason, waited)) = self.cancels.early.remove(own) {
            return self.started_after_cancel(task, &reason, waited);
        }
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        call.is_repeat = task != *own;
        call.task = Some(task.clone());
        self.open_tasks.insert(task.clone());
        if let Some(view) = self.views.get(&task).cloned() {
            self.task_changed(&view);
        }
    }

    pub(super) fn task_changed(&mut self, view: &Arc<TaskView>) {
        let task = &view.task.id;
        if view.task.status == Status::Cancelled {
            self.open_tasks.remove(task);
        }
        // The host has to know the task before it gets its questions and its status.
        let wants_it = |(_, call): &(&String, &Call)| {
            call.role == CallRole::WantsTask && call.task.as_ref() == Some(task)
        };
        while let Some(id) = self.calls.iter().find(wants_it).map(|(id, _)| id.clone()) {
            self.hand_task(&id, view);
        }
        self.relay_questions(view);
        for (id, _) in self.requests_for(task) {
            self.pass_progress(&id, view);
            self.send_status(&id, view);
            let Some(call) = self.calls.get_mut(&id) else {
                continue;
            };
            if !is_over(view) {
                continue;
            }
            if call.role == CallRole::Task {
                // The host asks for the result.
                self.calls.remove(&id);
                continue;
            }
            if !std::mem::replace(&mut call.is_reading, true) {
                self.effects.push(Effect::ReadResult(task.clone()));
            }
        }
    }

    /// Passes progress on. It must rise.
    fn pass_progress(&mut self, id: &str, view: &TaskView) {
        let sent = self.calls.get(id).and_then(|call| call.sent);
        if let Some(progress) = &view.task.progress
            && sent.is_none_or(|sent| progress.value > sent)
        {
            self.send_progress(id, view, progress.value, progress.message.as_deref());
        }
    }

    /// Sends progress under the host's own token, if it gave one.
    fn send_progress(&mut self, id: &str, view: &TaskView, value: f64, message: Option<&str>) {
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        call.sent_at = self.now.mono;
        let Some(token) = &call.progress_token else {
            return;
        };
        call.sent = Some(value);
        let total = view.task.progress.as_ref().and_then(|it| it.total);
        let meta = (call.role == CallRole::Task).then(|| host_task::related(&view.task.id));
        let members = [
            ("progress", Some(json_number(value))),
            ("total", total.map(json_number)),
            ("message", message.map(Value::from)),
            ("_meta", meta),
        ];
        let mut params = RawMembers::default();
        params.set("progressToken", token);
        for (key, value) in members {
            if let Some(value) = value {
                params.set(key, &value.to_string());
            }
        }
        self.notify("notifications/progress", &params);
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
                // Not published yet.
                call.sent_at = now;
                call.until = call
                    .until
                    .map(|until| until.max(now.after(PUBLISHED_WITHIN)));
                continue;
            };
            let is_late = call.until.is_some_and(|until| now >= until) && !call.is_reading;
            if is_late && is_over(&view) {
                // The session has yet to confirm that the host waits for it.
                self.task_changed(&view);
            } else if is_late {
                self.hand_ticket(&id, &view);
            } else {
                self.heartbeat(&id, &view);
            }
        }
    }

    /// How long a call is held. A host that can follow a task gets one soon.
    fn call_patience(&self) -> Option<Duration> {
        let can_follow = self.host.is_modern && self.host.has_tasks;
        let task = can_follow.then_some(TASK_AFTER);
        self.patience().into_iter().chain(task).min()
    }

    fn hand_ticket(&mut self, id: &str, view: &TaskView) {
        let call = self.calls.get(id);
        if call.is_some_and(|call| call.can_follow) {
            return self.hand_task(id, view);
        }
        let Some(call) = self.calls.remove(id) else {
            return;
        };
        let schema = self.schemas.of(&call.tool);
        let is_structured = schema == Some(Strictness::AllowsTicket);
        let ticket = ticket::ticket(view, is_structured, &self.options.flags, self.now.wall);
        // The host would reject any other result that does not match the tool's schema.
        let is_error = (schema == Some(Strictness::Strict)).then_some(true.into());
        self.respond(id, &message::with(ticket, "isError", is_error));
        self.call_gave_up(&call, GaveUpReason::Ticket);
    }

    /// Progress must rise, so a heartbeat adds a little to the last value.
    fn heartbeat(&mut self, id: &str, view: &TaskView) {
        if self.is_undriven {
            // The keeper was stopped, but a host still waits for this call, so it is needed again.
            let task = view.task.id.clone();
            self.ask(Asked::Note, SessionRequest::Collect(task));
        }
        let sent = self.calls.get(id).and_then(|call| call.sent);
        let value = sent.map_or(0.0, |sent| sent + sent.abs().max(1.0) * 1e-6);
        let message = ticket::heartbeat(view, self.now.wall);
        self.send_progress(id, view, value, Some(&message));
    }

    pub(super) fn own_calls(&self) -> SessionRequest {
        SessionRequest::Calls {
            server: self.options.server.clone(),
            host: self.host.profile.name.clone(),
            directory: self.options.directory.clone(),
        }
    }

    /// The response to an id that [`COLLECT`] can't use.
    fn knows_no_call(&mut self, id: &str) {
        let words = format!(
            "this host has no call with that id on the server {server}. If the id came from another server, call that \
             server's {COLLECT}; {TASKS} lists the calls on {server}.",
            server = self.options.server.entry()
        );
        self.respond(id, &failure(&words));
    }

    /// The response to the id of a call that this host made on another server.
    pub(super) fn collects_elsewhere(&mut self, id: &str, task: &TaskId, server: &ServerName) {
        let server = text::clean_line(server.entry());
        let words = format!(
            "{task} is a call on server {server}; call {COLLECT} on server {server} with this id."
        );
        self.respond(id, &failure(&words));
    }

    /// [`COLLECT`]: waits for a task, if it is one of this host.
    pub(super) fn collect(&mut self, id: &str, view: Option<&TaskView>, params: &str) {
        let Some(view) = view else {
            return self.knows_no_call(id);
        };
        let task = view.task.id.clone();
        let is_delivered = self.delivered.contains(&task);
        let caller = view.task.caller.as_deref().filter(|_| !is_delivered);
        let is_expired =
            |caller: &&Caller| caller.is_expired(view.task.end.settled_at, self.now.wall);
        if let Some(caller) = caller.filter(is_expired) {
            let keep = text::span(Duration::from_millis(caller.keep_ms));
            let words = format!(
                "nobody collected the result of {task} within {keep}; a person can see it with: longhaul show {task}"
            );
            return self.respond(id, &failure(&words));
        }
        let arguments: Option<Members> =
            raw::member(params, "arguments").and_then(|it| serde_json::from_str(it).ok());
        let part = match arguments.as_ref().map(ResultPart::of).transpose() {
            Ok(part) => part.flatten(),
            Err(error) => return self.respond(id, &failure(&error.to_string())),
        };
        let mut call = self.new_wait(COLLECT, params);
        (call.role, call.part) = (CallRole::Call, part);
        self.wait_for(id, call, task);
    }

    /// The result of [`TASKS`].
    pub(super) fn list_uncollected(&mut self, id: &str, calls: &[TaskView]) {
        let open = calls.iter().filter(|view| {
            is_uncollected(view, self.now.wall) && !self.delivered.contains(&view.task.id)
        });
        let list = ticket::list(open, &self.options.server, self.now.wall);
        self.respond(id, &list);
    }
}

/// Whether the host can still collect the result of a task.
fn is_uncollected(view: &TaskView, now: Wall) -> bool {
    let (caller, settled_at) = (view.task.caller.as_ref(), view.task.end.settled_at);
    let is_open =
        |caller: &Caller| caller.delivered_at.is_none() && !caller.is_expired(settled_at, now);
    caller.is_some_and(|caller| is_open(caller)) && view.task.status != Status::Cancelled
}
