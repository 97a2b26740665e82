//! One session of a client, and whose turn it is in it.

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

/// One session of a client. Its place is there as soon as the client asks for it, so that what it sends next finds it.
#[derive(Debug)]
pub(super) struct Slot {
    id: OnceLock<String>,
    state: Arc<tokio::sync::Mutex<State>>,
    used: Mutex<Instant>,
    _place: OwnedSemaphorePermit,
}

/// What has become of it.
#[derive(Debug, Default)]
pub(super) enum State {
    /// It is being made, or could not be.
    #[default]
    Nothing,
    /// It can be used.
    Open(Worker),
    /// It cannot any more, and why.
    Ended(String),
}

/// Whoever has the state has the turn.
pub(super) type Turn = OwnedMutexGuard<State>;

/// A place in the line for a turn.
pub(super) struct Waiting(Pin<Box<dyn Future<Output = Turn> + Send>>, Option<Turn>);

impl Slot {
    pub(super) fn new(place: OwnedSemaphorePermit) -> Arc<Self> {
        Arc::new(Self { id: OnceLock::new(), state: Arc::default(), used: Mutex::new(Instant::now()), _place: place })
    }

    /// Its id, once it has one.
    pub(super) fn id(&self) -> Option<&str> {
        self.id.get().map(String::as_str)
    }

    pub(super) fn named(&self, id: &str) {
        let _ = self.id.set(id.to_owned());
    }

    /// It is used now.
    pub(super) fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Gets in line, now: turns come in the order of these calls.
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

    /// Ends its interpreter if nobody has used it for so long; what has none holds little. Whether it has ended, and can be forgotten.
    pub(super) fn end_if_idle(&self, idle: Duration) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let alone = self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if alone >= idle && matches!(&*state, State::Open(Worker { session: Some(_), .. })) {
            *state = State::Ended(format!("nobody used it for {} s", idle.as_secs()));
            return true;
        }
        matches!(*state, State::Ended(_) | State::Nothing)
    }
}

impl Waiting {
    /// The turn.
    pub(super) async fn turn(self) -> Turn {
        match self.1 {
            Some(turn) => turn,
            None => self.0.await,
        }
    }
}

impl State {
    /// What is used.
    pub(super) fn worker(&mut self) -> Result<&mut Worker, RpcError> {
        match self {
            Self::Open(worker) => Ok(worker),
            Self::Nothing => Err(not_initialized()),
            Self::Ended(why) => {
                let message = format!("the session has ended: {why}; `initialize` opens another one");
                Err(RpcError::named(REFUSED, "session-ended", message))
            }
        }
    }
}

/// There is no session.
pub(super) fn not_initialized() -> RpcError {
    RpcError::named(NOT_INITIALIZED, "not-initialized", "there is no session; `initialize` opens one")
}
