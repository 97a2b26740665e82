//! Limits of executions and sessions, script languages, and the checks of a request before anything runs.

use std::{fmt, str::FromStr, time::Duration};

use glovebox_vfs::{VfsLimits, escaped};
use glovebox_wasi::WasiLimits;
use serde::{Deserialize, Serialize};

/// Maximum cached contents of mounted files, in bytes. The cache counts against `limits.memory_bytes`.
const MOUNT_CACHE_BYTES: u64 = 8 << 20;

/// Maximum size of a message to the tools without the call's arguments, in bytes.
const TOOL_ENVELOPE_BYTES: u64 = 4096;

/// The limits of executions and sessions, all finite by default.
///
/// Each limit is enforced where the resource is used, not checked afterwards. Each field documents its unit, its
/// default, and what the guest observes. Set limits in code, with the CLI's flags, or in the `[limits]` table of a
/// policy file, under the same names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum fuel: about one unit per WebAssembly operator, plus the cost of host work. Default: 400 billion. Booting
    /// the interpreter is not charged. A guest that runs out of fuel is unwound:
    /// [`Outcome::Exhausted`](crate::Outcome::Exhausted).
    ///
    /// On a typical machine (2026), interpreters use 6 to 18 billion units per second, and at most 29 billion in long
    /// multiplications and copies. With the defaults, `timeout_ms` is therefore reached first. Fuel bounds the work on
    /// faster machines, and in a provider without a clock. Set it lower for results that do not depend on the machine.
    pub fuel: u64,
    /// Fuel reserved for the soft limit, as part of `fuel`. Default: 100 million (about 10 ms of work), and at most a
    /// tenth of `fuel`. When only the reserve is left, the script receives an exception: `KeyboardInterrupt` in Python,
    /// which it can catch to clean up, or an uncatchable error in JavaScript. A script that is still running when all
    /// fuel is used is unwound. 0 disables the exception.
    ///
    /// A fixed clock together with seeded entropy also disables the exception: hosts check the remaining fuel at
    /// different points, so the exception would not occur at the same point in every run.
    pub fuel_reserve: u64,
    /// Maximum wall-clock time in milliseconds, including waits but not compilation or queueing. Default: 10,000. The
    /// guest is unwound at the next loop head or call, or while it waits.
    pub timeout_ms: u64,
    /// Time reserved for the soft limit, in milliseconds and as part of `timeout_ms`, like `fuel_reserve`. A cancelled
    /// script also has this long to end by itself. Default: 100, and at most a tenth of `timeout_ms`. 0 disables the
    /// exception, and cancellation then unwinds the guest immediately.
    pub timeout_reserve_ms: u64,
    /// Maximum memory in bytes. Default: 128 MiB. The limit covers linear memory beyond the interpreter's image, files,
    /// the mount cache, captured output, displays and tool calls. The guest sees a failed allocation (`MemoryError`,
    /// `InternalError: out of memory`), or `ENOSPC` if files grow.
    ///
    /// The image itself is charged as 2 MiB, which is more than a small script modifies. The image is the same for
    /// every script and mapped from a single file, and most of it, such as the C stack, is never touched. When a
    /// script writes to a page of the image, the page becomes private memory but is not charged. These pages never
    /// exceed the size of the image (52 to 110 MB for Python, 5 MiB for JavaScript). An execution therefore uses at
    /// most this limit plus the size of its image.
    pub memory_bytes: u64,
    /// Maximum amount of standard output to retain, in bytes. Default: 2,000,000. Further output is counted and
    /// dropped; the guest's write succeeds.
    pub stdout_bytes: u64,
    /// Maximum amount of standard error to retain, in bytes. Default: 1,000,000. Further output is counted and dropped;
    /// the guest's write succeeds.
    pub stderr_bytes: u64,
    /// Maximum total size of retained displays, such as pictures passed to `display`, in bytes and with all their
    /// forms. Default: 8 MiB. A display that does not fit is dropped as a whole and counted, and so are all later
    /// displays; the script continues. At most 1,000 displays are retained.
    pub display_bytes: u64,
    /// Maximum size of the source text, in bytes. Default: 1 MiB. A larger source is rejected before anything runs.
    pub source_bytes: u64,
    /// Maximum size of the standard input, in bytes. Default: 16 MiB. A larger input is rejected before anything runs.
    pub stdin_bytes: u64,
    /// Maximum total size of files in the workspace and other writable mounts, in bytes. Files are charged in whole
    /// chunks, with their names and directory entries. Default: 64 MiB. The guest sees `ENOSPC`. The limit also applies
    /// to a commit to a host directory, which counts each hard link and each renamed host file; a larger commit fails
    /// as a whole.
    pub workspace_bytes: u64,
    /// Maximum number of files, directories and links, including deleted files that are still open. Default: 10,000.
    /// The guest sees `ENOSPC`.
    pub workspace_inodes: u64,
    /// Maximum number of open descriptors, including the three standard streams and the preopened directories. Default:
    /// 256. The guest sees `EMFILE`.
    pub open_files: u32,
    /// Maximum number of calls to the host's tools in one execution. Default: 100. Further calls fail with `ToolLimit`.
    pub tool_calls: u64,
    /// Maximum number of tool calls that are running, or whose result the guest has not read yet. Default: 16. Further
    /// calls are queued.
    pub tool_calls_at_once: u32,
    /// Maximum duration of a tool call, in milliseconds. Default: 10,000. The guest receives `ToolTimeout`, and the
    /// tool is asked to stop.
    pub tool_timeout_ms: u64,
    /// Maximum size of a tool call's arguments, and of its result, each as JSON text and in bytes. Default: 1 MiB. A
    /// larger text fails with `ToolLimit`.
    pub tool_bytes: u64,
    /// Maximum total size of arguments, results and messages in the record of an execution's tool calls, in bytes.
    /// Default: 1 MiB. Beyond the limit, only names, times and the kinds of outcomes are recorded.
    pub tool_record_bytes: u64,
    /// Maximum size of an execution's journal, in bytes. The journal contains all inputs of a suspendable or recorded
    /// execution, and counts 16 bytes more for each of them. Default and maximum: 1 MiB. Beyond the limit, the
    /// execution continues, but can no longer be suspended, and has no recording. Components cannot set this limit.
    pub journal_bytes: u64,
    /// Maximum size of the file that stores an execution's globals, in bytes, if the policy persists them. Default: 1
    /// MiB. If the globals exceed the limit, the largest are omitted until the others fit, and a line on standard error
    /// names each omitted global.
    pub persisted_bytes: u64,
    /// Maximum number of sessions in the engine. Default: 1,000. Opening another session fails.
    pub session_count: u32,
    /// Maximum total size of all sessions in the engine, in bytes. Default: 4 GiB. The total covers memory beyond the
    /// image, private pages within the image, files, other host state, and checkpoints.
    ///
    /// The limit holds at all times. A guest that would exceed it sees failed allocations, as at `memory_bytes`, or a
    /// full disk. A checkpoint that is due and does not fit is skipped, so a later rollback returns to an earlier one.
    /// Opening or forking a session, requesting a checkpoint, and starting a suspendable execution in a session fail.
    ///
    /// Private pages within the image are measured when an execution ends, so each running execution can add the size
    /// of its image. While the total exceeds the limit, no session starts an execution.
    pub session_total_bytes: u64,
}

