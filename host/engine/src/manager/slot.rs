//! Where a stored session is: live here, or in the store. How it is resumed and hibernated.

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};

use super::{
    SessionsError,
    storage::{POLL, Storage},
};
use crate::{
    CancelToken, Expected, HibernateOptions, ResumeError, ResumeOptions, Sandbox, Session, SessionId, SessionLock,
    SessionRecord, SessionStore, StoreError, StoredSession, Timestamp, block_on, events, store::MAX_WORKSPACE_BYTES,
};

/// How long to wait for another thread that is changing a session, where the caller can do without it. Hibernating takes
/// milliseconds, more on a slow disk.
pub(super) const HIBERNATING_MS: u64 = 1_000;

/// The place of one session of a [`Sessions`](crate::Sessions).
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: SessionId,
    /// Never held while somebody is waited for.
    state: Mutex<State>,
    /// Told when a change is over.
    settled: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    /// The session, while it is live.
    pub(super) live: Option<Arc<Live>>,
    /// How many are using it. It is not hibernated meanwhile.
    pub(super) users: usize,
    pub(super) used_at: Instant,
    /// Whether somebody has the [`Change`].
    is_changing: bool,
}

/// The right to resume, create, replace or remove the session, until it is dropped. Meanwhile nobody hibernates it. Its owner
/// may wait for other processes, so whoever wants it next can give up.
#[derive(Debug)]
pub(super) struct Change<'a>(&'a Slot);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.state().is_changing = false;
        self.0.settled.notify_all();
    }
}

/// A live session, locked in the store.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) session: Session,
    lock: SessionLock,
    created_at: Timestamp,
    /// Whether another process has taken it over, as far as is known: nothing of it reaches the store any more.
    is_fenced: AtomicBool,
    /// Uses that came to an end, and so may have changed it.
    pub(super) changes: AtomicU64,
    /// Held while the session is written, so that states are written in their order.
    saved: Mutex<Saved>,
    _place: LivePlace,
}

/// What of a live session is in the store.
#[derive(Debug)]
struct Saved {
    /// How many of its changes.
    changes: u64,
    /// The generation of its record.
    generation: u64,
    /// What it was read at or written as.
    expected: Expected,
}

/// One of the places for live sessions.
#[derive(Debug)]
pub(super) struct LivePlace(Arc<AtomicUsize>);

impl LivePlace {
    /// Takes a place, if one of so many is free.
    pub(super) fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let one_more = |count: usize| (count < most).then_some(count + 1);
        taken.try_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        Some(Self(Arc::clone(taken)))
    }
}

impl Drop for LivePlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Slot {
    pub(super) fn new(id: SessionId) -> Self {
        let state = State { live: None, users: 0, used_at: Instant::now(), is_changing: false };
        Self { id, state: Mutex::new(state), settled: Condvar::new() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session is live here.
    pub(super) fn is_live(&self) -> bool {
        self.state().live.is_some()
    }

    /// The state, once nobody is changing it.
    pub(super) fn settled(
        &self,
        storage: &Storage,
        patience_ms: u64,
        cancel: Option<&CancelToken>,
    ) -> Result<MutexGuard<'_, State>, SessionsError> {
        let begun = Instant::now();
        let mut state = self.state();
        while state.is_changing {
            if storage.is_cancelled(cancel) || begun.elapsed().as_millis() >= u128::from(patience_ms) {
                return Err(SessionsError::InUse { id: self.id.clone() });
            }
            (state, _) = self.settled.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(state)
    }

    /// The state, once nobody is changing it. An error if the session is in use.
    pub(super) fn settled_unused(&self, storage: &Storage) -> Result<MutexGuard<'_, State>, SessionsError> {
        let state = self.settled(storage, HIBERNATING_MS, None)?;
        if state.users > 0 {
            return Err(SessionsError::InUse { id: self.id.clone() });
        }
        Ok(state)
    }

    /// Begins a change of the state, a settled one.
    pub(super) fn change<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Change<'a> {
        state.is_changing = true;
        Change(self)
    }

    /// Writes the session to the store if it has changed, and drops the live one. That of a session which another process has
    /// taken over is dropped, too, and its changes with it: an error. A store may take long: whoever wants the session meanwhile waits as for
    /// every [`Change`].
    pub(super) fn hibernate<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        storage: &Storage,
    ) -> Result<bool, SessionsError> {
        let Some(live) = state.alive() else { return Ok(false) };
        let change = self.change(state);
        let saved = live.save(storage);
        let mut state = self.state();
        state.drop_fenced(&live);
        if saved.is_ok() {
            state.live = None;
        }
        drop(state);
        // First its lock is given back, and then it is another's turn.
        drop(live);
        drop(change);
        saved?;
        events::session("session.hibernated", &self.id);
        Ok(true)
    }

    /// The state, if nobody else has it at this moment.
    pub(super) fn try_state(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock().ok()
    }
}

