//! Type checkers that stay running between the checks of one owner.
//!
//! A new process spends about 100 ms on a check, mostly on the types of the standard library. A process that stays
//! running keeps these types in memory, and needs 4 to 15 ms for most scripts. It receives scripts over the Language
//! Server Protocol, and has the same limits and confinement as a process for a single check.
//!
//! A process checks only scripts of one owner, so that a flaw in the checker cannot pass data between owners. If the
//! process fails, it is killed, and a new process for a single check repeats the check.

use std::{
    fmt, fs,
    io::{self, BufRead, BufReader, Read as _, Write as _},
    mem,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    CheckLimits, CheckerMode, DECLARATIONS, ExceededLimit, MAX_OUTPUT_BYTES, MODE_OPTION, PACKAGES_OPTION, SCRIPT,
    SUBCOMMAND, checker::NAME, write,
};
use crate::{
    own_program,
    program::{RunningProgram, start_piped},
};

/// Maximum number of idle processes. Each occupies about 50 MB.
const MAX_IDLE_SERVERS: usize = 4;

/// The time after which an idle process ends.
const MAX_IDLE_TIME: Duration = Duration::from_secs(600);

/// The interval between checks for processes that have been idle for too long.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of checks per process. The memory of a process grows slowly with each check.
const MAX_CHECKS: u32 = 500;

/// Maximum memory of a process that stays running, in bytes. A process can use more memory during a check.
const MAX_IDLE_BYTES: u64 = 256 << 20;

/// Maximum number of consecutive processes that fail to start. After that, no more are started.
const MAX_FAILED_STARTS: usize = 3;

/// Maximum number of unread messages from a process.
const MAX_WAITING_MESSAGES: usize = 16;

/// Maximum length of a message's header line in bytes.
const MAX_HEADER_BYTES: u64 = 1 << 10;

/// The interval for checking the deadline and the cancellation token during a check.
const POLL: Duration = Duration::from_millis(20);

/// The unit of columns in messages: characters, as in the output of a single check.
const POSITION_ENCODING: &str = "utf-32";

/// A pool of running checkers.
pub(super) struct WarmPool {
    starts: Sender<ServerStart>,
    /// Idle processes, the most recently used last.
    idle: Arc<Mutex<Vec<CheckerProcess>>>,
    failed_starts: AtomicUsize,
}

impl fmt::Debug for WarmPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarmPool").finish_non_exhaustive()
    }
}

/// The owner and configuration of the scripts that a process may check.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ServerKey {
    pub(super) owner: String,
    /// The text of the configuration file.
    pub(super) configuration: String,
    /// The directory with packages that the configuration names, if any.
    pub(super) packages: Option<PathBuf>,
}

/// A request to start a process.
struct ServerStart {
    key: ServerKey,
    started: Sender<io::Result<CheckerProcess>>,
}

/// The reason why a check has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WarmCheckError {
    /// No process is available, or it failed.
    Unavailable,
    Limit(ExceededLimit),
}

impl WarmPool {
    /// Returns a pool of processes of `program`, or `None` if the pool's thread cannot be started.
    pub(super) fn new(program: &Path) -> Option<Self> {
        let (starts, requests) = mpsc::channel();
        let idle = Arc::<Mutex<Vec<CheckerProcess>>>::default();
        let (program, idle_servers) = (program.to_owned(), Arc::clone(&idle));
        let work = move || start_servers(&program, &requests, &idle_servers);
        thread::Builder::new().name("glovebox-types".to_owned()).spawn(work).ok()?;
        Some(Self { starts, idle, failed_starts: AtomicUsize::new(0) })
    }

