//! A client's sessions, and the queue of requests for each session.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use glovebox_sessions::SessionId;
use serde_json::{json, value::RawValue};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use super::{
    Daemon,
    client_calls::Peer,
    interpreter_pool::ClientSession,
    message::{self, Answer, NOT_INITIALIZED, REFUSED, RpcError},
    params::{self, Fork, Initialize, SessionTarget},
};

/// The protocol version that `initialize`, `fork` and `ping` report.
pub(super) const PROTOCOL: u32 = 1;

/// A client's sessions, in the order in which the client requested them.
pub(super) struct ClientSessions {
    daemon: Daemon,
    peer: Arc<Peer>,
    slots: Mutex<Vec<Arc<SessionSlot>>>,
}

impl ClientSessions {
    pub(super) fn new(daemon: &Daemon, peer: &Arc<Peer>) -> Self {
        Self { daemon: daemon.clone(), peer: Arc::clone(peer), slots: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Arc<SessionSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the client's idle sessions. Returns the number of remaining sessions.
    pub(super) fn end_idle(&self) -> usize {
        let idle = self.daemon.0.config.idle;
        let mut slots = self.slots();
        slots.retain(|slot| !slot.end_if_idle(idle));
        slots.len()
    }

    /// Removes a session from the client's sessions.
    pub(super) fn forget(&self, slot: &Arc<SessionSlot>) {
        self.slots().retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// Returns the session that `params` names. Without a name, returns the session that was requested last.
    pub(super) fn meant(&self, params: Option<&RawValue>) -> Result<Arc<SessionSlot>, RpcError> {
        let SessionTarget { session } = match params {
            Some(params) if params.get().starts_with('{') => params::read(Some(params))?,
            _ => SessionTarget::default(),
        };
        let slots = self.slots();
        let Some(id) = session else { return slots.last().cloned().ok_or_else(not_initialized) };
        slots.iter().find(|slot| slot.id() == Some(&id)).cloned().ok_or_else(|| {
            let message = format!(
                "this connection has no session `{}`: it was closed, was idle for too long, or never existed",
                glovebox::escaped(&id)
            );
            RpcError::named(REFUSED, "session-ended", message)
        })
    }

    /// Reserves a slot for a new session and the first turn in it. Fails if the connection or the daemon has reached
    /// its maximum number of sessions.
    pub(super) async fn place(&self) -> Result<(Arc<SessionSlot>, Waiting), RpcError> {
        let config = &self.daemon.0.config;
        let full = |most: usize, whose: &str| {
            let message = format!("{whose} has reached its limit of {most} sessions; destroy one first");
            RpcError::named(REFUSED, "quota-exceeded", message)
        };
        if self.end_idle() >= config.connection_sessions {
            return Err(full(config.connection_sessions, "this connection"));
        }
        let place = Arc::clone(&self.daemon.0.sessions).try_acquire_owned();
        let slot = SessionSlot::new(place.map_err(|_| full(config.sessions, "this daemon"))?);
        let waiting = slot.line_up().await;
        self.slots().push(Arc::clone(&slot));
        Ok((slot, waiting))
    }

    /// Opens a session in a reserved slot.
    pub(super) async fn initialize(&self, slot: &SessionSlot, waiting: Waiting, params: Option<&RawValue>) -> Answer {
        let turn = waiting.turn().await;
        let asked: Initialize = params::read(params)?;
        let worker = self.daemon.0.interpreters.get(asked).await?;
        self.opened(slot, turn, worker)
    }

    /// Forks a session into a reserved slot.
    pub(super) async fn fork(
        &self,
        mut original: Turn,
        slot: &SessionSlot,
        waiting: Waiting,
        params: Option<&RawValue>,
    ) -> Answer {
        let turn = waiting.turn().await;
        let Fork { context, .. } = params::read(params)?;
        let context = context.map(params::json_text).transpose()?;
        let original = original.worker()?;
        let session = original.open().await?.fork().await?;
        if let Some(context) = &context {
            session.set_context(context.clone()).await?;
        }
        let worker = ClientSession {
            sandbox: original.sandbox.clone(),
            session: Some(session),
            router: Arc::clone(&original.router),
            context: context.or_else(|| original.context.clone()),
            held: Arc::clone(&original.held),
        };
        self.opened(slot, turn, worker)
    }

    /// Stores a new session in its slot and returns the answer to the client.
    fn opened(&self, slot: &SessionSlot, mut turn: Turn, worker: ClientSession) -> Answer {
        worker.router.connect(&self.peer);
        let id = match &worker.session {
            Some(session) => session.id().to_owned(),
            None => SessionId::random().to_string(),
        };
        slot.named(&id);
        let answer = json!({
            "session": id,
            "language": worker.sandbox.language().name(),
            "runtime": worker.sandbox.runtime_name(),
            "version": worker.sandbox.version(),
            "protocol": PROTOCOL,
        });
        *turn = SessionState::Open(worker);
        message::result(&answer)
    }
}

/// A client's session. The slot is created as soon as the client requests the session, so that the client's following
/// requests can refer to it.
#[derive(Debug)]
pub(super) struct SessionSlot {
    id: OnceLock<String>,
    state: Arc<tokio::sync::Mutex<SessionState>>,
    used: Mutex<Instant>,
    _place: OwnedSemaphorePermit,
}

/// The state of a client's session.
#[derive(Debug, Default)]
pub(super) enum SessionState {
    /// The session is being opened, or could not be opened.
    #[default]
    Nothing,
    Open(ClientSession),
    /// The session has ended. Contains the reason.
    Ended(String),
}

/// Exclusive access to a session. The request that owns the guard has the turn.
pub(super) type Turn = OwnedMutexGuard<SessionState>;

/// A position in the queue for a turn.
pub(super) struct Waiting {
    queued: Pin<Box<dyn Future<Output = Turn> + Send>>,
    /// The turn, if it was available immediately.
    ready: Option<Turn>,
}

impl SessionSlot {
    pub(super) fn new(place: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self { id: OnceLock::new(), state: Arc::default(), used: Mutex::new(Instant::now()), _place: place })
    }

    /// Returns the session ID, or `None` if the session is not yet open.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.get().map(String::as_str)
    }

    pub(super) fn named(&self, id: &str) {
        let _ = self.id.set(id.to_owned());
    }

    /// Resets the idle time of the session.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Joins the queue immediately. Turns are granted in the order of calls.
    pub(super) async fn line_up(&self) -> Waiting {
        self.touch();
        let mut queued: Pin<Box<dyn Future<Output = Turn> + Send>> = Box::pin(Arc::clone(&self.state).lock_owned());
        let ready = std::future::poll_fn(|context| match queued.as_mut().poll(context) {
            Poll::Ready(turn) => Poll::Ready(Some(turn)),
            Poll::Pending => Poll::Ready(None),
        });
        let ready = ready.await;
        Waiting { queued, ready }
    }

    /// Ends the session if its interpreter has been idle for at least `idle`. A session without an interpreter occupies
    /// little memory and stays open. Returns `true` if the slot can be removed.
    fn end_if_idle(&self, idle: Duration) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let alone = self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if alone >= idle && matches!(&*state, SessionState::Open(ClientSession { session: Some(_), .. })) {
            *state = SessionState::Ended(format!("it was idle for {} s", idle.as_secs()));
            return true;
        }
        matches!(*state, SessionState::Ended(_) | SessionState::Nothing)
    }
}

impl Waiting {
    pub(super) async fn turn(self) -> Turn {
        match self.ready {
            Some(turn) => turn,
            None => self.queued.await,
        }
    }
}

impl SessionState {
    /// Returns the open session. Fails if the session is not open.
    pub(super) fn worker(&mut self) -> Result<&mut ClientSession, RpcError> {
        match self {
            Self::Open(worker) => Ok(worker),
            Self::Nothing => Err(not_initialized()),
            Self::Ended(why) => {
                let message = format!("the session has ended: {why}; open another one with `initialize`");
                Err(RpcError::named(REFUSED, "session-ended", message))
            }
        }
    }
}

/// Creates the error for a request that requires an open session.
fn not_initialized() -> RpcError {
    RpcError::named(NOT_INITIALIZED, "not-initialized", "no session is open; open one with `initialize`")
}
