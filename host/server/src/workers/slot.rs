//! A worker's slot, and the process in the slot.

use std::{
    collections::HashMap,
    process::Child,
    sync::{Arc, OnceLock, atomic::AtomicU64},
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
};

use super::{Confinement, peer::Peer, protocol::ToWorker, relay::WorkerJobCallbacks};

/// A slot for a worker process. When the process ends, a new process takes the slot.
pub(super) struct WorkerSlot {
    state: Mutex<SlotState>,
    /// Counts changes to all slots, to wake waiters.
    changed: watch::Sender<u64>,
    pub(super) restarts: AtomicU64,
    /// The reason why the last process ended. Cleared when a process is ready.
    pub(super) failure: Mutex<Option<String>>,
}

#[derive(Clone)]
enum SlotState {
    Starting,
    Ready(Arc<LiveWorker>),
    Ended,
}

impl WorkerSlot {
    pub(super) fn new(changed: watch::Sender<u64>) -> Self {
        Self { state: Mutex::new(SlotState::Starting), changed, restarts: AtomicU64::new(0), failure: Mutex::default() }
    }

    pub(super) fn live(&self) -> Option<Arc<LiveWorker>> {
        match &*self.state.lock() {
            SlotState::Ready(live) if !live.peer.is_gone() => Some(Arc::clone(live)),
            SlotState::Ready(_) | SlotState::Starting | SlotState::Ended => None,
        }
    }

    /// Makes a process available to requests. Returns `false` if the service is shutting down.
    pub(super) fn ready(&self, live: &Arc<LiveWorker>) -> bool {
        let mut state = self.state.lock();
        if matches!(*state, SlotState::Ended) {
            return false;
        }
        *state = SlotState::Ready(Arc::clone(live));
        drop(state);
        *self.failure.lock() = None;
        self.notify_changed();
        true
    }

    /// Removes a process that has ended, and stores the reason.
    pub(super) fn remove_ended(&self, failure: String) {
        let mut state = self.state.lock();
        if !matches!(*state, SlotState::Ended) {
            *state = SlotState::Starting;
        }
        drop(state);
        *self.failure.lock() = Some(failure);
        self.notify_changed();
    }

    /// Closes the slot and returns its process, which ends when its socket is closed.
    pub(super) fn end(&self) -> Option<Arc<LiveWorker>> {
        let before = std::mem::replace(&mut *self.state.lock(), SlotState::Ended);
        self.notify_changed();
        match before {
            SlotState::Ready(live) => Some(live),
            SlotState::Starting | SlotState::Ended => None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(*self.state.lock(), SlotState::Ended)
    }

    fn notify_changed(&self) {
        self.changed.send_modify(|number| *number = number.wrapping_add(1));
    }
}

/// A running worker process.
pub(crate) struct LiveWorker {
    pub(super) peer: Peer,
    /// Scripts with tools or an output callback, keyed by execution number.
    jobs: Mutex<HashMap<u64, Arc<WorkerJobCallbacks>>>,
    pub(super) child: Mutex<Child>,
    confinement: OnceLock<Confinement>,
    pub(super) became_ready: Notify,
    /// The number of sessions in the worker's memory, and the bytes that they occupy.
    pub(super) sessions: Mutex<(u64, u64)>,
}

impl LiveWorker {
    pub(super) fn new(peer: Peer, child: Child) -> Self {
        Self {
            peer,
            jobs: Mutex::default(),
            child: Mutex::new(child),
            confinement: OnceLock::new(),
            became_ready: Notify::new(),
            sessions: Mutex::default(),
        }
    }

    /// Returns the number of calls to the worker that are in progress.
    pub(super) fn load(&self) -> usize {
        self.peer.in_progress()
    }

    /// Returns the worker's protections, or `None` before it is ready.
    pub(super) fn confinement(&self) -> Option<&Confinement> {
        self.confinement.get()
    }

    pub(super) fn ready(&self, confinement: Confinement) {
        let _ = self.confinement.set(confinement);
        self.became_ready.notify_one();
    }

    /// Registers a script. Must precede the call that runs it in the worker.
    pub(super) fn begin(&self, execution: u64, job: WorkerJobCallbacks) {
        self.jobs.lock().insert(execution, Arc::new(job));
    }

    pub(super) fn job(&self, execution: u64) -> Option<Arc<WorkerJobCallbacks>> {
        self.jobs.lock().get(&execution).cloned()
    }

    /// Removes a script that has finished.
    pub(super) fn end(&self, execution: u64) {
        self.jobs.lock().remove(&execution);
    }

    /// Returns a guard that removes a script on drop.
    pub(super) fn ends(self: &Arc<Self>, execution: u64) -> EndOnDrop {
        EndOnDrop { live: Arc::clone(self), execution }
    }

    /// Calls the worker without waiting for a reply.
    pub(super) fn notify(self: &Arc<Self>, runtime: &Handle, call: ToWorker) {
        let live = Arc::clone(self);
        runtime.spawn(async move {
            // An error means that the worker has ended, together with the execution that the call refers to.
            let _ = live.peer.call::<()>(&call, Vec::new()).await;
        });
    }

    pub(super) fn kill(&self) {
        let _ = self.child.lock().kill();
    }
}

/// A guard that removes a script from its worker's `jobs` on drop.
pub(super) struct EndOnDrop {
    live: Arc<LiveWorker>,
    execution: u64,
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.live.end(self.execution);
    }
}
