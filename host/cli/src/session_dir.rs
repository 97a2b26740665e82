//! Stored and active sessions, and the directory for private data that outlives a process.

use std::{
    env,
    fs::{self, File},
    io::Read,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use glovebox::{CancelToken, Execution, HibernatedInfo, Request, Sandbox, Session, SessionKey, Suspended, escaped};
use glovebox_sessions::{
    DirectoryStore, NewSession, Pages, SessionGuard, SessionId, SessionRecord, SessionStore, Sessions, SessionsError,
    StoreError, StorePolicy, StoredEntry, block_on,
};

use crate::{
    args::{ActivateArgs, RuntimeArgs, StoreArgs},
    engine::Host,
    source::bounded,
    terminal::{HintedError, OrHint as _, note},
};

/// The runtime name in a session's record if the session runs on a binary without a name.
const CUSTOM_RUNTIME: &str = "custom";

/// The name of the session directory within the state directory.
pub(crate) const SESSIONS: &str = "sessions";
/// A hint for a store directory that cannot be used.
pub(crate) const DIRECTORY_REMEDY: &str = "choose another directory with --store";

/// A hint for a directory of suspended executions that cannot be used.
#[cfg(feature = "full")]
pub(crate) const SUSPENDED_REMEDY: &str = "choose another directory with --suspended-store";

/// A hint for an object store that cannot be used.
pub(crate) const REMOTE_REMEDY: &str = "check the URL, the network, and the credentials in the environment (for `s3://`: \
     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL)";

/// Opens a store of sessions: an object store for a URL, otherwise a directory, which is created if it is missing.
pub(crate) fn open_store(at: &Path) -> anyhow::Result<Arc<dyn SessionStore>> {
    open_store_of("sessions", at, DIRECTORY_REMEDY)
}

/// Opens a store of suspended executions, like [`open_store`].
#[cfg(feature = "full")]
pub(crate) fn open_suspended_store(at: &Path) -> anyhow::Result<Arc<dyn SessionStore>> {
    open_store_of("suspended executions", at, SUSPENDED_REMEDY)
}

fn open_store_of(what: &str, at: &Path, remedy: &str) -> anyhow::Result<Arc<dyn SessionStore>> {
    let failed = |remedy: &str, error: StoreError| {
        HintedError::new(format!("cannot store {what} in `{}`", escaped(at)), remedy).caused_by(error)
    };
    match at.to_str().filter(|_| is_url(at)) {
        #[cfg(not(feature = "full"))]
        Some(_) => Err(crate::commands::services::missing("object stores").into()),
        #[cfg(feature = "full")]
        Some(url) => match block_on(glovebox_object_stores::ObjectStore::open(url)) {
            Ok(store) => Ok(Arc::new(store)),
            Err(error @ StoreError::Directory(_)) => Err(failed(remedy, error).into()),
            Err(error) => Err(failed(REMOTE_REMEDY, error).into()),
        },
        None => Ok(Arc::new(DirectoryStore::open(at).map_err(|error| failed(remedy, error))?)),
    }
}

/// Returns `true` if `at` is the URL of a store.
pub(crate) fn is_url(at: &Path) -> bool {
    let scheme = at.to_str().and_then(|at| at.split_once("://")).map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The sessions in a store.
#[derive(Debug)]
pub(crate) struct SessionDir {
    store: Arc<dyn SessionStore>,
    #[cfg(feature = "full")]
    location: PathBuf,
    key: Option<SessionKey>,
    cancel: CancelToken,
    no_wait: bool,
}

impl SessionDir {
    /// Opens the store from the flags or the environment. The default is a directory, which is created if needed.
    pub(crate) fn open(args: &StoreArgs, cancel: &CancelToken) -> anyhow::Result<Self> {
        Self::open_or(&args.or_environment(), SESSIONS, cancel)
    }

    /// Opens the store from the flags, or the directory `default` inside the state directory. Only the key can also
    /// come from the environment.
    pub(crate) fn open_or(args: &StoreArgs, default: &str, cancel: &CancelToken) -> anyhow::Result<Self> {
        let dir = match &args.store {
            Some(dir) => dir.clone(),
            None => create_state_dir()?.join(default),
        };
        Ok(Self {
            store: open_store(&dir)?,
            #[cfg(feature = "full")]
            location: dir,
            key: key(args)?,
            cancel: cancel.clone(),
            no_wait: args.no_wait,
        })
    }

    /// Returns all sessions, including damaged ones, in the order of their IDs.
    pub(crate) fn entries(&self) -> Result<Vec<StoredEntry>, StoreError> {
        entries(&*self.store)
    }

    /// Returns the list entry of a session, even if it is damaged, or `None` if the session does not exist.
    pub(crate) fn entry(&self, id: &SessionId) -> Result<Option<StoredEntry>, StoreError> {
        let mut pages = Pages::new(&*self.store);
        while let Some(entries) = block_on(pages.next())? {
            // Entries are sorted, so later pages cannot contain the session.
            if let Some(entry) = entries.into_iter().find(|entry| entry.id >= *id) {
                return Ok(Some(entry).filter(|entry| entry.id == *id));
            }
        }
        Ok(None)
    }

    /// Returns `true` if a process uses the session.
    pub(crate) fn is_in_use(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(block_on(self.store.try_lock(id))?.is_none())
    }

    /// Returns the store, for commands that manage their own sessions in it.
    #[cfg(feature = "full")]
    pub(crate) fn shared_store(&self) -> Arc<dyn SessionStore> {
        Arc::clone(&self.store)
    }

    /// Returns the directory or URL of the store.
    #[cfg(feature = "full")]
    pub(crate) fn location(&self) -> &Path {
        &self.location
    }

    #[cfg(feature = "full")]
    pub(crate) fn key(&self) -> Option<&SessionKey> {
        self.key.as_ref()
    }

    /// Returns a handle for copying and deleting sessions. Does not wait for a session that another process uses.
    pub(crate) fn sessions(&self) -> Sessions {
        self.sessions_with(None, false)
    }

    fn sessions_with(&self, sandbox: Option<Sandbox>, waits: bool) -> Sessions {
        let mut policy = StorePolicy::default();
        if waits {
            policy.lock_wait_ms = u64::MAX;
        }
        let mut builder = Sessions::builder(Arc::clone(&self.store)).policy(policy).cancel(&self.cancel);
        if let Some(key) = &self.key {
            builder = builder.key(key.clone());
        }
        if let Some(sandbox) = sandbox {
            builder = builder.sandbox(sandbox);
        }
        builder.build()
    }

    /// Returns a session's record, or `None` if it does not exist.
    pub(crate) fn record(&self, id: &SessionId) -> anyhow::Result<Option<SessionRecord>> {
        Ok(block_on(self.store.record(id))?.map(|stored| stored.record))
    }

    /// Returns an existing session's record.
    pub(crate) fn existing(&self, id: &SessionId) -> anyhow::Result<SessionRecord> {
        self.record(id)?.ok_or_else(|| missing(id))
    }

    /// Activates an existing session, for an operation that needs its interpreter.
    pub(crate) fn activate_existing(
        &self,
        host: &Host,
        args: &ActivateArgs,
        id: &SessionId,
    ) -> anyhow::Result<ActiveSession> {
        let record = self.existing(id)?;
        let runtime = runtime_of(&record, &args.runtime)?;
        let sandbox = host.sandbox(&runtime, Some(record.language), &args.policy.resolve()?)?;
        self.activate(sandbox, id)
    }

    /// Activates or creates a session. Waits while another process uses the session, unless `--no-wait` is set.
    pub(crate) fn activate(&self, sandbox: Sandbox, id: &SessionId) -> anyhow::Result<ActiveSession> {
        let language = sandbox.language();
        self.when_free(id, |waits| {
            let sessions = self.sessions_with(Some(sandbox.clone()), waits);
            let stored = sessions.open_or_create(id.clone(), NewSession::default().language(language))?;
            // Activation acquires the session's lock. From now on, the session stays active in this process.
            stored.activate()?;
            Ok(ActiveSession { sessions, stored, key: self.key.clone() })
        })
    }

    /// Calls `open` with `false`, which does not wait for a session's lock. If another process holds the lock and
    /// `--no-wait` is not set, calls `open` with `true`, which waits.
    fn when_free<T>(&self, id: &SessionId, open: impl Fn(bool) -> anyhow::Result<T>) -> anyhow::Result<T> {
        match open(false) {
            Err(error) if is_in_use(&error) && !self.no_wait => {
                note(&format!("waiting for another process to finish with session `{id}`"));
                open(true)
            }
            opened => opened,
        }
    }

    /// Restores a session to its state before a suspended execution. Fails if the stored session has changed since.
    /// Waits like [`activate`](Self::activate). The stored session stays unchanged until the restored session is saved.
    pub(crate) fn restore(
        &self,
        sandbox: Sandbox,
        id: &SessionId,
        suspended: &Suspended,
    ) -> anyhow::Result<glovebox_sessions::ActiveSession> {
        let check = |record: &SessionRecord| match suspended.session_generation() {
            Some(before) if before == generation(record) => Ok(()),
            _ => Err(anyhow::Error::from(HintedError::new(
                format!(
                    "session `{id}` has changed since the script was suspended, so the script cannot continue in it"
                ),
                "delete the file, and run the script again unless it has already ended in the session",
            ))),
        };
        self.when_free(id, |waits| {
            self.sessions_with(Some(sandbox.clone()), waits).open(id)?.restore_suspended(suspended, check)
        })
    }
}

/// Returns a number that identifies the stored state of a session. It changes with every write, and differs between
/// sessions with the same ID that were created at different times, for example in another store.
fn generation(record: &SessionRecord) -> u64 {
    const WRITES_BITS: u32 = 20;
    let writes = record.generation & ((1 << WRITES_BITS) - 1);
    (record.created_at.unix_ms() << WRITES_BITS) | writes
}

fn is_in_use(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(SessionsError::InUse { .. }))
}

/// A stored session in use by this process. It is saved after every execution.
#[derive(Debug)]
pub(crate) struct ActiveSession {
    sessions: Sessions,
    stored: SessionGuard,
    key: Option<SessionKey>,
}

impl ActiveSession {
    pub(crate) fn session(&self) -> Result<Session, SessionsError> {
        Ok(self.stored.activate()?.clone())
    }

    /// Returns the session for an execution that can be suspended. [`save_after`] saves the session afterwards.
    ///
    /// [`save_after`]: glovebox_sessions::ActiveSession::save_after
    pub(crate) fn in_use(&self) -> Result<glovebox_sessions::ActiveSession, SessionsError> {
        self.stored.activate()
    }

    /// Returns a number that identifies the session's stored state.
    pub(crate) fn generation(&self) -> anyhow::Result<u64> {
        let record = self.sessions.record(self.stored.id())?;
        Ok(generation(&record.ok_or_else(|| missing(self.stored.id()))?))
    }

    /// Runs a request and saves the session.
    pub(crate) fn run(&self, request: Request<'_>) -> Result<Execution, SessionsError> {
        self.stored.run(request)
    }

    /// Saves changes that were not made by an execution.
    pub(crate) fn save(&self) -> Result<(), SessionsError> {
        self.stored.activate()?.save()
    }

    /// Copies this session within the same store.
    pub(crate) fn fork(&self, id: SessionId) -> Result<Self, SessionsError> {
        let stored = self.sessions.fork(self.stored.id(), id)?;
        Ok(Self { sessions: self.sessions.clone(), stored, key: self.key.clone() })
    }

    /// Replaces this session with `other`, under the same name.
    #[cfg(feature = "full")]
    pub(crate) fn replace(&mut self, other: &Session) -> anyhow::Result<()> {
        let mut options = glovebox::HibernateOptions::default();
        options.key.clone_from(&self.key);
        let state = other.hibernate(&options)?;
        self.stored = self.sessions.import(self.stored.id().clone(), &state, glovebox::IfExists::Replace)?;
        self.stored.activate()?;
        Ok(())
    }
}

/// Returns all sessions of a store, including damaged ones, in the order of their IDs.
pub(crate) fn entries(store: &dyn SessionStore) -> Result<Vec<StoredEntry>, StoreError> {
    let mut pages = Pages::new(store);
    let mut all = Vec::new();
    while let Some(entries) = block_on(pages.next())? {
        all.extend(entries);
    }
    Ok(all)
}

/// Returns the error for a missing session, with a hint.
pub(crate) fn missing(id: &SessionId) -> anyhow::Error {
    HintedError::new(
        format!("there is no session `{id}`"),
        format!("`glovebox session list` lists them; `glovebox run --session {id} -e CODE` creates one"),
    )
    .into()
}

/// Returns the runtime on which a session was created, unless flags select another runtime.
pub(crate) fn runtime_of(record: &SessionRecord, args: &RuntimeArgs) -> anyhow::Result<RuntimeArgs> {
    if record.runtime == CUSTOM_RUNTIME && !args.is_given() {
        return Err(HintedError::new(
            format!("session `{}` uses a runtime binary without a name", record.id),
            "pass the file with --runtime-path FILE",
        )
        .into());
    }
    Ok(args.or(&record.runtime))
}

/// Reads an exported session of at most `max_bytes` bytes. Checks the header first, so that other data is rejected
/// early. `flag` raises the limit.
pub(crate) fn read_exported(what: &str, mut from: impl Read, max_bytes: u64, flag: &str) -> anyhow::Result<Vec<u8>> {
    let mut start = Vec::new();
    from.by_ref()
        .take(HibernatedInfo::START_BYTES)
        .read_to_end(&mut start)
        .or_hint(|| format!("cannot read {what}"), "check that it is readable")?;
    HibernatedInfo::read_start(&start).with_context(|| format!("cannot import {what}"))?;
    bounded(what, start.as_slice().chain(from), max_bytes, flag)
}

/// Returns the key for sealing sessions, if one is given.
pub(crate) fn key(args: &StoreArgs) -> anyhow::Result<Option<SessionKey>> {
    args.key_file().as_deref().map(read_key).transpose()
}

/// Reads a key. A line break after a key of maximum length is not part of the key: `openssl rand -hex 32` adds one.
/// After a shorter key, the line break is part of the key, because removing it would invalidate the seals of stored
/// sessions.
pub(crate) fn read_key(path: &Path) -> anyhow::Result<SessionKey> {
    let wrong = |reason: String| {
        HintedError::new(
            reason,
            "create one with `openssl rand -hex 32 > FILE`, and keep it private (`chmod 600 FILE`)",
        )
    };
    let what = format!("key file `{}`", escaped(path));
    let mut bytes = Vec::new();
    let max = u64::try_from(SessionKey::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(2);
    File::open(path)
        .and_then(|file| file.take(max).read_to_end(&mut bytes))
        .map_err(|error| wrong(format!("cannot read {what}")).caused_by(error))?;
    let key = if bytes.len() > SessionKey::MAX_BYTES { bytes.strip_suffix(b"\n").unwrap_or(&bytes) } else { &bytes };
    SessionKey::new(key).map_err(|error| wrong(format!("{what} does not contain a key")).caused_by(error).into())
}

/// Returns the state directory according to the XDG Base Directory Specification: `$XDG_STATE_HOME/glovebox`, otherwise
/// `~/.local/state/glovebox`.
pub(crate) fn state_dir() -> anyhow::Result<PathBuf> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    match base {
        Some(base) => Ok(base.join("glovebox")),
        None => Err(HintedError::new(
            "neither XDG_STATE_HOME nor HOME is set to an absolute path",
            "set one of them to an absolute path, or choose a directory with --store",
        )
        .into()),
    }
}

/// Creates the state directory with mode 0700, if it does not exist.
pub(crate) fn create_state_dir() -> anyhow::Result<PathBuf> {
    let dir = state_dir()?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir).or_hint(
        || format!("cannot create the state directory `{}`", escaped(&dir)),
        "set XDG_STATE_HOME to a writable directory",
    )?;
    Ok(dir)
}
