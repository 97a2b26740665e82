//! How workers are set up.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use serde::Serialize;

/// How a worker is started.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program, whose `main` calls [`orders`](super::orders) and [`serve`](super::serve) at these arguments.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
}

/// How the workers of a service are set up.
#[derive(Clone, Debug)]
pub struct WorkersConfig {
    /// How many there are.
    pub count: usize,
    /// How each is started.
    pub command: WorkerCommand,
    /// What each is told before anything else: one line of JSON, which [`orders`](super::orders) reads.
    pub orders: String,
    /// How long one may take until it serves. Default 60 s.
    pub start_time: Duration,
    /// How long one may take to end once it is told to. Default 20 s.
    pub end_time: Duration,
}

impl WorkersConfig {
    /// The defaults.
    ///
    /// # Errors
    /// When the orders cannot be JSON.
    pub fn new(count: usize, command: WorkerCommand, orders: &impl Serialize) -> Result<Self, serde_json::Error> {
        let orders = serde_json::to_string(orders)?;
        Ok(Self { count, command, orders, start_time: Duration::from_secs(60), end_time: Duration::from_secs(20) })
    }
}
