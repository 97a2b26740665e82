//! Opens, lists and removes stored sessions. Hibernates live sessions: saves the sessions, and frees their memory and
//! locks.

use std::{
    io,
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use glovebox::{
    BuildError, CancelToken, JsonText, Language, Sandbox, Session, SessionInfo, SessionKey, SessionOptions, Timestamp,
};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

use super::{
    SessionsError,
    slot::LiveSession,
    slots::{SessionGuard, Slots},
    storage::Storage,
};
use crate::{
    ExpectedVersion, PageRequest, Pages, PruneLimits, PruneReport, SessionId, SessionRecord, SessionStore, StoredEntry,
    block_on, store,
};

/// The sessions in one store. A stored session is resumed when it is used, and stays live until it is hibernated or
/// removed. The value is cheap to clone, and its methods can be called from any thread.
///
/// A session is live in at most one process, which holds the session's lock in the store.
///
/// ```no_run
/// # use std::sync::Arc;
/// use glovebox::{Engine, EngineConfig, Sandbox};
/// use glovebox_sessions::{DirectoryStore, NewSession, SessionId, Sessions};
///
/// let engine = Engine::new(EngineConfig::default())?;
/// let store = Arc::new(DirectoryStore::open("sessions")?);
/// let sessions = Sessions::builder(store).sandbox(Sandbox::builder(&engine).build()?).build();
/// let session = sessions.open_or_create(SessionId::new("notes")?, NewSession::default())?;
/// session.execute("visits = globals().get('visits', 0) + 1")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sessions(pub(super) Arc<Slots>);

/// A builder of [`Sessions`].
#[derive(Debug)]
#[must_use]
pub struct SessionsBuilder(Storage);

impl SessionsBuilder {
    /// Adds a sandbox in which sessions run. Call this method once for each runtime and policy. If several sandboxes
    /// have the same language, a new session runs in the first of these sandboxes. Listing, exporting, importing,
    /// deleting and pruning do not require a sandbox.
    pub fn sandbox(self, sandbox: Sandbox) -> Self {
        self.0.sandboxes.write().push(sandbox);
        self
    }

    /// Sets a function that creates missing sandboxes on demand, so that a program loads only the runtimes that it
    /// uses.
    ///
    /// The function receives the language, and the name of the runtime if the session specifies one. Later sessions
    /// reuse the sandbox.
    pub fn make_sandbox(
        mut self,
        make: impl Fn(Language, Option<&str>) -> Result<Sandbox, BuildError> + Send + Sync + 'static,
    ) -> Self {
        self.0.make_sandbox = Some(Box::new(make));
        self
    }

    /// Sets the policy for saving and hibernating. Default: [`StorePolicy::default`].
    pub fn policy(mut self, policy: StorePolicy) -> Self {
        self.0.policy = policy;
        self
    }

    /// Seals every stored state with this key, and accepts only states that were sealed with the key. Default: no key.
    ///
    /// The seal also covers the session's ID. The seal does not prevent a rollback, because an earlier state of the
    /// same session is as authentic as the latest state.
    pub fn key(mut self, key: SessionKey) -> Self {
        self.0.key = Some(key);
        self
    }

    /// Sets a token that cancels waiting for a lock, or for a thread that is using or changing a session.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.0.cancel = token.clone();
        self
    }

    /// Sets a token that cancels guest code outside of requests: exit handlers, and code that runs while variables are
    /// read. Cancelled code ends like a cancelled execution.
    pub fn stop(mut self, token: &CancelToken) -> Self {
        self.0.stop = token.clone();
        self
    }

    /// Builds the [`Sessions`].
    pub fn build(self) -> Sessions {
        Sessions(Arc::new(Slots::new(self.0)))
    }
}

/// Options of a new session. Start from `default()` and change fields.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NewSession {
    /// The language. Default: the language of the first sandbox that has the `runtime`, or Python if there is no such
    /// sandbox.
    pub language: Option<Language>,
    /// The name of the runtime. Default: the runtime of the language's first sandbox.
    pub runtime: Option<String>,
    /// The value of the global variable `context` in scripts. Default: the variable does not exist.
    pub context: Option<JsonText>,
}

impl NewSession {
    /// Sets [`language`](Self::language).
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// Sets [`runtime`](Self::runtime).
    #[must_use]
    pub fn runtime(mut self, name: impl Into<String>) -> Self {
        self.runtime = Some(name.into());
        self
    }

    /// Sets [`context`](Self::context).
    #[must_use]
    pub fn context(mut self, context: impl Into<JsonText>) -> Self {
        self.context = Some(context.into());
        self
    }
}

