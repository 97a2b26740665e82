//! Opening, listing and removing kept sessions.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicUsize},
};

use serde::Serialize;

use super::{
    SessionsError, StorePolicy,
    guard::SessionGuard,
    slot::{Live, Slot},
};
use crate::{
    CancelToken, Language, Prune, PruneReport, Sandbox, Session, SessionId, SessionInfo, SessionKey, SessionOptions,
    SessionRecord, SessionStore, StoreError, StoredEntry, Timestamp, events,
};

/// Many sessions over one store: those in use are live, the others rest in the store and wake when they are needed. Cheap
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
pub struct Sessions(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) policy: StorePolicy,
    pub(super) key: Option<SessionKey>,
    pub(super) cancel: CancelToken,
    sandboxes: RwLock<Vec<Sandbox>>,
    slots: Mutex<HashMap<SessionId, Arc<Slot>>>,
    pub(super) live_count: Arc<AtomicUsize>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("store", &self.store).field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// Chooses how [`Sessions`] are kept.
#[derive(Debug)]
#[must_use]
pub struct SessionsBuilder(Inner);

impl SessionsBuilder {
    /// A sandbox for sessions to run in: one for each runtime and policy. Of several for a language, a new session runs in the
    /// first. Listing, exporting, importing, deleting and pruning need none.
    pub fn sandbox(self, sandbox: Sandbox) -> Self {
        self.0.sandboxes.write().unwrap_or_else(PoisonError::into_inner).push(sandbox);
        self
    }

    /// When sessions are written and put to rest.
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

    /// Ready to open sessions.
    pub fn build(self) -> Sessions {
        Sessions(Arc::new(self.0))
    }
}

/// How a new session is made. Make one with `default()` and change what differs.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct NewSession {
    /// Its language. Default: that of the first sandbox.
    pub language: Option<Language>,
    /// What its scripts find in the global variable `context`. Default: no such variable.
    pub context: Option<serde_json::Value>,
}

impl NewSession {
    /// Sets [`language`](Self::language).
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// Sets [`context`](Self::context).
    #[must_use]
    pub fn context(mut self, context: impl Into<serde_json::Value>) -> Self {
        self.context = Some(context.into());
        self
    }
}

/// A line of [`Sessions::list`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct KeptInfo {
    /// What the store says. It is as of when the session was last saved.
    #[serde(flatten)]
    pub stored: StoredEntry,
    /// What the session says, where it is live in this process.
    pub live: Option<SessionInfo>,
}

impl Sessions {
    /// Begins to describe how sessions are kept in `store`.
    pub fn builder(store: Arc<dyn SessionStore>) -> SessionsBuilder {
        SessionsBuilder(Inner {
            store,
            policy: StorePolicy::default(),
            key: None,
            cancel: CancelToken::new(),
            sandboxes: RwLock::default(),
            slots: Mutex::default(),
            live_count: Arc::default(),
        })
    }

    /// One more sandbox for sessions to run in.
    pub fn add_sandbox(&self, sandbox: Sandbox) {
        self.0.sandboxes.write().unwrap_or_else(PoisonError::into_inner).push(sandbox);
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &dyn SessionStore {
        &*self.0.store
    }

    /// The session of this name, live or not; none if there is no such.
    pub fn get(&self, id: &SessionId) -> Result<Option<SessionGuard>, SessionsError> {
        let found = self.0.store.record(id)?.map(|_| self.kept(id));
        if found.is_some() {
            events::session("session.retrieved", id);
        }
        Ok(found)
    }

    /// The session of this name. That there is none is an error.
    pub fn open(&self, id: &SessionId) -> Result<SessionGuard, SessionsError> {
        self.get(id)?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })
    }

    /// Makes a session and writes it to the store. That there is one of this name is an error.
    pub fn create(&self, id: SessionId, new: NewSession) -> Result<SessionGuard, SessionsError> {
        self.add(&id, |inner| {
            let sandbox = inner.sandbox_of(&id, new.language)?;
            let options =
                SessionOptions { id: Some(id.to_string()), context: new.context, ..SessionOptions::default() };
            Ok(sandbox.open_session(options)?)
        })?;
        events::session("session.created", &id);
        Ok(self.kept(&id))
    }

    /// The session of this name, made where there is none. One of another language is an error; its context stays.
    pub fn open_or_create(&self, id: SessionId, new: NewSession) -> Result<SessionGuard, SessionsError> {
        let wanted = new.language;
        match self.create(id.clone(), new) {
            Err(SessionsError::Exists { .. }) => {}
            created => return created,
        }
        let record = self.0.store.record(&id)?.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?;
        match wanted.filter(|wanted| *wanted != record.language) {
            Some(wanted) => Err(SessionsError::Language { id, has: record.language, wanted }),
            None => self.open(&id),
        }
    }

    /// Every session, in the order of their names.
    pub fn list(&self) -> Result<Vec<KeptInfo>, SessionsError> {
        let mut live: BTreeMap<SessionId, SessionInfo> = BTreeMap::new();
        for slot in self.0.slots() {
            // One that is just waking up or going to rest counts as what it was.
            let info = slot.try_state().and_then(|state| Some(state.live.as_ref()?.session.info()));
            if let Some(info) = info {
                live.insert(slot.id.clone(), info);
            }
        }
        let with_live = |stored: StoredEntry| KeptInfo { live: live.remove(&stored.id), stored };
        Ok(self.0.store.list()?.into_iter().map(with_live).collect())
    }

    /// Ends a session and removes it: its exit handlers run, within the limits of one execution.
    pub fn close(&self, id: &SessionId) -> Result<(), SessionsError> {
        self.open(id)?.awake()?.close()?;
        self.delete(id).map(drop)
    }

    /// Removes a session, a damaged one too; whether there was one. Its exit handlers do not run. One that is in use is
    /// left alone: that is an error.
    pub fn delete(&self, id: &SessionId) -> Result<bool, SessionsError> {
        let slot = self.0.slot(id);
        let state = slot.settled_unused(&self.0)?;
        let live = state.live.clone();
        let _change = slot.change(state);
        let removed = match &live {
            Some(live) => live.remove(&self.0)?,
            None => self.0.store.remove(&self.0.lock(id, None)?)?,
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
        Ok(prune.run(&*self.0.store, Timestamp::now())?)
    }

    pub(super) fn kept(&self, id: &SessionId) -> SessionGuard {
        SessionGuard { inner: Arc::clone(&self.0), id: id.clone() }
    }

    /// Adds a session that `make` makes, under a name that is free, and saves it.
    pub(super) fn add(
        &self,
        id: &SessionId,
        make: impl FnOnce(&Arc<Inner>) -> Result<Session, SessionsError>,
    ) -> Result<(), SessionsError> {
        let slot = self.0.slot(id);
        let mut state = slot.settled(&self.0, self.0.waking_ms(), None)?;
        let exists = || SessionsError::Exists { id: id.clone() };
        // Looked at before the lock, too: a session that exists is no reason to wait for whoever uses it.
        if state.alive().is_some() || self.0.is_stored(id)? {
            return Err(exists());
        }
        let _change = slot.change(state);
        let lock = self.0.lock(id, None)?;
        if self.0.is_stored(id)? {
            return Err(exists());
        }
        let place = self.0.place(id, None)?;
        let live = Live::new(make(&self.0)?, lock, place);
        live.save(&self.0)?;
        slot.state().live = Some(Arc::new(live));
        Ok(())
    }
}

