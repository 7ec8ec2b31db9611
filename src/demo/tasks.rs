//! Server tasks: work that outlives its request, its session and the server itself.
//!
//! Owns the table `task` and what runs of it in this boot. The SDK has a task manager too; it keeps its tasks in memory
//! only, draws their ids itself and knows the modern era alone, so that none of them could survive a restart. Must not
//! know either era's spelling of a task (`modern` and `dialect` do), nor what the tools do. Invariants: a task is on disk
//! before anybody hears its id; a settled task never changes again; an answer counts once.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use rmcp::model::{JsonObject, TaskStatus};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Map, Value, json};
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    DemoError,
    disk::{Disk, locked, now_ms, random_id, with_room},
    life::Presence,
};

/// How long a task is kept unless its client wishes otherwise: an hour, in milliseconds.
const TTL_MS: i64 = 3600 * 1000;
/// The longest wish that is granted: a week.
const LONGEST_TTL_MS: i64 = 7 * 24 * 3600 * 1000;
/// How often a client is asked to look, in milliseconds.
pub(super) const POLL_MS: u64 = 1000;

/// A task as it is on disk.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) id: String,
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
    pub(super) status: TaskStatus,
    pub(super) message: String,
    /// Steps that are done; the work goes on after them when the server has been down.
    pub(super) done: u64,
    pub(super) created_ms: i64,
    pub(super) updated_ms: i64,
    /// How long it is kept after its creation.
    pub(super) ttl_ms: i64,
    /// Every question asked so far, by key: `{"request": .., "response": ..}`.
    asked: Map<String, Value>,
    /// `{"result": ..}` or `{"error": ..}` once it is settled and was not cancelled.
    pub(super) outcome: Option<JsonObject>,
    /// Its place in the list.
    pub(super) row: i64,
}

impl Task {
    fn of(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        let json = |column: &str| -> Result<Option<JsonObject>, rusqlite::Error> {
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
            asked: json("asked")?.unwrap_or_default(),
            outcome: json("outcome")?,
            row: row.get("rowid")?,
        })
    }

    /// The questions without an answer: key and request.
    pub(super) fn open_questions(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.asked
            .iter()
            .filter(|(_, asked)| asked.get("response").is_none())
            .filter_map(|(key, asked)| Some((key, asked.get("request")?)))
    }

    fn answer(&self, key: &str) -> Option<&Value> {
        self.asked.get(key)?.get("response")
    }

    fn expires_ms(&self) -> i64 {
        self.created_ms.saturating_add(self.ttl_ms)
    }
}

/// The word of a status, in both eras and on disk.
fn label(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input_required",
        TaskStatus::Completed => "completed",
        TaskStatus::Cancelled => "cancelled",
        _ => "failed",
    }
}

/// How a piece of work ended.
pub(super) enum Outcome {
    /// What the call would have answered.
    Answered(JsonObject),
    /// The JSON-RPC error that the call would have been answered with.
    Failed(JsonObject),
}

/// All tasks.
pub(super) struct Tasks {
    disk: Arc<Disk>,
    presence: Arc<Presence>,
    live: Mutex<HashMap<String, CancellationToken>>,
    /// Counts changes; who waits for one reads the task again.
    pulse: watch::Sender<u64>,
}

impl Tasks {
    pub(super) fn open(disk: Arc<Disk>, presence: Arc<Presence>) -> Result<Self, DemoError> {
        let tasks = Self {
            disk,
            presence,
            live: Mutex::default(),
            pulse: watch::Sender::new(0),
        };
        tasks.forget_expired()?;
        Ok(tasks)
    }

    /// Ticks at every change of any task.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }

    fn changed(&self) {
        self.pulse.send_modify(|pulse| *pulse += 1);
    }

    fn forget_expired(&self) -> Result<(), rusqlite::Error> {
        self.disk.lock().execute(
            "DELETE FROM task WHERE created_ms + ttl_ms <= ?1",
            [now_ms()],
        )?;
        Ok(())
    }

