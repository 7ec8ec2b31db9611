//! The event store: numbered events of named streams, kept on disk, replayed and then followed live.
//!
//! Owns streams, their events and who may read them. Must not know HTTP or what a tool is. Invariants: an event is
//! committed before its id is returned; ids are `<stream>-<n>` with a stream name that cannot be guessed and `n` rising
//! by one; a reader gets the events of one stream strictly after its cursor, then goes on live until the response. A
//! stream has one reader: a newer connection takes it over, so that a half-open socket locks nobody out.

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
    DemoError, dialect,
    disk::{Disk, locked, now_ms, random_id, with_room},
    door::Hook,
    faults::Faults,
};

/// The newest events of a stream that are kept; enough for every replay that this demo can provoke.
const EVENTS_PER_STREAM: i64 = 20_000;
/// How long a finished stream is kept, in milliseconds: a laptop may stay closed over a weekend.
const KEEP_MS: i64 = 7 * 24 * 3600 * 1000;
/// How many events a reader takes from disk at a time.
const BATCH: i64 = 256;
/// How many events a duplicating replay sends again.
const DUPLICATES: i64 = 3;
/// What clients are told to wait before they reconnect.
pub(super) const RETRY: Duration = Duration::from_millis(500);

/// Where an event id points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The stream's name.
    pub(super) stream: String,
    /// The number of the event in it.
    pub(super) seq: i64,
    /// The server session that the stream belongs to.
    pub(super) session: Option<String>,
    /// Whether the stream was opened since this boot.
    pub(super) this_boot: bool,
}

impl Place {
    /// Before everything in a session.
    pub(super) fn beginning(session: &str) -> Self {
        Self {
            stream: String::new(),
            seq: 0,
            session: Some(session.to_owned()),
            this_boot: true,
        }
    }
}

/// What readers of a stream wait for.
#[derive(Debug, Clone, Copy, Default)]
struct Live {
    last: i64,
    closed: bool,
    reader: u64,
}

/// One stored event: its number and its JSON-RPC text (`None` for a priming event).
type Row = (i64, Option<String>);

/// The store.
pub(super) struct Events {
    disk: Arc<Disk>,
    faults: Arc<Faults>,
    cross_stream: bool,
    live: Mutex<HashMap<String, watch::Sender<Live>>>,
    /// The names we gave to the SDK's `<session>:common` streams, whose own names would carry the session id.
    standalone: Mutex<HashMap<String, String>>,
    /// Counts everything that happened, for readers of more than one stream.
    pulse: watch::Sender<u64>,
}

impl Events {
    /// Opens the store of this boot: forgets what is too old and closes the streams whose call died with the last boot.
    pub(super) fn open(
        disk: Arc<Disk>,
        faults: Arc<Faults>,
        cross_stream: bool,
    ) -> Result<Self, DemoError> {
        forget_old(&disk.lock(), now_ms() - KEEP_MS)?;
        close_dead(&mut disk.lock(), disk.boot)?;
        Ok(Self {
            disk,
            faults,
            cross_stream,
            live: Mutex::default(),
            standalone: Mutex::default(),
            pulse: watch::Sender::new(0),
        })
    }

    /// Whether replays reach over all streams of a session.
    pub(super) fn is_cross_stream(&self) -> bool {
        self.cross_stream
    }

    /// Says whose stream this is and what was asked on it.
    pub(super) fn bind(
        &self,
        stream: &str,
        session: &str,
        method: &str,
    ) -> Result<(), rusqlite::Error> {
        self.disk.lock().execute(
            "UPDATE stream SET session = ?2, method = ?3 WHERE key = ?1",
            params![stream, session, method],
        )?;
        Ok(())
    }

    /// Stores a message on a stream that is open, ahead of the SDK: log lines of a call travel on the call's own stream.
    pub(super) fn append_json(
        &self,
        stream: &str,
        message: &serde_json::Value,
    ) -> Result<EventId, EventStoreError> {
        self.append(stream, None, Some(&message.to_string()), false)
    }

