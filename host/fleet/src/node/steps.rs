//! The steps of an execution in the engine's journal.
//!
//! A step is everything up to and including the next tool call, or up to the end. A node that takes over an execution
//! gets the recorded steps. It replays the script with the recorded answers, without repeating those calls, and runs
//! the next step. If the last step was recorded, the node runs nothing. The record distinguishes a call from the end,
//! so the sequence of steps never differs from the journal, wherever an execution was interrupted or cancelled.

use std::pin::Pin;

use glovebox::{ToolAnswer, ToolError, ToolErrorKind};
use serde::{Deserialize, Serialize};

use super::state::State;
use crate::Executed;

/// A boxed future.
pub(super) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The signal that cancels an execution.
pub(super) const CANCEL: &str = "cancel";

/// A step of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Step {
    /// The script called a tool.
    Tool(Called),
    /// The script ended.
    Done(Box<Done>),
}

/// A tool call and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Called {
    /// The call's id within the execution.
    pub(super) call: u64,
    /// The name of the tool.
    pub(super) tool: String,
    pub(super) answer: Result<String, Failure>,
}

/// The error that a failed tool raises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The class name.
    class: String,
    message: String,
}

/// The end of an execution.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// The state of the session after the execution.
    pub(super) state: State,
    /// The answer to the caller.
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
    /// The answer for the script.
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
