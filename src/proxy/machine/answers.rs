//! Responses of the session, and what the host gets for a task that has ended.

use super::{Asked, Proxy, SavedResult, calls::failure};
use crate::{
    domain::{Forwarded, RequestError, SessionResponse, Status, Task, TaskErrorKind, TaskId, text},
    proxy::message,
};

impl Proxy {
    pub(super) fn answered(
        &mut self,
        asked: Asked,
        outcome: Result<SessionResponse, RequestError>,
    ) {
        match (asked, outcome) {
            (Asked::Introduce(host), Ok(SessionResponse::Introduced(introduction))) => {
                self.introduced(host, introduction);
            }
            (
                Asked::Forward {
                    id,
                    method,
                    is_first_page,
                },
                Ok(SessionResponse::Forwarded(outcome)),
            ) => self.forwarded(&id, &method, is_first_page, &outcome),
            (Asked::Introduce(Some((id, _))) | Asked::Forward { id, .. }, Err(error)) => {
                self.refuse(&id, message::SERVER_ERROR, &error.to_string());
            }
            (Asked::Start { id }, Ok(SessionResponse::Started(task))) => self.started(&id, task),
            (Asked::Collect { id }, Ok(_)) => {
                let call = self.calls.get(&id);
                let view = call.and_then(|call| self.views.get(call.task.as_ref()?));
                if let Some(view) = view.cloned() {
                    self.task_changed(&view);
                }
            }
            // Nothing was sent.
            (Asked::Start { id } | Asked::Collect { id }, Err(error))
                if self.calls.remove(&id).is_some() =>
            {
                self.respond(&id, &failure(&error.to_string()));
            }
            _ => {}
        }
    }

    fn forwarded(&mut self, id: &str, method: &str, is_first_page: bool, outcome: &Forwarded) {
        match outcome {
            Forwarded::Result(result) => {
                let list = (method == "tools/list")
                    .then(|| self.schemas.page(result, is_first_page))
                    .flatten();
                self.respond_to(id, method, list.as_deref().unwrap_or(result));
            }
            Forwarded::Error(error) => {
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
                self.effects.push(super::Effect::ToHost(line));
            }
        }
    }

    /// The result of a task was read: every call that waits for it gets it.
    pub(super) fn result_read(&mut self, task: &TaskId, result: &SavedResult) {
        let waiting = self
            .calls
            .iter()
            .filter(|(_, call)| call.task.as_ref() == Some(task));
        let ids: Vec<String> = waiting.map(|(id, _)| id.clone()).collect();
        let Some(view) = self.views.get(task).cloned() else {
            return;
        };
        for id in ids {
            self.calls.remove(&id);
            match result {
                SavedResult::Found(result) => self.respond_to(&id, "tools/call", result),
                SavedResult::None => self.respond_without_result(&id, &view.task),
                SavedResult::Unreadable(why) => {
                    let why = text::clean_line(why);
                    let words = format!("the result of {task} can't be read: {why}");
                    self.respond(&id, &failure(&words));
                }
            }
            if !matches!(result, SavedResult::Unreadable(_)) {
                self.written.push(task.clone());
            }
        }
    }

    /// Responds to a call whose task has ended without a result.
    fn respond_without_result(&mut self, id: &str, task: &Task) {
        let why = task.why().unwrap_or_default();
        let words = match (&task.status, &task.error) {
            (_, Some(error)) => {
                // Other codes are HTTP statuses.
                let code = error.code.filter(|code| *code < 0);
                let is_rpc = matches!(error.kind, TaskErrorKind::Protocol | TaskErrorKind::Refused);
                if let (Some(code), true) = (code, is_rpc) {
                    let line = message::error(id, code, &error.message, error.data.as_deref());
                    return self.effects.push(super::Effect::ToHost(line));
                }
                error.message()
            }
            (Status::Lost(_) | Status::Unknown(_), None) => format!(
                "The result of {} is {}: {why}. It may have run to its end. The same call, made again, runs it again.",
                task.id,
                task.status.label()
            ),
            (Status::Cancelled, None) => format!("{} was cancelled", task.id),
            (status, None) => format!("{} is {}, and has no result", task.id, status.label()),
        };
        self.respond(id, &failure(&words));
    }
}
