//! Host programs that implement tools, and other commands with limits.
//!
//! Only the command line decides which program runs. The command's words come from the flag, no shell interprets them,
//! and the script's arguments reach only the program's standard input.
//!
//! The program runs in its own process group. The group is killed when the program has answered, when the call is
//! cancelled, and when this process ends.

#[cfg(feature = "full")]
use std::process::{ChildStdin, ChildStdout};
use std::{
    collections::BTreeSet,
    io::{self, Read, Write},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use glovebox::{CancelToken, Tool, ToolCall, ToolError, ToolErrorKind};
use rustix::process::{Pid, RawPid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::terminal::{HintedError, printable};

/// The number of bytes at the end of standard error that an error message quotes.
const STDERR_BYTES_MAX: usize = 2_000;

/// The polling interval of a running program.
const POLL: Duration = Duration::from_millis(5);

/// The time for the streams of an ended program to close: children that left its process group may still have them
/// open.
const STREAM_TIMEOUT: Duration = Duration::from_millis(200);

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    words: Vec<String>,
}

impl Program {
    /// Splits a command into words like a shell, without expansions. Returns `None` if a quote is unterminated,
    /// or if the command has no words or an empty first word.
    pub(crate) fn parse(command: &str) -> Option<Self> {
        let words = shlex::split(command)?;
        if words.first().is_none_or(String::is_empty) { None } else { Some(Self { words }) }
    }

    /// Returns the tool that the program implements, with at most `max_bytes` bytes per answer.
    pub(crate) fn tool(&self, name: &str, max_bytes: u64) -> Result<Tool, HintedError> {
        let program = self.words.first().map(String::as_str).unwrap_or_default();
        if !is_executable(program) {
            return Err(HintedError::new(
                format!("program `{program}` for tool `{name}` was not found or is not executable"),
                "use the path of an executable, or the name of one in your PATH",
            ));
        }
        let it = self.clone();
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let description = format!("Runs `{program}` on the host.");
        Ok(Tool::new(name, description).text_handler(move |call, arguments| it.answer(call, arguments, max_bytes)))
    }

    fn answer(&self, call: &ToolCall, arguments: String, max_bytes: usize) -> Result<String, ToolError> {
        let failed = |reason: String| ToolError::new(format!("`{}` {reason}", call.name));
        let not_awaited =
            |error: io::Error| ToolError::new(format!("tool `{}`: cannot wait for its program: {error}", call.name));
        let running = self.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let (end, output) = running.finish(arguments, call.deadline, max_bytes, &call.cancel).map_err(not_awaited)?;
        match end {
            ProgramEnd::Exited(status, _) if status.success() => {
                let text = String::from_utf8(output).map_err(|_| failed("answered with invalid UTF-8".into()))?;
                // A program without a result may print nothing.
                Ok(if text.trim().is_empty() { "null".into() } else { text })
            }
            ProgramEnd::Exited(status, stderr) => {
                let how = describe_status(status);
                Err(failed(if stderr.is_empty() { how } else { format!("{how}: {stderr}") }))
            }
            ProgramEnd::TooLong => {
                let message = format!(
                    "`{}` answered with more than {max_bytes} bytes, the maximum `limits.tool_bytes`; \
                     return less or raise the limit",
                    call.name
                );
                Err(ToolError::of(ToolErrorKind::Limit, message))
            }
            ProgramEnd::TimedOut | ProgramEnd::Cancelled => {
                Err(failed("was stopped: the call was cancelled or timed out".into()))
            }
        }
    }

    fn spawn(&self) -> io::Result<RunningProgram> {
        let (program, arguments) = self.words.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        RunningProgram::start(&mut command, program)
    }
}

/// The reason why a program ended.
pub(crate) enum ProgramEnd {
    /// The program ended. Contains the end of its standard error.
    Exited(ExitStatus, String),
    /// The output exceeded the limit.
    TooLong,
    TimedOut,
    Cancelled,
}

/// Runs a command without input. Kills its process group at the timeout, after more than `max_bytes` bytes of output,
/// and when `cancel` is cancelled. Returns the first `max_bytes` bytes of its output.
#[cfg(feature = "full")]
pub(crate) fn run_bounded(
    command: &mut Command,
    name: &str,
    timeout: Duration,
    max_bytes: usize,
    cancel: &CancelToken,
) -> io::Result<(ProgramEnd, Vec<u8>)> {
    let deadline = Instant::now() + timeout;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    RunningProgram::start(command, name)?.finish(String::new(), deadline, max_bytes, cancel)
}

/// Starts a command and returns it with its input and output. Discards its standard error.
#[cfg(feature = "full")]
pub(crate) fn start_piped(command: &mut Command, name: &str) -> io::Result<(RunningProgram, ChildStdin, ChildStdout)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = RunningProgram::start(command, name)?;
    let stdin = running.child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let stdout = running.child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((running, stdin, stdout))
}

