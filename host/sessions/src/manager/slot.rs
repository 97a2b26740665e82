//! The slot of one stored session, which resumes and hibernates the session.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use glovebox::{CancelToken, HibernateOptions, ResumeError, ResumeOptions, Sandbox, Session, Suspended, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use super::{
    SessionsError,
    storage::{EventCounter, RetryResult, Storage},
};
use crate::{
    ExpectedVersion, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, StoredRecord, StoredSession,
    block_on, store,
};

/// Maximum time to wait for another thread's change before a session is hibernated, removed or replaced, in
/// milliseconds. Hibernating a session takes a few milliseconds, or longer on a slow disk.
pub(super) const HIBERNATING_MS: u64 = 1_000;

/// The slot for one session in a [`Sessions`](crate::Sessions).
#[derive(Debug)]
pub(super) struct SessionSlot {
    pub(super) id: SessionId,
    /// Threads release this mutex before they wait for a change or a lock, and before they write a session.
    state: Mutex<SlotState>,
}

#[derive(Debug)]
pub(super) struct SlotState {
    /// The session, while it is live.
    pub(super) live: Option<Arc<LiveSession>>,
    /// The number of users. A session in use is not hibernated.
    pub(super) users: usize,
    pub(super) used_at: Instant,
    /// `true` while a [`SlotChange`] exists.
    is_changing: bool,
}

/// The exclusive right to resume, create, replace, hibernate or remove a session. Dropping this value ends the right.
/// The owner may wait for other processes, so threads that wait for the right can time out.
#[derive(Debug)]
pub(super) struct SlotChange<'a> {
    slot: &'a SessionSlot,
    changes: &'a EventCounter,
}

impl SlotChange<'_> {
    /// Stores a session that became live, counts its first use, and then ends the change. In any other order, another
    /// thread could hibernate the session before its first use.
    pub(super) fn begin_use_of(self, live: &Arc<LiveSession>) {
        let mut state = self.slot.state();
        state.live = Some(Arc::clone(live));
        state.begin_use();
        drop(state);
    }
}

impl Drop for SlotChange<'_> {
    fn drop(&mut self) {
        self.slot.state().is_changing = false;
        self.changes.notify();
    }
}

/// A live session and its lock in the store.
#[derive(Debug)]
pub(super) struct LiveSession {
    pub(super) session: Session,
    lock: SessionLock,
    created_at: Timestamp,
    /// `true` once this process knows that another process took over the session. The session is then no longer saved.
    is_fenced: AtomicBool,
    /// `true` if the session is in the state before a suspended execution, which was neither saved nor continued.
    pub(super) is_provisional: AtomicBool,
    /// The number of uses that may have changed the session. Incremented when such a use ends or saves the session.
    pub(super) changes: AtomicU64,
    /// A mutex that is held while the session is written, so that states are written in order.
    saved: Mutex<SavedVersion>,
    /// A copy of the stored record. No other process can change the record while this process holds the lock. `None`
    /// before the first save and after the removal.
    record: Mutex<Option<SessionRecord>>,
    _place: LivePermit,
}

/// The stored version of a live session.
#[derive(Debug)]
struct SavedVersion {
    /// The value of [`LiveSession::changes`] when the version was saved.
    changes: u64,
    /// The version of the stored record that this process last read or wrote.
    expected: ExpectedVersion,
}

/// A permit for one live session. At most `live_count` permits exist.
#[derive(Debug)]
pub(super) struct LivePermit {
    taken: Arc<AtomicUsize>,
    changes: Arc<EventCounter>,
}

impl LivePermit {
    /// Takes a permit if fewer than `max` permits are taken.
    pub(super) fn take(taken: &Arc<AtomicUsize>, max: usize, changes: &Arc<EventCounter>) -> Option<Self> {
        let one_more = |count: usize| (count < max).then_some(count + 1);
        taken.try_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        Some(Self { taken: Arc::clone(taken), changes: Arc::clone(changes) })
    }
}

impl Drop for LivePermit {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        self.changes.notify();
    }
}

impl SessionSlot {
    pub(super) fn new(id: SessionId) -> Self {
        let state = SlotState { live: None, users: 0, used_at: Instant::now(), is_changing: false };
        Self { id, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock()
    }

    pub(super) fn is_live(&self) -> bool {
        self.state().live.is_some()
    }

    /// Waits at most `wait_ms` until no thread is changing the session, and returns the locked state.
    pub(super) fn lock_settled(
        &self,
        storage: &Storage,
        wait_ms: u64,
        cancel: Option<&CancelToken>,
    ) -> Result<MutexGuard<'_, SlotState>, SessionsError> {
        let settled = storage.retry(cancel, || {
            let state = self.state();
            Ok(if state.is_changing { RetryResult::Again { wait_ms } } else { RetryResult::Done(state) })
        })?;
        settled.ok_or_else(|| SessionsError::InUse { id: self.id.clone() })
    }