/// A page of sessions, from [`Sessions::list`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedPage {
    /// Sessions in the order of their IDs. A page can be shorter than requested even if more pages follow.
    pub sessions: Vec<ListedSession>,
    /// The argument of [`PageRequest::after`] for the next page. `None` on the last page.
    pub next: Option<SessionId>,
}

/// A listed session.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ListedSession {
    /// The stored record, as of the last save.
    #[serde(flatten)]
    pub stored: StoredEntry,
    /// Information about the live session. `None` if the session is not live in this process.
    pub live: Option<SessionInfo>,
}

impl Sessions {
    /// Returns a builder for sessions in `store`.
    pub fn builder(store: Arc<dyn SessionStore>) -> SessionsBuilder {
        SessionsBuilder(Storage {
            store,
            policy: StorePolicy::default(),
            key: None,
            cancel: CancelToken::new(),
            stop: CancelToken::new(),
            sandboxes: RwLock::default(),
            make_sandbox: None,
            changes: Arc::default(),
        })
    }

    /// Adds a sandbox in which sessions run, like [`SessionsBuilder::sandbox`].
    pub fn add_sandbox(&self, sandbox: Sandbox) {
        self.0.storage.sandboxes.write().push(sandbox);
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &dyn SessionStore {
        &*self.0.storage.store
    }

    /// Returns a handle to the session with this ID, whether it is live or not. Returns `None` if there is no such
    /// session. Fails if the store cannot be read.
    pub fn get(&self, id: &SessionId) -> Result<Option<SessionGuard>, SessionsError> {
        let found = self.record(id)?.map(|_| self.guard(id));
        if found.is_some() {
            store::log_session("session.retrieved", id);
        }
        Ok(found)
    }

    /// Returns the session's record from its last save, or `None` if there is no such session. Reads the store only if
    /// the session is not live in this process. Fails if the store cannot be read.
    pub fn record(&self, id: &SessionId) -> Result<Option<SessionRecord>, SessionsError> {
        let live = self.0.slot(id).state().live.clone();
        if let Some(record) = live.filter(|live| !live.is_fenced()).and_then(|live| live.record()) {
            return Ok(Some(record));
        }
        Ok(block_on(self.0.storage.store.record(id))?.map(|stored| stored.record))
    }

    /// Returns a handle to the session with this ID.
    ///
    /// # Errors
    /// [`SessionsError::NotFound`] if there is no such session.
    pub fn open(&self, id: &SessionId) -> Result<SessionGuard, SessionsError> {
        self.get(id)?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })
    }

    /// Creates a session and writes it to the store.
    ///
    /// # Errors
    /// [`SessionsError::Exists`] if the store already has a session with this ID.
    pub fn create(&self, id: SessionId, new: NewSession) -> Result<SessionGuard, SessionsError> {
        self.add(&id, |storage| {
            let sandbox = storage.sandbox_of(&id, new.language, new.runtime.as_deref())?;
            let mut options = SessionOptions::default().id(id.as_str()).cancel(&storage.stop);
            options.context = new.context;
            Ok(sandbox.open_session(options)?)
        })?;
        store::log_session("session.created", &id);
        Ok(self.guard(&id))
    }

    /// Returns a handle to the session with this ID, and creates the session if it does not exist. An existing session
    /// keeps its `context`.
    ///
    /// # Errors
    /// [`SessionsError::Language`] if the session exists and runs another language.
    pub fn open_or_create(&self, id: SessionId, new: NewSession) -> Result<SessionGuard, SessionsError> {
        let wanted = new.language;
        match self.create(id.clone(), new) {
            Err(SessionsError::Exists { .. }) => {}
            created => return created,
        }
        let record = self.record(&id)?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?;
        match wanted.filter(|wanted| *wanted != record.language) {
            Some(wanted) => Err(SessionsError::Language { id, has: record.language, wanted }),
            None => self.open(&id),
        }
    }

    /// Returns a page of sessions, in the order of their IDs. A damaged session is listed without a record. Fails if
    /// the store cannot be read.
    pub fn list(&self, page: &PageRequest) -> Result<ListedPage, SessionsError> {
        let page = block_on(self.0.storage.store.list(page))?;
        Ok(ListedPage { sessions: self.with_live(page.entries), next: page.next })
    }

    /// Returns all sessions in the order of their IDs. Reads all pages, which can take a lot of time and memory. Fails
    /// if the store cannot be read.
    pub fn list_all(&self) -> Result<Vec<ListedSession>, SessionsError> {
        let mut pages = Pages::new(self.store());
        let mut all = Vec::new();
        while let Some(entries) = block_on(pages.next())? {
            all.extend(self.with_live(entries));
        }
        Ok(all)
    }

    /// Counts the sessions, including damaged ones. Stops counting at `max`. Fails if the store cannot be read.
    pub fn count(&self, max: usize) -> Result<usize, SessionsError> {
        Ok(block_on(self.0.storage.store.count(max))?)
    }

    fn with_live(&self, entries: Vec<StoredEntry>) -> Vec<ListedSession> {
        entries.into_iter().map(|stored| ListedSession { live: self.live_info(&stored.id), stored }).collect()
    }

    /// Closes and removes a session. The session's exit handlers run within the limits of one execution. Fails if there
    /// is no session with this ID, or if the session cannot be resumed to run the handlers.
    pub fn close(&self, id: &SessionId) -> Result<(), SessionsError> {
        if self.open(id)?.activate()?.close_and_remove()? {
            store::log_session("session.deleted", id);
        }
        Ok(())
    }

    /// Removes a session, even if it is damaged, without running its exit handlers. Returns `false` if the session did
    /// not exist.
    ///
    /// # Errors
    /// [`SessionsError::InUse`] if the session is in use.
    pub fn delete(&self, id: &SessionId) -> Result<bool, SessionsError> {
        let slot = self.0.slot(id);
        let state = slot.lock_unused(&self.0.storage)?;
        let live = state.live.clone();
        let _change = slot.change(state, &self.0.storage);
        let storage = &self.0.storage;
        let removed = match &live {
            Some(live) => live.remove(storage).inspect_err(|_| slot.state().drop_fenced(live))?,
            // Delete the session unconditionally, even if another process has just written it.
            None => block_on(storage.store.remove(&storage.lock(id, None)?, &ExpectedVersion::Any))?,
        };
        slot.state().live = None;
        // Release the session's lock before the change ends and other threads continue.
        drop(live);
        if removed {
            store::log_session("session.deleted", id);
        }
        Ok(removed)
    }

    /// Removes stored sessions that exceed the limits of `prune`. Skips sessions that are live in any process.
    ///
    /// # Errors
    /// [`SessionsError::Store`] if the store cannot be listed. If a session cannot be removed, the report contains the
    /// error, and pruning continues.
    pub fn prune(&self, prune: &PruneLimits) -> Result<PruneReport, SessionsError> {
        Ok(block_on(prune.run(self.store(), Timestamp::now()))?)
    }

    pub(super) fn guard(&self, id: &SessionId) -> SessionGuard {
        SessionGuard { slots: Arc::clone(&self.0), id: id.clone() }
    }

    /// Creates a session with `make` and saves it. Fails if the ID is already in use.
    pub(super) fn add(
        &self,
        id: &SessionId,
        make: impl FnOnce(&Storage) -> Result<Session, SessionsError>,
    ) -> Result<(), SessionsError> {
        let slot = self.0.slot(id);
        let mut state = slot.lock_settled(&self.0.storage, self.0.storage.resuming_ms(), None)?;
        let exists = || SessionsError::Exists { id: id.clone() };
        // Also check before locking, so that creating an existing session fails without waiting for its users.
        if state.alive().is_some() {
            return Err(exists());
        }
        // Unlock the state during the change, because the store can be slow.
        let _change = slot.change(state, &self.0.storage);
        if self.0.storage.is_stored(id)? {
            return Err(exists());
        }
        let lock = self.0.storage.lock(id, None)?;
        if self.0.storage.is_stored(id)? {
            return Err(exists());
        }
        let place = self.0.place(id, None)?;
        let live = LiveSession::new(make(&self.0.storage)?, lock, place);
        live.save(&self.0.storage).map_err(|error| match error {
            // A concurrent process has created the session.
            SessionsError::Fenced { .. } => exists(),
            error => error,
        })?;
        slot.state().live = Some(Arc::new(live));
        Ok(())
    }
}

