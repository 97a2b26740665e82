//! Executions that wait for a person: tools declared with `--tool NAME=@ask`, calls that need an approval, and the
//! files of suspended executions.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::Read as _,
    mem,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::Context;
use glovebox::{
    Execution, JsonText, SessionKey, Started, Step, Stream, SuspendError, SuspendRefusal, Suspended,
    SuspendedBytesError, ToolAnswer, ToolError, ToolErrorKind, escaped, escaped_text,
};
use serde::Serialize;

use crate::{
    commands::resume::{RepeatedOptions, quoted},
    file::{self, NotCreated},
    terminal::{HintedError, note, note_escaped, on_one_line, out_json},
};

/// The exit code if the script waits for a person: `EX_TEMPFAIL` of `sysexits.h`.
pub(crate) const SUSPENDED_EXIT_CODE: i32 = 75;

/// The interval between attempts to suspend a script. An attempt fails while a program that implements a tool runs.
const RETRY: Duration = Duration::from_millis(20);

/// Maximum number of bytes to read from a file: one more than the maximum length of a suspended execution, 64 MiB.
const MAX_FILE_BYTES: u64 = (64 << 20) + 1;

/// Maximum number of names to try for a new file.
const MAX_NAMES: u32 = 100;

/// The number of attempts to create a new file before the script starts.
const MAX_CHECKS: u32 = 5;

/// The state of a suspendable execution after it has run as far as possible.
#[derive(Debug)]
pub(crate) enum SuspendableRun {
    Ended(Arc<Execution>),
    Suspended(Box<SuspendedScript>),
}

/// A suspended execution, and the script's output since its first start.
#[derive(Debug)]
pub(crate) struct SuspendedScript {
    pub(crate) suspended: Suspended,
    /// The file that contains the execution.
    pub(crate) path: PathBuf,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Passes answers to a suspendable execution and continues it. Returns when the script has ended. If the script waits
/// for further answers first, suspends it and calls `store`. `store` writes the suspended execution to a file and
/// returns the file's path.
///
/// Call this within [`interrupt::run_guest`](crate::interrupt::run_guest). Otherwise, Ctrl-C can end the process before
/// the file is complete.
///
/// If the execution's record is full, the execution can no longer be suspended. The calls then raise `ToolLimit` in the
/// script.
pub(crate) fn advance(
    started: &Started,
    mut answers: Vec<ToolAnswer>,
    store: impl FnOnce(&Suspended) -> anyhow::Result<PathBuf>,
) -> anyhow::Result<SuspendableRun> {
    loop {
        let calls = match started.advance(mem::take(&mut answers), None)? {
            Step::Done(execution) => return Ok(SuspendableRun::Ended(execution)),
            Step::NeedsTools(calls) => calls,
            Step::Running => continue,
        };
        let output = |stream| started.read_output(stream, 0, u64::MAX);
        let (stdout, stderr) = (output(Stream::Stdout), output(Stream::Stderr));
        match started.suspend() {
            Ok(suspended) => {
                let path = store(&suspended)?;
                return Ok(SuspendableRun::Suspended(Box::new(SuspendedScript { suspended, path, stdout, stderr })));
            }
            Err(SuspendError::Refused(full @ SuspendRefusal::JournalFull)) => {
                let reason = format!("the execution cannot be suspended: {full}");
                let refused = |id| ToolAnswer::error(id, ToolError::of(ToolErrorKind::Limit, reason.clone()));
                answers = calls.iter().map(|call| refused(call.id)).collect();
            }
            Err(error @ SuspendError::NotSuspendable) => return Err(error.into()),
            // The script is about to continue or to end, or a program that implements a tool is running.
            Err(_) => thread::sleep(RETRY),
        }
    }
}

/// A file that does not exist yet, for an execution that might be suspended.
#[derive(Debug)]
pub(crate) struct NewSuspendedFile {
    path: PathBuf,
    key: Option<SessionKey>,
}

impl NewSuspendedFile {
    /// Removes an empty file. Fails if the file has contents or cannot be created. If the execution could not be
    /// stored, the script must not start, because its calls before the suspension can have effects.
    pub(crate) fn new(path: PathBuf, key: Option<SessionKey>) -> anyhow::Result<Self> {
        for _ in 0..MAX_CHECKS {
            file::remove_empty(&path);
            // Create the file exactly as the suspension will: its name can be too long, or can be the name of a
            // directory.
            match file::check_create(&path) {
                Ok(()) => return Ok(Self { path, key }),
                // A concurrent process may have created the file for the same check.
                Err(NotCreated::Exists) if is_empty(&path) => thread::sleep(RETRY),
                Err(NotCreated::Exists) => break,
                Err(NotCreated::Failed(error)) => {
                    return Err(error.context("the script did not start, because its execution could not be stored"));
                }
            }
        }
        Err(exists(&path).into())
    }

