//! Slots for sessions (one per session ID), handles to stored sessions, and the eviction of idle sessions.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use glovebox::{CancelToken, ExecuteError, Execution, Request, Session, SessionInfo, Suspended};
use parking_lot::Mutex;

use super::{
    Save, SessionsError,
    sessions::Sessions,
    slot::{HIBERNATING_MS, LivePermit, LiveSession, SessionSlot},
    storage::{RetryResult, Storage},
};
use crate::{SessionId, SessionRecord, block_on};

/// All slots, and the number of live sessions.
pub(super) struct Slots {
    pub(super) storage: Storage,
    map: Mutex<HashMap<SessionId, Arc<SessionSlot>>>,
    live_count: Arc<AtomicUsize>,
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.storage.fmt(f)
    }
}

impl Slots {
    pub(super) fn new(storage: Storage) -> Self {
        Self { storage, map: Mutex::default(), live_count: Arc::default() }
    }

    /// Returns the session's slot. Adds the slot if it does not exist.
    pub(super) fn slot(self: &Arc<Self>, id: &SessionId) -> SlotRef {
        let mut map = self.map.lock();
        let slot = map.entry(id.clone()).or_insert_with(|| Arc::new(SessionSlot::new(id.clone())));
        SlotRef { slot: Arc::clone(slot), slots: Arc::clone(self) }
    }

    pub(super) fn all(self: &Arc<Self>) -> Vec<SlotRef> {
        let map = self.map.lock();
        map.values().map(|slot| SlotRef { slot: Arc::clone(slot), slots: Arc::clone(self) }).collect()
    }

    /// Returns a permit for a live session. Hibernates another session if all permits are taken. The caller must hold
    /// the session's [`SlotChange`](super::slot::SlotChange).
    pub(super) fn place(
        self: &Arc<Self>,
        id: &SessionId,
        cancel: Option<&CancelToken>,
    ) -> Result<LivePermit, SessionsError> {
        let (max, changes) = (self.storage.policy.live_count.max(1), &self.storage.changes);
        let place = self.storage.retry(cancel, || {
            loop {
                if let Some(place) = LivePermit::take(&self.live_count, max, changes) {
                    return Ok(RetryResult::Done(place));
                }
                let wait_ms = match self.hibernate_oldest(id)? {
                    Eviction::Freed => continue,
                    Eviction::Moving => self.storage.policy.lock_wait_ms.max(HIBERNATING_MS),
                    Eviction::InUse => self.storage.policy.lock_wait_ms,
                };
                return Ok(RetryResult::Again { wait_ms });
            }
        })?;
        place.ok_or(SessionsError::TooManyLive { max })
    }

    /// Hibernates the least recently used session that can be saved, other than `except`. If no session could be
    /// hibernated, returns the error of the first failed save.
    fn hibernate_oldest(self: &Arc<Self>, except: &SessionId) -> Result<Eviction, SessionsError> {
        let mut found = Eviction::InUse;
        let mut slots: Vec<(Instant, SlotRef)> = Vec::new();
        for slot in self.all().into_iter().filter(|slot| slot.id != *except) {
            let idle_since = match slot.try_state() {
                Some(state) if !state.is_changing() => state.is_idle().then_some(state.used_at),
                _ => {
                    found = Eviction::Moving;
                    None
                }
            };
            slots.extend(idle_since.map(|used_at| (used_at, slot)));
        }
        slots.sort_by_key(|(used_at, _)| *used_at);
        let mut failed = None;
        for (_, slot) in slots {
            match slot.try_state() {
                Some(state) if state.is_idle() => {
                    match slot.hibernate(state, &self.storage) {
                        // `Ok(false)` means that the session had ended, which also freed its permit.
                        Ok(_) => return Ok(Eviction::Freed),
                        // The session was taken over by another process and dropped, which freed its permit.
                        Err(error @ SessionsError::Fenced { .. }) => {
                            let id = slot.id.as_str();
                            tracing::warn!(target: "glovebox", session_id = id, %error, "a session was taken over");
                            return Ok(Eviction::Freed);
                        }
                        Err(error) => failed = failed.or(Some(error)),
                    }
                }
                _ => found = Eviction::Moving,
            }
        }
        failed.map_or(Ok(found), Err)
    }
}

/// A reference to a slot. As long as a reference exists, the session ID keeps the same slot.
pub(super) struct SlotRef {
    slot: Arc<SessionSlot>,
    pub(super) slots: Arc<Slots>,
}

