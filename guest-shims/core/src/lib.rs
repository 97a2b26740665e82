//! What every backend has in common: limits, policies, outcomes, saved sessions, files, the protocol of tools.
//!
//! Knows no WebAssembly engine, no host files, no threads and no clock, so that the Rust engine and the provider component
//! are held to one meaning by one code. What a backend adds is an instance to run ([`glovebox_interpreters::Machine`]), time,
//! and whatever of the host it gives to guests.
//!
//! | module | what it is |
//! |---|---|
//! | `limits`, `policy`, `request` | what is asked for, and what of it can be |
//! | `outcome`, `value`, `ending`, `limit_line` | what a guest did, decided in one place |
//! | `boot` | the world that an image boots with and its instances wake up to |
//! | `guidance` | what a failure means, and what to do about it |
//! | `memory`, `soft_stop` | limits in the making: memory under one sum, a last word before the end |
//! | `library` | files that every guest finds |
//! | `files` | a workspace, seen and changed from outside |
//! | `contract` | conversions to and from the contract's generated types, and the bounds of its calls |
//! | `session` | what is kept of sessions, and when |
//! | `hibernate` | sessions as bytes |
//! | `tools` | functions that scripts may call |
//!
//! The types of results are not `non_exhaustive`: [`contract_conversions!`] destructures each of them, so that the compiler reports a
//! field that the contract does not have yet. [`with_limits!`] does the same for the limits.

mod boot;
pub mod contract;
mod duration;
mod ending;
pub mod files;
pub mod guidance;
pub mod hibernate;
mod json;
mod language;
mod library;
mod limit_line;
mod limits;
mod memory;
mod metadata;
mod outcome;
mod output;
mod persist;
mod policy;
mod request;
pub mod session;
mod soft_stop;
pub mod tools;
mod value;

pub use boot::{BOOT_MONOTONIC_NS, BOOT_REALTIME_NS, GuestWorld, WORKSPACE, boot_wasi};
pub use duration::milliseconds;
pub use ending::{After, Ending, Ran, Refusal, Spent};
pub use json::check_json;
pub use language::{Language, UnknownLanguage};
pub use library::{LIBRARY_PATH, Library, LibraryFiles, PACKAGES_PATH};
pub use limit_line::name_limit;
pub use limits::{LimitError, Limits};
pub use memory::{MemoryLimit, MemoryLimiter};
pub use metadata::Metadata;
pub use outcome::{Outcome, RaisedOutcome, Resource, TrapKind, clipped};
pub use output::Output;
pub use persist::hide_state_file;
pub use policy::{Clock, Entropy, PolicyError, PolicyParts};
pub use request::{RequestError, check_request};
pub use soft_stop::{Pokes, SoftStop, WordMemory};
pub use value::GuestValue;
