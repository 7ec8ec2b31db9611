//! Reading a session, from any process and at any time.

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _, params};

use super::{
    Paths, StoreError,
    error::{has_no_room_for_shared_memory, is_damage, words},
    paths::{check_file, companion},
    schema,
    writer::{parse, signed, task_by_id},
};
use crate::domain::{Entry, LinkRecord, ServerName, Task, TaskId, Wall, is_task_id_prefix};

/// A connection that only reads; works while another process writes, and before there is a file.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    connection: Option<Connection>,
}

/// Which tasks to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Forgotten ones too.
    pub all: bool,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

/// What a prefix of a task id leads to.
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
    /// Where there is no file yet the session is empty, and the next question looks again. Fails with
    /// [`StoreError::Refused`], [`StoreError::CannotRead`] and [`StoreError::Damaged`], as every question does.
    pub fn open(paths: &Paths) -> Result<Self, StoreError> {
        let mut reader = Self {
            path: paths.db(),
            connection: None,
        };
        reader.connection()?;
        Ok(reader)
    }

    /// The connection, once there is a file with tables in it.
    fn connection(&mut self) -> Result<Option<&Connection>, StoreError> {
        if self.connection.is_none() {
            if check_file(&self.path)?.is_none() {
                return Ok(None);
            }
            let fail = |error| StoreError::reading(&self.path, &error);
            let (connection, version) = match open_and_ask(&self.path) {
                Err(error) if has_no_place_beside(&self.path, &error) => {
                    open_immutable(&self.path).map_err(fail)?
                }
                other => other.map_err(fail)?,
            };
            // The driver is about to make the tables.
            if version == 0 {
                return Ok(None);
            }
            self.connection = Some(connection);
        }
        Ok(self.connection.as_ref())
    }

    fn ask<T>(
        &mut self,
        empty: T,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let answer = match self.connection()? {
            Some(connection) => question(connection),
            None => Ok(empty),
        };
        answer.map_err(|error| match error {
            rusqlite::Error::FromSqlConversionFailure(_, _, why) => StoreError::CannotRead {
                path: self.path.clone(),
                why: format!("a record in it is not understood ({why})"),
            },
            error if is_damage(&error) => StoreError::Damaged {
                path: self.path.clone(),
                why: words(&error),
            },
            error => StoreError::reading(&self.path, &error),
        })
    }

    /// The tasks, newest first.
    pub fn tasks(&mut self, filter: ListFilter) -> Result<Vec<Task>, StoreError> {
        self.ask(Vec::new(), |connection| {
            let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok());
            connection
                .prepare_cached(
                    "SELECT body FROM task WHERE ?1 OR forgotten_at IS NULL \
                     ORDER BY created_at DESC, id DESC LIMIT ?2",
                )?
                .query_map(params![filter.all, limit.unwrap_or(-1)], |row| {
                    parse(row.get_ref(0)?.as_str()?)
                })?
                .collect()
        })
    }

    /// The task whose id begins with `prefix`; a forgotten one only if no other does.
    pub fn task(&mut self, prefix: &str) -> Result<Lookup, StoreError> {
        if !is_task_id_prefix(prefix) {
            return Ok(Lookup::None);
        }
        self.ask(Lookup::None, |connection| {
            // Ids are letters and digits, all of which sort before a tilde.
            let found: Vec<(String, bool)> = connection
                .prepare_cached(
                    "SELECT id, forgotten_at IS NULL FROM task WHERE id >= ?1 AND id < ?1 || '~' \
                     ORDER BY created_at DESC, id DESC",
                )?
                .query_map([prefix], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            let is_any_shown = found.iter().any(|(_, is_shown)| *is_shown);
            let mut ids: Vec<TaskId> = found
                .iter()
                .filter(|(_, is_shown)| *is_shown || !is_any_shown)
                .filter_map(|(id, _)| TaskId::parse(id))
                .collect();
            // The whole id names its task whatever else there is.
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
    pub fn once(&mut self, key: &str) -> Result<Option<TaskId>, StoreError> {
        self.ask(None, |connection| {
            let found: Option<String> = connection
                .prepare_cached(
                    "SELECT id FROM task WHERE once = ?1 ORDER BY created_at DESC LIMIT 1",
                )?
                .query_row([key], |row| row.get(0))
                .optional()?;
            Ok(found.as_deref().and_then(TaskId::parse))
        })
    }

    /// The tasks of a server that it has a task of its own for: its id, ours, and whether ours is forgotten.
    pub fn server_tasks(
        &mut self,
        server: &ServerName,
    ) -> Result<Vec<(String, TaskId, bool)>, StoreError> {
        self.ask(Vec::new(), |connection| {
            let rows: Vec<(String, String, bool)> = connection
                .prepare_cached(
                    "SELECT body ->> 'server_task_id', id, forgotten_at IS NOT NULL FROM task \
                     WHERE body ->> 'server' = ?1 AND body ->> 'server_task_id' IS NOT NULL",
                )?
                .query_map([server.as_str()], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?
                .collect::<Result<_, _>>()?;
            let known = rows.into_iter().filter_map(|(theirs, ours, is_forgotten)| {
                Some((theirs, TaskId::parse(&ours)?, is_forgotten))
            });
            Ok(known.collect())
        })
    }

    /// The servers by name.
    pub fn links(&mut self) -> Result<Vec<LinkRecord>, StoreError> {
        self.ask(Vec::new(), |connection| {
            connection
                .prepare_cached("SELECT body FROM link ORDER BY name")?
                .query_map([], |row| parse(row.get_ref(0)?.as_str()?))?
                .collect()
        })
    }

    /// The oldest `limit` history entries of a task that come after `after_seq`; 0 begins at the beginning.
    pub fn history(
        &mut self,
        task: &TaskId,
        after_seq: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.ask(Vec::new(), |connection| {
            let mut entries = Vec::new();
            let mut query = connection.prepare_cached(
                "SELECT body FROM history WHERE task = ?1 AND last_seq > ?2 ORDER BY first_seq",
            )?;
            let mut rows = query.query(params![task.as_str(), signed(after_seq)])?;
            while entries.len() < limit
                && let Some(row) = rows.next()?
            {
                let chunk: Vec<Entry> = parse(row.get_ref(0)?.as_str()?)?;
                let room = limit - entries.len();
                entries.extend(chunk.into_iter().filter(|e| e.seq > after_seq).take(room));
            }
            Ok(entries)
        })
    }

    /// The newest `count` history entries of a task, oldest first.
    pub fn history_tail(&mut self, task: &TaskId, count: usize) -> Result<Vec<Entry>, StoreError> {
        self.ask(Vec::new(), |connection| {
            let mut entries = Vec::new();
            let mut query = connection.prepare_cached(
                "SELECT body FROM history WHERE task = ?1 ORDER BY first_seq DESC",
            )?;
            let mut rows = query.query([task.as_str()])?;
            while entries.len() < count
                && let Some(row) = rows.next()?
            {
                let chunk: Vec<Entry> = parse(row.get_ref(0)?.as_str()?)?;
                let room = count - entries.len();
                entries.extend(chunk.into_iter().rev().take(room));
            }
            entries.reverse();
            Ok(entries)
        })
    }

    /// The result of a task: the JSON text of a CallToolResult as the server sent it.
    pub fn result(&mut self, task: &TaskId) -> Result<Option<String>, StoreError> {
        self.ask(None, |connection| {
            connection
                .prepare_cached("SELECT json FROM result WHERE task = ?1")?
                .query_row([task.as_str()], |row| row.get(0))
                .optional()
        })
    }

    /// When a driver last saved; `None` for an empty session.
    pub fn saved_at(&mut self) -> Result<Option<Wall>, StoreError> {
        self.ask(None, |connection| {
            connection
                .prepare_cached("SELECT value FROM meta WHERE key = 'saved_at'")?
                .query_row([], |row| row.get(0).map(Wall))
                .optional()
        })
    }
}

/// Opens the file and reads a first value, which is where SQLite meets the disk.
fn open_and_ask(path: &Path) -> rusqlite::Result<(Connection, u32)> {
    let connection = schema::connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let version = schema::version(&connection)?;
    Ok((connection, version))
}

/// Whether the file could not be read for want of a place for shared memory, on a disk that is read-only or full, and
/// nothing waits in a log.
fn has_no_place_beside(path: &Path, error: &rusqlite::Error) -> bool {
    let is_refused = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
    );
    let log = check_file(&companion(path, "-wal"));
    (is_refused || has_no_room_for_shared_memory(error))
        && log.is_ok_and(|log| log.is_none_or(|found| found.len() == 0))
}

/// Opens a file on a disk where nobody can write.
fn open_immutable(path: &Path) -> rusqlite::Result<(Connection, u32)> {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(*byte);
        } else {
            uri.extend(format!("%{byte:02X}").bytes());
        }
    }
    uri.extend(b"?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let connection = schema::connect(Path::new(&OsString::from_vec(uri)), flags)?;
    let version = schema::version(&connection)?;
    Ok((connection, version))
}
