//! Sessions on many machines.
//!
//! A session runs on one node at a time and outlives the machine that it runs on. Acknowledged executions are never
//! lost and never applied twice. This crate relies on [Restate](https://restate.dev), a durable-execution engine, for
//! these guarantees: each session is a virtual object of the engine. Restate serializes and journals the requests of a
//! session, and retries them on another node if a machine fails. A session's bytes are immutable blobs in an object
//! store ([`glovebox_object_stores::BlobStore`]); the session's state in the engine names the current blob.
//!
//! * [`FleetUrl`]: the address of the engine.
//! * [`FleetClient`]: requests executions, from any machine.
//! * [`Node`]: runs executions on one machine of the fleet.
//! * [`engine`]: a single-machine engine, for getting started.
//!
//! `docs/fleet.md` describes the guarantees and their cost.

mod address;
mod client;
pub mod engine;
mod node;
mod wire;

pub use address::{FleetName, FleetNameError, FleetUrl, FleetUrlError};
pub use client::{FleetClient, FleetError, FleetImage, FleetPage};
pub use node::{Node, NodeConfig, NodeError, NodePolicyError, Registration};
pub use wire::{
    ExecuteReply, ExecuteRequest, ExpectedGeneration, FleetSession, OpenRequest, Resumption, ToolOffer,
    WaitingExecution,
};