/// The process groups of running programs.
struct Groups {
    running: BTreeSet<RawPid>,
    is_closed: bool,
}

static GROUPS: Mutex<Groups> = Mutex::new(Groups { running: BTreeSet::new(), is_closed: false });

fn groups() -> MutexGuard<'static, Groups> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all running programs and prevents new ones, because this process is ending.
pub(crate) fn kill_all() {
    let mut groups = groups();
    groups.is_closed = true;
    // The group leaders are not reaped yet, so their group IDs cannot have been reused.
    for group in groups.running.iter().filter_map(|raw| Pid::from_raw(*raw)) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A running program. Dropping it kills its whole process group.
pub(crate) struct RunningProgram {
    child: Child,
    name: String,
    is_over: bool,
}

impl RunningProgram {
    /// Starts a command in a separate process group. Ctrl-C at the terminal then reaches only this process, and killing
    /// the group also ends the processes that the program has started.
    fn start(command: &mut Command, name: &str) -> io::Result<Self> {
        let mut groups = groups();
        if groups.is_closed {
            return Err(io::Error::other("glovebox is exiting"));
        }
        let child = command.process_group(0).spawn()?;
        groups.running.insert(Pid::from_child(&child).as_raw_pid());
        Ok(Self { child, name: name.to_owned(), is_over: false })
    }

    /// Returns the ID of the program's process.
    #[cfg(feature = "full")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes the program's input and waits for its end. Kills its process group at the deadline, after more than
    /// `max_bytes` bytes of output, and when `cancel` is cancelled. Returns the first `max_bytes` bytes of its output.
    fn finish(
        mut self,
        input: String,
        deadline: Instant,
        max_bytes: usize,
        cancel: &CancelToken,
    ) -> io::Result<(ProgramEnd, Vec<u8>)> {
        // Each stream has its own thread, so that the streams do not block each other.
        if let Some(mut stdin) = self.child.stdin.take() {
            // Errors are ignored: a program might not read its input.
            let _ = thread::Builder::new().spawn(move || stdin.write_all(input.as_bytes()));
        }
        let stdout = Stream::first(self.child.stdout.take(), max_bytes);
        let stderr = Stream::last(self.child.stderr.take(), STDERR_BYTES_MAX);
        let mut end = loop {
            if stdout.len() > max_bytes {
                break ProgramEnd::TooLong;
            }
            if self.has_ended()? {
                let status = self.end()?;
                let stderr = stderr.collect(Instant::now() + STREAM_TIMEOUT);
                break ProgramEnd::Exited(status, end_of(&stderr));
            }
            if Instant::now() >= deadline {
                break ProgramEnd::TimedOut;
            }
            if cancel.wait_timeout(POLL) {
                break ProgramEnd::Cancelled;
            }
        };
        drop(self);
        let mut output = stdout.collect(Instant::now() + STREAM_TIMEOUT);
        if output.len() > max_bytes {
            end = ProgramEnd::TooLong;
            output.truncate(max_bytes);
        }
        Ok((end, output))
    }

    /// Returns `true` if the program has ended. Does not reap the program, so that its group ID is not reused.
    fn has_ended(&self) -> io::Result<bool> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.child)), options)?.is_some())
    }

    /// Kills the group, including the program if it is still running, and returns the program's exit status.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !std::mem::replace(&mut self.is_over, true) {
            let mut groups = groups();
            let group = Pid::from_child(&self.child);
            // This fails if the group contains only its ended leader, which is not an error.
            let _ = kill_process_group(group, Signal::KILL);
            // The program may have left its group.
            let _ = self.child.kill();
            groups.running.remove(&group.as_raw_pid());
        }
        // A program that runs as another user cannot be killed, so the wait for its end is limited.
        let deadline = Instant::now() + STREAM_TIMEOUT;
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() >= deadline => {
                    return Err(io::Error::other(format!(
                        "the program `{}` did not end after SIGKILL; it may run as another user",
                        self.name
                    )));
                }
                None => thread::sleep(POLL),
            }
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The output of a program, read on a thread.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    /// Retains the first `max_bytes` bytes, plus one if there are more.
    fn first(from: Option<impl Read + Send + 'static>, max_bytes: usize) -> Self {
        Self::read(from, move |all, new| {
            all.extend(new.iter().take(max_bytes.saturating_add(1).saturating_sub(all.len())));
            all.len() <= max_bytes
        })
    }

    /// Retains the last `max_bytes` bytes.
    fn last(from: Option<impl Read + Send + 'static>, max_bytes: usize) -> Self {
        Self::read(from, move |all, new| {
            all.extend(new);
            all.drain(..all.len().saturating_sub(max_bytes));
            true
        })
    }

    /// Reads the output on a thread and passes it to `add` until `add` returns `false`.
    fn read(
        from: Option<impl Read + Send + 'static>,
        mut add: impl FnMut(&mut Vec<u8>, &[u8]) -> bool + Send + 'static,
    ) -> Self {
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let all = Arc::clone(&bytes);
        let reader = from.and_then(|mut from| {
            let reading = move || {
                let mut chunk = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from.read(&mut chunk) {
                    let new = chunk.get(..count).unwrap_or_default();
                    if !add(&mut all.lock().unwrap_or_else(PoisonError::into_inner), new) {
                        return;
                    }
                }
            };
            thread::Builder::new().spawn(reading).ok()
        });
        Self { bytes, reader }
    }

    fn len(&self) -> usize {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Returns the output up to the end of the stream, or the output received by the time `until`.
    fn collect(self, until: Instant) -> Vec<u8> {
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Returns `true` if the operating system would find an executable file for this program name.
fn is_executable(program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let fits = |path: std::path::PathBuf| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return fits(program.into());
    }
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| fits(dir.join(program))))
}

