//! Reads a session, from any process and at any time.

use std::{
    ffi::OsString,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, Row, params};

use super::{
    Paths, StoreError, StoreResult,
    error::passed_over,
    paths::{check_file, check_whole, companion},
    schema,
    writer::{recent_ids, task_by_id},
};
use crate::{
    domain::{
        EventId, HistoryEntry, HistoryEvent, LinkRecord, Milestone, ServerName, Task, TaskId, Wall,
        is_task_id_prefix, milestone, without_lone_surrogates,
    },
    store::rows::{all, first, parse, records, signed, unsigned},
};

/// A read-only connection; works while another process writes, and before there is a file.
#[derive(Debug, Default)]
pub struct Reader {
    path: PathBuf,
    connection: Option<Connection>,
    /// Device and inode of the file, to detect that it was replaced.
    identity: Option<(u64, u64)>,
    /// Whether the connection was opened on a disk without writes; it may not see later changes.
    is_makeshift: bool,
    /// How many records of the newest list were skipped.
    passed_over: u64,
}

/// Device and inode of a file, and SQLite's counter of other connections' writes.
pub type Version = ((u64, u64), i64);

/// Which tasks to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Include forgotten tasks.
    pub all: bool,
    /// The maximum number of tasks, newest first.
    pub limit: Option<usize>,
}

impl ListFilter {
    /// All tasks.
    pub const ALL: Self = Self {
        all: true,
        limit: None,
    };
}

/// The result of looking up a prefix of a task id.
#[derive(Clone, Debug, PartialEq)]
pub enum Lookup {
    /// The one task.
    One(Box<Task>),
    /// No task.
    None,
    /// More than one, newest first.
    Many(Vec<TaskId>),
}

impl Reader {
    /// Opens the session for reading.
    ///
    /// Without a file the session is empty, and the next query looks again. Fails with
    /// [`StoreError::Refused`], [`StoreError::CannotRead`] and [`StoreError::Damaged`], as every query does; one
    /// about a single record also with [`StoreError::NotUnderstood`].
    pub fn open(paths: &Paths) -> StoreResult<Self> {
        let mut reader = Self {
            path: paths.db(),
            ..Self::default()
        };
        reader.connection()?;
        Ok(reader)
    }

    /// The connection, once there is a file with tables in it.
    fn connection(&mut self) -> StoreResult<Option<&Connection>> {
        // A damaged file is moved aside while others read it; new data is in its replacement.
        let found = check_file(&self.path)?.map(|found| (found.dev(), found.ino()));
        if self.is_makeshift || found.is_some() && found != self.identity {
            self.connection = None;
        }
        if self.connection.is_none() {
            check_whole(&self.path)?;
            if found.is_none() {
                return Ok(None);
            }
            let mut opened = open_and_ask(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY);
            self.is_makeshift = matches!(&opened, Err(error) if may_be_for_want_of_place(error));
            if self.is_makeshift {
                opened = open_without_place(&self.path);
            }
            let (connection, version) =
                opened.map_err(|error| StoreError::reading(&self.path, &error))?;
            if version <= schema::VERSION {
                let found = schema::foreign_object(&connection);
                let found = found.map_err(|error| StoreError::reading(&self.path, &error))?;
                if let Some(why) = found {
                    return Err(StoreError::damaged(&self.path, why));
                }
            }
            // The driver is about to create the tables.
            if version == 0 {
                return Ok(None);
            }
            (self.connection, self.identity) = (Some(connection), found);
        }
        Ok(self.connection.as_ref())
    }

