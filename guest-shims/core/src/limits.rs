//! How much an execution may use.

use std::time::Duration;

use glovebox_vfs::VfsLimits;
use glovebox_wasi::WasiLimits;
use serde::{Deserialize, Serialize};

/// How much of mounted files stays in memory for reading again. Counts against `limits.memory_bytes`.
const MOUNT_CACHE_BYTES: u64 = 8 << 20;

/// What a message to the tools has around a call's arguments.
const TOOL_ENVELOPE_BYTES: u64 = 4096;

/// Every limit of an execution, finite by default.
///
/// Each is enforced where the resource is spent, not checked afterwards; the default, the unit and
/// what the guest observes stand beside each. Set them in code, by the CLI's flags, or in a policy
/// file's `[limits]` table under the same names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Fuel: roughly one unit per WebAssembly operator, plus what host work costs. Default 400 billion. On a machine of 2026
    /// interpreters use up 6 to 18 billion a second, and 29 at the most, in long multiplications and copies: within the default
    /// of `timeout_ms` a script meets that limit first, and this one bounds the work where time says little, on a machine that
    /// is faster, or under a provider that has no clock. Set it lower for results that do not depend on the machine. Booting
    /// the interpreter is not on the bill.
    /// The guest is unwound when it runs out: [`Outcome::Exhausted`](crate::Outcome::Exhausted).
    pub fuel: u64,
    /// How much of `fuel` is reserved for the soft limit. Default 100 million (about 10 ms of work), and never more than a
    /// tenth of `fuel`. When no more is left, the script gets an exception that it can see and clean up after
    /// (`KeyboardInterrupt` in Python, an error that cannot be caught in JavaScript); if it still runs when all is used, it
    /// is unwound. 0: no exception. Nor is there one under a fixed clock and seeded entropy together: the host
    /// looks by its own time, so that the exception would not come at the same operator every time.
    pub fuel_reserve: u64,
    /// Wall-clock milliseconds, waits included, compiling and queueing not. Default 10,000.
    /// The guest is unwound at the next loop head or call, or out of its wait.
    pub timeout_ms: u64,
    /// How many milliseconds of `timeout_ms` are reserved for the soft limit, as for `fuel_reserve`; also what a cancelled
    /// script has left to end by itself. Default 100, and never more than a tenth of `timeout_ms`. 0: no exception, and
    /// cancellation unwinds at once.
    pub timeout_reserve_ms: u64,
    /// Bytes of memory. Default 128 MiB. It counts what a script makes its guest and the host hold: linear memory beyond the
    /// interpreter's image, files, the mounts' cache, captured output, displays, calls of tools. The image itself counts as 2 MiB, more
    /// than a small script writes to of it: it is the same for every script, mapped from one file, and most of it, such as the C
    /// stack, is never touched. What a script does write to of the image is memory of its own as well, but never more than the
    /// image is large (60 MiB for Python, 5 MiB for JavaScript). So the host stays bounded: no execution holds more than this
    /// limit and the size of its image. The guest sees an allocation fail (`MemoryError`, `InternalError: out of memory`), or
    /// `ENOSPC` where it is the files that grow.
    pub memory_bytes: u64,
    /// Bytes of standard output that are retained. Default 2,000,000. The rest is counted and dropped;
    /// the guest's write succeeds.
    pub stdout_bytes: u64,
    /// Bytes of standard error that are retained. Default 1,000,000. As for `stdout_bytes`.
    pub stderr_bytes: u64,
    /// Bytes of the displays that are retained: what `display` of a script showed, pictures for instance, with all their forms. Default 8 MiB. One
    /// that does not fit is dropped as a whole and counted, and so is all that is shown after it; the script goes on. Nor are more
    /// than 1,000 retained.
    pub display_bytes: u64,
    /// Bytes of source text. Default 1 MiB. More is an error before anything runs.
    pub source_bytes: u64,
    /// Bytes of standard input. Default 16 MiB. More is an error before anything runs.
    pub stdin_bytes: u64,
    /// Bytes of files in the workspace and other writable mounts, in whole chunks, names and directory entries included.
    /// Default 64 MiB. The guest sees `ENOSPC`. A commit to a host directory writes no more than this either, each hard
    /// link and each renamed host file counted: it fails as a whole.
    pub workspace_bytes: u64,
    /// Files, directories and links, open but deleted ones included. Default 10,000. The guest sees `ENOSPC`.
    pub workspace_inodes: u64,
    /// Descriptors open at once, beside the three standard streams. Default 256. The guest sees `EMFILE`.
    pub open_files: u32,
    /// Calls of the host's tools in one execution. Default 100. One more fails with `ToolLimit`.
    pub tool_calls: u64,
    /// Calls of tools that run at once, or whose result the guest has not taken yet. Default 16. Further ones wait for
    /// their turn.
    pub tool_calls_at_once: u32,
    /// Milliseconds that one call of a tool may take, from its start. Default 10,000. The guest gets `ToolTimeout`; the
    /// tool is told to stop.
    pub tool_timeout_ms: u64,
    /// Bytes of a tool call's arguments, and of its result, as JSON text each. Default 1 MiB. More fails with `ToolLimit`.
    pub tool_bytes: u64,
    /// Bytes of arguments, results and messages that an execution's record of tool calls keeps together. Default 1 MiB.
    /// Beyond it only names and times are recorded.
    pub tool_record_bytes: u64,
    /// Bytes of the file that an execution's globals are stored in, where a policy says that they are. Default 1 MiB. Where
    /// they take more, the largest are left out until the others fit, and a line on standard error names each.
    pub persisted_bytes: u64,
    /// Sessions that the engine keeps at once. Default 1,000. Opening one more is an error.
    pub session_count: u32,
    /// Bytes that all sessions of the engine may hold together: memory beyond the image and their own pages within it, files and
    /// what else the host keeps for them, checkpoints. Default 4 GiB.
    ///
    /// It holds at all times. A guest that asks for more is refused as at `memory_bytes`, its files as at a full disk; a
    /// checkpoint that is due and has no room is skipped (the session then goes back further, should it have to); opening or
    /// forking a session, and asking for a checkpoint, is an error. Pages of the image that a guest writes to are measured when
    /// its execution ends, so that each execution that is running can add the size of its image; while there is more than
    /// the limit, no execution begins in a session.
    pub session_total_bytes: u64,
}

