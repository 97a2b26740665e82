//! Version 0.3.0 of the contract, for components that make asynchronous calls. The calls of one component run
//! concurrently on other threads, or wait in a queue, and output and events are streams.

mod call;
mod live;
mod sandbox;
mod session;
mod session_call;
mod started;
mod streams;

use self::glovebox::sandbox0_3_0::{sandbox as wit, session as wit_session, tools as wit_tools};
use wasmtime::component::{HasSelf, Linker};

use super::{SandboxCtx, SandboxView, convert::SandboxFailure};

pub(super) fn add_to_linker<T: SandboxView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wit::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit_session::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)?;
    wit_tools::add_to_linker::<T, HasSelf<SandboxCtx>>(linker, T::sandbox)
}

wasmtime::component::bindgen!({
    path: ["wit", "wit/0.3"],
    inline: "
        package glovebox:host-concurrent;

        world host {
            import glovebox:sandbox/sandbox@0.3.0;
            import glovebox:sandbox/session@0.3.0;
            import glovebox:sandbox/tools@0.3.0;
        }
    ",
    world: "glovebox:host-concurrent/host",
    imports: {
        // These functions need the store, because they create streams in it.
        "glovebox:sandbox/sandbox@0.3.0.[method]started.stdout": store | trappable,
        "glovebox:sandbox/sandbox@0.3.0.[method]started.stderr": store | trappable,
        "glovebox:sandbox/sandbox@0.3.0.[method]started.events": store | trappable,
        // A call with an invalid handle traps.
        default: trappable,
    },
    trappable_error_type: { "glovebox:sandbox/types@0.2.0.sandbox-error" => SandboxFailure },
    with: {
        // Both versions of the contract use the types of 0.2.0.
        "glovebox:sandbox/types@0.2.0": crate::wit::types,
        "glovebox:sandbox/sandbox@0.3.0.started": crate::concurrent::started::ConcurrentExecution,
        "glovebox:sandbox/session@0.3.0.session": crate::session::SessionResource,
    },
});
