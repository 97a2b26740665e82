//! The public session handle.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use glovebox_core::session::{Checkpoint, CheckpointId, CheckpointInfo, RandomNumbers, SessionState};
use glovebox_vfs::{RootId, Vfs};

use crate::{
    CancelToken, ExecuteError, Execution, Files, GuestValue, IfBusy, JsonText, Outcome, Request, Sandbox, SessionInfo,
    Started,
    exec::{
        platform::SessionScope,
        run::{CONTEXT, PreparedRequest},
    },
    files::workspace::Roots,
    guest,
    load::typescript::translate,
    session::{
        SessionOptions, SharedWorkspace,
        backend::EngineBackend,
        check_id,
        fair_lock::{FairLock, TurnFailure},
        shared_workspace::{Status, chosen_id},
        turn::SessionTurn,
    },
};

/// An interpreter that persists between executions, with its variables, functions, classes, imports and files. An idle
/// session uses memory, but no thread and no stack.
///
/// A script that raises keeps its changes, as in a notebook. If a script is unwound (stopped at a limit, cancelled,
/// trapped), the session is rolled back to its last checkpoint, unless the policy's `session.on_unwind` is `end`. The
/// rollback creates a new instance, because an unwound interpreter is never entered again.
/// [`Execution::rolled_back_to`] contains the checkpoint. Variables and files are restored, but output and changes to
/// host directories remain. If no instance is available, the rollback is retried at the next call, and calls fail with
/// [`ExecuteError::Instantiate`] until the rollback succeeds. `os._exit` ends the session. The policy's
/// [`session`](crate::SessionPolicy) table determines when checkpoints are taken.
///
/// Clones are handles to the same session and can be used from any thread. Concurrent calls run one at a time, in
/// arrival order. Dropping the last handle frees the session's resources immediately, without running exit handlers.
/// [`close`](Self::close) runs the handlers.
///
/// ```no_run
/// # use glovebox::{Engine, EngineConfig, Sandbox};
/// # let sandbox = Sandbox::builder(&Engine::new(EngineConfig::default())?).build()?;
/// let session = sandbox.session()?;
/// session.execute("x = 20")?;
/// let other = session.fork()?;
/// other.execute("x = 0")?;
/// assert_eq!(session.execute("x + 1")?.value.unwrap().repr, "21");
/// session.undo()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Session(Arc<SessionParts>);

/// The parts of a session that all handles share.
pub(super) struct SessionParts {
    pub(super) sandbox: Sandbox,
    id: Arc<str>,
    line: FairLock,
    workspace: Option<SharedWorkspace>,
    state: Mutex<SessionState<EngineBackend>>,
    status: Mutex<Status>,
}

impl SessionParts {
    pub(super) fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("id", &self.0.id).field("ended", &self.ended()).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn open(sandbox: &Sandbox, options: SessionOptions) -> Result<Self, ExecuteError> {
        let inner = &sandbox.0;
        let image = inner.runtime.prepared()?;
        let id = chosen_id(options.id)?;
        let (workspace, scope) = (options.workspace, options.scope);
        if let Some(workspace) = &workspace {
            workspace.check(sandbox)?;
        }
        let place = inner.engine.0.sessions.enter(&inner.policy.limits, 0)?;
        let request = PreparedRequest::new(sandbox, Request::new(""))?;
        let (guest, roots) = inner.engine.0.on_stack(|| {
            let files = match &workspace {
                Some(workspace) => workspace.guest_files(),
                None => inner.workspace.files()?,
            };
            sandbox.guest(&request, guest::new_guest, files, scope.one_shot_ctx(&inner.policy.limits))
        })??;
        let backend = EngineBackend::new(sandbox, image, Arc::clone(&id), roots, workspace.clone(), scope);
        let state = SessionState::new(backend, guest, inner.policy.entropy.key(), place);
        let session = Self::with_state(sandbox, id, workspace, state);
        if let Some(context) = &options.context {
            session.set_variable_text(CONTEXT, context)?;
        }
        Ok(session)
    }

    /// Creates a session from a checkpoint.
    pub(crate) fn from_checkpoint(
        sandbox: &Sandbox,
        id: Option<String>,
        saved: Checkpoint,
        numbers: RandomNumbers,
        scope: SessionScope,
    ) -> Result<Self, ExecuteError> {
        let inner = &sandbox.0;
        let id = chosen_id(id)?;
        let place = inner.engine.0.sessions.enter(&inner.policy.limits, saved.held_bytes())?;
        let backend = EngineBackend::new(
            sandbox,
            inner.runtime.prepared()?,
            Arc::clone(&id),
            Roots::of(&saved.wasi),
            None,
            scope,
        );
        let state = inner.engine.0.on_stack(|| SessionState::resume(backend, saved, numbers, place))??;
        Ok(Self::with_state(sandbox, id, None, state))
    }

