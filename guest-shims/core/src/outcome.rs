//! The result of an execution: outcome, output, file changes and metadata. Also the line on standard error that names
//! an exceeded limit.

use std::fmt;

use glovebox_interpreters::{JAVASCRIPT_STATE_FILE, PYTHON_STATE_FILE, RaisedOutcome};
use glovebox_vfs::{Changes, RootId, Vfs};
use glovebox_wasi::{CapturedStream, whole_characters};
use serde::{Deserialize, Serialize};

use crate::{Language, memory::OUTPUT_RESERVE_BYTES};

/// A resource with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// Fuel, in units.
    Fuel,
    /// Wall-clock time, in milliseconds.
    Time,
    /// Memory, in bytes.
    Memory,
}

/// The type of a WebAssembly trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrapKind {
    /// The native stack overflowed.
    StackOverflow,
    /// The interpreter executed `unreachable`, as it does to abort.
    Unreachable,
    /// The guest accessed an address outside linear memory or a table.
    OutOfBounds,
    /// The guest made an indirect call to a null function, or to a function of an unexpected type.
    BadCall,
    /// An integer division by zero, an integer overflow, or an invalid conversion to an integer.
    Arithmetic,
    /// The guest's driver returned no usable report, because the guest had damaged the driver's state.
    BadReport,
    /// Any other trap.
    Other,
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The way in which an execution ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Outcome {
    /// The script ran to its end.
    Completed,
    /// The script exited, for example with `sys.exit(code)`, `std.exit(code)` or `os._exit(code)`.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// The script did not catch an exception.
    Raised(RaisedOutcome),
    /// A limit was reached: the guest was unwound, could not continue, or ended after a soft stop
    /// (`Execution::interrupted`).
    Exhausted {
        /// The exhausted resource.
        resource: Resource,
        /// The limit, in the resource's unit.
        limit: u64,
        /// The usage, in the same unit.
        used: u64,
    },
    /// The caller cancelled the execution: the guest was unwound, or ended after a soft stop.
    Cancelled,
    /// The guest crashed with a WebAssembly trap.
    Trapped {
        /// The type of trap.
        trap: TrapKind,
    },
}

impl Outcome {
    /// Returns `true` if the script succeeded: it completed or exited with code 0. Output on standard error does not
    /// matter.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Completed | Self::Exited { code: 0 })
    }

    /// Returns the uncaught exception, if there is one.
    pub fn raised(&self) -> Option<&RaisedOutcome> {
        match self {
            Self::Raised(raised) => Some(raised),
            _ => None,
        }
    }

    /// Returns `true` if an allocation failed because of `limits.session_total_bytes`: the script had not used up its
    /// own memory limit.
    pub(crate) fn is_out_of_session_memory(&self) -> bool {
        match self {
            Self::Exhausted { resource: Resource::Memory, limit, used } => {
                limit.saturating_sub(*used) > OUTPUT_RESERVE_BYTES
            }
            _ => false,
        }
    }

    /// Returns a short human-readable description.
    pub fn describe(&self) -> String {
        match self {
            Self::Completed => "completed".into(),
            Self::Exited { code } => format!("exited with {code}"),
            Self::Raised(raised) if raised.type_name.is_empty() => format!("threw {}", clipped(&raised.message)),
            Self::Raised(raised) => {
                format!("raised {}: {}", clipped(&raised.type_name), clipped(&raised.message))
            }
            Self::Exhausted { resource: Resource::Fuel, limit, .. } => {
                format!("out of fuel: all {limit} units were used")
            }
            Self::Exhausted { resource: Resource::Time, limit, .. } => {
                format!("out of time: ran longer than {limit} ms")
            }
            outcome if outcome.is_out_of_session_memory() => {
                "out of memory: all sessions together have reached `limits.session_total_bytes`".into()
            }
            Self::Exhausted { resource: Resource::Memory, limit, used } => {
                format!("out of memory: {used} bytes needed, {limit} allowed")
            }
            Self::Cancelled => "cancelled".into(),
            Self::Trapped { trap } => format!("the interpreter trapped: {trap}"),
        }
    }

    /// Returns the process exit code: the script's own; 1 for an exception; 124 for a timeout, as `timeout(1)` returns;
    /// 137 for fuel or memory, as after a kill; 130 if cancelled; 134 for a trap, as after an abort.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::Completed => 0,
            Self::Exited { code } => *code,
            Self::Raised(_) => 1,
            Self::Exhausted { resource: Resource::Time, .. } => 124,
            Self::Exhausted { .. } => 137,
            Self::Cancelled => 130,
            Self::Trapped { .. } => 134,
        }
    }
}

/// Returns the first 200 characters of untrusted text, short enough for a log.
pub fn clipped(text: &str) -> &str {
    const MAX_CHARS: usize = 200;
    text.char_indices().nth(MAX_CHARS).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// The fuel metering of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metering {
    /// Fuel is counted, and `limits.fuel` applies.
    #[default]
    Fuel,
    /// Fuel is not counted, and only the time limit ends an endless script. Scripts run faster, and `fuel_consumed` is
    /// 0.
    None,
}

