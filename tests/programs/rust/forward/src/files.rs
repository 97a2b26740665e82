//! The resource `files`.

use crate::bindings::{
    exports::glovebox::sandbox::sandbox::{Files, GuestFiles},
    glovebox::sandbox::{
        sandbox as inner,
        types::{FileEntry, SandboxError},
    },
};

/// A file snapshot of the inner provider.
pub struct Forwarded(inner::Files);

/// Returns a handle for the client.
pub fn given(files: inner::Files) -> Files {
    Files::new(Forwarded(files))
}

impl GuestFiles for Forwarded {
    fn list(&self, pattern: String) -> Result<Vec<FileEntry>, SandboxError> {
        self.0.list(&pattern)
    }

    fn stat(&self, path: String) -> Result<FileEntry, SandboxError> {
        self.0.stat(&path)
    }

    fn read(&self, path: String, offset: u64, len: u64) -> Result<Vec<u8>, SandboxError> {
        self.0.read(&path, offset, len)
    }
}
