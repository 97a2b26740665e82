//! Workers: child processes that execute everything, each confined by the operating system. A flaw in the engine thus
//! costs one of them and not the service.
//!
//! The parent accepts connections, checks tokens, queues requests, counts executions and writes the audit log. A worker
//! is the same server without these parts: it serves the same routes, over HTTP on socket pairs shared only with its
//! parent.
//!
//! * [`pool`], [`slot`], [`connections`]: the parent's side. [`launch`] starts a worker and reads its reports.
//! * [`serve`]: the worker's side.
//! * [`confine`]: the limits that a worker sets for itself before the engine starts.

mod confine;
mod connections;
mod launch;
#[cfg(target_os = "linux")]
mod linux;
mod pool;
mod serve;
mod slot;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use serde::Serialize;

pub use confine::{Confinement, Measure, Reach, confine};
pub(crate) use pool::{Chosen, Workers, WorkersState};
pub(crate) use serve::{Done, Reporter, RequestReport};
pub use serve::{WorkerError, orders, serve};
pub(crate) use slot::{Live, Pending, REQUEST, RUNNING_PATH};

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
