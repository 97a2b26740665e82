//! An adapter component that implements the routes of `glovebox serve` with `glovebox:sandbox`, for hosts that run
//! components.
//!
//! The adapter imports the sandbox, and exports `wasi:http/incoming-handler` of WASI 0.2 or, with the feature
//! `concurrent`, `wasi:http/handler` of WASI 0.3. When the adapter is composed with a provider, the result is one
//! component for any host that lets components answer HTTP requests. The adapter keeps no state between requests: the
//! client stores a session's sealed state and sends it with each request.
//!
//! * [`entry`] implements the component's export. All other modules compile on any target and are tested natively.
//! * `router` checks access and handles requests.
//! * `policy` reads the operator's settings from environment variables, and checks requests against the grant.
//! * `wire` defines request bodies, `answer` the JSON form of executions, and `http` responses and errors.
//!
//! The adapter protects the operator from clients: it enforces size limits and the policy, and rejects states that
//! it did not seal. The provider confines scripts. The key that seals states is in the adapter's memory, which is
//! separate from the provider's memory: neither scripts nor interpreters can access it.

mod answer;
pub mod entry;
mod http;
mod policy;
mod router;
mod wire;

/// Bindings that `wit-bindgen` generates from `wit/`: WASI's HTTP and environment interfaces, and the component's
/// export.
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
    #[cfg(not(feature = "concurrent"))]
    wit_bindgen::generate!({
        path: ["../../wit", "wit"],
        world: "glovebox:http/adapter",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "crate::bindings",
    });
    #[cfg(feature = "concurrent")]
    wit_bindgen::generate!({
        path: "wit/0.3",
        world: "glovebox:http/adapter-concurrent",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "crate::bindings",
    });

    #[cfg(target_family = "wasm")]
    use crate::entry::Adapter;

    #[cfg(target_family = "wasm")]
    export!(Adapter);
}
