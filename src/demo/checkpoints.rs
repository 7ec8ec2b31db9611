//! The checkpoint store: how far each piece of resumable work has come, on disk.
//!
//! Owns the tables `checkpoint` and `processed`. Must not know what runs now (`runs` does). Invariant: the rows of a
//! batch and the checkpoint that counts them are one transaction, so whatever is interrupted, the sum is right.

use std::{path::Path, sync::Arc};

use rusqlite::{OptionalExtension, Row, params};
use serde_json::{Value, json};

use super::{
    DemoError,
    disk::{self, Disk, now_ms, random_id, rfc3339},
};

/// Milliseconds of a day.
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The states of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Running,
    Paused,
    Cancelled,
    Completed,
    Failed,
    /// The server died while it ran, or the connection of its call did.
    Interrupted,
}

impl Status {
    /// The word that clients read.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }

    fn of(word: &str) -> Self {
        match word {
            "running" => Self::Running,
            "paused" => Self::Paused,
            "cancelled" => Self::Cancelled,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            _ => Self::Interrupted,
        }
    }
}

/// One piece of resumable work. Its key is client id, tool and arguments: the same call goes on where it stopped.
#[derive(Debug, Clone)]
pub(super) struct Checkpoint {
    pub(super) task_id: String,
    pub(super) client_id: String,
    pub(super) tool: String,
    pub(super) status: Status,
    /// Records done.
    pub(super) progress: u64,
    /// Records to do.
    pub(super) total: u64,
    pub(super) message: String,
    created_ms: i64,
    updated_ms: i64,
}

impl Checkpoint {
    fn of(row: &Row<'_>) -> Result<Self, rusqlite::Error> {
        Ok(Self {
            task_id: row.get("task_id")?,
            client_id: row.get("client_id")?,
            tool: row.get("tool")?,
            status: Status::of(&row.get::<_, String>("status")?),
            progress: row.get::<_, i64>("progress")?.unsigned_abs(),
            total: row.get::<_, i64>("total")?.unsigned_abs(),
            message: row.get("message")?,
            created_ms: row.get("created_ms")?,
            updated_ms: row.get("updated_ms")?,
        })
    }

    /// As `list_session_tasks` shows it.
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

/// The store.
pub(super) struct Checkpoints {
    disk: Arc<Disk>,
}

impl Checkpoints {
    /// Opens the store of this boot; what ran when the last boot died is interrupted. Its time stays: nothing has moved.
    pub(super) fn open(disk: Arc<Disk>) -> Result<Self, DemoError> {
        disk.lock().execute(
            "UPDATE checkpoint SET status = 'interrupted' WHERE status = 'running'",
            [],
        )?;
        Ok(Self { disk })
    }

    /// The checkpoint of a key, made at 0 if there is none.
    pub(super) fn of_key(
        &self,
        client_id: &str,
        tool: &str,
        arguments: &str,
        total: u64,
    ) -> Result<Checkpoint, DemoError> {
        let disk = self.disk.lock();
        let find = || {
            disk.query_row(
                "SELECT * FROM checkpoint WHERE client_id = ?1 AND tool = ?2 AND arguments = ?3",
                params![client_id, tool, arguments],
                Checkpoint::of,
            )
            .optional()
        };
        if let Some(found) = find()? {
            return Ok(found);
        }
        let task_id = random_id().map_err(DemoError::io("draw a task id"))?;
        disk.execute(
            "INSERT INTO checkpoint VALUES (?1, ?2, ?3, ?4, 'interrupted', 0, ?5, '', ?6, ?6)",
            params![task_id, client_id, tool, arguments, signed(total), now_ms()],
        )?;
        find()?.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
    }

    /// The checkpoint of a task id.
    pub(super) fn of_task(&self, task_id: &str) -> Result<Option<Checkpoint>, rusqlite::Error> {
        let disk = self.disk.lock();
        disk.query_row(
            "SELECT * FROM checkpoint WHERE task_id = ?1",
            [task_id],
            Checkpoint::of,
        )
        .optional()
    }

    /// The checkpoints of a client, oldest first.
    pub(super) fn of_client(&self, client_id: &str) -> Result<Vec<Checkpoint>, rusqlite::Error> {
        let disk = self.disk.lock();
        disk.prepare("SELECT * FROM checkpoint WHERE client_id = ?1 ORDER BY created_ms, rowid")?
            .query_map([client_id], Checkpoint::of)?
            .collect()
    }