impl fmt::Debug for SlotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl Deref for SlotRef {
    type Target = SessionSlot;

    fn deref(&self) -> &SessionSlot {
        &self.slot
    }
}

impl Drop for SlotRef {
    fn drop(&mut self) {
        let mut map = self.slots.map.lock();
        // References are created only while the map is locked. If only the map and this value hold the slot, no thread
        // can add a reference.
        let is_last = Arc::strong_count(&self.slot) == 2;
        if is_last && self.slot.try_state().is_some_and(|state| state.live.is_none()) {
            map.remove(&self.slot.id);
        }
    }
}

/// The result of searching for a session to hibernate.
enum Eviction {
    /// A permit is free, because a session was hibernated or had ended.
    Freed,
    /// No session is idle, but a session is being hibernated or resumed.
    Moving,
    /// All live sessions are in use.
    InUse,
}

/// A handle to a stored session. The session is resumed when it is first used.
#[derive(Clone, Debug)]
pub struct SessionGuard {
    pub(super) slots: Arc<Slots>,
    pub(super) id: SessionId,
}

impl SessionGuard {
    /// Returns the session's ID.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Runs `source` in the session, like [`run`](Self::run).
    ///
    /// # Errors
    /// Fails like [`run`](Self::run).
    pub fn execute(&self, source: &str) -> Result<Execution, SessionsError> {
        self.run(Request::new(source))
    }

    /// Runs a request in the session, like [`Session::run`], and then saves the session if the policy is
    /// [`Save::AfterEach`].
    ///
    /// # Errors
    /// [`SessionsError::Unsaved`] if the session could not be saved. The error contains the execution.
    /// [`SessionsError::Fenced`] if another process took over the session. The execution is then discarded, and the
    /// next call resumes the state that the other process stored.
    pub fn run(&self, request: Request<'_>) -> Result<Execution, SessionsError> {
        let active = self.activate_unless(request.cancel_token())?;
        let executed = active.run(request);
        active.save_after(executed)
    }

    /// Resumes the session if it is not already live, and keeps it live until the returned value is dropped.
    ///
    /// Changes are written to the store by [`ActiveSession::save`], or when the session is hibernated. Fails if there
    /// is no such session, if another process keeps it in use, or if it cannot be resumed.
    pub fn activate(&self) -> Result<ActiveSession, SessionsError> {
        self.activate_unless(None)
    }

    /// Like [`activate`](Self::activate), but stops waiting for the session when `cancel` is cancelled.
    pub fn activate_unless(&self, cancel: Option<&CancelToken>) -> Result<ActiveSession, SessionsError> {
        let storage = &self.slots.storage;
        let slot = self.slots.slot(&self.id);
        let mut state = slot.lock_settled(storage, storage.resuming_ms(), cancel)?;
        let live = match state.alive() {
            Some(live) => {
                state.begin_use();
                drop(state);
                live
            }
            None => {
                let change = slot.change(state, storage);
                let lock = storage.lock(&self.id, cancel)?;
                let not_found = || SessionsError::NotFound { id: self.id.clone() };
                let stored = block_on(storage.store.get(&self.id))?.ok_or_else(not_found)?;
                let place = self.slots.place(&self.id, cancel)?;
                let live = Arc::new(LiveSession::resume_stored(storage, &stored, lock, place)?);
                change.begin_use_of(&live);
                live
            }
        };
        Ok(ActiveSession::new(&live, slot))
    }

    /// Resumes the session in the state before a suspended execution, and keeps it live until the returned value is
    /// dropped. Continue the execution with [`Suspended::request`]. `check` receives the stored record while the
    /// session is locked. The stored state changes only when the session is saved. The restored state is discarded when
    /// the last use of the session ends, unless the session was saved, [`save_after`](ActiveSession::save_after) has
    /// received an execution, or another use has changed the session. The session then has its stored state again.
    ///
    /// # Errors
    /// [`SessionsError::InUse`] if the session is in use. [`SessionsError::Resume`] if the execution was suspended
    /// outside a session, with another image, or in a state that exceeds a limit of the session's sandbox. Also fails
    /// if `check` fails. After an error, the session keeps its state.
    pub fn restore_suspended<E: From<SessionsError>>(
        &self,
        suspended: &Suspended,
        check: impl FnOnce(&SessionRecord) -> Result<(), E>,
    ) -> Result<ActiveSession, E> {
        let storage = &self.slots.storage;
        let slot = self.slots.slot(&self.id);
        // Save any changes and release the lock.
        slot.hibernate(slot.lock_unused(storage)?, storage)?;
        let mut state = slot.lock_unused(storage)?;
        if state.alive().is_some() {
            return Err(SessionsError::InUse { id: self.id.clone() }.into());
        }
        let change = slot.change(state, storage);
        let lock = storage.lock(&self.id, None)?;
        let stored = block_on(storage.store.record(&self.id)).map_err(SessionsError::from)?;
        let stored = stored.ok_or_else(|| SessionsError::NotFound { id: self.id.clone() })?;
        check(&stored.record)?;
        let place = self.slots.place(&self.id, None)?;
        let live = Arc::new(LiveSession::resume_restored(storage, stored, suspended, lock, place)?);
        change.begin_use_of(&live);
        let mut active = ActiveSession::new(&live, slot);
        active.is_restored = true;
        Ok(active)
    }

