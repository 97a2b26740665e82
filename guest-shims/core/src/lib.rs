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
//! | `host` | the host's state for a guest, the view that WASI calls have of it, and the platform's time and memory |
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
mod call;
pub mod contract;
mod display;
mod execution;
pub mod files;
pub mod grant;
mod guest;
pub mod guidance;
pub mod hibernate;
mod host;
mod json;
mod library;
mod limit_line;
mod limits;
mod memory;
mod outcome;
mod policy;
mod request;
pub mod session;
mod soft_stop;
mod standard_library;
pub mod tools;
mod value;

pub use boot::{BOOT_MONOTONIC_NS, BOOT_REALTIME_NS, GuestWorld, boot_wasi};
pub use call::{CallEnd, CallResult, GuestState, Refusal, Usage};
pub use display::{Display, Displays, Form, is_text};
pub use execution::{ExecutionCtx, Moment, Platform, Woken};
pub use glovebox_interpreters::{SCRATCH, WORKSPACE};
pub use guest::{Guest, GuestMachine, ImageDriver, Written};
pub use host::{CallHost, GuestHost, LinearMemory, Watch};
pub use json::{check_json, from_milliseconds, milliseconds};
pub use library::{LIBRARY_PATH, Library, LibraryFiles, PACKAGES_PATH};
pub use limit_line::name_limit;
pub use limits::{LimitError, Limits};
pub use memory::{MemoryLimit, MemoryLimiter};
pub use outcome::{Metadata, Metering, Outcome, Output, RaisedOutcome, Resource, TrapKind, changes, clipped};
pub use policy::{Clock, Entropy, PolicyError, PolicyParts};
pub use request::{Language, RequestError, UnknownLanguage, check_request};
pub use soft_stop::{InterruptWords, SoftStop};
pub use standard_library::{LibraryMount, StandardFiles};
pub use value::GuestValue;
