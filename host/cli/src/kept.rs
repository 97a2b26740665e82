//! Sessions that outlast a process: their directory, and a session of it in use.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use glovebox::{
    CancelToken, DirectoryStore, Execution, HibernateOptions, IfExists, KeptSession, Language, NewSession, Request,
    Sandbox, Session, SessionId, SessionKey, SessionRecord, SessionStore, Sessions, SessionsError, StorePolicy,
    escaped,
};

use crate::{
    args::{RuntimeArgs, StoreArgs, WakeArgs},
    engine::Host,
    state,
    terminal::{Hinted, note},
};

/// What a record says of a binary that has no name.
const CUSTOM_RUNTIME: &str = "custom";

/// Where sessions are kept beneath the state directory.
pub(crate) const SESSIONS: &str = "sessions";
/// What to do about a directory that others can write to.
pub(crate) const NOT_OURS_REMEDY: &str = "make it yours alone (`chmod -R go-w DIR`), or name another with --store";

/// The sessions in a directory.
#[derive(Debug)]
pub(crate) struct Shelf {
    store: Arc<DirectoryStore>,
    key: Option<SessionKey>,
    cancel: CancelToken,
    no_wait: bool,
}

impl Shelf {
    /// Opens the directory; makes it where it is not there yet.
    pub(crate) fn open(args: &StoreArgs, cancel: &CancelToken) -> anyhow::Result<Self> {
        let dir = match &args.store {
            Some(dir) => dir.clone(),
            None => state::create()?.join(SESSIONS),
        };
        let store = DirectoryStore::open(&dir).map_err(|error| {
            Hinted::new(format!("cannot keep sessions in `{}`", escaped(&dir)), NOT_OURS_REMEDY).because(error)
        })?;
        Ok(Self { store: Arc::new(store), key: key(args)?, cancel: cancel.clone(), no_wait: args.no_wait })
    }

    pub(crate) fn store(&self) -> &dyn SessionStore {
        &*self.store
    }

    pub(crate) fn key(&self) -> Option<&SessionKey> {
        self.key.as_ref()
    }

    /// The sessions, to be carried and deleted. None is waited for that another process has.
    pub(crate) fn sessions(&self) -> Sessions {
        self.sessions_with(None, false)
    }

    fn sessions_with(&self, sandbox: Option<Sandbox>, waits: bool) -> Sessions {
        let mut policy = StorePolicy::default();
        if waits {
            policy.lock_wait_ms = u64::MAX;
        }
        let mut builder = Sessions::builder(Arc::clone(&self.store) as _).policy(policy).cancel(&self.cancel);
        if let Some(key) = &self.key {
            builder = builder.key(key.clone());
        }
        if let Some(sandbox) = sandbox {
            builder = builder.sandbox(sandbox);
        }
        builder.build()
    }

    /// What is known of a session; none where there is no such.
    pub(crate) fn record(&self, id: &SessionId) -> anyhow::Result<Option<SessionRecord>> {
        Ok(self.store.record(id)?)
    }

    /// A session that is there.
    pub(crate) fn existing(&self, id: &SessionId) -> anyhow::Result<SessionRecord> {
        self.record(id)?.ok_or_else(|| missing(id))
    }

    /// Wakes a session that is there, for what needs its interpreter.
    pub(crate) fn wake(&self, host: &Host, args: &WakeArgs, id: &SessionId) -> anyhow::Result<Awake> {
        let record = self.existing(id)?;
        let runtime = runtime_of(&record, &args.runtime)?;
        let sandbox = host.sandbox(&runtime, Some(record.language), &args.policy.resolve()?)?;
        self.awake(sandbox, id)
    }

    /// Wakes a session, or makes it, and waits for another process that has it unless told not to.
    pub(crate) fn awake(&self, sandbox: Sandbox, id: &SessionId) -> anyhow::Result<Awake> {
        let language = sandbox.language();
        let awake = |waits| Awake::new(self.sessions_with(Some(sandbox.clone()), waits), language, id, self.key());
        match awake(false) {
            Err(SessionsError::InUse { .. }) if !self.no_wait => {
                note(&format!("waiting for another process that has session `{id}`"));
                Ok(awake(true)?)
            }
            awake => Ok(awake?),
        }
    }
}

