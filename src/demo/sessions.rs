//! The server sessions: the SDK's own manager, with streams that outlive their connections.
//!
//! Owns the way from a request to its stream. The SDK stores every event through the event store; here the answer to a
//! request is read back *from* the store, as a resumed GET is, so that both are the same thing: replay, then live, until
//! the response. Must not know tools. A cancelled call is answered: the SDK would drop the answer, and the client would
//! wait for ever for a proof, so the cancellation goes to the call by our own path and the SDK never hears of it.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, Weak},
};

use futures_util::{Stream, StreamExt};
use rmcp::{
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions, JsonRpcMessage,
        RequestId, ServerJsonRpcMessage,
    },
    transport::streamable_http_server::session::{
        EventStore, RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
        local::{LocalSessionManager, LocalSessionManagerError, SessionConfig, SessionError},
    },
};
use serde_json::json;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use super::{
    call::CANCELLED,
    dialect,
    disk::locked,
    door::Hook,
    events::{Events, Place, RETRY},
};

tokio::task_local! {
    /// The connection of the request that is being handled.
    pub(super) static HOOK: Arc<Hook>;
    /// Whether that request is of the modern era.
    pub(super) static IS_MODERN: bool;
}

/// What a call needs to know of its own request; an extension of it.
#[derive(Debug, Clone)]
pub(super) struct Slot(Arc<SlotInner>);

#[derive(Debug)]
struct SlotInner {
    stream: SetOnce<String>,
    cancel: CancellationToken,
}

impl Slot {
    fn new() -> Self {
        Self(Arc::new(SlotInner {
            stream: SetOnce::new(),
            cancel: CancellationToken::new(),
        }))
    }

    /// The name of the request's stream. It is set right after the request was handed on.
    pub(super) async fn stream(&self) -> &str {
        self.0.stream.wait().await
    }

    /// Cancelled when the client asks for it.
    pub(super) fn cancel(&self) -> CancellationToken {
        self.0.cancel.clone()
    }
}

/// The session manager.
pub(super) struct Sessions {
    inner: Arc<LocalSessionManager>,
    events: Arc<Events>,
    forgotten: Mutex<HashSet<SessionId>>,
    calls: Mutex<HashMap<(SessionId, RequestId), Weak<SlotInner>>>,
}

impl Sessions {
    pub(super) fn new(events: Arc<Events>) -> Self {
        let mut config = SessionConfig::default();
        config.sse_retry = Some(RETRY);
        // A session ends with the process or when it is told to, never under a tool that is silent for long.
        config.keep_alive = None;
        let mut inner = LocalSessionManager::default();
        inner.session_config = config;
        let store: Arc<dyn EventStore> = Arc::<Events>::clone(&events);
        Self {
            inner: Arc::new(inner.with_event_store(store)),
            events,
            forgotten: Mutex::default(),
            calls: Mutex::default(),
        }
    }

    /// Makes all sessions unknown; what runs in them goes on.
    pub(super) async fn forget_all(&self) -> usize {
        let ids: Vec<_> = self.inner.sessions.read().await.keys().cloned().collect();
        let mut forgotten = locked(&self.forgotten);
        ids.into_iter()
            .filter(|id| forgotten.insert(Arc::clone(id)))
            .count()
    }

    /// Whether the session is known and alive.
    pub(super) async fn is_live(&self, id: &str) -> bool {
        if locked(&self.forgotten).contains(id) {
            return false;
        }
        self.inner.sessions.read().await.contains_key(id)
    }

    fn hook() -> Option<Arc<Hook>> {
        HOOK.try_with(Arc::clone).ok()
    }

    fn remember(&self, id: &SessionId, request: RequestId, slot: &Slot) {
        let mut calls = locked(&self.calls);
        calls.retain(|_, slot| slot.strong_count() > 0);
        calls.insert((Arc::clone(id), request), Arc::downgrade(&slot.0));
    }

