//! Clients with a protocol version before 2026-07-28, which stay connected between requests.

use std::{
    collections::HashMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ErrorData, GetExtensions as _, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{
        Transport,
        streamable_http_server::session::{
            ServerSseMessage, SessionId, SessionManager,
            local::{
                LocalSessionManager, LocalSessionManagerError, LocalSessionWorkerError, SessionError, SessionTransport,
            },
        },
    },
};
use tokio_stream::Stream;
use tracing::Instrument as _;

use super::http::Account;
use crate::text::quoted;

type ResponseStream = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// The connected clients of a tenant. Rejects a request whose ID belongs to a running request of the same client.
///
/// The protocol library finds a response's stream by the ID of the request. If two running requests had the same ID,
/// the library would keep the stream and the progress token of the first request until the client disconnects.
pub(super) struct Connections {
    manager: Arc<LocalSessionManager>,
    running: Mutex<HashMap<SessionId, Arc<RunningRequests>>>,
}

impl Connections {
    /// Creates an empty set of clients. Clients are disconnected when they have been idle for `idle`.
    pub(super) fn new(idle: Duration) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(idle);
        // The cache contains only the streams of cancelled requests, which have no response that a client could still
        // read.
        manager.session_config.completed_cache_ttl = Duration::ZERO;
        Self { manager: Arc::new(manager), running: Mutex::default() }
    }

    /// Returns the number of connected clients.
    pub(super) async fn count(&self) -> usize {
        self.manager.sessions.read().await.len()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<RunningRequests>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionManager for Connections {
    type Error = LocalSessionManagerError;
    type Transport = Connection;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.manager.create_session().await?;
        let running = Arc::new(RunningRequests::default());
        self.running().insert(id.clone(), Arc::clone(&running));
        Ok((id, Connection { transport, running }))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.manager.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.manager.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.running().remove(id);
        self.manager.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let running = self.running().get(id).cloned();
        let running = running.ok_or_else(|| LocalSessionManagerError::SessionNotFound(id.clone()))?;
        let request = match &message {
            JsonRpcMessage::Request(request) => {
                let account = Account::of(request.request.extensions()).cloned();
                if !running.begin(&request.id, account) {
                    return Ok(Box::pin(tokio_stream::once(in_use(&request.id))) as ResponseStream);
                }
                Some(request.id.clone())
            }
            _ => None,
        };
        let (manager, id) = (Arc::clone(&self.manager), id.clone());
        // Runs in a separate task. The library first creates a stream and then accepts the request for the stream. If
        // the client disconnected in between, the library would keep a stream without a request.
        let create = async move {
            match manager.create_stream(&id, message).await {
                Ok(stream) => Ok(Box::pin(stream) as ResponseStream),
                Err(error) => {
                    if let Some(request) = &request {
                        running.remove(request);
                    }
                    Err(error)
                }
            }
        };
        let created = tokio::spawn(create.in_current_span()).await;
        created.map_err(|error| SessionError::from(io::Error::from(error)))?
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
        let running = self.running().get(id).cloned();
        if let (Some(running), Some(request)) = (running, cancelled_request(&message))
            && !running.cancel(request)
        {
            return Ok(());
        }
        self.manager.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(Box::pin(self.manager.create_standalone_stream(id).await?) as ResponseStream)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        Ok(Box::pin(self.manager.resume(id, last_event_id).await?) as ResponseStream)
    }
}

/// Returns the ID of the request that a message cancels.
fn cancelled_request(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    let JsonRpcMessage::Notification(notification) = message else { return None };
    match &notification.notification {
        ClientNotification::CancelledNotification(cancelled) => cancelled.params.request_id.as_ref(),
        _ => None,
    }
}

/// Returns the response to a request whose ID belongs to a running request.
fn in_use(id: &RequestId) -> ServerSseMessage {
    let message = format!("a running request already uses the ID `{}`; use another ID", glovebox::escaped(&quoted(id)));
    let error = ErrorData::invalid_request(message, None);
    ServerSseMessage::from_message(ServerJsonRpcMessage::error(error, Some(id.clone())))
}

/// The transport of a connected client. Records the client's running requests.
pub(super) struct Connection {
    transport: SessionTransport,
    running: Arc<RunningRequests>,
}