    /// Like [`lock_settled`](Self::lock_settled), but fails if the session is in use.
    pub(super) fn lock_unused(&self, storage: &Storage) -> Result<MutexGuard<'_, SlotState>, SessionsError> {
        let state = self.lock_settled(storage, HIBERNATING_MS, None)?;
        if state.users > 0 { Err(SessionsError::InUse { id: self.id.clone() }) } else { Ok(state) }
    }

    /// Begins a change. No other change of the session may be in progress.
    pub(super) fn change<'a>(&'a self, mut state: MutexGuard<'a, SlotState>, storage: &'a Storage) -> SlotChange<'a> {
        state.is_changing = true;
        SlotChange { slot: self, changes: &storage.changes }
    }

    /// Writes the session to the store if it has changed, and drops the live session. Returns `false` if the session
    /// was not live.
    ///
    /// Fails if another process took over the session. The session is then dropped with its changes. A store can be
    /// slow, so the write happens without the state's mutex. Other threads wait for the [`SlotChange`] to end.
    pub(super) fn hibernate<'a>(
        &'a self,
        mut state: MutexGuard<'a, SlotState>,
        storage: &'a Storage,
    ) -> Result<bool, SessionsError> {
        let Some(live) = state.alive() else { return Ok(false) };
        let change = self.change(state, storage);
        let saved = live.save(storage);
        let mut state = self.state();
        state.drop_fenced(&live);
        if saved.is_ok() {
            state.live = None;
        }
        drop(state);
        // Release the session's lock before other threads continue.
        drop(live);
        drop(change);
        saved?;
        store::log_session("session.hibernated", &self.id);
        Ok(true)
    }

    /// Returns the state if its mutex is free.
    pub(super) fn try_state(&self) -> Option<MutexGuard<'_, SlotState>> {
        self.state.try_lock()
    }
}

impl SlotState {
    /// Returns `true` if the session is live, unused, and not being changed.
    pub(super) fn is_idle(&self) -> bool {
        self.users == 0 && self.live.is_some() && !self.is_changing
    }

    /// Returns `true` while a [`SlotChange`] of the session exists.
    pub(super) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// Counts another user and updates the time of use.
    pub(super) fn begin_use(&mut self) {
        self.users += 1;
        self.used_at = Instant::now();
    }

    /// Returns the live session. A session that has ended and has no users is dropped first. Its last saved state
    /// remains in the store.
    pub(super) fn alive(&mut self) -> Option<Arc<LiveSession>> {
        if self.users == 0 && self.live.as_ref().is_some_and(|live| live.session.ended().is_some()) {
            self.live = None;
        }
        self.live.clone()
    }

    /// Drops a live session that another process took over, without saving it or running its exit handlers. Threads
    /// that already use the session can continue, but cannot save it.
    pub(super) fn drop_fenced(&mut self, fenced: &Arc<LiveSession>) {
        if fenced.is_fenced() && self.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, fenced)) {
            self.live = None;
            store::log_session("session.fenced", fenced.lock.id());
        }
    }
}

impl LiveSession {
    /// Wraps a new session that is not in the store yet.
    pub(super) fn new(session: Session, lock: SessionLock, place: LivePermit) -> Self {
        Self {
            session,
            lock,
            created_at: Timestamp::now(),
            is_fenced: AtomicBool::new(false),
            is_provisional: AtomicBool::new(false),
            changes: AtomicU64::new(1),
            saved: Mutex::new(SavedVersion { changes: 0, expected: ExpectedVersion::Absent }),
            record: Mutex::default(),
            _place: place,
        }
    }

    pub(super) fn resume_stored(
        storage: &Storage,
        stored: &StoredSession,
        lock: SessionLock,
        place: LivePermit,
    ) -> Result<Self, SessionsError> {
        let id = lock.id();
        let mut options = ResumeOptions::default().id(id.as_str()).bound_to(id.as_str()).cancel(&storage.stop);
        options.key = storage.key.clone();
        let sandbox = storage.sandbox_for(&stored.record)?;
        let session = sandbox.resume(&stored.state, options).map_err(|source| {
            let (id, source) = (id.clone(), Box::new(source));
            let (recorded, given) = (&stored.record.workspace, &sandbox.policy().workspace);
            match (&*source, recorded, given) {
                (ResumeError::Files { .. }, Some(workspace), None) => {
                    SessionsError::NoWorkspace { id, workspace: workspace.clone(), source }
                }
                (ResumeError::Files { .. }, None, Some(given)) => {
                    SessionsError::OwnFiles { id, given: given.display().to_string(), source }
                }
                _ => SessionsError::Resume { id, source },
            }
        })?;
        store::log_session("session.resumed", id);
        let expected = ExpectedVersion::Version(stored.version.clone());
        let saved = Mutex::new(SavedVersion { changes: 0, expected });
        let (created_at, record) = (stored.record.created_at, Mutex::new(Some(stored.record.clone())));
        Ok(Self { created_at, changes: AtomicU64::new(0), saved, record, ..Self::new(session, lock, place) })
    }

