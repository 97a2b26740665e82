//! The driver's access to a guest.

use glovebox_vfs::escaped;
use glovebox_wasi::{Errno, FileAt, Host, Stop, Wasi};

/// The guest path of the workspace.
pub const WORKSPACE: &str = "/app";

/// The guest path of the scratch directory. It is writable, counts with the workspace's files, and is not included in
/// the changed files.
pub const SCRATCH: &str = "/tmp";

/// A WebAssembly value, of the two types in the interpreters' function signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// An `i32` as bits.
    I32(u32),
    /// An `i64` as bits.
    I64(u64),
}

/// The function to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee<'a> {
    /// An export of the prepared module, by name.
    Export(&'a str),
    /// A slot of the exported function table `__table`.
    Table(u32),
}

/// The reason why a machine could not carry out a driver's operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The guest was unwound; it must never be entered again.
    #[error("the guest was unwound")]
    Stopped(Stop),
    /// The export, table slot or global does not exist, or has another type.
    #[error("the guest has no usable `{name}`; its binary does not match its recipe", name = escaped(.0))]
    Missing(String),
    /// The address is outside the guest's linear memory.
    #[error("address {0:#x} lies outside the guest's memory")]
    OutOfBounds(u32),
}

impl From<Stop> for MachineError {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// A driver's view of a guest instance.
///
/// The Rust host implements this with Wasmtime, and the provider component with wasm intrinsics. Drivers have no other
/// handle on the guest, so they behave the same in both.
pub trait Machine {
    /// Calls into the guest. Returns `None` for a function without a result.
    fn call(&mut self, callee: Callee<'_>, args: &[Value]) -> Result<Option<Value>, MachineError>;

    /// Reads guest memory.
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), MachineError>;

    /// Writes guest memory.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), MachineError>;

    /// Returns the size of the linear memory in bytes.
    fn memory_bytes(&mut self) -> u64;

    /// Grows the linear memory by whole 64 KiB pages and returns the old size in pages. Only used during preparation.
    fn grow(&mut self, pages: u32) -> Result<u32, MachineError>;

    /// Sets an exported mutable `i32` global. Only used during preparation, so the value becomes part of the image.
    fn set_global(&mut self, name: &str, value: u32) -> Result<(), MachineError>;

    /// Returns the value of an exported `i32` global.
    fn global(&mut self, name: &str) -> Result<u32, MachineError>;

    /// Runs `work` with the guest's WASI state and its host. The fuel that `work` charges is the guest's.
    fn with_wasi(
        &mut self,
        work: &mut dyn FnMut(&mut Wasi, &mut dyn Host) -> Result<(), Stop>,
    ) -> Result<(), MachineError>;

    /// Fills `into` from the policy's entropy (the host's, or the seeded generator).
    fn fill_random(&mut self, into: &mut [u8]) -> Result<(), MachineError> {
        self.with_wasi(&mut |wasi, host| {
            wasi.fill_random(host, into);
            Ok(())
        })
    }

    /// Returns the entry `name` at the top of the workspace, without following a link. Reads at most `max_bytes` of a
    /// file. The guest is charged.
    fn file_at(&mut self, name: &str, max_bytes: u64) -> Result<Result<FileAt, Errno>, MachineError> {
        let mut found = Ok(FileAt::Nothing);
        self.with_wasi(&mut |wasi, host| {
            found = wasi.file_at(host, WORKSPACE, name, max_bytes)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Writes a file at the top of the workspace, completely or not at all, with the guest's clock and within its
    /// limits. The guest is charged.
    fn replace_file(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Errno>, MachineError> {
        let mut replaced = Ok(());
        self.with_wasi(&mut |wasi, host| {
            replaced = wasi.replace_file(host, WORKSPACE, name, bytes)?;
            Ok(())
        })?;
        Ok(replaced)
    }

    /// Returns the guest's WASI state: arguments, environment, standard input, clock.
    fn wasi(&mut self) -> &mut Wasi;
}