    /// Ends an open stream with a response that the SDK cannot give any more.
    pub(super) fn close_with(&self, stream: &str, response: &serde_json::Value) {
        if let Err(error) = self.append(stream, None, Some(&response.to_string()), true) {
            tracing::debug!(%error, "a stream had ended before");
        }
    }

    fn append(
        &self,
        stream: &str,
        session: Option<&str>,
        data: Option<&str>,
        closes: bool,
    ) -> Result<EventId, EventStoreError> {
        // The map's lock is held over the commit: it is what gives the events of a stream their order.
        let mut live = locked(&self.live);
        let is_new = !live.contains_key(stream);
        let seq = live.get(stream).map_or(0, |at| at.borrow().last) + 1;
        {
            let mut disk = self.disk.lock();
            let commit = disk.transaction()?;
            let now = now_ms();
            if is_new {
                commit
                    .prepare_cached(
                        "INSERT INTO stream (key, boot, session, opened_ms) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![stream, self.disk.boot, session, now])?;
            }
            commit
                .prepare_cached("INSERT INTO event (stream, seq, data) VALUES (?1, ?2, ?3)")?
                .execute(params![stream, seq, data])?;
            if seq % 1024 == 0 {
                commit.execute(
                    "DELETE FROM event WHERE stream = ?1 AND seq <= ?2",
                    params![stream, seq - EVENTS_PER_STREAM],
                )?;
            }
            if closes {
                commit
                    .prepare_cached("UPDATE stream SET closed_ms = ?2 WHERE key = ?1")?
                    .execute(params![stream, now])?;
            }
            commit.commit()?;
        }
        let at = live.entry(stream.to_owned()).or_default();
        at.send_modify(|at| {
            at.last = seq;
            at.closed = closes;
        });
        if closes {
            // Readers see the last value of a dropped sender, and then its end.
            live.remove(stream);
        }
        drop(live);
        self.pulse.send_modify(|pulse| *pulse += 1);
        Ok(format!("{stream}-{seq}"))
    }

    /// Finds the event that an id names.
    pub(super) fn locate(&self, id: &str) -> Result<Option<Place>, rusqlite::Error> {
        let Some((stream, seq)) = id.rsplit_once('-') else {
            return Ok(None);
        };
        let Ok(seq) = seq.parse::<i64>() else {
            return Ok(None);
        };
        let disk = self.disk.lock();
        disk.query_row(
            "SELECT session, boot FROM stream WHERE key = ?1
             AND EXISTS (SELECT 1 FROM event WHERE stream = ?1 AND seq = ?2)",
            params![stream, seq],
            |row| {
                Ok(Place {
                    stream: stream.to_owned(),
                    seq,
                    session: row.get(0)?,
                    this_boot: row.get::<_, i64>(1)? == self.disk.boot,
                })
            },
        )
        .optional()
    }

    /// The number after which a replay from `seq` begins; earlier than `seq` only if that fault is armed.
    fn replay_from(&self, seq: i64) -> i64 {
        if self.faults.take_duplicate() {
            (seq - DUPLICATES).max(0)
        } else {
            seq
        }
    }

    /// What is stored of a stream of an earlier boot after `place`.
    pub(super) fn rest(&self, place: &Place) -> Result<Vec<(EventId, String)>, rusqlite::Error> {
        if read(&self.disk.lock(), &place.stream, place.seq, 1)?.is_empty() {
            return Ok(Vec::new());
        }
        let after = self.replay_from(place.seq);
        let rows = read(&self.disk.lock(), &place.stream, after, i64::MAX)?;
        Ok(rows
            .into_iter()
            .map(|(seq, data)| (format!("{}-{seq}", place.stream), data.unwrap_or_default()))
            .collect())
    }

    /// The events of a stream from its beginning and then live, as the answer to the request that opened it.
    pub(super) fn follow(self: &Arc<Self>, stream: &str, hook: Option<Arc<Hook>>) -> EventStream {
        self.tail(stream, 0, hook)
    }

    /// The events after `place` and then live, as the answer to a GET that resumes.
    pub(super) fn resume(
        self: &Arc<Self>,
        place: &Place,
        hook: Option<Arc<Hook>>,
    ) -> Result<EventStream, rusqlite::Error> {
        let after = self.replay_from(place.seq);
        if self.cross_stream
            && let Some(session) = place.session.clone()
        {
            return self.tail_session(session, &place.stream, after, hook);
        }
        Ok(self.tail(&place.stream, after, hook))
    }

    fn tail(self: &Arc<Self>, stream: &str, after: i64, hook: Option<Arc<Hook>>) -> EventStream {
        let (watch, reader) = {
            let live = locked(&self.live);
            match live.get(stream) {
                Some(at) => {
                    let mut reader = 0;
                    at.send_modify(|at| {
                        at.reader += 1;
                        reader = at.reader;
                    });
                    (at.subscribe(), reader)
                }
                // It has ended: a sender that is gone stands for "nothing more will come".
                None => (
                    watch::channel(Live {
                        last: i64::MAX,
                        closed: true,
                        reader: 0,
                    })
                    .1,
                    0,
                ),
            }
        };
        let tail = Tail {
            events: Arc::clone(self),
            stream: stream.to_owned(),
            after,
            reader,
            watch,
            batch: VecDeque::new(),
            hook,
        };
        Box::pin(stream::unfold(tail, |mut tail| async move {
            let event = tail.next().await?;
            Some((event, tail))
        }))
    }

    fn tail_session(
        self: &Arc<Self>,
        session: String,
        stream: &str,
        seq: i64,
        hook: Option<Arc<Hook>>,
    ) -> Result<EventStream, rusqlite::Error> {
        let after = self
            .disk
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
            pulse: self.pulse.subscribe(),
            batch: VecDeque::new(),
            hook,
        };
        Ok(Box::pin(stream::unfold(tail, |mut tail| async move {
            let event = tail.next().await?;
            Some((event, tail))
        })))
    }

