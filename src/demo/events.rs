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
    database::{Database, locked, now_ms, random_id},
    faults::Faults,
    passthrough,
    tcp::ConnectionHandle,
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
    pub(super) session: Option<String>,
    pub(super) is_this_boot: bool,
}

impl EventPosition {
    /// The position before all events of a session.
    pub(super) fn session_start(session: &str) -> Self {
        Self {
            stream: String::new(),
            seq: 0,
            session: Some(session.to_owned()),
            is_this_boot: true,
        }
    }
}

/// The state of a live stream that its readers watch.
#[derive(Debug, Clone, Copy, Default)]
struct StreamHead {
    last_seq: i64,
    is_closed: bool,
    /// The number of the current reader; a reader with a lower number stops.
    reader: u64,
}

/// A stored event: its number for the reader, its id, and its JSON-RPC text, which is `None` for a priming event.
type EventRow = (i64, EventId, Option<String>);

/// The event store.
pub(super) struct Events {
    database: Arc<Database>,
    faults: Arc<Faults>,
    cross_stream: bool,
    live: Mutex<HashMap<String, watch::Sender<StreamHead>>>,
    /// Random names for the SDK's `<session>:common` streams, whose own names would reveal the session id.
    standalone: Mutex<HashMap<String, String>>,
    /// Incremented at every stored event, for readers of several streams.
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
            live: Mutex::default(),
            standalone: Mutex::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Whether a replay covers all streams of a session.
    pub(super) fn is_cross_stream(&self) -> bool {
        self.cross_stream
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
        // The map stays locked during the commit; that orders the events of a stream.
        let mut live = locked(&self.live);
        let is_new = !live.contains_key(stream);
        let seq = live.get(stream).map_or(0, |head| head.borrow().last_seq) + 1;
        {
            let mut database = self.database.lock();
            let transaction = database.transaction()?;
            let now = now_ms();
            if is_new {
                transaction
                    .prepare_cached(
                        "INSERT INTO stream (key, boot, session, opened_ms) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![stream, self.database.boot, session, now])?;
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
        }
        let head = live.entry(stream.to_owned()).or_default();
        head.send_modify(|head| {
            head.last_seq = seq;
            head.is_closed = closes;
        });
        if closes {
            // Readers still see the last value of a dropped sender.
            live.remove(stream);
        }
        drop(live);
        self.changes.send_modify(|count| *count += 1);
        Ok(format!("{stream}-{seq}"))
    }

    /// Looks up an event id; `None` if it is malformed, unknown or expired.
    pub(super) fn find(&self, id: &str) -> rusqlite::Result<Option<EventPosition>> {
        let Some((stream, seq)) = id.rsplit_once('-') else {
            return Ok(None);
        };
        let Ok(seq) = seq.parse::<i64>() else {
            return Ok(None);
        };
        let database = self.database.lock();
        database
            .query_row(
                "SELECT session, boot FROM stream WHERE key = ?1
             AND EXISTS (SELECT 1 FROM event WHERE stream = ?1 AND seq = ?2)",
                params![stream, seq],
                |row| {
                    Ok(EventPosition {
                        stream: stream.to_owned(),
                        seq,
                        session: row.get(0)?,
                        is_this_boot: row.get::<_, i64>(1)? == self.database.boot,
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
        if read(&self.database.lock(), &position.stream, position.seq, 1)?.is_empty() {
            return Ok(Vec::new());
        }
        let after = self.replay_from(position.seq);
        let rows = read(&self.database.lock(), &position.stream, after, i64::MAX)?;
        let events = rows.into_iter();
        Ok(events
            .map(|(_, id, data)| (id, data.unwrap_or_default()))
            .collect())
    }

    /// The events after `position`, then live ones: the response to a resuming GET.
    pub(super) fn resume(
        self: &Arc<Self>,
        position: &EventPosition,
        connection: Option<ConnectionHandle>,
    ) -> rusqlite::Result<EventStream> {
        let after = self.replay_from(position.seq);
        if self.cross_stream
            && let Some(session) = position.session.clone()
        {
            return self.follow_session(session, &position.stream, after, connection);
        }
        Ok(self.follow(&position.stream, after, connection))
    }

    /// The events of a stream after `after`, then live ones; all of them are the response to the request that opened it.
    pub(super) fn follow(
        self: &Arc<Self>,
        stream: &str,
        after: i64,
        connection: Option<ConnectionHandle>,
    ) -> EventStream {
        let (head_receiver, reader) = {
            let live = locked(&self.live);
            match live.get(stream) {
                Some(head) => {
                    let mut reader = 0;
                    head.send_modify(|head| {
                        head.reader += 1;
                        reader = head.reader;
                    });
                    (head.subscribe(), reader)
                }
                // The stream has ended: a channel whose sender is dropped reads as closed.
                None => (
                    watch::channel(StreamHead {
                        last_seq: i64::MAX,
                        is_closed: true,
                        reader: 0,
                    })
                    .1,
                    0,
                ),
            }
        };
        let tail = StreamTail {
            events: Arc::clone(self),
            stream: stream.to_owned(),
            after,
            reader,
            head: head_receiver,
            batch: VecDeque::new(),
            connection,
        };
        Box::pin(stream::unfold(tail, |mut tail| async move {
            let event = tail.next().await?;
            Some((event, tail))
        }))
    }

    fn follow_session(
        self: &Arc<Self>,
        session: String,
        stream: &str,
        seq: i64,
        connection: Option<ConnectionHandle>,
    ) -> rusqlite::Result<EventStream> {
        let after = self
            .database
            .lock()
            .query_row(
                "SELECT id FROM event WHERE stream = ?1 AND seq = ?2",
                params![stream, seq],
                |row| row.get(0),
            )
            .optional()?
            .unwrap_or(0);
        let tail = SessionTail {
            events: Arc::clone(self),
            session,
            after,
            changes: self.changes.subscribe(),
            batch: VecDeque::new(),
            connection,
        };
        Ok(Box::pin(stream::unfold(tail, |mut tail| async move {
            let event = tail.next().await?;
            Some((event, tail))
        })))
    }

    /// Passes an event on to a connection, which closes after it if the drop fault is armed.
    fn deliver(
        &self,
        event: ServerSseMessage,
        connection: Option<&ConnectionHandle>,
    ) -> ServerSseMessage {
        if let Some(connection) = connection
            && self.faults.drop_next.take()
        {
            connection.drop_after_flush();
        }
        event
    }
}

/// The reader of one stream.
struct StreamTail {
    events: Arc<Events>,
    stream: String,
    after: i64,
    reader: u64,
    head: watch::Receiver<StreamHead>,
    batch: VecDeque<ServerSseMessage>,
    connection: Option<ConnectionHandle>,
}

impl StreamTail {
    async fn next(&mut self) -> Option<ServerSseMessage> {
        loop {
            let head = *self.head.borrow_and_update();
            if head.reader != self.reader {
                // A newer connection has replaced this reader.
                return None;
            }
            if let Some(event) = self.batch.pop_front() {
                return Some(self.events.deliver(event, self.connection.as_ref()));
            }
            if self.after < head.last_seq {
                let database = self.events.database.lock();
                let rows = read(&database, &self.stream, self.after, BATCH)
                    .inspect_err(|error| tracing::error!(%error, "could not read events"))
                    .ok()?;
                if let Some(last) = queue(&mut self.batch, rows) {
                    self.after = last;
                    continue;
                }
            }
            if head.is_closed || self.head.changed().await.is_err() {
                return None;
            }
        }
    }
}

/// A reader of all streams of a session, in the order in which their events were stored.
struct SessionTail {
    events: Arc<Events>,
    session: String,
    after: i64,
    changes: watch::Receiver<u64>,
    batch: VecDeque<ServerSseMessage>,
    connection: Option<ConnectionHandle>,
}

impl SessionTail {
    async fn next(&mut self) -> Option<ServerSseMessage> {
        loop {
            if let Some(event) = self.batch.pop_front() {
                return Some(self.events.deliver(event, self.connection.as_ref()));
            }
            self.changes.borrow_and_update();
            let (rows, has_ended) = self
                .read()
                .inspect_err(|error| tracing::error!(%error, "could not read events"))
                .ok()?;
            if let Some(last) = queue(&mut self.batch, rows) {
                self.after = last;
            } else if has_ended || self.changes.changed().await.is_err() {
                return None;
            }
        }
    }

    /// The next events, and whether the session has no open calls.
    fn read(&self) -> rusqlite::Result<(Vec<EventRow>, bool)> {
        let database = self.events.database.lock();
        let rows = database
            .prepare_cached(
                "SELECT event.id, key || '-' || seq, data FROM event JOIN stream ON key = stream
                 WHERE session = ?1 AND event.id > ?2 ORDER BY event.id LIMIT ?3",
            )?
            .query_map(params![self.session, self.after, BATCH], |row| {
                row.try_into()
            })?
            .collect::<Result<Vec<_>, _>>()?;
        let open: i64 = database.query_row(
            "SELECT count(*) FROM stream
             WHERE session = ?1 AND closed_ms IS NULL AND method IS NOT NULL",
            [&self.session],
            |row| row.get(0),
        )?;
        Ok((rows, open == 0))
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
            if let Some(session) = stream_id.strip_suffix(":common") {
                let known = locked(&self.standalone).get(stream_id).cloned();
                let name = if let Some(name) = known {
                    name
                } else {
                    let name = random_id()?;
                    locked(&self.standalone).insert(stream_id.to_owned(), name.clone());
                    name
                };
                return self.append(&name, Some(session), data.as_deref(), false);
            }
            let closes = matches!(
                event.message.as_deref(),
                Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
            );
            self.append(stream_id, None, data.as_deref(), closes)
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

/// At most `limit` events of a stream with numbers above `after`, in order.
fn read(
    database: &Connection,
    stream: &str,
    after: i64,
    limit: i64,
) -> rusqlite::Result<Vec<EventRow>> {
    database
        .prepare_cached(
            "SELECT seq, stream || '-' || seq, data FROM event
             WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?
        .query_map(params![stream, after, limit], |row| row.try_into())?
        .collect()
}

/// Queues stored events as messages; returns the number of the last one.
fn queue(batch: &mut VecDeque<ServerSseMessage>, rows: Vec<EventRow>) -> Option<i64> {
    let (last, ..) = *rows.last()?;
    batch.extend(
        rows.into_iter()
            .filter_map(|(_, id, data)| sse_message(id, data)),
    );
    Some(last)
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
