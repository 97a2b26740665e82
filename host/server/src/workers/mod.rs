//! Workers: child processes that execute everything, each confined by the operating system. A flaw in the engine thus
//! costs one of them and not the service.
//!
//! The server accepts connections, checks tokens, queues requests, counts executions and writes the audit log. A worker
//! has an engine, and loads the tenant's sessions. Both call each other over one socket: the server passes on scripts and
//! operations on sessions; the worker asks for what needs more rights than it has: tools, the network, and stores that
//! are not directories.
//!
//! * [`executor`]: passes a tenant's work on. [`relay`]: carries out what workers ask for.
//! * [`pool`], [`slot`], [`launch`]: the processes. [`peer`], [`protocol`]: the calls between them.
//! * [`serve`]: the worker's side.
//! * [`confine`]: the limits that a worker sets for itself before the engine starts.

mod confine;
mod executor;
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod peer;
mod pool;
mod protocol;
mod relay;
mod serve;
mod slot;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use serde::Serialize;

pub use confine::{Confinement, Measure, Reach, confine};
pub(crate) use executor::WorkerProcesses;
pub(crate) use pool::{Chosen, Workers, WorkersState};
pub use protocol::RelayedError;
pub(crate) use relay::Relays;
pub use serve::{ParentStore, WorkerError, WorkerTenants, orders, serve};

/// The command that starts a worker.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program. With these arguments its `main` calls [`orders`] and [`serve`].
    pub program: PathBuf,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// The whole environment: nothing is inherited.
    pub env: Vec<(OsString, OsString)>,
}

/// The configuration of a service's workers.
#[derive(Clone, Debug)]
pub struct WorkersConfig {
    /// Number of workers.
    pub count: usize,
    /// The command that starts each worker.
    pub command: WorkerCommand,
    /// The first message to each worker: one line of JSON, which [`orders`] reads.
    pub orders: String,
    /// Timeout for a worker to become ready. Default 60 s.
    pub start_time: Duration,
    /// Timeout for a worker to end after it was asked to. Default 20 s.
    pub end_time: Duration,
}

impl WorkersConfig {
    /// Returns the defaults.
    ///
    /// # Errors
    /// Fails if `orders` cannot be serialized as JSON.
    pub fn new(count: usize, command: WorkerCommand, orders: &impl Serialize) -> Result<Self, serde_json::Error> {
        let orders = serde_json::to_string(orders)?;
        Ok(Self { count, command, orders, start_time: Duration::from_secs(60), end_time: Duration::from_secs(20) })
    }
}