/// The result of hibernating several sessions.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct HibernateReport {
    /// Sessions that were saved to the store and are no longer live.
    pub hibernated: Vec<SessionId>,
    /// Sessions that could not be saved. They stay live, except after [`SessionsError::Fenced`].
    pub errors: Vec<(SessionId, SessionsError)>,
}

impl Sessions {
    /// Saves a session to the store and frees its memory and lock. Returns `false` if the session was not live in this
    /// process.
    ///
    /// # Errors
    /// [`SessionsError::InUse`] if the session is in use. [`SessionsError::Fenced`] if another process took over the
    /// session. The session's memory is then freed without saving.
    pub fn hibernate(&self, id: &SessionId) -> Result<bool, SessionsError> {
        let slot = self.0.slot(id);
        let state = slot.lock_unused(&self.0.storage)?;
        slot.hibernate(state, &self.0.storage)
    }

    /// Hibernates the sessions that, at the time `now`, have been unused for at least the policy's `idle_ms`.
    pub fn hibernate_idle(&self, now: Instant) -> HibernateReport {
        let idle = Duration::from_millis(self.0.storage.policy.idle_ms);
        self.hibernate_due(|used_at| now.saturating_duration_since(used_at) >= idle)
    }

    /// Hibernates every session that is not in use. Call this before the program ends if the policy is
    /// [`Save::OnHibernate`](crate::Save::OnHibernate).
    pub fn hibernate_all(&self) -> HibernateReport {
        self.hibernate_due(|_| true)
    }

