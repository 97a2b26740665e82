//! The weaver's description of the guests.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Description of all guests.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The guests by number.
    pub guests: Vec<GuestDescription>,
    /// The parameters of the weave.
    pub weave: Weave,
}

/// Description of one guest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestDescription {
    /// The runtime's name.
    pub name: String,
    /// Further names.
    pub aliases: Vec<String>,
    /// `python` or `javascript`.
    pub language: String,
    /// The name of the driver: `cpython`, `quickjs-reactor` or `quickjs-command`.
    pub driver: String,
    /// The interpreter's version.
    pub version: String,
    /// The SHA-256 of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the prepared memory in 64 KiB pages.
    pub memory_pages: u32,
    /// Addresses in the image that the driver needs.
    pub anchors: BTreeMap<String, u32>,
    /// Functions that the driver calls, by index.
    pub exports: Vec<String>,
    /// Mutable globals, by number.
    pub globals: Vec<GlobalDescription>,
    /// The pristine image as alternating lengths, of zeros and of bytes from its data segment. The rest of the memory
    /// is zero.
    pub image: Vec<u32>,
    /// The standard library, if it is a separate file.
    #[serde(default)]
    pub library: Option<LibraryDescription>,
}

/// A standard library: an archive in a data segment, followed by other files in the order of their paths.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LibraryDescription {
    /// The guest path of the archive.
    pub guest_path: String,
    /// The length of the archive in bytes.
    pub archive_bytes: u32,
    /// The directory of all other files, relative to the archive's directory.
    pub files_directory: String,
    /// The lengths of the other files, by path relative to the archive's directory.
    pub files: BTreeMap<String, u32>,
}

/// A mutable global.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GlobalDescription {
    /// The export name in the prepared module.
    pub export: String,
    /// The type: `i32`, `i64`, `f32` or `f64`.
    pub kind: String,
    /// The value in the image, as bits.
    pub value: u64,
}

/// Parameters of the weave.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weave {
    /// The weaver's version.
    pub version: String,
    /// The stack limit of guests' calls in bytes.
    pub stack_bytes: u32,
}
