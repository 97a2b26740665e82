//! The slot of one worker, and the process in it.

use std::{
    collections::HashMap,
    process::Child,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::body::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, StatusCode, body::Incoming, header::HeaderValue};
use tokio::sync::watch;

use super::{Confinement, connections::Connections, serve::Done};
use crate::{ServiceError, audit::Failed};

/// Completion callback of a forwarded request. Receives what the worker did.
pub(crate) type Pending = Box<dyn FnOnce(Done) + Send>;

/// The header with the number of a request.
pub(crate) const REQUEST: &str = "glovebox-request";
/// The path that reports whether a request is in progress.
pub(crate) const RUNNING_PATH: &str = "/worker/running";

/// The slot of one worker.
#[derive(Debug)]
pub(super) struct WorkerSlot {
    state: Mutex<SlotState>,
    /// A counter of changes to any slot.
    changed: watch::Sender<u64>,
    pub(super) restarts: AtomicU64,
    /// The reason that the last process ended. Cleared once a process is ready.
    pub(super) failure: Mutex<Option<String>>,
}

#[derive(Clone, Debug)]
enum SlotState {
    Starting,
    Ready(Arc<Live>),
    Ended,
}

impl WorkerSlot {
    pub(super) fn new(changed: watch::Sender<u64>) -> Self {
        Self { state: Mutex::new(SlotState::Starting), changed, restarts: AtomicU64::new(0), failure: Mutex::default() }
    }

    pub(super) fn live(&self) -> Option<Arc<Live>> {
        match &*self.state() {
            SlotState::Ready(live) if !live.requests().is_gone => Some(Arc::clone(live)),
            SlotState::Ready(_) | SlotState::Starting | SlotState::Ended => None,
        }
    }

    /// Puts a process into the slot. Returns `false` if the service is ending.
    pub(super) fn ready(&self, live: &Arc<Live>) -> bool {
        let mut state = self.state();
        if matches!(*state, SlotState::Ended) {
            return false;
        }
        *state = SlotState::Ready(Arc::clone(live));
        drop(state);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.tell();
        true
    }

    /// Removes a process that ended.
    pub(super) fn lost(&self, failure: String) {
        let mut state = self.state();
        if !matches!(*state, SlotState::Ended) {
            *state = SlotState::Starting;
        }
        drop(state);
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        self.tell();
    }

    /// Closes the slot and returns its process, which ends when its connections are closed and no longer used.
    pub(super) fn end(&self) -> Option<Arc<Live>> {
        let before = std::mem::replace(&mut *self.state(), SlotState::Ended);
        self.tell();
        match before {
            SlotState::Ready(live) => Some(live),
            SlotState::Starting | SlotState::Ended => None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(*self.state(), SlotState::Ended)
    }

    fn tell(&self) {
        self.changed.send_modify(|number| *number = number.wrapping_add(1));
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker process that is ready.
#[derive(Debug)]
pub(crate) struct Live {
    connections: Connections,
    requests: Mutex<Requests>,
    next: AtomicU64,
    pub(super) child: Mutex<Child>,
    pub(super) confinement: Confinement,
    /// The number of sessions in its memory, and the bytes that they hold.
    pub(super) sessions: Mutex<(u64, u64)>,
}

/// The requests in progress at a worker.
#[derive(Default)]
struct Requests {
    pending: HashMap<u64, Pending>,
    is_gone: bool,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("count", &self.pending.len()).finish_non_exhaustive()
    }
}

impl Live {
    pub(super) fn new(connections: Connections, child: Child, confinement: Confinement) -> Self {
        Self {
            connections,
            requests: Mutex::default(),
            next: AtomicU64::new(0),
            child: Mutex::new(child),
            confinement,
            sessions: Mutex::default(),
        }
    }

    /// The number of requests in progress.
    pub(super) fn load(&self) -> usize {
        self.requests().pending.len()
    }

    /// Completes a request.
    pub(super) fn done(&self, request: u64, done: Done) {
        let pending = self.requests().pending.remove(&request);
        if let Some(pending) = pending {
            pending(done);
        }
    }

    /// Fails all requests in progress, because the process has ended.
    pub(super) fn gone(&self) {
        let mut requests = self.requests();
        requests.is_gone = true;
        let all = std::mem::take(&mut requests.pending);
        drop(requests);
        for pending in all.into_values() {
            let ended = Some(Err(Failed::from(&ServiceError::WorkerDied)));
            pending(Done { ended, acted: None });
        }
    }

    /// Stops passing connections, which makes the worker end.
    pub(super) fn let_go(&self) {
        self.connections.close();
    }

    /// Returns once the worker has responded to a health check, or its connection has failed.
    pub(super) async fn answers(&self) {
        if let Ok(asked) = Request::get(RUNNING_PATH).header(REQUEST, u64::MAX).body(Full::default()) {
            let _ = self.connections.send(asked).await;
        }
    }

    pub(super) fn kill(&self) {
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request. `pending` is called exactly once, whatever happens.
    pub(crate) async fn send(
        self: Arc<Self>,
        mut request: Request<Full<Bytes>>,
        pending: Pending,
    ) -> Result<Sent, ServiceError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        request.headers_mut().insert(REQUEST, HeaderValue::from(number));
        {
            let mut requests = self.requests();
            if requests.is_gone {
                drop(requests);
                pending(Done::default());
                return Err(ServiceError::NoWorker);
            }
            requests.pending.insert(number, pending);
        }
        let mut asked = SentRequest { live: Arc::clone(&self), number, is_answered: false };
        let answered = self.connections.send(request).await;
        asked.is_answered = answered.is_ok();
        answered.map(Sent).map_err(|error| {
            tracing::warn!(target: "glovebox", %error, "a worker did not answer");
            ServiceError::WorkerDied
        })
    }
}

/// The answer of a worker.
pub(crate) struct Sent(pub(crate) Response<Incoming>);

/// A request that may not have reached the worker. If it is dropped before it was sent, the worker will never report
/// it.
struct SentRequest {
    live: Arc<Live>,
    number: u64,
    is_answered: bool,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let (live, number) = (Arc::clone(&self.live), self.number);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return live.done(number, Done::default()) };
        runtime.spawn(async move {
            let Ok(ask) = Request::get(RUNNING_PATH).header(REQUEST, number).body(Full::default()) else { return };
            match live.connections.send(ask).await {
                // The worker reports a request in progress when it is complete.
                Ok(answer) if answer.status() == StatusCode::OK => {}
                Ok(_) => live.done(number, Done::default()),
                // Killing the worker completes all of its requests.
                Err(_) => live.kill(),
            }
        });
    }
}
