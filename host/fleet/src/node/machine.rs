//! A node's interpreters and session states, and sessions held in memory for their next execution.

use std::{collections::HashMap, sync::Arc, time::Duration};

use glovebox::{
    BuildError, Engine, ExecuteError, HibernateOptions, JsonText, Language, Policy, ResumeError, ResumeOptions,
    Sandbox, Session, SessionKey, SessionOptions, Suspended, Timestamp, escaped,
};
use glovebox_object_stores::BlobStore;
use glovebox_requests::callbacks::Callbacks;
use glovebox_sessions::SessionId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::{
    NodeConfig,
    attempt::StepError,
    object::{SessionState, blob_dir, blob_name, seed},
    serve::{Admin, NodeError},
    session_policy,
};
use crate::{FleetName, FleetSession, OpenRequest, client::status};

// Maximum values of the session limits.
const MAX_SESSIONS: u32 = 1_000_000;
const MAX_SESSION_BYTES: u64 = 1 << 50;
/// The number of blobs to list and delete at a time.
const REMOVED_AT_ONCE: usize = 1_000;

/// A runtime for new sessions.
#[derive(Clone, Debug)]
struct ServedRuntime {
    language: Language,
    name: String,
    version: Option<String>,
    image_sha256: String,
}

/// The time and identity of a session's opening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionOpening {
    pub(super) at: Timestamp,
    /// Unique ID of the opening.
    pub(super) id: String,
}

impl SessionOpening {
    /// Creates an opening with the current time and a random ID.
    pub(super) fn new() -> Self {
        Self { at: Timestamp::now(), id: SessionId::random().as_str().get(..16).unwrap_or_default().to_owned() }
    }
}

/// A node's interpreters, its store of session states, and its sessions in memory.
pub(super) struct Machine {
    engine: Engine,
    /// The client for the admin API of the fleet's engine.
    pub(super) admin: Admin,
    blobs: BlobStore,
    key: Option<SessionKey>,
    policy: Policy,
    served: Vec<ServedRuntime>,
    pub(super) callbacks: Option<Callbacks>,
    /// Semaphore with one permit for each concurrent execution.
    pub(super) places: Arc<Semaphore>,
    /// Maximum time to wait for a permit.
    pub(super) queue: Duration,
    /// Maximum time to suspend an execution.
    pub(super) suspension_time: Duration,
    warm: WarmSessionCache,
}