    /// Writes the file and returns its path. If another process has created the file, appends a number to the name.
    pub(crate) fn create(&self, suspended: &Suspended) -> anyhow::Result<PathBuf> {
        let bytes = suspended.to_bytes(self.key.as_ref());
        let mut path = self.path.clone();
        for number in 2..=MAX_NAMES {
            match file::create(&path, &bytes) {
                Ok(()) => return Ok(path),
                Err(NotCreated::Exists) => path = numbered(&self.path, number),
                Err(NotCreated::Failed(error)) => {
                    return Err(error.context("cannot save the suspended execution, which is lost"));
                }
            }
        }
        Err(anyhow::Error::from(exists(&self.path)).context("cannot save the suspended execution, which is lost"))
    }
}

/// Returns `true` if the file is empty, or no longer exists.
fn is_empty(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(metadata) => metadata.is_file() && metadata.len() == 0,
        Err(_) => true,
    }
}

fn exists(path: &Path) -> HintedError {
    HintedError::new(
        format!("the file `{}` for a suspended execution already exists", escaped(path)),
        "continue it with `glovebox resume`, delete it, or choose another file: --suspended FILE",
    )
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

/// The file of a suspended execution. It is locked, so that no other process resumes the execution at the same time.
#[derive(Debug)]
pub(crate) struct SuspendedFile {
    /// The path as the user wrote it, for messages.
    path: PathBuf,
    /// The path with symlinks resolved, so that a link is not replaced and still leads to the current state.
    target: PathBuf,
    key: Option<SessionKey>,
    locked: File,
}

impl SuspendedFile {
    /// Opens and locks the file. Does not wait for another process.
    pub(crate) fn open(path: &Path, key: Option<SessionKey>) -> anyhow::Result<Self> {
        let unreadable = || {
            let message = format!("cannot read the suspended execution `{}`", escaped(path));
            HintedError::new(message, "pass a writable file that `glovebox run` created")
        };
        let target = path.canonicalize().map_err(|error| unreadable().caused_by(error))?;
        let locked =
            OpenOptions::new().read(true).write(true).open(&target).map_err(|error| unreadable().caused_by(error))?;
        let is_locked = match locked.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(unreadable().caused_by(error).into()),
        };
        // Before the lock was granted, another process may have replaced or deleted the file.
        if !is_locked || !file::is_at(&locked, &target) {
            return Err(HintedError::new(
                format!("another process is resuming `{}`", escaped(path)),
                "wait until that process exits, then list the waiting calls with `glovebox resume FILE`",
            )
            .into());
        }
        Ok(Self { path: path.to_owned(), target, key, locked })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn read(&self) -> anyhow::Result<Suspended> {
        let mut bytes = Vec::new();
        let read = (&self.locked).take(MAX_FILE_BYTES).read_to_end(&mut bytes);
        read.with_context(|| format!("cannot read `{}`", escaped(&self.path)))?;
        let suspended = Suspended::from_bytes(&bytes, self.key.as_ref()).map_err(|error| {
            let hint = match error {
                SuspendedBytesError::KeyMissing | SuspendedBytesError::NotAuthentic => {
                    "pass the key file that `glovebox run` used: --key-file FILE, or GLOVEBOX_KEY_FILE"
                }
                SuspendedBytesError::Unauthenticated => {
                    "if you trust the file, remove --key-file and GLOVEBOX_KEY_FILE"
                }
                _ => "use a complete copy of a file that `glovebox run` created",
            };
            HintedError::new(format!("cannot resume `{}`", escaped(&self.path)), hint).caused_by(error)
        })?;
        Ok(suspended)
    }

    /// Fails if the file's directory is not writable, so that the file could be neither replaced nor deleted. Call this
    /// before the script continues, because its calls can have effects.
    pub(crate) fn check_directory(&self) -> anyhow::Result<()> {
        file::check_replace(&self.target)
            .context("the script did not continue, because its execution could not be stored")
    }

    /// Replaces the stored execution with its later state. Returns the path as the user wrote it.
    pub(crate) fn replace(&self, suspended: &Suspended) -> anyhow::Result<PathBuf> {
        file::replace(&self.target, &suspended.to_bytes(self.key.as_ref()))?;
        Ok(self.path.clone())
    }

    /// Deletes the file after the script has ended. A failure only prints a note, so that the script's result is still
    /// reported.
    pub(crate) fn delete(&self) {
        if let Err(error) = fs::remove_file(&self.target) {
            note(&format!(
                "cannot delete `{}`: {error}; delete it yourself, because resuming it again repeats tool calls",
                escaped(&self.target)
            ));
        }
    }
}

/// Lists the waiting calls and the command that answers them on standard error.
pub(crate) fn write_waiting(suspended: &Suspended, path: &Path, options: &RepeatedOptions) {
    note(&format!("the script waits for answers; its execution is stored in `{}`", escaped(path)));
    for call in suspended.tool_requests() {
        // The arguments are not truncated, because the person needs all of them to decide.
        let arguments = escaped_json(&call.arguments);
        note_escaped(&format!("call {}: {}({arguments})", call.id, escaped(&call.name)));
    }
    note_escaped(&format!("continue with: {}", on_one_line(&command(suspended, path, options))));
    note("use --deny CALL=REASON to refuse a call");
}

/// Returns the command that answers the first waiting call.
fn command(suspended: &Suspended, path: &Path, options: &RepeatedOptions) -> String {
    let mut words = vec!["glovebox resume".to_owned(), quoted(&path.to_string_lossy())];
    words.extend_from_slice(options.words());
    words.extend(suspended.tool_requests().first().map(|call| match options.has_program(&call.name) {
        true => format!("--approve {}", call.id),
        false => format!("--answer {}=JSON", call.id),
    }));
    words.join(" ")
}

/// Escapes hidden characters in JSON text. The result has one line.
fn escaped_json(text: &str) -> String {
    match JsonText::new(text) {
        Ok(json) => json.escaped(),
        // Only a forged file contains arguments that are not valid JSON.
        Err(_) => format!("invalid JSON: {}", escaped_text(text)),
    }
}

/// The report of a suspended execution. The members up to `stderr` are also part of a finished execution's report.
#[derive(Serialize)]
struct SuspendedReport {
    success: bool,
    outcome: SuspendedOutcome,
    exit_code: i32,
    /// `None` if the command has not run the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    suspended_path: String,
    calls: Vec<WaitingCall>,
    command: String,
}

#[derive(Serialize)]
struct SuspendedOutcome {
    kind: &'static str,
}

#[derive(Serialize)]
struct WaitingCall {
    id: u64,
    name: String,
    arguments: JsonText,
    /// `true` if a program answers the call after its approval.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    approve: bool,
}

/// Prints the waiting calls as JSON, with the script's output if it has run.
pub(crate) fn waiting_json(
    suspended: &Suspended,
    path: &Path,
    options: &RepeatedOptions,
    script: Option<&SuspendedScript>,
) -> anyhow::Result<()> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let calls = suspended.tool_requests().into_iter().map(|call| -> anyhow::Result<WaitingCall> {
        let arguments = JsonText::new(call.arguments.as_str()).context("the file contains invalid arguments")?;
        let approve = options.has_program(&call.name);
        Ok(WaitingCall { id: call.id, name: call.name, arguments, approve })
    });
    out_json(&SuspendedReport {
        success: false,
        outcome: SuspendedOutcome { kind: "suspended" },
        exit_code: SUSPENDED_EXIT_CODE,
        stdout: script.map(|script| text(&script.stdout)),
        stderr: script.map(|script| text(&script.stderr)),
        suspended_path: path.to_string_lossy().into_owned(),
        calls: calls.collect::<anyhow::Result<_>>()?,
        command: command(suspended, path, options),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_file_is_rejected_before_running() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.suspended");
        fs::write(&path, "").unwrap();
        assert!(NewSuspendedFile::new(path.clone(), None).is_ok(), "an empty file is replaced");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        let error = NewSuspendedFile::new(path, None).unwrap_err();
        assert!(error.to_string().contains("exists"), "{error}");
        let error = NewSuspendedFile::new(dir.path().join("missing/a.suspended"), None).unwrap_err();
        assert!(error.to_string().contains("the script did not start"), "{error}");
    }

    #[test]
    fn file_can_be_opened_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.suspended");
        fs::write(&path, "x").unwrap();
        let first = SuspendedFile::open(&path, None).unwrap();
        let error = SuspendedFile::open(&path, None).unwrap_err();
        assert!(error.to_string().contains("another process is resuming"), "{error}");
        let error = first.read().unwrap_err();
        assert!(error.to_string().contains("cannot resume"), "{error}");
        drop(first);
        SuspendedFile::open(&path, None).unwrap().delete();
        assert!(!path.exists());
        assert!(SuspendedFile::open(&path, None).is_err());
    }

    #[test]
    fn file_in_a_missing_directory_is_rejected_before_continuing() {
        let dir = tempfile::tempdir().unwrap();
        let (inner, moved) = (dir.path().join("inner"), dir.path().join("moved"));
        fs::create_dir(&inner).unwrap();
        fs::write(inner.join("a.suspended"), "x").unwrap();
        let file = SuspendedFile::open(&inner.join("a.suspended"), None).unwrap();
        file.check_directory().unwrap();
        assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "something was left behind");
        fs::rename(&inner, &moved).unwrap();
        let error = file.check_directory().unwrap_err();
        assert!(error.to_string().contains("the script did not continue"), "{error}");
    }

    #[test]
    fn arguments_are_escaped_completely() {
        let long = format!("{{\"a\":\n\"\u{202e}{}\"}}", "x".repeat(5_000));
        let shown = escaped_json(&long);
        assert!(shown.len() > 5_000 && shown.starts_with(r#"{"a": "\u202e"#), "{shown}");
        assert_eq!(escaped_json("{\n"), r"invalid JSON: {\n");
    }
}