impl Transport<RoleServer> for Connection {
    type Error = LocalSessionWorkerError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let item = match &answered {
            Some(id) if self.running.answer(id) => {
                ServerJsonRpcMessage::error(ErrorData::internal_error("cancelled", None), Some(id.clone()))
            }
            _ => item,
        };
        let running = Arc::clone(&self.running);
        let sent: Pin<Box<dyn Future<Output = Result<(), Self::Error>> + Send>> = Box::pin(self.transport.send(item));
        async move {
            let result = sent.await;
            if let Some(id) = answered {
                running.remove(&id);
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.transport.receive().await?;
        if let JsonRpcMessage::Request(request) = &message {
            self.running.start(&request.id);
        } else if let Some(id) = cancelled_request(&message) {
            self.running.end_cancelled(id);
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

/// A client's running requests by ID. Contains a request as long as the protocol library has a stream for it.
#[derive(Default)]
struct RunningRequests(Mutex<HashMap<RequestId, RunningRequest>>);

/// A request that the protocol library has not yet answered.
#[derive(Default)]
struct RunningRequest {
    /// Keeps the response charged until the library has passed it on, even if the client has disconnected.
    _account: Option<Account>,
    /// `true` if the library has received the request. Until then, it ignores a cancellation.
    has_started: bool,
    /// `true` if the client has cancelled the request. The library may already have removed the request's stream. The
    /// library keeps a response without a stream until the client disconnects, so only a short error is sent.
    is_cancelled: bool,
    /// `true` if the response is being sent.
    is_answered: bool,
}

impl RunningRequests {
    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, RunningRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Returns `false` if its ID belongs to a running request.
    fn begin(&self, id: &RequestId, account: Option<Account>) -> bool {
        let mut requests = self.requests();
        if requests.contains_key(id) {
            return false;
        }
        requests.insert(id.clone(), RunningRequest { _account: account, ..RunningRequest::default() });
        true
    }

    /// Records that the protocol library has received a request.
    fn start(&self, id: &RequestId) {
        if let Some(request) = self.requests().get_mut(id) {
            request.has_started = true;
        }
    }

    /// Records that the client cancels a request. Returns `false` if the protocol library must not receive the
    /// cancellation, because the response is being sent.
    fn cancel(&self, id: &RequestId) -> bool {
        let mut requests = self.requests();
        let Some(request) = requests.get_mut(id) else { return true };
        request.is_cancelled = true;
        !request.is_answered
    }

    /// Removes a cancelled request when the protocol library has received the cancellation. The library sends no
    /// response after that.
    fn end_cancelled(&self, id: &RequestId) {
        let mut requests = self.requests();
        if requests.get(id).is_some_and(|request| request.has_started && !request.is_answered) {
            requests.remove(id);
        }
    }

    /// Records that the response to a request is being sent. Returns `true` if the request was cancelled before.
    fn answer(&self, id: &RequestId) -> bool {
        let mut requests = self.requests();
        let Some(request) = requests.get_mut(id) else { return false };
        request.is_answered = true;
        request.is_cancelled
    }

    fn remove(&self, id: &RequestId) {
        self.requests().remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_id_is_free_after_the_response_or_the_cancellation() {
        let (requests, id) = (RunningRequests::default(), RequestId::Number(1));
        assert!(requests.begin(&id, None) && !requests.begin(&id, None));
        assert!(requests.begin(&RequestId::String("1".into()), None), "a string is another ID");
        assert!(requests.cancel(&id));
        requests.end_cancelled(&id);
        assert!(!requests.begin(&id, None), "the library ignores a cancellation that arrives before its request");
        requests.start(&id);
        requests.end_cancelled(&id);
        assert!(requests.begin(&id, None));
        assert!(!requests.answer(&id));
        requests.remove(&id);
        assert!(requests.begin(&id, None));
    }

    #[test]
    fn response_to_a_cancelled_request_always_has_a_stream_or_is_short() {
        let (requests, id) = (RunningRequests::default(), RequestId::Number(1));
        requests.begin(&id, None);
        requests.start(&id);
        assert!(!requests.answer(&id));
        assert!(!requests.cancel(&id), "the stream stays until the response is sent");
        requests.remove(&id);
        assert!(requests.cancel(&id), "the library ignores unknown requests");

        requests.begin(&id, None);
        requests.start(&id);
        assert!(requests.cancel(&id));
        assert!(requests.answer(&id), "the stream may be gone");
        requests.end_cancelled(&id);
        assert!(!requests.begin(&id, None), "the response could reach the stream of the next request");
        requests.remove(&id);
        assert!(requests.begin(&id, None));
    }
}