/// Calls the macro `$what` with the given arguments, followed by the names of all limits of the contract. The contract
/// has no `journal_bytes`.
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
            journal_bytes: Self::MAX_JOURNAL_BYTES,
            persisted_bytes: 1 << 20,
            session_count: 1_000,
            session_total_bytes: 4 << 30,
        }
    }
}

/// A limit outside the supported range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`limits.{key}` is {value}; it must be between {min} and {max}")]
pub struct LimitError {
    /// The limit's name.
    pub key: &'static str,
    /// The requested value.
    pub value: u64,
    /// The minimum value.
    pub min: u64,
    /// The maximum value.
    pub max: u64,
}

impl Limits {
    /// The maximum linear memory of a guest, in bytes: the address space of 32-bit WebAssembly.
    pub const MAX_MEMORY_BYTES: u64 = 4 << 30;
    /// The maximum size of an execution's journal, in bytes.
    pub const MAX_JOURNAL_BYTES: u64 = 1 << 20;

    /// Returns `timeout_ms` as a duration.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Returns the share of `fuel` that is reserved for the soft limit.
    pub fn fuel_reserve_of(&self, fuel: u64) -> u64 {
        self.fuel_reserve.min(fuel / 10)
    }

    /// Returns the share of the timeout that is reserved for the soft limit.
    pub fn effective_timeout_reserve(&self) -> Duration {
        // Microseconds, because a tenth of a few milliseconds would round to zero.
        let tenth_us = self.timeout_ms.saturating_mul(1000) / 10;
        Duration::from_micros(self.timeout_reserve_ms.saturating_mul(1000).min(tenth_us))
    }

