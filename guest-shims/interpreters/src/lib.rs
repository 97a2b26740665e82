//! Drivers: how to boot a language interpreter once, park it, and call into it for each execution.
//!
//! An interpreter's state is its linear memory. A driver boots the unmodified binary at preparation time and stops it
//! where nothing live points into the C stack. It records *anchors*, which are addresses in the saved memory, and calls
//! every later instance directly through them.
//!
//! This crate depends on no WebAssembly engine: it talks to a [`Machine`], which the Rust host implements with Wasmtime
//! and the provider component with a handful of intrinsics. It is not the security boundary: a guest that damages its
//! driver only misreports its own results.

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
    Anchors, Boot, COMPILED_FILE, Diagnostic, Driver, DriverError, GuestValue, Interrupt, Poke, Raised, Report, Script,
    SourceKind,
};
