//! The backend-independent sandbox: limits, policies, outcomes, saved sessions, files and the tool protocol.
//!
//! The crate uses no WebAssembly engine, host files, threads or clock, so the Rust engine and the provider component
//! run the same code and behave alike. A backend supplies an instance to run ([`glovebox_interpreters::Machine`]), the
//! time, and the host resources that guests may use.
//!
//! | module | contents |
//! |---|---|
//! | `limits`, `policy` | the input of an execution, and its checks |
//! | `grant` | policy changes that a request makes, and the operator's bounds on them |
//! | `outcome`, `call` | the result of an execution, decided in one place |
//! | `display`, `json` | pictures and documents that a script displays, and values from guests |
//! | `guest` | an instance, every call into it, and the environment in which an image boots and its instances resume |
//! | `host` | the host's state for a guest, as WASI calls see it, and the platform's time and memory |
//! | `execution` | the current execution: its time, its stop conditions, its tool calls |
//! | `journal` | the recorded inputs of an execution, to suspend and replay it |
//! | `guidance` | explanations of failures, with advice |
//! | `memory`, `soft_stop` | limits during an execution: the total memory, and the soft stop |
//! | `library` | files that every guest has, and the interpreter's standard library |
//! | `files` | access to a workspace from outside the guest |
//! | `contract` | conversions to and from the contract's generated types, and the size limits of its calls |
//! | `session` | sessions and their checkpoints |
//! | `hibernate` | sessions as bytes |
//! | `tools` | functions that scripts can call |
//!
//! Most types that describe a guest's results are not `non_exhaustive`: [`contract_conversions!`] destructures each of
//! them, so the compiler reports any field that the contract does not have yet. [`with_limits!`] lists the names of the
//! contract's limits for the same purpose; a test checks that none is missing.

mod call;
pub mod contract;
mod deserialize;
mod display;
mod execution;
pub mod files;
pub mod grant;
mod guest;
pub mod guidance;
pub mod hibernate;
mod host;
pub mod journal;
mod json;
mod library;
mod limits;
mod memory;
mod outcome;
mod policy;
pub mod session;
mod soft_stop;
pub mod tools;

pub use call::{CallEnd, CallResult, GuestState, Refusal, Usage};
pub use deserialize::{at_most, bytes_from_json, entries_at_most};
pub use display::{Display, Displays, Form, decode_display, is_display, is_text};
pub use execution::{ExecutionCtx, Moment, Platform, WakeReason};
pub use glovebox_interpreters::{RaisedOutcome, SCRATCH, WORKSPACE};
pub use guest::{
    BOOT_MONOTONIC_NS, BOOT_REALTIME_NS, CollectedOutput, Guest, GuestMachine, GuestWorld, ImageDriver, boot_wasi,
};
pub use host::{CallHost, GuestHost, LinearMemory, Watch};
pub use json::{GuestValue, check_json, from_milliseconds, milliseconds};
pub use library::{LIBRARY_PATH, Library, LibraryFiles, LibraryMount, PACKAGES_PATH, StandardFiles};
pub use limits::{Language, LimitError, Limits, RequestError, UnknownLanguage, check_request};
pub use memory::{MemoryLimit, MemoryLimiter};
pub use outcome::{Metadata, Metering, Outcome, Output, Resource, TrapKind, changes, clipped, name_limit};
pub use policy::{Clock, Entropy, PolicyError, PolicyParts};
pub use soft_stop::{InterruptWords, SoftStop};
