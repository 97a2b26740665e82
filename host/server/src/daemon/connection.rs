//! One client: its messages are read, and what they ask for is begun.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use glovebox::CancelToken;
use serde_json::{json, value::RawValue};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Daemon,
    budget::Held,
    message::{Incoming, Message, parse},
    methods::{Context, Method},
    outbox::{Gone, Outbox, Outgoing},
    params::{self, Cancel, Fork, Initialize, Target},
    peer::Peer,
    rpc::{self, Answer, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, REFUSED, RpcError, RpcId},
    slot::{Slot, State, Turn, Waiting, not_initialized},
    worker::Worker,
};
use crate::cancelled::cancelled;

/// The version of the protocol.
const PROTOCOL: u32 = 1;

/// One client. Everything that it has is gone with it.
pub(super) struct Connection {
    pub(super) daemon: Daemon,
    pub(super) outbox: Outbox,
    pub(super) peer: Arc<Peer>,
    /// The parent of all its executions' tokens.
    pub(super) executions: CancelToken,
    /// Cancelled when the client is gone.
    pub(super) gone: CancellationToken,
    pub(super) tasks: TaskTracker,
    slots: Mutex<Vec<Arc<Slot>>>,
    requests: Arc<Mutex<HashMap<u64, InFlight>>>,
    count: AtomicU64,
    outstanding: Arc<Semaphore>,
}

/// A request that has no answer yet.
struct InFlight {
    id: Option<RpcId>,
    slot: Arc<Slot>,
    cancel: CancelToken,
}

/// What becomes of a message.
enum Begun {
    /// Nothing is to be said.
    Nothing,
    Now(RpcId, Answer),
    Later(Option<RpcId>, Pin<Box<dyn Future<Output = Answer> + Send>>),
}

