//! The provider component: `glovebox:sandbox` on interpreters that are woven into one WebAssembly module with this
//! code.
//!
//! Built for `wasm32-unknown-unknown`, this crate is the *shim*. `glovebox weave` adds one or two prepared
//! interpreters, each with its own memory and table, and meters their code. The result is a component that exports the
//! interface. It imports the tools and the clocks if the features `tools` and `clock` are enabled, and nothing else.
//!
//! The exports have version 0.2.0, whose calls block the component and its callers, or version 0.3.0 with the feature
//! `concurrent`. A component exports one of them, because hosts without asynchronous functions reject the other.
//!
//! All modules except the exports and the woven module's functions compile for any target and have native tests. The [`Guests`] trait is the interface to the woven
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

#[cfg(target_family = "wasm")]
mod common_exports;
#[cfg(all(target_family = "wasm", feature = "concurrent"))]
mod concurrent;
#[cfg(not(feature = "concurrent"))]
mod imports;
mod library;
mod live;
mod machine;
mod platform;
mod provider;
mod runner;
pub mod running_guest;
mod runtime;
mod sandbox;
mod session;
mod started;
#[cfg(test)]
mod tests;
mod wait;
mod world;

#[cfg(all(target_family = "wasm", not(feature = "concurrent")))]
mod entry;
#[cfg(target_family = "wasm")]
mod intrinsics;

#[cfg(all(target_family = "wasm", feature = "concurrent"))]
use concurrent::imports;
#[cfg(all(feature = "clock", not(feature = "concurrent")))]
pub use imports::HostClocks;
#[cfg(all(feature = "tools", not(feature = "concurrent")))]
pub use imports::HostTools;
pub use live::{Live, ObserverTask};
pub use machine::{Guest, GuestMachine, GuestMemory};
pub use platform::{ComponentPlatform, ExecutionCtx, Stopwatch, Toolbox};
pub use provider::Provider;
pub use runner::{CallRunner, Never};
pub use running_guest::HostState;
pub use runtime::{
    Description, GlobalDescription, GuestDescription, ImageRun, ImageRuns, LibraryDescription, Runtime, Weave,
};
pub use sandbox::{Sandbox, Task};
pub use session::{Session, Sessions};
pub use started::{Blob, Files, FinishedExecution, Started};
pub use world::{
    CallOutcome, Clocks, Guests, HostCall, HostCallFuture, LibraryBytes, Pause, Reading, ToolHost, UnwindReason, World,
};

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
    #[cfg(all(feature = "tools", not(feature = "concurrent")))]
    mod world {
        wit_bindgen::generate!({
            path: "../../wit",
            world: "provider",
            additional_derives: [PartialEq],
            pub_export_macro: true,
            default_bindings_module: "crate::bindings",
        });
        pub use exports::glovebox::sandbox::sandbox::SessionOptions;
        pub use glovebox::sandbox::{tools, types};
    }

    /// Without tools, the component imports no interface, and the types come from the export.
    #[cfg(not(any(feature = "tools", feature = "concurrent")))]
    mod world {
        wit_bindgen::generate!({
            path: "../../wit",
            world: "provider-closed",
            additional_derives: [PartialEq],
            pub_export_macro: true,
            default_bindings_module: "crate::bindings",
        });
        pub use exports::glovebox::sandbox::{sandbox::SessionOptions, types};
    }

    /// The world with tools of version 0.3.0.
    #[cfg(all(feature = "tools", feature = "concurrent"))]
    mod world {
        wit_bindgen::generate!({
            path: ["../../wit", "../../wit/0.3"],
            world: "glovebox:sandbox/provider@0.3.0",
            additional_derives: [PartialEq],
            pub_export_macro: true,
            default_bindings_module: "crate::bindings",
            generate_all,
        });
        pub use exports::glovebox::sandbox0_3_0::session::SessionOptions;
        pub use glovebox::{sandbox0_2_0::types, sandbox0_3_0::tools};
    }

    /// The world without tools of version 0.3.0.
    #[cfg(all(not(feature = "tools"), feature = "concurrent"))]
    mod world {
        wit_bindgen::generate!({
            path: ["../../wit", "../../wit/0.3"],
            world: "glovebox:sandbox/provider-closed@0.3.0",
            additional_derives: [PartialEq],
            pub_export_macro: true,
            default_bindings_module: "crate::bindings",
            generate_all,
        });
        pub use exports::glovebox::{sandbox0_2_0::types, sandbox0_3_0::session::SessionOptions};
    }

    /// The clocks have a separate world. The component has the imports of both worlds.
    #[cfg(all(feature = "clock", not(feature = "concurrent")))]
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

    /// The clocks of WASI 0.3, whose `wait-for` leaves the component's other calls running.
    #[cfg(all(feature = "clock", feature = "concurrent"))]
    pub mod clocks {
        wit_bindgen::generate!({
            inline: "
                package glovebox:component;

                world clocks {
                    import wasi:clocks/monotonic-clock@0.3.0;
                    import wasi:clocks/system-clock@0.3.0;
                }

                package wasi:clocks@0.3.0 {
                    interface types {
                        type duration = u64;
                    }

                    interface monotonic-clock {
                        use types.{duration};

                        type mark = u64;

                        now: func() -> mark;
                        wait-for: async func(how-long: duration);
                    }

                    interface system-clock {
                        record instant {
                            seconds: s64,
                            nanoseconds: u32,
                        }

                        now: func() -> instant;
                    }
                }
            ",
            world: "glovebox:component/clocks",
            generate_all,
        });
    }

    pub use world::*;
}
