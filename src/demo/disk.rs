//! The server's one SQLite file, its private directory, and ids that cannot be guessed.
//!
//! Owns the schema and the lock around the connection. Must not know what the rows mean. Commits survive `kill -9`
//! (write-ahead log, no fsync: a power cut is not among the faults that this demo shows).

use std::{
    error::Error,
    fs,
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode};
use tokio::time::sleep;

use super::DemoError;

/// The name of the database in the data directory.
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
    CREATE TABLE IF NOT EXISTS ticket (
        ticket TEXT PRIMARY KEY,
        work TEXT NOT NULL,
        issued_ms INTEGER NOT NULL,
        visited_ms INTEGER);
    -- Deliberately without a unique key: work that is done twice must show as too many rows.
    CREATE TABLE IF NOT EXISTS processed (
        task_id TEXT NOT NULL,
        client_id TEXT NOT NULL,
        dataset TEXT NOT NULL,
        record INTEGER NOT NULL);
    CREATE INDEX IF NOT EXISTS processed_by_client ON processed (client_id);
";

/// How long a write waits for room on a full disk before it is tried again.
pub(super) const ROOM_EVERY: Duration = Duration::from_secs(1);

/// Whether a write failed for want of room, so that it may work later.
pub(super) fn is_full(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<rusqlite::Error>();
    error.and_then(rusqlite::Error::sqlite_error_code) == Some(ErrorCode::DiskFull)
}

/// Writes, on a full disk once there is room. What is lost would leave a call without its end.
pub(super) async fn with_room<T>(
    mut write: impl FnMut() -> Result<T, Box<dyn Error + Send + Sync>>,
) -> Result<T, Box<dyn Error + Send + Sync>> {
    loop {
        match write() {
            Err(error) if is_full(&*error) => {
                tracing::warn!("the disk is full; the write waits for room");
                sleep(ROOM_EVERY).await; // sleep: room comes from outside
            }
            done => return done,
        }
    }
}

/// The open database.
pub(super) struct Disk {
    connection: Mutex<Connection>,
    /// The number of this boot; rises by one each time the server starts.
    pub(super) boot: i64,
}

impl Disk {
    /// Opens (or makes) the database in `dir` and counts a boot.
    pub(super) fn open(dir: &Path) -> Result<Self, DemoError> {
        let connection = connect(dir)?;
        connection.execute("INSERT INTO boot (started_ms) VALUES (?1)", [now_ms()])?;
        let boot = connection.last_insert_rowid();
        Ok(Self {
            connection: Mutex::new(connection),
            boot,
        })
    }

    /// The connection. A panic in another thread leaves no half transaction behind: SQLite rolls it back.
    pub(super) fn lock(&self) -> MutexGuard<'_, Connection> {
        locked(&self.connection)
    }
}

/// Opens the database without counting a boot.
pub(super) fn connect(dir: &Path) -> Result<Connection, DemoError> {
    let path = dir.join(FILE);
    // Made here with its mode, because SQLite gives its side files the mode of the main file.
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

/// Makes `dir` and its parents, readable by its owner only.
pub(super) fn private_dir(dir: &Path) -> Result<(), DemoError> {
    let what = || DemoError::io(format!("make the directory {}", dir.display()));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(what())?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(what())
}

/// The guard of a mutex; a poisoned one is taken over, because what it guards is replaced as a whole.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// A stamp of `now_ms` as RFC 3339 in UTC, to the millisecond.
pub(super) fn rfc3339(ms: i64) -> String {
    let stamp = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
    format!("{stamp:.3}")
}

/// 128 random bits of the operating system in hexadecimal.
pub(super) fn random_id() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_write_waits_for_room_on_a_full_disk_and_for_nothing_else() {
        let disk = Connection::open_in_memory().unwrap();
        let allow = |pages: u32| {
            let allowed = disk.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()));
            allowed.unwrap();
        };
        disk.execute_batch("CREATE TABLE event (data BLOB)")
            .unwrap();
        allow(4);
        let mut tries = 0;
        let done = with_room(|| {
            tries += 1;
            if tries == 2 {
                allow(4000);
            }
            Ok(disk.execute("INSERT INTO event VALUES (zeroblob(100000))", [])?)
        });
        assert_eq!((done.await.unwrap(), tries), (1, 2));
        let failed = with_room(|| Ok(disk.execute("INSERT INTO nowhere VALUES (1)", [])?)).await;
        assert!(failed.unwrap_err().to_string().contains("nowhere"));
    }
}
