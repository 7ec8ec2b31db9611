//! Server tasks: work that outlives its request, its session and the server process.
//!
//! The SDK's own task manager is not used: it keeps tasks in memory, chooses their ids and supports only the modern era,
//! so its tasks could not survive a restart. How tasks look on the wire is up to `modern` and `stateful`. Invariants: a
//! task is on disk before any client learns its id. A settled task never changes. The first answer to a question wins.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use rmcp::model::{JsonObject, TaskStatus};
use rusqlite::{OptionalExtension, Row, ToSql, params};
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::database::{Database, locked, now_ms, random_id};
use crate::demo::{activity::ActivityTracker, error::DemoError};

/// The default time to live in milliseconds: one hour.
const TTL_MS: i64 = 3600 * 1000;

/// The maximum time to live in milliseconds: one week.
const MAX_TTL_MS: i64 = 7 * 24 * 3600 * 1000;

/// The poll interval suggested to clients, in milliseconds.
pub(super) const POLL_MS: u64 = 1000;

/// A task as stored on disk.
#[derive(Debug, Clone)]
pub(super) struct TaskRecord {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
    pub(super) status: TaskStatus,
    pub(super) message: String,
    /// Completed steps; after a restart the work continues with the next one.
    pub(super) done: u64,
    pub(super) created_ms: i64,
    pub(super) updated_ms: i64,
    /// The time to live from creation, in milliseconds.
    pub(super) ttl_ms: i64,
    /// All questions so far, by key: `{"request": .., "response": ..}`, without `response` while open.
    questions: Map<String, Value>,
    /// `{"result": ..}` or `{"error": ..}` once completed or failed.
    pub(super) outcome: Option<JsonObject>,
    /// The SQLite rowid: the task's position in the list.
    pub(super) row: i64,
}

impl TaskRecord {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let json = |column: &str| -> rusqlite::Result<Option<JsonObject>> {
            let text = row.get::<_, Option<String>>(column)?;
            Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
        };
        Ok(Self {
            id: row.get("id")?,
            tool: row.get("tool")?,
            arguments: json("arguments")?.unwrap_or_default(),
            status: serde_json::from_value(row.get::<_, String>("status")?.into())
                .unwrap_or(TaskStatus::Failed),
            message: row.get("message")?,
            done: row.get::<_, i64>("done")?.unsigned_abs(),
            created_ms: row.get("created_ms")?,
            updated_ms: row.get("updated_ms")?,
            ttl_ms: row.get("ttl_ms")?,
            questions: json("asked")?.unwrap_or_default(),
            outcome: json("outcome")?,
            row: row.get("rowid")?,
        })
    }

    /// The unanswered questions: key and request.
    pub(super) fn open_questions(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.questions
            .iter()
            .filter(|(_, question)| question.get("response").is_none())
            .filter_map(|(key, question)| Some((key, question.get("request")?)))
    }

    fn answer(&self, key: &str) -> Option<&Value> {
        self.questions.get(key)?.get("response")
    }

    fn expires_ms(&self) -> i64 {
        self.created_ms.saturating_add(self.ttl_ms)
    }
}

/// The stored tasks, and the work that runs for them in this boot.
pub(super) struct TaskStore {
    database: Arc<Database>,
    activity: Arc<ActivityTracker>,
    live: Mutex<HashMap<String, CancellationToken>>,
    /// Incremented at every change of any task; a waiter then reads its task again.
    pub(super) changes: watch::Sender<u64>,
}

