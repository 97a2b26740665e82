//! What a guest reads from the device.

use serde_json::json;

use super::{account::Held, error::Failure};

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

impl Reply {
    /// The JSON text.
    pub(super) fn text(&self, catalogue: impl FnOnce() -> String) -> String {
        match self {
            Self::Catalogue => catalogue(),
            // The result is JSON text that was made from a value, so it can stand in another.
            Self::Answer { id, answer: Ok(result), .. } => format!("{{\"id\":{id},\"ok\":{result}}}"),
            Self::Answer { id, answer: Err(failure), .. } => {
                json!({ "id": id, "error": { "type": failure.kind.name(), "message": failure.message } }).to_string()
            }
            Self::NotUnderstood(reason) => {
                let message = format!("the message was not understood: {reason}");
                json!({ "id": null, "error": { "type": "ToolError", "message": message } }).to_string()
            }
        }
    }
}
