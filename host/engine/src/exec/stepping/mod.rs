//! Executions that their caller steps through.
//!
//! | file | content |
//! |---|---|
//! | `started` | [`Started`]: the execution on its thread, and the caller's handle |
//! | `step` | the messages between the two |
//! | `transcript` | the script's output so far |

mod started;
mod step;
mod transcript;

pub use started::Started;
pub use step::{AdvanceError, Step, ToolAnswer, ToolRequest};
