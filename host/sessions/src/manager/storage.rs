//! The store, the policy and the sandboxes of sessions. Forks, exports and imports stored sessions.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{
    BuildError, CancelToken, HibernateOptions, HibernatedInfo, IfExists, Language, Sandbox, SessionKey, SessionOptions,
    Timestamp,
};
use glovebox_core::hibernate::{self, reseal};
use parking_lot::{Condvar, Mutex, RwLock};

use super::{SessionGuard, Sessions, SessionsError, StorePolicy, slot::LiveSession};
use crate::{ExpectedVersion, SessionId, SessionLock, SessionRecord, SessionStore, StoreError, block_on, store};

/// A function that creates a sandbox for the named runtime. Without a name, the function chooses a runtime for the
/// language.
pub(super) type MakeSandbox = Box<dyn Fn(Language, Option<&str>) -> Result<Sandbox, BuildError> + Send + Sync>;

/// The polling interval for a lock that another process holds. Processes cannot wake each other.
const POLL: Duration = Duration::from_millis(5);
/// Minimum wait in milliseconds for a session's lock, even with `lock_wait_ms = 0`. Pruning and the search for leftover
/// lock files hold the lock briefly.
const MOMENT_MS: u64 = 50;
/// Maximum time to wait for another thread that is resuming or creating this session, in milliseconds, in addition to
/// `lock_wait_ms`.
const RESUMING_MS: u64 = 10_000;

/// The store, the policy and the sandboxes of a [`Sessions`](crate::Sessions).
pub(super) struct Storage {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) policy: StorePolicy,
    pub(super) key: Option<SessionKey>,
    pub(super) cancel: CancelToken,
    /// A token that cancels code that sessions run outside of requests.
    pub(super) stop: CancelToken,
    pub(super) sandboxes: RwLock<Vec<Sandbox>>,
    /// A function that creates sandboxes on demand.
    pub(super) make_sandbox: Option<MakeSandbox>,
    pub(super) changes: Arc<EventCounter>,
}

/// A counter of the events in this process that threads wait for: the end of a change, the end of a use, and a freed
/// permit.
#[derive(Debug, Default)]
pub(super) struct EventCounter {
    count: Mutex<u64>,
    changed: Condvar,
}

impl EventCounter {
    /// Counts an event and wakes all waiting threads.
    pub(super) fn notify(&self) {
        let mut count = self.count.lock();
        *count = count.wrapping_add(1);
        self.changed.notify_all();
    }

    fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Waits at most `max` until the count differs from `seen`.
    fn wait(&self, seen: u64, max: Duration) {
        let mut count = self.count.lock();
        self.changed.wait_while_for(&mut count, |count| *count == seen, max);
    }
}

