//! The engine's implementation of a session: instances, pages, shared files, and commits to host directories.

use std::sync::Arc;

use glovebox_core::session::{
    Checkpoint, History, Memory, Pages, SavedCheckpoint, SessionBackend, SessionError, SessionFailure, SessionSetup,
    TooMany,
};
use glovebox_vfs::Vfs;
use glovebox_wasi::Wasi;

use crate::{
    ExecuteError, Request, Sandbox,
    exec::{
        events,
        platform::{ExecutionCtx, SessionScope},
        run::PreparedRequest,
    },
    files::workspace::Roots,
    guest::{self, Guest, NewGuest, machine::GuestMachine},
    load::runtime::Image,
    mount::commit::SessionCommits,
    session::{
        SharedWorkspace,
        pages::{self, PrivateBytes, own_pages},
    },
};

/// The engine's state for a session.
pub(super) struct EngineBackend {
    pub(super) sandbox: Sandbox,
    image: Arc<Image>,
    id: Arc<str>,
    pub(super) roots: Roots,
    workspace: Option<SharedWorkspace>,
    /// The WASI state, including files, that a rollback in a shared workspace restores. The state is saved at the start
    /// of the turn and after each commit in the turn. `None` without a shared workspace. Between turns, the workspace's
    /// reference counts include this state's open files.
    before: Option<Wasi>,
    /// The initial pages of a fork or a resumed session. The first checkpoint shares the unchanged pages.
    shareable: Pages,
    /// Commits to host directories. In a shared workspace, only their count is used, because a rollback never restores
    /// files from before an earlier commit.
    commits: SessionCommits,
    scope: SessionScope,
    /// The size of the guest's private memory when the guest was last idle.
    own: PrivateBytes,
}

impl EngineBackend {
    pub(super) fn new(
        sandbox: &Sandbox,
        image: &Arc<Image>,
        id: Arc<str>,
        roots: Roots,
        workspace: Option<SharedWorkspace>,
        scope: SessionScope,
    ) -> Self {
        Self {
            sandbox: sandbox.clone(),
            image: Arc::clone(image),
            id,
            roots,
            workspace,
            before: None,
            shareable: Pages::default(),
            commits: SessionCommits::default(),
            scope,
            own: PrivateBytes::default(),
        }
    }

    /// Loads the files that other sessions published. Called at the start of each turn. Has no effect outside a shared
    /// workspace.
    pub(super) fn take_files(&mut self, guest: Option<&mut Guest>) {
        let Some(workspace) = &self.workspace else { return };
        let current = workspace.current();
        if let Some(guest) = guest {
            *guest.wasi_mut().vfs_mut() = current;
            self.before = Some(guest.wasi().clone());
        } else if let Some(before) = &mut self.before {
            *before.vfs_mut() = current;
        }
    }

    /// Publishes the files for other sessions. Called at the end of each turn. Has no effect outside a shared
    /// workspace.
    pub(super) fn give_files(&mut self, guest: Option<&Guest>) {
        if let (Some(workspace), Some(guest)) = (&self.workspace, guest) {
            workspace.publish(guest.wasi().vfs().clone());
            self.before = Some(guest.wasi().clone());
        }
    }

    /// Returns the session's roots and its commit records. There are no commit records in a shared workspace, because
    /// other sessions commit its files too.
    pub(super) fn roots_and_commits(&mut self) -> (&Roots, Option<&mut SessionCommits>) {
        (&self.roots, self.workspace.is_none().then_some(&mut self.commits))
    }

    /// Records a commit. `whole` is `false` if only some of the changes were committed.
    pub(super) fn committed(&mut self, whole: bool, history: &History) {
        self.commits.record_commit(whole, history.oldest_commits());
    }

    /// Makes later rollbacks restore the current files. Has no effect outside a shared workspace.
    pub(super) fn keep_files(&mut self, guest: &Guest) {
        if let Some(before) = &mut self.before {
            *before = guest.wasi().clone();
        }
    }

    /// Restores a checkpoint's WASI state, including its uncommitted changes, on top of the current host directories.
    fn remounted(&self, state: &Checkpoint) -> Result<Wasi, ExecuteError> {
        let inner = &self.sandbox.0;
        let request = PreparedRequest::new(&self.sandbox, Request::new(""))?;
        let mut wasi = self.sandbox.wasi(&request, &inner.workspace.files()?)?;
        let limit = inner.runtime.memory_limit(&inner.policy.limits);
        wasi.set_linear_memory_bytes(limit.counted(state.memory_bytes));
        wasi.restore(&state.wasi.save()).map_err(|error| ExecuteError::Unrestorable {
            id: self.id.to_string(),
            reason: format!("its files: {error}"),
        })?;
        Ok(wasi)
    }
}

impl SessionBackend for EngineBackend {
    type Error = ExecuteError;
    type Machine = GuestMachine;

