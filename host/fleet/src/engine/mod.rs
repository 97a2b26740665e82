//! The engine of a single machine: Restate's own program as a child process, with its data in a directory, for the first minute and for small fleets.
//! More than one machine needs a cluster of it, which is set up as its documentation says.

mod config;
mod process;
mod program;

pub use process::{EngineError, LocalEngine};
pub use program::{PROGRAM, find_program};