    fn with_state(
        sandbox: &Sandbox,
        id: Arc<str>,
        workspace: Option<SharedWorkspace>,
        mut state: SessionState<EngineBackend>,
    ) -> Self {
        let mut info = SessionInfo::new(&id, sandbox.language(), sandbox.runtime_name());
        state.update(&mut info);
        let (state, status) = (Mutex::new(state), Mutex::new(Status::new(info)));
        Self(Arc::new(SessionParts {
            sandbox: sandbox.clone(),
            id,
            line: FairLock::default(),
            workspace,
            state,
            status,
        }))
    }

    /// Returns the session's ID.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns the sandbox that opened the session.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.0.sandbox
    }

    /// Runs `source` in the session's interpreter.
    ///
    /// # Errors
    /// Fails like [`run`](Self::run).
    pub fn execute(&self, source: &str) -> Result<Execution, ExecuteError> {
        self.run(Request::new(source))
    }

    /// Runs a request in the session's interpreter. The script reads the standard input of this request. Unread input
    /// of earlier requests is discarded.
    ///
    /// If the session is busy, the request waits in arrival order for at most `limits.timeout_ms`. The wait is not
    /// charged to the script's time. With [`Request::if_busy`], the request can fail instead of waiting. If the request
    /// is cancelled while it waits, the returned execution was cancelled before it began.
    ///
    /// # Errors
    /// [`ExecuteError::SessionBusy`] or [`ExecuteError::WorkspaceBusy`] if the session or its shared workspace stays
    /// busy. Nothing has run in that case. Other errors mean that Glovebox could not carry out the execution.
    pub fn run(&self, request: Request<'_>) -> Result<Execution, ExecuteError> {
        self.run_when_held(request, || ())
    }

    /// Starts [`run`](Self::run) on a new thread, for the caller to step through. See [`Started`]. Waits for the
    /// session's turn like `run`. Returns once the execution has the turn, so later calls to the session run after it.
    ///
    /// # Errors
    /// Fails like [`run`](Self::run), for errors that occur before the execution has the turn. [`Started::advance`]
    /// returns later errors.
    pub fn start(&self, request: Request<'_>) -> Result<Started, ExecuteError> {
        self.start_with(request, |_| ())
    }

    /// Like `start`. Calls `finish` with the execution before the caller receives it. Drops `finish` if the execution
    /// fails.
    #[doc(hidden)]
    pub fn start_with(
        &self,
        request: Request<'_>,
        finish: impl FnOnce(&mut Execution) + Send + 'static,
    ) -> Result<Started, ExecuteError> {
        PreparedRequest::check(&self.0.sandbox, &request)?;
        if let Some(reason) = self.ended() {
            return Err(ExecuteError::SessionEnded { id: self.0.id.to_string(), reason });
        }
        let (session, sandbox) = (self.clone(), &self.0.sandbox);
        Started::begin(sandbox, request, finish, move |request, begun| session.run_when_held(request, begun))
    }

    /// Runs a request. Calls `has_turn` between acquiring the turn and entering the guest.
    fn run_when_held(&self, request: Request<'_>, has_turn: impl FnOnce()) -> Result<Execution, ExecuteError> {
        let shared = &*self.0;
        let options = &request.options;
        if let Some(suspended) = &options.replay {
            suspended.check_place(true)?;
        }
        if options.is_recorded || options.repeated.is_some() {
            return Err(ExecuteError::RecordedInSession);
        }
        let if_busy = options.if_busy;
        let request = PreparedRequest::new(&shared.sandbox, request.session_id(&shared.id))?;
        match self.hold(if_busy, &request.cancel, request.cancel_at) {
            Ok(mut held) => {
                has_turn();
                let mut request = translate(request)?;
                shared.sandbox.0.engine.0.on_stack(|| held.run(&mut request))?
            }
            Err(TurnFailure::Cancelled) => Ok(request.not_begun(Outcome::Cancelled)),
            Err(TurnFailure::Busy(error)) => Err(error),
        }
    }

    /// Returns a global variable, formatted by the language and as JSON. Returns `None` if the variable does not exist.
    /// Guest code reads the variable, within the limits of one execution. If this code is unwound, the session is
    /// rolled back.
    ///
    /// # Errors
    /// [`ExecuteError::Variable`] if the guest cannot read the variable. Other errors mean that the session has ended
    /// or stays busy, or that the guest could not be entered.
    pub fn get_variable(&self, name: &str) -> Result<Option<GuestValue>, ExecuteError> {
        let mut held = self.turn()?;
        self.0.sandbox.0.engine.0.on_stack(|| held.state.get_variable(name))?
    }

    /// Sets or creates a global variable. The value is at most `limits.stdin_bytes` long as JSON text.
    ///
    /// # Errors
    /// [`ExecuteError::ValueTooLarge`] if the value is too large. [`ExecuteError::Variable`] if the guest cannot set
    /// the variable. Other errors mean that the session has ended or stays busy, or that the guest could not be
    /// entered.
    pub fn set_variable(&self, name: &str, value: &serde_json::Value) -> Result<(), ExecuteError> {
        self.set_variable_json(name, &value.to_string())
    }

    /// Like [`set_variable`](Self::set_variable), but from JSON text.
    ///
    /// # Errors
    /// Fails like [`set_variable`](Self::set_variable).
    pub fn set_variable_text(&self, name: &str, json: &JsonText) -> Result<(), ExecuteError> {
        self.set_variable_json(name, json.as_str())
    }

    /// Like [`set_variable`](Self::set_variable), but from text that was already validated as JSON.
    #[doc(hidden)]
    pub fn set_variable_json(&self, name: &str, json: &str) -> Result<(), ExecuteError> {
        let (bytes, max) = (json.len() as u64, self.0.sandbox.0.policy.limits.stdin_bytes);
        if bytes > max {
            return Err(ExecuteError::ValueTooLarge { name: name.to_owned(), bytes, max });
        }
        let mut held = self.turn()?;
        self.0.sandbox.0.engine.0.on_stack(|| held.state.set_variable(name, json))?
    }

    /// Takes a checkpoint for [`undo_to`](Self::undo_to). The policy limits the number of retained checkpoints.
    ///
    /// # Errors
    /// Fails if the session stays busy or has ended, or if a session limit is exceeded.
    pub fn checkpoint(&self) -> Result<CheckpointId, ExecuteError> {
        self.turn()?.state.checkpoint()
    }

    /// Returns the checkpoints that the session can be rolled back to, oldest first.
    ///
    /// # Errors
    /// Fails if the session stays busy.
    pub fn checkpoints(&self) -> Result<Vec<CheckpointInfo>, ExecuteError> {
        Ok(self.turn()?.state.checkpoints())
    }

    /// Rolls the session back to the last checkpoint that differs from its current state. If checkpoints are taken
    /// before every execution, the rollback undoes the variable and file changes of the last execution.
    ///
    /// Changes that were committed to host directories remain. Changes that had not been committed at the checkpoint
    /// are written by the next commit, which overwrites the session's own later changes. That commit fails with a
    /// conflict if a later change replaced a file with a directory, or a directory with a file.
    ///
    /// # Errors
    /// [`ExecuteError::NoCheckpoint`] if there is no such checkpoint. Other errors mean that the session has ended or
    /// stays busy, or that no instance could be created. On failure, the session is unchanged.
    pub fn undo(&self) -> Result<CheckpointId, ExecuteError> {
        let mut held = self.turn()?;
        self.0.sandbox.0.engine.0.on_stack(|| held.state.undo(None))?
    }

    /// Rolls the session back to a checkpoint. Later checkpoints are discarded.
    ///
    /// # Errors
    /// [`ExecuteError::NoCheckpoint`] if there is no such checkpoint. Other errors mean that the session has ended or
    /// stays busy, or that no instance could be created. On failure, the session is unchanged.
    pub fn undo_to(&self, id: CheckpointId) -> Result<(), ExecuteError> {
        let mut held = self.turn()?;
        self.0.sandbox.0.engine.0.on_stack(|| held.state.undo(Some(id)))?.map(drop)
    }

    /// Creates a copy of this session with the same variables, functions and files. Later changes in one session are
    /// not visible in the other. The random numbers in both sessions differ, even under seeded entropy, except from
    /// generators that a script has seeded. The copy has no checkpoints yet.
    ///
    /// # Errors
    /// Fails if the session stays busy or has ended, if a session limit is exceeded, or if no instance could be
    /// created.
    pub fn fork(&self) -> Result<Self, ExecuteError> {
        self.fork_with(SessionOptions::default())
    }

    /// Like [`fork`](Self::fork), but with options such as an ID or another `context`. The fork receives a copy of the
    /// files.
    ///
    /// # Errors
    /// Fails like [`fork`](Self::fork). Also fails if an option is invalid, and with [`ExecuteError::ForkWorkspace`] if
    /// the options set a shared workspace.
    pub fn fork_with(&self, options: SessionOptions) -> Result<Self, ExecuteError> {
        if options.workspace.is_some() {
            return Err(ExecuteError::ForkWorkspace);
        }
        if let Some(id) = &options.id {
            check_id(id)?;
        }
        let saved = self.turn()?.state.save_for_fork()?;
        let fork = Self::from_checkpoint(&self.0.sandbox, options.id, saved, RandomNumbers::Fork, options.scope)?;
        if let Some(context) = &options.context {
            fork.set_variable_text(CONTEXT, context)?;
        }
        Ok(fork)
    }

    /// Returns the session's current state as a checkpoint.
    pub(crate) fn save(&self) -> Result<Checkpoint, ExecuteError> {
        self.turn()?.state.save()
    }

    /// Returns a snapshot of the files, taken between two executions.
    pub(crate) fn snapshot_files(&self) -> Result<Files, ExecuteError> {
        Ok(self.turn()?.state.files()?.into())
    }

    /// Lets the host change the files between executions. `work` receives the root of `/app`. Successful changes are
    /// committed to host directories like those of a successful execution.
    pub(crate) fn with_files<R, E: From<ExecuteError>>(
        &self,
        work: impl FnOnce(&mut Vfs, RootId) -> Result<R, E>,
    ) -> Result<R, E> {
        self.turn()?.with_files(work)
    }

    /// Returns a description of the session and its usage. Does not wait for a running execution, whose effects are not
    /// included.
    #[must_use]
    pub fn info(&self) -> SessionInfo {
        self.0.status().info.clone()
    }

    /// Returns the time since the session was last busy, or `None` while it is busy.
    #[must_use]
    pub fn idle_for(&self) -> Option<Duration> {
        self.0.status().idle_for()
    }

    /// Returns the reason why the session ended, or `None` if it has not ended.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        self.0.status().info.ended.clone()
    }

    /// Returns the number of threads that wait for the session. Used only by tests.
    #[doc(hidden)]
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.0.line.waiting_count()
    }

    /// Ends the session for all handles, and frees its resources. First runs the interpreter's exit handlers within the
    /// limits of one execution, and commits their changes to host directories like those of a successful execution.
    ///
    /// # Errors
    /// Fails if the session stays busy, if its exit handlers could not be run, or if the files could not be committed.
    /// In the last two cases, the session has still ended. Closing an ended session succeeds.
    pub fn close(&self) -> Result<(), ExecuteError> {
        let mut held = self.turn()?;
        self.0.sandbox.0.engine.0.on_stack(|| held.state.close())?
    }

    fn turn(&self) -> Result<SessionTurn<'_>, ExecuteError> {
        self.hold(IfBusy::Wait, &CancelToken::new(), None).map_err(|left| match left {
            TurnFailure::Busy(error) => error,
            TurnFailure::Cancelled => self.busy(),
        })
    }

    /// Waits for the turn. `cancel_at` is the time at which [`Request::cancel_after`] cancels the request.
    fn hold(
        &self,
        if_busy: IfBusy,
        cancel: &CancelToken,
        cancel_at: Option<Instant>,
    ) -> Result<SessionTurn<'_>, TurnFailure> {
        let shared = &*self.0;
        let end = match if_busy {
            IfBusy::Refuse => None,
            IfBusy::Wait => {
                let end = Instant::now() + shared.sandbox.0.policy.limits.timeout();
                Some(cancel_at.map_or(end, |at| at.min(end)))
            }
        };
        let failed = |failure| match cancel_at {
            Some(at) if if_busy == IfBusy::Wait && Instant::now() >= at => TurnFailure::Cancelled,
            _ => failure,
        };
        let turn = shared.line.enter(end, cancel, || self.busy()).map_err(failed)?;
        // Always lock in this order: a thread that waits for the workspace holds only its own session.
        let workspace = shared.workspace.as_ref();
        let workspace_turn = workspace.map(|workspace| workspace.enter(end, cancel)).transpose().map_err(failed)?;
        shared.status().idle_since = None;
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (backend, guest) = state.parts();
        backend.take_files(guest);
        Ok(SessionTurn::new(shared, state, turn, workspace_turn))
    }

    fn busy(&self) -> ExecuteError {
        ExecuteError::SessionBusy { id: self.0.id.to_string() }
    }
}