    fn setup(&self) -> SessionSetup<'_> {
        let inner = &self.sandbox.0;
        SessionSetup {
            id: &self.id,
            image: self.image.driver(),
            limits: &inner.policy.limits,
            policy: &inner.policy.session,
            image_bytes: self.image.memory_bytes,
        }
    }

    fn one_shot_ctx(&self) -> ExecutionCtx {
        self.scope.call_ctx(&self.sandbox.0.policy.limits)
    }

    fn instantiate(&self, state: &Checkpoint, wasi: Wasi) -> Result<Guest, ExecuteError> {
        if state.globals != self.image.pristine()?.globals() {
            return Err(self.error(SessionFailure::Mismatch("its WebAssembly globals differ from the image's")));
        }
        let inner = &self.sandbox.0;
        guest::instantiate_idle(NewGuest {
            inner: &inner.engine.0,
            runtime: &inner.runtime,
            wasi: Box::new(wasi),
            limits: &inner.policy.limits,
            // Dropping a call does not cancel the rollback that follows.
            ctx: self.scope.one_shot_ctx(&inner.policy.limits),
        })
    }

    fn memory_of(&mut self, guest: &mut Guest, earlier: Option<Pages>) -> Result<Memory, ExecuteError> {
        let earlier = earlier.unwrap_or_else(|| std::mem::take(&mut self.shareable));
        let pristine = self.image.pristine()?;
        let globals = pristine.globals().to_vec();
        for (name, value) in &globals {
            if guest.machine.global_value(name).as_ref().and_then(pages::bits) != Some(*value) {
                return Err(ExecuteError::Driver(format!("the guest changed its global `{name}`")));
            }
        }
        let numbers = guest.machine.private_pages().map(<[u32]>::to_vec);
        Ok(Memory { pages: own_pages(guest.machine.memory(), pristine, numbers, earlier), globals })
    }

    fn max_page_bytes(&mut self, _guest: &mut Guest) -> Result<u64, ExecuteError> {
        Ok(self.own.all)
    }

    fn own_bytes(&self, _guest: &Guest) -> u64 {
        self.shareable.bytes().saturating_add(self.own.in_image)
    }

    fn on_restored(&mut self, _guest: &mut Guest, pages: &Pages, _is_same: bool) {
        self.own = PrivateBytes::restored(pages, self.setup().image_bytes);
    }

    fn on_resumed(&mut self, pages: Pages) {
        self.shareable = pages;
    }

    fn on_idle(&mut self, guest: &mut Guest) {
        self.own = PrivateBytes::measure(&mut guest.machine, self.setup().image_bytes);
    }

    fn wasi_of(&self, saved: &SavedCheckpoint) -> Result<Wasi, ExecuteError> {
        let mut wasi = if self.commits.count() == saved.commits || self.workspace.is_some() {
            saved.state.wasi.clone()
        } else {
            // The saved file system contains the host directories from before the later commits.
            self.remounted(&saved.state)?
        };
        if let Some(mut before) = self.before.clone() {
            // The order matters: a deleted file that is open in both states must not be lost.
            wasi.rebind(before.vfs().clone());
            *before.vfs_mut() = wasi.vfs().clone();
            *wasi.vfs_mut() = before.unbind();
        }
        Ok(wasi)
    }

    fn detach(&self, state: &mut Checkpoint) -> Result<(), ExecuteError> {
        if self.workspace.is_some() {
            // Replaces the file system with a copy that excludes the files that other sessions have open.
            state.wasi = self.remounted(state)?;
        }
        Ok(())
    }

    fn known_commits(&self) -> u64 {
        self.commits.known()
    }

    fn on_rollback_to(&mut self, saved: &SavedCheckpoint) {
        self.commits.rolled_back_to(saved.commits);
    }

    fn on_rollback(&self, executions_lost: u64, why: &str) {
        events::rolled_back(&self.id, executions_lost, why);
    }

    fn on_checkpoint_skipped(&self, over: &TooMany) {
        events::checkpoint_skipped(&self.id, over);
    }

    fn on_closed(&mut self, guest: &mut Guest) -> Result<(), ExecuteError> {
        let Self { sandbox, roots, commits, .. } = self;
        let vfs: &mut Vfs = guest.wasi_mut().vfs_mut();
        match sandbox.0.workspace.commit(vfs, roots, true, Some(commits)).failed {
            Some((_, source)) => Err(source.into()),
            None => Ok(()),
        }
    }

    /// Publishes the files of a guest that will not be entered again. Has no effect outside a shared workspace.
    fn on_final_files(&mut self, guest: &Guest) {
        if let Some(workspace) = &self.workspace {
            workspace.publish(guest.wasi().clone().unbind());
            self.before = None;
        }
    }

    fn on_ended(&mut self) {
        if let (Some(workspace), Some(mut before)) = (&self.workspace, self.before.take()) {
            workspace.publish(before.unbind());
        }
        self.shareable = Pages::default();
    }

    fn is_temporary(error: &ExecuteError) -> bool {
        matches!(error, ExecuteError::Instantiate { .. })
    }

    fn reason(error: &ExecuteError) -> String {
        error.to_string()
    }
}

impl Drop for EngineBackend {
    /// Schedules the release of the session's open files. The next turn releases them, because another session may be
    /// executing now.
    fn drop(&mut self) {
        if let (Some(workspace), Some(before)) = (&self.workspace, self.before.take()) {
            workspace.retain_until_turn(before);
        }
    }
}

impl From<SessionError<'_>> for ExecuteError {
    fn from(SessionError { id, failure }: SessionError<'_>) -> Self {
        let id = id.to_owned();
        match failure {
            SessionFailure::Ended(reason) => Self::SessionEnded { id, reason: reason.to_owned() },
            SessionFailure::NoCheckpoint(wanted) => Self::NoCheckpoint { id, wanted },
            SessionFailure::Variable { name, reason } => Self::Variable { name: name.to_owned(), reason },
            SessionFailure::Mismatch(what) => Self::Unrestorable { id, reason: what.to_owned() },
            SessionFailure::NoMemory(bytes) => Self::Instantiate {
                reason: format!("the session needs {bytes} bytes of memory; raise `limits.memory_bytes`"),
            },
        }
    }
}