impl State {
    /// Whether it is live and nobody uses it.
    pub(super) fn is_idle(&self) -> bool {
        self.users == 0 && self.live.is_some() && !self.is_changing
    }

    /// Whether it is being resumed, replaced or removed.
    pub(super) fn is_changing(&self) -> bool {
        self.is_changing
    }

    /// One more uses it.
    pub(super) fn begin_use(&mut self) {
        self.users += 1;
        self.used_at = Instant::now();
    }

    /// The live session, if there is one that has not ended. What has ended makes room: in the store there is still its last
    /// saved state.
    pub(super) fn alive(&mut self) -> Option<Arc<Live>> {
        if self.users == 0 && self.live.as_ref().is_some_and(|live| live.session.ended().is_some()) {
            self.live = None;
        }
        self.live.clone()
    }

    /// Drops a live session that another process has taken over: unsaved, and without its exit handlers. Others may still be
    /// using it; none of them can save it.
    pub(super) fn drop_fenced(&mut self, fenced: &Arc<Live>) {
        if fenced.is_fenced() && self.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, fenced)) {
            self.live = None;
            events::session("session.fenced", fenced.lock.id());
        }
    }
}

impl Live {
    /// A new session, which the store does not have yet.
    pub(super) fn new(session: Session, lock: SessionLock, place: LivePlace) -> Self {
        Self {
            session,
            lock,
            created_at: Timestamp::now(),
            is_fenced: AtomicBool::new(false),
            changes: AtomicU64::new(1),
            saved: Mutex::new(Saved { changes: 0, generation: 0, expected: Expected::Absent }),
            _place: place,
        }
    }

    /// Makes a session from the store live.
    pub(super) fn resumed(
        storage: &Storage,
        stored: &StoredSession,
        lock: SessionLock,
        place: LivePlace,
    ) -> Result<Self, SessionsError> {
        let id = lock.id();
        let options = ResumeOptions {
            id: Some(id.to_string()),
            key: storage.key.clone(),
            bound_to: Some(id.to_string()),
            scope: storage.scope(),
            ..ResumeOptions::default()
        };
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
        events::session("session.resumed", id);
        let expected = Expected::Version(stored.version.clone());
        let saved = Mutex::new(Saved { changes: 0, generation: stored.record.generation, expected });
        let created_at = stored.record.created_at;
        Ok(Self { created_at, changes: AtomicU64::new(0), saved, ..Self::new(session, lock, place) })
    }

    /// Writes the session to the store, if it may have changed.
    pub(super) fn save(&self, storage: &Storage) -> Result<(), SessionsError> {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        // Before the state is taken: a use that ends meanwhile may not be in it.
        let changes = self.changes.load(Ordering::SeqCst);
        if saved.changes == changes {
            return Ok(());
        }
        let id = self.lock.id();
        let options = HibernateOptions { key: storage.key.clone(), bound_to: Some(id.to_string()) };
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
            generation: saved.generation.saturating_add(1),
            files: Some(state.files),
            workspace: recorded_workspace(sandbox),
            bytes: state.bytes.len() as u64,
        };
        let put = block_on(storage.store.put(&self.lock, &saved.expected, &record, &state.bytes));
        let version = put.map_err(|error| self.failed(error))?;
        *saved = Saved { changes, generation: record.generation, expected: Expected::Version(version) };
        Ok(())
    }

    /// Removes the session from the store.
    pub(super) fn remove(&self, storage: &Storage) -> Result<bool, SessionsError> {
        // Whoever still saves is waited for.
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let remove = |expected| block_on(storage.store.remove(&self.lock, expected));
        let removed = match remove(&saved.expected) {
            // Damaged behind us: nobody can tell which it is, and it is to go.
            Err(StoreError::Damaged { .. }) => remove(&Expected::Any),
            removed => removed,
        };
        removed.map_err(|error| self.failed(error))
    }

    /// Writes another session over it in the store.
    pub(super) fn replace(
        &self,
        store: &dyn SessionStore,
        by: &SessionRecord,
        state: &[u8],
    ) -> Result<(), SessionsError> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let put = |expected| block_on(store.put(&self.lock, expected, by, state));
        let put = match put(&saved.expected) {
            Err(StoreError::Damaged { .. }) => put(&Expected::Any),
            put => put,
        };
        put.map(drop).map_err(|error| self.failed(error))
    }

    /// Whether another process has taken it over, as far as is known.
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

/// What a record says of a sandbox's workspace.
fn recorded_workspace(sandbox: &Sandbox) -> Option<String> {
    let workspace = sandbox.policy().workspace.as_ref()?;
    let path = workspace.canonicalize().unwrap_or_else(|_| workspace.clone());
    Some(path.display().to_string()).filter(|path| path.len() <= MAX_WORKSPACE_BYTES)
}
