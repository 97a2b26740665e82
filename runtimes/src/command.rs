//! pip and npm as child processes with a timeout. A child is killed when its handle is dropped.

use glovebox_vfs::escaped;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::{Progress, manifest::MAX_BINARY_BYTES};

/// The polling interval for a running child.
const POLL: Duration = Duration::from_millis(50);

/// The timeout of `--version`. `pip --version` takes a third of a second, but a wrapper may first install itself.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of the download directory. pip may keep a temporary copy of a package next to the package.
const MAX_DIRECTORY_BYTES: u64 = 2 * MAX_BINARY_BYTES;

/// Number of bytes to search for an error message, from the end of the output.
const LOG_TAIL_BYTES: u64 = 8 << 10;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("no working command was found; tried {0}")]
    NoneWorks(String),
    #[error("cannot run `{program}`: {source}", program = escaped(.program))]
    Spawn { program: String, source: io::Error },
    #[error("`{program}` failed: {reason}", program = escaped(.program))]
    Failed { program: String, reason: String },
    #[error("`{program}` was stopped after {} s", timeout.as_secs(), program = escaped(.program))]
    TimedOut { program: String, timeout: Duration },
    #[error(
        "`{program}` was stopped: it wrote {bytes} bytes; the limit is {MAX_DIRECTORY_BYTES}",
        program = escaped(.program)
    )]
    TooBig { program: String, bytes: u64 },
    #[error("cancelled")]
    Cancelled,
}

/// A working pip or npm command.
pub(crate) struct Download {
    words: Vec<OsString>,
}

impl Download {
    /// Returns the first command that supports `--version`.
    pub(crate) fn find(
        commands: &[Vec<OsString>],
        scratch: &Path,
        progress: &dyn Progress,
    ) -> Result<Self, CommandError> {
        for words in commands {
            let candidate = Self { words: words.clone() };
            match candidate.probe(scratch, progress) {
                Ok(()) => return Ok(candidate),
                Err(CommandError::Cancelled) => return Err(CommandError::Cancelled),
                Err(e) => tracing::debug!(error = %e, "a download command does not work"),
            }
        }
        let names: Vec<_> = commands.iter().map(|words| format!("`{}`", shown(words))).collect();
        Err(CommandError::NoneWorks(names.join(", ")))
    }

    fn probe(&self, scratch: &Path, progress: &dyn Progress) -> Result<(), CommandError> {
        let mut command = self.command()?;
        command.arg("--version").current_dir(scratch).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = RunningCommand(command.spawn().map_err(|source| self.spawn_error(source))?);
        let status = self.wait(&mut child, PROBE_TIMEOUT, progress, &mut || Ok(()))?;
        if status.success() { Ok(()) } else { Err(self.failed(status.to_string())) }
    }

    /// Downloads one wheel for each requirement into `into`.
    pub(crate) fn run(
        &self,
        options: &[&str],
        requirements: &[String],
        into: &Path,
        timeout: Duration,
        progress: &dyn Progress,
    ) -> Result<(), CommandError> {
        let fixed = ["download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--ignore-requires-python"];
        let output = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--retries", "2"];
        // Pass `.` instead of the path, because old versions of pip misparse some paths.
        let into_here = ["--dest", "."];
        let requirements: Vec<_> = requirements.iter().map(String::as_str).collect();
        self.run_with(&[&fixed[..], &output, &into_here, options, &requirements].concat(), into, timeout, progress)
    }

    /// Downloads a published npm package into `into`, without unpacking it or running its scripts.
    pub(crate) fn pack(
        &self,
        package: &str,
        into: &Path,
        timeout: Duration,
        progress: &dyn Progress,
    ) -> Result<(), CommandError> {
        let options = ["pack", "--ignore-scripts", "--loglevel=error", "--no-update-notifier", "--logs-max=0"];
        // Keep npm's cache in the temporary directory, so that it is removed with the directory.
        let what = ["--cache=.npm", "--fetch-retries=2", "--pack-destination=.", "--", package];
        self.run_with(&[&options[..], &what].concat(), into, timeout, progress)
    }