/// What is begun, and forgotten when this is dropped.
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
        Arc::new(Self {
            peer: Peer::new(outbox.clone()),
            executions: daemon.0.service.token(),
            gone: CancellationToken::new(),
            tasks: TaskTracker::new(),
            slots: Mutex::default(),
            requests: Arc::default(),
            count: AtomicU64::new(0),
            outstanding: Arc::new(Semaphore::new(daemon.0.config.outstanding.clamp(1, Semaphore::MAX_PERMITS))),
            daemon: daemon.clone(),
            outbox,
        })
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<u64, InFlight>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client is gone: what runs for it is cancelled.
    pub(super) fn end(&self) {
        self.gone.cancel();
        self.executions.cancel();
        self.peer.close();
    }

    /// Ends sessions that nobody uses. Whether the connection has none, and nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        let idle = self.daemon.0.config.idle;
        let mut slots = self.slots();
        slots.retain(|slot| !slot.end_if_idle(idle));
        slots.is_empty() && self.requests().is_empty()
    }

    /// Takes a message: what it asks for goes on beside the next ones, and its answer goes out by itself.
    pub(super) async fn take(self: &Arc<Self>, line: &[u8], held: Held) -> Result<(), Gone> {
        let messages = match params::aside(line.len(), || parse(line)) {
            Ok(messages) => messages,
            Err(error) => return self.outbox.send_short(rpc::response(&RpcId::null(), &Err(error))).await,
        };
        match messages {
            Message::One(incoming) => match self.begin(incoming).await {
                Begun::Nothing => Ok(()),
                Begun::Now(id, answer) => self.outbox.send_short(rpc::response(&id, &answer)).await,
                Begun::Later(id, work) => {
                    let connection = Arc::clone(self);
                    self.spawn(async move {
                        let _held = held;
                        if let Some(message) = connection.answered(id, work).await {
                            let _ = connection.outbox.send(message).await;
                        }
                    });
                    Ok(())
                }
            },
            Message::Batch(batch) => {
                let mut begun = Vec::with_capacity(batch.len());
                for incoming in batch {
                    begun.push(match self.begin(incoming).await {
                        Begun::Later(id, work) => {
                            let connection = Arc::clone(self);
                            Ok(self.tasks.spawn(async move {
                                tokio::select! {
                                    message = connection.answered(id, work) => message,
                                    () = connection.gone.cancelled() => None,
                                }
                            }))
                        }
                        begun => Err(begun),
                    });
                }
                let connection = Arc::clone(self);
                self.spawn(async move {
                    let _held = held;
                    let mut messages = Vec::new();
                    for begun in begun {
                        match begun {
                            Ok(task) => messages.extend(task.await.ok().flatten()),
                            Err(Begun::Now(id, answer)) => {
                                messages.push(Outgoing { text: rpc::response(&id, &answer), held: Held::default() });
                            }
                            Err(_) => {}
                        }
                    }
                    connection.send_batch(messages).await;
                });
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

    /// A batch of notifications has no answer.
    async fn send_batch(&self, messages: Vec<Outgoing>) {
        if messages.is_empty() {
            return;
        }
        let (mut text, mut held) = (String::from("["), Held::default());
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&message.text);
            held.join(message.held);
        }
        text.push(']');
        let _ = self.outbox.send(Outgoing { text, held }).await;
    }

    /// What a request is answered, once there is room for it.
    async fn answered(
        &self,
        id: Option<RpcId>,
        work: Pin<Box<dyn Future<Output = Answer> + Send>>,
    ) -> Option<Outgoing> {
        let answer = work.await;
        let id = id?;
        let text = rpc::response(&id, &answer);
        // It may be long, and there may be no room for a while.
        drop(answer);
        match self.outbox.outgoing(text).await {
            Ok(message) => Some(message),
            Err(_) => {
                let message = "it was done, but the daemon has as many answers in memory as it may; read yours faster";
                let error = RpcError::named(REFUSED, "unavailable", message);
                Some(Outgoing { text: rpc::response(&id, &Err(error)), held: Held::default() })
            }
        }
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
            "ping" => return now(rpc::result(&self.ping())),
            "cancel" => return now(self.cancel(params)),
            "shutdown" => {
                self.daemon.stop();
                return now(rpc::result(&json!({})));
            }
            _ => {}
        }
        match self.begin_task(&id, &method, params).await {
            Ok(work) => Begun::Later(id, work),
            Err(error) => now(Err(error)),
        }
    }

    /// What takes its time.
    async fn begin_task(
        self: &Arc<Self>,
        id: &Option<RpcId>,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Pin<Box<dyn Future<Output = Answer> + Send>>, RpcError> {
        let named = Method::named(method);
        if named.is_none() && !matches!(method, "initialize" | "fork") {
            let message = format!("there is no method `{}`", glovebox::escaped(method));
            return Err(RpcError::new(METHOD_NOT_FOUND, message));
        }
        if id.is_some() && self.requests().values().any(|request| request.id == *id) {
            return Err(RpcError::new(INVALID_REQUEST, "a request of this `id` has no answer yet; use another"));
        }
        let place = Arc::clone(&self.outstanding).try_acquire_owned().map_err(|_| {
            let most = self.daemon.0.config.outstanding;
            RpcError::named(REFUSED, "quota-exceeded", format!("{most} requests have no answer yet; wait for one"))
        })?;
        let original = match method {
            "initialize" => None,
            _ => Some(self.slot(params)?),
        };
        let waiting = match &original {
            Some(slot) => Some(slot.line_up().await),
            None => None,
        };
        let made = match named {
            Some(_) => None,
            None => Some(self.new_slot().await?),
        };
        let slot = made.as_ref().map(|(slot, _)| slot).or(original.as_ref());
        let slot = Arc::clone(slot.ok_or_else(not_initialized)?);
        let cancel = self.executions.child();
        let number = self.count.fetch_add(1, Ordering::SeqCst);
        self.requests().insert(number, InFlight { id: id.clone(), slot: Arc::clone(&slot), cancel: cancel.clone() });
        let registered = Registered { requests: Arc::clone(&self.requests), number };
        let (connection, params) = (Arc::clone(self), params.map(ToOwned::to_owned));
        let context = Context { id: id.clone(), cancel: cancel.clone(), outbox: self.outbox.clone() };
        Ok(Box::pin(async move {
            let _held = (place, registered);
            let work = async {
                let turn = match waiting {
                    Some(waiting) => Some(tokio::select! {
                        turn = waiting.turn() => turn,
                        () = cancelled(&cancel) => return Err(RpcError::cancelled()),
                    }),
                    None => None,
                };
                match (named, turn, made) {
                    (Some(method), Some(turn), _) => method.call(turn, params, context).await,
                    (None, None, Some((slot, waiting))) => connection.initialize(&slot, waiting, params).await,
                    (None, Some(turn), Some((slot, waiting))) => connection.fork(turn, &slot, waiting, params).await,
                    _ => Err(RpcError::new(INTERNAL_ERROR, "nothing was asked")),
                }
            };
            let answer = work.await;
            slot.touch();
            let is_over = match named {
                Some(method) => method == Method::Destroy && answer.is_ok(),
                None => answer.is_err(),
            };
            if is_over {
                connection.slots().retain(|other| !Arc::ptr_eq(other, &slot));
            }
            answer
        }))
    }

    /// The session that is meant: the one that is named, or the last one that was opened.
    fn slot(&self, params: Option<&RawValue>) -> Result<Arc<Slot>, RpcError> {
        let Target { session } = match params {
            Some(params) if params.get().starts_with('{') => params::read(Some(params))?,
            _ => Target::default(),
        };
        let slots = self.slots();
        let Some(id) = session else { return slots.last().cloned().ok_or_else(not_initialized) };
        slots.iter().find(|slot| slot.id() == Some(&id)).cloned().ok_or_else(|| {
            let message = format!(
                "this connection has no session `{}`: it was ended, nobody used it for long, or there was none",
                glovebox::escaped(&id)
            );
            RpcError::named(REFUSED, "session-ended", message)
        })
    }

    /// A place for one more session, and its first turn.
    async fn new_slot(&self) -> Result<(Arc<Slot>, Waiting), RpcError> {
        let config = &self.daemon.0.config;
        let full = |most: usize, whose: &str| {
            let message = format!("{most} sessions {whose} are open, and no more may be; destroy one first");
            RpcError::named(REFUSED, "quota-exceeded", message)
        };
        let mut count = 0;
        self.slots().retain(|slot| {
            let stays = !slot.end_if_idle(config.idle);
            count += usize::from(stays);
            stays
        });
        if count >= config.connection_sessions {
            return Err(full(config.connection_sessions, "of this connection"));
        }
        let place = Arc::clone(&self.daemon.0.sessions).try_acquire_owned();
        let slot = Slot::new(place.map_err(|_| full(config.sessions, "of this daemon"))?);
        let waiting = slot.line_up().await;
        self.slots().push(Arc::clone(&slot));
        Ok((slot, waiting))
    }

    async fn initialize(&self, slot: &Slot, waiting: Waiting, params: Option<Box<RawValue>>) -> Answer {
        let turn = waiting.turn().await;
        let asked: Initialize = params::read(params.as_deref())?;
        let worker = self.daemon.0.workers.get(asked).await?;
        self.opened(slot, turn, worker)
    }

    async fn fork(&self, mut turn: Turn, slot: &Slot, waiting: Waiting, params: Option<Box<RawValue>>) -> Answer {
        let new = waiting.turn().await;
        let Fork { context, .. } = params::read(params.as_deref())?;
        let context = context.map(params::json_text).transpose()?;
        let original = turn.worker()?;
        let session = original.open().await?.fork().await?;
        if let Some(context) = &context {
            session.set_context(context.clone()).await?;
        }
        let context = context.or_else(|| original.context.clone());
        let (sandbox, router, held) =
            (original.sandbox.clone(), Arc::clone(&original.router), Arc::clone(&original.held));
        self.opened(slot, new, Worker { sandbox, session: Some(session), router, context, held })
    }

    /// A session can be used from now on.
    fn opened(&self, slot: &Slot, mut turn: Turn, worker: Worker) -> Answer {
        worker.router.connect(&self.peer);
        let id = match &worker.session {
            Some(session) => session.id().to_owned(),
            None => glovebox::SessionId::random().to_string(),
        };
        slot.named(&id);
        let answer = json!({
            "session": id,
            "language": worker.sandbox.language().name(),
            "runtime": worker.sandbox.runtime_name(),
            "version": worker.sandbox.version(),
            "protocol": PROTOCOL,
        });
        *turn = State::Open(worker);
        rpc::result(&answer)
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
            "ready": shared.workers.ready(),
            "uptime_ms": u64::try_from(shared.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    fn cancel(&self, params: Option<&RawValue>) -> Answer {
        let Cancel { id, session } = params::read(params)?;
        let id = id.map(|raw| {
            RpcId::read(&raw)
                .ok_or_else(|| RpcError::params("`id` is what the request has as `id`: a string or a number"))
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
        rpc::result(&json!({ "cancelled": count }))
    }
}
