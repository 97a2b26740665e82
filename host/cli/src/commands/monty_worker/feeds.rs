//! Executions of snippets: their events, and their end.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{CancelToken, Execution, Outcome, Resource, Started, Step, ToolAnswer, ToolError, ToolRequest};
use serde::Deserialize;
use serde_json::json;

use super::kinds::event;

/// Maximum time for an execution to end after its last event.
const END: Duration = Duration::from_secs(10);

/// The arguments of a call to `monty_turn`: an event, or kind 0 to fetch the snippet.
#[derive(Deserialize)]
struct Turn {
    kind: u64,
    body: String,
}

/// A snippet that waits for its client.
pub(super) struct WaitingFeed {
    pub(super) started: Started,
    pub(super) cancel: CancelToken,
    pub(super) call: u64,
}

/// Reads the event in an untrusted call. The event's body is a message that only the client reads. Returns `None` if
/// the guest may not send such an event.
pub(super) fn event_of(call: &ToolRequest) -> Option<(u64, Vec<u8>)> {
    let turn: Turn = serde_json::from_str(&call.arguments).ok()?;
    let sends = matches!(turn.kind, event::FUNCTION_CALL..=event::ERROR);
    let body = BASE64_STANDARD.decode(turn.body).ok()?;
    sends.then_some((turn.kind, body))
}

pub(super) fn refusal(call: &ToolRequest) -> ToolAnswer {
    ToolAnswer::error(call.id, ToolError::new("this tool is reserved for the sandbox's own code; do not call it"))
}

/// Answers the last event of a snippet, and waits for the end of its execution.
pub(super) fn finish(feed: &WaitingFeed, call: u64) -> anyhow::Result<Arc<Execution>> {
    match feed.started.advance(vec![ToolAnswer::value(call, &json!(""))], Some(END))? {
        Step::Done(execution) => Ok(execution),
        Step::Running | Step::NeedsTools(_) => stop(feed),
    }
}

/// Cancels the execution of a snippet. Its further calls are refused.
pub(super) fn stop(feed: &WaitingFeed) -> anyhow::Result<Arc<Execution>> {
    feed.cancel.cancel();
    let mut answers = Vec::new();
    loop {
        answers = match feed.started.advance(answers, None)? {
            Step::Done(execution) => return Ok(execution),
            Step::NeedsTools(calls) => calls.iter().map(refusal).collect(),
            Step::Running => Vec::new(),
        };
    }
}

/// Returns the exception for a snippet that ended without an event.
pub(super) fn failure(execution: &Execution) -> (&'static str, String) {
    match &execution.outcome {
        Outcome::Exhausted { resource: Resource::Time, .. } => ("TimeoutError", "time limit exceeded".to_owned()),
        Outcome::Exhausted { resource: Resource::Memory, limit, .. } => {
            ("MemoryError", format!("memory limit exceeded: {limit} bytes"))
        }
        outcome => ("RuntimeError", format!("the snippet terminated its interpreter: {}", outcome.describe())),
    }
}
