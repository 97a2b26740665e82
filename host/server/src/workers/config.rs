//! The configuration of workers.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use serde::Serialize;

/// The command that starts a worker.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program. With these arguments its `main` calls [`orders`](super::orders) and [`serve`](super::serve).
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
    /// The first message to each worker: one line of JSON, which [`orders`](super::orders) reads.
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
