//! The checkpoint store: the saved progress of resumable work, in the tables `checkpoint` and `processed`.
//!
//! Invariant: the rows of a batch and the checkpoint that counts them are one transaction, so an interruption never
//! makes them disagree.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Value, json};

use super::database::{Database, now_ms, random_id, rfc3339};
use crate::demo::error::DemoError;

/// The status of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum CheckpointStatus {
    Running,
    Paused,
    Cancelled,
    Completed,
    Failed,
    /// The server or the call's connection ended while it ran; also the status before the first run.
    Interrupted,
}

impl CheckpointStatus {
    /// The status as clients read it.
    pub(super) fn label(self) -> &'static str {
        self.into()
    }
}

/// The progress of one piece of resumable work. The key is client id, tool and arguments: repeating the same call
/// continues where it stopped.
#[derive(Debug, Clone)]
pub(super) struct CheckpointRecord {
    pub(super) task_id: String,
    pub(super) client_id: String,
    pub(super) tool: String,
    pub(super) status: CheckpointStatus,
    /// Records done.
    pub(super) progress: u64,
    /// Records to do.
    pub(super) total: u64,
    pub(super) message: String,
    created_ms: i64,
    updated_ms: i64,
}

impl CheckpointRecord {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let status: String = row.get("status")?;
        Ok(Self {
            task_id: row.get("task_id")?,
            client_id: row.get("client_id")?,
            tool: row.get("tool")?,
            status: status.parse().unwrap_or(CheckpointStatus::Interrupted),
            progress: row.get::<_, i64>("progress")?.unsigned_abs(),
            total: row.get::<_, i64>("total")?.unsigned_abs(),
            message: row.get("message")?,
            created_ms: row.get("created_ms")?,
            updated_ms: row.get("updated_ms")?,
        })
    }

    /// The entry in `list_session_tasks`.
    pub(super) fn json(&self) -> Value {
        json!({
            "task_id": self.task_id,
            "tool": self.tool,
            "status": self.status.label(),
            "progress": self.progress,
            "total": self.total,
            "message": self.message,
            "created_at": rfc3339(self.created_ms),
            "updated_at": rfc3339(self.updated_ms),
        })
    }
}

/// Selects the result of `get_checkpoint_stats`.
pub(super) const STATS: &str = "SELECT json_object(
    'checkpoints', (SELECT count(*) FROM checkpoint),
    'by_status', json((SELECT json_group_object(status, number) FROM
        (SELECT status, count(*) AS number FROM checkpoint GROUP BY status))),
    'records_processed', (SELECT count(*) FROM processed),
    'events_stored', (SELECT count(*) FROM event))";

/// Selects the result of `get_session_info`.
pub(super) const SESSION_INFO: &str = "SELECT json_object(
    'starts', max(id), 'started_at', strftime('%FT%TZ', max(started_ms) / 1000, 'unixepoch')) FROM boot";

/// A day is always this long, so that a month's end changes nothing.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The checkpoint store.
pub(super) struct Checkpoints {
    database: Arc<Database>,
}

impl Checkpoints {
    /// Opens the store and marks what was running in the last boot as interrupted. Keeps `updated_ms`: no work was done.
    pub(super) fn open(database: Arc<Database>) -> Result<Self, DemoError> {
        database.lock().execute(
            "UPDATE checkpoint SET status = 'interrupted' WHERE status = 'running'",
            [],
        )?;
        Ok(Self { database })
    }

    /// The checkpoint of a key, created at 0 records if there is none.
    pub(super) fn of_key(
        &self,
        client_id: &str,
        tool: &str,
        arguments: &str,
        total: u64,
    ) -> Result<CheckpointRecord, DemoError> {
        let database = self.database.lock();
        let find = || {
            database.query_row(
                "SELECT * FROM checkpoint WHERE client_id = ?1 AND tool = ?2 AND arguments = ?3",
                params![client_id, tool, arguments],
                CheckpointRecord::of,
            )
            .optional()
        };
        if let Some(found) = find()? {
            return Ok(found);
        }
        let task_id = random_id().map_err(DemoError::io("generate a task id"))?;
        database.execute(
            "INSERT INTO checkpoint VALUES (?1, ?2, ?3, ?4, 'interrupted', 0, ?5, '', ?6, ?6)",
            params![task_id, client_id, tool, arguments, signed(total), now_ms()],
        )?;
        find()?.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// The checkpoint with this task id.
    pub(super) fn of_task(&self, task_id: &str) -> rusqlite::Result<Option<CheckpointRecord>> {
        let database = self.database.lock();
        database
            .query_row(
                "SELECT * FROM checkpoint WHERE task_id = ?1",
                [task_id],
                CheckpointRecord::of,
            )
            .optional()
    }

    /// The checkpoints of a client, oldest first.
    pub(super) fn of_client(&self, client_id: &str) -> rusqlite::Result<Vec<CheckpointRecord>> {
        let database = self.database.lock();
        database
            .prepare("SELECT * FROM checkpoint WHERE client_id = ?1 ORDER BY created_ms, rowid")?
            .query_map([client_id], CheckpointRecord::of)?
            .collect()
    }

    /// Writes the rows of one batch and moves the checkpoint to `end`, in one transaction.
    pub(super) fn commit_batch(
        &self,
        task: &CheckpointRecord,
        dataset: &str,
        begin: u64,
        end: u64,
    ) -> rusqlite::Result<()> {
        let mut database = self.database.lock();
        let transaction = database.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT INTO processed (task_id, client_id, dataset, record) VALUES (?1, ?2, ?3, ?4)",
            )?;
            for record in begin..end {
                insert.execute(params![
                    task.task_id,
                    task.client_id,
                    dataset,
                    signed(record + 1)
                ])?;
            }
        }
        transaction.execute(
            "UPDATE checkpoint SET progress = ?2, message = ?3, updated_ms = ?4 WHERE task_id = ?1",
            params![
                task.task_id,
                signed(end),
                format!("Processed {end}/{} records", task.total),
                now_ms()
            ],
        )?;
        transaction.commit()
    }

    pub(super) fn set_status(
        &self,
        task_id: &str,
        status: CheckpointStatus,
    ) -> rusqlite::Result<()> {
        self.database.lock().execute(
            "UPDATE checkpoint SET status = ?2, updated_ms = ?3 WHERE task_id = ?1",
            params![task_id, status.label(), now_ms()],
        )?;
        Ok(())
    }

    /// The text that a query selects.
    pub(super) fn select_text(&self, sql: &str) -> rusqlite::Result<String> {
        self.database.lock().query_row(sql, [], |row| row.get(0))
    }

    /// Deletes the checkpoints, except running ones, that have not changed for this many days, with their records;
    /// returns how many.
    pub(super) fn delete_older_than(&self, days: u64) -> rusqlite::Result<usize> {
        let before = now_ms().saturating_sub(signed(days).saturating_mul(DAY_MS));
        let mut database = self.database.lock();
        let transaction = database.transaction()?;
        transaction.execute(
            "DELETE FROM processed WHERE task_id IN
             (SELECT task_id FROM checkpoint WHERE updated_ms <= ?1 AND status <> 'running')",
            [before],
        )?;
        let deleted = transaction.execute(
            "DELETE FROM checkpoint WHERE updated_ms <= ?1 AND status <> 'running'",
            [before],
        )?;
        transaction.commit()?;
        Ok(deleted)
    }
}

/// Converts for SQLite, whose integers are signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
