//! The provider component: `glovebox:sandbox` on interpreters that are woven into one WebAssembly module with this
//! code.
//!
//! Built for `wasm32-unknown-unknown`, this crate is the *shim*. `glovebox weave` adds one or two prepared
//! interpreters, each with its own memory and table, and meters their code. The result is a component that exports the
//! interface. It imports the tools and the clocks if the features `tools` and `clock` are enabled, and nothing else.
//!
//! All but two modules compile on any target and are tested natively. The trait [`Guests`] is the interface to the
//! woven module, and [`World`]'s [`Clocks`] are that to the component's host.
//!
//! * [`Provider`] implements the component's exports: [`Sandbox`] is a runtime with a policy, [`Guest`] a guest in it,
//!   and [`GuestMachine`] the driver's view of the guest.
//! * [`State`] is the host's state for a guest, apart from its memory. While a guest runs, its WASI calls find the
//!   state in [`entered`].
//! * [`Description`] is the weaver's description of the guests.
//!
//! The shim protects against scripts, provided that the host runs WebAssembly correctly. A compromised interpreter
//! reaches only its own memory, the WASI calls, and fuel. The shim does not protect the sessions of one caller from a
//! genuine trap of a guest: the trap ends the instance with all its sessions.

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
