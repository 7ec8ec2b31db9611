//! The one writer of a session: opens it in whatever state a crash left it, and saves rows atomically.

use std::{
    fs::{self, OpenOptions, Permissions},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, config::DbConfig, params};

use super::{
    Paths, StoreError, StoreResult,
    error::{
        PERMIT, has_no_room_for_shared_memory, is_damage, is_without_shared_memory, message,
        passed_over,
    },
    paths::{check_file, check_whole, companion},
    schema,
};
use crate::{
    domain::{EventId, HistoryEntry, LinkRecord, Row, ServerName, Task, TaskId, Wall, text},
    store::{
        quarantine::{quarantine, set_aside_as},
        rows::{all, execute, first, json, parse, records, signed, unsigned},
        thinning::{STEPS_LIMIT, insert, is_step, thin},
    },
};

/// How long a forgotten task can be brought back; the words of `rm` and of `u` say seven days.
const UNDO_MS: i64 = 7 * 24 * 3600 * 1000;

/// Settled tasks restored at the start; older ones are found through [`Reader::task`](super::Reader::task).
const SETTLED_KEPT: u32 = 1000;

/// Event ids restored for each task: more than any server was seen to replay twice.
const RECENT_IDS: usize = 1024;

/// Pages of the log after which [`Writer::shorten_log`] copies them into the file.
const LOG_PAGES: i32 = 1000;

/// Entries searched for those ids; a server that sends none must not make the start read everything.
const ENTRIES_SEARCHED: usize = 20_000;

/// How durable a save has to be before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Survives a power failure: intents, first ids, answers, results.
    Full,
    /// Survives the death of this process; a power failure may lose the last moments.
    Normal,
}

/// The connection that writes the session file; there is one, in the process that holds the
/// [`DriverLock`](super::DriverLock).
#[derive(Debug)]
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    /// Device and inode of the file, to check that it was not replaced.
    identity: (u64, u64),
    durability: Option<Durability>,
    /// The pages in the log after the last save.
    log_pages: Arc<AtomicI32>,
}

/// The result of opening a session.
#[derive(Debug)]
pub struct Opened {
    /// The writer.
    pub writer: Writer,
    /// What was saved.
    pub restored: Restored,
    /// Warnings for the user, one sentence each.
    pub notices: Vec<String>,
}

/// The restored contents of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restored {
    /// The servers.
    pub links: Vec<LinkRecord>,
    /// All tasks that are not settled, then the newest settled ones; each oldest first.
    pub tasks: Vec<RestoredTask>,
}

/// A task that was saved.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredTask {
    /// The record.
    pub task: Task,
    /// The newest event ids in the history of its current attempt, oldest first; empty for a settled task.
    pub recent_ids: Vec<EventId>,
}

impl Writer {
    /// Opens or creates the session file and returns its contents.
    ///
    /// The caller holds the driver's lock. A damaged file is quarantined, which a notice reports, and a new one
    /// takes its place. `now` names that file and decides which forgotten tasks are purged. Fails with
    /// [`StoreError::Refused`], [`StoreError::CannotOpen`], [`StoreError::Newer`] and [`StoreError::NoWal`].
    pub fn open(paths: &Paths, now: Wall) -> StoreResult<Opened> {
        let db = paths.db();
        let is_new = fs::symlink_metadata(&db).is_err();
        let mut notices = Vec::new();
        let opened = match check_whole(&db).and_then(|()| Self::try_open(&db, now)) {
            Err(StoreError::Damaged { why, .. }) => {
                let place = quarantine(paths, now)?;
                let words = format!("this session starts empty ({why})");
                notices.push(set_aside_as(&db, &place, &words));
                Self::try_open(&db, now)
            }
            other => other,
        };
        if opened.is_err() && is_new && fs::metadata(&db).is_ok_and(|file| file.len() == 0) {
            // An empty file would look like a session that was lost.
            let _ = fs::remove_file(&db);
        }
        let (writer, restored, unreadable) = opened.map_err(|error| match notices.pop() {
            None => error,
            Some(notice) => StoreError::AfterSettingAside {
                notice,
                error: Box::new(error),
            },
        })?;
        if unreadable > 0 {
            notices.push(passed_over(unreadable, &db));
        }
        Ok(Opened {
            writer,
            restored,
            notices,
        })
    }

