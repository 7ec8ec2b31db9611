//! Values and rows of the session file.

use rusqlite::{Connection, OptionalExtension as _, Params, Row};

/// Reads a record; invalid JSON is an error of its column.
pub(super) fn parse<T: serde::de::DeserializeOwned>(body: &[u8]) -> rusqlite::Result<T> {
    serde_json::from_slice(body).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })
}

/// The records that a statement selects. One that cannot be parsed must not hide the others; it is counted. A corrupt
/// value need not even be text.
pub(super) fn records<T: serde::de::DeserializeOwned>(
    connection: &Connection,
    sql: &str,
    given: impl Params,
    unreadable: &mut u64,
) -> rusqlite::Result<Vec<T>> {
    let mut records = Vec::new();
    let mut query = connection.prepare_cached(sql)?;
    let mut rows = query.query(given)?;
    while let Some(row) = rows.next()? {
        match parse(row.get_ref(0)?.as_bytes()?) {
            Ok(record) => records.push(record),
            Err(_) => *unreadable += 1,
        }
    }
    Ok(records)
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// SQLite's numbers are signed; ours never come near the limit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Runs a statement that is compiled once; returns how many rows it changed.
pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    given: impl Params,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(given)
}

/// All rows of a statement that is compiled once.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    given: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(given, read)?.collect()
}

/// The first row of a statement that is compiled once; `None` without rows.
pub(super) fn first<T>(
    connection: &Connection,
    sql: &str,
    given: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection
        .prepare_cached(sql)?
        .query_row(given, read)
        .optional()
}