    /// Resumes a session in the state before a suspended execution. This state replaces the stored state at the next
    /// save.
    pub(super) fn resume_restored(
        storage: &Storage,
        StoredRecord { record, version }: StoredRecord,
        suspended: &Suspended,
        lock: SessionLock,
        place: LivePermit,
    ) -> Result<Self, SessionsError> {
        let id = lock.id();
        let options = ResumeOptions::default().id(id.as_str()).cancel(&storage.stop);
        let sandbox = storage.sandbox_for(&record)?;
        let session = sandbox
            .resume_suspended_session(suspended, options)
            .map_err(|source| SessionsError::Resume { id: id.clone(), source: Box::new(source) })?;
        store::log_session("session.resumed", id);
        let saved = Mutex::new(SavedVersion { changes: 0, expected: ExpectedVersion::Version(version) });
        let (created_at, record) = (record.created_at, Mutex::new(Some(record)));
        let is_provisional = AtomicBool::new(true);
        Ok(Self { created_at, is_provisional, saved, record, ..Self::new(session, lock, place) })
    }

    /// Writes the session to the store if it may have changed since the last save.
    pub(super) fn save(&self, storage: &Storage) -> Result<(), SessionsError> {
        let mut saved = self.saved.lock();
        // Read the counter before capturing the state: the captured state may not include a use that ends during the
        // capture.
        let changes = self.changes.load(Ordering::SeqCst);
        if saved.changes == changes {
            return Ok(());
        }
        let id = self.lock.id();
        let mut options = HibernateOptions::default().bound_to(id.as_str());
        options.key = storage.key.clone();
        let hibernated = self.session.hibernate_for_store(&options);
        let state = hibernated.map_err(|source| SessionsError::Save { id: id.clone(), source: Box::new(source) })?;
        let sandbox = self.session.sandbox();
        let record = SessionRecord {
            id: id.clone(),
            created_at: self.created_at,
            updated_at: Timestamp::now().max(self.created_at),
            language: sandbox.language(),
            runtime: sandbox.runtime_name().to_owned(),
            version: sandbox.version().map(str::to_owned),
            image_sha256: sandbox.image_sha256().unwrap_or_default().to_owned(),
            executions: state.executions,
            generation: self.record().map_or(1, |record| record.generation.saturating_add(1)),
            files: Some(state.files),
            workspace: recorded_workspace(sandbox),
            bytes: state.bytes.len() as u64,
        };
        let put = block_on(storage.store.put(&self.lock, &saved.expected, &record, &state.bytes));
        let version = put.map_err(|error| self.failed(error))?;
        *saved = SavedVersion { changes, expected: ExpectedVersion::Version(version) };
        *self.record.lock() = Some(record);
        self.is_provisional.store(false, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the in-memory copy of the stored record, or `None` if the session was never saved or was removed.
    pub(super) fn record(&self) -> Option<SessionRecord> {
        self.record.lock().clone()
    }

    /// Removes the session from the store. Returns `false` if the session was not in the store.
    pub(super) fn remove(&self, storage: &Storage) -> Result<bool, SessionsError> {
        // Lock this mutex to wait for any save in progress.
        let saved = self.saved.lock();
        let remove = |expected| block_on(storage.store.remove(&self.lock, expected));
        let removed = match remove(&saved.expected) {
            // After the last save, the record was damaged, or a later version of Glovebox wrote it. Its version is
            // unknown, so remove it unconditionally.
            Err(StoreError::Damaged { .. } | StoreError::Format { .. }) => remove(&ExpectedVersion::Any),
            removed => removed,
        };
        let removed = removed.map_err(|error| self.failed(error))?;
        *self.record.lock() = None;
        Ok(removed)
    }

    /// Replaces the stored session with the record `by` and the state `state`.
    pub(super) fn replace(
        &self,
        store: &dyn SessionStore,
        by: &SessionRecord,
        state: &[u8],
    ) -> Result<(), SessionsError> {
        let saved = self.saved.lock();
        let put = |expected| block_on(store.put(&self.lock, expected, by, state));
        let put = match put(&saved.expected) {
            Err(StoreError::Damaged { .. } | StoreError::Format { .. }) => put(&ExpectedVersion::Any),
            put => put,
        };
        put.map(drop).map_err(|error| self.failed(error))
    }

    /// Returns `true` if this process knows that another process took over the session.
    pub(super) fn is_fenced(&self) -> bool {
        self.is_fenced.load(Ordering::SeqCst)
    }

    fn failed(&self, error: StoreError) -> SessionsError {
        if matches!(error, StoreError::Fenced { .. }) {
            self.is_fenced.store(true, Ordering::SeqCst);
        }
        error.into()
    }
}

/// Returns the workspace path for a record. Returns `None` without a workspace, or if the path is too long.
fn recorded_workspace(sandbox: &Sandbox) -> Option<String> {
    let workspace = sandbox.policy().workspace.as_ref()?;
    let path = workspace.canonicalize().unwrap_or_else(|_| workspace.clone());
    Some(path.display().to_string()).filter(|path| path.len() <= SessionRecord::MAX_WORKSPACE_BYTES)
}