    /// Starts a thread that hibernates idle sessions at the interval `every`. The thread ends when the returned value
    /// is dropped, or at the next interval after the last handle to these sessions is dropped. Fails if the operating
    /// system cannot create the thread.
    pub fn hibernate_idle_in_background(&self, every: Duration) -> io::Result<IdleThread> {
        let stop = CancelToken::new();
        let (stopped, slots) = (stop.clone(), Arc::downgrade(&self.0));
        let thread = std::thread::Builder::new()
            .name("glovebox-idle".into())
            .spawn(move || hibernate_periodically(&slots, &stopped, every));
        Ok(IdleThread { stop, thread: Some(thread?) })
    }

    fn hibernate_due(&self, is_due: impl Fn(Instant) -> bool) -> HibernateReport {
        let mut report = HibernateReport::default();
        for slot in self.0.all() {
            // Skip a session whose state another thread has locked. The next call checks the session again.
            let Some(state) = slot.try_state() else { continue };
            if !state.is_idle() || !is_due(state.used_at) {
                continue;
            }
            match slot.hibernate(state, &self.0.storage) {
                Ok(true) => report.hibernated.push(slot.id.clone()),
                Ok(false) => {}
                Err(error) => report.errors.push((slot.id.clone(), error)),
            }
        }
        report
    }
}

/// The thread that hibernates idle sessions. Dropping this value stops the thread and waits for it.
#[derive(Debug)]
#[must_use = "the thread ends when this is dropped"]
pub struct IdleThread {
    stop: CancelToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for IdleThread {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // Ignore the result: the thread does not panic, and a panic would already have been reported.
            let _ = thread.join();
        }
    }
}

/// Hibernates idle sessions until `stop` is cancelled or all handles to the sessions are dropped.
fn hibernate_periodically(slots: &Weak<Slots>, stop: &CancelToken, every: Duration) {
    loop {
        if stop.wait_timeout(every) {
            return;
        }
        let Some(slots) = slots.upgrade() else { return };
        let report = Sessions(slots).hibernate_idle(Instant::now());
        for (id, error) in report.errors {
            tracing::warn!(target: "glovebox", session_id = id.as_str(), %error, "an idle session could not be saved");
        }
    }
}

/// The time at which a live session is written to its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Save {
    /// After each execution, before its result is returned. A crash of the process loses no result that was returned.
    #[default]
    AfterEach,
    /// When the session is hibernated. A crash of the process loses all changes since the last save.
    OnHibernate,
}

/// The policy for saving and hibernating [`Sessions`](crate::Sessions). Start from `default()` and change fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StorePolicy {
    /// The time at which live sessions are written to the store. Default: after each execution.
    pub save: Save,
    /// The time without use after which a session is idle, in milliseconds. Default: 600,000 (ten minutes).
    pub idle_ms: u64,
    /// Maximum number of live sessions. At the limit, activating another session hibernates the least recently used
    /// session. If all live sessions stay in use for `lock_wait_ms`, activation fails with
    /// [`TooManyLive`](crate::SessionsError::TooManyLive). Default: 100. A value of 0 is treated as 1.
    pub live_count: usize,
    /// Maximum time to wait for another process to release a session's lock, or for the number of live sessions to drop
    /// below `live_count`, in milliseconds.
    ///
    /// Default: 0. The minimum wait for a lock is 50 ms, because other processes lock a session briefly to inspect it.
    pub lock_wait_ms: u64,
}

impl Default for StorePolicy {
    fn default() -> Self {
        Self { save: Save::default(), idle_ms: 600_000, live_count: 100, lock_wait_ms: 0 }
    }
}
