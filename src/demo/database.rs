//! The server's SQLite file with its schema, its private directory, and random ids.
//!
//! Commits survive `kill -9` but not a power loss: write-ahead log without fsync.

use std::{
    fs,
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rusqlite::Connection;

use super::error::DemoError;

const FILE: &str = "demo.db";

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS boot (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        started_ms INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS stream (
        key TEXT PRIMARY KEY,
        boot INTEGER NOT NULL,
        session TEXT,
        method TEXT,
        opened_ms INTEGER NOT NULL,
        closed_ms INTEGER);
    CREATE INDEX IF NOT EXISTS stream_of_session ON stream (session);
    CREATE TABLE IF NOT EXISTS event (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        stream TEXT NOT NULL,
        seq INTEGER NOT NULL,
        data TEXT,
        UNIQUE (stream, seq));
    CREATE TABLE IF NOT EXISTS checkpoint (
        task_id TEXT PRIMARY KEY,
        client_id TEXT NOT NULL,
        tool TEXT NOT NULL,
        arguments TEXT NOT NULL,
        status TEXT NOT NULL,
        progress INTEGER NOT NULL,
        total INTEGER NOT NULL,
        message TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        UNIQUE (client_id, tool, arguments));
    CREATE TABLE IF NOT EXISTS task (
        id TEXT PRIMARY KEY,
        tool TEXT NOT NULL,
        arguments TEXT NOT NULL,
        status TEXT NOT NULL,
        message TEXT NOT NULL,
        done INTEGER NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        ttl_ms INTEGER NOT NULL,
        asked TEXT NOT NULL,
        outcome TEXT);
    -- No unique key on purpose: work done twice must show up as extra rows.
    CREATE TABLE IF NOT EXISTS processed (
        task_id TEXT NOT NULL,
        client_id TEXT NOT NULL,
        dataset TEXT NOT NULL,
        record INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS processed_by_client ON processed (client_id);
";

/// The open database.
pub(super) struct Database {
    connection: Mutex<Connection>,
    /// The boot number, one higher at each server start.
    pub(super) boot: i64,
}

impl Database {
    /// Opens or creates the database in `dir` and records a new boot.
    pub(super) fn open(dir: &Path) -> Result<Self, DemoError> {
        let connection = connect(dir)?;
        connection.execute("INSERT INTO boot (started_ms) VALUES (?1)", [now_ms()])?;
        let boot = connection.last_insert_rowid();
        Ok(Self {
            connection: Mutex::new(connection),
            boot,
        })
    }

    /// Locks the connection. If another thread panicked with it, SQLite has rolled its transaction back.
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        locked(&self.connection)
    }
}

/// Opens the database without recording a boot.
pub(super) fn connect(dir: &Path) -> Result<Connection, DemoError> {
    let path = dir.join(FILE);
    // Created here with its mode, because SQLite copies the main file's mode to its side files.
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(DemoError::io(format!("open {}", path.display())))?;
    let connection = Connection::open(&path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Creates `dir` and its parents, readable by the owner only.
pub(super) fn private_dir(dir: &Path) -> Result<(), DemoError> {
    let what = || DemoError::io(format!("create the directory {}", dir.display()));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(what())?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(what())
}

/// Locks a mutex, even a poisoned one: guarded values are never left half-updated.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The current time in milliseconds since the Unix epoch.
pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Formats epoch milliseconds as RFC 3339 in UTC, with milliseconds.
pub(super) fn rfc3339(ms: i64) -> String {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{stamp:.3}")
}

/// 128 random bits from the operating system, as hexadecimal.
pub(super) fn random_id() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
