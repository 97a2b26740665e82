//! Functions of the host that scripts may call: the protocol, and the rules for every call.
//!
//! A guest writes calls to a device and reads replies from it. What crosses the boundary is untrusted JSON text: sizes,
//! counts and shapes are checked before anything is answered. The backend decides how calls run, on threads or one
//! after the other.
//!
//! | file | what it is |
//! |---|---|
//! | `definition` | a tool's definition, and its schema compiled for checking arguments |
//! | `plain` | schemas without regular expressions |
//! | `schema` | the cost of checking arguments against a schema |
//! | `message` | what a guest writes, and what it costs to store |
//! | `reply` | what it reads |
//! | `account` | what is held for it, within the guest's memory limit |
//! | `tally` | the calls of an execution: counted, checked against their limits |
//! | `prices` | what calls cost in fuel |
//! | `record` | what an execution's result says about them |

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
