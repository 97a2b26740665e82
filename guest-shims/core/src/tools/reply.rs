//! What a guest reads from the device.

use std::sync::Arc;

use serde_json::json;

use super::{Account, Failure, Held, ToolErrorKind};
use crate::check_json;

/// What an unread reply takes beside its text.
const REPLY_BYTES: u64 = 256;

/// What a handler's answer comes to: its result as JSON text.
pub type Answer = Result<String, Failure>;

/// A reply that the guest has not taken yet.
#[derive(Debug)]
pub(super) enum Reply {
    /// The catalogue. Made when it is taken: a guest that asks a thousand times and reads nothing holds nothing.
    Catalogue,
    /// What became of a call.
    Answer {
        /// The guest's name for the call.
        id: u64,
        /// What it is told.
        answer: Answer,
        /// Whether the call was one of those that run at once.
        ran: bool,
        /// What is held for it.
        held: Held,
    },
    /// A message was none.
    NotUnderstood(&'static str),
}

/// A call's answer, as JSON text.
#[must_use]
pub(super) fn answered(id: u64, answer: Answer) -> String {
    match answer {
        // The result is JSON text that was made from a value, so it can stand in another.
        Ok(result) => format!("{{\"id\":{id},\"ok\":{result}}}"),
        Err(Failure { kind, message }) => {
            json!({ "id": id, "error": { "type": kind.name(), "message": message } }).to_string()
        }
    }
}

/// The answer to a message that was none, as JSON text.
#[must_use]
pub(super) fn not_understood(reason: &str) -> String {
    let message = format!("the message was not understood: {reason}");
    json!({ "id": null, "error": { "type": "ToolError", "message": message } }).to_string()
}

/// A result that is no longer than it may be.
pub fn within(text: String, max_bytes: u64) -> Answer {
    let bytes = text.len() as u64;
    if bytes > max_bytes {
        let message = format!("the result is {bytes} bytes; `limits.tool_bytes` is {max_bytes}");
        return Err(Failure::new(ToolErrorKind::Limit, message));
    }
    Ok(text)
}

/// A text that is JSON, so that it can stand in the reply.
pub fn json_text(text: String) -> Answer {
    match check_json(&text) {
        Ok(()) => Ok(text),
        Err(reason) => Err(Failure::new(ToolErrorKind::Failed, format!("the result is no JSON: {reason}"))),
    }
}

/// That a call took too long.
#[must_use]
pub(super) fn timeout(max_ms: u64) -> Failure {
    Failure::new(ToolErrorKind::Timeout, format!("it took longer than {max_ms} ms (`limits.tool_timeout_ms`)"))
}

/// Takes room for an answer; one that there is no room for becomes a failure that says so. A failure's own few bytes are held
/// whatever there is: it must be told.
pub fn hold_answer(account: &Arc<Account>, answer: Answer) -> (Answer, Held) {
    let length = |answer: &Answer| REPLY_BYTES + answer.as_ref().map_or_else(|no| no.message.len(), String::len) as u64;
    if let Some(held) = account.hold(length(&answer)) {
        return (answer, held);
    }
    let answer = answer.and_then(|_| {
        let what = "the host has no room for the result: `limits.memory_bytes` counts it until it is read";
        Err(Failure::new(ToolErrorKind::Limit, what))
    });
    let held = account.hold_anyway(length(&answer));
    (answer, held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_has_a_maximum() {
        for (length, fits) in [(3, true), (4, true), (5, false)] {
            let result = within("x".repeat(length), 4);
            assert_eq!(result.is_ok(), fits, "{length}");
            assert!(fits || result.unwrap_err().kind == ToolErrorKind::Limit);
        }
    }

    #[test]
    fn a_result_is_json() {
        assert_eq!(json_text("[1]".into()), Ok("[1]".into()));
        assert_eq!(json_text("1]".into()).unwrap_err().kind, ToolErrorKind::Failed);
    }

    #[test]
    fn an_answer_without_room_says_so_and_is_held_all_the_same() {
        let account = Arc::new(Account::default());
        for (room, fits) in [(259, false), (260, true), (261, true)] {
            account.set_room(room);
            let (answer, held) = hold_answer(&account, Ok("1234".into()));
            assert_eq!((answer.is_ok(), held.bytes() == 260), (fits, fits), "{room}");
            assert_eq!(account.held_bytes(), held.bytes());
        }
    }
}