    /// Does the work of one batch: writes its rows and moves the checkpoint to `end`, in one transaction.
    pub(super) fn commit_batch(
        &self,
        task: &Checkpoint,
        dataset: &str,
        begin: u64,
        end: u64,
    ) -> Result<(), rusqlite::Error> {
        let mut disk = self.disk.lock();
        let commit = disk.transaction()?;
        {
            let mut insert = commit.prepare_cached(
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
        commit.execute(
            "UPDATE checkpoint SET progress = ?2, message = ?3, updated_ms = ?4 WHERE task_id = ?1",
            params![
                task.task_id,
                signed(end),
                format!("Processed {end}/{} records", task.total),
                now_ms()
            ],
        )?;
        commit.commit()
    }

    /// Notes a new status.
    pub(super) fn set_status(&self, task_id: &str, status: Status) -> Result<(), rusqlite::Error> {
        self.disk.lock().execute(
            "UPDATE checkpoint SET status = ?2, updated_ms = ?3 WHERE task_id = ?1",
            params![task_id, status.label(), now_ms()],
        )?;
        Ok(())
    }

    /// Counts, as `get_checkpoint_stats` shows them.
    pub(super) fn stats(&self) -> Result<Value, rusqlite::Error> {
        let disk = self.disk.lock();
        let mut by_status = serde_json::Map::new();
        let mut counts = disk
            .prepare("SELECT status, count(*) FROM checkpoint GROUP BY status ORDER BY status")?;
        let mut total = 0;
        for count in counts.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))? {
            let (status, count): (String, i64) = count?;
            total += count;
            by_status.insert(status, count.into());
        }
        let rows: i64 = disk.query_row("SELECT count(*) FROM processed", [], |row| row.get(0))?;
        let events: i64 = disk.query_row("SELECT count(*) FROM event", [], |row| row.get(0))?;
        Ok(json!({
            "checkpoints": total,
            "by_status": by_status,
            "records_processed": rows,
            "events_stored": events,
        }))
    }

    /// Forgets checkpoints, and their rows, that have not moved for so many days; running ones stay.
    pub(super) fn forget_older_than(&self, days: u64) -> Result<usize, rusqlite::Error> {
        let before = cutoff_ms(now_ms(), days);
        let mut disk = self.disk.lock();
        let commit = disk.transaction()?;
        commit.execute(
            "DELETE FROM processed WHERE task_id IN
             (SELECT task_id FROM checkpoint WHERE updated_ms < ?1 AND status <> 'running')",
            [before],
        )?;
        let forgotten = commit.execute(
            "DELETE FROM checkpoint WHERE updated_ms < ?1 AND status <> 'running'",
            [before],
        )?;
        commit.commit()?;
        Ok(forgotten)
    }
}

/// The moment so many days before `now_ms`. Counted in milliseconds: a calendar's day number has no day 0 before the 1st.
fn cutoff_ms(now_ms: i64, days: u64) -> i64 {
    let days = i64::try_from(days).unwrap_or(i64::MAX);
    now_ms.saturating_sub(days.saturating_mul(DAY_MS))
}

/// SQLite counts in signed numbers.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// See [`super::rows`].
pub(super) fn rows(dir: &Path, client_id: &str) -> Result<u64, DemoError> {
    let count: i64 = disk::connect(dir)?.query_row(
        "SELECT count(*) FROM processed WHERE client_id = ?1",
        [client_id],
        |row| row.get(0),
    )?;
    Ok(count.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: &str) -> i64 {
        format!("{day}T12:00:00Z")
            .parse::<jiff::Timestamp>()
            .unwrap()
            .as_millisecond()
    }

    #[test]
    fn a_cutoff_is_right_across_the_ends_of_months_and_years() {
        assert_eq!(cutoff_ms(at("2026-03-01"), 1), at("2026-02-28"));
        assert_eq!(cutoff_ms(at("2028-03-01"), 1), at("2028-02-29"));
        assert_eq!(cutoff_ms(at("2026-01-03"), 7), at("2025-12-27"));
        assert_eq!(cutoff_ms(at("2026-05-31"), 31), at("2026-04-30"));
        assert!(cutoff_ms(at("2026-05-31"), u64::MAX) < at("0001-01-01"));
    }
}
