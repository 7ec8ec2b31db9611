//! Which of our tasks a JSON-RPC request id or a server's task id belongs to.

use std::collections::BTreeMap;

use crate::domain::{Status, Task, TaskId};

#[derive(Debug, Default)]
pub(super) struct TaskIndex {
    /// The calls that were sent, by request id. `Link::call` tells whether a response is awaited.
    pub(super) by_request: BTreeMap<String, TaskId>,
    /// Unsettled server tasks.
    pub(super) by_server_task: BTreeMap<String, TaskId>,
    /// Server tasks that only the session file holds; `None` where the user has forgotten the task.
    pub(super) on_file: BTreeMap<String, Option<TaskId>>,
}

impl TaskIndex {
    /// The task is the session file's from now on. A lost one that the server knows again may be adopted, unless the user
    /// has forgotten it.
    pub(super) fn server_task_saved(&mut self, server_task: &str, task: &Task) {
        self.by_server_task.remove(server_task);
        let id = task.forgotten_at.is_none().then(|| task.id.clone());
        if id.is_none() || !matches!(task.status, Status::Lost(_)) {
            self.on_file.insert(server_task.to_owned(), id);
        }
    }

    /// The task that is shown for a server task, unsettled or from the session file.
    pub(super) fn shown_for(&self, server_task: &str) -> Option<&TaskId> {
        let on_file = || self.on_file.get(server_task).and_then(Option::as_ref);
        self.by_server_task.get(server_task).or_else(on_file)
    }

    /// Whether a server task is known, forgotten or not.
    pub(super) fn knows_server_task(&self, server_task: &str) -> bool {
        self.by_server_task.contains_key(server_task) || self.on_file.contains_key(server_task)
    }
}
