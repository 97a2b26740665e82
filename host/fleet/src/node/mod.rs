//! A node, which runs the executions of a fleet's sessions.
//!
//! | module | purpose |
//! |---|---|
//! | `admin` | client of the engine's admin API |
//! | `object` | a session as a virtual object of the engine, and its handlers |
//! | `state` | the state that the engine stores for a session |
//! | `steps` | the journal steps of an execution |
//! | `attempt` | one attempt at an execution: replays the recorded steps, then continues |
//! | `machine` | this node's interpreters, states and sessions in memory |
//! | `warm` | sessions held in memory for their next execution |
//! | `images` | executions in a session's image, forwarded if this node does not have it |
//! | `services` | the session object under 256 names, and an object per image |
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