    fn run_with(
        &self,
        arguments: &[&str],
        into: &Path,
        timeout: Duration,
        progress: &dyn Progress,
    ) -> Result<(), CommandError> {
        // Write the output to a file instead of a pipe. A full pipe would block the child, and a grandchild that
        // inherits a pipe would keep its reader waiting.
        let log = into.join("pip.log");
        let open = || {
            let log = File::options().create_new(true).read(true).append(true).open(&log)?;
            Ok((log.try_clone()?, log.try_clone()?, log))
        };
        let (out, err, mut log) = open().map_err(|source| self.spawn_error(source))?;
        let mut command = self.command()?;
        command
            .args(arguments)
            .current_dir(into)
            // pip's temporary files are removed with this directory, even if pip is killed.
            .env("TMPDIR", into)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        let mut child = RunningCommand(command.spawn().map_err(|source| self.spawn_error(source))?);
        let mut watch = || {
            let bytes = tree_bytes(into, 4);
            progress.bytes(bytes, 0);
            match bytes > MAX_DIRECTORY_BYTES {
                true => Err(CommandError::TooBig { program: shown(&self.words), bytes }),
                false => Ok(()),
            }
        };
        let status = self.wait(&mut child, timeout, progress, &mut watch)?;
        if status.success() {
            return Ok(());
        }
        Err(self.failed(last_error(&mut log).unwrap_or_else(|| status.to_string())))
    }

    fn wait(
        &self,
        child: &mut RunningCommand,
        timeout: Duration,
        progress: &dyn Progress,
        watch: &mut dyn FnMut() -> Result<(), CommandError>,
    ) -> Result<ExitStatus, CommandError> {
        let began = Instant::now();
        loop {
            if let Some(status) = child.0.try_wait().map_err(|source| self.spawn_error(source))? {
                return Ok(status);
            }
            if progress.cancelled() {
                return Err(CommandError::Cancelled);
            }
            if began.elapsed() >= timeout {
                return Err(CommandError::TimedOut { program: shown(&self.words), timeout });
            }
            watch()?;
            std::thread::sleep(POLL);
        }
    }

    fn command(&self) -> Result<Command, CommandError> {
        let mut words = self.words.iter();
        let program = words.next().ok_or_else(|| CommandError::NoneWorks("an empty command".to_owned()))?;
        let mut command = Command::new(program);
        command.args(words);
        Ok(command)
    }

    fn spawn_error(&self, source: io::Error) -> CommandError {
        CommandError::Spawn { program: shown(&self.words), source }
    }

    fn failed(&self, reason: String) -> CommandError {
        CommandError::Failed { program: shown(&self.words), reason }
    }
}

/// A child process that is killed when dropped.
struct RunningCommand(Child);

impl Drop for RunningCommand {
    fn drop(&mut self) {
        // Both calls fail only if other code has reaped the child.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn shown(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Returns the size in bytes of the files in a directory and in at most `depth` levels of subdirectories. Skips files
/// that disappear during the scan or cannot be read.
fn tree_bytes(dir: &Path, depth: u32) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries.flatten().fold(0, |sum, entry| {
        let bytes = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata.len(),
            Ok(metadata) if metadata.is_dir() && depth > 0 => tree_bytes(&entry.path(), depth - 1),
            _ => 0,
        };
        sum.saturating_add(bytes)
    })
}

/// Returns pip's last error line or npm's first error line. Without an error line, returns the last line of the output.
fn last_error(log: &mut File) -> Option<String> {
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    log.take(LOG_TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_npms = |line: &&&str| line.starts_with("npm error") && !line.starts_with("npm error code");
    let error = lines.iter().rev().find(|line| line.starts_with("ERROR")).or_else(|| lines.iter().find(is_npms));
    let error = error.or(lines.last())?;
    // Remove control characters, because the text is printed on a terminal.
    Some(error.chars().filter(|c| !c.is_control()).take(300).collect())
}
