//! Runs untrusted Python and JavaScript from inside a WebAssembly component: the interface `glovebox:sandbox` for Rust.
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
//! * [`Sandbox`] is a language and a [`Policy`]: it executes and validates, each script in a new interpreter with new files.
//! * [`Session`] keeps its interpreter: variables, functions, imports and files live on. It can be forked, rolled back and
//!   turned into bytes.
//! * [`Started`] is an execution that the component steps through: it answers the script's tools itself, reads output while the
//!   script runs, and the files that it leaves.
//! * [`Execution`] says what a script did, and its [`Outcome`] how it ended. A script that raises, exits or reaches a limit is no
//!   error; an [`Error`] is the caller's or the provider's, and then nothing was executed.
//! * [`Files`] are a workspace's files at one moment, [`Blob`] is bytes that are too many for a list.
//!
//! The crate needs no WASI and starts nothing: all its calls are calls of the component's host, or of a component that it is
//! composed with. An ordinary program with this dependency, built for `wasm32-wasip2`, is a component that imports
//! `glovebox:sandbox/sandbox`; a library for `wasm32-unknown-unknown` imports nothing else. A world of one's own need not name the
//! sandbox: what this crate imports is added to what the program's own bindings import and export. Where interfaces of one's
//! own use the sandbox's types, [`bindings`] says how they become the same types.
//!
//! Outside WebAssembly the crate compiles, for editors and for tests of what is built on it, and every call of it panics.
//!
//! It protects nothing by itself: how tightly a script is held depends on the provider, and the policy on who writes it. What
//! scripts print and raise is theirs: treat it as input.

pub mod bindings;

mod blob;
mod error;
mod execution;
mod files;
mod names;
mod policy;
mod reader;
mod request;
mod sandbox;
mod session;
mod started;
mod tool;

pub use bindings::glovebox::sandbox::{
    sandbox::{OutputStream, SessionOptions, Step, ToolAnswer, ToolRequest},
    types::{
        Advice, AdviceKind, CallFailure, CheckpointInfo, Checkpoints, Clock, Correction, Diagnostic, Entropy,
        Execution, Exhausted, Features, FileEntry, FileError, FileFailure, FileKind, FuelAnalysis, FuelStatus,
        GuestValue, Guidance, IfExists, InputFile, Language, Limits, Metadata, OnUnwind, Outcome, Output, Policy,
        ProviderInfo, Raised, Request, ResourceKind, Rollback, Runtime, RuntimeInfo, SessionInfo, SessionPolicy,
        SourceKind, Tool, ToolError, ToolFailure, ToolOutcome, ToolRecord, TrapKind,
    },
};
pub use blob::Blob;
pub use error::Error;
pub use files::Files;
pub use sandbox::{Sandbox, default_policy, info};
pub use session::Session;
pub use started::Started;
