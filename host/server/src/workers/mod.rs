//! Workers: child processes that execute everything, each confined by the operating system. A flaw in the engine thus
//! costs one of them and not the service.
//!
//! The parent accepts connections, checks tokens, queues requests, counts executions and writes the audit log. A worker
//! is the same server without these parts: it serves the same routes, over HTTP on socket pairs shared only with its
//! parent.
//!
//! * [`pool`], [`slot`], [`connections`]: the parent's side. [`launch`] starts a worker and reads its reports.
//! * [`serve`], [`report`]: the worker's side.
//! * [`confine`]: the limits that a worker sets for itself before the engine starts.

#[cfg(target_os = "linux")]
mod calls;
mod config;
mod confine;
#[cfg(all(test, target_os = "linux"))]
mod confined;
mod connections;
#[cfg(target_os = "linux")]
mod files;
mod launch;
mod measure;
mod pool;
mod report;
mod serve;
mod slot;

pub use config::{WorkerCommand, WorkersConfig};
pub use confine::confine;
pub use measure::{Confinement, Measure, Reach};
pub(crate) use pool::{Chosen, Workers, WorkersState};
pub(crate) use report::{Done, Reporter, Told};
pub use serve::{WorkerError, orders, serve};
pub(crate) use slot::{Live, Pending, REQUEST, RUNNING_PATH};