/// A session of a directory while this process has it. Everything that is run in it is saved.
#[derive(Debug)]
pub(crate) struct Awake {
    sessions: Sessions,
    kept: KeptSession,
    key: Option<SessionKey>,
}

impl Awake {
    /// Wakes a session, or makes it.
    fn new(
        sessions: Sessions,
        language: Language,
        id: &SessionId,
        key: Option<&SessionKey>,
    ) -> Result<Self, SessionsError> {
        let kept = sessions.open_or_create(id.clone(), NewSession::default().language(language))?;
        // Takes its lock, and from now on it stays live here.
        kept.awake()?;
        Ok(Self { sessions, kept, key: key.cloned() })
    }

    /// The live session.
    pub(crate) fn session(&self) -> Result<Session, SessionsError> {
        Ok(self.kept.awake()?.clone())
    }

    /// Runs a request and saves the session.
    pub(crate) fn run(&self, request: Request<'_>) -> Result<Execution, SessionsError> {
        self.kept.run(request)
    }

    /// Saves what was done to the session otherwise.
    pub(crate) fn save(&self) -> Result<(), SessionsError> {
        self.kept.awake()?.save()
    }

    /// A second session like this one, in the same directory.
    pub(crate) fn fork(&self, id: SessionId) -> Result<Self, SessionsError> {
        let kept = self.sessions.fork(self.kept.id(), id)?;
        Ok(Self { sessions: self.sessions.clone(), kept, key: self.key.clone() })
    }

    /// Puts another session in the place of this one, under the same name.
    pub(crate) fn replace(&mut self, other: &Session) -> anyhow::Result<()> {
        let mut options = HibernateOptions::default();
        options.key.clone_from(&self.key);
        let state = other.hibernate(&options)?;
        self.kept = self.sessions.import(self.kept.id().clone(), &state, IfExists::Replace)?;
        self.kept.awake()?;
        Ok(())
    }
}

/// That there is no such session, and what to do.
pub(crate) fn missing(id: &SessionId) -> anyhow::Error {
    Hinted::new(
        format!("there is no session `{id}`"),
        format!("`glovebox session list` lists them; `glovebox run --session {id} -e CODE` makes one"),
    )
    .into()
}

/// The interpreter that a session was made in, unless flags name another.
pub(crate) fn runtime_of(record: &SessionRecord, args: &RuntimeArgs) -> anyhow::Result<RuntimeArgs> {
    if args.runtime.is_some() || args.runtime_path.is_some() {
        return Ok(args.clone());
    }
    if record.runtime == CUSTOM_RUNTIME {
        return Err(Hinted::new(
            format!("session `{}` runs in a binary that has no name", record.id),
            "name its file with --runtime-path FILE",
        )
        .into());
    }
    Ok(RuntimeArgs { runtime: Some(record.runtime.clone()), ..args.clone() })
}

/// The key that sessions are sealed with, where one is given.
pub(crate) fn key(args: &StoreArgs) -> anyhow::Result<Option<SessionKey>> {
    args.key_file.as_deref().map(read_key).transpose()
}

/// Reads a key. The line end that a text file has is no part of it.
fn read_key(path: &Path) -> anyhow::Result<SessionKey> {
    let wrong = |reason: String| {
        Hinted::new(reason, "`openssl rand -hex 32 > FILE` makes one; keep it to yourself (`chmod 600 FILE`)")
    };
    let what = format!("key file `{}`", escaped(path));
    let mut bytes = Vec::new();
    let most = u64::try_from(SessionKey::MAX_BYTES).unwrap_or(u64::MAX).saturating_add(2);
    File::open(path)
        .and_then(|file| file.take(most).read_to_end(&mut bytes))
        .map_err(|error| wrong(format!("cannot read {what}")).because(error))?;
    let key = if bytes.len() > SessionKey::MAX_BYTES { bytes.strip_suffix(b"\n").unwrap_or(&bytes) } else { &bytes };
    SessionKey::new(key).map_err(|error| wrong(format!("{what} holds no key")).because(error).into())
}
