//! The sandbox for components: `glovebox:sandbox` (`wit/`) in anybody's Wasmtime.
//!
//! * [`SandboxHost`]: an engine, what components are granted of it, and the tools of their scripts.
//! * [`SandboxCtx`]: the sandbox of one store. It owns what its component opened; dropping it frees all of it.
//! * [`add_to_linker`]: the interfaces `types`, `sandbox` and `tools`, for stores whose data has a [`SandboxView`].

mod bindings;
mod blob;
mod caller_tools;
mod convert;
mod ctx;
mod error;
mod files;
mod grant;
mod host;
mod kept;
mod quotas;
mod sandbox;
mod session;
mod started;
mod tools;

#[cfg(test)]
mod tests;

use wasmtime::component::{HasSelf, Linker};

use bindings::glovebox::sandbox as wit;

pub use ctx::{SandboxCtx, SandboxView};
pub use host::{HostError, SandboxHost, SandboxHostBuilder};
pub use quotas::{Quotas, Usage};

/// How many bytes one call of a component may hand to the host, as an embedder should set it with
/// [`Store::set_hostcall_fuel`](wasmtime::Store::set_hostcall_fuel): 32 MiB.
pub const LIFT_BYTES: usize = 32 << 20;

/// Adds the interfaces `types`, `sandbox` and `tools` of `glovebox:sandbox@0.1.0` to a linker.
///
/// # Errors
/// When the linker has one of them already.
pub fn add_to_linker<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wit::types::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit::sandbox::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit::tools::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)
}
