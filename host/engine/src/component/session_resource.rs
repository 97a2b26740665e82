//! A session that the host holds for a component.

use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{Session, exec::session_scope::SessionScope};

use super::quotas::Share;

/// A session of the component. Clones refer to the same session; started executions hold clones.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Clone)]
pub struct SessionResource {
    session: Session,
    /// The session's cancel token and budget.
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
    /// The execution uses the session.
    is_running: bool,
}

impl Steps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Marks the session as busy until the component has seen the end of the execution or dropped it.
#[derive(Debug)]
pub(super) struct Stepping(Arc<Steps>);

impl Drop for Stepping {
    fn drop(&mut self) {
        self.0.state().is_stepped = false;
    }
}

/// Marks the session as in use. Other calls wait until it is dropped.
#[derive(Debug)]
pub(super) struct Running(Arc<Steps>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state().is_running = false;
        self.0.left.notify_all();
    }
}

/// The error that a started execution in the session has not ended.
#[derive(Debug)]
pub(super) struct NotIdle(pub(super) String);

impl SessionResource {
    pub(super) fn new(session: Session, keeper: SessionScope, share: Share) -> Self {
        Self { session, keeper, steps: Arc::default(), _share: Arc::new(share) }
    }

    /// Returns the session, for calls that are allowed at any time.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the session's cancel token and budget.
    pub(super) fn keeper(&self) -> &SessionScope {
        &self.keeper
    }

    /// Waits until nothing runs in the session, and returns it. Fails while the component steps through an execution,
    /// because only the component can answer its calls.
    pub(super) fn idle(&self) -> Result<&Session, NotIdle> {
        self.idle_state().map(|_| &self.session)
    }

    /// Marks the start of an execution.
    pub(super) fn step(&self) -> Result<(Stepping, Running), NotIdle> {
        let mut state = self.idle_state()?;
        *state = State { is_stepped: true, is_running: true };
        Ok((Stepping(Arc::clone(&self.steps)), Running(Arc::clone(&self.steps))))
    }

    /// Waits for a dropped execution that is being unwound. Fails while the component steps through one.
    fn idle_state(&self) -> Result<MutexGuard<'_, State>, NotIdle> {
        let mut state = self.steps.state();
        loop {
            if state.is_stepped {
                let id = self.session.id();
                let text = format!(
                    "a started execution in session `{id}` has not ended; continue it until `done`, or drop it"
                );
                return Err(NotIdle(text));
            }
            if !state.is_running {
                return Ok(state);
            }
            state = self.steps.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
