//! The portable provider in other hosts: the program `everywhere`, which is the case runner, the provider and the tools of cases composed.
//!
//! * [`Host`] is a host, and starts its process.
//! * [`Hosted`] is such a process, in which one instance runs case after case, and [`Worker`] any process that answers
//!   lines with lines.
//! * [`exceptions`] are the cases with another result there, each with its reason.
//! * [`keeps_secrets`] searches the memory of a guest for what the previous one held, from outside the host's process.
//! * [`page`] is the page that shows which case passes where.

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
