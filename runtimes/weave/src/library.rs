//! A guest's standard library, if it is a separate file. It lies in a passive data segment, so unread parts take no
//! memory.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{WeaveError, module::count};

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
