//! The provider component: `glovebox:sandbox` on interpreters that are woven into one WebAssembly module with this
//! code.
//!
//! Built for `wasm32-unknown-unknown`, this crate is the *shim*. `glovebox weave` adds one or two prepared
//! interpreters, each with its own memory and table, and meters their code. The result is a component that exports the
//! interface. It imports the tools and the clocks if the features `tools` and `clock` are enabled, and nothing else.
//!
//! All but two modules compile for any target and have native tests. The [`Guests`] trait is the interface to the woven
//! module. The fields of [`World`], such as the [`Clocks`], are the interface to the component's host.
//!
//! * [`Provider`] implements the component's exports. [`Sandbox`] is a runtime with a policy, [`Guest`] is a guest in
//!   it, and [`GuestMachine`] is the driver's view of the guest.
//! * [`HostState`] is the host's state for a guest, without its memory. While a guest runs, its WASI calls access the
//!   state through [`running_guest`].
//! * [`Description`] is the weaver's description of the guests.
//!
//! The shim confines scripts, provided that the host runs WebAssembly correctly. A compromised interpreter reaches only
//! its own memory, the WASI calls, and fuel. A genuine trap in a guest ends the instance with all its sessions, even
//! those of other scripts.

mod library;
mod machine;
mod platform;
mod provider;
pub mod running_guest;
mod runtime;
mod sandbox;
mod session;
mod started;
#[cfg(test)]
mod tests;
mod world;

#[cfg(target_family = "wasm")]
mod entry;
#[cfg(target_family = "wasm")]
mod intrinsics;

pub use machine::{Guest, GuestMachine, GuestMemory};
pub use platform::{ComponentPlatform, ExecutionCtx, InlineRunner, Never, Stopwatch, Toolbox};
pub use provider::Provider;
pub use running_guest::HostState;
pub use runtime::{
    Description, GlobalDescription, GuestDescription, ImageRun, ImageRuns, LibraryDescription, Runtime, Weave,
};
pub use sandbox::{Sandbox, Task};
pub use session::{Session, Sessions};
pub use started::{Blob, Files, FinishedExecution, Started};
#[cfg(feature = "clock")]
pub use world::HostClocks;
#[cfg(feature = "tools")]
pub use world::HostTools;
pub use world::{CallOutcome, Clocks, Guests, LibraryBytes, Reading, ToolHost, UnwindReason, World};

/// The types and traits that `wit-bindgen` generates from `wit/`.
#[allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::cast_lossless,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "generated: the canonical ABI is raw memory, and the generator's names are WIT's"
)]
pub mod bindings {
    /// With tools, the component imports an interface, and the types come from that import.
    #[cfg(feature = "tools")]
    mod world {
        wit_bindgen::generate!({
            path: "../../wit",
            world: "provider",
            additional_derives: [PartialEq],
            pub_export_macro: true,
            default_bindings_module: "crate::bindings",
        });
        pub use glovebox::sandbox::types;
    }

    /// Without tools, the component imports no interface, and the types come from the export.
    #[cfg(not(feature = "tools"))]
    mod world {
        wit_bindgen::generate!({
            path: "../../wit",
            world: "provider-closed",
            additional_derives: [PartialEq],
            pub_export_macro: true,
            default_bindings_module: "crate::bindings",
        });
        pub use exports::glovebox::sandbox::types;
    }

    /// The clocks have a separate world. The component has the imports of both worlds.
    #[cfg(feature = "clock")]
    pub mod clocks {
        wit_bindgen::generate!({
            path: "../../wit",
            inline: "
                package glovebox:component;

                world clocks {
                    import wasi:clocks/monotonic-clock@0.2.12;
                    import wasi:clocks/wall-clock@0.2.12;
                }
            ",
            world: "glovebox:component/clocks",
            generate_all,
        });
    }

    pub use world::*;
}
