//! The time at which images boot.

/// 2020-01-01T00:00:00Z: the time at boot. Later than any file time in the binaries, earlier than any run.
pub const BOOT_REALTIME_NS: u64 = 1_577_836_800_000_000_000;

/// The value of the monotonic clock at boot, from which every guest's clock continues.
pub const BOOT_MONOTONIC_NS: u64 = 1_000_000_000;
