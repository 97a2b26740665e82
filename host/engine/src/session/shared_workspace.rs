//! Workspaces that several sessions share, and session options.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use glovebox_core::session::{MAX_SESSION_ID_BYTES, is_session_id};
use glovebox_vfs::{RootId, Vfs};
use glovebox_wasi::Wasi;

use crate::{
    CancelToken, Clock, ExecuteError, JsonText, Sandbox, SessionInfo,
    exec::platform::{self, SessionScope},
    files::workspace::{GuestFiles, Roots},
    mount::commit::SessionCommits,
    session::fair_lock::{FairLock, FairLockGuard, TurnFailure},
};

/// A workspace that several sessions read and write, in any language. Each execution sees the changes of earlier
/// executions in the other sessions. Executions in the workspace run one at a time, in arrival order. The quotas of the
/// sandbox that created the workspace apply to all sessions together.
///
/// When a session is unwound, the files are restored to the start of the unwound execution, so earlier changes of other
/// sessions remain. Changes that were committed to host directories also remain.
/// [`Session::undo`](crate::Session::undo) rolls back the session, but not the files. A fork receives a copy of the
/// files.
///
/// ```no_run
/// # use glovebox::{Engine, EngineConfig, Language, Sandbox, SessionOptions, SharedWorkspace};
/// # let engine = Engine::new(EngineConfig::default())?;
/// let python = Sandbox::builder(&engine).build()?;
/// let javascript = Sandbox::builder(&engine).language(Language::JavaScript).build()?;
/// let shared = SharedWorkspace::new(&python)?;
/// let one = python.open_session(SessionOptions::default().workspace(&shared))?;
/// let two = javascript.open_session(SessionOptions::default().workspace(&shared))?;
/// one.execute("open('note', 'w').write('hello')")?;
/// assert_eq!(two.execute("std.loadFile('note')")?.value.unwrap().repr, "'hello'");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedWorkspace(Arc<SharedWorkspaceInner>);

struct SharedWorkspaceInner {
    sandbox: Sandbox,
    roots: Roots,
    line: FairLock,
    files: Mutex<RetainedWorkspace>,
}

struct RetainedWorkspace {
    /// The files after the last execution, including all sessions' references to open files.
    vfs: Vfs,
    /// WASI states of dropped sessions. Their open files are released at the next turn, because another session may be
    /// executing.
    dropped: Vec<Wasi>,
}

impl fmt::Debug for SharedWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWorkspace").field("roots", &self.0.roots).finish_non_exhaustive()
    }
}

impl SharedWorkspace {
    /// Creates a workspace with the initial files, host directories and quotas of a session in `sandbox`.
    ///
    /// # Errors
    /// Fails if a host directory cannot be used.
    pub fn new(sandbox: &Sandbox) -> Result<Self, ExecuteError> {
        let GuestFiles { vfs, roots } = sandbox.0.workspace.files()?;
        let files = Mutex::new(RetainedWorkspace { vfs, dropped: Vec::new() });
        Ok(Self(Arc::new(SharedWorkspaceInner { sandbox: sandbox.clone(), roots, line: FairLock::default(), files })))
    }

    /// Fails if the policy of `sandbox` has different host directories.
    pub(super) fn check(&self, sandbox: &Sandbox) -> Result<(), ExecuteError> {
        let (ours, theirs) = (&self.0.sandbox.0.policy, &sandbox.0.policy);
        let differs = [
            ("workspace", ours.workspace != theirs.workspace),
            ("mounts", ours.mounts != theirs.mounts),
            ("commit", ours.commit != theirs.commit),
        ];
        match differs.into_iter().find(|(_, differs)| *differs) {
            Some((key, _)) => Err(ExecuteError::OtherWorkspace { key }),
            None => Ok(()),
        }
    }