    /// Cancels and answers what still runs in a session that has ended: the SDK has no way to its streams any more.
    fn end_calls(&self, id: &SessionId) {
        let mut calls = locked(&self.calls);
        for ((_, request), slot) in calls.extract_if(|(session, _), _| session == id) {
            let Some(slot) = slot.upgrade() else { continue };
            slot.cancel.cancel();
            if let Some(stream) = slot.stream.get() {
                let error = json!({"code": CANCELLED.0, "message": "The server session has ended"});
                self.events.close_with(
                    stream,
                    &json!({"jsonrpc": "2.0", "id": request, "error": error}),
                );
            }
        }
    }

    /// The cancellation that this message asks for, if the call still runs.
    fn cancellation(
        &self,
        id: &SessionId,
        message: &ClientJsonRpcMessage,
    ) -> Option<CancellationToken> {
        let JsonRpcMessage::Notification(message) = message else {
            return None;
        };
        let ClientNotification::CancelledNotification(cancelled) = &message.notification else {
            return None;
        };
        let request = cancelled.params.request_id.clone()?;
        let slot = locked(&self.calls)
            .get(&(Arc::clone(id), request))?
            .upgrade()?;
        Some(slot.cancel.clone())
    }
}

/// The SDK's error for a store that failed.
fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> LocalSessionManagerError {
    LocalSessionManagerError::SessionError(SessionError::EventStore(error.into()))
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.inner.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        let greeting = self.inner.initialize_session(id, message).await?;
        Ok(dialect::greeting(greeting))
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        Ok(self.is_live(id).await)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.inner.close_session(id).await?;
        self.end_calls(id);
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let slot = Slot::new();
        let mut method = String::new();
        if let JsonRpcMessage::Request(request) = &mut message {
            let name = request.request.method();
            dialect::original(name)
                .unwrap_or(name)
                .clone_into(&mut method);
            request.request.extensions_mut().insert(slot.clone());
            if matches!(
                request.request,
                ClientRequest::CallToolRequest(_) | ClientRequest::CustomRequest(_)
            ) {
                self.remember(id, request.id.clone(), &slot);
            }
        }
        let (inner, events, id) = (
            Arc::clone(&self.inner),
            Arc::clone(&self.events),
            Arc::clone(id),
        );
        // A job of its own: a connection that breaks here takes the handling of its request with it, and a call must be
        // taken whole or not at all.
        let stream = tokio::spawn(async move {
            // With a retry interval set, the first event of every stream is the priming event, stored before the request
            // is handed to its tool: it tells us the stream's name. The rest is read from the store.
            let primed = Box::pin(inner.create_stream(&id, message).await?)
                .next()
                .await;
            let primed = primed.and_then(|event| event.event_id);
            let stream = primed
                .as_deref()
                .and_then(|id| id.rsplit_once('-'))
                .map(|(stream, _)| stream.to_owned())
                .ok_or_else(|| broken("a stream without a priming event"))?;
            events.bind(&stream, &id, &method).map_err(broken)?;
            let _ = slot.0.stream.set(stream.clone());
            Ok::<_, LocalSessionManagerError>(stream)
        });
        let stream = stream.await.map_err(broken)??;
        Ok(self.events.follow(&stream, Self::hook()))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        if let Some(cancel) = self.cancellation(id, &message) {
            cancel.cancel();
            return Ok(());
        }
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.inner.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let place = self.events.locate(&last_event_id).map_err(broken)?;
        let place = match place.filter(|place| place.session.as_deref() == Some(id)) {
            Some(place) => place,
            // The looser variant replays the whole session for an id that names no stream, such as initialize's.
            None if self.events.is_cross_stream() => Place::beginning(id),
            None => return Err(broken("unknown event id")),
        };
        self.events.resume(&place, Self::hook()).map_err(broken)
    }

    async fn restore_session(
        &self,
        _id: SessionId,
    ) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        Ok(RestoreOutcome::NotSupported)
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        // The SDK keeps the streams of whoever has a store, and lets their work go on without a client. In the modern era
        // a client that goes has cancelled, so that era is told of none.
        let is_modern = IS_MODERN.try_with(|is_modern| *is_modern);
        self.inner
            .event_store()
            .filter(|_| !is_modern.unwrap_or_default())
    }
}
