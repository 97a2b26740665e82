//! Host functions that scripts can call: the protocol, and the rules for every call.
//!
//! A guest writes calls to a device and reads replies from it. Both carry JSON text. The guest's messages are
//! untrusted: their size, number and structure are checked before a call runs. The backend decides whether calls run on
//! threads or sequentially ([`ToolRunner`]).
//!
//! | file | contents |
//! |---|---|
//! | `definition` | tool definitions, with their schemas compiled for checking arguments; sets of tools |
//! | `schema` | the cost of checking arguments against a schema |
//! | `validator` | checking arguments against a schema |
//! | `message` | the guest's messages, their cost in memory, and the record of calls in an execution's result |
//! | `reply` | replies to the guest, and errors |
//! | `calls` | the calls of one execution: queued, running, answered |
//! | `tally` | the count, limits, fuel cost, record and memory of an execution's calls |

mod calls;
mod definition;
mod message;
mod reply;
mod schema;
mod tally;
mod validator;

use message::Message;
use reply::{Reply, answered, not_understood, timeout};
use tally::{NO_ROOM, Size, StartedCall, Tally};

pub use calls::{
    Admission, CallStart, FinishedCall, NextReply, QueuedCall, ReadyCall, RunningCall, ToolCalls, ToolRunner,
};
pub use definition::{
    CheckedDefinition, Definition, MAX_CATALOGUE_BYTES, MAX_UNTRUSTED_PATTERN_BYTES, Toolset, parameters,
};
pub use message::{ToolOutcome, ToolRecord, weight};
pub use reply::{Answer, CallFailure, ToolDefinitionError, ToolError, ToolErrorKind, hold_answer, json_text, within};
pub use tally::{CALL_FUEL, ReservedMemory, ToolMemory, message_fuel};
pub use validator::{MAX_ENGINE_LEVELS, MAX_PROVIDER_LEVELS};
