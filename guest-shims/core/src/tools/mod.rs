//! Functions of the host that scripts may call: the protocol, and the rules for every call.
//!
//! A guest writes calls to a device and reads replies from it. What crosses the boundary is untrusted JSON text: sizes,
//! counts and shapes are checked before anything is answered. The backend decides how calls run, on threads or one
//! after the other ([`ToolRunner`]).
//!
//! | file | what it is |
//! |---|---|
//! | `definition` | a tool's definition, and its schema compiled for checking arguments |
//! | `toolset` | tools by their names, and the catalogue that guests read |
//! | `schema` | the cost of checking arguments against a schema |
//! | `validator` | checking arguments against a schema |
//! | `message` | what a guest writes, and what it costs to store |
//! | `reply` | what it reads |
//! | `account` | what is held for it, within the guest's memory limit |
//! | `calls` | the calls of one execution: queued, running, answered |
//! | `tally` | the calls of an execution: counted, checked against their limits |
//! | `prices` | what calls cost in fuel |
//! | `record` | what an execution's result says about them |

mod account;
mod calls;
mod definition;
mod error;
mod message;
mod prices;
mod record;
mod reply;
mod schema;
mod tally;
mod toolset;
mod validator;

pub use account::{Account, Held};
pub use calls::{Done, QueuedCall, ReadyCall, Received, RunningCall, Start, ToolCalls, ToolRunner, Turn};
pub use definition::{Checked, Definition, MAX_CATALOGUE_BYTES, MAX_FOREIGN_PATTERN_BYTES};
pub use error::{Failure, ToolDefinitionError, ToolError, ToolErrorKind};
use message::Message;
pub use message::weight;
pub use prices::{CALL_FUEL, message_fuel};
pub use record::{ToolOutcome, ToolRecord};
pub use reply::{Answer, hold_answer, json_text, within};
use reply::{Reply, answered, not_understood, timeout};
use tally::{Begun, NO_ROOM, Size, Tally};
pub use toolset::Toolset;
pub use validator::{MAX_ENGINE_LEVELS, MAX_PROVIDER_LEVELS};
