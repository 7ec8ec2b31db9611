//! Server sessions: wraps the SDK's session manager with streams that outlive their connections.
//!
//! The SDK writes every event to the event store. The response to a request is read back *from* the store, just as a
//! resuming GET is: replay, then live events, until the response. Cancellations bypass the SDK, because it would drop
//! the response of a cancelled call and the client would wait for it forever.

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
        EventStore, ServerSseMessage, SessionId, SessionManager,
        local::{LocalSessionManager, LocalSessionManagerError, SessionConfig, SessionError},
    },
};
use serde_json::json;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use super::{
    database::locked,
    error::CANCELLED,
    events::{EventPosition, Events, RETRY},
    passthrough,
};

tokio::task_local! {
    /// Whether the current request uses the modern era.
    pub(super) static IS_MODERN: bool;
}

/// A request extension that gives a call its stream name and its cancellation.
#[derive(Debug, Default)]
pub(super) struct RequestHandle {
    /// The name of the request's stream, set just after the request is dispatched.
    pub(super) stream: SetOnce<String>,
    /// Cancelled by the client's `notifications/cancelled`.
    pub(super) cancel: CancellationToken,
}

/// The session manager given to the SDK.
pub(super) struct Sessions {
    inner: Arc<LocalSessionManager>,
    events: Arc<Events>,
    forgotten: Mutex<HashSet<SessionId>>,
    calls: Mutex<HashMap<(SessionId, RequestId), Weak<RequestHandle>>>,
}

impl Sessions {
    pub(super) fn new(events: Arc<Events>) -> Self {
        let mut config = SessionConfig::default();
        config.sse_retry = Some(RETRY);
        // Sessions end only by DELETE or with the process, so a long silent tool keeps its session.
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

    /// Makes all sessions unknown to clients (404) while their calls keep running; returns how many.
    pub(super) async fn forget_all(&self) -> usize {
        let ids: Vec<_> = self.inner.sessions.read().await.keys().cloned().collect();
        let mut forgotten = locked(&self.forgotten);
        ids.into_iter()
            .filter(|id| forgotten.insert(Arc::clone(id)))
            .count()
    }

    /// Whether the session exists and was not forgotten.
    pub(super) async fn is_live(&self, id: &str) -> bool {
        if locked(&self.forgotten).contains(id) {
            return false;
        }
        self.inner.sessions.read().await.contains_key(id)
    }

    fn remember(&self, id: &SessionId, request: RequestId, handle: &Arc<RequestHandle>) {
        let mut calls = locked(&self.calls);
        calls.retain(|_, handle| handle.strong_count() > 0);
        calls.insert((Arc::clone(id), request), Arc::downgrade(handle));
    }

    /// Cancels and answers the calls of a closed session; the SDK can no longer reach their streams.
    fn end_calls(&self, id: &SessionId) {
        let mut calls = locked(&self.calls);
        for ((_, request), handle) in calls.extract_if(|(session, _), _| session == id) {
            let Some(handle) = handle.upgrade() else {
                continue;
            };
            handle.cancel.cancel();
            if let Some(stream) = handle.stream.get() {
                let error = json!({"code": CANCELLED.0, "message": "The server session has ended"});
                self.events.close_with(
                    stream,
                    &json!({"jsonrpc": "2.0", "id": request, "error": error}),
                );
            }
        }
    }

    /// The cancellation token of the running call that this message cancels.
    fn cancel_target(
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
        let handle = locked(&self.calls)
            .get(&(Arc::clone(id), request))?
            .upgrade()?;
        Some(handle.cancel.clone())
    }
}

/// Wraps an error of the event store for the SDK.
fn store_error(
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> LocalSessionManagerError {
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
        let response = self.inner.initialize_session(id, message).await?;
        Ok(passthrough::with_task_capability(response))
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
        let handle = Arc::<RequestHandle>::default();
        let mut method = String::new();
        if let JsonRpcMessage::Request(request) = &mut message {
            let name = request.request.method();
            passthrough::original(name)
                .unwrap_or(name)
                .clone_into(&mut method);
            request.request.extensions_mut().insert(Arc::clone(&handle));
            if matches!(
                request.request,
                ClientRequest::CallToolRequest(_) | ClientRequest::CustomRequest(_)
            ) {
                self.remember(id, request.id.clone(), &handle);
            }
        }
        let (inner, events, id) = (
            Arc::clone(&self.inner),
            Arc::clone(&self.events),
            Arc::clone(id),
        );
        // Spawned, because a broken connection drops this future, and a call must be accepted completely or not at all.
        let stream = tokio::spawn(async move {
            // With a retry interval set, the SDK stores a priming event before it dispatches the request. Its id
            // carries the stream's name; the remaining events are read from the store.
            let priming = Box::pin(inner.create_stream(&id, message).await?)
                .next()
                .await;
            let priming_id = priming.and_then(|event| event.event_id);
            let stream = priming_id
                .as_deref()
                .and_then(|id| id.rsplit_once('-'))
                .map(|(stream, _)| stream.to_owned())
                .ok_or_else(|| store_error("a stream without a priming event"))?;
            events.bind(&stream, &id, &method).map_err(store_error)?;
            let _ = handle.stream.set(stream.clone());
            Ok::<_, LocalSessionManagerError>(stream)
        });
        let stream = stream.await.map_err(store_error)??;
        Ok(self.events.follow(&stream, 0))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        if let Some(cancel) = self.cancel_target(id, &message) {
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
        let position = self.events.find(&last_event_id, id).map_err(store_error)?;
        let position = match position {
            Some(position) => position,
            // Cross-stream replay covers the whole session for an id that names no stream, such as initialize's.
            None if self.events.cross_stream => EventPosition::session_start(id),
            None => return Err(store_error("unknown event id")),
        };
        self.events.resume(&position).map_err(store_error)
    }

    fn event_store(&self) -> Option<Arc<dyn EventStore>> {
        // With a store, the SDK keeps a call running after its client disconnects. In the modern era a disconnect
        // cancels the call, so those requests get no store.
        let is_modern = IS_MODERN.try_with(|is_modern| *is_modern);
        self.inner
            .event_store()
            .filter(|_| !is_modern.unwrap_or_default())
    }
}
