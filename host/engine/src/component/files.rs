//! `resource files`: a snapshot of a workspace. `resource blob`: bytes that exceed the limits of a list.

use std::{
    io::{self, Write},
    sync::Arc,
};

use glovebox_core::contract::{MAX_LISTED_FILES, MAX_READ_BYTES, part, too_many_files};
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    error::{SandboxFailure, refused},
    quotas::{Meter, OverQuota, QuotaUse, Share},
    wit::{
        sandbox::{HostBlob, HostFiles},
        types::{FileEntry, FileError, SandboxError},
    },
};
use crate::Files;

impl SandboxCtx {
    /// Adds a snapshot as a resource. Its full size counts, although it shares unchanged contents with its session.
    pub(super) fn put_files(&mut self, files: Files) -> Result<Resource<Snapshot>, SandboxFailure> {
        let share = self.meter.take(QuotaUse::Bytes(files.held_bytes()))?;
        let handle = self.meter.take(QuotaUse::Handle)?;
        self.put(handle, Snapshot::new(files, share))
    }
}

impl HostFiles for SandboxCtx {
    fn list(&mut self, files: Resource<Snapshot>, pattern: String) -> Result<Vec<FileEntry>, SandboxFailure> {
        let entries = self.get(&files)?.files().list(&pattern).map_err(refused(&pattern))?;
        if entries.len() > MAX_LISTED_FILES {
            let message = too_many_files(entries.len());
            return Err(SandboxError::from_file(FileError::Refused, &pattern, message).into());
        }
        Ok(entries.into_iter().map(FileEntry::from).collect())
    }

    fn stat(&mut self, files: Resource<Snapshot>, path: String) -> Result<FileEntry, SandboxFailure> {
        Ok(self.get(&files)?.files().stat(&path).map_err(refused(&path))?.into())
    }

    fn read(
        &mut self,
        files: Resource<Snapshot>,
        path: String,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>, SandboxFailure> {
        self.get(&files)?.files().read_at(&path, offset, len.min(MAX_READ_BYTES)).map_err(refused(&path))
    }

    fn drop(&mut self, files: Resource<Snapshot>) -> wasmtime::Result<()> {
        self.take(files).map(drop)
    }
}

/// A snapshot of files with its share of the quota.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Debug)]
pub struct Snapshot {
    files: Files,
    _share: Share,
}

impl Snapshot {
    pub(super) fn new(files: Files, share: Share) -> Self {
        Self { files, _share: share }
    }

    pub(super) fn files(&self) -> &Files {
        &self.files
    }
}

impl HostBlob for SandboxCtx {
    fn new(&mut self) -> wasmtime::Result<Resource<Bytes>> {
        // A constructor cannot return an error, so it traps.
        let told = |error| SandboxFailure::from(error).into_trap();
        let (handle, bytes) =
            (self.meter.take(QuotaUse::Handle).map_err(told)?, Bytes::new(&self.meter).map_err(told)?);
        self.put(handle, bytes).map_err(SandboxFailure::into_trap)
    }

    fn append(&mut self, blob: Resource<Bytes>, bytes: Vec<u8>) -> Result<(), SandboxFailure> {
        Ok(self.get_mut(&blob)?.append(&bytes)?)
    }

    fn size(&mut self, blob: Resource<Bytes>) -> wasmtime::Result<u64> {
        Ok(self.get(&blob)?.as_slice().len() as u64)
    }

    fn read(&mut self, blob: Resource<Bytes>, offset: u64, len: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(part(self.get(&blob)?.as_slice(), offset, len).to_vec())
    }

    fn drop(&mut self, blob: Resource<Bytes>) -> wasmtime::Result<()> {
        self.take(blob).map(drop)
    }
}

/// Maximum spare capacity of a blob. Spare capacity makes many small appends cheap.
const MAX_SPARE_BYTES: usize = 1 << 20;

/// Bytes with their share of the quota.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Debug)]
pub struct Bytes {
    bytes: Vec<u8>,
    share: Share,
}

impl Bytes {
    pub(super) fn new(meter: &Arc<Meter>) -> Result<Self, OverQuota> {
        Ok(Self { bytes: Vec::new(), share: meter.take(QuotaUse::Bytes(0))? })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends bytes, if the quota permits.
    pub(super) fn append(&mut self, more: &[u8]) -> Result<(), OverQuota> {
        let wanted = self.bytes.len().saturating_add(more.len());
        if wanted > self.bytes.capacity() {
            let roomy = wanted.saturating_add(wanted.min(MAX_SPARE_BYTES));
            let capacity = match self.share.resize(roomy as u64) {
                Ok(()) => roomy,
                Err(_) => {
                    self.share.resize(wanted as u64)?;
                    wanted
                }
            };
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(|error| io::Error::other(NoRoom(error)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The exceeded quota, wrapped in an I/O error.
#[derive(Debug, thiserror::Error)]
#[error("no room: {0:?}")]
pub(super) struct NoRoom(pub(super) OverQuota);
