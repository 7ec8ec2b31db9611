//! Responses of the session, and what the host gets for a task that has ended.

use core::time::Duration;

use serde_json::json;

use super::{
    Asked, Call, CallList, CallRole, Proxy, SavedResult, Unreadable, asked::ForwardedRequest,
    forwards::NO_TOOLS,
};
use crate::{
    domain::{
        Collected, Forwarded, RequestError, SessionOutcome, SessionResponse, Status, Task,
        TaskError, TaskErrorKind, TaskId, TaskView, text,
    },
    proxy::{
        cancel::Written,
        host_task,
        message::{self, internal_error, with},
        ticket::{self, COLLECT, failure},
    },
};

/// If a repeated call returns a result that is older than this, a note tells the host its age, in case it wants a new run.
const OLD: Duration = Duration::from_secs(60);

impl Proxy {
    pub(super) fn answered(&mut self, asked: Asked, outcome: SessionOutcome) {
        if let Asked::Forward(request) = &asked {
            self.withdraw_of_forward(&request.key);
        }
        match (asked, outcome) {
            (Asked::Introduce(host), Ok(SessionResponse::Introduced(introduction))) => {
                self.introduced(host, introduction);
            }
            (Asked::Forward(request), Ok(SessionResponse::Forwarded(outcome))) => {
                if let Forwarded::Result(result) = &outcome
                    && self.begins_round(&request, result)
                {
                    return;
                }
                self.forwarded(&request, &outcome);
            }
            (Asked::Forward(request), Err(_)) if self.is_without_tools(&request, "") => {
                self.forwarded(&request, &Forwarded::Result(NO_TOOLS.to_owned()));
            }
            (
                Asked::Introduce(Some((id, _)))
                | Asked::Forward(ForwardedRequest { id, .. })
                | Asked::Calls { id, .. },
                Err(error),
            ) => {
                self.refuse(&id, message::SERVER_ERROR, &error.to_string());
            }
            (Asked::Start { id, task: own }, Ok(SessionResponse::Started(task))) => {
                self.started(&id, &own, task);
            }
            (Asked::Collect { id, .. }, Ok(_)) => self.collects(&id),
            (
                Asked::Task {
                    id,
                    task,
                    method,
                    params,
                    other_server,
                },
                outcome,
            ) => {
                if let Some(server) = other_server.filter(|_| method == COLLECT) {
                    return self.collects_elsewhere(&id, &task, &server);
                }
                let view = self.views.get(&task).cloned();
                let view = view.filter(|view| outcome.is_ok() && self.is_ours(view));
                self.task_asked_for(&id, view.as_deref(), &method, &params);
            }
            (Asked::Calls { id, list }, Ok(SessionResponse::Calls(calls))) => match list {
                CallList::Tool => self.list_uncollected(&id, &calls),
                CallList::Tasks(after) => self.list_tasks(&id, &calls, after.as_ref()),
            },
            (Asked::Start { id, task }, Err(error))
                if self.cancels.early.remove(&task).is_none() =>
            {
                self.not_waiting(&id, None, &error);
            }
            (Asked::Collect { id, task }, Err(error)) => {
                self.not_waiting(&id, Some(&task), &error);
            }
            _ => {}
        }
    }

    /// Nothing was sent for a request. After a cancel, the host may have used its id again for another `task`.
    fn not_waiting(&mut self, id: &str, task: Option<&TaskId>, error: &RequestError) {
        let call = self.calls.get(id);
        if call.is_some_and(|call| call.task.as_ref() == task) {
            self.calls.remove(id);
            self.respond(id, &failure(&error.to_string()));
        }
    }

    /// The snapshot of the task that a request waits for is there.
    fn collects(&mut self, id: &str) {
        let call = self.calls.get(id);
        let view = call.and_then(|call| self.views.get(call.task.as_ref()?));
        if let Some(view) = view.cloned() {
            self.task_changed(&view);
        }
    }