    fn try_open(db: &Path, now: Wall) -> StoreResult<(Self, Restored, u64)> {
        make_private(db)?;
        for suffix in ["-wal", "-shm"] {
            check_file(&companion(db, suffix))?;
        }
        let fail = |error: rusqlite::Error| trouble(db, &error);
        let mut connection =
            schema::connect(db, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(fail)?;
        // Closing a damaged file would merge its log into it. It must be quarantined as it was found.
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(fail)?;
        let application: i32 = connection
            .pragma_query_value(None, "application_id", |row| row.get(0))
            .map_err(fail)?;
        let found = schema::version(&connection).map_err(fail)?;
        if application == schema::APPLICATION_ID
            && found <= schema::VERSION
            && let Some(why) = schema::foreign_object(&connection).map_err(fail)?
        {
            return Err(StoreError::damaged(db, why));
        }
        let verdict: String = connection
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
            .map_err(fail)?;
        if verdict != "ok" {
            return Err(StoreError::damaged(db, text::clean_line(&verdict)));
        }
        if is_cut(db, &connection)? {
            return Err(StoreError::damaged(db, "its end is missing"));
        }
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .map_err(fail)?;
        if (found > 0 || tables > 0) && application != schema::APPLICATION_ID {
            return Err(StoreError::refused(db, "it is another program's database"));
        }
        if found > schema::VERSION {
            return Err(StoreError::newer(db, found));
        }
        if connection.is_readonly("main").map_err(fail)? {
            let why = "the file or its disk is read-only";
            return Err(StoreError::cannot_open(db, why, PERMIT));
        }
        // The first write; until here, a damaged file or another program's file is left as it was found.
        let mode: String = connection
            .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
            .map_err(fail)?;
        if mode != "wal" {
            return Err(StoreError::NoWal {
                path: db.to_owned(),
                why: format!("it stays in mode {mode}"),
            });
        }
        schema::migrate(&mut connection, found).map_err(fail)?;
        let place = fs::symlink_metadata(db).map_err(StoreError::open_io(db))?;
        let mut writer = Self {
            connection,
            path: db.to_owned(),
            identity: (place.dev(), place.ino()),
            durability: None,
            log_pages: Arc::default(),
        };
        writer.purge(now).map_err(fail)?;
        writer.count_log_pages().map_err(fail)?;
        let (restored, unreadable) = writer.restore().map_err(fail)?;
        // The usual size of SQLite: with less, saving a flood of steps takes longer.
        let connection = &writer.connection;
        connection
            .pragma_update(None, "cache_size", -2000)
            .map_err(fail)?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(fail)?;
        Ok((writer, restored, unreadable))
    }

    /// Takes the place of the checkpoint that SQLite would make inside a save.
    fn count_log_pages(&mut self) -> rusqlite::Result<()> {
        let log_pages = Arc::clone(&self.log_pages);
        let count = move |_: &mut rusqlite::hooks::Wal, pages| {
            log_pages.store(pages, Ordering::Relaxed);
            Ok(())
        };
        self.connection.wal_hook(Some(count))
    }

    /// Writes all rows in one transaction, or none of them.
    ///
    /// The same rows may be saved again after a failure: history that was already saved is left alone. `now` is kept
    /// as the time of the newest save. Fails with [`StoreError::CannotWrite`], after which the same save may be tried
    /// again on this writer, and [`StoreError::Damaged`].
    pub fn save<'r>(
        &mut self,
        rows: impl IntoIterator<Item = &'r Row>,
        durability: Durability,
        now: Wall,
    ) -> StoreResult<()> {
        self.check_place()?;
        self.write(rows, durability, now)
            .map_err(|error| StoreError::writing(&self.path, &error))
    }