    fn ask<T>(
        &mut self,
        empty: T,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> StoreResult<T> {
        let answer = match self.connection()? {
            Some(connection) => question(connection),
            None => Ok(empty),
        };
        answer.map_err(|error| match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, why) => StoreError::NotUnderstood {
                path: self.path.clone(),
                why: why.to_string(),
            },
            error => StoreError::reading(&self.path, &error),
        })
    }

    /// The tasks, newest first; [`Self::notice`] reports those that cannot be parsed.
    pub fn tasks(&mut self, filter: ListFilter) -> StoreResult<Vec<Task>> {
        let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok());
        self.list(
            "SELECT body FROM task WHERE ?1 OR forgotten_at IS NULL \
             ORDER BY created_at DESC, id DESC LIMIT ?2",
            params![filter.all, limit.unwrap_or(-1)],
        )
    }

    fn list<T: serde::de::DeserializeOwned>(
        &mut self,
        sql: &str,
        given: impl rusqlite::Params,
    ) -> StoreResult<Vec<T>> {
        let mut passed_over = 0;
        let records = self.ask(Vec::new(), |connection| {
            records(connection, sql, given, &mut passed_over)
        })?;
        self.passed_over = passed_over;
        Ok(records)
    }

    /// A warning about the newest list, in one sentence.
    pub fn notice(&self) -> Option<String> {
        (self.passed_over > 0).then(|| passed_over(self.passed_over, &self.path))
    }

    /// The task whose id begins with `prefix`; a forgotten one only if no other does.
    pub fn task(&mut self, prefix: &str) -> StoreResult<Lookup> {
        if !is_task_id_prefix(prefix) {
            return Ok(Lookup::None);
        }
        self.ask(Lookup::None, |connection| {
            // Ids are letters and digits, all of which sort before a tilde.
            let sql = "SELECT id, forgotten_at IS NULL FROM task WHERE id >= ?1 AND id < ?1 || '~' \
                       ORDER BY created_at DESC, id DESC";
            let found: Vec<(String, bool)> = all(connection, sql, [prefix], |row| row.try_into())?;
            let is_any_shown = found.iter().any(|(_, is_shown)| *is_shown);
            let shown = found
                .iter()
                .filter(|(_, is_shown)| *is_shown || !is_any_shown);
            let mut ids: Vec<TaskId> = shown.filter_map(|(id, _)| TaskId::parse(id)).collect();
            // A complete id names its task even if it is a prefix of others.
            if let Some(exact) = TaskId::parse(prefix) {
                ids = vec![exact];
            }
            match ids.as_slice() {
                [] => Ok(Lookup::None),
                [id] => Ok(match task_by_id(connection, id)? {
                    Some(task) => Lookup::One(Box::new(task)),
                    None => Lookup::None,
                }),
                _ => Ok(Lookup::Many(ids)),
            }
        })
    }

    /// The task that used a `--once` key before, forgotten or not.
    pub fn once(&mut self, key: &str) -> StoreResult<Option<TaskId>> {
        self.ask(None, |connection| {
            let sql = "SELECT id FROM task WHERE once = ?1 ORDER BY created_at DESC LIMIT 1";
            let found: Option<String> = first(connection, sql, [key], |row| row.get(0))?;
            Ok(found.as_deref().and_then(TaskId::parse))
        })
    }

    /// The tasks that are server tasks: the server's id, ours, and whether ours is forgotten. Lost ones are left out, unless
    /// they are forgotten: the server may know them again.
    pub fn server_tasks(
        &mut self,
        server: &ServerName,
    ) -> StoreResult<Vec<(String, TaskId, bool)>> {
        self.ask(Vec::new(), |connection| {
            let sql = "SELECT body ->> 'server_task_id', id, forgotten_at IS NOT NULL FROM task \
                       WHERE CASE WHEN json_valid(body) THEN body ->> 'server' = ?1 \
                       AND body ->> 'server_task_id' IS NOT NULL \
                       AND (body ->> '$.status.is' != 'lost' OR forgotten_at IS NOT NULL) END";
            let rows = all(connection, sql, [server.as_str()], |row| {
                let (theirs, ours, is_forgotten): (_, String, _) = row.try_into()?;
                Ok(TaskId::parse(&ours).map(|ours| (theirs, ours, is_forgotten)))
            });
            Ok(rows?.into_iter().flatten().collect())
        })
    }

    /// Changes whenever another process has written to the file; `None` without a file.
    pub fn version(&mut self) -> StoreResult<Option<Version>> {
        let version = self.ask(None, |connection| {
            first(connection, "PRAGMA data_version", [], |row| row.get(0))
        })?;
        Ok(self.identity.zip(version))
    }

    /// The servers by name; [`Self::notice`] reports those that cannot be parsed.
    pub fn links(&mut self) -> StoreResult<Vec<LinkRecord>> {
        self.list("SELECT body FROM link ORDER BY name", [])
    }

    /// The oldest `limit` history entries of a task after `after_seq`; 0 starts at the beginning.
    ///
    /// An entry that says so replaces those that cannot be parsed.
    pub fn history(
        &mut self,
        task: &TaskId,
        after_seq: u64,
        limit: usize,
    ) -> StoreResult<Vec<HistoryEntry>> {
        self.ask(Vec::new(), |connection| {
            let mut entries = Vec::new();
            let mut query = connection.prepare_cached(
                "SELECT body, first_seq, last_seq FROM history WHERE task = ?1 AND last_seq > ?2 \
                 ORDER BY first_seq",
            )?;
            let mut rows = query.query(params![task.as_str(), signed(after_seq)])?;
            while entries.len() < limit
                && let Some(row) = rows.next()?
            {
                let chunk = chunk(connection, task, row, entries.last())?;
                let room = limit - entries.len();
                entries.extend(chunk.into_iter().filter(|e| e.seq > after_seq).take(room));
            }
            Ok(entries)
        })
    }

    /// The milestones of a task after a history entry, oldest first. Rows that hold nothing but progress are not read.
    pub fn milestones(&mut self, task: &TaskId, after_seq: u64) -> StoreResult<Vec<Milestone>> {
        self.ask(Vec::new(), |connection| {
            let mut milestones = Vec::new();
            let mut query = connection.prepare_cached(
                "SELECT body, first_seq, last_seq FROM history WHERE task = ?1 AND last_seq > ?2 \
                 AND steps <= last_seq - first_seq ORDER BY first_seq",
            )?;
            let mut rows = query.query(params![task.as_str(), signed(after_seq)])?;
            while let Some(row) = rows.next()? {
                let chunk = chunk(connection, task, row, None)?;
                let new = chunk.iter().filter(|entry| entry.seq > after_seq);
                milestones.extend(new.filter_map(milestone));
            }
            Ok(milestones)
        })
    }

    /// The newest `count` history entries of a task, oldest first; gaps as in [`Self::history`].
    pub fn history_tail(&mut self, task: &TaskId, count: usize) -> StoreResult<Vec<HistoryEntry>> {
        self.ask(Vec::new(), |connection| {
            let mut entries = Vec::new();
            let mut query = connection.prepare_cached(
                "SELECT body, first_seq, last_seq FROM history WHERE task = ?1 ORDER BY first_seq DESC",
            )?;
            let mut rows = query.query([task.as_str()])?;
            while entries.len() < count
                && let Some(row) = rows.next()?
            {
                let chunk = chunk(connection, task, row, entries.last())?;
                let room = count - entries.len();
                entries.extend(chunk.into_iter().rev().take(room));
            }
            entries.reverse();
            Ok(entries)
        })
    }

    /// The newest event ids in the history of a task's current attempt, oldest first, as restored at the start
    /// ([`RestoredTask`](super::RestoredTask)).
    pub fn recent_ids(&mut self, task: &Task) -> StoreResult<Vec<EventId>> {
        self.ask(Vec::new(), |connection| {
            recent_ids(connection, task, &mut 0)
        })
    }

    /// The result of a task: the JSON text of a CallToolResult as the server sent it.
    pub fn result(&mut self, task: &TaskId) -> StoreResult<Option<String>> {
        self.ask(None, |connection| {
            let sql = "SELECT json FROM result WHERE task = ?1";
            first(connection, sql, [task.as_str()], |row| {
                let json: Box<serde_json::value::RawValue> = parse(row.get_ref(0)?.as_bytes()?)?;
                // Older versions saved them unchanged.
                Ok(without_lone_surrogates(Box::<str>::from(json).into()))
            })
        })
    }

    /// The errors that SQLite finds in the file, at most a few lines; read-only. Empty for an intact file. Fails with
    /// [`StoreError::Newer`] if only a newer longhaul can write the file.
    pub fn check(&mut self) -> StoreResult<Vec<String>> {
        let found = self.ask(0, schema::version)?;
        if found > schema::VERSION {
            return Err(StoreError::newer(&self.path, found));
        }
        self.ask(Vec::new(), |connection| {
            let found: Vec<String> =
                all(connection, "PRAGMA quick_check(5)", [], |row| row.get(0))?;
            Ok(found.into_iter().filter(|line| line != "ok").collect())
        })
    }

    /// When a driver last saved; `None` for an empty session.
    pub fn saved_at(&mut self) -> StoreResult<Option<Wall>> {
        self.ask(None, |connection| {
            let sql = "SELECT value FROM meta WHERE key = 'saved_at'";
            first(connection, sql, [], |row| row.get(0).map(Wall))
        })
    }
}