    /// Returns the limits on the guest's descriptors and streams.
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

    /// Returns the limits on the guest's files.
    pub fn vfs(&self) -> VfsLimits {
        VfsLimits {
            bytes: self.workspace_bytes,
            inodes: self.workspace_inodes,
            mount_cache_bytes: MOUNT_CACHE_BYTES.min(self.memory_bytes / 4),
            ..VfsLimits::default()
        }
    }

    /// Returns each limit as name, value, minimum and maximum.
    fn table(&self) -> [(&'static str, u64, u64, u64); 22] {
        const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
        // Fuel is an `i64` inside the engine. A year is practically no deadline and does not overflow a `u64` of
        // nanoseconds.
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
            // Callers reserve memory for a journal of this size.
            ("journal_bytes", self.journal_bytes, 0, Self::MAX_JOURNAL_BYTES),
            // The minimum is the size of an object with only an empty `_state`.
            ("persisted_bytes", self.persisted_bytes, 13, 64 << 20),
            ("session_count", u64::from(self.session_count), 0, 1_000_000),
            ("session_total_bytes", self.session_total_bytes, 0, 1 << 50),
        ]
    }

    /// Checks that every limit is within its supported range.
    pub fn check(&self) -> Result<(), LimitError> {
        for (key, value, min, max) in self.table() {
            if !(min..=max).contains(&value) {
                return Err(LimitError { key, value, min, max });
            }
        }
        Ok(())
    }

    /// Returns a limit raised to `percent` of its value, at most its maximum; `None` if it cannot be raised.
    pub(crate) fn raised_limit(&self, name: &str, percent: u64) -> Option<u64> {
        let (_, value, _, max) = self.table().into_iter().find(|(key, ..)| *key == name)?;
        let wanted = u128::from(value) * u128::from(percent) / 100;
        let raised = u64::try_from(wanted).unwrap_or(u64::MAX).min(max);
        (raised > value).then_some(raised)
    }
}

/// Maximum length of a script's name, in bytes, as for any path.
const MAX_NAME_BYTES: usize = 4096;

/// A request that is invalid or exceeds its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The source exceeds `limits.source_bytes`.
    #[error("the source is {bytes} bytes; the maximum `limits.source_bytes` is {max}; shorten it or raise the limit")]
    SourceTooLarge {
        /// The size of the source in bytes.
        bytes: u64,
        /// The value of the limit in bytes.
        max: u64,
    },
    /// The standard input exceeds `limits.stdin_bytes`.
    #[error(
        "standard input is {bytes} bytes; the maximum `limits.stdin_bytes` is {max}; shorten it or raise the limit"
    )]
    StdinTooLarge {
        /// The size of the input in bytes.
        bytes: u64,
        /// The value of the limit in bytes.
        max: u64,
    },
    /// The script's name contains a NUL byte or exceeds 4096 bytes. Holds the beginning of the name.
    #[error("invalid script name `{name}`; use at most 4096 bytes without NUL", name = escaped(.0))]
    Name(String),
}

/// Checks a request's source, name and standard input against the limits.
///
/// # Errors
/// Fails if the source or the standard input is too large, or if the name is invalid.
pub fn check_request(limits: &Limits, source: &str, name: &str, stdin: &[u8]) -> Result<(), RequestError> {
    let (source, stdin) = (source.len() as u64, stdin.len() as u64);
    if source > limits.source_bytes {
        return Err(RequestError::SourceTooLarge { bytes: source, max: limits.source_bytes });
    }
    if stdin > limits.stdin_bytes {
        return Err(RequestError::StdinTooLarge { bytes: stdin, max: limits.stdin_bytes });
    }
    if name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Err(RequestError::Name(name.chars().take(100).collect()));
    }
    Ok(())
}

