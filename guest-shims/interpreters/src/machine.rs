//! The driver's access to a guest.

use glovebox_vfs::escaped;
use glovebox_wasi::{Errno, FileAt, Host, Stop, Wasi};

/// The guest path of the workspace.
pub const WORKSPACE: &str = "/app";

/// The guest path of the scratch directory. The directory is writable and counts against the workspace's quotas, but
/// its files are not reported as changed.
pub const SCRATCH: &str = "/tmp";

/// A WebAssembly value. The interpreters' function signatures use only these two types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// An `i32` as bits.
    I32(u32),
    /// An `i64` as bits.
    I64(u64),
}

/// A function to call in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee<'a> {
    /// The prepared module's export with this name.
    Export(&'a str),
    /// A slot of the exported function table `__table`.
    Table(u32),
}

/// The reason why a machine could not perform a driver's operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The guest was unwound and must never be entered again.
    #[error("the guest was unwound")]
    Stopped(Stop),
    /// The export, table slot or global does not exist, or has a different type.
    #[error("the guest has no usable `{name}`: the binary does not match the runtime's recipe", name = escaped(.0))]
    Missing(String),
    /// The guest's linear memory cannot grow.
    #[error("the guest's memory cannot grow by {pages} pages of 64 KiB")]
    CannotGrow {
        /// The number of requested pages of 64 KiB.
        pages: u32,
    },
    /// The address is outside the guest's linear memory.
    #[error("address {0:#x} is outside the guest's memory")]
    OutOfBounds(u32),
}

impl From<Stop> for MachineError {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// A driver's view of a guest instance.
///
/// The Rust host implements this trait with Wasmtime, and the provider component with WebAssembly intrinsics. Drivers
/// access a guest only through this trait, so they behave the same in both.
pub trait Machine {
    /// Calls a function in the guest. Returns `None` if the function has no result.
    fn call(&mut self, callee: Callee<'_>, args: &[Value]) -> Result<Option<Value>, MachineError>;

    /// Reads `into.len()` bytes of guest memory at `at`.
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), MachineError>;

    /// Writes all of `from` to guest memory at `at`.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), MachineError>;

    /// Returns the size of the linear memory in bytes.
    fn memory_bytes(&mut self) -> u64;

    /// Grows the linear memory by 64 KiB pages, and returns the old size in pages. Used only during preparation.
    fn grow(&mut self, pages: u32) -> Result<u32, MachineError>;

    /// Sets an exported mutable `i32` global. Used only during preparation, so the value becomes part of the image.
    fn set_global(&mut self, name: &str, value: u32) -> Result<(), MachineError>;

    /// Returns the value of an exported `i32` global.
    fn global(&mut self, name: &str) -> Result<u32, MachineError>;

    /// Runs `work` with the guest's WASI state and its host. Fuel that `work` charges is charged to the guest.
    fn with_wasi(
        &mut self,
        work: &mut dyn FnMut(&mut Wasi, &mut dyn Host) -> Result<(), Stop>,
    ) -> Result<(), MachineError>;

    /// Fills `into` with random bytes from the policy's entropy: the host's, or a seeded generator's.
    fn fill_random(&mut self, into: &mut [u8]) -> Result<(), MachineError> {
        self.with_wasi(&mut |wasi, host| {
            wasi.fill_random(host, into);
            Ok(())
        })
    }

    /// Returns the entry `name` in the workspace's top directory, without following a link. Reads at most `max_bytes`
    /// of a file. The guest is charged.
    fn file_at(&mut self, name: &str, max_bytes: u64) -> Result<Result<FileAt, Errno>, MachineError> {
        let mut found = Ok(FileAt::Nothing);
        self.with_wasi(&mut |wasi, host| {
            found = wasi.file_at(host, WORKSPACE, name, max_bytes)?;
            Ok(())
        })?;
        Ok(found)
    }

    /// Atomically writes a file to the workspace's top directory, with the guest's clock and within its limits. The
    /// guest is charged.
    fn replace_file(&mut self, name: &str, bytes: &[u8]) -> Result<Result<(), Errno>, MachineError> {
        let mut replaced = Ok(());
        self.with_wasi(&mut |wasi, host| {
            replaced = wasi.replace_file(host, WORKSPACE, name, bytes)?;
            Ok(())
        })?;
        Ok(replaced)
    }

    /// Returns the guest's WASI state, such as arguments, environment, standard input and clock.
    fn wasi(&mut self) -> &mut Wasi;
}
