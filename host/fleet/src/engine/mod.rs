//! A single-machine engine: Restate's own program as a child process, with its data in a directory. For getting started
//! and for small fleets.
//!
//! Several machines need a Restate cluster, set up as its documentation describes.

mod config;
mod process;
mod program;

pub use process::{EngineError, LocalEngine};
pub use program::{PROGRAM, find_program};
