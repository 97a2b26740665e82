//! Forks of a suspended execution: executions that wait for the same calls and receive different answers.

use super::Suspended;
use crate::{AdvanceError, ExecuteError, ResumeError, ResumeOptions, Sandbox, Session, Started};

/// An execution that [`Suspended::fork`] has resumed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fork {
    /// The resumed execution. It waits for the calls of the suspended execution.
    pub started: Started,
    /// The session in which the execution runs. No other fork uses it. `None` outside sessions.
    pub session: Option<Session>,
}

/// The reason why a suspended execution could not be forked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// A session could not be restored.
    #[error(transparent)]
    Session(#[from] ResumeError),
    /// An execution could not be started.
    #[error(transparent)]
    Start(#[from] ExecuteError),
    /// An execution could not be resumed, for example because the script behaves differently.
    #[error(transparent)]
    Resume(#[from] AdvanceError),
}

impl Suspended {
    /// Resumes the execution `count` times in `sandbox`. Each fork waits for the same calls, runs in its own
    /// interpreter with its own files, and continues with its own answers. In a session, each fork has its own session,
    /// which [`Sandbox::resume_suspended_session`] restores. All forks write their changes to the same host directories
    /// when they end.
    ///
    /// The forks repeat the script at the same time. Each takes about as much CPU time as the script has used so far.
    /// The memory of the image is shared until a script changes it. While forks wait, their limits apply as in
    /// [`Started`]. To set options such as a listener, or to have fewer interpreters in memory, start
    /// [`request`](Self::request) once for each answer instead.
    ///
    /// Random numbers of the interpreter's generators can be the same in all forks. In a session, they are always the
    /// same.
    ///
    /// ```no_run
    /// use glovebox::{Engine, EngineConfig, Request, Sandbox, Step, Tool, ToolAnswer};
    /// use serde_json::json;
    ///
    /// let engine = Engine::new(EngineConfig::default())?;
    /// let sandbox = Sandbox::builder(&engine).tool(Tool::new("choose", "Chooses a color.").stepped()).build()?;
    ///
    /// let started = sandbox.start(Request::new("print(tools.choose())").suspendable(true))?;
    /// started.advance(Vec::new(), None)?;
    /// let suspended = started.suspend()?;
    /// let call = &suspended.tool_requests()[0];
    /// for (fork, color) in suspended.fork(&sandbox, 3)?.iter().zip(["red", "green", "blue"]) {
    ///     let answer = ToolAnswer::value(call.id, &json!(color));
    ///     let Step::Done(execution) = fork.started.advance(vec![answer], None)? else { panic!() };
    ///     assert_eq!(execution.stdout.text(), format!("{color}\n"));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails like [`Sandbox::resume_suspended_session`], [`Sandbox::start`] and [`Started::advance`]. All forks then
    /// end. The suspended execution can be forked or resumed again.
    pub fn fork(&self, sandbox: &Sandbox, count: usize) -> Result<Vec<Fork>, ForkError> {
        let forks: Vec<Fork> = (0..count).map(|_| self.start_fork(sandbox)).collect::<Result<_, ForkError>>()?;
        for fork in &forks {
            fork.started.advance(Vec::new(), None)?;
        }
        Ok(forks)
    }

    fn start_fork(&self, sandbox: &Sandbox) -> Result<Fork, ForkError> {
        if !self.is_in_session() {
            return Ok(Fork { started: sandbox.start(self.request())?, session: None });
        }
        let session = sandbox.resume_suspended_session(self, ResumeOptions::default())?;
        Ok(Fork { started: session.start(self.request())?, session: Some(session) })
    }
}
