//! What the weaver says of the guests it has put beside the shim.

use std::collections::BTreeMap;

use serde::Deserialize;

/// All that the shim knows of the guests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The guests, by their number.
    pub guests: Vec<GuestDescription>,
    /// How they were woven in.
    pub weave: Weave,
}

/// One guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestDescription {
    /// The runtime's name.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// `python` or `javascript`.
    pub language: String,
    /// How it is driven: `cpython`, `quickjs-reactor`, `quickjs-command`.
    pub driver: String,
    /// The interpreter's version.
    pub version: String,
    /// The SHA-256 of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the prepared memory in 64 KiB pages.
    pub memory_pages: u32,
    /// Addresses that the driver knows the image by.
    pub anchors: BTreeMap<String, u32>,
    /// Functions that the driver calls; a call names its place in this list.
    pub exports: Vec<String>,
    /// Mutable globals, in the order of their numbers.
    pub globals: Vec<GlobalDescription>,
    /// What the pristine image consists of, as lengths by turns: of zeros, of bytes that are in its data segment. Behind it is nothing
    /// but zeros.
    pub image: Vec<u32>,
}

/// A mutable global.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalDescription {
    /// The name it is exported by in the prepared module.
    pub export: String,
    /// `i32`, `i64`, `f32`, `f64`.
    pub kind: String,
    /// The bits that it has in the image.
    pub value: u64,
}

/// How the guests were woven in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weave {
    /// The weaver's version.
    pub version: String,
    /// The stack that guests' calls are held to.
    pub stack_bytes: u32,
}
