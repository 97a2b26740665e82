//! The outcome of a guest's run. Failures of the host are errors instead.

use glovebox_interpreters::Raised;
use serde::{Deserialize, Serialize};

/// A resource with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// Fuel, in units.
    Fuel,
    /// Wall-clock time, in milliseconds.
    Time,
    /// Memory, in bytes.
    Memory,
}

/// The kind of a WebAssembly trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrapKind {
    /// The native stack ran out.
    StackOverflow,
    /// `unreachable`: the interpreter aborted.
    Unreachable,
    /// An access outside linear memory or a table.
    OutOfBounds,
    /// An indirect call to nothing or of another type.
    BadCall,
    /// Integer division by zero or overflow.
    Arithmetic,
    /// The guest's driver returned no usable report: the guest damaged it.
    BadReport,
    /// Any other.
    Other,
}

/// The end of a guest's run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Outcome {
    /// The script ran to its end.
    Completed,
    /// The script exited: `sys.exit(code)`, `std.exit(code)`, `os._exit(code)`.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// An exception was not caught.
    Raised(RaisedOutcome),
    /// A limit was reached: the guest was unwound, could not go on, or ended when it was asked to shortly before
    /// (`Execution::interrupted`).
    Exhausted {
        /// Which limit.
        resource: Resource,
        /// The limit, in the resource's unit.
        limit: u64,
        /// The usage, in the same unit.
        used: u64,
    },
    /// The caller cancelled it: it was unwound, or ended when it was asked to.
    Cancelled,
    /// The guest crashed: a WebAssembly trap.
    Trapped {
        /// The kind of trap.
        trap: TrapKind,
    },
}

/// The exception of [`Outcome::Raised`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedOutcome {
    /// The exception's class: `ValueError`, `TypeError`, …; empty for a thrown value that is not an object.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The exception's message.
    pub message: String,
    /// The traceback or stack, as the interpreter prints it.
    pub traceback: String,
    /// The line of the script that raised it, counted from 1, if known.
    pub line: Option<u32>,
}

impl From<Raised> for RaisedOutcome {
    fn from(Raised { type_name, message, traceback, line }: Raised) -> Self {
        Self { type_name, message, traceback, line }
    }
}

impl Outcome {
    /// Returns whether the script succeeded: it completed or exited with 0. The content of standard error does not
    /// matter.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Completed | Self::Exited { code: 0 })
    }

    /// The uncaught exception, if there is one.
    #[must_use]
    pub fn raised(&self) -> Option<&RaisedOutcome> {
        match self {
            Self::Raised(raised) => Some(raised),
            _ => None,
        }
    }

    /// A short description for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Completed => "completed".into(),
            Self::Exited { code } => format!("exited with {code}"),
            Self::Raised(raised) if raised.type_name.is_empty() => format!("threw {}", clipped(&raised.message)),
            Self::Raised(raised) => {
                format!("raised {}: {}", clipped(&raised.type_name), clipped(&raised.message))
            }
            Self::Exhausted { resource: Resource::Fuel, limit, .. } => {
                format!("out of fuel: all {limit} units are used")
            }
            Self::Exhausted { resource: Resource::Time, limit, .. } => format!("out of time: more than {limit} ms"),
            Self::Exhausted { resource: Resource::Memory, limit, used } => {
                format!("out of memory: it wanted {used} bytes, the limit is {limit}")
            }
            Self::Cancelled => "cancelled".into(),
            Self::Trapped { trap } => format!("the interpreter broke: {trap:?}"),
        }
    }

    /// The process exit code for it: the script's own; 1 for an exception; 124 for time (as `timeout(1)` does); 137 for
    /// fuel or memory (like a kill); 130 cancelled; 134 trapped (like an abort).
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Completed => 0,
            Self::Exited { code } => *code,
            Self::Raised(_) => 1,
            Self::Exhausted { resource: Resource::Time, .. } => 124,
            Self::Exhausted { .. } => 137,
            Self::Cancelled => 130,
            Self::Trapped { .. } => 134,
        }
    }
}

/// A prefix of text chosen by a script, short enough for a log.
#[must_use]
pub fn clipped(text: &str) -> &str {
    const MAX_CHARS: usize = 200;
    text.char_indices().nth(MAX_CHARS).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scripts_message_does_not_flood_the_log() {
        for (length, held) in [(199, 199), (200, 200), (201, 200)] {
            let message = "é".repeat(length);
            let raised = RaisedOutcome { type_name: "E".into(), message, traceback: String::new(), line: None };
            assert_eq!(Outcome::Raised(raised).describe(), format!("raised E: {}", "é".repeat(held)));
        }
    }
}
