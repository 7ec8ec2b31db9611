//! Which of our tasks a JSON-RPC request id or a server's task id belongs to.

use std::collections::BTreeMap;

use crate::domain::{Status, Task, TaskId};

#[derive(Debug, Default)]
pub(super) struct TaskIndex {
    /// Calls that wait for their response, by request id, which is also their progress token.
    by_request: BTreeMap<String, TaskId>,
    /// Unsettled server tasks.
    by_server_task: BTreeMap<String, TaskId>,
    /// Server tasks that only the session file holds; `None` where the user has forgotten the task.
    on_file: BTreeMap<String, Option<TaskId>>,
}

impl TaskIndex {
    pub(super) fn add_request(&mut self, request_id: String, id: TaskId) {
        self.by_request.insert(request_id, id);
    }

    pub(super) fn remove_request(&mut self, request_id: &str) {
        self.by_request.remove(request_id);
    }

    pub(super) fn remove_requests_of(&mut self, id: &TaskId) {
        self.by_request.retain(|_, of| of != id);
    }

    pub(super) fn of_request(&self, request_id: &str) -> Option<&TaskId> {
        self.by_request.get(request_id)
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = (&String, &TaskId)> {
        self.by_request.iter()
    }

    pub(super) fn add_server_task(&mut self, server_task: String, id: TaskId) {
        self.by_server_task.insert(server_task, id);
    }

    pub(super) fn of_server_task(&self, server_task: &str) -> Option<&TaskId> {
        self.by_server_task.get(server_task)
    }

    /// The task is the session file's from now on. A lost one that the server knows again may be adopted, unless the user
    /// has forgotten it.
    pub(super) fn server_task_saved(&mut self, server_task: &str, task: &Task) {
        self.by_server_task.remove(server_task);
        let id = task.forgotten_at.is_none().then(|| task.id.clone());
        if id.is_none() || !matches!(task.status, Status::Lost(_)) {
            self.on_file.insert(server_task.to_owned(), id);
        }
    }

    pub(super) fn add_saved(&mut self, tasks: impl IntoIterator<Item = (String, Option<TaskId>)>) {
        self.on_file.extend(tasks);
    }

    /// The task that is shown for a server task, unsettled or from the session file.
    pub(super) fn shown_for(&self, server_task: &str) -> Option<&TaskId> {
        let on_file = || self.on_file.get(server_task).and_then(Option::as_ref);
        self.of_server_task(server_task).or_else(on_file)
    }

    /// Whether a server task is known, forgotten or not.
    pub(super) fn knows_server_task(&self, server_task: &str) -> bool {
        self.by_server_task.contains_key(server_task) || self.on_file.contains_key(server_task)
    }
}
