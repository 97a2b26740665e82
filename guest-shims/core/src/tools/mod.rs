//! Functions of the host that scripts may call: the protocol, and what holds for every call.
//!
//! A guest writes calls to a device and reads replies from it. What crosses the boundary is JSON text, and all of it is the
//! guest's word: sizes, counts and shapes are checked before anybody answers. How calls run, on threads or one after the
//! other, is the backend's ([`ToolRunner`]).
//!
//! | file | what it is |
//! |---|---|
//! | `definition` | a tool as it is described, and its schema, ready to be held against arguments |
//! | `plain` | schemas without regular expressions |
//! | `schema` | what it costs to hold arguments to a schema |
//! | `message` | what a guest writes, and what it costs to keep |
//! | `reply` | what it reads |
//! | `account` | what is held for it, within the guest's memory limit |
//! | `calls` | the calls of one execution: queued, running, answered |
//! | `tally` | the calls of an execution: counted, held to their limits |
//! | `prices` | what calls cost in fuel |
//! | `record` | what an execution's result says of them |

mod account;
mod calls;
mod definition;
mod error;
mod message;
mod plain;
mod prices;
mod record;
mod reply;
mod schema;
mod tally;

pub use account::{Account, Held};
pub use calls::{Done, QueuedCall, ReadyCall, Received, RunningCall, Start, ToolCalls, ToolRunner, Turn};
pub use definition::{CATALOGUE_BYTES_MOST, Checked, Definition, FOREIGN_PATTERN_BYTES_MOST, catalogue};
pub use error::{Failure, ToolDefinitionError, ToolError, ToolErrorKind};
use message::Message;
pub use message::weight;
pub use prices::{CALL_FUEL, message_fuel};
pub use record::{ToolOutcome, ToolRecord};
pub use reply::{Answer, hold_answer, json_text, within};
use reply::{Reply, answered, not_understood, timeout};
use tally::{Begun, NO_ROOM, Tally};
