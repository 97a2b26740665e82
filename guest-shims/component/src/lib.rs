//! The provider component: `glovebox:sandbox` on interpreters that are woven into one WebAssembly module with this code.
//!
//! Built for `wasm32-unknown-unknown` this crate is the *shim*. `glovebox weave` puts one or two prepared interpreters beside it,
//! each with a memory and a table of its own, meters their code, and makes a component of the whole, which exports the interface
//! and imports the tools and the clocks that the features `tools` and `clock` ask for: without them, nothing.
//!
//! Everything but two modules compiles anywhere, and is tested where it is developed: what the woven module gives the shim is the
//! trait [`Guests`], what its host gives it are [`World`]'s [`Clocks`].
//!
//! * [`Provider`] is what the component exports: [`Sandbox`] is a runtime with a policy, [`Guest`] a guest in it, [`GuestMachine`] what a
//!   driver sees of that.
//! * [`State`] is what the sandbox holds for a guest beside its memory. While a guest runs it lies where the guest's WASI calls find it
//!   ([`entered`]).
//! * [`Description`] is what the weaver says of the guests.
//!
//! It protects against what a script does, as far as the host runs WebAssembly as it should: an interpreter that is broken into reaches
//! its own memory, the WASI calls, and fuel. It does not protect sessions of one caller from a guest's genuine trap: the
//! instance ends with it, and all its sessions.

pub mod bindings;

mod blob;
mod convert;
mod description;
pub mod entered;
mod error;
mod executed;
mod files;
mod guest;
mod guests;
#[cfg(feature = "clock")]
mod host_clocks;
#[cfg(feature = "tools")]
mod host_tools;
mod image_runs;
mod library;
mod machine;
mod memory;
mod platform;
mod policy;
mod provider;
mod residence;
mod runtime;
mod sandbox;
mod session;
mod standard_library;
mod started;
mod state;
#[cfg(test)]
mod tests;
mod toolbox;
mod watch;
mod world;

#[cfg(target_family = "wasm")]
mod entry;
#[cfg(target_family = "wasm")]
mod intrinsics;

pub use blob::Blob;
pub use description::{Description, GlobalDescription, GuestDescription, LibraryDescription, Weave};
pub use executed::Executed;
pub use files::Files;
pub use guest::Guest;
pub use guests::{Called, Guests, LibraryBytes, Unwound};
#[cfg(feature = "clock")]
pub use host_clocks::HostClocks;
#[cfg(feature = "tools")]
pub use host_tools::HostTools;
pub use image_runs::{ImageRun, ImageRuns};
pub use machine::GuestMachine;
pub use memory::GuestMemory;
pub use platform::{ComponentPlatform, ExecutionCtx, InlineRunner, Never};
pub use provider::Provider;
pub use runtime::Runtime;
pub use sandbox::{Sandbox, Task};
pub use session::{Session, Sessions};
pub use started::Started;
pub use state::State;
pub use toolbox::Toolbox;
pub use watch::Stopwatch;
pub use world::{Clocks, Reading, ToolHost, World};
