//! Bindings that `wit-bindgen` generates from `wit/`: WASI's HTTP and environment interfaces, and the component's
//! export.

#![allow(
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

wit_bindgen::generate!({
    path: ["../../wit", "wit"],
    world: "glovebox:http/adapter",
    generate_all,
    pub_export_macro: true,
    default_bindings_module: "crate::bindings",
});

#[cfg(target_family = "wasm")]
use crate::entry::Adapter;

#[cfg(target_family = "wasm")]
export!(Adapter);
