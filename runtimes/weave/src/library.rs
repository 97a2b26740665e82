//! A guest's standard library, where that is a file of its own: it lies in a data segment, of which nothing is in memory before somebody
//! reads it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{WeaveError, module::count};

/// The library of a runtime: an archive, which guests see as a file.
#[derive(Clone, Copy, Debug)]
pub struct GuestLibrary<'a> {
    /// The archive's path in guests.
    pub guest_path: &'a str,
    /// The archive.
    pub archive: &'a [u8],
    /// Files beside it, by their paths from its directory on.
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// The directory that these are all in, from there on; empty if there are none.
    pub files_directory: &'a str,
}

/// What the shim is told of it. The segment has the archive first, then the files in the order of their paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LibraryDescription {
    /// The archive's path in guests.
    pub guest_path: String,
    /// The archive's length.
    pub archive_bytes: u32,
    /// The directory that the files are in.
    pub files_directory: String,
    /// The lengths of the files, by their paths.
    pub files: BTreeMap<String, u32>,
}

impl GuestLibrary<'_> {
    /// The segment.
    pub(crate) fn segment(&self) -> impl Iterator<Item = u8> {
        self.archive.iter().chain(self.files.values().flatten()).copied()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.files.values().map(Vec::len).fold(self.archive.len(), usize::saturating_add)
    }

    /// Refuses one that the shim could not address.
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