fn describe_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended for an unknown reason".into(),
    }
}

/// Returns the end of standard error in escaped form. Begins at the start of a line if possible.
fn end_of(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = match text.split_once('\n') {
        Some((_, rest)) if stderr.len() >= STDERR_BYTES_MAX && !rest.trim().is_empty() => rest,
        _ => &*text,
    };
    printable(text.trim())
}

#[cfg(test)]
mod tests {
    use super::Program;

    #[test]
    fn commands_are_split_without_expansion() {
        let words = |command| Program::parse(command).map(|program| program.words);
        let expected = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words("python3 add.py"), expected(&["python3", "add.py"]));
        assert_eq!(words("sh -c 'a b; $C' \"d e\""), expected(&["sh", "-c", "a b; $C", "d e"]));
        assert_eq!(words("echo $HOME *.py `id` ; x"), expected(&["echo", "$HOME", "*.py", "`id`", ";", "x"]));
        for none in ["", "  ", "'", "a 'b", "''"] {
            assert_eq!(words(none), None, "{none}");
        }
    }

    #[test]
    fn missing_program_is_rejected_before_running() {
        for command in ["/no/such/program", "no-such-program-anywhere", "/etc/passwd", "/tmp"] {
            assert!(Program::parse(command).unwrap().tool("x", 100).is_err(), "{command}");
        }
        assert!(Program::parse("sh -c true").unwrap().tool("x", 100).is_ok());
    }
}
