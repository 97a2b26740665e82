//! Executes what is asked of the sessions of a fleet.
//!
//! | module | what it is |
//! |---|---|
//! | `admin` | what the administration of the engine is asked |
//! | `object` | a session as the engine has it: what can be asked of it |
//! | `state` | what the engine stores of a session |
//! | `steps` | an execution as a row of steps in the engine's journal |
//! | `attempt` | one attempt at an execution: it repeats what was recorded, and goes on from there |
//! | `machine` | what runs here: interpreters, states and sessions in memory |
//! | `warm` | sessions that stay in memory for their next execution |
//! | `images` | executions of sessions whose image newer nodes no longer have |
//! | `services` | the same object under 256 names |
//! | `serve` | connections |

mod admin;
mod attempt;
mod config;
mod error;
mod images;
mod machine;
mod object;
mod serve;
mod services;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod warm;

pub use admin::Registered;
pub use config::{NodeConfig, NodePolicyError};
pub use error::NodeError;

pub use serve::Node;
pub(crate) use state::STATE_KEY;
