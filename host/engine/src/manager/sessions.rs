//! Opening, listing and removing stored sessions.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

use serde::Serialize;

use super::{SessionsError, StorePolicy, guard::SessionGuard, slot::Live, slots::Slots, storage::Storage};
use crate::{
    BuildError, CancelToken, Expected, JsonText, Language, PageRequest, Pages, Prune, PruneReport, Sandbox, Session,
    SessionId, SessionInfo, SessionKey, SessionOptions, SessionRecord, SessionStore, StoredEntry, Timestamp, block_on,
    events,
};

/// Many sessions over one store: those in use are live, the others are in the store and are resumed when they are needed. Cheap
/// to clone; all methods can be called from any thread.
///
/// A session is in one process at a time: while it is live it is locked in the store.
///
/// ```no_run
/// # use std::sync::Arc;
/// use glovebox::{DirectoryStore, Engine, EngineConfig, Language, NewSession, Sandbox, SessionId, Sessions};
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

/// Chooses how [`Sessions`] are stored.
#[derive(Debug)]
#[must_use]
pub struct SessionsBuilder(Storage);

impl SessionsBuilder {
    /// A sandbox for sessions to run in: one for each runtime and policy. Of several for a language, a new session runs in the
    /// first. Listing, exporting, importing, deleting and pruning need none.
    pub fn sandbox(self, sandbox: Sandbox) -> Self {
        self.0.sandboxes.write().unwrap_or_else(PoisonError::into_inner).push(sandbox);
        self
    }

    /// Makes a sandbox when a session needs one that was not given: for the runtime of this name, or for the language where none is named.
    /// It is stored. So a program need not load what nobody uses.
    pub fn make_sandbox(
        mut self,
        make: impl Fn(Language, Option<&str>) -> Result<Sandbox, BuildError> + Send + Sync + 'static,
    ) -> Self {
        self.0.make_sandbox = Some(Box::new(make));
        self
    }

    /// When sessions are saved and hibernated.
    pub fn policy(mut self, policy: StorePolicy) -> Self {
        self.0.policy = policy;
        self
    }

    /// Seals every state with this key, and takes no other. Each is bound to its session's id besides. An earlier state of the
    /// same session is as authentic as the last.
    pub fn key(mut self, key: SessionKey) -> Self {
        self.0.key = Some(key);
        self
    }

    /// Gives up waiting for other processes when cancelled.
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.0.cancel = token.clone();
        self
    }

    /// Stops, when cancelled, what sessions run outside of any request: exit handlers, and code of theirs that variables call. What is stopped
    /// so is as after an execution that was cancelled.
    pub fn stop(mut self, token: &CancelToken) -> Self {
        self.0.stop = token.clone();
        self
    }

    /// Ready to open sessions.
    pub fn build(self) -> Sessions {
        Sessions(Arc::new(Slots::new(self.0)))
    }
}

/// How a new session is made. Make one with `default()` and change what differs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NewSession {
    /// Its language. Default: that of the first sandbox.
    pub language: Option<Language>,
    /// Its runtime, by name. Default: that of the first sandbox of its language.
    pub runtime: Option<String>,
    /// What its scripts find in the global variable `context`. Default: no such variable.
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

/// Some of the sessions: [`Sessions::list`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListedPage {
    /// The sessions, in the order of their ids. There may be fewer than were asked for where there are more after them.
    pub sessions: Vec<ListedSession>,
    /// What to ask for the next page [after](PageRequest::after); none if there is nothing after this page.
    pub next: Option<SessionId>,
}

/// A session as it is listed.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ListedSession {
    /// What the store says. It is as of when the session was last saved.
    #[serde(flatten)]
    pub stored: StoredEntry,
    /// What the session says, where it is live in this process.
    pub live: Option<SessionInfo>,
}

impl Sessions {
    /// Begins to describe how sessions are stored in `store`.
    pub fn builder(store: Arc<dyn SessionStore>) -> SessionsBuilder {
        SessionsBuilder(Storage {
            store,
            policy: StorePolicy::default(),
            key: None,
            cancel: CancelToken::new(),
            stop: CancelToken::new(),
            sandboxes: RwLock::default(),
            make_sandbox: None,
        })
    }

