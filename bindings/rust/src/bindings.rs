//! The generated bindings of the world `client`. Use them in your own interfaces that mention the sandbox's types:
//!
//! ```text
//! wit_bindgen::generate!({
//!     world: "my-world",
//!     with: {
//!         "glovebox:sandbox/types@0.2.0": glovebox_guest::bindings::glovebox::sandbox::types,
//!         "glovebox:sandbox/sandbox@0.2.0": glovebox_guest::bindings::glovebox::sandbox::sandbox,
//!     },
//! });
//! ```
//!
//! The crate re-exports the records and variants at its root, and wraps the resources in its own types.

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
    path: "../../wit",
    world: "client",
    additional_derives: [PartialEq, Eq],
});
