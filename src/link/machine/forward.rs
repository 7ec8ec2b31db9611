//! What passes between a server and the callers behind `longhaul proxy`, beside their calls.

use serde_json::{Map, Value};

use super::Link;
use crate::{
    domain::{
        Forwarded, Introduction, RequestError, SessionRequestId, SessionResponse, TaskId, text,
    },
    link::in_flight::RequestKind,
    protocol::{RpcError, encode},
};

/// The notifications that a driver has not taken yet; more are dropped.
const NOTIFICATIONS: usize = 1024;

/// A notification for the callers of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedNotification {
    /// The call on whose stream it came; only its caller gets it.
    pub task: Option<TaskId>,
    /// The message, verbatim JSON.
    pub message: String,
}

impl Link {
    /// Whether a client passes this server's notifications on.
    pub fn is_listened_to(&self) -> bool {
        self.notifications.is_some()
    }

    /// Starts or stops to keep notifications for [`Self::take_notifications`].
    pub fn listen(&mut self, is_on: bool) {
        if self.is_listened_to() != is_on {
            self.notifications = is_on.then(Vec::new);
            self.needs_advance = true;
        }
    }

    /// The notifications since they were last taken.
    pub fn take_notifications(&mut self) -> Vec<PassedNotification> {
        self.notifications
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    pub(super) fn pass_notification(&mut self, task: Option<&TaskId>, message: &str) {
        if let Some(kept) = &mut self.notifications
            && kept.len() < NOTIFICATIONS
        {
            kept.push(PassedNotification {
                task: task.cloned(),
                message: message.to_owned(),
            });
        }
    }

    pub(super) fn introduce(&mut self, ask: SessionRequestId) {
        let result = self.record.introduction.clone().unwrap_or_else(|| {
            // Saved by an older longhaul, or too large to keep.
            let name = self.record.name.as_str();
            let info = serde_json::json!({"name": name, "version": ""});
            serde_json::json!({"capabilities": {"tools": {}}, "serverInfo": info}).to_string()
        });
        let introduction = Introduction {
            version: self.session_version(),
            result,
        };
        self.answer(ask, Ok(SessionResponse::Introduced(introduction)));
    }

    pub(super) fn forward(&mut self, ask: SessionRequestId, method: &str, params: &str) {
        let id = self.in_flight.new_request_id();
        let params: Map<String, Value> = serde_json::from_str(params).unwrap_or_default();
        let request = encode::forwarded(self.session_version(), &id, method, params);
        self.send(RequestKind::Forward { ask }, request, Some(id), None);
    }

    pub(super) fn forward_answered(
        &mut self,
        ask: SessionRequestId,
        outcome: Result<&str, RpcError>,
    ) {
        let forwarded = match outcome {
            Ok(result) => Forwarded::Result(result.to_owned()),
            Err(error) => Forwarded::Error(serde_json::to_string(&error).unwrap_or_default()),
        };
        self.answer(ask, Ok(SessionResponse::Forwarded(forwarded)));
    }

    pub(super) fn forward_failed(&mut self, ask: SessionRequestId, why: &str) {
        let why = text::clean_line(why);
        let words = format!("{} did not answer ({why})", self.record.name);
        self.answer(ask, Err(RequestError::Unreachable(words)));
    }
}
