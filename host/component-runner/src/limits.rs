//! Resource limits of applications.

use glovebox::component::LIFT_BYTES;

/// Limits of one run of an application. They apply to the component's own code; its scripts have the limits of the
/// sandbox. Every limit is finite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppLimits {
    /// Fuel, about one unit per WebAssembly operator. Host functions cost no fuel; the wall-clock time limits them. The
    /// component traps when fuel is exhausted. Default: 10^11, some minutes of computation.
    pub fuel: u64,
    /// Bytes of all linear memories and tables (eight per element), and of the host's data for instances: globals,
    /// segments, and function references, at least some kilobytes.
    ///
    /// `memory.grow` beyond the limit returns -1, as WebAssembly specifies; most programs then trap. A component whose
    /// instances alone exceed the limit does not start. Default: 512 MiB.
    pub memory_bytes: u64,
    /// Wall-clock milliseconds from the start, including waits and scripts. Default: 600,000 (ten minutes).
    pub timeout_ms: u64,
    /// Elements of all tables together. `table.grow` beyond this limit or `memory_bytes` fails. Default: 1,000,000.
    pub table_elements: u64,
    /// Instances of core modules in the component. Default: 1,000. The number of memories is limited to a tenth of it,
    /// because each reserves 4 GiB of address space.
    pub instances: usize,
    /// Resource handles at any time, over all component instances. One more traps. Default: 50,000. The sandbox has a
    /// smaller quota for its own resources.
    pub handles: usize,
    /// WASI resources at any time: open files, directories, streams, sockets, timers. One more traps. The default of
    /// 512 stops an application from using up the descriptors of this process.
    pub wasi_handles: usize,
    /// Bytes that one call may pass to the host, or an export return, by their size in the host. More traps. Default:
    /// 32 MiB.
    pub lift_bytes: usize,
}

impl Default for AppLimits {
    fn default() -> Self {
        Self {
            fuel: 100_000_000_000,
            memory_bytes: 512 << 20,
            timeout_ms: 600_000,
            table_elements: 1_000_000,
            instances: 1_000,
            handles: 50_000,
            wasi_handles: 512,
            lift_bytes: LIFT_BYTES,
        }
    }
}

impl AppLimits {
    /// Returns limits for one tool call: 10^10 units of fuel, 256 MiB of memory, ten seconds, 4 MiB for the result, and
    /// the defaults for everything else. The deadline of the script's policy applies as well.
    #[must_use]
    pub fn for_tools() -> Self {
        Self {
            fuel: 10_000_000_000,
            memory_bytes: 256 << 20,
            timeout_ms: 10_000,
            lift_bytes: 4 << 20,
            ..Self::default()
        }
    }
}