/// The result of an attempt in [`Storage::retry`].
pub(super) enum RetryResult<T> {
    Done(T),
    /// The attempt must be retried, until `wait_ms` after the first attempt.
    Again {
        wait_ms: u64,
    },
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("store", &self.store).field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Storage {
    /// Returns `true` if the store has the session, even if it is damaged.
    pub(super) fn is_stored(&self, id: &SessionId) -> Result<bool, SessionsError> {
        match block_on(self.store.record(id)) {
            Ok(record) => Ok(record.is_some()),
            Err(StoreError::Damaged { .. } | StoreError::Format { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the sandbox for a stored session. Searches by image, then by runtime, then creates a sandbox on demand,
    /// and finally searches by language. If the image differs, resuming the session reports the error.
    pub(super) fn sandbox_for(&self, record: &SessionRecord) -> Result<Sandbox, SessionsError> {
        let exact = self.find(|sandbox| sandbox.image_sha256() == Some(&record.image_sha256));
        if let Some(sandbox) = exact.or_else(|| self.find(|sandbox| sandbox.runtime_name() == record.runtime)) {
            return Ok(sandbox);
        }
        if let Some(sandbox) = self.make(record.language, Some(&record.runtime))? {
            return Ok(sandbox);
        }
        self.find(|sandbox| sandbox.language() == record.language).ok_or_else(|| SessionsError::NoSandbox {
            id: record.id.clone(),
            language: record.language,
            runtime: Some(record.runtime.clone()),
        })
    }

    /// Returns the sandbox for a new session.
    pub(super) fn sandbox_of(
        &self,
        id: &SessionId,
        language: Option<Language>,
        runtime: Option<&str>,
    ) -> Result<Sandbox, SessionsError> {
        let found = self.find(|sandbox| {
            language.is_none_or(|wanted| sandbox.language() == wanted)
                && runtime.is_none_or(|wanted| sandbox.runtime_name() == wanted)
        });
        let language = language.unwrap_or(Language::Python);
        match found {
            Some(sandbox) => Ok(sandbox),
            None => self.make(language, runtime)?.ok_or_else(|| SessionsError::NoSandbox {
                id: id.clone(),
                language,
                runtime: runtime.map(ToOwned::to_owned),
            }),
        }
    }

    fn find(&self, fits: impl Fn(&Sandbox) -> bool) -> Option<Sandbox> {
        self.sandboxes.read().iter().find(|sandbox| fits(sandbox)).cloned()
    }

    /// Creates a sandbox and keeps it for later sessions. Returns `None` without a `make_sandbox` function.
    fn make(&self, language: Language, runtime: Option<&str>) -> Result<Option<Sandbox>, SessionsError> {
        let Some(make) = &self.make_sandbox else { return Ok(None) };
        let sandbox = make(language, runtime)?;
        let mut sandboxes = self.sandboxes.write();
        // If two threads created the same sandbox, or a sandbox has two names, keep the first sandbox.
        match sandboxes.iter().find(|other| other.runtime_name() == sandbox.runtime_name()) {
            Some(other) => Ok(Some(other.clone())),
            None => {
                sandboxes.push(sandbox.clone());
                Ok(Some(sandbox))
            }
        }
    }

    /// Returns the maximum time to wait for a session that another thread is resuming, in milliseconds.
    pub(super) fn resuming_ms(&self) -> u64 {
        self.policy.lock_wait_ms.saturating_add(RESUMING_MS)
    }

    pub(super) fn is_cancelled(&self, cancel: Option<&CancelToken>) -> bool {
        self.cancel.is_cancelled() || cancel.is_some_and(CancelToken::is_cancelled)
    }

    /// Calls `attempt` once, and again after each event of the [`EventCounter`], until it succeeds or fails. Returns
    /// `None` when `wait_ms` has elapsed, or on cancellation.
    pub(super) fn retry<T>(
        &self,
        cancel: Option<&CancelToken>,
        mut attempt: impl FnMut() -> Result<RetryResult<T>, SessionsError>,
    ) -> Result<Option<T>, SessionsError> {
        let begun = Instant::now();
        let mut hooks = Vec::new();
        loop {
            let seen = self.changes.count();
            let wait_ms = match attempt()? {
                RetryResult::Done(done) => return Ok(Some(done)),
                RetryResult::Again { wait_ms } => wait_ms,
            };
            let left = Duration::from_millis(wait_ms).saturating_sub(begun.elapsed());
            if left.is_zero() || self.is_cancelled(cancel) {
                return Ok(None);
            }
            if hooks.is_empty() {
                // If a token is already cancelled, its hook runs immediately, so no cancellation is missed.
                let changes = &self.changes;
                hooks.extend([Some(&self.cancel), cancel].into_iter().flatten().map(|token| {
                    let changes = Arc::clone(changes);
                    token.on_cancel(move || changes.notify())
                }));
            }
            self.changes.wait(seen, left);
        }
    }

    /// Acquires a session's lock. Waits at most `lock_wait_ms`, or [`MOMENT_MS`] if that is longer.
    pub(super) fn lock(&self, id: &SessionId, cancel: Option<&CancelToken>) -> Result<SessionLock, SessionsError> {
        let wait_ms = self.policy.lock_wait_ms.max(MOMENT_MS);
        let begun = Instant::now();
        loop {
            if let Some(lock) = block_on(self.store.try_lock(id))? {
                return Ok(lock);
            }
            if self.is_cancelled(cancel) || begun.elapsed().as_millis() >= u128::from(wait_ms) {
                return Err(SessionsError::InUse { id: id.clone() });
            }
            // Poll instead of retrying after each change in this process, because an attempt can be a network request.
            let _ = self.cancel.wait_timeout(POLL);
        }
    }
}

impl Sessions {
    /// Forks a session. The fork starts with copies of the session's variables, functions and files. Later changes to
    /// one session do not affect the other session. The fork is immediately written to the store.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`] if there is no session `id`. [`SessionsError::Exists`] if there is a session `fork`.
    /// Also fails if the original cannot be resumed or either session cannot be saved.
    pub fn fork(&self, id: &SessionId, fork: SessionId) -> Result<SessionGuard, SessionsError> {
        let original = self.open(id)?.activate()?;
        self.add(&fork, |storage| {
            let options = SessionOptions::default().id(fork.as_str()).cancel(&storage.stop);
            let forked = original.fork_with(options)?;
            // Save the original, because its fork counter has changed. The counter gives each fork different random
            // numbers, even with a fixed seed.
            original.save()?;
            Ok(forked)
        })?;
        store::log_session("session.created", &fork);
        Ok(self.guard(&fork))
    }

    /// Returns a session in the format of [`Session::hibernate`](glovebox::Session::hibernate). If
    /// `SessionsBuilder::key` is set, the session is sealed with that key.
    ///
    /// If the session is live in this process, it is saved first. If the store is full, the session's current state is
    /// returned without being saved. Any other session is read from the store without resuming it, so no sandbox is
    /// needed.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`] if there is no such session. [`SessionsError::Resume`] if its seal is wrong. Also
    /// fails if the session cannot be saved or read.
    pub fn export(&self, id: &SessionId) -> Result<Vec<u8>, SessionsError> {
        let storage = &self.0.storage;
        if self.0.slot(id).is_live()
            && let Some(active) = self.guard(id).activate_live()?
        {
            match active.save() {
                Err(SessionsError::Store(StoreError::Full { .. })) => {
                    let mut options = HibernateOptions::default();
                    options.key = storage.key.clone();
                    let state = active.hibernate(&options);
                    return state.map_err(|source| SessionsError::Save { id: id.clone(), source: Box::new(source) });
                }
                saved => saved?,
            }
        }
        let stored = block_on(storage.store.get(id))?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?;
        reseal(&stored.state, storage.key.as_ref(), id.as_str(), "").map_err(|source| unusable(id, source))
    }

    /// Checks the seal of an exported session, and writes the session to the store. Does not require a sandbox.
    ///
    /// The image and the policy's limits are checked when the session is resumed.
    ///
    /// # Errors
    /// [`SessionsError::Exists`] if a session with this ID exists and `if_exists` is [`IfExists::Fail`].
    /// [`SessionsError::InUse`] if the session with this ID is in use. [`SessionsError::Resume`] if the bytes cannot be
    /// parsed or their seal is wrong.
    pub fn import(&self, id: SessionId, bytes: &[u8], if_exists: IfExists) -> Result<SessionGuard, SessionsError> {
        let state =
            reseal(bytes, self.0.storage.key.as_ref(), "", id.as_str()).map_err(|source| unusable(&id, source))?;
        let info = HibernatedInfo::read(&state).map_err(|source| unusable(&id, source))?;
        let slot = self.0.slot(&id);
        let mut place = slot.lock_unused(&self.0.storage)?;
        let live = place.alive();
        if if_exists == IfExists::Fail && live.is_some() {
            return Err(SessionsError::Exists { id });
        }
        let _change = slot.change(place, &self.0.storage);
        if if_exists == IfExists::Fail && self.0.storage.is_stored(&id)? {
            return Err(SessionsError::Exists { id });
        }
        let store = self.store();
        let holder = match &live {
            Some(live) => SessionWriter::Live(live),
            None => SessionWriter::Lock(self.0.storage.lock(&id, None)?),
        };
        let (expected, replaced) = match block_on(store.record(&id)) {
            Ok(None) => (ExpectedVersion::Absent, 0),
            Ok(Some(stored)) => (ExpectedVersion::Version(stored.version), stored.record.generation),
            // The generation is unknown if the record is damaged or in a later format, or if the file is unusable.
            Err(StoreError::Damaged { .. } | StoreError::Format { .. } | StoreError::Directory(_)) => {
                (ExpectedVersion::Any, 0)
            }
            Err(error) => return Err(error.into()),
        };
        if if_exists == IfExists::Fail && expected != ExpectedVersion::Absent {
            return Err(SessionsError::Exists { id });
        }
        let now = Timestamp::now();
        let record = SessionRecord {
            id: id.clone(),
            created_at: now,
            updated_at: now,
            language: info.language,
            runtime: info.runtime,
            version: info.version,
            image_sha256: info.image_sha256,
            executions: info.executions,
            generation: replaced.saturating_add(1),
            files: None,
            workspace: None,
            bytes: state.len() as u64,
        };
        match &holder {
            SessionWriter::Live(live) => {
                live.replace(store, &record, &state).inspect_err(|_| slot.state().drop_fenced(live))?;
            }
            SessionWriter::Lock(lock) => drop(block_on(store.put(lock, &expected, &record, &state))?),
        }
        // Drop the replaced session only after the write has succeeded.
        slot.state().live = None;
        // Release the lock first: dropping `live` ends the change, and other threads continue.
        drop(holder);
        drop(live);
        store::log_session("session.created", &id);
        Ok(self.guard(&id))
    }
}

/// The holder of the right to write a session during an import.
enum SessionWriter<'a> {
    Live(&'a Arc<LiveSession>),
    /// The session's lock, acquired for this import.
    Lock(SessionLock),
}

fn unusable(id: &SessionId, source: hibernate::ResumeError) -> SessionsError {
    SessionsError::Resume { id: id.clone(), source: Box::new(source.widened()) }
}