    /// Like [`activate`](Self::activate), but returns `None` instead of resuming a session that is not live.
    pub(super) fn activate_live(&self) -> Result<Option<ActiveSession>, SessionsError> {
        let storage = &self.slots.storage;
        let slot = self.slots.slot(&self.id);
        let mut state = slot.lock_settled(storage, storage.resuming_ms(), None)?;
        let Some(live) = state.alive() else { return Ok(None) };
        state.begin_use();
        drop(state);
        Ok(Some(ActiveSession::new(&live, slot)))
    }
}

/// A live session in use, which cannot be hibernated until this value is dropped. Later changes through a clone of the
/// [`Session`] may be lost.
#[derive(Debug)]
pub struct ActiveSession {
    session: Session,
    /// A weak reference, so that the session's lock is released as soon as the slot drops the live session.
    live: Weak<LiveSession>,
    slot: SlotRef,
    /// `true` if the session was used after the last save.
    is_touched: AtomicBool,
    /// `true` for the use that restored the session from a suspended execution.
    is_restored: bool,
}

impl ActiveSession {
    /// Wraps a live session whose use has been counted.
    fn new(live: &Arc<LiveSession>, slot: SlotRef) -> Self {
        let (session, live) = (live.session.clone(), Arc::downgrade(live));
        Self { session, live, slot, is_touched: AtomicBool::default(), is_restored: false }
    }

    /// Saves the session after an execution, if the policy is [`Save::AfterEach`], and returns the execution.
    ///
    /// Call this for executions that were started with [`Session::start`]. [`SessionGuard::run`] saves the session
    /// itself.
    ///
    /// # Errors
    /// Returns the execution's own error. [`SessionsError::Unsaved`] if the session could not be saved. The error
    /// contains the execution. [`SessionsError::Fenced`] if another process took over the session. The execution is
    /// then discarded.
    pub fn save_after(&self, executed: Result<Execution, ExecuteError>) -> Result<Execution, SessionsError> {
        let has_run = matches!(executed, Ok(_) | Err(ExecuteError::Commit { .. }));
        if has_run {
            // During the execution, another thread may have noticed that another process took over the session.
            self.live()?.is_provisional.store(false, Ordering::SeqCst);
        }
        let saves = self.slot.slots.storage.policy.save == Save::AfterEach;
        if !has_run || !saves || self.session.ended().is_some() {
            return Ok(executed?);
        }
        let id = &self.slot.id;
        // After the execution started, another thread may have saved the session, which cleared the flag.
        self.is_touched.store(true, Ordering::SeqCst);
        match (self.save(), executed) {
            (Ok(()), executed) => Ok(executed?),
            (Err(fenced @ SessionsError::Fenced { .. }), _) => Err(fenced),
            (Err(source), Ok(execution)) => {
                let (id, execution, source) = (id.clone(), Box::new(execution), Box::new(source));
                Err(SessionsError::Unsaved { id, execution, source })
            }
            (Err(error), Err(source)) => {
                // The execution and the save both failed. Return the error that contains the execution, and log the
                // other error.
                let id = id.as_str();
                tracing::warn!(target: "glovebox", session_id = id, %error, "a session could not be saved");
                Err(source.into())
            }
        }
    }