impl Inner {
    /// Whether the store has the session, damaged or not.
    pub(super) fn is_stored(&self, id: &SessionId) -> Result<bool, SessionsError> {
        match self.store.record(id) {
            Ok(record) => Ok(record.is_some()),
            Err(StoreError::Damaged { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The sandbox for a session that is kept: of its image, else of its runtime, else of its language. Where the image is
    /// another, resuming says so.
    pub(super) fn sandbox_for(&self, record: &SessionRecord) -> Result<Sandbox, SessionsError> {
        let sandboxes = self.sandboxes.read().unwrap_or_else(PoisonError::into_inner);
        let find = |fits: &dyn Fn(&Sandbox) -> bool| sandboxes.iter().find(|sandbox| fits(sandbox)).cloned();
        find(&|sandbox| sandbox.image_sha256() == Some(&record.image_sha256))
            .or_else(|| find(&|sandbox| sandbox.runtime_name() == record.runtime))
            .or_else(|| find(&|sandbox| sandbox.language() == record.language))
            .ok_or_else(|| SessionsError::NoSandbox { id: record.id.clone(), language: record.language })
    }

    /// The sandbox for a new session.
    fn sandbox_of(&self, id: &SessionId, language: Option<Language>) -> Result<Sandbox, SessionsError> {
        let sandboxes = self.sandboxes.read().unwrap_or_else(PoisonError::into_inner);
        let found = sandboxes.iter().find(|sandbox| language.is_none_or(|wanted| sandbox.language() == wanted));
        let language = language.unwrap_or(Language::Python);
        found.cloned().ok_or_else(|| SessionsError::NoSandbox { id: id.clone(), language })
    }

    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session's slot.
    pub(super) fn slot(self: &Arc<Self>, id: &SessionId) -> SlotRef {
        let mut map = self.map();
        let slot = map.entry(id.clone()).or_insert_with(|| Arc::new(Slot::new(id.clone())));
        SlotRef { slot: Arc::clone(slot), inner: Arc::clone(self) }
    }

    /// Every slot, whoever holds it.
    pub(super) fn slots(self: &Arc<Self>) -> Vec<SlotRef> {
        let map = self.map();
        map.values().map(|slot| SlotRef { slot: Arc::clone(slot), inner: Arc::clone(self) }).collect()
    }
}

/// A slot in use. There is one slot for a name as long as anybody has it.
pub(super) struct SlotRef {
    slot: Arc<Slot>,
    pub(super) inner: Arc<Inner>,
}

impl fmt::Debug for SlotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slot.fmt(f)
    }
}

impl Deref for SlotRef {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for SlotRef {
    fn drop(&mut self) {
        let mut map = self.inner.map();
        // References are made under this lock only: where the map's and ours are the only ones, nobody comes to it.
        let is_last = Arc::strong_count(&self.slot) == 2;
        if is_last && self.slot.try_state().is_some_and(|state| state.live.is_none()) {
            map.remove(&self.slot.id);
        }
    }
}
