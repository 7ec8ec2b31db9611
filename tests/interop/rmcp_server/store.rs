//! An event store in memory: it keeps every event of every stream, and replays a stream after an event of it.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError},
};

use rmcp::transport::{
    common::server_side_http::ServerSseMessage,
    streamable_http_server::session::{EventId, EventStore, EventStoreError, EventStream},
};

type Answer<'f, T> = Pin<Box<dyn Future<Output = Result<T, EventStoreError>> + Send + 'f>>;

/// The events in the order in which they were stored; an id is a place in it.
#[derive(Default)]
pub(crate) struct MemoryStore {
    events: Mutex<Vec<(String, ServerSseMessage)>>,
}

impl MemoryStore {
    fn store(&self, stream: &str, event: &ServerSseMessage) -> EventId {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let id = format!("event-{}", events.len());
        let mut event = event.clone();
        event.event_id = Some(id.clone());
        events.push((stream.to_owned(), event));
        id
    }

    fn after(&self, id: &str) -> Option<Vec<ServerSseMessage>> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let place: usize = id.strip_prefix("event-")?.parse().ok()?;
        let (stream, _) = events.get(place)?;
        let later = events.iter().skip(place + 1).filter(|(of, _)| of == stream);
        Some(later.map(|(_, event)| event.clone()).collect())
    }
}

impl EventStore for MemoryStore {
    fn store_event<'a, 'b, 'c, 'f>(
        &'a self,
        stream_id: &'b str,
        event: &'c ServerSseMessage,
    ) -> Answer<'f, EventId>
    where
        'a: 'f,
        'b: 'f,
        'c: 'f,
        Self: 'f,
    {
        let id = self.store(stream_id, event);
        Box::pin(async { Ok(id) })
    }

    fn replay_events_after<'a, 'b, 'f>(&'a self, last_event_id: &'b str) -> Answer<'f, EventStream>
    where
        'a: 'f,
        'b: 'f,
        Self: 'f,
    {
        let events = self.after(last_event_id);
        Box::pin(async move {
            let events = events.ok_or("unknown event id")?;
            Ok(Box::pin(futures_util::stream::iter(events)) as EventStream)
        })
    }
}