/// The entries of a row of the history: its body, its first seq and its last.
///
/// Entries that cannot be parsed are replaced by one that says which are missing, with the time of a neighbor.
fn chunk(
    connection: &Connection,
    task: &TaskId,
    row: &Row<'_>,
    neighbour: Option<&HistoryEntry>,
) -> rusqlite::Result<Vec<HistoryEntry>> {
    if let Ok(entries) = parse(row.get_ref(0)?.as_bytes()?) {
        return Ok(entries);
    }
    let (from, to) = (unsigned(row.get(1)?), unsigned(row.get(2)?));
    let sql = "SELECT created_at FROM task WHERE id = ?1";
    let at = match neighbour {
        Some(neighbour) => neighbour.at,
        None => {
            first(connection, sql, [task.as_str()], |row| row.get(0).map(Wall))?.unwrap_or_default()
        }
    };
    let what = HistoryEvent::Status {
        status: "running".to_owned(),
        reason: Some(format!(
            "entries {from} to {to} of this history can't be read: they are corrupt on disk"
        )),
    };
    Ok(vec![HistoryEntry {
        seq: from,
        at,
        attempt: neighbour.map_or(1, |neighbour| neighbour.attempt),
        event_id: None,
        what,
    }])
}

/// Opens the file and reads a first value, which is when SQLite accesses the disk.
fn open_and_ask(path: &Path, flags: OpenFlags) -> rusqlite::Result<(Connection, u32)> {
    let connection = schema::connect(path, flags)?;
    let version = schema::version(&connection)?;
    Ok((connection, version))
}

/// Whether the file may be unreadable only because a disk without writes has no place for shared memory.
fn may_be_for_want_of_place(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
        )
    )
}

/// Opens a file on a disk without writes.
fn open_without_place(path: &Path) -> rusqlite::Result<(Connection, u32)> {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(*byte);
        } else {
            uri.extend(format!("%{byte:02X}").bytes());
        }
    }
    let log = check_file(&companion(path, "-wal"));
    let is_log_empty = log.is_ok_and(|log| log.is_none_or(|found| found.len() == 0));
    // If the log isn't empty, SQLite can keep the shared-memory index in its own memory. For that, it needs the -shm
    // file that the writer of the log has left.
    let how: &[u8] = if is_log_empty {
        b"?immutable=1"
    } else {
        b"?readonly_shm=1"
    };
    uri.extend(how);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    open_and_ask(Path::new(&OsString::from_vec(uri)), flags)
}
