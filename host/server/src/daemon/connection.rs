//! Dispatches a client's messages.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use glovebox::CancelToken;
use glovebox_requests::cancelled;
use serde_json::{json, value::RawValue};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Daemon,
    client_calls::Peer,
    lines::{Gone, Outbox, Outgoing},
    message::{self, Answer, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND, Message, REFUSED, RpcError, RpcId, parse},
    methods::{Context, Method},
    params::{self, Cancel},
    sessions::{ClientSessions, PROTOCOL, SessionSlot, Waiting},
};
use crate::{byte_budget::HeldBytes, text::quoted};

/// A client connection. Its sessions, running requests and pending calls end when it closes.
pub(super) struct Connection {
    pub(super) daemon: Daemon,
    pub(super) outbox: Outbox,
    pub(super) peer: Arc<Peer>,
    /// The parent of the cancellation tokens of the connection's executions.
    pub(super) executions: CancelToken,
    /// Cancelled when the connection ends or the client stops reading.
    pub(super) gone: CancellationToken,
    pub(super) tasks: TaskTracker,
    sessions: ClientSessions,
    requests: Arc<Mutex<HashMap<u64, InFlight>>>,
    count: AtomicU64,
    outstanding: Arc<Semaphore>,
}

/// A request that is running or waits for its turn.
struct InFlight {
    id: Option<RpcId>,
    slot: Arc<SessionSlot>,
    cancel: CancelToken,
}

/// The outcome of dispatching a message.
enum Begun {
    /// Needs no response: the message was a response, or a notification that needs no [`Task`].
    Nothing,
    Now(RpcId, Answer),
    Later(Option<RpcId>, Task),
}

/// The asynchronous part of a request. Resolves to the answer and the request's permit from `outstanding`.
type Task = Pin<Box<dyn Future<Output = (Answer, OwnedSemaphorePermit)> + Send>>;

/// The work for a request, with its positions in the queues of the sessions that it uses.
enum Work {
    In { method: Method, waiting: Waiting },
    Initialize { new: Waiting },
    Fork { original: Waiting, new: Waiting },
}

