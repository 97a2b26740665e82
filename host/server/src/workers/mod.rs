//! Workers: child processes that run all executions, each confined by the operating system. A vulnerability in the
//! engine thus compromises only a single worker, not the service.
//!
//! The server accepts connections, checks tokens, queues requests, counts executions and writes the audit log. Each
//! worker has an engine and loads the sessions that belong to it. Both sides call each other over a single socket. The
//! server forwards scripts and session operations. The worker requests operations for which it has no rights: tool
//! calls, network access, and access to stores that are not directories. For writes to a directory, it requests only a
//! reservation of the bytes.
//!
//! * [`executor`]: forwards a tenant's work. [`relay`]: performs the workers' requests.
//!   [`call_charge`]: the memory of these requests.
//! * [`pool`], [`slot`]: the worker processes. [`peer`], [`protocol`]: the calls between server and worker.
//! * [`serve`]: the worker's side. [`parent_store`]: both sides of the workers' access to the server's stores and
//!   quotas.
//! * [`confine`]: the restrictions that a process applies to itself before it starts the engine or a helper program.

mod call_charge;
mod confine;
mod executor;
#[cfg(target_os = "linux")]
mod linux;
mod parent_store;
mod peer;
mod pool;
mod protocol;
mod relay;
mod serve;
mod slot;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use confine::{ConfinedAccess, Confinement, Measure, confine, confine_program};
pub(crate) use executor::{WorkerFiles, WorkerProcesses};
pub use parent_store::ParentStore;
pub(crate) use pool::{WorkerChoice, Workers, WorkersState};
pub use protocol::RelayedError;
pub(crate) use relay::Relays;
pub use serve::{WorkerError, WorkerTenants, read_config, serve};

/// The command that starts a worker.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// The program. Its `main` must call [`read_config`] and [`serve`] when started with `args`.
    pub program: PathBuf,
    /// The program's arguments.
    pub args: Vec<OsString>,
    /// The complete environment. The worker inherits no other variables.
    pub env: Vec<(OsString, OsString)>,
}

/// The configuration of a service's workers.
#[derive(Clone, Debug)]
pub struct WorkersConfig {
    /// The number of workers.
    pub count: usize,
    /// The command that starts each worker.
    pub command: WorkerCommand,
    /// The first message to each worker: a line of JSON that the worker reads with [`read_config`].
    pub config_json: String,
    /// The timeout for a worker to become ready. Default 60 s.
    pub start_time: Duration,
    /// The timeout for a worker to exit after the service has asked it to. Default 20 s.
    pub end_time: Duration,
}

impl WorkersConfig {
    /// Returns a configuration with default timeouts.
    ///
    /// # Errors
    /// Fails if `config` cannot be serialized as JSON.
    pub fn new(count: usize, command: WorkerCommand, config: &impl Serialize) -> Result<Self, serde_json::Error> {
        let config_json = serde_json::to_string(config)?;
        Ok(Self { count, command, config_json, start_time: Duration::from_secs(60), end_time: Duration::from_secs(20) })
    }
}

/// The upper bound of `workers.count`. More workers than processors do not increase the throughput.
pub(crate) const MAX_WORKERS: usize = 256;
/// The default limit on the private memory of a worker without live sessions, in bytes. It is high, because memory that
/// is reserved but never used counts as well.
pub(crate) const WORKER_BYTES: u64 = 64 << 30;
/// The default limit on the open files of a worker without live sessions.
pub(crate) const WORKER_FILES: u64 = 4_096;
/// The number of bytes that a live session maps for its image and its stack. The image of Python with its packages maps
/// 122 MiB.
pub(crate) const SESSION_BYTES: u64 = 256 << 20;
/// The number of files that a live session keeps open: its lock, its image and its workspace.
pub(crate) const SESSION_FILES: u64 = 4;

/// The `[workers]` table of the server's configuration, with the limits on each worker process.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WorkersTable {
    /// `true` to run executions in the server process instead of in workers. Default `false`.
    pub in_process: bool,
    /// The number of worker processes, at most 256. Default 0: one per processor.
    pub count: usize,
    /// Maximum private memory of each worker in bytes (`RLIMIT_DATA`). Untouched mappings count as well. Default: 64
    /// GiB, plus `limits.memory_bytes` and 256 MiB for each session that can be live.
    pub memory_bytes: Option<u64>,
    /// Maximum number of open files of each worker. Default: 4,096, plus 4 for each session that can be live.
    pub open_files: Option<u64>,
}

impl WorkersTable {
    /// Returns the number of worker processes, or 0 if executions run in the server process.
    pub fn processes(&self) -> usize {
        match (self.in_process, self.count) {
            (true, _) => 0,
            (false, 0) => std::thread::available_parallelism().map_or(2, usize::from).min(MAX_WORKERS),
            (false, count) => count,
        }
    }
}
