//! A guest's configuration and limits, with its arguments and environment.

use glovebox_vfs::{Vfs, escaped};

use crate::{
    Clock, Entropy, Errno, Host, Mount,
    host::Call,
    memory::{check, guest_size, write_u32},
    prices,
};

/// Limits on the host memory that a guest can occupy. All are finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasiLimits {
    /// Maximum amount of standard output retained per execution, in bytes (default 2,000,000). The guest can write
    /// more: excess bytes are counted, charged and dropped.
    pub stdout_bytes: u64,
    /// Maximum amount of standard error retained per execution, in bytes (default 1,000,000).
    pub stderr_bytes: u64,
    /// Maximum size of one message to the tools device, in bytes (default 1 MiB). A longer message fails with
    /// `EMSGSIZE`.
    pub tool_bytes: u64,
    /// Maximum total size of displays retained per execution, in bytes (default 8 MiB). The first display that does
    /// not fit and all later displays are counted and dropped; the guest's write succeeds.
    pub display_bytes: u64,
    /// Maximum number of open descriptors, including standard streams and preopens (default 256). Opening a further
    /// descriptor fails with `EMFILE`.
    pub open_files: u32,
    /// Maximum total bytes of linear memory, file system, output, displays, standard input, arguments, environment and
    /// replies of devices (default 128,000,000). Beyond the limit, the file system returns `ENOSPC` and devices return
    /// `ENOMEM`; output is dropped as if it exceeded its own limit.
    pub memory_bytes: u64,
}

impl Default for WasiLimits {
    fn default() -> Self {
        Self {
            stdout_bytes: 2_000_000,
            stderr_bytes: 1_000_000,
            tool_bytes: 1024 * 1024,
            display_bytes: 8 << 20,
            open_files: 256,
            memory_bytes: 128_000_000,
        }
    }
}

/// The initial state of a guest.
#[derive(Debug)]
pub struct WasiConfig {
    /// The file system. `mounts` assigns paths to its roots.
    pub vfs: Vfs,
    /// Mounts that are preopened in this order, starting at descriptor 3.
    pub mounts: Vec<Mount>,
    /// `true` to add a preopen `/`: a read-only directory that contains only the mounts.
    ///
    /// A C library requests its preopens only once, so a guest that was snapshotted afterwards does not see mounts
    /// that were added later. However, the library looks up a path in `/` if no other preopen covers it, and mounts in
    /// `/` are resolved at each call. Paths outside every mount then also reach the host, which refuses and records
    /// them (`EACCES`, or `ENOENT` for a lookup). Without the preopen, the library refuses such paths silently.
    pub root_preopen: bool,
    /// The limits on host memory.
    pub limits: WasiLimits,
    /// The arguments, beginning with the program's name.
    pub args: Vec<String>,
    /// The environment variables.
    pub env: Vec<(String, String)>,
    /// Standard input, followed by end of file.
    pub stdin: Vec<u8>,
    /// The clock that the guest reads.
    pub clock: Clock,
    /// The source of the guest's random bytes.
    pub entropy: Entropy,
}

impl WasiConfig {
    /// Creates a configuration without mounts or arguments, with default limits, and for a deterministic guest: clocks
    /// fixed at zero, entropy from seed 0.
    pub fn new(vfs: Vfs) -> Self {
        Self {
            vfs,
            mounts: Vec::new(),
            root_preopen: false,
            limits: WasiLimits::default(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: Vec::new(),
            clock: Clock::Fixed { realtime_ns: 0, monotonic_ns: 0 },
            entropy: Entropy::seeded(0),
        }
    }
}

/// Errors from validating a [`WasiConfig`] or mounts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WasiError {
    /// An argument or environment variable cannot be passed to the guest.
    #[error("the arguments or environment cannot be passed to the guest")]
    String(#[from] StringError),
    /// The mount path is not absolute, or not normalized.
    #[error("cannot mount at `{name}`; use an absolute path without `.`, `..` or double slashes", name = escaped(.0))]
    MountPath(String),
    /// The mount path belongs to a device such as [`NULL_DEVICE`](crate::NULL_DEVICE), to a standard stream or to
    /// `/dev/fd`, or is below one of these paths.
    #[error("`{name}` is the path of a device; use another mount path", name = escaped(.0))]
    MountAtDevice(String),
    /// Two mounts have the same path.
    #[error("`{name}` is mounted twice; use a different path for each mount", name = escaped(.0))]
    MountTwice(String),
    /// The mount's root does not belong to this file system.
    #[error("the file system has no root for `{name}`; add the root to the same file system first", name = escaped(.0))]
    UnknownRoot(String),
    /// A preopen of the image has no mount.
    #[error("the image expects a mount at `{name}`; mount a directory there", name = escaped(.0))]
    PreopenWithoutMount(String),
    /// There are more preopened mounts than descriptors.
    #[error("no descriptor is left to preopen `{name}`; raise the limit on open files", name = escaped(.0))]
    TooManyMounts(String),
}

/// An error for an argument or environment variable that cannot be passed to a guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StringError {
    /// The text contains a NUL byte, which would end the C string.
    #[error("`{name}` contains a NUL byte; remove it", name = escaped(.0))]
    Nul(String),
    /// The name of an environment variable is empty or contains `=`.
    #[error("`{name}` is not a valid name for an environment variable; it must not be empty or contain `=`", name = escaped(.0))]
    Name(String),
}

/// A list of strings without NUL, each stored with a final NUL byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strings {
    list: Vec<Vec<u8>>,
    total_bytes: u64,
}

impl Strings {
    pub(crate) fn new(strings: impl IntoIterator<Item = String>) -> Result<Self, StringError> {
        let mut list = Vec::new();
        let mut total_bytes = 0_u64;
        for string in strings {
            if string.contains('\0') {
                return Err(StringError::Nul(string));
            }
            let mut bytes = string.into_bytes();
            bytes.push(0);
            total_bytes = total_bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            list.push(bytes);
        }
        Ok(Self { list, total_bytes })
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(crate) fn sizes<H: Host>(&self, host: &mut H, count_at: u32, bytes_at: u32) -> Call {
        let count = guest_size(self.list.len())?;
        let bytes = u32::try_from(self.total_bytes).map_err(|_| Errno::Overflow)?;
        check(host, bytes_at, 4)?;
        write_u32(host, count_at, count)?;
        write_u32(host, bytes_at, bytes)
    }

    pub(crate) fn deliver<H: Host>(&self, host: &mut H, pointers_at: u32, bytes_at: u32) -> Call {
        let count = u64::try_from(self.list.len()).unwrap_or(u64::MAX);
        host.charge(prices::ELEMENT.saturating_mul(count).saturating_add(prices::bytes(self.total_bytes)))?;
        check(host, pointers_at, count.saturating_mul(4))?;
        check(host, bytes_at, self.total_bytes)?;
        let (mut pointer_at, mut at) = (pointers_at, bytes_at);
        for bytes in &self.list {
            write_u32(host, pointer_at, at)?;
            host.write(at, bytes)?;
            // Both arrays are inside memory, so these additions saturate only after the last string of a full memory.
            pointer_at = pointer_at.saturating_add(4);
            at = at.saturating_add(guest_size(bytes.len())?);
        }
        Ok(())
    }
}
