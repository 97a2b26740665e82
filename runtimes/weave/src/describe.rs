//! Description of the guests for the shim: JSON in a data segment of the woven module. A guest's standard library, if it
//! is a separate file, lies in a passive data segment, so unread parts take no memory.

use std::collections::BTreeMap;

use glovebox_runtimes::rewrite::GlobalKind;
use serde::Serialize;

use crate::{
    WeaveError,
    guest::{Read, count},
};

/// The guests and weaving options, as the shim receives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// The guests. A guest's number is its index in this list.
    pub guests: Vec<GuestDescription>,
    /// Options that the guests were woven with.
    pub weave: WeaveDescription,
}

/// A guest, as the shim receives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GuestDescription {
    /// The runtime's name.
    pub name: String,
    /// Further names of the runtime.
    pub aliases: Vec<String>,
    /// `python` or `javascript`.
    pub language: String,
    /// The driver, as recipes name it.
    pub driver: String,
    /// The interpreter's version.
    pub version: String,
    /// The digest of the prepared module, in hexadecimal.
    pub image_sha256: String,
    /// The size of the prepared memory in pages of 64 KiB.
    pub memory_pages: u32,
    /// Addresses in the image that the driver needs, by name.
    pub anchors: BTreeMap<String, u32>,
    /// Functions that the driver calls. A call names its index in this list.
    pub exports: Vec<String>,
    /// Mutable globals. A global's number is its index in this list.
    pub globals: Vec<GlobalDescription>,
    /// Layout of the image as alternating lengths: of zeros, then of bytes from its data segment. Everything after the
    /// last length is zero.
    pub image: Vec<u32>,
    /// The standard library, if it is a separate file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryDescription>,
}

/// A mutable global.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GlobalDescription {
    /// Name of the prepared module's export.
    pub export: String,
    /// Type of the global's value.
    pub kind: GlobalKind,
    /// Bits of the global's value in the image.
    pub value: u64,
}

/// Options that the guests were woven with, as the shim receives them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WeaveDescription {
    /// The weaver's version.
    pub version: String,
    /// Estimated limit of native stack for nested calls, in bytes.
    pub stack_bytes: u32,
}

impl Description {
    pub(crate) fn new(guests: &[Read<'_>], stack_bytes: u32) -> Self {
        let weave = WeaveDescription { version: env!("CARGO_PKG_VERSION").to_owned(), stack_bytes };
        Self { guests: guests.iter().map(GuestDescription::new).collect(), weave }
    }

    /// Encodes the description for the shim.
    pub(crate) fn to_json(&self) -> Result<Vec<u8>, WeaveError> {
        serde_json::to_vec(self).map_err(|error| WeaveError::Guests(error.to_string()))
    }
}

impl GuestDescription {
    fn new(read: &Read<'_>) -> Self {
        let globals = read.globals.iter().map(|(global, value)| GlobalDescription {
            export: global.export.clone(),
            kind: global.kind,
            value: *value,
        });
        Self {
            name: read.guest.name.to_owned(),
            aliases: read.guest.aliases.to_vec(),
            language: read.guest.language.to_owned(),
            driver: read.guest.driver.to_owned(),
            version: read.guest.version.to_owned(),
            image_sha256: read.guest.image_sha256.to_string(),
            memory_pages: read.memory_pages,
            anchors: read.guest.anchors.clone(),
            exports: read.guest.exports.to_vec(),
            globals: globals.collect(),
            image: read.image.lengths(),
            library: read.guest.library.as_ref().map(|library| library.describe()),
        }
    }
}

/// The library of a runtime: an archive that the guest sees as a file.
#[derive(Clone, Copy, Debug)]
pub struct GuestLibrary<'a> {
    /// Path of the archive in the guest's file system.
    pub guest_path: &'a str,
    /// Contents of the archive.
    pub archive: &'a [u8],
    /// Files beside the archive, by path relative to its directory.
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// Common directory of these files, relative to the archive's directory. Empty if there are no files.
    pub files_directory: &'a str,
}

/// The library, as the shim receives it. The segment contains the archive, then the files by ascending path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LibraryDescription {
    /// Path of the archive in the guest's file system.
    pub guest_path: String,
    /// Length of the archive in bytes.
    pub archive_bytes: u32,
    /// Common directory of the files, relative to the archive's directory.
    pub files_directory: String,
    /// Lengths of the files in bytes, by path.
    pub files: BTreeMap<String, u32>,
}

impl GuestLibrary<'_> {
    /// Iterates over the contents of the data segment.
    pub(crate) fn segment(&self) -> impl Iterator<Item = u8> {
        self.archive.iter().chain(self.files.values().flatten()).copied()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).fold(self.archive.len(), usize::saturating_add)
    }

    /// Rejects a library that is too large for 32-bit offsets.
    pub(crate) fn check(&self, guest: &str) -> Result<(), WeaveError> {
        match u32::try_from(self.bytes()) {
            Ok(_) => Ok(()),
            Err(_) => Err(WeaveError::unsupported(guest, "its library is larger than 4 GiB")),
        }
    }

    pub(crate) fn describe(&self) -> LibraryDescription {
        LibraryDescription {
            guest_path: self.guest_path.to_owned(),
            archive_bytes: count(self.archive),
            files_directory: self.files_directory.to_owned(),
            files: self.files.iter().map(|(path, bytes)| (path.clone(), count(bytes))).collect(),
        }
    }
}
