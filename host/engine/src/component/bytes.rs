//! Bytes that the host holds for a component.

use std::{
    io::{self, Write},
    sync::Arc,
};

use super::quotas::{Meter, Of, OverQuota, Share};

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
        Ok(Self { bytes: Vec::new(), share: meter.take(Of::Bytes(0))? })
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
