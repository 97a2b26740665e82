//! A session of a client, and the queue for it.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit};

use super::{
    rpc::{NOT_INITIALIZED, REFUSED, RpcError},
    worker::Worker,
};

/// A session of a client. The slot exists as soon as the client requests the session, so that its next requests find
/// it.
#[derive(Debug)]
pub(super) struct Slot {
    id: OnceLock<String>,
    state: Arc<tokio::sync::Mutex<State>>,
    used: Mutex<Instant>,
    _place: OwnedSemaphorePermit,
}

/// State of a session.
#[derive(Debug, Default)]
pub(super) enum State {
    /// The session is being opened, or opening it failed.
    #[default]
    Nothing,
    Open(Worker),
    /// The session has ended, for this reason.
    Ended(String),
}

/// Exclusive access to a session: the owner of the guard has the turn.
pub(super) type Turn = OwnedMutexGuard<State>;

/// A position in the queue for a turn.
pub(super) struct Waiting(Pin<Box<dyn Future<Output = Turn> + Send>>, Option<Turn>);

impl Slot {
    pub(super) fn new(place: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self { id: OnceLock::new(), state: Arc::default(), used: Mutex::new(Instant::now()), _place: place })
    }

    /// Returns the session id, or `None` before the session is open.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.get().map(String::as_str)
    }

    pub(super) fn named(&self, id: &str) {
        let _ = self.id.set(id.to_owned());
    }

    /// Records that the session is in use now.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Joins the queue at once. Turns are granted in the order of these calls.
    pub(super) async fn line_up(&self) -> Waiting {
        self.touch();
        let mut turn: Pin<Box<dyn Future<Output = Turn> + Send>> = Box::pin(Arc::clone(&self.state).lock_owned());
        let ready = std::future::poll_fn(|context| match turn.as_mut().poll(context) {
            Poll::Ready(turn) => Poll::Ready(Some(turn)),
            Poll::Pending => Poll::Ready(None),
        });
        let ready = ready.await;
        Waiting(turn, ready)
    }

    /// Ends the session if its interpreter has been idle for at least `idle`. A session without an interpreter holds
    /// little memory and stays. Returns `true` if the slot can be removed.
    pub(super) fn end_if_idle(&self, idle: Duration) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let alone = self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if alone >= idle && matches!(&*state, State::Open(Worker { session: Some(_), .. })) {
            *state = State::Ended(format!("it was idle for {} s", idle.as_secs()));
            return true;
        }
        matches!(*state, State::Ended(_) | State::Nothing)
    }
}

impl Waiting {
    /// Waits for the turn.
    pub(super) async fn turn(self) -> Turn {
        match self.1 {
            Some(turn) => turn,
            None => self.0.await,
        }
    }
}

impl State {
    /// Returns the worker of an open session.
    pub(super) fn worker(&mut self) -> Result<&mut Worker, RpcError> {
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

/// Error for a request without an open session.
pub(super) fn not_initialized() -> RpcError {
    RpcError::named(NOT_INITIALIZED, "not-initialized", "there is no session; `initialize` opens one")
}
