//! What a guest is given and how much of it.

use glovebox_vfs::Vfs;
use glovebox_vfs::escaped;

use crate::{Clock, Entropy, Mount, StringError};

/// Limits on what the host side holds for a guest. All are finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WasiLimits {
    /// Kept bytes of standard output per execution (default 2,000,000). The guest may write more: it is counted,
    /// charged and dropped.
    pub stdout_bytes: u64,
    /// Kept bytes of standard error per execution (default 1,000,000).
    pub stderr_bytes: u64,
    /// Bytes of one message to the tools device (default 1 MiB); a longer one is refused with `EMSGSIZE`.
    pub tool_bytes: u64,
    /// Open descriptors, standard streams and preopens included (default 256); beyond it the guest sees `EMFILE`.
    pub open_files: u32,
    /// Linear memory, file system, output, standard input, arguments, environment and the tools device together (default
    /// 128,000,000). The file system beyond it: `ENOSPC`; a message to the device: `ENOMEM`; output is dropped as past its cap.
    pub memory_bytes: u64,
}

impl Default for WasiLimits {
    fn default() -> Self {
        Self {
            stdout_bytes: 2_000_000,
            stderr_bytes: 1_000_000,
            tool_bytes: 1024 * 1024,
            open_files: 256,
            memory_bytes: 128_000_000,
        }
    }
}

/// A guest's world at its start.
#[derive(Debug)]
pub struct WasiConfig {
    /// The file system; its roots are seen where `mounts` says.
    pub vfs: Vfs,
    /// Preopens from descriptor 3 on, in this order.
    pub mounts: Vec<Mount>,
    /// Whether one more preopen follows, `/`: a read-only directory that holds nothing but the mounts.
    ///
    /// A C library asks for its preopens once, so a guest that was snapshotted after that does not know mounts that
    /// were added later. It does send every path that no preopen of its own covers to `/`, and there mounts are looked up anew
    /// each time. Besides, a path outside every mount then reaches us, is refused (`EACCES`, or `ENOENT` for a mere look) and recorded, where
    /// otherwise the library would refuse it in silence.
    pub root_preopen: bool,
    /// Limits.
    pub limits: WasiLimits,
    /// Arguments, the program's name first.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// Standard input; at its end there is end of file.
    pub stdin: Vec<u8>,
    /// Clock.
    pub clock: Clock,
    /// Entropy.
    pub entropy: Entropy,
}

impl WasiConfig {
    /// Nothing mounted and nothing passed, default limits, and a guest that is the same each time: clocks fixed at zero,
    /// entropy from seed 0.
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

/// Why a guest's world cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WasiError {
    /// An argument or variable that cannot be passed on.
    #[error("the guest's arguments or environment cannot be passed on")]
    String(#[from] StringError),
    /// Not an absolute, normalized path.
    #[error("cannot mount at `{name}`; use an absolute path without `.`, `..` or doubled slashes", name = escaped(.0))]
    MountPath(String),
    /// A path that is a device's ([`NULL_DEVICE`](crate::NULL_DEVICE), [`TOOLS_DEVICE`](crate::TOOLS_DEVICE)).
    #[error("`{name}` is where a device is; mount somewhere else", name = escaped(.0))]
    MountAtDevice(String),
    /// Two mounts at one path.
    #[error("`{name}` is mounted twice; give each mount a path of its own", name = escaped(.0))]
    MountTwice(String),
    /// The mount's root is not one of this file system.
    #[error("the file system has no root for `{name}`; add the root to the same file system first", name = escaped(.0))]
    UnknownRoot(String),
    /// A preopen of the image has no mount.
    #[error("the image was made with `{name}` preopened; mount something there", name = escaped(.0))]
    PreopenWithoutMount(String),
    /// More mounts than descriptors.
    #[error("no descriptor is left to preopen `{name}`; raise the limit on open files", name = escaped(.0))]
    TooManyMounts(String),
}
