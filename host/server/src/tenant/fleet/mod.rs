//! A tenant's sessions in a fleet: executed by its nodes, and asked of its engine.
//!
//! * [`scope`]: a tenant's part of a fleet: names, generations and errors as the tenant has them.
//! * [`asking`]: opening, describing, undoing and closing sessions.
//! * [`executing`]: scripts in them.
//! * [`lacks`]: what is not done with them.

mod asking;
mod executing;
mod lacks;
mod scope;

pub use lacks::NotInFleet;
pub(super) use scope::Fleet;
use scope::{about, expected, generation};