/// Information about an execution, without its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The script's language.
    pub runtime: Language,
    /// The runtime's name in the manifest, the name of a custom image, or the path of a custom binary.
    pub runtime_name: String,
    /// The interpreter's version; `None` for a custom binary.
    pub version: Option<String>,
    /// `true` if a prepared image ran, `false` if the binary booted as a plain command.
    pub prepared: bool,
    /// The prepared image's identity: the SHA-256 of its module. Equal images behave alike.
    pub image_sha256: Option<String>,
    /// The metering of the execution.
    pub metering: Metering,
    /// Total bytes written to standard output, retained or not.
    pub stdout_total_bytes: u64,
    /// Total bytes written to standard error, retained or not.
    pub stderr_total_bytes: u64,
}

/// The captured output of one standard stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The retained bytes, at most the stream's limit.
    pub bytes: Vec<u8>,
    /// The number of bytes written in total.
    pub total_bytes: u64,
}

impl Output {
    /// Returns `true` if output was dropped at the limit.
    pub fn is_truncated(&self) -> bool {
        self.total_bytes > self.bytes.len() as u64
    }

    /// Returns the bytes as text. Omits a character that the limit cut in two; other invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> String {
        let held = if self.is_truncated() { whole_characters(&self.bytes) } else { &self.bytes };
        String::from_utf8_lossy(held).into_owned()
    }
}

impl From<CapturedStream> for Output {
    fn from(CapturedStream { bytes, total_bytes, .. }: CapturedStream) -> Self {
        Self { bytes, total_bytes }
    }
}

/// Returns the script's changes to the workspace. With `persists`, omits the file of persisted globals, which the
/// script did not write.
pub fn changes(vfs: &Vfs, workspace: Option<RootId>, language: Language, persists: bool) -> Changes {
    let mut changes = workspace.map(|root| vfs.changes(root)).unwrap_or_default();
    if persists {
        let file = match language {
            Language::Python => PYTHON_STATE_FILE,
            Language::JavaScript => JAVASCRIPT_STATE_FILE,
        };
        for paths in [&mut changes.created, &mut changes.modified, &mut changes.deleted] {
            paths.retain(|path| path != file);
        }
    }
    changes
}

// The last line on standard error of a script that exceeded a limit. The line tells readers who see only the streams
// why the script stopped.

/// Appends a line to standard error that names the limit that ended the script: `OutOfFuel`, `TimedOut` or
/// `OutOfMemory`. The line counts as the script's output. A line that does not fit into `max_bytes` replaces the end
/// of the output.
///
/// Returns the appended text, for streaming, or `None` if no limit ended the script.
pub fn name_limit(outcome: &Outcome, stderr: &mut CapturedStream, max_bytes: u64) -> Option<String> {
    let line = line(outcome)?;
    let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let is_open = |bytes: &[u8]| bytes.last().is_some_and(|last| *last != b'\n');
    let mut added = if is_open(&stderr.bytes) { format!("\n{line}") } else { line.clone() };
    let added_bytes = u64::try_from(added.len()).unwrap_or(u64::MAX);
    stderr.total_bytes = stderr.total_bytes.saturating_add(added_bytes);
    if stderr.bytes.len().saturating_add(added.len()) <= max {
        stderr.bytes.extend_from_slice(added.as_bytes());
        return Some(added);
    }
    stderr.truncated = true;
    let room = max.saturating_sub(line.len().saturating_add(1));
    let held = whole_characters(stderr.bytes.get(..room).unwrap_or(&stderr.bytes)).len();
    stderr.bytes.truncate(held);
    if is_open(&stderr.bytes) {
        stderr.bytes.push(b'\n');
    }
    stderr.bytes.extend_from_slice(line.as_bytes());
    stderr.bytes.truncate(max);
    added.truncate(max);
    Some(added)
}