    /// The result of a task was read: every call that waits for it gets it.
    pub(super) fn result_read(&mut self, task: &TaskId, result: &SavedResult) {
        let Some(view) = self.views.get(task).cloned() else {
            return;
        };
        for (id, _) in self.requests_for(task) {
            let Some(call) = self.calls.remove(&id) else {
                continue;
            };
            let mut is_answered = call.role != CallRole::Task;
            match (call.part, result) {
                (Some(part), Ok(Some(result))) => {
                    let (part, range, total) = part.cut(task, result);
                    self.respond(&id, &part);
                    // Without its beginning, the host does not have the result.
                    let read_to = self.read_to.entry(task.clone()).or_default();
                    if range.start <= *read_to {
                        *read_to = range.end.max(*read_to);
                    }
                    is_answered = *read_to >= total;
                    if !is_answered {
                        self.note(task.clone(), Collected::PartlyRead);
                    }
                }
                _ => self.respond_with(&id, &call, &view, result),
            }
            if is_answered && result.is_ok() {
                self.written.push(Written {
                    request: id,
                    task: task.clone(),
                    began: call.began,
                });
            }
        }
    }

    fn respond_with(&mut self, id: &str, call: &Call, view: &TaskView, result: &SavedResult) {
        let task = &view.task;
        match (call.role, result) {
            (CallRole::Task, _) => {}
            (CallRole::TaskGet, result) => {
                let outcome = match result {
                    Ok(Some(result)) => Ok(host_task::without_related(result)),
                    Ok(None) => Err(match ended(task) {
                        Ok(words) => internal_error(&words),
                        Err((code, TaskError { message, data, .. })) => {
                            let error = json!({"code": code, "message": message});
                            let data = data.as_ref().and_then(|it| serde_json::from_str(it).ok());
                            with(error, "data", data)
                        }
                    }),
                    Err(Unreadable(why)) => Err(internal_error(&unreadable(&task.id, why))),
                };
                let ended = self.ended_task(view, outcome.as_deref());
                self.respond_to(id, "", &ended);
            }
            (CallRole::TaskResult, Ok(Some(result))) => {
                let result = host_task::related_to(result, &task.id);
                self.respond_to(id, "", &result);
            }
            (_, Ok(Some(result))) => {
                let mut result = host_task::without_related(result);
                let age = task.end.settled_at.map(|at| self.now.wall.since(at));
                if let Some(age) = age.filter(|age| call.is_repeat && *age >= OLD) {
                    result = ticket::with_age(&result, &task.id, age).into();
                }
                self.respond_to(id, "tools/call", &result);
            }
            (_, Ok(None)) => match ended(task) {
                Err((code, TaskError { message, data, .. })) => {
                    self.send(message::error(id, code, message, data.as_deref()));
                }
                Ok(words) => {
                    let mut result = failure(&words);
                    if call.role == CallRole::TaskResult {
                        host_task::relate(&mut result, &task.id);
                    }
                    self.respond(id, &result);
                }
            },
            (_, Err(Unreadable(why))) => {
                self.respond(id, &failure(&unreadable(&task.id, why)));
            }
        }
    }
}

fn unreadable(task: &TaskId, why: &str) -> String {
    format!(
        "the result of {task} can't be read: {}",
        text::clean_line(why)
    )
}

/// How a task has ended that has no result, or the error that its server responded with.
fn ended(task: &Task) -> Result<String, (i64, &TaskError)> {
    let why = task.why().unwrap_or_default();
    Ok(match (&task.status, &task.end.error) {
        (_, Some(error)) => {
            let is_rpc = match error.kind {
                TaskErrorKind::Protocol => true,
                // Other codes are HTTP statuses.
                TaskErrorKind::Refused => error.code < Some(0),
                _ => false,
            };
            if let (Some(code), true) = (error.code, is_rpc) {
                return Err((code, error));
            }
            error.message()
        }
        (Status::Lost(_) | Status::Unknown(_), None) => format!(
            "The result of {} is {}: {why}. The call may have finished. Repeating it runs it again.",
            task.id,
            task.status.label()
        ),
        (Status::Cancelled, None) => format!("{} was cancelled", task.id),
        (status, None) => format!("{} is {}, and has no result", task.id, status.label()),
    })
}
