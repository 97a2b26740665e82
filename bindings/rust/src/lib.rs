//! Rust bindings of the `glovebox:sandbox` interface, which runs untrusted Python and JavaScript from a WebAssembly
//! component.
//!
//! ```no_run
//! use glovebox_guest::{Outcome, Sandbox};
//!
//! # fn main() -> Result<(), glovebox_guest::Error> {
//! let run = Sandbox::python().execute("print(sum(range(101)))")?;
//! assert_eq!(run.outcome, Outcome::Completed);
//! println!("{}", run.stdout.text());
//! # Ok(()) }
//! ```
//!
//! * [`Sandbox`] is a runtime and a [`Policy`]. It executes and validates scripts, each in a new interpreter with new
//!   files.
//! * [`Session`] is an interpreter that persists between executions, with its variables, functions, imports and files.
//!   A session can be forked, rolled back and saved as bytes.
//! * [`Started`] is an execution that the component steps through. The component answers the script's tool calls
//!   itself, reads output while the script runs, and reads the resulting files. An execution that waits for an answer
//!   can be suspended as bytes.
//! * [`Execution`] is the result of a script, and [`Outcome`] says how the script ended. A script that raises, exits or
//!   exceeds a limit is not an error. An [`Error`] is a failure of the caller or the provider. Except for the two cases
//!   in its documentation, nothing was executed.
//! * [`Files`] is a snapshot of a workspace's files. [`Blob`] is a byte string that is too large for a list.
//!
//! With the `concurrent` Cargo feature, the `concurrent` module provides asynchronous functions and streams, so that a
//! component can run several scripts at the same time. The module imports the draft of version 0.3.0 of the contract.
//!
//! The crate does not need WASI. All calls go to the component's host, or to a provider component that is composed
//! with yours. An ordinary program with this dependency, built for `wasm32-wasip2`, is a component that imports
//! `glovebox:sandbox/sandbox`. A library for `wasm32-unknown-unknown` imports nothing else. Your own world need not
//! mention the sandbox, because the crate's imports are added to the imports of your bindings. If your own interfaces
//! use the sandbox's types, [`bindings`] shows how to share them.
//!
//! Outside WebAssembly, the crate compiles, so that editors and unit tests of the embedding code work, but every call
//! panics.
//!
//! The crate itself enforces nothing: the provider and the policy determine how tightly a script is confined. Treat the
//! output and the exceptions of scripts as untrusted input.

#[cfg(feature = "concurrent")]
pub mod concurrent;
mod error;
mod execution;
mod files;
mod policy;
mod sandbox;
mod started;

pub use bindings::glovebox::sandbox::{
    sandbox::{OutputStream, SessionOptions, Step, ToolAnswer, ToolRequest},
    types::{
        Advice, AdviceKind, CallFailure, CheckpointInfo, Checkpoints, Clock, Correction, Diagnostic, Display, Entropy,
        Execution, Exhausted, Features, FileEntry, FileError, FileFailure, FileKind, Form, FuelAnalysis, FuelStatus,
        GuestValue, Guidance, IfExists, InputFile, Language, Limits, Metadata, OnUnwind, Outcome, Output, Policy,
        ProviderInfo, Raised, Request, ResourceKind, Rollback, Runtime, RuntimeInfo, SessionInfo, SessionPolicy,
        SourceKind, Tool, ToolError, ToolFailure, ToolOutcome, ToolRecord, TrapKind,
    },
};
pub use error::Error;
pub use files::{Blob, Files};
pub use sandbox::{Sandbox, Session, default_policy, info};
pub use started::Started;

/// The generated bindings of the `client` world. Use these bindings if your own interfaces mention the sandbox's types:
///
/// ```text
/// wit_bindgen::generate!({
///     world: "my-world",
///     with: {
///         "glovebox:sandbox/types@0.2.0": glovebox_guest::bindings::glovebox::sandbox::types,
///         "glovebox:sandbox/sandbox@0.2.0": glovebox_guest::bindings::glovebox::sandbox::sandbox,
///     },
/// });
/// ```
///
/// The root of the crate re-exports the records and variants, and wraps the resources in its own types.
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "generated: the canonical ABI is raw memory, and the generator's names are WIT's"
)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "wit",
        world: "client",
        additional_derives: [PartialEq, Eq],
    });
}
