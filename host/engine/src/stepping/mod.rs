//! Executions that their caller steps through.
//!
//! | file | what it is |
//! |---|---|
//! | `started` | [`Started`]: the execution on its thread, and what its caller asks of it |
//! | `step` | what the two say to each other |
//! | `transcript` | what the script has written so far |

mod started;
mod step;
mod transcript;

pub use started::Started;
pub use step::{AdvanceError, Step, ToolAnswer, ToolRequest};
