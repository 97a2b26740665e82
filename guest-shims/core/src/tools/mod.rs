//! Functions of the host that scripts may call: the protocol, and what holds for every call.
//!
//! A guest writes calls to a device and reads replies from it. What crosses the boundary is JSON text, and all of it is the
//! guest's word: sizes, counts and shapes are checked before anybody answers. How calls run, on threads or one after the
//! other, is the backend's.
//!
//! | file | what it is |
//! |---|---|
//! | `definition` | a tool as it is described, and its schema, ready to be held against arguments |
//! | `plain` | schemas without regular expressions |
//! | `schema` | what it costs to hold arguments to a schema |
//! | `message` | what a guest writes, and what it costs to keep |
//! | `reply` | what it reads |
//! | `account` | what is held for it, within the guest's memory limit |
//! | `tally` | the calls of an execution: counted, held to their limits |
//! | `prices` | what calls cost in fuel |
//! | `record` | what an execution's result says of them |

mod account;
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
pub use definition::{Checked, Definition, MAX_CATALOGUE_BYTES, MAX_FOREIGN_PATTERN_BYTES, catalogue};
pub use error::{Failure, ToolDefinitionError, ToolError, ToolErrorKind};
pub use message::{Message, weight};
pub use prices::{CALL_FUEL, message_fuel};
pub use record::{ToolOutcome, ToolRecord};
pub use reply::{Answer, Reply, answered, hold_answer, json_text, not_understood, timeout, within};
pub use tally::{Begun, NO_ROOM, Tally};