    /// Hands an event to a connection, and drops that connection after it if the fault is armed.
    fn hand_out(&self, event: ServerSseMessage, hook: Option<&Arc<Hook>>) -> ServerSseMessage {
        if let Some(hook) = hook
            && self.faults.take_drop()
        {
            hook.drop_after_flush();
        }
        event
    }
}

/// One reader of one stream.
struct Tail {
    events: Arc<Events>,
    stream: String,
    after: i64,
    reader: u64,
    watch: watch::Receiver<Live>,
    batch: VecDeque<ServerSseMessage>,
    hook: Option<Arc<Hook>>,
}

impl Tail {
    async fn next(&mut self) -> Option<ServerSseMessage> {
        loop {
            let live = *self.watch.borrow_and_update();
            if live.reader != self.reader {
                // A newer connection reads this stream now.
                return None;
            }
            if let Some(event) = self.batch.pop_front() {
                return Some(self.events.hand_out(event, self.hook.as_ref()));
            }
            if self.after < live.last {
                let rows = read(&self.events.disk.lock(), &self.stream, self.after, BATCH);
                let rows = rows
                    .inspect_err(|error| tracing::error!(%error, "could not read events"))
                    .ok()?;
                if let Some((last, _)) = rows.last() {
                    self.after = *last;
                    self.batch.extend(
                        rows.into_iter().filter_map(|(seq, data)| {
                            message(format!("{}-{seq}", self.stream), data)
                        }),
                    );
                    continue;
                }
            }
            if live.closed || self.watch.changed().await.is_err() {
                return None;
            }
        }
    }
}

/// One reader of all streams of a session, in the order in which things happened.
struct SessionTail {
    events: Arc<Events>,
    session: String,
    after: i64,
    pulse: watch::Receiver<u64>,
    batch: VecDeque<ServerSseMessage>,
    hook: Option<Arc<Hook>>,
}

