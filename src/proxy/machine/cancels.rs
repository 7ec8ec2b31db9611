//! What the host cancels: after a timeout the call continues, for the host will ask again.

use core::time::Duration;

use serde_json::Value;

use super::{Asked, Call, CallRole, Members, Proxy};
use crate::{
    domain::{Collected, GaveUpReason, OnCancel, SessionRequest, TaskId, millis, text},
    proxy::{
        cancel::{Meaning, Written, meaning},
        hosts,
        message::HostMessage,
    },
};

/// How long a call continues after a cancel that may mean a timeout. A host that gave up for that asks again.
const REPEATED_WITHIN: Duration = Duration::from_secs(30);

/// The most bytes of a reason that are kept.
const REASON_BYTES: usize = 400;

impl Proxy {
    pub(super) fn request_cancelled(&mut self, request: Option<&str>, params: &Members) {
        let Some(id) = request.map(str::to_owned) else {
            return;
        };
        let reason = cancel_reason(params);
        // Cancelling `tasks/result` only ends the wait.
        let is_call = |call: &Call| call.role == CallRole::Call || call.role == CallRole::WantsTask;
        let Some(call) = self.calls.remove(&id).filter(is_call) else {
            self.subscriptions.remove(&id);
            self.cancel_rounds(&id);
            let is_it = |asked: &Asked| match asked {
                Asked::Task { id: of, .. } | Asked::Calls { id: of, .. } => *of == id,
                _ => false,
            };
            self.asked.retain(|_, asked| !is_it(asked));
            for asked in self.asked.values_mut() {
                // The server's introduction is still needed.
                if matches!(asked, Asked::Introduce(Some((of, _))) if *of == id) {
                    *asked = Asked::Introduce(None);
                }
            }
            return self.cancel_forward(&id, &reason);
        };
        let waited = self.now.mono.since(call.began);
        if let Some(task) = call.task.clone() {
            self.gave_up(&task, waited, GaveUpReason::Cancelled(reason.clone()));
            return self.call_cancelled(task, &reason, waited);
        }
        let early = &self.cancels.early;
        let starting = self.asked.values().find_map(|asked| match asked {
            // The host may have used the id before, for a call that it cancelled.
            Asked::Start { id: of, task } if *of == id && !early.contains_key(task) => Some(task),
            _ => None,
        });
        let Some(task) = starting.cloned() else {
            return;
        };
        if self.continues_after(&reason) {
            // The host may repeat the call before this one is known to have started. The session knows which task it got.
            self.gave_up(&task, waited, GaveUpReason::Cancelled(reason.clone()));
        }
        self.cancels.early.insert(task, (reason, waited));
    }

    /// A cancel of a request whose result was just written: the host gave up before it had read the result.
    pub(super) fn result_cancelled(&mut self, message: &HostMessage, written: &mut Vec<Written>) {
        let HostMessage::Notification {
            method,
            params,
            request,
            ..
        } = message
        else {
            return;
        };
        let position = (written.iter()).position(|it| request.as_ref() == Some(&it.request));
        let Some(position) = position.filter(|_| method == "notifications/cancelled") else {
            return;
        };
        let Written { task, began, .. } = written.remove(position);
        let reason = cancel_reason(params);
        let waited = self.now.mono.since(began);
        if meaning(&reason, self.host.cancels) == Meaning::Timeout {
            self.timed_out(task.clone(), waited);
        }
        self.gave_up(&task, waited, GaveUpReason::Cancelled(reason));
    }

    pub(super) fn call_gave_up(&mut self, call: &Call, why: GaveUpReason) {
        if let Some(task) = &call.task {
            self.gave_up(task, self.now.mono.since(call.began), why);
        }
    }

    pub(super) fn gave_up(&mut self, task: &TaskId, waited: Duration, why: GaveUpReason) {
        let after_ms = millis(waited);
        self.note(task.clone(), Collected::GaveUp { after_ms, why });
    }

