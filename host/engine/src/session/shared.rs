//! A workspace that several sessions have in common.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use glovebox_vfs::{RootId, Vfs};
use glovebox_wasi::Wasi;

use crate::{
    CancelToken, Clock, ExecuteError, Sandbox,
    own_commits::OwnCommits,
    session::line::{Left, Line, Turn},
    timestamp,
    workspace::{GuestFiles, Roots},
};

/// Files that several sessions see and change, whatever their language: what one has written, the others read in their next
/// execution. Their executions exclude each other, in the order in which they were asked for; the quotas are those of
/// the sandbox that the workspace was made from, and hold for all of them together.
///
/// When a session is unwound, the files go back to what they were as the unwound execution began: what others wrote before it
/// stays. [`Session::undo`](crate::Session::undo) sets back the session and leaves the files. A fork gets a copy of its own.
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
pub struct SharedWorkspace(Arc<Common>);

struct Common {
    sandbox: Sandbox,
    roots: Roots,
    line: Line,
    files: Mutex<Files>,
}

struct Files {
    /// As the last execution left them, with the references of all sessions to the files that they have open.
    vfs: Vfs,
    /// What sessions that are gone had open. Whoever executes next gives it up: until then somebody may be executing.
    departed: Vec<Wasi>,
}

impl fmt::Debug for SharedWorkspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedWorkspace").field("roots", &self.0.roots).finish_non_exhaustive()
    }
}

impl SharedWorkspace {
    /// A workspace as `sandbox` gives each of its sessions one: with its files, host directories and quotas.
    pub fn new(sandbox: &Sandbox) -> Result<Self, ExecuteError> {
        let GuestFiles { vfs, roots } = sandbox.0.workspace.files()?;
        let files = Mutex::new(Files { vfs, departed: Vec::new() });
        Ok(Self(Arc::new(Common { sandbox: sandbox.clone(), roots, line: Line::default(), files })))
    }

    /// Refuses a sandbox whose guests are to see other directories.
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

    /// Waits for the turn until `end`; without an end it must be free.
    pub(super) fn enter(&self, end: Option<Instant>, cancel: &CancelToken) -> Result<Turn<'_>, Left> {
        self.0.line.enter_by(end, cancel)
    }

    /// The files that a new session begins with.
    pub(super) fn guest_files(&self) -> GuestFiles {
        GuestFiles { vfs: self.held().vfs.clone(), roots: self.0.roots.clone() }
    }

    /// The files as they are. Only for whoever has the turn, like all that follows.
    pub(super) fn current(&self) -> Vfs {
        let mut files = self.held();
        let Files { vfs, departed } = &mut *files;
        for mut wasi in departed.drain(..) {
            *wasi.vfs_mut() = vfs.clone();
            *vfs = wasi.unbind();
        }
        vfs.clone()
    }

    pub(super) fn publish(&self, vfs: Vfs) {
        self.held().vfs = vfs;
    }

    /// Takes note of a session that is gone, and what it had open. Anybody may call this at any time.
    pub(super) fn depart(&self, wasi: Wasi) {
        self.held().departed.push(wasi);
    }

    /// The files as they are between executions. Looking changes nothing and brings nothing to the host.
    pub(crate) fn snapshot(&self) -> Result<crate::Files, ExecuteError> {
        let _turn = self.turn()?;
        Ok(crate::Files::of(self.current(), self.0.roots.workspace()))
    }

    /// Lets the host change the files between executions. The root is that of `/app`; a change that succeeds
    /// is committed to a host directory as after a successful execution.
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

    fn turn(&self) -> Result<Turn<'_>, ExecuteError> {
        let end = Instant::now() + self.0.sandbox.0.policy.limits.timeout();
        self.enter(Some(end), &CancelToken::new()).map_err(|_| ExecuteError::WorkspaceBusy)
    }

    fn held(&self) -> MutexGuard<'_, Files> {
        self.0.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the host change files, and commits what it changed; says whether all of it was, if any.
pub(super) fn change<R, E: From<ExecuteError>>(
    sandbox: &Sandbox,
    roots: &Roots,
    vfs: &mut Vfs,
    own: Option<&mut OwnCommits>,
    work: impl FnOnce(&mut Vfs, RootId) -> Result<R, E>,
) -> (Result<R, E>, Option<bool>) {
    let Some(root) = roots.workspace() else {
        return (Err(ExecuteError::Driver("there is no workspace at `/app`".into()).into()), None);
    };
    vfs.mark();
    vfs.set_now_ns(match sandbox.0.policy.clock {
        Clock::Host => timestamp::realtime_ns(),
        Clock::Fixed(realtime_ns) => realtime_ns,
    });
    let result = work(vfs, root);
    let committed = sandbox.0.workspace.commit(vfs, roots, result.is_ok(), own);
    let whole = committed.whole();
    match committed.failed {
        Some((_, source)) if result.is_ok() => (Err(ExecuteError::Mount(source).into()), whole),
        _ => (result, whole),
    }
}