/// Calls a macro with the names of all limits, after its other arguments.
#[macro_export]
macro_rules! with_limits {
    ($what:ident, $($rest:expr),*) => {
        $what!(
            $($rest),*, fuel, fuel_reserve, timeout_ms, timeout_reserve_ms, memory_bytes, stdout_bytes, stderr_bytes,
            display_bytes, source_bytes, stdin_bytes, workspace_bytes, workspace_inodes, open_files, tool_calls, tool_calls_at_once,
            tool_timeout_ms, tool_bytes, tool_record_bytes, persisted_bytes, session_count, session_total_bytes
        )
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 400_000_000_000,
            fuel_reserve: 100_000_000,
            timeout_ms: 10_000,
            timeout_reserve_ms: 100,
            memory_bytes: 128 << 20,
            stdout_bytes: 2_000_000,
            stderr_bytes: 1_000_000,
            display_bytes: 8 << 20,
            source_bytes: 1 << 20,
            stdin_bytes: 16 << 20,
            workspace_bytes: 64 << 20,
            workspace_inodes: 10_000,
            open_files: 256,
            tool_calls: 100,
            tool_calls_at_once: 16,
            tool_timeout_ms: 10_000,
            tool_bytes: 1 << 20,
            tool_record_bytes: 1 << 20,
            persisted_bytes: 1 << 20,
            session_count: 1_000,
            session_total_bytes: 4 << 30,
        }
    }
}

/// A limit outside what the engine can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`limits.{key}` is {value}; it must be between {least} and {most}")]
pub struct LimitError {
    /// The limit's name.
    pub key: &'static str,
    /// What was asked.
    pub value: u64,
    /// The least that makes sense.
    pub least: u64,
    /// The most the engine can hold.
    pub most: u64,
}

impl Limits {
    /// The most linear memory a guest can address, in bytes: 32-bit WebAssembly.
    pub const MAX_MEMORY_BYTES: u64 = 4 << 30;

    /// `timeout_ms` as a duration.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// How much of an execution's fuel is reserved for the soft limit.
    #[must_use]
    pub fn fuel_reserve_of(&self, fuel: u64) -> u64 {
        self.fuel_reserve.min(fuel / 10)
    }

    /// How much of the time is reserved for the soft limit.
    #[must_use]
    pub fn effective_timeout_reserve(&self) -> Duration {
        // In microseconds, so that a timeout of a few milliseconds has one, too.
        let tenth_us = self.timeout_ms.saturating_mul(1000) / 10;
        Duration::from_micros(self.timeout_reserve_ms.saturating_mul(1000).min(tenth_us))
    }

    /// What the guest's descriptors and streams are held to.
    #[must_use]
    pub fn wasi(&self) -> WasiLimits {
        WasiLimits {
            stdout_bytes: self.stdout_bytes,
            stderr_bytes: self.stderr_bytes,
            display_bytes: self.display_bytes,
            tool_bytes: self.tool_bytes.saturating_add(TOOL_ENVELOPE_BYTES),
            open_files: self.open_files,
            memory_bytes: self.memory_bytes,
        }
    }

    /// What the guest's files are held to.
    #[must_use]
    pub fn vfs(&self) -> VfsLimits {
        VfsLimits {
            bytes: self.workspace_bytes,
            inodes: self.workspace_inodes,
            mount_cache_bytes: MOUNT_CACHE_BYTES.min(self.memory_bytes / 4),
            ..VfsLimits::default()
        }
    }

