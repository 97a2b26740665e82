//! Workers: child processes in which everything is executed, each under limits of the operating system, so that a flaw in the engine costs
//! one of them and not the service.
//!
//! The parent accepts connections, knows tokens, queues, counts and writes down. A worker is the same server without any of that: it answers
//! the same routes, over HTTP on pairs of sockets that only its parent has.
//!
//! * [`pool`], [`slot`], [`connections`]: the parent's side; [`launch`] starts one and listens to what it reports.
//! * [`serve`], [`report`]: the worker's side.
//! * [`confine`]: the limits that a worker lays on itself before the engine starts.

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
