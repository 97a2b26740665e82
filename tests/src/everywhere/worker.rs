//! Worker processes, which answer each input line with one output line.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use tempfile::NamedTempFile;

/// Maximum number of bytes of a failed process's output that an error shows.
const SHOWN_BYTES: usize = 2_000;

/// The result of sending a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The process's answer.
    Line(String),
    /// The process ended or timed out. Contains its last output. The next line is sent to a new process.
    Broke(String),
}

/// A process that answers each line on standard input with a line on standard output. It is restarted after it has
/// ended.
#[derive(Debug)]
pub struct Worker {
    command: Command,
    running: Option<WorkerProcess>,
    started: u32,
}

#[derive(Debug)]
struct WorkerProcess {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    log: NamedTempFile,
}

impl Worker {
    /// Creates a worker. The process starts when the first line is sent.
    pub fn new(command: Command) -> Self {
        Self { command, running: None, started: 0 }
    }

    /// Returns the number of processes started so far. When it changes, the state of earlier processes is lost.
    pub fn started(&self) -> u32 {
        self.started
    }

    /// Returns the ID of the running process.
    pub fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Ends the process. The next line is sent to a new process.
    pub fn end(&mut self) {
        if let Some(running) = self.running.take() {
            drop(running.stdin);
            let mut child = running.child;
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a line and waits up to `limit` for the answer.
    pub fn ask(&mut self, line: &str, limit: Duration) -> Answer {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => self.start(),
        };
        // An error means that the process has ended. In that case, no answer arrives either.
        let _ = writeln!(running.stdin, "{line}").and_then(|()| running.stdin.flush());
        match running.lines.recv_timeout(limit) {
            Ok(answer) => {
                self.running = Some(running);
                Answer::Line(answer)
            }
            Err(RecvTimeoutError::Timeout) => Answer::Broke(format!("no answer within {limit:?}\n{}", running.end())),
            Err(RecvTimeoutError::Disconnected) => Answer::Broke(running.end()),
        }
    }

    fn start(&mut self) -> WorkerProcess {
        let log = NamedTempFile::new().expect("a temporary file can be created");
        let stderr = File::create(log.path()).expect("a temporary file can be written");
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("an existing program can be started");
        let stdin = child.stdin.take().expect("standard input is a pipe");
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        self.started += 1;
        WorkerProcess { child, stdin, lines, log }
    }
}

impl WorkerProcess {
    /// Ends the process if needed, and returns its exit status and last output.
    fn end(mut self) -> String {
        // The process has closed its output and should exit soon, but the wait is bounded.
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let status = self.child.wait().expect("a child can be waited for");
        let log = fs::read(self.log.path()).unwrap_or_default();
        let tail = &log[log.len().saturating_sub(SHOWN_BYTES)..];
        format!("{status}\n{}", String::from_utf8_lossy(tail))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}
