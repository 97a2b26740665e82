//! Handles to stored sessions.

use std::{
    ops::Deref,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::{
    Save, SessionsError,
    slot::Live,
    slots::{SlotRef, Slots},
};
use crate::{CancelToken, ExecuteError, Execution, Request, Session, SessionId, block_on};

/// A session in a store. It need not be live: executing in it makes it so.
#[derive(Clone, Debug)]
pub struct SessionGuard {
    pub(super) slots: Arc<Slots>,
    pub(super) id: SessionId,
}

impl SessionGuard {
    /// Its name.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Runs `source` in the session.
    pub fn execute(&self, source: &str) -> Result<Execution, SessionsError> {
        self.run(Request::new(source))
    }

    /// Runs a request in the session, as [`Session::run`] does, and writes the session to the store where the policy says so.
    /// What happened in an execution that could not be saved is in the error. [`SessionsError::Fenced`] has no execution: it does
    /// not count, and the next call finds what the other process stored.
    pub fn run(&self, request: Request<'_>) -> Result<Execution, SessionsError> {
        let active = self.activate_unless(request.cancel.as_ref())?;
        let executed = active.run(request);
        active.save_after(executed)
    }

    /// The live session, resumed from the store if it is not live yet. It stays live while this is held. Changes reach the
    /// store by [`ActiveSession::save`], or when the session is hibernated.
    pub fn activate(&self) -> Result<ActiveSession, SessionsError> {
        self.activate_unless(None)
    }

    fn activate_unless(&self, cancel: Option<&CancelToken>) -> Result<ActiveSession, SessionsError> {
        let storage = &self.slots.storage;
        let slot = self.slots.slot(&self.id);
        let mut state = slot.settled(storage, storage.resuming_ms(), cancel)?;
        let live = match state.alive() {
            Some(live) => {
                state.begin_use();
                drop(state);
                live
            }
            None => {
                let change = slot.change(state);
                let lock = storage.lock(&self.id, cancel)?;
                let not_found = || SessionsError::NotFound { id: self.id.clone() };
                let stored = block_on(storage.store.get(&self.id))?.ok_or_else(not_found)?;
                let place = self.slots.place(&self.id, cancel)?;
                let live = Arc::new(Live::resumed(storage, &stored, lock, place)?);
                let mut state = slot.state();
                state.live = Some(Arc::clone(&live));
                state.begin_use();
                drop(state);
                // Not before it is in use: it could be hibernated at once.
                drop(change);
                live
            }
        };
        Ok(ActiveSession {
            session: live.session.clone(),
            live: Arc::downgrade(&live),
            slot,
            is_touched: AtomicBool::new(false),
        })
    }
}

/// A stored session while it is used: a [`Session`] that is not hibernated meanwhile. What a clone of the session
/// does after this is dropped may be lost.
#[derive(Debug)]
pub struct ActiveSession {
    session: Session,
    /// The slot alone owns it, so that the session's lock is free as soon as the slot lets it go.
    live: Weak<Live>,
    slot: SlotRef,
    /// Whether anything was done with the session since it was saved.
    is_touched: AtomicBool,
}

impl ActiveSession {
    /// What an execution in the session came to, once the session is written to the store, where the policy says so. For executions that
    /// were started ([`Session::start`]); [`SessionGuard::run`] does it by itself.
    ///
    /// # Errors
    /// That of the execution; [`SessionsError::Unsaved`], which has the execution in it; and [`SessionsError::Fenced`], which has not:
    /// another process has the session, and the execution does not count.
    pub fn save_after(&self, executed: Result<Execution, ExecuteError>) -> Result<Execution, SessionsError> {
        let has_run = matches!(executed, Ok(_) | Err(ExecuteError::Commit { .. }));
        if has_run {
            // Somebody else may have found out while this ran.
            self.live()?;
        }
        let saves = self.slot.slots.storage.policy.save == Save::AfterEach;
        if !has_run || !saves || self.session.ended().is_some() {
            return Ok(executed?);
        }
        let id = &self.slot.id;
        // Whoever started it may have begun before others saved.
        self.is_touched.store(true, Ordering::SeqCst);
        match (self.save(), executed) {
            (Ok(()), executed) => Ok(executed?),
            (Err(fenced @ SessionsError::Fenced { .. }), _) => Err(fenced),
            (Err(source), Ok(execution)) => {
                let (id, execution, source) = (id.clone(), Box::new(execution), Box::new(source));
                Err(SessionsError::Unsaved { id, execution, source })
            }
            (Err(error), Err(source)) => {
                // Of two errors the one that has the execution in it.
                let id = id.as_str();
                tracing::warn!(target: "glovebox", session_id = id, %error, "a session could not be saved");
                Err(source.into())
            }
        }
    }

    /// Writes the session to the store as it is now. It lasts when this returns.
    pub fn save(&self) -> Result<(), SessionsError> {
        let live = self.live()?;
        // What is done from now on may not be in it.
        if self.is_touched.swap(false, Ordering::SeqCst) {
            live.changes.fetch_add(1, Ordering::SeqCst);
        }
        live.save(&self.slot.slots.storage).inspect_err(|_| self.slot.state().drop_fenced(&live))
    }

    /// Ends the session: its exit handlers run. Then it is removed from the store; whether it was there.
    pub(super) fn close_and_remove(&self) -> Result<bool, SessionsError> {
        self.close()?;
        let live = self.live()?;
        live.remove(&self.slot.slots.storage).inspect_err(|_| self.slot.state().drop_fenced(&live))
    }

    /// The live session. While it is in use nobody but another process takes it away.
    fn live(&self) -> Result<Arc<Live>, SessionsError> {
        let live = self.live.upgrade().filter(|live| !live.is_fenced());
        live.ok_or_else(|| SessionsError::Fenced { id: self.slot.id.clone() })
    }
}

impl Deref for ActiveSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.is_touched.store(true, Ordering::SeqCst);
        &self.session
    }
}

impl Drop for ActiveSession {
    fn drop(&mut self) {
        let mut state = self.slot.state();
        // Another than ours, where that was taken over.
        let ours = state.live.as_ref().filter(|live| Arc::as_ptr(live) == self.live.as_ptr());
        if let Some(live) = ours.filter(|_| self.is_touched.load(Ordering::SeqCst)) {
            live.changes.fetch_add(1, Ordering::SeqCst);
        }
        state.users -= 1;
        state.used_at = Instant::now();
        // What has ended is removed from the store.
        state.alive();
    }
}
