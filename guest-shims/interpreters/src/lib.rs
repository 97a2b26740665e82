//! Drivers: code that boots a language interpreter once, parks it, and calls into it for each execution.
//!
//! An interpreter's state is its linear memory. At preparation time, a driver boots the interpreter and stops it at a
//! point where no live pointer leads into the C stack. The driver records *anchors*, which are addresses in the saved
//! memory, and calls all later instances directly through them.
//!
//! This crate depends on no WebAssembly engine. It uses a [`Machine`], which the Rust host implements with Wasmtime,
//! and the provider component with a few intrinsics. The crate is not the security boundary: a guest that damages its
//! driver only misreports its own results.

mod heap;
mod javascript;
mod machine;
mod persist;
mod python;
mod script;

pub use javascript::{JavaScript, library};
pub use machine::{Callee, Machine, MachineError, SCRATCH, Value, WORKSPACE};
pub use persist::{JAVASCRIPT_STATE_FILE, PYTHON_STATE_FILE};
pub use python::{EMBEDDED_PACKAGES, Python};
pub use script::{
    Anchors, Boot, COMPILED_FILE, Diagnostic, Driver, DriverError, GuestValue, Interrupt, InterruptWrite,
    RaisedOutcome, Report, Script, SourceKind,
};
