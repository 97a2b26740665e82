//! An execution as a row of steps in the engine's journal.
//!
//! A step is everything up to the next call of a tool, with that call, or up to the end. Whoever takes an execution over is given the steps that were
//! recorded: it repeats the script up to there with the answers that the tools gave, calls none of them again, and makes the next step. Where the last
//! step was recorded nothing is executed at all. Whether a step is a call or the end stands in what is recorded, so that the row never
//! differs from the journal, wherever an execution was cut or cancelled.

use std::pin::Pin;

use glovebox::{ToolAnswer, ToolError, ToolErrorKind};
use serde::{Deserialize, Serialize};

use super::state::State;
use crate::Executed;

/// A future as a value.
pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The signal that ends an execution.
pub(super) const CANCEL: &str = "cancel";

/// A step of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// It called a tool.
    Tool(Called),
    /// It ended.
    Done(Box<Done>),
}

/// A call of a tool, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Called {
    /// Which call of the execution it is.
    pub(super) call: u64,
    /// The tool.
    pub(super) tool: String,
    pub(super) answer: Result<String, Failure>,
}

/// What a script is told of a tool that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The name of the class.
    class: String,
    message: String,
}

/// The end of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// The session now.
    pub(super) state: State,
    /// What is answered.
    pub(super) executed: Executed,
}

const KINDS: [ToolErrorKind; 5] = [
    ToolErrorKind::Failed,
    ToolErrorKind::Limit,
    ToolErrorKind::Timeout,
    ToolErrorKind::Unknown,
    ToolErrorKind::InvalidArguments,
];

impl From<&ToolError> for Failure {
    fn from(error: &ToolError) -> Self {
        Self { class: error.kind().name().to_owned(), message: error.message().to_owned() }
    }
}

impl From<&Failure> for ToolError {
    fn from(failure: &Failure) -> Self {
        let kind = KINDS.into_iter().find(|kind| kind.name() == failure.class).unwrap_or(ToolErrorKind::Failed);
        Self::of(kind, &failure.message)
    }
}

impl Called {
    /// The answer as the script is given it.
    pub(super) fn answer(&self) -> ToolAnswer {
        ToolAnswer { id: self.call, answer: self.answer.clone().map_err(|failure| ToolError::from(&failure)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_failed_with_is_the_same_when_it_is_read_again() {
        for kind in KINDS {
            let error = ToolError::of(kind, "too much");
            let called = Called { call: 3, tool: "t".into(), answer: Err(Failure::from(&error)) };
            let text = serde_json::to_string(&Step::Tool(called)).unwrap();
            let Step::Tool(read) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
            assert_eq!(read.answer().answer, Err(error));
        }
    }
}