impl Machine {
    /// Creates a machine and prepares its runtimes. The first preparation on a machine takes a minute or more.
    pub(super) fn new(config: NodeConfig) -> Result<Self, NodeError> {
        NodeConfig::check_policy(&config.policy)?;
        let running = config.running.clamp(1, Semaphore::MAX_PERMITS);
        let policy = with_room(&config, running);
        let queue = config.queue;
        let suspension_time = config.suspension_time.unwrap_or_else(|| policy.limits.timeout().max(queue));
        let NodeConfig { engine, fleet, blobs, key, runtimes, callbacks, .. } = config;
        let named = match runtimes.is_empty() {
            true => Language::ALL.iter().map(|language| language.name().to_owned()).collect(),
            false => runtimes,
        };
        let mut served: Vec<ServedRuntime> = Vec::new();
        for name in named {
            let sandbox = Sandbox::builder(&engine).named(&name).policy(policy.clone()).build()?;
            sandbox.load_all_code().map_err(BuildError::from)?;
            let Some(image) = sandbox.image_sha256() else { continue };
            if !served.iter().any(|other| other.image_sha256 == image) {
                served.push(ServedRuntime {
                    language: sandbox.language(),
                    name: sandbox.runtime_name().to_owned(),
                    version: sandbox.version().map(str::to_owned),
                    image_sha256: image.to_owned(),
                });
            }
        }
        let places = Arc::new(Semaphore::new(running));
        let warm = WarmSessionCache::new(config.warm_count, config.warm_bytes);
        let admin = Admin::new(&fleet)?;
        Ok(Self { engine, admin, blobs, key, policy, served, callbacks, places, queue, suspension_time, warm })
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Returns the identities of the node's images.
    pub(super) fn images(&self) -> impl Iterator<Item = &str> {
        self.served.iter().map(|served| &*served.image_sha256)
    }

    /// Opens a session and stores its first state.
    pub(super) async fn open(
        self: &Arc<Self>,
        name: &FleetName,
        request: OpenRequest,
        opening: SessionOpening,
    ) -> Result<SessionState, StepError> {
        let served = self.runtime(request.language, request.runtime.as_deref())?;
        let SessionOpening { at: opened_at, id: opening } = opening;
        let (machine, id) = (Arc::clone(self), name.clone());
        let (runtime, opened) = (served.name.clone(), opening.clone());
        let (session, bytes) = blocking(move || {
            let sandbox = machine.sandbox(&id, &runtime, opened_at, &opened)?;
            let mut options = SessionOptions::default().id(id.id().as_str());
            if let Some(context) = request.context {
                let text = JsonText::new(Box::<str>::from(context));
                options = options.context(text.map_err(|error| StepError::invalid(format!("`context`: {error}")))?);
            }
            let session = sandbox.open_session(options).map_err(|error| match is_transient(&error) {
                true => StepError::Later(glovebox::with_causes(&error)),
                false => StepError::failed(&error),
            })?;
            let bytes = machine.hibernate(&id, &session)?;
            Ok((session, bytes))
        })
        .await?;
        let (blob, length) = (blob_name(name, &opening, 1, &bytes), bytes.len() as u64);
        self.blobs.put(&blob, bytes).await?;
        self.warm.put(name.clone(), blob.clone(), length, session);
        let session = FleetSession {
            name: name.clone(),
            language: served.language,
            runtime: served.name,
            version: served.version,
            image_sha256: served.image_sha256,
            generation: 1,
            executions: 0,
            bytes: length,
            created_at: opened_at,
            updated_at: opened_at,
            is_running: false,
        };
        Ok(SessionState { session, opening, blob, previous: None, stale: Vec::new() })
    }

    /// Returns the session in this state, from memory or from its blob.
    pub(super) async fn session(self: &Arc<Self>, state: &SessionState) -> Result<Session, StepError> {
        let name = &state.session.name;
        if let Some(session) = self.warm.take(name, &state.blob) {
            return Ok(session);
        }
        // The blob exists as long as the stored state refers to it. It is missing only if the caller's state is
        // outdated.
        let gone = || StepError::Later(format!("the blob `{}` is not in the store", state.blob));
        let bytes = self.blobs.get(&state.blob, BlobStore::MAX_BYTES).await?.ok_or_else(gone)?;
        let (machine, opening, state) = (Arc::clone(self), state.opening.clone(), state.session.clone());
        blocking(move || {
            let sandbox = machine.sandbox(&state.name, &state.runtime, state.created_at, &opening)?;
            let mut options = ResumeOptions::default().id(state.name.id().as_str()).bound_to(state.name.to_string());
            options.key.clone_from(&machine.key);
            sandbox.resume(&bytes, options).map_err(|error| match &error {
                ResumeError::Session(source) if is_transient(source) => StepError::Later(glovebox::with_causes(&error)),
                _ => StepError::failed(&error),
            })
        })
        .await
    }

    /// Restores the session to its state before a suspended execution. The execution uses the clock of the session in
    /// which it was suspended. The seed of the random numbers is part of the restored state.
    pub(super) async fn restored(
        self: &Arc<Self>,
        state: &SessionState,
        suspended: Suspended,
    ) -> Result<Session, StepError> {
        let (machine, opening, state) = (Arc::clone(self), state.opening.clone(), state.session.clone());
        blocking(move || {
            let opened_at = suspended.session_generation().map_or(state.created_at, Timestamp::from_unix_ms);
            let sandbox = machine.sandbox(&state.name, &state.runtime, opened_at, &opening)?;
            let options = ResumeOptions::default().id(state.name.id().as_str());
            sandbox.resume_suspended_session(&suspended, options).map_err(|error| match &error {
                ResumeError::Session(source) if is_transient(source) => StepError::Later(glovebox::with_causes(&error)),
                _ => StepError::Never(status::NOT_RESUMABLE, glovebox::with_causes(&error)),
            })
        })
        .await
    }

    /// Returns the key that seals suspended executions in the scope of this session, if the node has a key.
    pub(super) fn suspended_key(&self, name: &FleetName) -> Option<SessionKey> {
        let scope = name.scope().map_or("", SessionId::as_str);
        self.key.as_ref().map(|key| key.derived(&format!("suspended executions of {scope}")))
    }

    /// Stores the session as the next generation of `state` and keeps it in memory.
    pub(super) async fn save(
        self: &Arc<Self>,
        state: &SessionState,
        session: Session,
        at: Timestamp,
    ) -> Result<SessionState, StepError> {
        let name = &state.session.name;
        let (machine, id, saved) = (Arc::clone(self), name.clone(), session.clone());
        let bytes = blocking(move || machine.hibernate(&id, &saved)).await?;
        let blob = blob_name(name, &state.opening, state.session.generation + 1, &bytes);
        let length = bytes.len() as u64;
        self.blobs.put(&blob, bytes).await?;
        let executions = session.info().executions;
        self.warm.put(name.clone(), blob.clone(), length, session);
        Ok(state.next(length, executions, at, blob))
    }

    /// Returns the names of the sessions in memory.
    #[cfg(test)]
    pub(super) fn warm_names(&self) -> Vec<String> {
        self.warm.names()
    }

    /// Deletes unreferenced blobs in the background. A blob whose deletion fails is deleted with its session.
    pub(super) fn forget_blobs(&self, blobs: Vec<String>) {
        for blob in blobs {
            let store = self.blobs.clone();
            tokio::spawn(async move {
                if let Err(error) = store.delete(&blob).await {
                    tracing::debug!(target: "glovebox", blob, %error, "cannot delete an unreferenced blob");
                }
            });
        }
    }

    /// Deletes all blobs of a session, and drops the session from memory.
    pub(super) async fn forget(&self, state: &SessionState) -> Result<(), StepError> {
        let name = &state.session.name;
        self.warm.forget(name);
        loop {
            let page = self.blobs.list(&blob_dir(name, &state.opening), None, REMOVED_AT_ONCE).await?;
            if page.blobs.is_empty() {
                return Ok(());
            }
            for blob in page.blobs {
                self.blobs.delete(&blob.name).await?;
            }
        }
    }

    /// Finds the runtime for a new session.
    fn runtime(&self, language: Option<Language>, runtime: Option<&str>) -> Result<ServedRuntime, StepError> {
        let named = runtime.map(|name| match self.engine.runtimes() {
            // `name` can be an alias.
            Ok(known) => {
                known.iter().find(|info| info.is_named(name)).map_or(name.to_owned(), |info| info.name.clone())
            }
            Err(_) => name.to_owned(),
        });
        let fits = |served: &&ServedRuntime| {
            language.is_none_or(|wanted| served.language == wanted)
                && named.as_ref().is_none_or(|name| served.name == *name)
        };
        let none = || {
            let have: Vec<String> = self.served.iter().map(|served| format!("`{}`", served.name)).collect();
            let wanted = match (runtime, language) {
                (Some(name), Some(language)) => format!("runtime `{}` for {language}", escaped(name)),
                (Some(name), None) => format!("runtime `{}`", escaped(name)),
                (None, Some(language)) => format!("a runtime for {language}"),
                (None, None) => "a runtime".to_owned(),
            };
            StepError::invalid(format!("this node does not offer {wanted}; use one of {}", have.join(", ")))
        };
        self.served.iter().find(fits).cloned().ok_or_else(none)
    }

    /// Builds a sandbox with the session's own clock and random numbers. Must be called on a blocking thread.
    fn sandbox(
        &self,
        name: &FleetName,
        runtime: &str,
        opened_at: Timestamp,
        opening: &str,
    ) -> Result<Sandbox, StepError> {
        let policy = session_policy(&self.policy, opened_at.unix_ms(), seed(name, opening));
        let built = Sandbox::builder(&self.engine).runtime(runtime).policy(policy).build();
        built.map_err(|error: BuildError| StepError::failed(&error))
    }

    fn hibernate(&self, name: &FleetName, session: &Session) -> Result<Vec<u8>, StepError> {
        let mut options = HibernateOptions::default().bound_to(name.to_string());
        options.key.clone_from(&self.key);
        let bytes = session.hibernate(&options).map_err(|error| StepError::failed(&error))?;
        let max = BlobStore::MAX_BYTES;
        if bytes.len() as u64 > max {
            let message = format!("the session exceeds {max} bytes in the store; remove data from the session first");
            return Err(StepError::Never(status::FAILED, message));
        }
        Ok(bytes)
    }
}

/// Returns the configured policy, with session limits raised to cover running executions and sessions held in memory.
fn with_room(config: &NodeConfig, running: usize) -> Policy {
    let mut policy = config.policy.clone();
    let limits = &mut policy.limits;
    // Each running execution needs two sessions: its own session, and a session that it evicts.
    let sessions = config.warm_count.saturating_add(running.saturating_mul(2));
    let each = limits.memory_bytes.saturating_add(limits.workspace_bytes);
    // A suspendable execution also keeps the state of its session before the execution.
    let bytes = config.warm_bytes.saturating_add((running as u64).saturating_mul(3).saturating_mul(each));
    limits.session_count = limits.session_count.max(u32::try_from(sessions).unwrap_or(u32::MAX)).min(MAX_SESSIONS);
    limits.session_total_bytes = limits.session_total_bytes.max(bytes).min(MAX_SESSION_BYTES);
    policy
}

/// Returns `true` if the error is transient: the node is short of memory, slots or threads.
pub(super) fn is_transient(error: &ExecuteError) -> bool {
    matches!(
        error,
        ExecuteError::TooManySessions { .. } | ExecuteError::System { .. } | ExecuteError::Instantiate { .. }
    )
}

/// Runs work on a blocking thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StepError> + Send + 'static,
) -> Result<T, StepError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(StepError::Later("the node panicked; see its log".to_owned())))
}

