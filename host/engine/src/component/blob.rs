//! `resource blob`: bytes that exceed the limits of a list.

use glovebox_core::contract::part;
use wasmtime::component::Resource;

use super::{SandboxCtx, bindings::Failure, bytes::Bytes, quotas::Of, wit::sandbox::HostBlob};

impl HostBlob for SandboxCtx {
    fn new(&mut self) -> wasmtime::Result<Resource<Bytes>> {
        // A constructor cannot return an error, so it traps.
        let told = |error| Failure::from(error).into_trap();
        let (handle, bytes) = (self.meter.take(Of::Handle).map_err(told)?, Bytes::new(&self.meter).map_err(told)?);
        self.put(handle, bytes).map_err(Failure::into_trap)
    }

    fn append(&mut self, blob: Resource<Bytes>, bytes: Vec<u8>) -> Result<(), Failure> {
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
