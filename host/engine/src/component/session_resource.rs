//! A session as the host keeps it for a component.

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
    /// What it is stopped with, and what it takes its fuel from.
    keeper: SessionScope,
    steps: Arc<Steps>,
    _share: Arc<Share>,
}

impl fmt::Debug for SessionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionResource").field("session", &self.session).finish_non_exhaustive()
    }
}

/// What the started execution of a session is about.
#[derive(Debug, Default)]
struct Steps {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The component has a started execution and was not told of its end.
    is_stepped: bool,
    /// It uses the session.
    is_running: bool,
}

impl Steps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session is busy while this lives: until the component was told of the end, or wants no more of it.
#[derive(Debug)]
pub(super) struct Stepping(Arc<Steps>);

impl Drop for Stepping {
    fn drop(&mut self) {
        self.0.state().is_stepped = false;
    }
}

/// The session is used while this lives. Others wait for that.
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

    /// The session, for what can be asked at any time.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// What it is stopped with, and what it takes its fuel from.
    pub(super) fn keeper(&self) -> &SessionScope {
        &self.keeper
    }

    /// The session, when nothing runs in it. While the component steps through an execution that is an error: it would wait
    /// for what only itself can answer.
    pub(super) fn idle(&self) -> Result<&Session, NotIdle> {
        self.rest().map(|_| &self.session)
    }

    /// Begins a started execution.
    pub(super) fn step(&self) -> Result<(Stepping, Running), NotIdle> {
        let mut state = self.rest()?;
        *state = State { is_stepped: true, is_running: true };
        Ok((Stepping(Arc::clone(&self.steps)), Running(Arc::clone(&self.steps))))
    }

    /// Waits for an execution that the component dropped, which is being unwound.
    fn rest(&self) -> Result<MutexGuard<'_, State>, NotIdle> {
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