/// A script language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python, run by CPython.
    Python,
    /// JavaScript, run by QuickJS-NG.
    JavaScript,
}

impl Language {
    /// All languages, in listing order.
    pub const ALL: [Self; 2] = [Self::Python, Self::JavaScript];

    /// Returns the lower-case name: `python` or `javascript`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
        }
    }

    /// Returns the language of a file name extension: Python for `py` and `pyw`; JavaScript for `js`, `mjs`, `cjs`, and
    /// TypeScript's `ts`, `mts` and `cts`.
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "py" | "pyw" => Some(Self::Python),
            "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Some(Self::JavaScript),
            _ => None,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown language. Holds the requested name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown language `{name}`; use `python` or `javascript`", name = escaped(.0))]
pub struct UnknownLanguage(pub String);

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "python" | "py" => Ok(Self::Python),
            "javascript" | "js" => Ok(Self::JavaScript),
            _ => Err(UnknownLanguage(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists all limits of a record. The compiler reports a limit that is missing from the list of names.
    macro_rules! taken {
        ($limits:expr, $($name:ident),*) => {{
            let Limits { $($name,)* journal_bytes } = $limits;
            [$((stringify!($name), u64::from($name)),)* ("journal_bytes", journal_bytes)]
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
            let LimitError { key: named, min, max, .. } = too_much.check().unwrap_err();
            assert_eq!(named, key);
            for (value, fits) in [(max, true), (max + 1, false), (min, true), (min.wrapping_sub(1), false)] {
                assert_eq!(with(value).is_ok_and(|limits| limits.check().is_ok()), fits, "{key}: {value}");
            }
        }
    }

    #[test]
    fn default_deadline_precedes_the_fuel_limit() {
        // The highest measured rate over scripts of every type, rounded up.
        const MAX_PER_MS: u64 = 30_000_000;
        let Limits { fuel, timeout_ms, .. } = Limits::default();
        assert!(fuel > timeout_ms * MAX_PER_MS, "{fuel}");
    }

    #[test]
    fn reserve_is_at_most_a_tenth() {
        let limits = Limits { fuel_reserve: 10, timeout_ms: 1_000, timeout_reserve_ms: 100, ..Limits::default() };
        for (fuel, reserve) in [(99, 9), (100, 10), (1_000, 10)] {
            assert_eq!(limits.fuel_reserve_of(fuel), reserve, "{fuel}");
        }
        for (timeout_ms, reserve_us) in [(999, 99_900), (1_000, 100_000), (10_000, 100_000)] {
            let limits = Limits { timeout_ms, ..limits.clone() };
            assert_eq!(limits.effective_timeout_reserve(), Duration::from_micros(reserve_us), "{timeout_ms}");
        }
    }

    #[test]
    fn request_fields_are_limited() {
        let limits = Limits { source_bytes: 2, stdin_bytes: 3, ..Limits::default() };
        for (source, fits) in [("", true), ("12", true), ("123", false)] {
            assert_eq!(check_request(&limits, source, "", b"").is_ok(), fits, "{source}");
        }
        assert_eq!(check_request(&limits, "123", "", b""), Err(RequestError::SourceTooLarge { bytes: 3, max: 2 }));
        assert_eq!(check_request(&limits, "", "", b"123"), Ok(()));
        assert_eq!(check_request(&limits, "", "", b"1234"), Err(RequestError::StdinTooLarge { bytes: 4, max: 3 }));
        for (name, fits) in [("n".repeat(4095), true), ("n".repeat(4096), true), ("n".repeat(4097), false)] {
            assert_eq!(check_request(&limits, "", &name, b"").is_ok(), fits, "{}", name.len());
        }
        assert_eq!(check_request(&limits, "", "a\0b", b""), Err(RequestError::Name("a\0b".into())));
    }
}
