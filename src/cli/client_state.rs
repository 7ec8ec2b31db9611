//! The state file that a tutorial's MCP client writes, as data.
//!
//! Such clients are written by hand, so several spellings of each key are accepted. Invariant: each task in a file is
//! either returned or counted as skipped, and no two returned tasks have the same key.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::domain::CLIENT_ID;

/// The contents of a client state file.
#[derive(Debug, PartialEq)]
pub struct ClientState {
    /// The server's URL, as written in the file.
    pub url: Option<String>,
    /// The unfinished tasks.
    pub tasks: Vec<ClientTask>,
    /// How many tasks were left out because they have ended, name no tool or are duplicates.
    pub skipped: usize,
}

/// An unfinished task in a client state file.
#[derive(Debug, PartialEq)]
pub struct ClientTask {
    /// Its id in the file; tool and arguments if it has none.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// Its arguments without the client id, if the file has them.
    pub arguments: Option<Map<String, Value>>,
    /// The client id that owns its checkpoint.
    pub client_id: Option<String>,
}

/// Why nothing can be adopted from a file.
#[derive(Debug, thiserror::Error)]
pub enum ClientStateError {
    /// It can't be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It has more bytes than any such file needs.
    #[error("too large for a client state file")]
    TooLarge,
    /// It is not JSON.
    #[error("not valid JSON: {0}")]
    NotJson(#[from] serde_json::Error),
    /// It is JSON, but not an object.
    #[error("not a JSON object")]
    NotAnObject,
    /// It has no list of tasks.
    #[error("no `active_tasks` in it")]
    NoTasks,
    /// It has no unfinished task of this id.
    #[error("no unfinished task {id}; the file has {ids}")]
    NoTask {
        /// The id that was asked for.
        id: String,
        /// The ids that it has.
        ids: String,
    },
    /// This tool's task names no client.
    #[error("{0} has no client_id, so its checkpoint can't be found")]
    NoClientId(String),
}

impl ClientState {
    /// Parses the text of a file.
    pub fn read(json: &str) -> Result<Self, ClientStateError> {
        let Value::Object(file) = serde_json::from_str(json)? else {
            return Err(ClientStateError::NotAnObject);
        };
        let client_id = first_text(&file, &[CLIENT_ID]);
        let read = |id: Option<&str>, task: &Value| {
            saved_task(id, task.as_object()?, client_id.as_deref())
        };
        let found: Vec<Option<ClientTask>> = match file.get("active_tasks").or(file.get("tasks")) {
            Some(Value::Object(tasks)) => {
                let named = |(id, task): (&String, &Value)| read(Some(id), task);
                tasks.iter().map(named).collect()
            }
            Some(Value::Array(tasks)) => tasks.iter().map(|task| read(None, task)).collect(),
            _ => return Err(ClientStateError::NoTasks),
        };
        let count = found.len();
        let mut seen = HashSet::new();
        let is_new = |task: &ClientTask| seen.insert((task.client_id.clone(), task.id.clone()));
        let tasks: Vec<ClientTask> = found.into_iter().flatten().filter(is_new).collect();
        Ok(Self {
            url: first_text(&file, &["server_url", "url"]),
            skipped: count - tasks.len(),
            tasks,
        })
    }
}

fn first_text(object: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let texts = keys.iter().filter_map(|key| object.get(*key)?.as_str());
    texts.map(str::to_owned).find(|text| !text.is_empty())
}

fn saved_task(
    id: Option<&str>,
    task: &Map<String, Value>,
    client_id: Option<&str>,
) -> Option<ClientTask> {
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
    let tool = first_text(task, &["tool", "tool_name", "name"])?;
    let keys = ["arguments", "args", "params"];
    let arguments = keys.iter().find_map(|key| task.get(*key)?.as_object());
    let mut arguments = arguments.cloned();
    let of_arguments = |it: &Map<String, Value>| first_text(it, &[CLIENT_ID]);
    let own = arguments.as_ref().and_then(of_arguments);
    let own = own.or_else(|| first_text(task, &[CLIENT_ID]));
    if let Some(arguments) = &mut arguments {
        arguments.remove(CLIENT_ID);
    }
    let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
    let id = id.or_else(|| first_text(task, &["task_id", "id"]));
    Some(ClientTask {
        id: id.unwrap_or_else(|| format!("{tool} {}", json!(arguments))),
        tool,
        arguments,
        client_id: own.or_else(|| client_id.map(str::to_owned)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_common_shape_of_a_state_file() {
        let of_map = json!({"client_id": "c-1", "session_id": "s", "server_url": "http://127.0.0.1:1/mcp", "active_tasks": {
            "t1": {"tool": "work", "arguments": {"n": 5}, "status": "running", "progress": 60},
            "t2": {"name": "work", "args": {"n": 6, "client_id": "mine"}, "status": "Paused"},
            "t3": {"tool": "work", "status": "completed"},
            "t4": {"status": "running"},
            "t5": 7,
        }});
        let state = ClientState::read(&of_map.to_string()).unwrap();
        let calls: Vec<_> = state
            .tasks
            .iter()
            .map(|task| {
                (
                    task.id.as_str(),
                    json!(task.arguments),
                    task.client_id.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            calls,
            [
                ("t1", json!({"n": 5}), Some("c-1")),
                ("t2", json!({"n": 6}), Some("mine")),
            ]
        );
        assert_eq!(state.skipped, 3, "includes an entry that is not a task");
        let of_list = json!({"active_tasks": [{"task_id": "x", "tool_name": "work", "params": {}, "client_id": "c"}]});
        let state = ClientState::read(&of_list.to_string()).unwrap();
        assert_eq!((state.tasks.len(), state.url), (1, None));
        let of_list = json!({"tasks": [
            {"tool": "work", "args": {"n": 1}, "client_id": "c"}, {"tool": "work", "args": {"n": 2}, "client_id": "c"},
            {"id": "x", "tool": "work", "client_id": "c"}, {"id": "x", "tool": "work", "client_id": "c"}]});
        let state = ClientState::read(&of_list.to_string()).unwrap();
        let calls: Vec<_> = state.tasks.iter().map(|task| &task.arguments).collect();
        assert_eq!(
            json!(calls),
            json!([{"n": 1}, {"n": 2}, null]),
            "without an id, tool and arguments identify a task"
        );
        assert_eq!(state.skipped, 1);
        for wrong in ["", "[]", "{}", r#"{"active_tasks": 5}"#] {
            assert!(ClientState::read(wrong).is_err(), "{wrong}");
        }
    }
}
