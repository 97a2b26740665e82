//! The sandbox for components: `glovebox:sandbox` (`wit/`) for any Wasmtime embedding.
//!
//! ```no_run
//! use glovebox::{Engine, EngineConfig};
//! use glovebox_component_host::{LIFT_BYTES, SandboxCtx, SandboxHost, SandboxView, add_to_linker};
//! use wasmtime::{Store, component::{Component, Linker}};
//!
//! /// The data of a store: the sandbox, and everything else that its component needs.
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
//! // Scripts run on the engine of `host`. Components run on `wasmtime`, whose `Config` enables the features that they
//! // need.
//! let host = SandboxHost::builder(&Engine::new(EngineConfig::default())?).build()?;
//! let wasmtime = wasmtime::Engine::default();
//! let mut linker = Linker::new(&wasmtime);
//! add_to_linker::<State>(&mut linker)?;
//!
//! let mut store = Store::new(&wasmtime, State { sandbox: host.ctx() });
//! store.set_hostcall_fuel(LIFT_BYTES);
//! let app = Component::from_file(&wasmtime, "app.wasm")?;
//! let instance = linker.instantiate(&mut store, &app)?;
//! instance.get_typed_func::<(), ()>(&mut store, "run")?.call(&mut store, ())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The main types:
//!
//! * [`SandboxHost`]: an engine, the policy and the quotas granted to components, and the tools of their scripts.
//! * [`SandboxCtx`]: the sandbox of one store. It owns all resources that the store's component opened. Other stores
//!   cannot access these resources. Dropping the sandbox cancels the component's executions and frees the resources.
//! * [`Quotas`]: limits on the total usage of one store's component, in addition to its policies. [`Usage`]: the
//!   component's usage so far.
//! * [`add_to_linker`]: adds the interfaces `types`, `sandbox` and `tools` for stores whose data is a [`SandboxView`].
//!   [`add_to_linker_async`]: adds these interfaces for stores that are called asynchronously.
//!   [`add_to_linker_concurrent`]: adds the draft of version 0.3.0, in which a component makes several calls at the
//!   same time.
//!
//! # Limits that the embedder must set
//!
//! The policy limits scripts, and the quotas limit the component's use of the sandbox. The embedder must limit the
//! component itself: its fuel, its memory and its time (`glovebox-component-runner` limits all three). Calls into the
//! sandbox need limits too:
//!
//! * [`Store::set_hostcall_fuel`](wasmtime::Store::set_hostcall_fuel) limits the bytes that one call can pass to the
//!   host. See [`LIFT_BYTES`].
//! * A call that runs a script lasts until the script ends, and blocks its thread unless the linker was set up with
//!   [`add_to_linker_async`] or [`add_to_linker_concurrent`]. `limits.timeout_ms` limits the duration of the call, and
//!   [`SandboxCtx::cancel_token`] ends the call from another thread. The embedder's epochs and fuel have no effect
//!   during the call.

mod async_linker;
mod call_queue;
mod caller_tools;
mod concurrent;
mod convert;
mod ctx;
mod quotas;
mod sandbox;
mod session;
mod started;
mod suspended;
mod thread_call;

#[cfg(test)]
mod tests;

use convert::glovebox::sandbox as wit;
use wasmtime::component::{HasSelf, Linker};

pub use ctx::{HostError, SandboxCtx, SandboxHost, SandboxHostBuilder, SandboxView};
pub use quotas::{Quotas, Usage};

/// Recommended limit on the bytes that one call of a component can pass to the host, for
/// [`Store::set_hostcall_fuel`](wasmtime::Store::set_hostcall_fuel): 32 MiB. That is enough for standard input, source,
/// arguments and environment, each at its maximum under the default limits. Wasmtime's default is 128 MiB.
///
/// Wasmtime counts the bytes of strings and lists in the component's memory, and the host memory for each list element.
/// Wasmtime counts before it allocates, so a false length costs nothing. A call that exceeds the limit traps the
/// component before the sandbox receives the call. The interface bounds the results (lists of 16 MiB, 10,000 entries),
/// which use the component's own memory.
///
/// Embedders need a higher limit if they grant a larger `limits.stdin_bytes` or `limits.source_bytes`, or if their
/// components suspend scripts with large input outside sessions: `sandbox.resume-suspended` of version 0.3.0 takes one
/// list with the request, up to 2 MiB of recorded input, and the arguments of the unanswered calls. In sessions, the
/// bytes are a stream.
pub const LIFT_BYTES: usize = 32 << 20;

/// Adds the interfaces `types`, `sandbox` and `tools` of `glovebox:sandbox@0.2.0` to a linker.
///
/// The functions are synchronous. They can be used in stores that are called synchronously or asynchronously, and block
/// the calling thread in both cases. Hosts with an asynchronous runtime should use [`add_to_linker_async`].
///
/// # Errors
/// Fails if the linker already has one of these interfaces.
pub fn add_to_linker<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit::sandbox::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit::tools::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)
}

/// Like [`add_to_linker`], but for stores that are called asynchronously, on any runtime. A call that runs a script or
/// a tool, or may wait for a script, runs on another thread and does not block the calling thread. Instantiate and call
/// components with Wasmtime's `_async` functions.
///
/// Dropping the future of a call cancels all executions of the store's sandbox and makes the sandbox unusable: later
/// calls from the store's component into the sandbox trap. Each call in progress occupies one thread. The
/// engine reuses these threads, and ends them after 10 seconds without a call.
///
/// # Errors
/// Fails if the linker already has one of these interfaces.
pub fn add_to_linker_async<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    async_linker::add_sandbox(linker)?;
    async_linker::add_tools(linker)
}

/// Adds the interfaces `sandbox`, `session` and `tools` of `glovebox:sandbox@0.3.0` to a linker. Version 0.3.0 is a
/// draft, which can change. The interfaces of version 0.2.0 can be added to the same linker, and both versions share the
/// store's quotas.
///
/// Calls of one component run concurrently, and no thread of the embedder waits for a script. At most
/// [`Quotas::calls_at_once`] calls have a thread, and further calls wait in order. In addition, each started execution,
/// and each call that starts or suspends an execution or calls a tool, has a thread. The engine reuses the threads of
/// calls, and ends them after 10 seconds without a call.
///
/// Call components in [`Store::run_concurrent`](wasmtime::Store::run_concurrent). If a component drops a call, the
/// call's script is cancelled, and a call that waits leaves the queue. Output and events are streams, which the host
/// buffers only within the policy's limits. Files and saved sessions are streams, whose bytes count against
/// [`Quotas::held_bytes`].
///
/// # Errors
/// Fails if the linker already has one of these interfaces, or if its engine does not support concurrency
/// ([`Config::concurrency_support`](wasmtime::Config::concurrency_support)).
pub fn add_to_linker_concurrent<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    concurrent::add_to_linker(linker)
}
