//! The configuration and limits of a guest.

use glovebox_vfs::Vfs;
use glovebox_vfs::escaped;

use crate::{Clock, Entropy, Mount, StringError};

/// Limits on the host memory held for a guest. All are finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasiLimits {
    /// Bytes of standard output retained per execution (default 2,000,000). The guest may write more: the excess is
    /// counted, charged and dropped.
    pub stdout_bytes: u64,
    /// Bytes of standard error retained per execution (default 1,000,000).
    pub stderr_bytes: u64,
    /// Bytes of one message to the tools device (default 1 MiB). A longer message fails with `EMSGSIZE`.
    pub tool_bytes: u64,
    /// Retained bytes of the displays of one execution (default 8 MiB). A display that does not fit is counted and
    /// dropped, and so are all later ones; the guest's write succeeds.
    pub display_bytes: u64,
    /// Open descriptors, including standard streams and preopens (default 256). A further one fails with `EMFILE`.
    pub open_files: u32,
    /// Bytes of linear memory, file system, output, displays, standard input, arguments, environment and the tools
    /// device together (default 128,000,000). Beyond the limit, the file system returns `ENOSPC` and the device
    /// `ENOMEM`; output is dropped as beyond its cap.
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
    /// Preopens from descriptor 3 on, in this order.
    pub mounts: Vec<Mount>,
    /// Adds a preopen `/`: a read-only directory that contains nothing but the mounts.
    ///
    /// A C library asks for its preopens once, so a guest that was snapshotted afterwards does not see mounts that were
    /// added later. However, it sends every path that none of its preopens covers to `/`, where mounts are looked up on
    /// each call. This also makes a path outside every mount visible here. Such a path is refused (`EACCES`, or
    /// `ENOENT` for a look-up) and recorded, while the library would refuse it silently.
    pub root_preopen: bool,
    /// The limits on host memory.
    pub limits: WasiLimits,
    /// The arguments, with the program's name first.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Standard input, followed by end of file.
    pub stdin: Vec<u8>,
    /// The clock that the guest reads.
    pub clock: Clock,
    /// The source of random bytes.
    pub entropy: Entropy,
}

impl WasiConfig {
    /// Creates a configuration without mounts and arguments, with default limits, and for a deterministic guest: clocks
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

/// The reason for rejecting a [`WasiConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WasiError {
    /// An argument or variable that cannot be passed to the guest.
    #[error("the arguments or environment cannot be passed to the guest")]
    String(#[from] StringError),
    /// The path is not absolute and normalized.
    #[error("cannot mount at `{name}`; use an absolute path without `.`, `..` or doubled slashes", name = escaped(.0))]
    MountPath(String),
    /// The path of a device ([`NULL_DEVICE`](crate::NULL_DEVICE), [`TOOLS_DEVICE`](crate::TOOLS_DEVICE)).
    #[error("`{name}` is the path of a device; mount somewhere else", name = escaped(.0))]
    MountAtDevice(String),
    /// Two mounts have the same path.
    #[error("`{name}` is mounted twice; give each mount a path of its own", name = escaped(.0))]
    MountTwice(String),
    /// The mount's root does not belong to this file system.
    #[error("the file system has no root for `{name}`; add the root to the same file system first", name = escaped(.0))]
    UnknownRoot(String),
    /// A preopen of the image has no mount.
    #[error("the image was made with `{name}` preopened; mount something there", name = escaped(.0))]
    PreopenWithoutMount(String),
    /// There are more mounts than descriptors.
    #[error("no descriptor is left to preopen `{name}`; raise the limit on open files", name = escaped(.0))]
    TooManyMounts(String),
}
