//! How much an application may use.

use glovebox::component::LIFT_BYTES;

/// How much one run of an application may use: the component's own code, not the scripts that it has executed, whose limits are
/// the sandbox's. Every limit is finite.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppLimits {
    /// Fuel: about one unit per WebAssembly operator. Host functions cost none; the wall-clock bounds them. Default 10^11, some
    /// minutes of computing. At 0 left it traps.
    pub fuel: u64,
    /// Bytes of all its linear memories together, of its tables, eight for an element, and of what the host holds for its instances:
    /// globals, segments, references to functions, from some kilobytes up. `memory.grow` beyond it fails, as WebAssembly has it; most
    /// programs then trap. One whose instances alone are over it does not begin. Default 512 MiB.
    pub memory_bytes: u64,
    /// Wall-clock milliseconds from its start, waits and scripts included. Default 600,000: ten minutes.
    pub timeout_ms: u64,
    /// Elements of all its tables together; `table.grow` beyond it, or beyond `memory_bytes`, fails. Default 1,000,000.
    pub table_elements: u64,
    /// Instances of core modules that it consists of. Default 1,000. More memories than a tenth of it are refused as well: each
    /// reserves 4 GiB of address space.
    pub instances: usize,
    /// Handles of resources that it holds at once, in all its component instances together; one more is a trap. Default 50,000.
    /// The sandbox has a smaller quota of its own for those that it gave out.
    pub handles: usize,
    /// What WASI holds for it at once: open files, directories, streams, sockets, timers. One more is a trap. Default 512, so that
    /// an application cannot take all descriptors of this process.
    pub wasi_handles: usize,
    /// Bytes that one call may hand to the host, or an export return, counted as the host holds them; more is a trap.
    /// Default 32 MiB.
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
    /// Those of one call of a tool: 10^10 units of fuel, 256 MiB of memory, ten seconds, 4 MiB for the result; else as
    /// by default. A call's own deadline, from the policy of the script, holds beside them.
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
