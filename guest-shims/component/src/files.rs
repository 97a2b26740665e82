//! A workspace's files as they were at one moment.

use glovebox_core::files::{FileEntry, FileError, FileErrorKind, IfExists, Snapshot};
use glovebox_vfs::FileKind;

use crate::{
    bindings::types::{self, FileFailure, SandboxError},
    convert::MAX_READ_BYTES,
    error::clipped,
};

/// How many entries a list has at most.
const MAX_ENTRIES: usize = 10_000;

/// Files that nothing changes any more.
#[derive(Clone, Debug)]
pub struct Files(Snapshot);

impl Files {
    /// The files of a workspace.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        Self(snapshot)
    }

    /// What matches a pattern.
    pub fn list(&self, pattern: &str) -> Result<Vec<types::FileEntry>, SandboxError> {
        let entries = self.0.list(pattern).map_err(refused(pattern))?;
        if entries.len() > MAX_ENTRIES {
            let message =
                format!("{} files match, and a list has at most {MAX_ENTRIES}; narrow the pattern", entries.len());
            return Err(failure(types::FileError::Refused, pattern, message));
        }
        Ok(entries.into_iter().map(Into::into).collect())
    }

    /// What is at a path.
    pub fn stat(&self, path: &str) -> Result<types::FileEntry, SandboxError> {
        Ok(self.0.stat(path).map_err(refused(path))?.into())
    }

    /// Bytes of a file.
    pub fn read(&self, path: &str, offset: u64, len: u64) -> Result<Vec<u8>, SandboxError> {
        self.0.read(path, offset, Some(len.min(MAX_READ_BYTES))).map_err(refused(path))
    }
}

/// For `map_err`: an operation on files was refused.
pub(crate) fn refused(path: &str) -> impl FnOnce(FileError) -> SandboxError + use<'_> {
    move |error| {
        let kind = match error.kind() {
            FileErrorKind::InvalidPath => types::FileError::InvalidPath,
            FileErrorKind::NotFound => types::FileError::NotFound,
            FileErrorKind::Exists => types::FileError::Exists,
            FileErrorKind::WrongKind => types::FileError::WrongKind,
            FileErrorKind::NoSpace => types::FileError::NoSpace,
            FileErrorKind::Refused => types::FileError::Refused,
        };
        failure(kind, path, error.message())
    }
}

fn failure(kind: types::FileError, path: &str, message: String) -> SandboxError {
    SandboxError::File(FileFailure { kind, path: clipped(path).to_owned(), message })
}

impl From<FileEntry> for types::FileEntry {
    fn from(FileEntry { path, kind, size_bytes, modified_ns }: FileEntry) -> Self {
        let kind = match kind {
            FileKind::File => types::FileKind::File,
            FileKind::Directory => types::FileKind::Directory,
            FileKind::Symlink => types::FileKind::Symlink,
        };
        Self { path, kind, size_bytes, modified_ns }
    }
}

impl From<types::IfExists> for IfExists {
    fn from(if_exists: types::IfExists) -> Self {
        match if_exists {
            types::IfExists::Fail => Self::Fail,
            types::IfExists::Replace => Self::Replace,
        }
    }
}
