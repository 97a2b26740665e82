//! Bundles: pinned files in one zip file, for use without a network.

use std::fs::File;
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::entries::Pinned;
use crate::trusted::TrustedDir;
use crate::wheel::{self, WheelError};
use crate::{PackageEntry, Progress, ToolEntry};

/// A zip file that is searched for pinned files before the network, under their names in the cache. Its contents are
/// verified like a download: each file must match its pin.
#[derive(Clone, Debug)]
pub(crate) struct Bundle(PathBuf);

impl Bundle {
    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns `true` if the bundle contains all of these files. An unreadable bundle contains none.
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
