//! `resource files`: a snapshot of a workspace.

use glovebox_core::contract::{MAX_LISTED_FILES, MAX_READ_BYTES, too_many_files};
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    bindings::Failure,
    error::refused,
    quotas::Of,
    snapshot::Snapshot,
    wit::{
        sandbox::HostFiles,
        types::{FileEntry, FileError, SandboxError},
    },
};
use crate::Files;

impl SandboxCtx {
    /// Adds a snapshot as a resource. Its full size counts, although it shares unchanged contents with its session.
    pub(super) fn put_files(&mut self, files: Files) -> Result<Resource<Snapshot>, Failure> {
        let share = self.meter.take(Of::Bytes(files.held_bytes()))?;
        let handle = self.meter.take(Of::Handle)?;
        self.put(handle, Snapshot::new(files, share))
    }
}

impl HostFiles for SandboxCtx {
    fn list(&mut self, files: Resource<Snapshot>, pattern: String) -> Result<Vec<FileEntry>, Failure> {
        let entries = self.get(&files)?.files().list(&pattern).map_err(refused(&pattern))?;
        if entries.len() > MAX_LISTED_FILES {
            let message = too_many_files(entries.len());
            return Err(SandboxError::from_file(FileError::Refused, &pattern, message).into());
        }
        Ok(entries.into_iter().map(FileEntry::from).collect())
    }

    fn stat(&mut self, files: Resource<Snapshot>, path: String) -> Result<FileEntry, Failure> {
        Ok(self.get(&files)?.files().stat(&path).map_err(refused(&path))?.into())
    }

    fn read(&mut self, files: Resource<Snapshot>, path: String, offset: u64, len: u64) -> Result<Vec<u8>, Failure> {
        self.get(&files)?.files().read_at(&path, offset, len.min(MAX_READ_BYTES)).map_err(refused(&path))
    }

    fn drop(&mut self, files: Resource<Snapshot>) -> wasmtime::Result<()> {
        self.take(files).map(drop)
    }
}
