//! The time at which images boot.

/// Wall-clock time at boot, in nanoseconds: 2020-01-01T00:00:00Z. Later than any file time in the binaries, earlier
/// than any run.
pub const BOOT_REALTIME_NS: u64 = 1_577_836_800_000_000_000;

/// The monotonic clock at boot, in nanoseconds. Every guest's monotonic clock continues from it.
pub const BOOT_MONOTONIC_NS: u64 = 1_000_000_000;