    fn write<'r>(
        &mut self,
        rows: impl IntoIterator<Item = &'r Row>,
        durability: Durability,
        now: Wall,
    ) -> rusqlite::Result<()> {
        if self.durability != Some(durability) {
            let word = match durability {
                Durability::Full => "FULL",
                Durability::Normal => "NORMAL",
            };
            self.connection.pragma_update(None, "synchronous", word)?;
            self.durability = Some(durability);
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for row in rows {
            write_row(&transaction, row)?;
        }
        // An update leaves the index alone: one page less in each save.
        let meta = "INSERT INTO meta (key, value) VALUES ('saved_at', ?1) \
                    ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        execute(&transaction, meta, [now.0])?;
        transaction.commit()
    }

    /// Copies a long log into the file. That waits for the disk, so it is done when nobody waits for a save; a failure
    /// loses nothing, because the data stays in the log.
    pub fn shorten_log(&self) {
        if self.log_pages.load(Ordering::Relaxed) >= LOG_PAGES {
            let _ = self
                .connection
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        }
    }

    /// Removes a server from the session; its tasks stay. `false` if the session has no such server.
    ///
    /// Fails as [`Self::save`] does.
    pub fn remove_link(&mut self, name: &ServerName) -> StoreResult<bool> {
        self.check_place()?;
        let removed = self
            .connection
            .execute("DELETE FROM link WHERE name = ?1", [name.as_str()]);
        let removed = removed.map_err(|error| StoreError::writing(&self.path, &error))?;
        Ok(removed > 0)
    }

    /// A deleted file accepts every write and keeps none.
    fn check_place(&self) -> StoreResult<()> {
        let why = match fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => return Ok(()),
            Ok(_) => "it was replaced by another file while longhaul ran",
            Err(_) => "it was moved or removed while longhaul ran; put it back or restart longhaul",
        };
        Err(StoreError::CannotWrite {
            path: self.path.clone(),
            why: why.to_owned(),
        })
    }

    /// Deletes tasks that were forgotten more than seven days ago.
    fn purge(&mut self, now: Wall) -> rusqlite::Result<()> {
        let before = now.0.saturating_sub(UNDO_MS);
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "SELECT id FROM task WHERE forgotten_at <= ?1";
        let ids: Vec<String> = all(&transaction, sql, [before], |row| row.get(0))?;
        for id in &ids {
            erase(&transaction, id)?;
        }
        transaction.commit()
    }

    fn restore(&self) -> rusqlite::Result<(Restored, u64)> {
        let (connection, mut unreadable) = (&self.connection, 0);
        let links = "SELECT body FROM link ORDER BY name";
        let mut restored = Restored {
            links: records(connection, links, [], &mut unreadable)?,
            tasks: Vec::new(),
        };
        let unsettled = "SELECT body FROM task WHERE is_settled = 0 ORDER BY created_at, id";
        let mut tasks: Vec<Task> = records(connection, unsettled, [], &mut unreadable)?;
        let settled = format!(
            "SELECT body FROM (SELECT * FROM task WHERE is_settled = 1 ORDER BY created_at DESC, id DESC \
             LIMIT {SETTLED_KEPT}) ORDER BY created_at, id"
        );
        tasks.extend(records(connection, &settled, [], &mut unreadable)?);
        for task in tasks {
            let recent_ids = if task.status.is_settled() {
                Vec::new()
            } else {
                recent_ids(connection, &task, &mut unreadable)?
            };
            restored.tasks.push(RestoredTask { task, recent_ids });
        }
        Ok((restored, unreadable))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SQLite empties the log only if no one else has the file open, and a reader in this process usually does.
        // With an empty log the session can be read where there is no room for shared memory. This is best effort:
        // nothing waits for it, and the data is just as safe in the log.
        let _ = self.connection.busy_timeout(Duration::ZERO).and_then(|()| {
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            self.connection.query_row(checkpoint, [], |_| Ok(()))
        });
    }
}

/// The record of one task.
pub(super) fn task_by_id(connection: &Connection, id: &TaskId) -> rusqlite::Result<Option<Task>> {
    let sql = "SELECT body FROM task WHERE id = ?1";
    first(connection, sql, [id.as_str()], |row| {
        parse(row.get_ref(0)?.as_bytes()?)
    })
}

/// The newest event ids in the history of a task's current attempt, oldest first; chunks that cannot be parsed are
/// skipped and counted.
pub(super) fn recent_ids(
    connection: &Connection,
    task: &Task,
    unreadable: &mut u64,
) -> rusqlite::Result<Vec<EventId>> {
    let attempt = task.attempts_made();
    let mut ids = Vec::new();
    let mut searched = 0;
    let mut query = connection
        .prepare_cached("SELECT body FROM history WHERE task = ?1 ORDER BY first_seq DESC")?;
    let mut rows = query.query([task.id.as_str()])?;
    'chunks: while let Some(row) = rows.next()? {
        let Ok(entries) = serde_json::from_slice::<Vec<HistoryEntry>>(row.get_ref(0)?.as_bytes()?)
        else {
            *unreadable += 1;
            continue;
        };
        for entry in entries.into_iter().rev() {
            searched += 1;
            if ids.len() >= RECENT_IDS || searched > ENTRIES_SEARCHED {
                break 'chunks;
            }
            // A late line of an earlier attempt can follow the first of this one.
            if entry.attempt == attempt {
                ids.extend(entry.event_id);
            }
        }
    }
    ids.reverse();
    Ok(ids)
}

