//! What every backend has in common: limits, policies, outcomes, saved sessions, files, the protocol of tools.
//!
//! Knows no WebAssembly engine, no host files, no threads and no clock, so that the Rust engine and the provider component
//! are held to one meaning by one code. What a backend adds is an instance to run ([`glovebox_interpreters::Machine`]), time,
//! and whatever of the host it gives to guests.
//!
//! | module | what it is |
//! |---|---|
//! | `limits`, `policy`, `request` | what is asked for, and what of it can be |
//! | `outcome`, `value`, `call`, `limit_line` | what a guest did, decided in one place |
//! | `guest` | an instance, and every call that is made into it |
//! | `host` | what is kept for a guest, and what its WASI calls see of it |
//! | `execution` | the current execution: its time, what may stop it, its calls of tools |
//! | `boot` | the world that an image boots with and its instances wake up to |
//! | `guidance` | what a failure means, and what to do about it |
//! | `memory`, `soft_stop` | limits in the making: memory under one sum, a last word before the end |
//! | `library` | files that every guest finds |
//! | `files` | a workspace, seen and changed from outside |
//! | `session` | what is kept of sessions, and when |
//! | `hibernate` | sessions as bytes |
//! | `tools` | functions that scripts may call |
//!
//! What guests did is told in types that are not `non_exhaustive`: every backend says all of it in the contract's words, and the
//! compiler is to find what one forgets. [`with_limits!`] does the same for the limits.

mod boot;
mod call;
mod duration;
mod execution;
pub mod files;
mod guest;
pub mod guidance;
pub mod hibernate;
mod host;
mod json;
mod language;
mod library;
mod limit_line;
mod limits;
mod memory;
mod outcome;
mod policy;
mod request;
pub mod session;
mod soft_stop;
pub mod tools;
mod value;

pub use boot::{BOOT_MONOTONIC_NS, BOOT_REALTIME_NS, GuestWorld, WORKSPACE, boot_wasi};
pub use call::{CallEnd, CallResult, GuestState, Refusal, Usage};
pub use duration::milliseconds;
pub use execution::{ExecutionCtx, Platform, Watch, Woken};
pub use guest::{Guest, GuestMachine, ImageDriver, Written};
pub use host::{CallHost, GuestHost, LinearMemory};
pub use json::check_json;
pub use language::{Language, UnknownLanguage};
pub use library::{LIBRARY_PATH, Library, LibraryFiles, PACKAGES_PATH};
pub use limit_line::name_limit;
pub use limits::{LimitError, Limits};
pub use memory::{MemoryLimit, MemoryLimiter};
pub use outcome::{Outcome, RaisedOutcome, Resource, TrapKind, clipped};
pub use policy::{Clock, Entropy, PolicyError, PolicyParts};
pub use request::{RequestError, check_request};
pub use soft_stop::{Pokes, SoftStop};
pub use value::GuestValue;