    /// The task of a call that was cancelled before it was saved.
    pub(super) fn started_after_cancel(&mut self, task: TaskId, reason: &str, waited: Duration) {
        if !self.continues_after(reason) {
            self.gave_up(&task, waited, GaveUpReason::Cancelled(reason.to_owned()));
        }
        self.call_cancelled(task, reason, waited);
    }

    /// Whether a call that the host cancels for this reason may continue, so that the host can repeat it.
    fn continues_after(&self, reason: &str) -> bool {
        match self.options.settings.on_cancel.unwrap_or_default() {
            OnCancel::Continue => true,
            OnCancel::Stop => false,
            OnCancel::TimeoutContinues => meaning(reason, self.host.cancels) != Meaning::Person,
        }
    }

    fn call_cancelled(&mut self, task: TaskId, reason: &str, waited: Duration) {
        let meaning = meaning(reason, self.host.cancels);
        if meaning == Meaning::Timeout {
            self.timed_out(task.clone(), waited);
        }
        // Another call of the host may wait for the same task.
        if (self.calls.values()).any(|call| call.task.as_ref() == Some(&task)) {
            return;
        }
        match (self.options.settings.on_cancel.unwrap_or_default(), meaning) {
            (OnCancel::Continue, _) | (OnCancel::TimeoutContinues, Meaning::Timeout) => {}
            (OnCancel::Stop, _) | (OnCancel::TimeoutContinues, Meaning::Person) => {
                self.cancel(task);
            }
            (OnCancel::TimeoutContinues, Meaning::Unclear) => {
                let at = self.now.mono.after(REPEATED_WITHIN);
                self.cancels.due.insert(task, (at, waited));
            }
        }
    }

    /// The host gave up because of its own limit: the next calls get their tickets before that.
    pub(super) fn timed_out(&mut self, task: TaskId, waited: Duration) {
        let after_ms = millis(waited);
        self.note(task, Collected::TimedOut { after_ms });
        self.learn_limit(waited);
    }

    /// Cancels what the host has not asked for again.
    pub(super) fn tend_cancels(&mut self) {
        let calls = &self.calls;
        let is_waited_for =
            |task: &TaskId| calls.values().any(|call| call.task.as_ref() == Some(task));
        let repeated = self.cancels.due.iter();
        let repeated = repeated.filter(|(task, _)| is_waited_for(task));
        let repeated: Vec<(TaskId, Duration)> = repeated
            .map(|(task, (_, waited))| (task.clone(), *waited))
            .collect();
        for (task, waited) in repeated {
            self.cancels.due.remove(&task);
            if self.cancels.shows_limit(waited) {
                self.timed_out(task.clone(), waited);
            }
            // In any case, the host must not wait for this call as long as before.
            let before = hosts::patience_before(waited).max(hosts::LEAST);
            let patience = self.patience().map(|patience| patience.min(before));
            let calls = self.calls.values_mut();
            let is_it =
                |call: &&mut Call| call.role == CallRole::Call && call.task.as_ref() == Some(&task);
            for call in calls.filter(is_it) {
                call.until = patience.map(|patience| call.began.after(patience));
            }
        }
        let due = self.cancels.due.iter();
        let due = due.filter(|(_, (at, _))| self.now.mono >= *at);
        let due: Vec<TaskId> = due.map(|(task, _)| task.clone()).collect();
        for task in due {
            self.cancels.due.remove(&task);
            self.cancel(task);
        }
    }

    /// Cancels a task, once: a second cancel ends the process of a server, which other hosts use too. If another session
    /// waits for the task, the cancel only ends the wait of this one.
    pub(super) fn cancel(&mut self, task: TaskId) {
        self.open_tasks.remove(&task);
        let view = self.views.get(&task);
        if !view.is_some_and(|view| view.task.was_cancelled()) {
            self.ask(Asked::Note, SessionRequest::Cancel(task));
        }
    }
}

/// The reason of `notifications/cancelled`, bounded; empty if there is none.
fn cancel_reason(params: &Members) -> String {
    let reason = params.get("reason").and_then(Value::as_str);
    text::bounded(reason.unwrap_or_default().into(), REASON_BYTES).into_owned()
}
