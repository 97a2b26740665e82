//! A bundle: pinned files in one zip file, to be had without a network.

use std::fs::File;
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::entries::Pinned;
use crate::trusted::TrustedDir;
use crate::wheel::{self, WheelError};
use crate::{PackageEntry, Progress, ToolEntry};

/// Where pinned files are looked for before a network is asked: a zip file that has them under the names that they have in the
/// cache. What it holds is believed no more than what is fetched: each file is held to its pin.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(PathBuf);

impl Bundle {
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether all of these files are in it. What cannot be read has none.
    pub(crate) fn has(&self, files: &[Pinned]) -> bool {
        let archive = File::open(&self.0).map_err(Into::into).and_then(ZipArchive::new);
        archive.is_ok_and(|archive| files.iter().all(|pinned| archive.index_for_name(&pinned.file_name).is_some()))
    }

    /// Copies a file into the cache.
    pub(crate) fn take(&self, pinned: &Pinned, into: &TrustedDir, progress: &dyn Progress) -> Result<(), WheelError> {
        wheel::take_from(&self.0, &pinned.file_name, pinned, into, progress)
    }
}

impl PackageEntry {
    pub(crate) fn wheel(&self) -> Pinned {
        Pinned { file_name: self.file.clone(), sha256: self.sha256, size_bytes: self.size_bytes }
    }
}

impl ToolEntry {
    pub(crate) fn module(&self) -> Pinned {
        Pinned { file_name: self.file_name(), sha256: self.sha256, size_bytes: self.size_bytes }
    }
}
