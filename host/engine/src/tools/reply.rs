//! What a guest reads from the device.

use glovebox_core::tools::Held;
use serde_json::json;

use super::error::Failure;

/// What a handler's answer comes to: its result as JSON text.
pub(super) type Answer = Result<String, Failure>;

/// A reply that the guest has not taken yet.
#[derive(Debug)]
pub(super) enum Reply {
    /// The catalogue. Made when it is taken: a guest that asks a thousand times and reads nothing holds nothing.
    Catalogue,
    /// What became of a call.
    Answer {
        id: u64,
        answer: Answer,
        /// Whether the call was one of those that run at once.
        ran: bool,
        held: Held,
    },
    /// A message was none.
    NotUnderstood(&'static str),
}

/// A call's answer, as JSON text.
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
pub(super) fn not_understood(reason: &str) -> String {
    let message = format!("the message was not understood: {reason}");
    json!({ "id": null, "error": { "type": "ToolError", "message": message } }).to_string()
}