impl SessionTail {
    async fn next(&mut self) -> Option<ServerSseMessage> {
        loop {
            if let Some(event) = self.batch.pop_front() {
                return Some(self.events.hand_out(event, self.hook.as_ref()));
            }
            self.pulse.borrow_and_update();
            let (rows, is_over) = self
                .read()
                .inspect_err(|error| tracing::error!(%error, "could not read events"))
                .ok()?;
            if let Some((last, ..)) = rows.last() {
                self.after = *last;
                self.batch.extend(
                    rows.into_iter()
                        .filter_map(|(_, id, data)| message(id, data)),
                );
            } else if is_over || self.pulse.changed().await.is_err() {
                return None;
            }
        }
    }

    /// The next events, and whether no call of the session is open any more.
    #[expect(clippy::type_complexity, reason = "rows of one query, used once")]
    fn read(&self) -> Result<(Vec<(i64, String, Option<String>)>, bool), rusqlite::Error> {
        let disk = self.events.disk.lock();
        let rows = disk
            .prepare_cached(
                "SELECT event.id, key || '-' || seq, data FROM event JOIN stream ON key = stream
                 WHERE session = ?1 AND event.id > ?2 ORDER BY event.id LIMIT ?3",
            )?
            .query_map(params![self.session, self.after, BATCH], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?
            .collect::<Result<Vec<_>, _>>()?;
        let open: i64 = disk.query_row(
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
                let append = || self.append(&name, Some(session), data.as_deref(), false);
                return with_room(append).await;
            }
            let closes = matches!(
                event.message.as_deref(),
                Some(JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))
            );
            with_room(|| self.append(stream_id, None, data.as_deref(), closes)).await
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
        // Streams of the stateful eras are resumed in `sessions`, and the modern era resumes none.
        let _ = last_event_id;
        Box::pin(async { Err("only a session resumes".into()) })
    }
}

/// The events of a stream strictly after a number, oldest first.
fn read(
    disk: &Connection,
    stream: &str,
    after: i64,
    limit: i64,
) -> Result<Vec<Row>, rusqlite::Error> {
    disk.prepare_cached(
        "SELECT seq, data FROM event WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?
    .query_map(params![stream, after, limit], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?
    .collect()
}

/// A stored event as the SDK sends it.
fn message(id: EventId, data: Option<String>) -> Option<ServerSseMessage> {
    let Some(data) = data else {
        return Some(ServerSseMessage::priming(id, RETRY));
    };
    dialect::stored(&data)
        .inspect_err(|error| tracing::error!(%error, id, "a stored event does not read back"))
        .ok()
        .map(|message| ServerSseMessage::new(id, message))
}

fn forget_old(disk: &Connection, before_ms: i64) -> Result<(), rusqlite::Error> {
    disk.execute(
        "DELETE FROM event WHERE stream IN (SELECT key FROM stream WHERE closed_ms < ?1)",
        [before_ms],
    )?;
    disk.execute("DELETE FROM stream WHERE closed_ms < ?1", [before_ms])?;
    Ok(())
}

/// Ends every stream that an earlier boot left open: its call is dead, and its client hears so in words.
fn close_dead(disk: &mut Connection, boot: i64) -> Result<(), rusqlite::Error> {
    let now = jiff::Zoned::now();
    let words = json!({
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {
            "level": "error",
            "logger": super::call::LOGGER,
            "data": format!(
                "The server restarted at {}; this call died with it.",
                now.strftime("%H:%M:%S")
            ),
        },
    });
    let commit = disk.transaction()?;
    commit.execute(
        "INSERT INTO event (stream, seq, data)
         SELECT key, 1 + (SELECT coalesce(max(seq), 0) FROM event WHERE stream = key), ?2
         FROM stream WHERE closed_ms IS NULL AND boot < ?1 AND method = 'tools/call'",
        params![boot, words.to_string()],
    )?;
    commit.execute(
        "UPDATE stream SET closed_ms = ?2 WHERE closed_ms IS NULL AND boot < ?1",
        params![boot, now_ms()],
    )?;
    commit.commit()
}
