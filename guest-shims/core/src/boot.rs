//! The environment and the time in which an image boots and its instances resume.

use std::sync::Arc;

use glovebox_interpreters::WORKSPACE;
use glovebox_vfs::{Access, MountSource, Vfs, VfsLimits};
use glovebox_wasi::{Clock as WasiClock, Entropy as WasiEntropy, Mount, Wasi, WasiConfig, WasiError};

use crate::{Clock, Entropy, Limits};

/// Returns the WASI state in which an image boots and resumes, over a new file system. `/app` is the workspace: empty,
/// or filled with the given files, which the guest may change. The other sources are mounted read-only at their paths.
///
/// A booted libc remembers its preopened directories: `/app` as descriptor 3 and, for every possible mount, the virtual
/// directory `/` as descriptor 4. Instances of the image must have the same preopens.
pub fn boot_wasi(
    args: Vec<String>,
    env: Vec<(String, String)>,
    workspace: Option<Arc<dyn MountSource>>,
    mounts: Vec<(String, Arc<dyn MountSource>)>,
) -> Result<Wasi, WasiError> {
    let mut vfs = Vfs::new(VfsLimits::default());
    let root = match workspace {
        Some(files) => {
            vfs.add_mount(files, Access::ReadWrite).map_err(|_| WasiError::UnknownRoot(WORKSPACE.to_owned()))?
        }
        None => vfs.add_root(Access::ReadWrite),
    };
    let add = |(path, source): (String, Arc<dyn MountSource>)| match vfs.add_mount(source, Access::ReadOnly) {
        Ok(root) => Ok(Mount::new(path, root)),
        Err(_) => Err(WasiError::UnknownRoot(path)),
    };
    let mounts = mounts.into_iter().map(add).collect::<Result<Vec<_>, _>>()?;
    let mut config = WasiConfig::new(vfs);
    config.mounts = vec![Mount::new(WORKSPACE, root)];
    config.root_preopen = true;
    config.args = args;
    config.env = env;
    config.clock = WasiClock::Fixed { realtime_ns: BOOT_REALTIME_NS, monotonic_ns: BOOT_MONOTONIC_NS };
    config.entropy = WasiEntropy::seeded(0);
    let mut wasi = Wasi::new(config)?;
    for mount in mounts {
        // Mounts are not preopens, because every instance must have the same preopens.
        wasi.add_mount(mount)?;
    }
    wasi.allow_parking(true);
    Ok(wasi)
}

/// The parts of an instance's environment that are outside its memory.
#[derive(Debug)]
pub struct GuestWorld<'a> {
    /// Arguments of a plain command. Empty for an image: its libc holds those of its boot, and the driver passes a
    /// script's arguments to the interpreter.
    pub args: Vec<String>,
    /// Environment variables of a plain command. Empty for an image, like `args`.
    pub env: Vec<(String, String)>,
    /// The file system.
    pub vfs: Vfs,
    /// The mounts into `vfs`, `/app` first.
    pub mounts: Vec<Mount>,
    /// The limits on descriptors and streams.
    pub limits: &'a Limits,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// The clock that the guest reads.
    pub clock: Clock,
    /// The source of random numbers.
    pub entropy: Entropy,
}

impl GuestWorld<'_> {
    /// Returns the WASI state of a new instance.
    pub fn wasi(self) -> Result<Wasi, WasiError> {
        let mut wasi = boot_wasi(self.args, self.env, None, Vec::new())?;
        wasi.allow_parking(false);
        wasi.set_file_system(self.vfs, self.mounts)?;
        wasi.set_limits(self.limits.wasi());
        wasi.set_stdin(self.stdin);
        wasi.set_clock(match self.clock {
            Clock::Host => WasiClock::Host,
            Clock::Fixed(realtime_ns) => WasiClock::Fixed { realtime_ns, monotonic_ns: BOOT_MONOTONIC_NS },
        });
        wasi.set_entropy(self.entropy.wasi());
        Ok(wasi)
    }
}

/// Wall-clock time at boot, in nanoseconds: 2020-01-01T00:00:00Z. Later than any file time in the binaries, earlier
/// than any run.
pub const BOOT_REALTIME_NS: u64 = 1_577_836_800_000_000_000;

/// The monotonic clock at boot, in nanoseconds. Every guest's monotonic clock continues from it.
pub const BOOT_MONOTONIC_NS: u64 = 1_000_000_000;
