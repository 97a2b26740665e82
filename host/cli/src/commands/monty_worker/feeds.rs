//! Executions of snippets: their output, their events, and their end.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{
    CancelToken, Execution, Outcome, Resource, Started, Step, Stream, ToolAnswer, ToolError, ToolRequest,
    internal::whole_characters,
};
use serde::Deserialize;
use serde_json::json;

use super::frame::{self, Message, event};

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

/// A printer that sends output as text. Clones share the bytes of incomplete characters, so that a dump does not split
/// a character.
#[derive(Clone, Debug, Default)]
pub(super) struct Printer(Arc<Mutex<PartialCharacters>>);

/// Bytes that do not form a complete character yet.
#[derive(Debug, Default)]
struct PartialCharacters {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Printer {
    /// Returns the listener that sends output. Errors are ignored here: if the client has exited, sending the next
    /// event fails too.
    pub(super) fn listener(self) -> impl FnMut(Stream, &[u8]) + Send + 'static {
        move |stream, bytes| {
            let mut incomplete = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let buffer = if matches!(stream, Stream::Stdout) { &mut incomplete.stdout } else { &mut incomplete.stderr };
            buffer.extend_from_slice(bytes);
            let text = take_text(buffer);
            send(stream, &text);
        }
    }

    /// Sends replacement characters for incomplete characters at the end of a snippet.
    pub(super) fn finish(&self) {
        let PartialCharacters { stdout, stderr } =
            mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        send(Stream::Stdout, &String::from_utf8_lossy(&stdout));
        send(Stream::Stderr, &String::from_utf8_lossy(&stderr));
    }
}

fn send(stream: Stream, text: &str) {
    if text.is_empty() {
        return;
    }
    let number = if matches!(stream, Stream::Stdout) { 1 } else { 2 };
    let segment = Message::default().number(1, number).bytes(2, text.as_bytes()).finish();
    let print = Message::default().bytes(1, &segment).finish();
    let _ = frame::write(&Message::default().bytes(event::PRINT, &print).finish());
}

/// Removes and returns the text in a buffer, except for an incomplete character at the end.
fn take_text(buffer: &mut Vec<u8>) -> String {
    let rest = buffer.split_off(whole_characters(buffer).len());
    String::from_utf8_lossy(&mem::replace(buffer, rest)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_characters_wait_for_their_rest() {
        let mut buffer = Vec::new();
        for (bytes, text, rest) in [
            (&b"a\xc3"[..], "a", &b"\xc3"[..]),
            (b"\xa9", "\u{e9}", b""),
            (b"\xe2\x82", "", b"\xe2\x82"),
            // Bytes that do not complete the character, followed by the beginning of another character.
            (b"b\xff\xf0\x9f", "\u{fffd}b\u{fffd}", b"\xf0\x9f"),
            (b"\x98\x80", "\u{1f600}", b""),
        ] {
            buffer.extend_from_slice(bytes);
            assert_eq!((take_text(&mut buffer).as_str(), buffer.as_slice()), (text, rest), "{bytes:?}");
        }
    }
}
