//! The portable provider in other hosts: the program `everywhere`, which is the case runner, the provider and the tools of cases composed.
//!
//! * [`Host`] is one of them, and says how its process is started.
//! * [`Hosted`] is such a process, in which one instance runs case after case, and [`Worker`] any process that answers lines with lines.
//! * [`exceptions`] are the cases that end otherwise there, each with its reason.
//! * [`page`] is the page that says which case passes where.

pub mod exceptions;

mod host;
mod hosted;
mod page;
mod worker;

pub use host::{Host, run_here};
pub use hosted::Hosted;
pub use page::page;
pub use worker::{Answer, Worker};
