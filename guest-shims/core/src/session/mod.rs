//! Sessions: interpreters that are kept between executions.

mod policy;

pub use policy::{Checkpoints, OnUnwind, SessionPolicy};
