//! A snapshot of a workspace's files.

use glovebox_core::{
    contract::{MAX_LISTED_FILES, MAX_READ_BYTES, too_many_files},
    files::{FileError, Snapshot},
};

use crate::bindings::types::{self, SandboxError};

/// The files of a workspace at one moment.
#[derive(Clone, Debug)]
pub struct Files(Snapshot);

impl Files {
    /// Wraps a snapshot of a workspace.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }

    /// Lists the entries that match a pattern.
    pub fn list(&self, pattern: &str) -> Result<Vec<types::FileEntry>, SandboxError> {
        let entries = self.0.list(pattern).map_err(refused(pattern))?;
        if entries.len() > MAX_LISTED_FILES {
            let message = too_many_files(entries.len());
            return Err(SandboxError::from_file(types::FileError::Refused, pattern, message));
        }
        Ok(entries.into_iter().map(Into::into).collect())
    }

    /// Returns the entry at a path.
    pub fn stat(&self, path: &str) -> Result<types::FileEntry, SandboxError> {
        Ok(self.0.stat(path).map_err(refused(path))?.into())
    }

    /// Reads bytes of a file.
    pub fn read(&self, path: &str, offset: u64, len: u64) -> Result<Vec<u8>, SandboxError> {
        self.0.read(path, offset, Some(len.min(MAX_READ_BYTES))).map_err(refused(path))
    }
}

/// Returns a function for `map_err`, for a failed operation on `path`.
pub(crate) fn refused(path: &str) -> impl FnOnce(FileError) -> SandboxError + use<'_> {
    move |error| SandboxError::from_file(error.kind().into(), path, error.message())
}
