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
    model::{ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
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

use crate::text::quoted;

type ResponseStream = Pin<Box<dyn Stream<Item = ServerSseMessage> + Send + Sync>>;

/// The connected clients of a tenant. Rejects a request whose ID belongs to a running request of the same client.
///
/// The protocol library finds a response's stream by the ID of the request. If two running requests had the same ID, it
/// would keep the stream of the first one, and that request's progress token, until the client disconnects.
pub(super) struct Connections {
    manager: Arc<LocalSessionManager>,
    running: Mutex<HashMap<SessionId, Arc<RunningRequests>>>,
}

impl Connections {
    /// Creates an empty set of clients. Clients are disconnected when they have been idle for `idle`.
    pub(super) fn new(idle: Duration) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(idle);
        // The streams of cancelled requests. They contain no response that a client could still read.
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
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        if let Some(request) = &request
            && !running.begin(request)
        {
            return Ok(Box::pin(tokio_stream::once(in_use(request))) as ResponseStream);
        }
        let (manager, id) = (Arc::clone(&self.manager), id.clone());
        // The library first creates a stream and then passes it the request. If a client that disconnects stopped it in
        // between, it would keep the stream without a request.
        let create = async move {
            match manager.create_stream(&id, message).await {
                Ok(stream) => Ok(Box::pin(stream) as ResponseStream),
                Err(error) => {
                    if let Some(request) = &request {
                        running.forget(request);
                    }
                    Err(error)
                }
            }
        };
        let created = tokio::spawn(create.in_current_span()).await;
        created.map_err(|error| SessionError::from(io::Error::from(error)))?
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), Self::Error> {
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

/// Returns the response to a request whose ID belongs to a running request.
fn in_use(id: &RequestId) -> ServerSseMessage {
    let message = format!(
        "the request ID `{}` belongs to a request that is still running; use another ID",
        glovebox::escaped(&quoted(id))
    );
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
        let answered = answered.and_then(|id| self.running.number(&id).map(|number| (id, number)));
        let running = Arc::clone(&self.running);
        let sent: Pin<Box<dyn Future<Output = Result<(), Self::Error>> + Send>> = Box::pin(self.transport.send(item));
        async move {
            let result = sent.await;
            if let Some((id, number)) = answered {
                running.end(&id, number);
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let message = self.transport.receive().await?;
        match &message {
            JsonRpcMessage::Request(request) => self.running.start(&request.id),
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.running.cancel(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}

/// The IDs of a client's running requests. Contains an ID as long as the protocol library has a stream for it.
#[derive(Default)]
struct RunningRequests(Mutex<Requests>);

#[derive(Default)]
struct Requests {
    by_id: HashMap<RequestId, RunningRequest>,
    /// The number of requests begun so far.
    begun: u64,
}

struct RunningRequest {
    /// Distinguishes the request from earlier and later requests with the same ID.
    number: u64,
    /// `true` if the protocol library has received the request. Until then, a cancellation has no effect.
    has_started: bool,
}

impl RunningRequests {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Returns `false` if its ID belongs to a running request.
    fn begin(&self, id: &RequestId) -> bool {
        let mut requests = self.requests();
        if requests.by_id.contains_key(id) {
            return false;
        }
        requests.begun += 1;
        let number = requests.begun;
        requests.by_id.insert(id.clone(), RunningRequest { number, has_started: false });
        true
    }

    /// Records that the protocol library has received a request.
    fn start(&self, id: &RequestId) {
        if let Some(request) = self.requests().by_id.get_mut(id) {
            request.has_started = true;
        }
    }

    /// Removes a cancelled request, which has no response.
    fn cancel(&self, id: &RequestId) {
        let mut requests = self.requests();
        if requests.by_id.get(id).is_some_and(|request| request.has_started) {
            requests.by_id.remove(id);
        }
    }

    fn number(&self, id: &RequestId) -> Option<u64> {
        self.requests().by_id.get(id).map(|request| request.number)
    }

    /// Removes a request whose response has been sent.
    fn end(&self, id: &RequestId, number: u64) {
        let mut requests = self.requests();
        if requests.by_id.get(id).is_some_and(|request| request.number == number) {
            requests.by_id.remove(id);
        }
    }

    /// Removes a request that the protocol library did not accept.
    fn forget(&self, id: &RequestId) {
        self.requests().by_id.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_id_is_free_after_the_response_or_the_cancellation() {
        let (requests, id) = (RunningRequests::default(), RequestId::Number(1));
        assert!(requests.begin(&id) && !requests.begin(&id));
        assert!(requests.begin(&RequestId::String("1".into())), "a string is another ID");
        requests.cancel(&id);
        assert!(!requests.begin(&id), "the library ignores a cancellation that arrives before its request");
        requests.start(&id);
        let first = requests.number(&id).unwrap();
        requests.cancel(&id);
        assert!(requests.begin(&id));
        requests.end(&id, first);
        assert!(!requests.begin(&id), "the response to an earlier request does not free the ID");
        requests.end(&id, requests.number(&id).unwrap());
        assert!(requests.begin(&id));
    }
}
