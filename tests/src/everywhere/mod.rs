//! Runs the portable provider in other hosts. The program `everywhere` is composed of the case runner, the provider and
//! the cases' tools.
//!
//! * [`Host`] identifies a component host and starts its process.
//! * [`HostPool`] manages host processes, in which one instance runs case after case. A [`Worker`] is any process that
//!   answers each input line with one output line.
//! * [`exceptions`] lists the cases with different results in these hosts, and the reasons.
//! * [`keeps_secrets`] searches a guest's memory for data of the previous guest, from outside the host process.
//! * [`page`] generates the documentation page of cases and hosts.

pub mod exceptions;

mod host;
mod host_pool;
mod page;
mod searched;
mod secrets;
mod worker;

pub use host::{Host, run_here};
pub use host_pool::HostPool;
pub use page::page;
pub use secrets::keeps_secrets;
pub use worker::{Answer, Worker};
