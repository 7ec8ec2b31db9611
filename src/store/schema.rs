//! The tables of the session file, and the steps from each older format to the next.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, OpenFlags, config::DbConfig};

use crate::domain::text;

/// `lhau`: marks the file as ours for `file` and for ourselves.
pub(super) const APPLICATION_ID: i32 = 0x6c68_6175;

/// How long a statement waits for another process's lock; readers never hold one for long.
pub(super) const BUSY: Duration = Duration::from_secs(5);

/// Each step leads from its place in this list to the next format. A released step never changes.
///
/// `task.body`, `link.body` and the elements of `history.body` are the JSON of the domain's records; the columns beside
/// them are what statements look for.
const MIGRATIONS: [&str; 2] = ["
    CREATE TABLE meta (
        key TEXT PRIMARY KEY,
        value INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE link (
        name TEXT PRIMARY KEY,
        body TEXT NOT NULL
    ) STRICT;
    CREATE TABLE task (
        id TEXT PRIMARY KEY,
        body TEXT NOT NULL,
        is_settled INTEGER NOT NULL,
        once TEXT,
        created_at INTEGER NOT NULL,
        forgotten_at INTEGER
    ) STRICT;
    CREATE INDEX task_by_age ON task (created_at);
    CREATE INDEX task_by_state ON task (is_settled, created_at);
    CREATE INDEX task_by_once ON task (once) WHERE once IS NOT NULL;
    CREATE TABLE result (
        task TEXT PRIMARY KEY,
        json TEXT NOT NULL
    ) STRICT;
    -- Each row has many entries in one body.
    CREATE TABLE history (
        task TEXT NOT NULL,
        first_seq INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        steps INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (task, first_seq)
    ) STRICT;
    -- How many progress steps and log lines a task's history holds and how many were taken out of its middle.
    CREATE TABLE history_size (
        task TEXT PRIMARY KEY,
        steps INTEGER NOT NULL,
        left_out INTEGER NOT NULL,
        mark_seq INTEGER
    ) STRICT;
", "
    -- Not used.
    CREATE TABLE hook_event (
        number INTEGER PRIMARY KEY,
        task TEXT NOT NULL,
        what TEXT NOT NULL,
        needs_you INTEGER NOT NULL,
        state INTEGER NOT NULL,
        UNIQUE (task, what)
    ) STRICT;
    CREATE INDEX hook_event_by_state ON hook_event (state, number) WHERE state < 2;
"];

/// The format that this program writes.
pub(super) const VERSION: u32 = 2;

/// The format of an open file; 0 for an empty one.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Migrates an older or empty file to the current format in one transaction.
pub(super) fn migrate(connection: &mut Connection, from: u32) -> rusqlite::Result<()> {
    if from == VERSION {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for step in MIGRATIONS
        .iter()
        .skip(usize::try_from(from).unwrap_or(usize::MAX))
    {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// Why a file that calls itself ours is not to be used: everything in it that has the name of one of our tables, or belongs
/// to one, has to be exactly what this program makes, and there are no triggers and views.
///
/// Someone else may have made the file. A view in place of a table can be endless, a trigger can delete what is
/// written, and a column can be computed at any cost.
pub(super) fn foreign_object(connection: &Connection) -> rusqlite::Result<Option<String>> {
    let bare = |sql: &str| sql.split_whitespace().collect::<String>();
    let ours = bare(&MIGRATIONS.concat());
    let mut query =
        connection.prepare("SELECT type, name, lower(tbl_name), sql FROM sqlite_schema")?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name): (String, String) = (row.get(0)?, row.get(1)?);
        let (table, sql): (String, Option<String>) = (row.get(2)?, row.get(3)?);
        let is_of_ours = ours.contains(&bare(&format!("CREATE TABLE {table} (")));
        // Indexes that SQLite creates itself have no statement.
        let is_ours = sql.is_none_or(|sql| ours.contains(&format!("{};", bare(&sql))));
        if matches!(kind.as_str(), "trigger" | "view") || is_of_ours && !is_ours {
            let (kind, name) = (text::clean_line(&kind), text::clean_line(&name));
            return Ok(Some(format!(
                "its {kind} {name} was not created by longhaul"
            )));
        }
    }
    Ok(None)
}

/// Opens the file, following no symlink.
pub(super) fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(
        path,
        flags | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(BUSY)?;
    // In KiB. The check at the start reads the whole file and would fill the usual 2 MB in each process.
    connection.pragma_update(None, "cache_size", -512)?;
    // The bundled SQLite gathers statistics for its plans, and would plan a statement again for each value bound to
    // it: a flush of many tasks parses more than it writes then.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // Someone else may have made the file; nothing in it may run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    Ok(connection)
}
