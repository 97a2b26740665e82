//! Sessions over many machines.
//!
//! One session is in one place at a time, outlives the machine that it is on, and whatever was answered is never lost and never done
//! twice. None of this is decided here: each session is a virtual object of [Restate](https://restate.dev), a durable-execution engine, which
//! serializes what is asked of it, journals it, and has it done again elsewhere where a machine fails. The bytes of a session are immutable
//! blobs in an object store ([`glovebox::BlobStore`]); the engine's state of a session names the one that counts.
//!
//! * [`FleetUrl`]: where the engine is.
//! * [`FleetClient`]: asks for executions, from anywhere.
//! * [`Node`]: executes, on each machine.
//! * [`engine`]: the engine of a single machine, for its first minute.
//!
//! `docs/fleet.md` describes what is guaranteed and what it costs.

mod client;
pub mod engine;
mod name;
mod node;
mod url;
mod wire;

pub use client::{FleetClient, FleetError, FleetImage, FleetPage};
pub use name::{FleetName, FleetNameError};
pub use node::{Node, NodeConfig, NodeError, NodePolicyError, Registered};
pub use url::{FleetUrl, FleetUrlError};
pub use wire::{ExecuteRequest, Executed, Expected, FleetSession, Kind, OpenRequest, ToolOffer};
