//! The state file of a tutorial's client, as data.
//!
//! Such clients were written by hand, so that several names for a thing are taken. Invariant: each task of a file is either
//! read or counted as passed over, and no two that are read count as the same.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::domain::CLIENT_ID;

/// What the file of a tutorial's client says.
#[derive(Debug, PartialEq)]
pub struct Saved {
    /// The server that the client spoke to, as it stands there.
    pub url: Option<String>,
    /// The unfinished tasks.
    pub tasks: Vec<SavedTask>,
    /// How many of its tasks have ended, name no tool or stand there twice.
    pub passed_over: usize,
}

/// One unfinished task of such a file.
#[derive(Debug, PartialEq)]
pub struct SavedTask {
    /// Its id there; made of the call where it has none.
    pub id: String,
    /// The tool to call.
    pub tool: String,
    /// With the client id of the file, where the task has none of its own.
    pub arguments: Map<String, Value>,
    /// Whether the file holds its arguments.
    pub has_arguments: bool,
    /// How the client saw it last: `running at 60`.
    pub stands: String,
}

impl Saved {
    /// Reads the text of a file; fails in words that go on after `FILE: `.
    pub fn read(json: &str) -> Result<Self, String> {
        let file: Map<String, Value> = match serde_json::from_str(json) {
            Ok(Value::Object(file)) => file,
            Ok(_) => return Err("it is not a JSON object".to_owned()),
            Err(error) => return Err(format!("it is not valid JSON: {error}")),
        };
        let client_id = first_text(&file, &[CLIENT_ID]);
        let read = |id: Option<&str>, task: &Value| {
            saved_task(id, task.as_object()?, client_id.as_deref())
        };
        let found: Vec<Option<SavedTask>> = match file.get("active_tasks").or(file.get("tasks")) {
            Some(Value::Object(tasks)) => {
                let named = |(id, task): (&String, &Value)| read(Some(id), task);
                tasks.iter().map(named).collect()
            }
            Some(Value::Array(tasks)) => tasks.iter().map(|task| read(None, task)).collect(),
            _ => return Err("it has no active_tasks".to_owned()),
        };
        let count = found.len();
        let mut seen = HashSet::new();
        let is_new = |task: &SavedTask| seen.insert(task.once());
        let tasks: Vec<SavedTask> = found.into_iter().flatten().filter(is_new).collect();
        Ok(Self {
            url: first_text(&file, &["server_url", "url", "base_url", "server"]),
            passed_over: count - tasks.len(),
            tasks,
        })
    }
}

impl SavedTask {
    /// The client whose checkpoint it goes on from.
    pub fn client_id(&self) -> Option<&str> {
        let client_id = self.arguments.get(CLIENT_ID)?.as_str();
        client_id.filter(|client_id| !client_id.is_empty())
    }

    /// What makes it the same task when the file is read again.
    pub fn once(&self) -> String {
        adopted_once(self.client_id().unwrap_or_default(), &self.id)
    }
}

/// The key by which a task of somebody else's client is taken over once, whichever way it is found.
pub(super) fn adopted_once(client_id: &str, id: &str) -> String {
    format!("adopted {client_id} {id}")
}

fn first_text(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let texts = keys.iter().filter_map(|key| object.get(*key)?.as_str());
    texts.map(str::to_owned).find(|text| !text.is_empty())
}

fn saved_task(
    id: Option<&str>,
    task: &Map<String, Value>,
    client_id: Option<&str>,
) -> Option<SavedTask> {
    const ENDED: [&str; 8] = [
        "completed",
        "complete",
        "done",
        "finished",
        "failed",
        "error",
        "cancelled",
        "canceled",
    ];
    let status = first_text(task, &["status", "state"]).unwrap_or_else(|| "running".to_owned());
    if ENDED.contains(&status.to_lowercase().as_str()) {
        return None;
    }
    let tool = first_text(
        task,
        &["tool", "tool_name", "name", "task_name", "task_type"],
    )?;
    let given = ["arguments", "args", "params", "parameters"];
    let given = given.iter().find_map(|key| task.get(*key)?.as_object());
    let has_arguments = given.is_some();
    let mut arguments = given.cloned().unwrap_or_default();
    let own = first_text(&arguments, &[CLIENT_ID]).or_else(|| first_text(task, &[CLIENT_ID]));
    if let Some(client_id) = own.as_deref().or(client_id) {
        arguments.insert(CLIENT_ID.to_owned(), Value::String(client_id.to_owned()));
    }
    let progress = task
        .get("progress")
        .filter(|it| it.is_number() || it.is_string());
    let progress = progress.map_or(String::new(), |progress| format!(" at {progress}"));
    let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
    let id = id.or_else(|| first_text(task, &["task_id", "id"]));
    Some(SavedTask {
        id: id.unwrap_or_else(|| format!("{tool} {}", Value::Object(arguments.clone()))),
        tool,
        arguments,
        has_arguments,
        stands: format!("{status}{progress}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_file_is_read_in_the_shapes_that_people_write() {
        let of_map = json!({"client_id": "c-1", "session_id": "s", "server_url": "http://127.0.0.1:1/mcp", "active_tasks": {
            "t1": {"tool": "work", "arguments": {"n": 5}, "status": "running", "progress": 60},
            "t2": {"name": "work", "args": {"n": 6, "client_id": "mine"}, "status": "Paused"},
            "t3": {"tool": "work", "status": "completed"},
            "t4": {"status": "running"},
            "t5": 7,
        }});
        let saved = Saved::read(&of_map.to_string()).unwrap();
        let calls: Vec<_> = saved
            .tasks
            .iter()
            .map(|task| {
                (
                    task.id.as_str(),
                    json!(task.arguments),
                    task.stands.as_str(),
                )
            })
            .collect();
        assert_eq!(
            calls,
            [
                ("t1", json!({"n": 5, "client_id": "c-1"}), "running at 60"),
                ("t2", json!({"n": 6, "client_id": "mine"}), "Paused"),
            ]
        );
        assert_eq!(saved.passed_over, 3, "what is no task too");
        let of_list = json!({"active_tasks": [{"task_id": "x", "tool_name": "work", "params": {}, "client_id": "c"}]});
        let saved = Saved::read(&of_list.to_string()).unwrap();
        assert_eq!((saved.tasks.len(), saved.url), (1, None));
        let of_list = json!({"tasks": [
            {"tool": "work", "args": {"n": 1}, "client_id": "c"}, {"tool": "work", "args": {"n": 2}, "client_id": "c"},
            {"id": "x", "tool": "work", "client_id": "c"}, {"id": "x", "tool": "work", "client_id": "c"}]});
        let saved = Saved::read(&of_list.to_string()).unwrap();
        let calls: Vec<_> = saved.tasks.iter().map(|task| &task.arguments).collect();
        assert_eq!(
            json!(calls),
            json!([{"n": 1, "client_id": "c"}, {"n": 2, "client_id": "c"}, {"client_id": "c"}]),
            "without an id each call counts as itself"
        );
        assert_eq!(saved.passed_over, 1);
        for wrong in ["", "[]", "{}", r#"{"active_tasks": 5}"#] {
            assert!(Saved::read(wrong).is_err(), "{wrong}");
        }
    }
}
