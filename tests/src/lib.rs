//! The code shared by the conformance cases, hostile cases, golden files and fuzz targets.
//!
//! * [`load_cases`] reads `cases/*.md`; a [`Backend`] runs a [`Case`]; [`check`] compares the results with the
//!   expectations. A new backend implements [`Backend`] and needs no new cases.
//! * [`EngineBackend`] is the Rust engine, with one [`engine`] for the whole test program.
//! * [`ComponentBackend`] is the same engine through `glovebox:sandbox`, as components use it. [`ConcurrentBackend`] uses
//!   version 0.3.0 of that interface.
//! * [`everywhere`] runs the same cases on the portable provider in other hosts.
//! * [`hostile`] reads the hostile scripts.
//! * [`process`] measures memory, and runs the test program again as a child process.
//! * [`fuzz`] contains the bodies of the fuzz targets, for both `cargo fuzz` and the smoke run.
//! * [`mod@reference`] generates the contract's documentation page, and [`python_types`] its types in
//!   `bindings/python`.
//! * [`program_trial`] creates a test of a component that `programs/build` has built.
//! * [`model`] predicts the contents of a session after random scripts.
//!
//! The crate is only used by test programs and is not security-relevant. A panic in it fails the test.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test program's library: a panic is a failed test"
)]

pub mod case_line;
pub mod compare;
pub mod everywhere;
pub mod fuzz;
pub mod hostile;
pub mod model;
pub mod process;
pub mod puppet;
pub mod python_types;
pub mod reference;

mod backend;
mod case;
mod case_file;
mod check;
mod citations;
mod component_backend;
mod concurrent_backend;
mod engine_backend;
mod engine_sessions;
mod engine_steps;
mod events;
mod expect;
mod goldens;
mod programs;
mod sandboxes;
mod step;

pub use backend::{Backend, DiagnosticSeen, MetadataSeen, ObservedExecution, StepResult};
pub use case::{Case, cases_dir, is_variant_of, load_all_cases, load_cases};
pub use check::{check, check_case};
pub use citations::lost_citations;
pub use component_backend::ComponentBackend;
pub use concurrent_backend::ConcurrentBackend;
pub use engine_backend::{
    EngineBackend, PORTABLE_PYTHON, bare_engine, engine, engine_config, is_large, lone_engine, shared_cache_dir,
    tested_runtimes,
};
pub use events::{CapturedEvents, Event, Recorder};
pub use expect::{DiagnosticMatch, Expect, TextMatch};
pub use goldens::{Goldens, hold_file};
pub use programs::{
    build_components, missing_trial, program_path, program_trial, provider_path, trial_with, wasmtime_path,
    whole_matrix,
};
pub use sandboxes::{fixed, portable_runtime, sandbox, sandbox_on, short, spare_bytes};
pub use step::{Action, CaseTool, Operation, Request, Step};
