//! `resource blob`: bytes that are too many for a list.

use std::{
    io::{self, Write},
    sync::Arc,
};

use glovebox_core::contract::part;
use wasmtime::component::Resource;

use super::{
    SandboxCtx,
    error::Failure,
    quotas::{Meter, Of, Share},
    wit::{sandbox::HostBlob, types::SandboxError},
};

/// The most bytes that a blob has to spare, so that many small appends are few large ones.
const MAX_SPARE_BYTES: usize = 1 << 20;

/// Bytes, and their share of what is held.
#[expect(unreachable_pub, reason = "the bindings export it again, in a private module as well")]
#[derive(Debug)]
pub struct Bytes {
    bytes: Vec<u8>,
    share: Share,
}

impl Bytes {
    pub(super) fn new(meter: &Arc<Meter>) -> Result<Self, SandboxError> {
        Ok(Self { bytes: Vec::new(), share: meter.take(Of::Bytes(0))? })
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds bytes, if there is room for them.
    pub(super) fn append(&mut self, more: &[u8]) -> Result<(), SandboxError> {
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

/// Why a blob took no more, within an error of writing.
#[derive(Debug, thiserror::Error)]
#[error("no room: {0:?}")]
pub(super) struct NoRoom(pub(super) SandboxError);

impl HostBlob for SandboxCtx {
    fn new(&mut self) -> wasmtime::Result<Resource<Bytes>> {
        // A constructor has no error to give.
        let told = |error| Failure::from(error).into_trap();
        let (handle, bytes) = (self.meter.take(Of::Handle).map_err(told)?, Bytes::new(&self.meter).map_err(told)?);
        self.put(handle, bytes).map_err(Failure::into_trap)
    }

    fn append(&mut self, blob: Resource<Bytes>, bytes: Vec<u8>) -> Result<(), Failure> {
        Ok(self.get_mut(&blob)?.append(&bytes)?)
    }

    fn size(&mut self, blob: Resource<Bytes>) -> wasmtime::Result<u64> {
        Ok(self.get(&blob)?.bytes.len() as u64)
    }

    fn read(&mut self, blob: Resource<Bytes>, offset: u64, len: u64) -> wasmtime::Result<Vec<u8>> {
        Ok(part(&self.get(&blob)?.bytes, offset, len).to_vec())
    }

    fn drop(&mut self, blob: Resource<Bytes>) -> wasmtime::Result<()> {
        self.take(blob).map(drop)
    }
}