    /// Makes a task and has it on disk.
    pub(super) fn create(
        &self,
        tool: &str,
        arguments: &JsonObject,
        ttl_ms: Option<i64>,
    ) -> Result<Task, DemoError> {
        self.forget_expired()?;
        let id = random_id().map_err(DemoError::io("draw a task id"))?;
        let ttl_ms = ttl_ms.unwrap_or(TTL_MS).clamp(1, LONGEST_TTL_MS);
        self.disk.lock().execute(
            "INSERT INTO task (id, tool, arguments, status, message, done, created_ms, updated_ms, ttl_ms, asked)
             VALUES (?1, ?2, ?3, 'working', 'The work begins', 0, ?4, ?4, ?5, '{}')",
            params![id, tool, json!(arguments).to_string(), now_ms(), ttl_ms],
        )?;
        self.get(&id)?
            .ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// The task of an id, if it has not expired.
    pub(super) fn get(&self, id: &str) -> Result<Option<Task>, rusqlite::Error> {
        let disk = self.disk.lock();
        let found = disk
            .prepare_cached("SELECT rowid, * FROM task WHERE id = ?1")?
            .query_row([id], Task::of)
            .optional()?;
        Ok(found.filter(|task| task.expires_ms() > now_ms()))
    }

    /// So many tasks after a place in the list, oldest first.
    pub(super) fn page(&self, after: i64, limit: i64) -> Result<Vec<Task>, rusqlite::Error> {
        let disk = self.disk.lock();
        disk.prepare_cached(
            "SELECT rowid, * FROM task WHERE rowid > ?1 AND created_ms + ttl_ms > ?2
             ORDER BY rowid LIMIT ?3",
        )?
        .query_map(params![after, now_ms(), limit], Task::of)?
        .collect()
    }

    /// What an earlier boot left unfinished.
    pub(super) fn unfinished(&self) -> Result<Vec<Task>, rusqlite::Error> {
        let tasks = self.page(0, i64::MAX)?;
        Ok(tasks
            .into_iter()
            .filter(|task| !task.status.is_terminal())
            .collect())
    }

    /// Runs the work of a task until it ends, is cancelled or expires. The work hears of a cancellation by the token.
    pub(super) fn run<W: Future<Output = Outcome> + Send + 'static>(
        self: &Arc<Self>,
        task: &Task,
        work: impl FnOnce(CancellationToken) -> W,
    ) {
        let cancel = CancellationToken::new();
        locked(&self.live).insert(task.id.clone(), cancel.clone());
        let (tasks, id) = (Arc::clone(self), task.id.clone());
        let left = u64::try_from(task.expires_ms() - now_ms()).unwrap_or(0);
        let work = work(cancel);
        tokio::spawn(async move {
            let _busy = Presence::busy(&tasks.presence);
            let outcome = tokio::select! {
                outcome = work => Some(outcome),
                () = sleep(Duration::from_millis(left)) => None, // sleep: it is the task's time to live
            };
            let settled = match outcome {
                Some(Outcome::Answered(result)) => {
                    Some((TaskStatus::Completed, json!({"result": result})))
                }
                Some(Outcome::Failed(error)) => Some((TaskStatus::Failed, json!({"error": error}))),
                None => None,
            };
            let settle = || match &settled {
                Some((status, outcome)) => Ok(tasks.settle(&id, *status, outcome)?),
                None => Ok(tasks.forget_expired()?),
            };
            if let Err(error) = with_room(settle).await {
                tracing::error!(%error, "the end of a task could not be saved");
            }
            locked(&tasks.live).remove(&id);
            tasks.changed();
        });
    }

    /// Settles a task, unless it is already.
    fn settle(&self, id: &str, status: TaskStatus, outcome: &Value) -> Result<(), rusqlite::Error> {
        self.disk.lock().execute(
            "UPDATE task SET status = ?2, outcome = ?3, updated_ms = ?4
             WHERE id = ?1 AND status IN ('working', 'input_required')",
            params![id, label(status), outcome.to_string(), now_ms()],
        )?;
        Ok(())
    }

    /// Notes how far the work has come.
    pub(super) fn step(&self, id: &str, done: u64, message: &str) {
        let stepped = self.disk.lock().execute(
            "UPDATE task SET done = ?2, message = ?3, updated_ms = ?4
             WHERE id = ?1 AND status IN ('working', 'input_required')",
            params![
                id,
                i64::try_from(done).unwrap_or(i64::MAX),
                message,
                now_ms()
            ],
        );
        if let Err(error) = stepped {
            tracing::error!(%error, "a step of a task could not be saved");
        }
        self.changed();
    }

    /// Asks the task's client and returns the answer; one that was given before counts.
    pub(super) async fn ask(
        &self,
        id: &str,
        key: &str,
        request: &Value,
    ) -> Result<Value, DemoError> {
        let mut changes = self.changes();
        self.change_questions(id, |asked| {
            asked
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

    /// Takes answers by key. What was not asked, or has an answer, is ignored.
    pub(super) fn answer(
        &self,
        id: &str,
        answers: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<(), DemoError> {
        self.change_questions(id, |asked| {
            for (key, answer) in answers {
                if let Some(Value::Object(asked)) = asked.get_mut(&key) {
                    asked.entry("response").or_insert(answer);
                }
            }
        })
    }

    /// Changes the questions of a live task; its status says whether one is open.
    fn change_questions(
        &self,
        id: &str,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<(), DemoError> {
        let Some(mut task) = self.get(id)? else {
            return Ok(());
        };
        change(&mut task.asked);
        let status = if task.open_questions().next().is_some() {
            TaskStatus::InputRequired
        } else {
            TaskStatus::Working
        };
        self.disk.lock().execute(
            "UPDATE task SET status = ?2, asked = ?3, updated_ms = ?4
             WHERE id = ?1 AND status IN ('working', 'input_required')",
            params![id, label(status), json!(task.asked).to_string(), now_ms()],
        )?;
        self.changed();
        Ok(())
    }

    /// Cancels a task that is not settled; its work stops where it stands. Says whether it did.
    pub(super) fn cancel(&self, id: &str) -> Result<bool, rusqlite::Error> {
        let cancelled = self.disk.lock().execute(
            "UPDATE task SET status = 'cancelled', message = 'Cancelled', updated_ms = ?2
             WHERE id = ?1 AND status IN ('working', 'input_required')",
            params![id, now_ms()],
        )?;
        if let Some(cancel) = locked(&self.live).get(id) {
            cancel.cancel();
        }
        self.changed();
        Ok(cancelled > 0)
    }
}