fn line(outcome: &Outcome) -> Option<String> {
    let Outcome::Exhausted { resource, limit, .. } = outcome else { return None };
    Some(match resource {
        Resource::Fuel => format!("OutOfFuel: the script used all of its fuel, {limit} units\n"),
        Resource::Time => format!("TimedOut: the script took longer than {limit} ms\n"),
        Resource::Memory if outcome.is_out_of_session_memory() => {
            "OutOfMemory: all sessions together have reached `limits.session_total_bytes`\n".to_owned()
        }
        Resource::Memory => format!("OutOfMemory: the script exceeded its memory limit, {limit} bytes\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_names_the_memory_limit_that_was_reached() {
        let at = |used| line(&Outcome::Exhausted { resource: Resource::Memory, limit: 64 << 20, used }).unwrap();
        assert_eq!(at(64 << 20), "OutOfMemory: the script exceeded its memory limit, 67108864 bytes\n");
        assert!(at(27 << 20).contains("`limits.session_total_bytes`"), "{}", at(27 << 20));
    }

    #[test]
    fn incomplete_character_is_omitted_only_from_truncated_output() {
        for (bytes, whole, truncated) in [
            (&b"a\xC3"[..], "a\u{fffd}", "a"),
            (b"\xFFa\xC3", "\u{fffd}a\u{fffd}", "\u{fffd}a"),
            ("\u{feff}é".as_bytes(), "\u{feff}é", "\u{feff}é"),
        ] {
            let text = |total: usize| Output { bytes: bytes.to_vec(), total_bytes: total as u64 }.text();
            assert_eq!((text(bytes.len()).as_str(), text(bytes.len() + 1).as_str()), (whole, truncated), "{bytes:?}");
        }
    }

    #[test]
    fn script_message_in_the_log_is_truncated() {
        for (length, held) in [(199, 199), (200, 200), (201, 200)] {
            let message = "é".repeat(length);
            let raised = RaisedOutcome { type_name: "E".into(), message, traceback: String::new(), line: None };
            assert_eq!(Outcome::Raised(raised).describe(), format!("raised E: {}", "é".repeat(held)));
        }
    }

    const LINE: &str = "TimedOut: the script took longer than 100 ms\n";

    fn captured(text: &str, total_bytes: usize) -> CapturedStream {
        let total_bytes = u64::try_from(total_bytes).unwrap();
        CapturedStream { bytes: text.into(), total_bytes, truncated: total_bytes > u64::try_from(text.len()).unwrap() }
    }

    fn ended(written: &str, total_bytes: usize, max_bytes: usize) -> (CapturedStream, String) {
        let outcome = Outcome::Exhausted { resource: Resource::Time, limit: 100, used: 101 };
        let mut stderr = captured(written, total_bytes);
        let added = name_limit(&outcome, &mut stderr, u64::try_from(max_bytes).unwrap()).unwrap();
        (stderr, added)
    }

    #[test]
    fn only_limits_have_a_line_with_their_name() {
        let limit_line = |outcome: &Outcome| name_limit(outcome, &mut captured("", 0), 1_000);
        for (resource, name) in
            [(Resource::Fuel, "OutOfFuel: "), (Resource::Time, "TimedOut: "), (Resource::Memory, "OutOfMemory: ")]
        {
            let line = limit_line(&Outcome::Exhausted { resource, limit: 17, used: 18 }).unwrap();
            assert!(line.starts_with(name) && line.contains("17") && line.ends_with('\n'), "{line}");
        }
        for outcome in [Outcome::Completed, Outcome::Exited { code: 137 }, Outcome::Cancelled] {
            assert_eq!(limit_line(&outcome), None);
        }
    }

    #[test]
    fn limit_line_starts_on_a_new_line() {
        for (written, added) in [("", LINE.to_owned()), ("a\n", LINE.to_owned()), ("a", format!("\n{LINE}"))] {
            let (stderr, added_text) = ended(written, written.len(), 1_000);
            let whole = format!("{written}{added}");
            assert_eq!((added_text, stderr), (added, captured(&whole, whole.len())), "{written:?}");
        }
    }

    #[test]
    fn limit_line_fits_the_output_limit() {
        let written = "é".repeat(50);
        let whole = format!("{written}\n{LINE}");
        for max in [whole.len(), whole.len() + 1] {
            assert_eq!(ended(&written, 100, max).0, captured(&whole, whole.len()));
        }
        for max in 0..whole.len() {
            let (stderr, added_text) = ended(&written, 100, max);
            let text = String::from_utf8(stderr.bytes).unwrap();
            assert!(text.len() <= max && stderr.truncated, "{max}");
            assert_eq!(stderr.total_bytes, u64::try_from(whole.len()).unwrap());
            assert!(added_text.len() <= max && format!("\n{LINE}").starts_with(&added_text));
            if max < LINE.len() {
                assert_eq!(text, LINE[..max]);
            } else {
                let (before, last) = text.split_at(text.len() - LINE.len());
                assert_eq!(last, LINE);
                assert!(before.is_empty() || before.ends_with("é\n"), "{before}");
                assert!(
                    text.len() + 2 > max || before.is_empty(),
                    "only as much output as necessary was dropped: {max}"
                );
            }
        }
    }

    #[test]
    fn limit_line_keeps_the_count_of_dropped_bytes() {
        let (stderr, added_text) = ended("0123456789", 1_000, 60);
        assert_eq!(stderr.bytes, format!("0123456789\n{LINE}").as_bytes());
        assert_eq!((stderr.total_bytes, added_text.len()), (1_001 + LINE.len() as u64, 1 + LINE.len()));
        assert!(stderr.truncated);
        let (stderr, _) = ended(&"x".repeat(60), 1_000, 60);
        assert_eq!(stderr.bytes, format!("{}\n{LINE}", "x".repeat(59 - LINE.len())).as_bytes());
        assert!(stderr.truncated && stderr.total_bytes > 60);
    }
}
