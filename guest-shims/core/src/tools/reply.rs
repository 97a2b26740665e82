//! The replies that a guest reads from the device.

use std::sync::Arc;

use serde_json::json;

use super::{Account, Failure, Held, ToolErrorKind};
use crate::check_json;

/// Memory of an unread reply apart from its text, in bytes.
const REPLY_BYTES: u64 = 256;

/// The answer of a handler: its result as JSON text, or its failure.
pub type Answer = Result<String, Failure>;

/// A reply that the guest has not taken yet.
#[derive(Debug)]
pub(super) enum Reply {
    /// The catalogue. It is built when it is taken, so a guest that asks a thousand times and reads nothing holds no
    /// memory.
    Catalogue,
    /// The answer to a call.
    Answer {
        /// The guest's id for the call.
        id: u64,
        /// The answer of the call.
        answer: Answer,
        /// `true` if the call occupied a turn among the concurrent calls.
        ran: bool,
        /// The memory held for the reply.
        held: Held,
    },
    /// The reason why a message was invalid.
    NotUnderstood(&'static str),
}

/// Returns the answer to a call as JSON text.
#[must_use]
pub(super) fn answered(id: u64, answer: Answer) -> String {
    match answer {
        // The result is JSON text built from a value, so it can be embedded.
        Ok(result) => format!("{{\"id\":{id},\"ok\":{result}}}"),
        Err(Failure { kind, message }) => {
            json!({ "id": id, "error": { "type": kind.name(), "message": message } }).to_string()
        }
    }
}

/// Returns the answer to an invalid message as JSON text.
#[must_use]
pub(super) fn not_understood(reason: &str) -> String {
    let message = format!("the message was not understood: {reason}");
    json!({ "id": null, "error": { "type": "ToolError", "message": message } }).to_string()
}

/// Returns a result, or a failure if it exceeds `max_bytes`.
pub fn within(text: String, max_bytes: u64) -> Answer {
    let bytes = text.len() as u64;
    if bytes > max_bytes {
        let message = format!("the result is {bytes} bytes; `limits.tool_bytes` is {max_bytes}");
        return Err(Failure::new(ToolErrorKind::Limit, message));
    }
    Ok(text)
}

/// Returns a text that can be embedded in the reply, or a failure if it is not JSON.
pub fn json_text(text: String) -> Answer {
    match check_json(&text) {
        Ok(()) => Ok(text),
        Err(reason) => Err(Failure::new(ToolErrorKind::Failed, format!("the result is no JSON: {reason}"))),
    }
}

/// Returns the failure of a call that took too long.
#[must_use]
pub(super) fn timeout(max_ms: u64) -> Failure {
    Failure::new(ToolErrorKind::Timeout, format!("it took longer than {max_ms} ms (`limits.tool_timeout_ms`)"))
}

/// Holds memory for an answer. An answer that does not fit becomes a failure. The few bytes of a failure are always
/// held, because it must reach the guest.
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
