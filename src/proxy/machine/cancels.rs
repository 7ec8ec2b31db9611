//! What the host cancels: after a timeout the call continues, for the host will ask again.

use core::time::Duration;

use serde_json::{Map, Value};

use super::{Asked, OnCancel, Proxy};
use crate::{
    domain::{GaveUpReason, SessionRequest, TaskId, text},
    proxy::cancel::{Meaning, meaning},
};

/// How long a call continues after a cancel that may mean a timeout. A host that gave up for that asks again.
const REPEATED_WITHIN: Duration = Duration::from_secs(30);

/// The most bytes of a reason that are kept.
const REASON_BYTES: usize = 400;

impl Proxy {
    pub(super) fn request_cancelled(&mut self, params: &Map<String, Value>) {
        let Some(id) = params.get("requestId").map(Value::to_string) else {
            return;
        };
        let reason = params.get("reason").and_then(Value::as_str);
        let reason = text::bounded(reason.unwrap_or_default().into(), REASON_BYTES).into_owned();
        let Some(call) = self.calls.remove(&id) else {
            let is_it = |asked: &Asked| matches!(asked, Asked::Forward { id: of, .. } if *of == id);
            self.asked.retain(|_, asked| !is_it(asked));
            return;
        };
        match call.task.clone() {
            Some(task) => {
                self.gave_up(&call, GaveUpReason::Cancelled(reason.clone()));
                self.call_cancelled(task, &reason);
            }
            None => {
                self.cancels.early.insert(id, reason);
            }
        }
    }

    /// The task of a call that was cancelled before it was saved.
    pub(super) fn started_in_vain(&mut self, id: &str, task: TaskId) {
        if let Some(reason) = self.cancels.early.remove(id) {
            self.call_cancelled(task, &reason);
        }
    }

    fn call_cancelled(&mut self, task: TaskId, reason: &str) {
        // Another call of the host may wait for the same task.
        let mut calls = self.calls.values();
        if calls.any(|call| call.task.as_ref() == Some(&task)) {
            return;
        }
        match (self.options.on_cancel, meaning(reason)) {
            (OnCancel::Continue, _) | (OnCancel::TimeoutContinues, Meaning::Timeout) => {}
            (OnCancel::Stop, _) | (OnCancel::TimeoutContinues, Meaning::Person) => {
                self.ask(Asked::Note, SessionRequest::Cancel(task));
            }
            (OnCancel::TimeoutContinues, Meaning::Unclear) => {
                let due = self.now.mono.after(REPEATED_WITHIN);
                self.cancels.due.insert(task, due);
            }
        }
    }

    /// Cancels what the host has not asked for again.
    pub(super) fn tend_cancels(&mut self) {
        let now = self.now.mono;
        let calls = &self.calls;
        // What is waited for again is not cancelled.
        self.cancels
            .due
            .retain(|task, _| !calls.values().any(|call| call.task.as_ref() == Some(task)));
        let due = self.cancels.due.iter().filter(|(_, due)| now >= **due);
        let due: Vec<TaskId> = due.map(|(task, _)| task.clone()).collect();
        for task in due {
            self.cancels.due.remove(&task);
            self.ask(Asked::Note, SessionRequest::Cancel(task));
        }
    }
}
