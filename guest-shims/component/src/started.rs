//! An execution that the caller steps through. A guest cannot be suspended here, so the first `continue` runs all of
//! it.

use std::fmt;

use glovebox_core::contract::part;

use crate::{
    Executed, Files,
    bindings::{
        exports::glovebox::sandbox::sandbox::{OutputStream, Step, ToolAnswer},
        types::{self, SandboxError},
    },
};

/// Runs a started execution. The argument is `true` if it was cancelled before.
type Begin = Box<dyn FnOnce(bool) -> Result<Executed, SandboxError>>;

/// A started execution.
pub struct Started {
    stage: Stage,
    is_cancelled: bool,
    is_in_session: bool,
}

enum Stage {
    Waiting(Begin),
    Done(Box<Executed>),
    Failed(SandboxError),
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("is_cancelled", &self.is_cancelled).finish_non_exhaustive()
    }
}

impl Started {
    /// Creates an execution that has not run.
    #[must_use]
    pub fn new(begin: Begin) -> Self {
        Self { stage: Stage::Waiting(begin), is_cancelled: false, is_in_session: false }
    }

    /// Marks the execution as part of a session, which has its files.
    #[must_use]
    pub fn in_session(self) -> Self {
        Self { is_in_session: true, ..self }
    }

    /// Returns whether the execution has ended and its caller has the result.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.stage, Stage::Waiting(_))
    }

    /// Runs the execution on the first call, and returns its result.
    pub fn go_on(&mut self, answers: &[ToolAnswer]) -> Result<Step, SandboxError> {
        self.check(answers)?;
        if matches!(self.stage, Stage::Waiting(_)) {
            let lost = || SandboxError::Unavailable("the execution could not be carried out".into());
            let Stage::Waiting(begin) = std::mem::replace(&mut self.stage, Stage::Failed(lost())) else {
                return Err(lost());
            };
            self.stage = match begin(self.is_cancelled) {
                Ok(executed) => Stage::Done(Box::new(executed)),
                Err(error) => Stage::Failed(error),
            };
        }
        match &self.stage {
            Stage::Done(executed) => Ok(Step::Done(executed.to_wit())),
            Stage::Failed(error) => Err(error.clone()),
            Stage::Waiting(_) => Ok(Step::Running),
        }
    }

    /// Checks the caller's answers. The provider itself answers all calls, so an answer to an existing call is too
    /// late, and any other answer is an error.
    fn check(&self, answers: &[ToolAnswer]) -> Result<(), SandboxError> {
        let calls = match &self.stage {
            Stage::Done(executed) => executed.tool_calls.len() as u64,
            _ => 0,
        };
        for ToolAnswer { id, answer } in answers {
            if *id >= calls {
                return Err(SandboxError::InvalidArgument(format!("`answers`: no call has the id {id}")));
            }
            if let Ok(text) = answer
                && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
            {
                return Err(SandboxError::InvalidArgument(format!("`answers`: the answer to call {id} is not JSON")));
            }
        }
        Ok(())
    }

    /// Returns output of a finished execution, which is empty before.
    #[must_use]
    pub fn read_output(&self, stream: OutputStream, offset: u64, len: u64) -> Vec<u8> {
        let Stage::Done(executed) = &self.stage else { return Vec::new() };
        let captured = match stream {
            OutputStream::Stdout => &executed.output.stdout,
            OutputStream::Stderr => &executed.output.stderr,
        };
        part(&captured.bytes, offset, len).to_vec()
    }

    /// Returns the files after the execution has finished.
    pub fn files(&self) -> Result<Files, SandboxError> {
        match &self.stage {
            _ if self.is_in_session => {
                let text = "an execution in a session leaves its files there: `session.files` gives them";
                Err(SandboxError::Unsupported(text.into()))
            }
            Stage::Done(executed) => Ok(Files::new(executed.files.clone())),
            Stage::Failed(error) => Err(error.clone()),
            Stage::Waiting(_) => {
                let text = "`continue` has not said `done`: the execution may still change its files";
                Err(SandboxError::SessionBusy(text.into()))
            }
        }
    }

    /// Cancels the execution if it has not run yet.
    pub fn cancel(&mut self) {
        self.is_cancelled = true;
    }
}

/// Rejects tools that the caller would answer, because a guest cannot be suspended here.
pub(crate) fn no_tools(tools: &[types::Tool]) -> Result<(), SandboxError> {
    if tools.is_empty() {
        return Ok(());
    }
    let text = "`tools`: this provider cannot suspend a guest (`features.stepping`), so that no caller can answer one";
    Err(SandboxError::Unsupported(text.into()))
}
