//! The portable provider in other hosts. The program `everywhere` composes the case runner, the provider and the tools
//! of cases.
//!
//! * [`Host`] is a host, and starts its process.
//! * [`Hosted`] is a process of a host, in which one instance runs case after case. [`Worker`] is any process that
//!   answers lines with lines.
//! * [`exceptions`] lists the cases with a different result in these hosts, each with its reason.
//! * [`keeps_secrets`] searches the memory of a guest for data of the previous guest, from outside the host's process.
//! * [`page`] generates the page of cases and hosts.

pub mod exceptions;

mod host;
mod hosted;
mod page;
mod searched;
mod secrets;
mod worker;

pub use host::{Host, run_here};
pub use hosted::Hosted;
pub use page::page;
pub use secrets::keeps_secrets;
pub use worker::{Answer, Worker};
