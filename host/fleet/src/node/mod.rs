//! A node, which runs the executions of a fleet's sessions.
//!
//! | module | purpose |
//! |---|---|
//! | `object` | a session as a virtual object of the engine, its handlers, and the state that the engine stores for it |
//! | `attempt` | one attempt at an execution: replays the recorded journal steps, then continues |
//! | `machine` | this node's interpreters, states and sessions in memory |
//! | `warm` | sessions held in memory for their next execution |
//! | `services` | the session object under 256 names, and an object per image, to which other nodes forward executions |
//! | `serve` | connections, and registration with the engine's admin API |

mod attempt;
mod config;
mod machine;
mod object;
mod serve;
mod services;
#[cfg(test)]
mod tests;
mod warm;

pub use config::{NodeConfig, NodePolicyError};
pub use serve::{Node, NodeError, Registered};

pub(crate) use object::STATE_KEY;