    /// One more sandbox for sessions to run in.
    pub fn add_sandbox(&self, sandbox: Sandbox) {
        self.0.storage.sandboxes.write().unwrap_or_else(PoisonError::into_inner).push(sandbox);
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn SessionStore {
        &*self.0.storage.store
    }

    /// The session of this name, live or not; none if there is no such.
    pub fn get(&self, id: &SessionId) -> Result<Option<SessionGuard>, SessionsError> {
        let found = self.record(id)?.map(|_| self.guard(id));
        if found.is_some() {
            events::session("session.retrieved", id);
        }
        Ok(found)
    }

    /// What the store says of the session; none if there is no such. It is as of when the session was last saved.
    pub fn record(&self, id: &SessionId) -> Result<Option<SessionRecord>, SessionsError> {
        Ok(block_on(self.0.storage.store.record(id))?.map(|stored| stored.record))
    }

    /// The session of this name. That there is none is an error.
    pub fn open(&self, id: &SessionId) -> Result<SessionGuard, SessionsError> {
        self.get(id)?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })
    }

    /// Makes a session and writes it to the store. That there is one of this name is an error.
    pub fn create(&self, id: SessionId, new: NewSession) -> Result<SessionGuard, SessionsError> {
        self.add(&id, |storage| {
            let sandbox = storage.sandbox_of(&id, new.language, new.runtime.as_deref())?;
            let options =
                SessionOptions { id: Some(id.to_string()), context: new.context, ..SessionOptions::default() };
            Ok(sandbox.open_session(options.scope(&storage.scope()))?)
        })?;
        events::session("session.created", &id);
        Ok(self.guard(&id))
    }

    /// The session of this name, made where there is none. One of another language is an error; its context stays.
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

    /// Some sessions, in the order of their ids.
    pub fn list(&self, page: &PageRequest) -> Result<ListedPage, SessionsError> {
        let page = block_on(self.0.storage.store.list(page))?;
        Ok(ListedPage { sessions: self.with_live(page.entries), next: page.next })
    }

    /// Every session, in the order of their ids: all pages, which may take long and much memory.
    pub fn list_all(&self) -> Result<Vec<ListedSession>, SessionsError> {
        let mut pages = Pages::new(self.store());
        let mut all = Vec::new();
        while let Some(entries) = block_on(pages.next())? {
            all.extend(self.with_live(entries));
        }
        Ok(all)
    }

    /// How many sessions there are, damaged ones too, counted up to `most`.
    pub fn count(&self, most: usize) -> Result<usize, SessionsError> {
        Ok(block_on(self.0.storage.store.count(most))?)
    }

    fn with_live(&self, entries: Vec<StoredEntry>) -> Vec<ListedSession> {
        let mut live: BTreeMap<SessionId, SessionInfo> = BTreeMap::new();
        for slot in self.0.all() {
            // One that is being resumed or hibernated is listed as it was before.
            let info = slot.try_state().and_then(|state| Some(state.live.as_ref()?.session.info()));
            if let Some(info) = info {
                live.insert(slot.id.clone(), info);
            }
        }
        let with_live = |stored: StoredEntry| ListedSession { live: live.remove(&stored.id), stored };
        entries.into_iter().map(with_live).collect()
    }

    /// Ends a session and removes it: its exit handlers run, within the limits of one execution.
    pub fn close(&self, id: &SessionId) -> Result<(), SessionsError> {
        if self.open(id)?.activate()?.close_and_remove()? {
            events::session("session.deleted", id);
        }
        Ok(())
    }

    /// Removes a session, a damaged one too; whether there was one. Its exit handlers do not run. One that is in use is
    /// left alone: that is an error.
    pub fn delete(&self, id: &SessionId) -> Result<bool, SessionsError> {
        let slot = self.0.slot(id);
        let state = slot.settled_unused(&self.0.storage)?;
        let live = state.live.clone();
        let _change = slot.change(state);
        let storage = &self.0.storage;
        let removed = match &live {
            Some(live) => live.remove(storage).inspect_err(|_| slot.state().drop_fenced(live))?,
            // Whatever is there by now: that is what is asked for.
            None => block_on(storage.store.remove(&storage.lock(id, None)?, &Expected::Any))?,
        };
        slot.state().live = None;
        // And its lock with it, before anybody comes.
        drop(live);
        if removed {
            events::session("session.deleted", id);
        }
        Ok(removed)
    }

    /// Removes sessions that nobody needs any more. Those that are live, here or elsewhere, are left alone.
    pub fn prune(&self, prune: &Prune) -> Result<PruneReport, SessionsError> {
        Ok(block_on(prune.run(self.store(), Timestamp::now()))?)
    }

    pub(super) fn guard(&self, id: &SessionId) -> SessionGuard {
        SessionGuard { slots: Arc::clone(&self.0), id: id.clone() }
    }

    /// Adds a session that `make` makes, under a name that is free, and saves it.
    pub(super) fn add(
        &self,
        id: &SessionId,
        make: impl FnOnce(&Storage) -> Result<Session, SessionsError>,
    ) -> Result<(), SessionsError> {
        let slot = self.0.slot(id);
        let mut state = slot.settled(&self.0.storage, self.0.storage.resuming_ms(), None)?;
        let exists = || SessionsError::Exists { id: id.clone() };
        // Looked at before the lock, too: a session that exists is no reason to wait for whoever uses it.
        if state.alive().is_some() || self.0.storage.is_stored(id)? {
            return Err(exists());
        }
        let _change = slot.change(state);
        let lock = self.0.storage.lock(id, None)?;
        if self.0.storage.is_stored(id)? {
            return Err(exists());
        }
        let place = self.0.place(id, None)?;
        let live = Live::new(make(&self.0.storage)?, lock, place);
        live.save(&self.0.storage).map_err(|error| match error {
            // Another process made one meanwhile.
            SessionsError::Fenced { .. } => exists(),
            error => error,
        })?;
        slot.state().live = Some(Arc::new(live));
        Ok(())
    }
}
