//! The types and traits that `wit-bindgen` generates from `wit/`.

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