/// The memory of an almost empty interpreter in bytes: its stack, its tables, and the pages that each execution writes.
const INSTANCE_BYTES: u64 = 1 << 20;

/// Sessions in memory, by name. Each session is in the state of one blob, and serves only executions on that state.
#[derive(Debug)]
pub(super) struct WarmSessionCache {
    max_count: usize,
    max_bytes: u64,
    held: Mutex<WarmSessions>,
}

#[derive(Debug, Default)]
struct WarmSessions {
    sessions: HashMap<FleetName, WarmSession>,
    bytes: u64,
    /// The number of uses so far. The session with the lowest `used` was used least recently.
    uses: u64,
}

#[derive(Debug)]
struct WarmSession {
    session: Session,
    blob: String,
    bytes: u64,
    used: u64,
}

impl WarmSessionCache {
    pub(super) fn new(max_count: usize, max_bytes: u64) -> Self {
        Self { max_count, max_bytes, held: Mutex::default() }
    }

    /// Removes a session, and returns it if it is in the state of this blob.
    pub(super) fn take(&self, name: &FleetName, blob: &str) -> Option<Session> {
        let place = self.held.lock().remove(name)?;
        (place.blob == blob).then_some(place.session)
    }

    /// Adds a session in the state of this blob, and evicts the least recently used sessions to make room. Drops the
    /// session instead if it has ended or is larger than `max_bytes`. `stored_bytes` is the size of the blob.
    pub(super) fn put(&self, name: FleetName, blob: String, stored_bytes: u64, session: Session) {
        // `held_bytes` does not include changed pages of the image, but the compressed blob does. Count the larger
        // value, plus the base cost of an instance.
        let bytes = session.info().held_bytes.max(stored_bytes).saturating_add(INSTANCE_BYTES);
        if self.max_count == 0 || bytes > self.max_bytes || session.ended().is_some() {
            return;
        }
        // Evicted sessions are dropped after `held` is unlocked.
        let mut out = Vec::new();
        let mut held = self.held.lock();
        out.extend(held.remove(&name));
        while held.sessions.len() >= self.max_count || held.bytes.saturating_add(bytes) > self.max_bytes {
            let Some(oldest) = held.oldest() else { break };
            out.extend(held.remove(&oldest));
        }
        held.uses += 1;
        held.bytes += bytes;
        let used = held.uses;
        held.sessions.insert(name, WarmSession { session, blob, bytes, used });
        drop(held);
        drop(out);
    }

    /// Returns the names of the sessions, sorted.
    #[cfg(test)]
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.held.lock().sessions.keys().map(ToString::to_string).collect();
        names.sort();
        names
    }

    /// Drops a session from memory.
    pub(super) fn forget(&self, name: &FleetName) {
        let forgotten = self.held.lock().remove(name);
        drop(forgotten);
    }
}

impl WarmSessions {
    fn remove(&mut self, name: &FleetName) -> Option<WarmSession> {
        let place = self.sessions.remove(name)?;
        self.bytes -= place.bytes;
        Some(place)
    }

    fn oldest(&self) -> Option<FleetName> {
        self.sessions.iter().min_by_key(|(_, place)| place.used).map(|(name, _)| name.clone())
    }
}
