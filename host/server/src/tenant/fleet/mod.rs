//! A tenant's sessions in a fleet: executed by its nodes, managed through its engine.
//!
//! * [`scope`]: a tenant's scope: its names, generations and errors.
//! * [`asking`]: opening, describing, undoing and closing sessions.
//! * [`executing`]: running scripts in them.
//! * [`lacks`]: unsupported operations.

mod asking;
mod executing;
mod lacks;
mod scope;

pub use lacks::NotInFleet;
pub(super) use scope::Fleet;
use scope::{about, expected, generation};