impl TaskStore {
    pub(super) fn open(
        database: Arc<Database>,
        activity: Arc<ActivityTracker>,
    ) -> Result<Self, DemoError> {
        let tasks = Self {
            database,
            activity,
            live: Mutex::default(),
            changes: watch::Sender::new(0),
        };
        tasks.delete_expired()?;
        Ok(tasks)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn delete_expired(&self) -> rusqlite::Result<()> {
        self.database.lock().execute(
            "DELETE FROM task WHERE created_ms + ttl_ms <= ?1",
            [now_ms()],
        )?;
        Ok(())
    }

    /// Creates a task and stores it.
    pub(super) fn create(
        &self,
        tool: &str,
        arguments: &JsonObject,
        ttl_ms: Option<i64>,
    ) -> Result<TaskRecord, DemoError> {
        self.delete_expired()?;
        let id = random_id().map_err(DemoError::io("generate a task id"))?;
        let ttl_ms = ttl_ms.unwrap_or(TTL_MS).clamp(1, MAX_TTL_MS);
        self.database.lock().execute(
            "INSERT INTO task (id, tool, arguments, status, message, done, created_ms, updated_ms, ttl_ms, asked)
             VALUES (?1, ?2, ?3, 'working', 'Starting', 0, ?4, ?4, ?5, '{}')",
            params![id, tool, json!(arguments).to_string(), now_ms(), ttl_ms],
        )?;
        self.get(&id)?
            .ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// The task with this id, unless it has expired.
    pub(super) fn get(&self, id: &str) -> rusqlite::Result<Option<TaskRecord>> {
        let database = self.database.lock();
        let found = database
            .prepare_cached("SELECT rowid, * FROM task WHERE id = ?1")?
            .query_row([id], TaskRecord::of)
            .optional()?;
        Ok(found.filter(|task| task.expires_ms() > now_ms()))
    }

    /// At most `limit` tasks after row `after`, oldest first.
    pub(super) fn page(&self, after: i64, limit: i64) -> rusqlite::Result<Vec<TaskRecord>> {
        let database = self.database.lock();
        database
            .prepare_cached(
                "SELECT rowid, * FROM task WHERE rowid > ?1 AND created_ms + ttl_ms > ?2
             ORDER BY rowid LIMIT ?3",
            )?
            .query_map(params![after, now_ms(), limit], TaskRecord::of)?
            .collect()
    }

    /// The tasks that an earlier boot left unfinished.
    pub(super) fn unfinished(&self) -> rusqlite::Result<Vec<TaskRecord>> {
        let tasks = self.page(0, i64::MAX)?;
        Ok(tasks
            .into_iter()
            .filter(|task| !task.status.is_terminal())
            .collect())
    }

    /// Runs a task's work until it ends, with the call's result or error, or the task expires. A cancelled task cancels
    /// the work's token.
    pub(super) fn run<W: Future<Output = (TaskStatus, Value)> + Send + 'static>(
        self: &Arc<Self>,
        task: &TaskRecord,
        work: impl FnOnce(CancellationToken) -> W,
    ) {
        let cancel = CancellationToken::new();
        locked(&self.live).insert(task.id.clone(), cancel.clone());
        let (tasks, id) = (Arc::clone(self), task.id.clone());
        let left = u64::try_from(task.expires_ms() - now_ms()).unwrap_or(0);
        let work = work(cancel);
        tokio::spawn(async move {
            let _busy = ActivityTracker::start(&tasks.activity);
            let outcome = tokio::select! {
                outcome = work => Some(outcome),
                () = sleep(Duration::from_millis(left)) => None, // sleep: the task's time to live
            };
            let saved = match outcome {
                Some((status, outcome)) => tasks.settle(&id, status, &outcome),
                None => tasks.delete_expired(),
            };
            if let Err(error) = saved {
                tracing::error!(%error, "could not save a task's outcome");
            }
            locked(&tasks.live).remove(&id);
            tasks.changed();
        });
    }

    /// Settles a task unless it is already settled.
    fn settle(&self, id: &str, status: TaskStatus, outcome: &Value) -> rusqlite::Result<()> {
        let status = json!(status);
        let values = params![id, now_ms(), status.as_str(), outcome.to_string()];
        self.update("status = ?3, outcome = ?4", values).map(drop)
    }

    /// Sets columns of a task unless it is already settled. The first parameters are its id and the time.
    fn update(&self, columns: &str, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        let sql = format!(
            "UPDATE task SET {columns}, updated_ms = ?2 WHERE id = ?1 AND status IN ('working', 'input_required')"
        );
        self.database.lock().execute(&sql, values)
    }

    /// Saves the progress of a task: completed steps and status message.
    pub(super) fn save_progress(&self, id: &str, done: u64, message: &str) {
        let done = i64::try_from(done).unwrap_or(i64::MAX);
        let values = params![id, now_ms(), done, message];
        if let Err(error) = self.update("done = ?3, message = ?4", values) {
            tracing::error!(%error, "could not save a task's progress");
        }
        self.changed();
    }

    /// Asks the task's client a question and waits for the answer; returns at once if it was answered before.
    pub(super) async fn ask(
        &self,
        id: &str,
        key: &str,
        request: &Value,
    ) -> Result<Value, DemoError> {
        let mut changes = self.changes.subscribe();
        self.change_questions(id, |questions| {
            questions
                .entry(key)
                .or_insert_with(|| json!({"request": request}));
        })?;
        loop {
            changes.borrow_and_update();
            let task = self.get(id)?;
            if let Some(answer) = task.as_ref().and_then(|task| task.answer(key)) {
                return Ok(answer.clone());
            }
            let _ = changes.changed().await;
        }
    }

    /// Stores answers by key. Ignores those to unknown or already answered questions.
    pub(super) fn answer(
        &self,
        id: &str,
        answers: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<(), DemoError> {
        self.change_questions(id, |questions| {
            for (key, answer) in answers {
                if let Some(Value::Object(question)) = questions.get_mut(&key) {
                    question.entry("response").or_insert(answer);
                }
            }
        })
    }

    /// Updates the questions of an unfinished task, and its status to match.
    fn change_questions(
        &self,
        id: &str,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), DemoError> {
        let Some(mut task) = self.get(id)? else {
            return Ok(());
        };
        change(&mut task.questions);
        let status = if task.open_questions().next().is_some() {
            TaskStatus::InputRequired
        } else {
            TaskStatus::Working
        };
        let (status, asked) = (json!(status), json!(task.questions).to_string());
        let values = params![id, now_ms(), status.as_str(), asked];
        self.update("status = ?3, asked = ?4", values)?;
        self.changed();
        Ok(())
    }

    /// Cancels a task and its work; returns false if the task was already settled.
    pub(super) fn cancel(&self, id: &str) -> rusqlite::Result<bool> {
        let columns = "status = 'cancelled', message = 'Cancelled'";
        let cancelled = self.update(columns, params![id, now_ms()])?;
        if let Some(cancel) = locked(&self.live).get(id) {
            cancel.cancel();
        }
        self.changed();
        Ok(cancelled > 0)
    }
}
