//! The resource `blob`.

use crate::bindings::{
    exports::glovebox::sandbox::sandbox::{Blob, GuestBlob},
    glovebox::sandbox::{sandbox as inner, types::SandboxError},
};

/// A blob of the inner provider, which stores the bytes.
pub struct Forwarded(pub inner::Blob);

/// Returns a handle for the client.
pub fn given(blob: inner::Blob) -> Blob {
    Blob::new(Forwarded(blob))
}

impl GuestBlob for Forwarded {
    fn new() -> Self {
        Self(inner::Blob::new())
    }

    fn append(&self, bytes: Vec<u8>) -> Result<(), SandboxError> {
        self.0.append(&bytes)
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        self.0.read(offset, len)
    }
}
