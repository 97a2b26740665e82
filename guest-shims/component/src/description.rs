//! The weaver's description of the guests beside the shim.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Everything that the shim knows of the guests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The guests, by their number.
    pub guests: Vec<GuestDescription>,
    /// How they were woven.
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
    /// Addresses in the image that the driver needs.
    pub anchors: BTreeMap<String, u32>,
    /// Functions that the driver calls, by their index in this list.
    pub exports: Vec<String>,
    /// Mutable globals, in the order of their numbers.
    pub globals: Vec<GlobalDescription>,
    /// The pristine image, as alternating lengths: of zeros, and of bytes from its data segment. After it there is nothing
    /// but zeros.
    pub image: Vec<u32>,
    /// Its standard library, where that is a file of its own.
    #[serde(default)]
    pub library: Option<LibraryDescription>,
}

/// A library: an archive in a data segment, and behind it other files in the order of their paths.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryDescription {
    /// The archive's path in guests.
    pub guest_path: String,
    /// The archive's length.
    pub archive_bytes: u32,
    /// The directory that all other files are in, from the archive's directory on.
    pub files_directory: String,
    /// The lengths of the files, by their paths from the archive's directory on.
    pub files: BTreeMap<String, u32>,
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

/// How the guests were woven.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weave {
    /// The weaver's version.
    pub version: String,
    /// The stack that guests' calls are held to.
    pub stack_bytes: u32,
}
