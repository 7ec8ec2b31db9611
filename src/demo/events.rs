//! The event store: numbered events of named streams, kept on disk, replayed and then followed live.
//!
//! Invariants: an event is committed before its id is returned. Ids are `<stream>-<n>`, with an unguessable stream name
//! and consecutive `n`. A reader receives the events of one stream strictly after its cursor, then live events until
//! the response. A stream has one reader: a newer connection replaces it, so a half-open socket can't block the stream.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::stream;
use rmcp::{
    model::JsonRpcMessage,
    transport::streamable_http_server::session::{
        EventId, EventStore, EventStoreError, EventStream, ServerSseMessage,
    },
};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::json;
use tokio::sync::watch;

use super::{
    database::{Database, locked, now_ms},
    faults::Faults,
    passthrough,
};
use crate::demo::{error::DemoError, options::NAME};

/// How many events of a stream are kept; enough for every replay that this demo can provoke.
const MAX_EVENTS_PER_STREAM: i64 = 20_000;

/// How long a finished stream is kept, in milliseconds: seven days, because a laptop may stay closed over a weekend.
const STREAM_RETENTION_MS: i64 = 7 * 24 * 3600 * 1000;

/// How many events a reader loads from disk at a time.
const BATCH: i64 = 256;

/// How many events the duplicate fault repeats.
const DUPLICATED_EVENTS: i64 = 3;

/// The SSE `retry` interval.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// The position of a stored event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EventPosition {
    /// The stream's name; empty for the beginning of a session.
    pub(super) stream: String,
    /// The event's number in the stream.
    pub(super) seq: i64,
    /// The server session that the stream belongs to.
    pub(super) session: String,
    pub(super) is_this_boot: bool,
}

impl EventPosition {
    /// The position before all events of a session.
    pub(super) fn session_start(session: &str) -> Self {
        Self {
            stream: String::new(),
            seq: 0,
            session: session.to_owned(),
            is_this_boot: true,
        }
    }
}

/// A stored event: its number for the reader, its id, and its JSON-RPC text, which is `None` for a priming event.
type EventRow = (i64, EventId, Option<String>);

/// Whose events a reader receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those of a stream, numbered within it.
    Stream,
    /// Those of all streams of a session, numbered in the order in which they were stored.
    Session,
}

impl Scope {
    /// At most `limit` events with numbers above `after`, in order.
    fn read(
        self,
        database: &Connection,
        key: &str,
        after: i64,
        limit: i64,
    ) -> rusqlite::Result<Vec<EventRow>> {
        let sql = match self {
            Self::Stream => {
                "SELECT seq, stream || '-' || seq, data FROM event
                 WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3"
            }
            Self::Session => {
                "SELECT event.id, key || '-' || seq, data FROM event JOIN stream ON key = stream
                 WHERE session = ?1 AND event.id > ?2 ORDER BY event.id LIMIT ?3"
            }
        };
        let mut statement = database.prepare_cached(sql)?;
        let rows = statement.query_map(params![key, after, limit], |row| row.try_into())?;
        rows.collect()
    }

    /// Whether more events can come.
    fn is_open(self, database: &Connection, key: &str) -> rusqlite::Result<bool> {
        let sql = match self {
            Self::Stream => "SELECT 1 FROM stream WHERE key = ?1 AND closed_ms IS NULL",
            Self::Session => {
                "SELECT 1 FROM stream
                 WHERE session = ?1 AND closed_ms IS NULL AND method IS NOT NULL"
            }
        };
        database.prepare_cached(sql)?.exists([key])
    }
}

/// The event store.
pub(super) struct Events {
    database: Arc<Database>,
    faults: Arc<Faults>,
    /// Whether a replay covers all streams of a session.
    pub(super) cross_stream: bool,
    /// The number of the newest reader of each stream; a reader with a lower number stops.
    readers: Mutex<HashMap<String, u64>>,
    /// Incremented for every stored event and every new reader.
    changes: watch::Sender<u64>,
}

