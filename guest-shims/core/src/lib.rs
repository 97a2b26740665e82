//! The parts that every backend shares: limits, policies, outcomes, saved sessions, files, the tools protocol.
//!
//! The crate uses no WebAssembly engine, no host files, no threads and no clock. The Rust engine and the provider
//! component therefore run the same code and behave alike. A backend adds an instance to run
//! ([`glovebox_interpreters::Machine`]), time, and the parts of the host that it gives to guests.
//!
//! | module | contents |
//! |---|---|
//! | `limits`, `policy`, `request` | the input of an execution, and its checks |
//! | `outcome`, `value`, `call`, `limit_line` | the result of an execution, decided in one place |
//! | `guest` | an instance, and every call into it |
//! | `host` | the host's state for a guest, and the view that WASI calls have of it |
//! | `watch`, `linear_memory` | time and memory, as the platform provides them |
//! | `execution` | the current execution: its time, its stop conditions, its tool calls |
//! | `boot` | the environment in which an image boots and its instances resume |
//! | `guidance` | explanations of failures, with advice |
//! | `memory`, `soft_stop` | limits during an execution: memory as one sum, and the soft limit |
//! | `library`, `standard_library` | files that every guest has, and the interpreter's standard library |
//! | `files` | access to a workspace from outside |
//! | `contract` | conversions to and from the contract's generated types, and the bounds of its calls |
//! | `session` | the saved state of sessions, and when it is saved |
//! | `hibernate` | sessions as bytes |
//! | `tools` | functions that scripts may call |
//!
//! Types that describe a guest's results are not `non_exhaustive`: [`contract_conversions!`] destructures each of them,
//! so that the compiler reports a field that the contract does not have yet. [`with_limits!`] does the same for the
//! limits.

mod boot;
mod boot_time;
mod call;
pub mod contract;
mod display;
mod duration;
mod execution;
pub mod files;
pub mod grant;
mod guest;
pub mod guidance;
pub mod hibernate;
mod host;
mod json;
mod language;
mod library;
mod limit_line;
mod limits;
mod linear_memory;
mod memory;
mod metadata;
mod outcome;
mod output;
mod persist;
mod policy;
mod request;
pub mod session;
mod soft_stop;
mod standard_library;
pub mod tools;
mod value;
mod watch;

pub use boot::{GuestWorld, boot_wasi};
pub use boot_time::{BOOT_MONOTONIC_NS, BOOT_REALTIME_NS};
pub use call::{CallEnd, CallResult, GuestState, Refusal, Usage};
pub use display::{Display, Displays, Form, is_text};
pub use duration::{from_milliseconds, milliseconds};
pub use execution::{ExecutionCtx, Moment, Platform, Woken};
pub use glovebox_interpreters::{SCRATCH, WORKSPACE};
pub use guest::{Guest, GuestMachine, ImageDriver, Written};
pub use host::{CallHost, GuestHost};
pub use json::check_json;
pub use language::{Language, UnknownLanguage};
pub use library::{LIBRARY_PATH, Library, LibraryFiles, PACKAGES_PATH};
pub use limit_line::name_limit;
pub use limits::{LimitError, Limits};
pub use linear_memory::LinearMemory;
pub use memory::{MemoryLimit, MemoryLimiter};
pub use metadata::{Metadata, Metering};
pub use outcome::{Outcome, RaisedOutcome, Resource, TrapKind, clipped};
pub use output::Output;
pub use persist::changes;
pub use policy::{Clock, Entropy, PolicyError, PolicyParts};
pub use request::{RequestError, check_request};
pub use soft_stop::{InterruptWords, SoftStop};
pub use standard_library::{LibraryMount, StandardFiles};
pub use value::GuestValue;
pub use watch::Watch;
