//! A session that the host holds for a component.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{Session, session_scope::SessionScope};

use super::quotas::Share;

/// A session of the component's. Its clones are the same one: started executions hold them.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Clone)]
pub struct SessionResource {
    session: Session,
    /// Its cancel token and its budget.
    keeper: SessionScope,
    steps: Arc<Steps>,
    _share: Arc<Share>,
}

impl fmt::Debug for SessionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionResource").field("session", &self.session).finish_non_exhaustive()
    }
}

/// The state of a session's started execution.
#[derive(Debug, Default)]
struct Steps {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The component has a started execution and has not seen its end.
    is_stepped: bool,
    /// It uses the session.
    is_running: bool,
}

impl Steps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session is busy while this lives: until the component has seen the end or dropped the execution.
#[derive(Debug)]
pub(super) struct Stepping(Arc<Steps>);

impl Drop for Stepping {
    fn drop(&mut self) {
        self.0.state().is_stepped = false;
    }
}

/// The session is in use while this lives. Others wait for it.
#[derive(Debug)]
pub(super) struct Running(Arc<Steps>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state().is_running = false;
        self.0.left.notify_all();
    }
}

/// An execution that was started in the session has not come to its end.
#[derive(Debug)]
pub(super) struct NotIdle(pub(super) String);

impl SessionResource {
    pub(super) fn new(session: Session, keeper: SessionScope, share: Share) -> Self {
        Self { session, keeper, steps: Arc::default(), _share: Arc::new(share) }
    }

    /// The session, for calls that are allowed at any time.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Its cancel token and its budget.
    pub(super) fn keeper(&self) -> &SessionScope {
        &self.keeper
    }

    /// The session, once nothing runs in it. An error while the component steps through an execution: it would wait
    /// for answers that only it can give.
    pub(super) fn idle(&self) -> Result<&Session, NotIdle> {
        self.idle_state().map(|_| &self.session)
    }

    /// Begins a started execution.
    pub(super) fn step(&self) -> Result<(Stepping, Running), NotIdle> {
        let mut state = self.idle_state()?;
        *state = State { is_stepped: true, is_running: true };
        Ok((Stepping(Arc::clone(&self.steps)), Running(Arc::clone(&self.steps))))
    }

    /// Waits for an execution that the component dropped, which is being unwound.
    fn idle_state(&self) -> Result<MutexGuard<'_, State>, NotIdle> {
        let mut state = self.steps.state();
        loop {
            if state.is_stepped {
                let id = self.session.id();
                let text = format!("an execution that was started in session `{id}` has not come to its end");
                return Err(NotIdle(text));
            }
            if !state.is_running {
                return Ok(state);
            }
            state = self.steps.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