fn write_row(transaction: &Transaction<'_>, row: &Row) -> rusqlite::Result<()> {
    match row {
        Row::Task(task) => {
            let body = json(task)?;
            let values = params![
                task.id.as_str(),
                body,
                task.status.is_settled(),
                task.options.once,
                task.created_at.0,
                task.forgotten_at.map(|at| at.0),
            ];
            // Usually only the body is new, and then no index is touched.
            let update = "UPDATE task SET body = ?2 WHERE id = ?1 AND is_settled = ?3 AND once IS ?4 \
                          AND created_at = ?5 AND forgotten_at IS ?6";
            if execute(transaction, update, values)? > 0 {
                return Ok(());
            }
            execute(
                transaction,
                "INSERT INTO task (id, body, is_settled, once, created_at, forgotten_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET body = excluded.body, \
                 is_settled = excluded.is_settled, once = excluded.once, \
                 created_at = excluded.created_at, forgotten_at = excluded.forgotten_at",
                values,
            )?;
        }
        Row::History { task, entries } => append(transaction, task.as_str(), entries)?,
        Row::Result { task, json } => {
            let sql = "INSERT OR REPLACE INTO result (task, json) VALUES (?1, ?2)";
            execute(transaction, sql, [task.as_str(), json])?;
        }
        Row::Link(link) => {
            let sql = "INSERT OR REPLACE INTO link (name, body) VALUES (?1, ?2)";
            execute(transaction, sql, [link.name.as_str(), &json(link)?])?;
        }
        Row::Erase(task) => erase(transaction, task.as_str())?,
    }
    Ok(())
}

fn erase(transaction: &Transaction<'_>, task: &str) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM task WHERE id = ?1",
        "DELETE FROM result WHERE task = ?1",
        "DELETE FROM history WHERE task = ?1",
        "DELETE FROM history_size WHERE task = ?1",
    ] {
        execute(transaction, sql, [task])?;
    }
    Ok(())
}

/// Adds entries newer than the newest saved one, so that a repeated save duplicates nothing.
fn append(
    transaction: &Transaction<'_>,
    task: &str,
    entries: &[HistoryEntry],
) -> rusqlite::Result<()> {
    let sql = "SELECT last_seq FROM history WHERE task = ?1 ORDER BY first_seq DESC LIMIT 1";
    let newest = first(transaction, sql, [task], |row| row.get(0))?.map_or(0, unsigned);
    let saved = entries.partition_point(|entry| entry.seq <= newest);
    let Some(fresh) = entries.get(saved..).filter(|fresh| !fresh.is_empty()) else {
        return Ok(());
    };
    let steps = fresh.iter().filter(|entry| is_step(entry)).count() as u64;
    let total: i64 = transaction
        .prepare_cached(
            "INSERT INTO history_size (task, steps, left_out) VALUES (?1, ?2, 0) \
             ON CONFLICT (task) DO UPDATE SET steps = steps + excluded.steps RETURNING steps",
        )?
        .query_row(params![task, signed(steps)], |row| row.get(0))?;
    insert(transaction, task, fresh)?;
    if unsigned(total) > STEPS_LIMIT {
        thin(transaction, task, unsigned(total))?;
    }
    Ok(())
}

/// Classifies an error that occurred while opening.
fn trouble(db: &Path, error: &rusqlite::Error) -> StoreError {
    if is_damage(error) {
        StoreError::damaged(db, message(error))
    } else if is_without_shared_memory(error) && !has_no_room_for_shared_memory(error) {
        let (path, why) = (db.to_owned(), message(error));
        StoreError::NoWal { path, why }
    } else {
        StoreError::opening(db, error)
    }
}

/// Whether pages are missing at the end of the file, which SQLite reads as zeros.
///
/// A log may hold them: a full disk can stop a checkpoint anywhere. Then only the integrity check can tell.
fn is_cut(db: &Path, connection: &Connection) -> StoreResult<bool> {
    let length =
        |path: &Path| Ok::<_, StoreError>(check_file(path)?.map_or(0, |found| found.len()));
    if length(&companion(db, "-wal"))? > 0 {
        return Ok(false);
    }
    let pragma = |name| {
        let number = connection.pragma_query_value(None, name, |row| row.get(0).map(unsigned));
        number.map_err(|error| trouble(db, &error))
    };
    Ok(length(db)? < pragma("page_count")? * pragma("page_size")?)
}

/// Creates the file with mode 0600, or removes other users' access.
///
/// An existing file is not opened: closing it would drop the locks of every connection of this process.
fn make_private(db: &Path) -> StoreResult<()> {
    let fail = StoreError::open_io(db);
    match check_file(db)? {
        None => OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(db)
            .map(drop)
            .map_err(fail),
        Some(found) if found.mode() & 0o077 != 0 => {
            fs::set_permissions(db, Permissions::from_mode(0o600)).map_err(fail)
        }
        Some(_) => Ok(()),
    }
}
