//! The sandbox for components: `glovebox:sandbox` (`wit/`) in anybody's Wasmtime.
//!
//! ```no_run
//! use glovebox::{Engine, EngineConfig, component::{self, SandboxCtx, SandboxHost, SandboxView}};
//! use wasmtime::{Store, component::{Component, Linker}};
//!
//! /// The data of a store: the sandbox, and whatever else its component gets.
//! struct State {
//!     sandbox: SandboxCtx,
//! }
//!
//! impl SandboxView for State {
//!     fn sandbox(&mut self) -> &mut SandboxCtx {
//!         &mut self.sandbox
//!     }
//! }
//!
//! // Guests have an engine of their own; this one is the embedder's, with whatever its components need.
//! let host = SandboxHost::builder(&Engine::new(EngineConfig::default())?).build()?;
//! let wasmtime = wasmtime::Engine::default();
//! let mut linker = Linker::new(&wasmtime);
//! component::add_to_linker::<State>(&mut linker)?;
//!
//! let mut store = Store::new(&wasmtime, State { sandbox: host.ctx() });
//! store.set_hostcall_fuel(component::LIFT_BYTES);
//! let app = Component::from_file(&wasmtime, "app.wasm")?;
//! let instance = linker.instantiate(&mut store, &app)?;
//! instance.get_typed_func::<(), ()>(&mut store, "run")?.call(&mut store, ())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The types to know:
//!
//! * [`SandboxHost`]: an engine, the policy that components are granted of it, their quotas, the tools of their scripts.
//! * [`SandboxCtx`]: the sandbox of one store. It owns what its component opened: no other store reaches it, and dropping it
//!   cancels and frees all of it.
//! * [`Quotas`]: what one store's component may use in all, whatever its policies say. [`Usage`]: what it has used.
//! * [`add_to_linker`]: the interfaces `types`, `sandbox` and `tools`, for stores whose data is a [`SandboxView`];
//!   [`add_to_linker_async`]: the same for stores that are called asynchronously.
//!
//! # What the embedder has to bound
//!
//! A script is held to its policy, and what a component holds of the sandbox to its quotas. The component itself is the
//! embedder's: its fuel, its memory, its time (`glovebox-component-runner` does all of that). Two bounds are for the sandbox's sake:
//!
//! * [`Store::set_hostcall_fuel`](wasmtime::Store::set_hostcall_fuel) says how many bytes one call may hand to the host; see
//!   [`LIFT_BYTES`].
//! * A call into the sandbox takes as long as the script runs, and blocks its thread unless it came through
//!   [`add_to_linker_async`]: `limits.timeout_ms` bounds that, and [`SandboxCtx::cancel_token`] ends it from another thread. The
//!   embedder's epochs and fuel do not count meanwhile.

mod async_linker;
mod bindings;
mod blob;
mod bytes;
mod caller_tools;
mod convert;
mod ctx;
mod error;
mod files;
mod grant;
mod host;
mod quotas;
mod sandbox;
mod session;
mod session_resource;
mod snapshot;
mod started;
mod stepped;
mod thread_call;
mod tools;

#[cfg(test)]
mod tests;

use wasmtime::component::{HasSelf, Linker};

use bindings::glovebox::sandbox as wit;

pub use ctx::{SandboxCtx, SandboxView};
pub use host::{HostError, SandboxHost, SandboxHostBuilder};
pub use quotas::{Quotas, Usage};

/// How many bytes one call of a component should be able to hand to the host, for
/// [`Store::set_hostcall_fuel`](wasmtime::Store::set_hostcall_fuel): 32 MiB, room for standard input, source, arguments
/// and environment of the default limits, each at its most. Wasmtime's own default is 128 MiB.
///
/// Wasmtime counts the bytes of strings and lists as they come out of the component's memory, and for each element of a list
/// what the host takes to hold it: before anything is allocated, so that a length that is only claimed costs nothing. What is over it
/// traps the component, before the sandbox has heard of the call. What the host gives to the component is bounded by the interface
/// (lists of 16 MiB, 10,000 entries) and goes into the component's own memory.
///
/// An embedder that grants a larger `limits.stdin_bytes` or `limits.source_bytes` needs more.
pub const LIFT_BYTES: usize = 32 << 20;

/// Adds the interfaces `types`, `sandbox` and `tools` of `glovebox:sandbox@0.2.0` to a linker.
///
/// The functions are synchronous: they work in stores that are called synchronously and in those that are called
/// asynchronously, and block the thread that calls either way. A host on an asynchronous runtime takes [`add_to_linker_async`].
///
/// # Errors
/// When the linker has one of these interfaces already.
pub fn add_to_linker<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit::sandbox::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit::tools::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)
}

/// As [`add_to_linker`], for stores that are called asynchronously, on any runtime: what runs a script or may wait for one does so on a
/// thread of its own, and the thread that calls is free meanwhile. Instances of such a linker are made and called by Wasmtime's functions
/// that end in `_async`.
///
/// A call that is dropped before it has returned cancels what it runs, and takes the sandbox of its store with it: whatever the store's
/// components ask of it later is a trap. As many threads run at once as calls are awaited.
///
/// # Errors
/// When the linker has one of these interfaces already.
pub fn add_to_linker_async<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    async_linker::add_sandbox(linker)?;
    async_linker::add_tools(linker)
}