impl Events {
    /// Opens the store: deletes expired streams and closes those whose call ended with an earlier boot.
    pub(super) fn open(
        database: Arc<Database>,
        faults: Arc<Faults>,
        cross_stream: bool,
    ) -> Result<Self, DemoError> {
        delete_expired(&database.lock(), now_ms() - STREAM_RETENTION_MS)?;
        close_orphaned(&mut database.lock(), database.boot)?;
        Ok(Self {
            database,
            faults,
            cross_stream,
            readers: Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Records the session and request method of a stream.
    pub(super) fn bind(&self, stream: &str, session: &str, method: &str) -> rusqlite::Result<()> {
        self.database.lock().execute(
            "UPDATE stream SET session = ?2, method = ?3 WHERE key = ?1",
            params![stream, session, method],
        )?;
        Ok(())
    }

    /// Closes an open stream with a response that the SDK can no longer send.
    pub(super) fn close_with(&self, stream: &str, response: &serde_json::Value) {
        if let Err(error) = self.append(stream, None, Some(&response.to_string()), true) {
            tracing::debug!(%error, "the stream was already closed");
        }
    }

    /// Appends a message, opening the stream if it is new; with `closes` it is the last one.
    pub(super) fn append(
        &self,
        stream: &str,
        session: Option<&str>,
        data: Option<&str>,
        closes: bool,
    ) -> Result<EventId, EventStoreError> {
        let seq = {
            let mut database = self.database.lock();
            let transaction = database.transaction()?;
            let now = now_ms();
            let seq: i64 = transaction
                .prepare_cached("SELECT 1 + coalesce(max(seq), 0) FROM event WHERE stream = ?1")?
                .query_row([stream], |row| row.get(0))?;
            if seq == 1 {
                transaction
                    .prepare_cached(
                        "INSERT INTO stream (key, boot, session, opened_ms) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![stream, self.database.boot, session, now])?;
            } else if !Scope::Stream.is_open(&transaction, stream)? {
                return Err("the stream is closed".into());
            }
            transaction
                .prepare_cached("INSERT INTO event (stream, seq, data) VALUES (?1, ?2, ?3)")?
                .execute(params![stream, seq, data])?;
            if seq % 1024 == 0 {
                transaction.execute(
                    "DELETE FROM event WHERE stream = ?1 AND seq <= ?2",
                    params![stream, seq - MAX_EVENTS_PER_STREAM],
                )?;
            }
            if closes {
                transaction
                    .prepare_cached("UPDATE stream SET closed_ms = ?2 WHERE key = ?1")?
                    .execute(params![stream, now])?;
            }
            transaction.commit()?;
            seq
        };
        if closes {
            locked(&self.readers).remove(stream);
        }
        self.changes.send_modify(|count| *count += 1);
        Ok(format!("{stream}-{seq}"))
    }

    /// Looks up an event id; `None` if it is malformed, unknown, expired or of another session.
    pub(super) fn find(&self, id: &str, session: &str) -> rusqlite::Result<Option<EventPosition>> {
        let Some((stream, seq)) = id.rsplit_once('-') else {
            return Ok(None);
        };
        let Ok(seq) = seq.parse::<i64>() else {
            return Ok(None);
        };
        let database = self.database.lock();
        database
            .query_row(
                "SELECT boot FROM stream WHERE key = ?1 AND session = ?3
             AND EXISTS (SELECT 1 FROM event WHERE stream = ?1 AND seq = ?2)",
                params![stream, seq, session],
                |row| {
                    Ok(EventPosition {
                        stream: stream.to_owned(),
                        seq,
                        session: session.to_owned(),
                        is_this_boot: row.get::<_, i64>(0)? == self.database.boot,
                    })
                },
            )
            .optional()
    }

    /// The number after which a replay from `seq` starts: lower than `seq` if the duplicate fault is armed.
    fn replay_from(&self, seq: i64) -> i64 {
        if self.faults.duplicate_next.take() {
            (seq - DUPLICATED_EVENTS).max(0)
        } else {
            seq
        }
    }

    /// The stored events after `position`, for streams of an earlier boot.
    pub(super) fn remaining(
        &self,
        position: &EventPosition,
    ) -> rusqlite::Result<Vec<(EventId, String)>> {
        let read = |after, limit| {
            Scope::Stream.read(&self.database.lock(), &position.stream, after, limit)
        };
        if read(position.seq, 1)?.is_empty() {
            return Ok(Vec::new());
        }
        let events = read(self.replay_from(position.seq), i64::MAX)?.into_iter();
        Ok(events
            .map(|(_, id, data)| (id, data.unwrap_or_default()))
            .collect())
    }

    /// The events after `position`, then live ones: the response to a resuming GET.
    pub(super) fn resume(
        self: &Arc<Self>,
        position: &EventPosition,
    ) -> rusqlite::Result<EventStream> {
        let after = self.replay_from(position.seq);
        if self.cross_stream {
            let id = self.database.lock().query_row(
                "SELECT id FROM event WHERE stream = ?1 AND seq = ?2",
                params![position.stream, after],
                |row| row.get(0),
            );
            let after = id.optional()?.unwrap_or(0);
            let session = &position.session;
            return Ok(self.tail(Scope::Session, session, after, 0));
        }
        Ok(self.follow(&position.stream, after))
    }

    /// The events of a stream after `after`, then live ones; all of them are the response to the request that opened it.
    pub(super) fn follow(self: &Arc<Self>, stream: &str, after: i64) -> EventStream {
        let reader = {
            let mut readers = locked(&self.readers);
            let newest = readers.entry(stream.to_owned()).or_default();
            *newest += 1;
            *newest
        };
        // The reader before this one stops.
        self.changes.send_modify(|count| *count += 1);
        self.tail(Scope::Stream, stream, after, reader)
    }

    fn tail(self: &Arc<Self>, scope: Scope, key: &str, after: i64, reader: u64) -> EventStream {
        let tail = Tail {
            events: Arc::clone(self),
            scope,
            key: key.to_owned(),
            after,
            reader,
            changes: self.changes.subscribe(),
            batch: VecDeque::new(),
        };
        Box::pin(stream::unfold(tail, |mut tail| async move {
            let event = tail.next().await?;
            Some((event, tail))
        }))
    }
}

/// A reader: the stored events, then live ones.
struct Tail {
    events: Arc<Events>,
    scope: Scope,
    /// The stream or session.
    key: String,
    after: i64,
    /// Its number among the readers of its stream.
    reader: u64,
    changes: watch::Receiver<u64>,
    batch: VecDeque<ServerSseMessage>,
}

impl Tail {
    async fn next(&mut self) -> Option<ServerSseMessage> {
        loop {
            self.changes.borrow_and_update();
            let newest = locked(&self.events.readers).get(&self.key).copied();
            if newest.is_some_and(|newest| newest != self.reader) {
                // A newer connection has replaced this reader.
                return None;
            }
            if let Some(event) = self.batch.pop_front() {
                return Some(event);
            }
            let (rows, is_open) = self
                .read()
                .inspect_err(|error| tracing::error!(%error, "could not read events"))
                .ok()?;
            if let Some((last, ..)) = rows.last() {
                self.after = *last;
                let rows = rows.into_iter();
                let messages = rows.filter_map(|(_, id, data)| sse_message(id, data));
                self.batch.extend(messages);
            } else if !is_open || self.changes.changed().await.is_err() {
                return None;
            }
        }
    }

    /// The next events, and whether more can come.
    fn read(&self) -> rusqlite::Result<(Vec<EventRow>, bool)> {
        let database = self.events.database.lock();
        let rows = self.scope.read(&database, &self.key, self.after, BATCH)?;
        let is_open = !rows.is_empty() || self.scope.is_open(&database, &self.key)?;
        Ok((rows, is_open))
    }
}

impl EventStore for Events {
    fn store_event<'a, 'b, 'c, 'f>(
        &'a self,
        stream_id: &'b str,
        event: &'c ServerSseMessage,
    ) -> Pin<Box<dyn Future<Output = Result<EventId, EventStoreError>> + Send + 'f>>
    where
        'a: 'f,
        'b: 'f,
        'c: 'f,
        Self: 'f,
    {
        Box::pin(async move {
            let data = match &event.message {
                Some(message) => Some(serde_json::to_string(message.as_ref())?),
                None => None,
            };
            // The SDK names a session's standalone stream `<session>:common`; no response closes it.
            let session = stream_id.strip_suffix(":common");
            let is_response = matches!(
                event.message.as_deref(),
                Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
            );
            let closes = is_response && session.is_none();
            self.append(stream_id, session, data.as_deref(), closes)
        })
    }

    fn replay_events_after<'a, 'b, 'f>(
        &'a self,
        last_event_id: &'b str,
    ) -> Pin<Box<dyn Future<Output = Result<EventStream, EventStoreError>> + Send + 'f>>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        // `Sessions` resumes the streams of the stateful eras itself; the modern era has no resumption.
        let _ = last_event_id;
        Box::pin(async { Err("streams resume through their session".into()) })
    }
}

/// Turns a stored event into the SDK's type.
fn sse_message(id: EventId, data: Option<String>) -> Option<ServerSseMessage> {
    let Some(data) = data else {
        return Some(ServerSseMessage::priming(id, RETRY));
    };
    passthrough::parse_stored(&data)
        .inspect_err(|error| tracing::error!(%error, id, "could not parse a stored event"))
        .ok()
        .map(|message| ServerSseMessage::new(id, message))
}

fn delete_expired(database: &Connection, before_ms: i64) -> rusqlite::Result<()> {
    database.execute(
        "DELETE FROM event WHERE stream IN (SELECT key FROM stream WHERE closed_ms < ?1)",
        [before_ms],
    )?;
    database.execute("DELETE FROM stream WHERE closed_ms < ?1", [before_ms])?;
    Ok(())
}

/// Closes every stream that an earlier boot left open, and appends a log message for the clients of its calls.
fn close_orphaned(database: &mut Connection, boot: i64) -> rusqlite::Result<()> {
    let now = jiff::Zoned::now();
    let message = json!({
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {
            "level": "error",
            "logger": NAME,
            "data": format!(
                "The server restarted at {}; this call died with it.",
                now.strftime("%H:%M:%S")
            ),
        },
    });
    let transaction = database.transaction()?;
    transaction.execute(
        "INSERT INTO event (stream, seq, data)
         SELECT key, 1 + (SELECT coalesce(max(seq), 0) FROM event WHERE stream = key), ?2
         FROM stream WHERE closed_ms IS NULL AND boot < ?1 AND method = 'tools/call'",
        params![boot, message.to_string()],
    )?;
    transaction.execute(
        "UPDATE stream SET closed_ms = ?2 WHERE closed_ms IS NULL AND boot < ?1",
        params![boot, now_ms()],
    )?;
    transaction.commit()
}