    /// Writes the session's current state to the store. The state is durable when this method returns.
    ///
    /// # Errors
    /// [`SessionsError::Save`] if the state cannot be encoded. [`SessionsError::Store`] if it cannot be written.
    /// [`SessionsError::Fenced`] if another process took over the session.
    pub fn save(&self) -> Result<(), SessionsError> {
        let live = self.live()?;
        // Clear the flag before saving, because the saved state may not contain changes made from now on.
        if self.is_touched.swap(false, Ordering::SeqCst) {
            live.changes.fetch_add(1, Ordering::SeqCst);
        }
        live.save(&self.slot.slots.storage).inspect_err(|_| self.slot.state().drop_fenced(&live))
    }

    /// Returns the session for operations that do not change it. All other uses of this value count as changes, so the
    /// session is saved again before it is hibernated.
    #[must_use]
    pub fn unchanged(&self) -> &Session {
        &self.session
    }

    /// Runs the session's exit handlers, ends the session, and removes it from the store. Returns `false` if the
    /// session was not in the store.
    pub(super) fn close_and_remove(&self) -> Result<bool, SessionsError> {
        self.close()?;
        let live = self.live()?;
        live.remove(&self.slot.slots.storage).inspect_err(|_| self.slot.state().drop_fenced(&live))
    }

    /// Returns the live session. Fails with [`SessionsError::Fenced`] if the session was dropped, because a session in
    /// use is dropped only after another process takes it over.
    fn live(&self) -> Result<Arc<LiveSession>, SessionsError> {
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
        let slot: &SessionSlot = &self.slot;
        let storage = &self.slot.slots.storage;
        let mut state = slot.state();
        // After another process took over the session, the slot may contain a different live session.
        let is_ours = |live: &Arc<LiveSession>| Arc::as_ptr(live) == self.live.as_ptr();
        if let Some(live) = state.live.as_ref().filter(|live| is_ours(live) && self.is_touched.load(Ordering::SeqCst)) {
            live.changes.fetch_add(1, Ordering::SeqCst);
            live.is_provisional.fetch_and(self.is_restored, Ordering::SeqCst);
        }
        state.users -= 1;
        state.used_at = Instant::now();
        let is_unused = state.users == 0;
        let discarded =
            state.live.take_if(|live| is_unused && is_ours(live) && live.is_provisional.load(Ordering::SeqCst));
        // Drop the session if it has ended.
        state.alive();
        match discarded {
            Some(live) => {
                let change = slot.change(state, storage);
                // Release the session's lock before other threads continue.
                drop(live);
                drop(change);
            }
            None => {
                drop(state);
                storage.changes.notify();
            }
        }
    }
}

impl Sessions {
    /// Returns `true` if the session is live in this process.
    #[must_use]
    pub fn is_live(&self, id: &SessionId) -> bool {
        self.0.slot(id).is_live()
    }

    /// Returns a description of the session. Returns `None` if the session is not live in this process, or if another
    /// thread currently holds the lock of its state.
    #[must_use]
    pub fn live_info(&self, id: &SessionId) -> Option<SessionInfo> {
        let slot = self.0.slot(id);
        let state = slot.try_state()?;
        Some(state.live.as_ref()?.session.info())
    }

    /// Returns the time when the least recently used idle session, other than `except`, was last used. Returns `None`
    /// if no session is idle.
    #[must_use]
    pub fn idle_since(&self, except: Option<&SessionId>) -> Option<Instant> {
        self.least_recently_used(except).map(|(used_at, _)| used_at)
    }

    /// Hibernates the least recently used idle session, other than `except`. A session that cannot be saved is dropped,
    /// and its last saved state remains in the store. Returns `false` if no session was evicted.
    pub fn evict_idle(&self, except: Option<&SessionId>) -> bool {
        let Some((_, slot)) = self.least_recently_used(except) else { return false };
        let Some(state) = slot.try_state().filter(|state| state.is_idle()) else { return false };
        let Err(error) = slot.hibernate(state, &self.0.storage) else { return true };
        let id = slot.id.as_str();
        tracing::warn!(target: "glovebox", session_id = id, %error, "a session was evicted without its unsaved changes");
        let Some(mut state) = slot.try_state().filter(|state| state.is_idle()) else { return false };
        state.live = None;
        true
    }

    fn least_recently_used(&self, except: Option<&SessionId>) -> Option<(Instant, SlotRef)> {
        let others = self.0.all().into_iter().filter(|slot| Some(&slot.id) != except);
        let idle = others.filter_map(|slot| {
            let used_at = slot.try_state().filter(|state| state.is_idle()).map(|state| state.used_at)?;
            Some((used_at, slot))
        });
        idle.min_by_key(|(used_at, _)| *used_at)
    }
}