    /// Checks a script. Returns the server's answer: an object whose member `items` lists the diagnostics.
    pub(super) fn check(
        &self,
        key: ServerKey,
        declarations: &str,
        source: &str,
        limits: &CheckLimits<'_>,
    ) -> Result<Value, WarmCheckError> {
        let mut server = self.take(key)?;
        // A server that fails is dropped, which kills it.
        let answer = server.check(declarations, source, limits).inspect_err(|error| {
            if *error == WarmCheckError::Unavailable && server.version == 0 {
                self.failed_starts.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        self.failed_starts.store(0, Ordering::Relaxed);
        if server.version < MAX_CHECKS && server.is_small() {
            self.keep(server);
        }
        Ok(answer)
    }

    /// Returns an idle process with this key, or starts one.
    fn take(&self, key: ServerKey) -> Result<CheckerProcess, WarmCheckError> {
        let mut idle = lock(&self.idle);
        if let Some(index) = idle.iter().rposition(|server| server.key == key) {
            return Ok(idle.remove(index));
        }
        let oldest = remove_oldest(&mut idle);
        drop(idle);
        drop(oldest);
        if self.failed_starts.load(Ordering::Relaxed) >= MAX_FAILED_STARTS {
            return Err(WarmCheckError::Unavailable);
        }
        let (started, receiver) = mpsc::channel();
        self.starts.send(ServerStart { key, started }).map_err(|_| WarmCheckError::Unavailable)?;
        match receiver.recv() {
            Ok(Ok(server)) => Ok(server),
            _ => Err(WarmCheckError::Unavailable),
        }
    }

    fn keep(&self, mut server: CheckerProcess) {
        server.idle_since = Instant::now();
        let mut idle = lock(&self.idle);
        let oldest = remove_oldest(&mut idle);
        idle.push(server);
        drop(idle);
        // Killing a process takes time, so release the lock first.
        drop(oldest);
    }
}

fn lock(idle: &Mutex<Vec<CheckerProcess>>) -> MutexGuard<'_, Vec<CheckerProcess>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the least recently used process if the pool is full. The caller must release the lock before dropping the
/// process.
fn remove_oldest(idle: &mut Vec<CheckerProcess>) -> Option<CheckerProcess> {
    (idle.len() >= MAX_IDLE_SERVERS).then(|| idle.remove(0))
}

/// Starts processes until the pool is dropped, and ends those that have been idle for too long. The kernel kills a
/// confined process when the thread that started it ends, so a single thread starts all processes.
fn start_servers(program: &Path, requests: &Receiver<ServerStart>, idle: &Mutex<Vec<CheckerProcess>>) {
    loop {
        match requests.recv_timeout(IDLE_INTERVAL) {
            Ok(ServerStart { key, started }) => {
                let _ = started.send(CheckerProcess::start(program, key));
            }
            Err(RecvTimeoutError::Timeout) => {
                let mut servers = lock(idle);
                let all = mem::take(&mut *servers).into_iter();
                let (active, expired): (Vec<_>, Vec<_>) =
                    all.partition(|server| server.idle_since.elapsed() < MAX_IDLE_TIME);
                *servers = active;
                drop(servers);
                drop(expired);
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A running checker. Dropping it kills the process.
struct CheckerProcess {
    key: ServerKey,
    /// The URI of the directory with the checker's files.
    root: String,
    /// The version of the documents: the number of checks, or 0 if the process has not started completely.
    version: u32,
    /// The ID of the last request.
    last_id: u64,
    idle_since: Instant,
    frames: Sender<Vec<u8>>,
    messages: Receiver<Value>,
    program: RunningProgram,
    _directory: TempDir,
}

impl CheckerProcess {
    fn start(program: &Path, key: ServerKey) -> io::Result<Self> {
        // These files stay empty, because the protocol transfers the script and the declarations.
        let directory = write(&key.configuration, "", "")?;
        let path = directory.path().canonicalize()?;
        let mut command = Command::new(own_program());
        command.env_clear().arg(SUBCOMMAND).arg(MODE_OPTION).arg(CheckerMode::Serve.name());
        if let Some(packages) = &key.packages {
            command.arg(PACKAGES_OPTION).arg(packages);
        }
        command.arg(program).arg(&path);
        let (program, stdin, stdout) = start_piped(&mut command, NAME)?;
        let (frames, written) = mpsc::channel();
        let (received, messages) = mpsc::sync_channel(MAX_WAITING_MESSAGES);
        // Use separate threads, so that a process that neither reads nor writes cannot block a check beyond its
        // deadline.
        thread::Builder::new().spawn(move || write_frames(stdin, &written))?;
        thread::Builder::new().spawn(move || read_messages(stdout, &received))?;
        Ok(Self {
            key,
            root: file_uri(&path),
            version: 0,
            last_id: 0,
            idle_since: Instant::now(),
            frames,
            messages,
            program,
            _directory: directory,
        })
    }

    /// Returns `false` if the process uses too much memory to stay running. Always returns `true` on systems other than
    /// Linux, because they have no `/proc/PID/status`.
    fn is_small(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.program.id())).unwrap_or_default();
        resident_bytes(&status).is_none_or(|bytes| bytes <= MAX_IDLE_BYTES)
    }

    fn check(&mut self, declarations: &str, source: &str, limits: &CheckLimits<'_>) -> Result<Value, WarmCheckError> {
        if self.version == 0 {
            self.initialize(limits)?;
        }
        self.version = self.version.saturating_add(1);
        for (name, text) in [(DECLARATIONS, declarations), (SCRIPT, source)] {
            let document = json!({ "uri": self.uri(name), "version": self.version });
            let changes = json!([{ "text": text }]);
            let parameters = json!({ "textDocument": document, "contentChanges": changes });
            self.notify("textDocument/didChange", &parameters);
        }
        let parameters = json!({ "textDocument": { "uri": self.uri(SCRIPT) } });
        self.request("textDocument/diagnostic", &parameters, limits)
    }

    /// Negotiates the protocol and opens the documents.
    fn initialize(&mut self, limits: &CheckLimits<'_>) -> Result<(), WarmCheckError> {
        let parameters = json!({
            "processId": null,
            "rootUri": self.root,
            "workspaceFolders": [{ "uri": self.root, "name": NAME }],
            "capabilities": {
                "general": { "positionEncodings": [POSITION_ENCODING] },
                "textDocument": { "diagnostic": { "dynamicRegistration": false } },
            },
        });
        let answer = self.request("initialize", &parameters, limits)?;
        if answer.pointer("/capabilities/positionEncoding") != Some(&json!(POSITION_ENCODING)) {
            return Err(WarmCheckError::Unavailable);
        }
        self.notify("initialized", &json!({}));
        for name in [DECLARATIONS, SCRIPT] {
            let document = json!({ "uri": self.uri(name), "languageId": "python", "version": 0, "text": "" });
            self.notify("textDocument/didOpen", &json!({ "textDocument": document }));
        }
        Ok(())
    }

    fn uri(&self, name: &str) -> String {
        format!("{}/{name}", self.root)
    }

    /// Sends a request and waits for its result.
    fn request(&mut self, method: &str, parameters: &Value, limits: &CheckLimits<'_>) -> Result<Value, WarmCheckError> {
        self.last_id = self.last_id.saturating_add(1);
        let id = json!(self.last_id);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        loop {
            limits.check().map_err(WarmCheckError::Limit)?;
            let mut message = match self.messages.recv_timeout(POLL) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Err(WarmCheckError::Unavailable),
            };
            let message_id = message.get("id").cloned();
            match message_id {
                // The client supports no requests from the server, so answer with `null`.
                Some(asked) if message.get("method").is_some() => {
                    self.send(&json!({ "jsonrpc": "2.0", "id": asked, "result": null }));
                }
                Some(answered) if answered == id => {
                    return message.get_mut("result").map(Value::take).ok_or(WarmCheckError::Unavailable);
                }
                _ => {}
            }
        }
    }

    fn notify(&self, method: &str, parameters: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": parameters }));
    }

    fn send(&self, message: &Value) {
        let body = message.to_string();
        // Ignore errors: if the process has ended, the next request fails.
        let _ = self.frames.send(format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes());
    }
}

/// Returns the resident memory of a process with this text in `/proc/PID/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let size = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    size.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

fn write_frames(mut stdin: ChildStdin, frames: &Receiver<Vec<u8>>) {
    while let Ok(frame) = frames.recv() {
        if stdin.write_all(&frame).is_err() {
            return;
        }
    }
}

fn read_messages(stdout: ChildStdout, messages: &SyncSender<Value>) {
    let mut reader = BufReader::new(stdout);
    while let Some(message) = read_message(&mut reader) {
        if messages.send(message).is_err() {
            return;
        }
    }
}

/// Reads a message. Returns `None` at the end, if the message is malformed, or if it is too long.
fn read_message(reader: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        reader.by_ref().take(MAX_HEADER_BYTES).read_line(&mut line).ok()?;
        // At the end of the stream, the line has no line break.
        let line = line.strip_suffix("\r\n")?;
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse::<usize>().ok();
        }
    }
    let mut body = vec![0; length.filter(|length| *length <= MAX_OUTPUT_BYTES)?];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Returns the URI of an absolute path.
fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => uri.push(char::from(*byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_up_to_the_maximum_length() {
        let frame = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let text = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        for (input, expected) in [
            (frame("{\"id\":1}"), Some(json!({ "id": 1 }))),
            (format!("content-length:4\r\nContent-Type: x\r\n\r\nnull{}", frame("1")), Some(json!(null))),
            (frame(&text(MAX_OUTPUT_BYTES)), Some(json!("x".repeat(MAX_OUTPUT_BYTES - 2)))),
            (frame(&text(MAX_OUTPUT_BYTES + 1)), None),
            (String::new(), None),
            (frame("{}").replace("{}", "{"), None),
            (frame("x"), None),
            ("Content-Length: 2\r\n".to_owned(), None),
            ("\r\n{}".to_owned(), None),
            ("Content-Length: -1\r\n\r\n{}".to_owned(), None),
            (format!("{}\r\n\r\n", "x".repeat(2 << 10)), None),
        ] {
            assert_eq!(read_message(&mut input.as_bytes()), expected, "{}", input.get(..100).unwrap_or(&input));
        }
    }

    #[test]
    fn resident_memory_is_read() {
        let status = "Name:\tty\nVmHWM:\t   90000 kB\nVmRSS:\t   53308 kB\nThreads:\t9\n";
        assert_eq!(resident_bytes(status), Some(53_308 << 10));
        for unknown in ["", "VmRSS:\t1 MB", "VmRSS:\tx kB", "VmRSS:\t18446744073709551615 kB"] {
            assert_eq!(resident_bytes(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn uris_are_escaped() {
        for (path, uri) in [
            ("/tmp/glovebox-types-Ab1", "file:///tmp/glovebox-types-Ab1"),
            ("/a b/%/é?#", "file:///a%20b/%25/%C3%A9%3F%23"),
        ] {
            assert_eq!(file_uri(Path::new(path)), uri);
        }
    }
}
