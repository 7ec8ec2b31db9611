//! The events that the user's hook must still be run for: a table of the session file, so that no end and no question
//! is missed, whichever process sees it.
//!
//! An event is written in the transaction that saves the end or the question itself, so neither is on disk without the
//! other. The driver then claims one event after the other, each in a transaction of its own, and starts the
//! hook after that. What holds when longhaul is killed with `kill -9`:
//! - before the claim: the event waits, and the next driver runs the hook for it;
//! - after the hook was started: the event is claimed, and the hook is not run for it again;
//! - between the claim and the start, a window of about a millisecond: it is unknown whether the command began. It is
//!   not run a second time; the next driver says so in a notice and names the task.
//!
//! A power failure can undo a claim; the hook may then run twice.

use rusqlite::{Connection, OpenFlags, Transaction, params};

use super::{
    Paths, StoreError, StoreResult,
    rows::{all, execute, first},
    schema,
};
use crate::domain::{NotifyLevel, NotifyReason, Status, Task, TaskId};

/// Not claimed.
const WAITING: u8 = 0;
/// Claimed; the hook is about to start.
const CLAIMED: u8 = 1;
/// The hook was started; the row stays so that the same event is not added again.
const STARTED: u8 = 2;

/// One pending run of the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookEvent {
    number: i64,
    /// The task that ended or asks a question.
    pub task: TaskId,
    /// What the hook is run for.
    pub occasion: NotifyReason,
}

/// The events of a session that wait for the hook; only the process that holds the
/// [`DriverLock`](super::DriverLock) opens it, after its [`Writer`](super::Writer).
#[derive(Debug)]
pub struct HookEvents {
    connection: Connection,
    path: std::path::PathBuf,
}

impl HookEvents {
    /// Opens the events of a session. Fails with [`StoreError::CannotWrite`] and [`StoreError::Damaged`].
    pub fn open(paths: &Paths) -> StoreResult<Self> {
        let path = paths.db();
        let connection = schema::connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(|error| StoreError::writing(&path, &error))?;
        Ok(Self { connection, path })
    }

    /// Claims the oldest waiting event.
    pub fn claim(&mut self) -> StoreResult<Option<HookEvent>> {
        let sql = "UPDATE hook_event SET state = ?1 WHERE number = \
                   (SELECT number FROM hook_event WHERE state = ?2 ORDER BY number LIMIT 1) \
                   RETURNING number, task, needs_you";
        self.ask(|connection| {
            first(connection, sql, [CLAIMED, WAITING], |row| {
                <(_, String, bool)>::try_from(row)
            })
        })
        .map(|found| {
            found.and_then(|(number, task, needs_you)| {
                let occasion = if needs_you {
                    NotifyReason::NeedsYou
                } else {
                    NotifyReason::Done
                };
                Some(HookEvent {
                    number,
                    task: TaskId::parse(&task)?,
                    occasion,
                })
            })
        })
    }

    /// Records that the hook of a claimed event was started, or failed to start.
    pub fn started(&mut self, event: &HookEvent) -> StoreResult<()> {
        self.ask(|connection| {
            let sql = "UPDATE hook_event SET state = ?1 WHERE number = ?2";
            execute(connection, sql, params![STARTED, event.number]).map(drop)
        })
    }

    /// The tasks whose events were claimed by a process that died then; they are not claimed again.
    pub fn give_up_claims(&mut self) -> StoreResult<Vec<String>> {
        self.ask(|connection| {
            let sql = "UPDATE hook_event SET state = ?1 WHERE state = ?2 RETURNING task";
            all(connection, sql, [STARTED, CLAIMED], |row| row.get(0))
        })
    }

    /// Adds an event that is not part of the task's record, named by `what`.
    pub fn add(&mut self, task: &TaskId, what: &str, occasion: NotifyReason) -> StoreResult<()> {
        self.ask(|connection| insert(connection, task, what, occasion).map(drop))
    }

    fn ask<T>(
        &mut self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> StoreResult<T> {
        question(&self.connection).map_err(|error| StoreError::writing(&self.path, &error))
    }
}

/// Adds the events of a record before it is written; returns whether there are any.
pub(super) fn add_of(
    transaction: &Transaction<'_>,
    task: &Task,
    on: NotifyLevel,
) -> rusqlite::Result<bool> {
    let Some(occasion) = task.notify_reason().filter(|it| on.includes(*it)) else {
        return Ok(false);
    };
    if task.status.is_settled() {
        let sql = "SELECT is_settled FROM task WHERE id = ?1";
        let before = first(transaction, sql, [task.id.as_str()], |row| row.get(0))?;
        // A settled task is written again when it is seen, renamed or forgotten.
        if before == Some(true) {
            return Ok(false);
        }
        return insert(transaction, &task.id, "end", occasion);
    }
    if matches!(task.status, Status::Unknown(_)) {
        let what = format!("unknown {}", task.attempts_made());
        return insert(transaction, &task.id, &what, occasion);
    }
    let mut is_new = false;
    let mut before = None;
    for question in task.open_questions() {
        // Its key changes when the server asks the same again.
        let at = question.asked_at;
        let beside = before.map_or(0, |(time, count)| if time == at { count + 1 } else { 0 });
        before = Some((at, beside));
        let what = format!("question {} {beside}", at.0);
        is_new |= insert(transaction, &task.id, &what, occasion)?;
    }
    Ok(is_new)
}

fn insert(
    connection: &Connection,
    task: &TaskId,
    what: &str,
    occasion: NotifyReason,
) -> rusqlite::Result<bool> {
    let needs_you = occasion == NotifyReason::NeedsYou;
    let added = execute(
        connection,
        "INSERT OR IGNORE INTO hook_event (task, what, needs_you, state) VALUES (?1, ?2, ?3, ?4)",
        params![task.as_str(), what, needs_you, WAITING],
    )?;
    Ok(added > 0)
}