/// An entry in `requests`, removed on drop.
struct Registered {
    requests: Arc<Mutex<HashMap<u64, InFlight>>>,
    number: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Connection {
    pub(super) fn new(daemon: &Daemon, outbox: Outbox) -> Arc<Self> {
        let peer = Peer::new(outbox.clone());
        Arc::new(Self {
            sessions: ClientSessions::new(daemon, &peer),
            peer,
            executions: daemon.0.service.token(),
            gone: CancellationToken::new(),
            tasks: TaskTracker::new(),
            requests: Arc::default(),
            count: AtomicU64::new(0),
            outstanding: Arc::new(Semaphore::new(daemon.0.config.outstanding.clamp(1, Semaphore::MAX_PERMITS))),
            daemon: daemon.clone(),
            outbox,
        })
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<u64, InFlight>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: cancels its executions and fails its pending calls to the client.
    pub(super) fn end(&self) {
        self.gone.cancel();
        self.executions.cancel();
        self.peer.close();
    }

    /// Ends idle sessions. Returns `true` if no sessions and no running requests remain.
    pub(super) fn is_idle(&self) -> bool {
        self.sessions.end_idle() == 0 && self.requests().is_empty()
    }

    /// Dispatches a message or a batch. Its requests run concurrently with later messages and send their responses when
    /// they finish.
    pub(super) async fn take(self: &Arc<Self>, line: &[u8], held: HeldBytes) -> Result<(), Gone> {
        let messages = match params::in_place_if_large(line.len(), || parse(line)) {
            Ok(messages) => messages,
            Err(error) => return self.outbox.send_short(message::response(&RpcId::null(), &Err(error))).await,
        };
        match messages {
            Message::One(incoming) => match self.begin(incoming).await {
                Begun::Nothing => Ok(()),
                Begun::Now(id, answer) => self.outbox.send_short(message::response(&id, &answer)).await,
                Begun::Later(id, work) => {
                    let connection = Arc::clone(self);
                    self.spawn(async move {
                        if let Some(message) = connection.answered(id, work, held.into()).await {
                            let _ = connection.outbox.send(message).await;
                        }
                    });
                    Ok(())
                }
            },
            Message::Batch(batch) => {
                let held = Arc::new(held);
                let mut begun = Vec::with_capacity(batch.len());
                for incoming in batch {
                    begun.push(match self.begin(incoming).await {
                        Begun::Later(id, work) => {
                            let (connection, held) = (Arc::clone(self), Arc::clone(&held));
                            Ok(self.tasks.spawn(async move {
                                tokio::select! {
                                    message = connection.answered(id, work, held) => message,
                                    () = connection.gone.cancelled() => None,
                                }
                            }))
                        }
                        begun => Err(begun),
                    });
                }
                drop(held);
                let has_tasks = begun.iter().any(Result::is_ok);
                let connection = Arc::clone(self);
                let answers = async move {
                    let mut messages = Vec::new();
                    for begun in begun {
                        match begun {
                            Ok(task) => messages.extend(task.await.ok().flatten()),
                            Err(Begun::Now(id, answer)) => {
                                messages.extend(connection.outbox.outgoing(message::response(&id, &answer)).await.ok());
                            }
                            Err(_) => {}
                        }
                    }
                    connection.send_batch(messages).await;
                };
                // A batch without tasks holds no permit of `outstanding`, so nothing limits the number of such batches
                // that wait for the queue. Wait here instead of in the background.
                if has_tasks {
                    self.spawn(answers)
                } else {
                    answers.await
                }
                Ok(())
            }
        }
    }

    fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let connection = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                () = work => {}
                () = connection.gone.cancelled() => {}
            }
        });
    }

    /// Sends the responses to a batch as a single message. A batch of notifications has no response.
    async fn send_batch(&self, messages: Vec<Outgoing>) {
        if messages.is_empty() {
            return;
        }
        let (mut text, mut held, mut places) = (String::from("["), HeldBytes::default(), Vec::new());
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&message.text);
            held.join(message.held);
            places.extend(message.places);
        }
        text.push(']');
        let _ = self.outbox.send(Outgoing { text, held, places }).await;
    }

    /// Runs a request and waits until the memory budget has room for the response. Replaces the response with an error
    /// if no room is freed in time. Returns `None` for a notification.
    ///
    /// `held` is the memory charged for the message that contains the request.
    async fn answered(&self, id: Option<RpcId>, work: Task, held: Arc<HeldBytes>) -> Option<Outgoing> {
        let (answer, place) = work.await;
        drop(held);
        let id = id?;
        let text = message::response(&id, &answer);
        // Free the answer, which may be large, before the text waits for room.
        drop(answer);
        let mut message = self.outbox.outgoing(text).await.unwrap_or_else(|_| {
            let message = "the request was executed, but the daemon's memory for answers is full; read answers faster";
            let error = RpcError::named(REFUSED, "unavailable", message);
            Outgoing { text: message::response(&id, &Err(error)), held: HeldBytes::default(), places: Vec::new() }
        });
        message.places.push(place);
        Some(message)
    }

    async fn begin(self: &Arc<Self>, incoming: Incoming<'_>) -> Begun {
        let (id, method, params) = match incoming {
            Incoming::Request { id, method, params } => (id, method, params),
            Incoming::Response { id, answer } => {
                self.peer.answered(id.text(), answer);
                return Begun::Nothing;
            }
            Incoming::Invalid { id, error } => return Begun::Now(id, Err(error)),
        };
        let now = |answer: Answer| match &id {
            Some(id) => Begun::Now(id.clone(), answer),
            None => Begun::Nothing,
        };
        match &*method {
            "ping" => return now(message::result(&self.ping())),
            "cancel" => return now(self.cancel(params)),
            "shutdown" => {
                self.daemon.stop();
                return now(message::result(&json!({})));
            }
            _ => {}
        }
        match self.begin_task(&id, &method, params).await {
            Ok(work) => Begun::Later(id, work),
            Err(error) => now(Err(error)),
        }
    }

    /// Prepares the asynchronous part of a request. Joins the queues of its sessions before returning, so that the
    /// requests to a session run in order of arrival.
    async fn begin_task(
        self: &Arc<Self>,
        id: &Option<RpcId>,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Task, RpcError> {
        let named = match method {
            "initialize" | "fork" => None,
            _ => Some(Method::named(method).ok_or_else(|| {
                let message = format!("unknown method `{}`", glovebox::escaped(&quoted(method)));
                RpcError::new(METHOD_NOT_FOUND, message)
            })?),
        };
        if id.is_some() && self.requests().values().any(|request| request.id == *id) {
            return Err(RpcError::new(INVALID_REQUEST, "a request with this `id` is still running; use another `id`"));
        }
        let place = Arc::clone(&self.outstanding).try_acquire_owned().map_err(|_| {
            let most = self.daemon.0.config.outstanding;
            RpcError::named(
                REFUSED,
                "quota-exceeded",
                format!("limit of {most} running requests reached; wait for a response"),
            )
        })?;
        let (slot, work) = match named {
            Some(method) => {
                let slot = self.sessions.meant(params)?;
                let waiting = slot.line_up().await;
                (slot, Work::In { method, waiting })
            }
            None if method == "initialize" => {
                let (slot, new) = self.sessions.place().await?;
                (slot, Work::Initialize { new })
            }
            None => {
                let original = self.sessions.meant(params)?.line_up().await;
                let (slot, new) = self.sessions.place().await?;
                (slot, Work::Fork { original, new })
            }
        };
        let cancel = self.executions.child();
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        self.requests().insert(number, InFlight { id: id.clone(), slot: Arc::clone(&slot), cancel: cancel.clone() });
        let registered = Registered { requests: Arc::clone(&self.requests), number };
        let (connection, params) = (Arc::clone(self), params.map(ToOwned::to_owned));
        let context = Context { id: id.clone(), cancel, outbox: self.outbox.clone() };
        Ok(Box::pin(async move {
            let _registered = registered;
            let answer = connection.work(work, &slot, params, context).await;
            slot.touch();
            let is_over = match named {
                Some(method) => method == Method::Destroy && answer.is_ok(),
                None => answer.is_err(),
            };
            if is_over {
                connection.sessions.forget(&slot);
            }
            (answer, place)
        }))
    }

    async fn work(&self, work: Work, slot: &SessionSlot, params: Option<Box<RawValue>>, context: Context) -> Answer {
        let cancel = context.cancel.clone();
        let turn = async |waiting: Waiting| {
            tokio::select! {
                turn = waiting.turn() => Ok(turn),
                () = cancelled(&cancel) => Err(RpcError::cancelled()),
            }
        };
        match work {
            Work::In { method, waiting } => method.call(turn(waiting).await?, params, context).await,
            Work::Initialize { new } => self.sessions.initialize(slot, new, params.as_deref()).await,
            Work::Fork { original, new } => {
                self.sessions.fork(turn(original).await?, slot, new, params.as_deref()).await
            }
        }
    }

    fn ping(&self) -> serde_json::Value {
        let shared = &self.daemon.0;
        let sessions = shared.config.sessions.saturating_sub(shared.sessions.available_permits());
        json!({
            "pong": true,
            "protocol": PROTOCOL,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "connections": shared.connected.load(Ordering::SeqCst),
            "sessions": sessions,
            "ready": shared.interpreters.ready(),
            "uptime_ms": u64::try_from(shared.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn cancel(&self, params: Option<&RawValue>) -> Answer {
        let Cancel { id, session } = params::read(params)?;
        let id = id.map(|raw| {
            RpcId::read(&raw)
                .ok_or_else(|| RpcError::params("`id` must be the `id` of a request: a string or a number"))
        });
        let id = id.transpose()?;
        let mut count = 0;
        for request in self.requests().values() {
            let is_meant = id.as_ref().is_none_or(|id| request.id.as_ref() == Some(id))
                && session.as_deref().is_none_or(|session| request.slot.id() == Some(session));
            if is_meant {
                request.cancel.cancel();
                count += 1;
            }
        }
        message::result(&json!({ "cancelled": count }))
    }
}
