//! The turns of a session: one caller at a time has exclusive access.

use std::{mem, sync::MutexGuard, time::Instant};

use glovebox_core::session::{SessionCall, SessionState};
use glovebox_vfs::{RootId, Vfs};

use crate::{
    ExecuteError, Execution,
    exec::{
        run::{CONTEXT, FinishedRun, PreparedRequest},
        suspend::StateBefore,
    },
    session::{backend::EngineBackend, fair_lock::FairLockGuard, handle::SessionParts, shared_workspace},
};

/// Exclusive access to a session during a turn.
pub(super) struct SessionTurn<'a> {
    pub(super) state: MutexGuard<'a, SessionState<EngineBackend>>,
    shared: &'a SessionParts,
    _turn: FairLockGuard<'a>,
    _workspace_turn: Option<FairLockGuard<'a>>,
}

impl Drop for SessionTurn<'_> {
    fn drop(&mut self) {
        let (backend, guest) = self.state.parts();
        backend.give_files(guest.as_deref());
        let mut status = self.shared.status();
        self.state.update(&mut status.info);
        status.idle_since = Some(Instant::now());
    }
}

impl<'a> SessionTurn<'a> {
    pub(super) fn new(
        shared: &'a SessionParts,
        state: MutexGuard<'a, SessionState<EngineBackend>>,
        turn: FairLockGuard<'a>,
        workspace_turn: Option<FairLockGuard<'a>>,
    ) -> Self {
        Self { state, shared, _turn: turn, _workspace_turn: workspace_turn }
    }
}

impl SessionTurn<'_> {
    /// Runs a script. Must be called on a guest stack.
    pub(super) fn run(&mut self, request: &mut PreparedRequest<'_>) -> Result<Execution, ExecuteError> {
        if let Some(json) = &request.parts.context {
            self.state.set_variable(CONTEXT, json)?;
        }
        if request.needs_state_before() {
            let (state, reservation) = self.state.save_counted()?;
            let base_ns = self.state.parts().1.map_or(0, |guest| guest.wasi().monotonic_base_ns());
            request.set_state_before(StateBefore { state, reservation }, base_ns);
        }
        let stdin = mem::take(&mut request.parts.stdin);
        let execute = |SessionCall { backend, guest, history }: SessionCall<'_, EngineBackend>| {
            guest.ctx_mut().renew(request.start());
            let (roots, own) = backend.roots_and_commits();
            let executed = request.execute(guest, roots, false, own);
            guest.ctx_mut().platform.forget_listeners();
            let executed = executed?;
            if let Some(whole) = executed.committed.all_committed() {
                backend.committed(whole, history);
                // Later rollbacks must keep the files that were committed to host directories.
                backend.keep_files(guest);
            }
            let after = executed.after;
            Ok((executed, after))
        };
        let (mut executed, rollback) =
            self.state.run(&stdin, execute, |executed: &FinishedRun| &executed.execution.outcome)?;
        executed.execution.rolled_back_to = rollback;
        executed.into_result()
    }

    /// Lets the host change the files, and commits the changes as the policy requires.
    pub(super) fn with_files<R, E: From<ExecuteError>>(
        &mut self,
        work: impl FnOnce(&mut Vfs, RootId) -> Result<R, E>,
    ) -> Result<R, E> {
        self.state.with_files(|SessionCall { backend, guest, history }| {
            let sandbox = &self.shared.sandbox;
            let (roots, own) = backend.roots_and_commits();
            let (result, committed) = shared_workspace::change(sandbox, roots, guest.wasi_mut().vfs_mut(), own, work);
            if let Some(whole) = committed {
                backend.committed(whole, history);
            }
            result
        })
    }
}