    /// Each limit by its name, with the least and the most that the engine can hold.
    fn table(&self) -> [(&'static str, u64, u64, u64); 21] {
        const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
        // Fuel is an `i64` inside the engine; a year is as good as no deadline and cannot overflow nanoseconds.
        [
            ("fuel", self.fuel, 1, i64::MAX.unsigned_abs()),
            ("fuel_reserve", self.fuel_reserve, 0, i64::MAX.unsigned_abs()),
            ("timeout_ms", self.timeout_ms, 1, YEAR_MS),
            ("timeout_reserve_ms", self.timeout_reserve_ms, 0, 60_000),
            ("memory_bytes", self.memory_bytes, 1 << 20, Self::MAX_MEMORY_BYTES),
            ("stdout_bytes", self.stdout_bytes, 0, 1 << 30),
            ("stderr_bytes", self.stderr_bytes, 0, 1 << 30),
            ("display_bytes", self.display_bytes, 0, 1 << 30),
            ("source_bytes", self.source_bytes, 1, 64 << 20),
            ("stdin_bytes", self.stdin_bytes, 0, 1 << 30),
            ("workspace_bytes", self.workspace_bytes, 0, 1 << 40),
            ("workspace_inodes", self.workspace_inodes, 1, 10_000_000),
            ("open_files", u64::from(self.open_files), 8, 65_536),
            ("tool_calls", self.tool_calls, 0, 1_000_000),
            ("tool_calls_at_once", u64::from(self.tool_calls_at_once), 1, 1_024),
            ("tool_timeout_ms", self.tool_timeout_ms, 1, YEAR_MS),
            ("tool_bytes", self.tool_bytes, 1, 64 << 20),
            ("tool_record_bytes", self.tool_record_bytes, 0, 1 << 30),
            // At the least what an object takes that is empty but for an empty `_state`.
            ("persisted_bytes", self.persisted_bytes, 13, 64 << 20),
            ("session_count", u64::from(self.session_count), 0, 1_000_000),
            ("session_total_bytes", self.session_total_bytes, 0, 1 << 50),
        ]
    }

    /// Checks every limit against what the engine can hold.
    pub fn check(&self) -> Result<(), LimitError> {
        for (key, value, least, most) in self.table() {
            if !(least..=most).contains(&value) {
                return Err(LimitError { key, value, least, most });
            }
        }
        Ok(())
    }

    /// What a limit is raised to by this factor, as far as it can be; none where it cannot be more than it is.
    pub(crate) fn raised(&self, name: &str, percent: u64) -> Option<u64> {
        let (_, value, _, most) = self.table().into_iter().find(|(key, ..)| *key == name)?;
        let wanted = u128::from(value) * u128::from(percent) / 100;
        let raised = u64::try_from(wanted).unwrap_or(u64::MAX).min(most);
        (raised > value).then_some(raised)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all limits out of one record; the compiler finds one that has no name in the list.
    macro_rules! taken {
        ($limits:expr, $($name:ident),*) => {{
            let Limits { $($name),* } = $limits;
            [$((stringify!($name), u64::from($name))),*]
        }};
    }

    #[test]
    fn every_limit_has_a_minimum_and_a_maximum() {
        let defaults = Limits::default();
        assert_eq!(defaults.check(), Ok(()));
        for (key, value) in with_limits!(taken, defaults.clone()) {
            let with = |value: u64| serde_json::from_value::<Limits>(serde_json::json!({ key: value }));
            assert_eq!(with(value).unwrap(), defaults, "{key}");
            let too_much = with(u64::MAX).or_else(|_| with(u64::from(u32::MAX))).unwrap();
            let LimitError { key: named, least, most, .. } = too_much.check().unwrap_err();
            assert_eq!(named, key);
            for (value, fits) in [(most, true), (most + 1, false), (least, true), (least.wrapping_sub(1), false)] {
                assert_eq!(with(value).is_ok_and(|limits| limits.check().is_ok()), fits, "{key}: {value}");
            }
        }
    }

    #[test]
    fn by_default_time_comes_before_fuel() {
        // What was measured of scripts of every kind, rounded up.
        const MAX_PER_MS: u64 = 30_000_000;
        let Limits { fuel, timeout_ms, .. } = Limits::default();
        assert!(fuel > timeout_ms * MAX_PER_MS, "{fuel}");
    }

    #[test]
    fn a_reserve_is_never_more_than_a_tenth() {
        let limits = Limits { fuel_reserve: 10, timeout_ms: 1_000, timeout_reserve_ms: 100, ..Limits::default() };
        for (fuel, reserve) in [(99, 9), (100, 10), (1_000, 10)] {
            assert_eq!(limits.fuel_reserve_of(fuel), reserve, "{fuel}");
        }
        for (timeout_ms, reserve_us) in [(999, 99_900), (1_000, 100_000), (10_000, 100_000)] {
            let limits = Limits { timeout_ms, ..limits.clone() };
            assert_eq!(limits.effective_timeout_reserve(), Duration::from_micros(reserve_us), "{timeout_ms}");
        }
    }
}