    /// Waits for the turn until `end`. Without an `end`, fails unless the turn is free.
    pub(super) fn enter(&self, end: Option<Instant>, cancel: &CancelToken) -> Result<FairLockGuard<'_>, TurnFailure> {
        self.0.line.enter(end, cancel, || ExecuteError::WorkspaceBusy)
    }

    /// Returns the initial files of a new session.
    pub(super) fn guest_files(&self) -> GuestFiles {
        GuestFiles { vfs: self.held().vfs.clone(), roots: self.0.roots.clone() }
    }

    /// Releases the open files of dropped sessions and returns the current files. The caller must have the turn.
    pub(super) fn current(&self) -> Vfs {
        let mut files = self.held();
        let RetainedWorkspace { vfs, dropped } = &mut *files;
        for mut wasi in dropped.drain(..) {
            *wasi.vfs_mut() = vfs.clone();
            *vfs = wasi.unbind();
        }
        vfs.clone()
    }

    pub(super) fn publish(&self, vfs: Vfs) {
        self.held().vfs = vfs;
    }

    /// Records the open files of a dropped session. May be called without the turn.
    pub(super) fn retain_until_turn(&self, wasi: Wasi) {
        self.held().dropped.push(wasi);
    }

    /// Returns the files between executions. Does not change or commit any file.
    pub(crate) fn snapshot(&self) -> Result<crate::Files, ExecuteError> {
        let _turn = self.turn()?;
        Ok(crate::Files::of(self.current(), self.0.roots.workspace()))
    }

    /// Lets the host change the files between executions. `work` receives the root of `/app`. Successful changes are
    /// committed to host directories like those of a successful execution.
    pub(crate) fn with_files<R, E: From<ExecuteError>>(
        &self,
        work: impl FnOnce(&mut Vfs, RootId) -> Result<R, E>,
    ) -> Result<R, E> {
        let _turn = self.turn()?;
        let mut vfs = self.current();
        let (result, _) = change(&self.0.sandbox, &self.0.roots, &mut vfs, None, work);
        self.publish(vfs);
        result
    }

    fn turn(&self) -> Result<FairLockGuard<'_>, ExecuteError> {
        let end = Instant::now() + self.0.sandbox.0.policy.limits.timeout();
        self.enter(Some(end), &CancelToken::new()).map_err(|_| ExecuteError::WorkspaceBusy)
    }

    fn held(&self) -> MutexGuard<'_, RetainedWorkspace> {
        self.0.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the host change files, and commits the changes as the policy requires. An error of `work` counts as a failed
/// execution. The second result is `Some(true)` if all changes were committed, `Some(false)` if only some were, and
/// `None` if none were.
pub(super) fn change<R, E: From<ExecuteError>>(
    sandbox: &Sandbox,
    roots: &Roots,
    vfs: &mut Vfs,
    own: Option<&mut SessionCommits>,
    work: impl FnOnce(&mut Vfs, RootId) -> Result<R, E>,
) -> (Result<R, E>, Option<bool>) {
    let Some(root) = roots.workspace() else {
        return (Err(ExecuteError::Driver("there is no workspace at `/app`".into()).into()), None);
    };
    vfs.mark();
    vfs.set_now_ns(match sandbox.0.policy.clock {
        Clock::Host => platform::realtime_ns(),
        Clock::Fixed(realtime_ns) => realtime_ns,
    });
    let result = work(vfs, root);
    let committed = sandbox.0.workspace.commit(vfs, roots, result.is_ok(), own);
    let whole = committed.all_committed();
    match committed.failed {
        Some((_, source)) if result.is_ok() => (Err(ExecuteError::Mount(source).into()), whole),
        _ => (result, whole),
    }
}

/// Options for opening a session. Start from `default()` and change individual fields.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionOptions {
    /// The ID of the session: 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`. Default: 128 random bits
    /// in hexadecimal. The caller must ensure that IDs are unique.
    pub id: Option<String>,
    /// The value of the global variable `context`, at most `limits.stdin_bytes` of JSON text. Default: the variable
    /// does not exist.
    pub context: Option<JsonText>,
    /// The workspace to share with other sessions. Default: none, so that the session has its own files.
    pub workspace: Option<SharedWorkspace>,
    pub(crate) scope: SessionScope,
}

impl SessionOptions {
    /// Sets [`id`](Self::id).
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Sets [`context`](Self::context).
    #[must_use]
    pub fn context(mut self, context: impl Into<JsonText>) -> Self {
        self.context = Some(context.into());
        self
    }

    super::scope_setters!();

    /// Sets [`workspace`](Self::workspace).
    #[must_use]
    pub fn workspace(mut self, workspace: &SharedWorkspace) -> Self {
        self.workspace = Some(workspace.clone());
        self
    }
}

/// Fails if `id` is not a valid session ID.
pub(crate) fn check_id(id: &str) -> Result<(), ExecuteError> {
    if is_session_id(id) {
        return Ok(());
    }
    Err(ExecuteError::SessionId { id: id.chars().take(MAX_SESSION_ID_BYTES).collect() })
}

/// Validates the requested ID of a new session, or generates a random ID.
pub(super) fn chosen_id(id: Option<String>) -> Result<Arc<str>, ExecuteError> {
    let Some(id) = id else { return Ok(platform::random_id().into()) };
    check_id(&id)?;
    Ok(id.into())
}

/// The status that a handle can read without waiting for the session's turn.
#[derive(Debug)]
pub(super) struct Status {
    pub(super) info: SessionInfo,
    pub(super) idle_since: Option<Instant>,
}

impl Status {
    pub(super) fn new(info: SessionInfo) -> Self {
        Self { info, idle_since: Some(Instant::now()) }
    }

    pub(super) fn idle_for(&self) -> Option<Duration> {
        self.idle_since.map(|since| since.elapsed())
    }
}
