//! The process of an MCP server and its standard streams, with a limit on the length of each line.

use std::{
    io,
    pin::Pin,
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, ReadBuf},
    process::{Child, ChildStdin, ChildStdout, Command},
};
use tokio_util::sync::CancellationToken;

use super::ProcessConfig;
use crate::json::JsonCost;

/// Maximum time for a server to exit after its input was closed, before it is killed.
pub(super) const END: Duration = Duration::from_secs(2);

/// The number of bytes from the end of standard error that an error message quotes.
const STDERR_BYTES: usize = 1_000;

/// Maximum time to wait for a failed server's last output on standard error.
const STDERR_TIME: Duration = Duration::from_millis(200);

/// A running server process. Dropping it kills the process and its children.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    _group: Group,
    stderr: Stderr,
    is_exceeded: Arc<AtomicBool>,
}

impl Process {
    /// Starts a server. Also returns its standard output and input. `max_message_bytes` limits the size of each message
    /// from the server.
    pub(super) fn start(
        config: &ProcessConfig,
        max_message_bytes: usize,
    ) -> Result<(Self, BoundedLines<ChildStdout>, ChildStdin), String> {
        let mut command = Command::new(&config.command);
        command.args(&config.args).env_clear();
        // Most programs need these variables to find other programs and their own files. No other variables are
        // inherited.
        for name in ["PATH", "HOME"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(&config.env);
        if let Some(cwd) = &config.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        // Ctrl-C in the terminal must signal only this process, which then stops the server and its children.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("has no standard streams".into());
        };
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        let stdout = BoundedLines::new(stdout, max_message_bytes);
        let is_exceeded = stdout.exceeded();
        Ok((Self { child, _group: Group(group), stderr: Stderr::of(stderr), is_exceeded }, stdout, stdin))
    }

    /// Returns details to append to an error message: the exceeded limit, if any, and the last output on standard
    /// error.
    pub(super) async fn failure_details(&self) -> String {
        let too_long =
            self.is_exceeded.load(Ordering::SeqCst).then_some(": a message was too long or had too many values");
        format!("{}{}", too_long.unwrap_or_default(), self.stderr.quoted().await)
    }

    /// Waits for the server to exit after its input was closed, and kills its process group.
    pub(super) async fn end(mut self) {
        let _ = tokio::time::timeout(END, self.child.wait()).await;
    }
}

/// A process group that is killed on drop.
#[derive(Debug)]
struct Group(Option<rustix::process::Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that the group is empty.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

/// A reader that drains a server's standard error and retains the end of its output.
#[derive(Debug)]
struct Stderr {
    tail: Arc<Mutex<Vec<u8>>>,
    ended: CancellationToken,
}

impl Stderr {
    fn of(mut stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (tail, ended) = (Arc::<Mutex<Vec<u8>>>::default(), CancellationToken::new());
        let (held, over) = (Arc::clone(&tail), ended.clone().drop_guard());
        tokio::spawn(async move {
            let _over = over;
            let mut chunk = vec![0; 8 << 10];
            while let Ok(count @ 1..) = stream.read(&mut chunk).await {
                let new = chunk.get(..count).unwrap_or_default();
                let text = String::from_utf8_lossy(new);
                tracing::debug!(target: "glovebox", text = %glovebox::escaped_text(&*text), "an MCP server wrote");
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.extend_from_slice(new);
                let beyond = held.len().saturating_sub(STDERR_BYTES);
                held.drain(..beyond);
            }
        });
        Self { tail, ended }
    }

    /// Quotes the end of standard error for an error message. Waits up to `STDERR_TIME`, because a failed server can
    /// still be writing the reason.
    async fn quoted(&self) -> String {
        let _ = tokio::time::timeout(STDERR_TIME, self.ended.cancelled()).await;
        let bytes = self.tail.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match String::from_utf8_lossy(&bytes).trim() {
            "" => String::new(),
            text => format!("; its standard error ends with: {}", glovebox::escaped_text(text)),
        }
    }
}

/// A reader of JSON lines. Fails if a line is too long or its values would occupy too much memory.
#[derive(Debug)]
pub(super) struct BoundedLines<R> {
    inner: R,
    max_bytes: usize,
    line_bytes: usize,
    cost: JsonCost,
    is_exceeded: Arc<AtomicBool>,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(inner: R, max_bytes: usize) -> Self {
        Self { inner, max_bytes, line_bytes: 0, cost: JsonCost::default(), is_exceeded: Arc::default() }
    }

    /// Returns a flag that is set when a limit is exceeded. The flag stays available after the reader has been moved.
    pub(super) fn exceeded(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_exceeded)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let (mut line_bytes, mut cost) = (self.line_bytes, self.cost);
        for piece in buffer.filled().get(before..).unwrap_or_default().split_inclusive(|byte| *byte == b'\n') {
            line_bytes += piece.len();
            if line_bytes > self.max_bytes || cost.read(piece).is_err() {
                self.is_exceeded.store(true, Ordering::SeqCst);
                let message = format!("a message exceeds {} bytes or has too many values", self.max_bytes);
                return Poll::Ready(Err(io::Error::other(message)));
            }
            if piece.ends_with(b"\n") {
                (line_bytes, cost) = (0, JsonCost::default());
            }
        }
        (self.line_bytes, self.cost) = (line_bytes, cost);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(bytes: &[u8], max_bytes: usize) -> (io::Result<usize>, bool) {
        let mut lines = BoundedLines::new(bytes, max_bytes);
        let exceeded = lines.exceeded();
        let read = lines.read_to_end(&mut Vec::new()).await;
        (read, exceeded.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn line_over_the_limit_is_rejected() {
        for (bytes, fits) in [
            (&b"123\n123\n\n123"[..], true),
            (b"1234\n1234\n", true),
            (b"1234", true),
            (b"12345", false),
            (b"12345\n", false),
            (b"1\n2345\n678901\n", false),
        ] {
            let (read, exceeded) = read(bytes, 5).await;
            let fits = fits || bytes == b"12345";
            assert_eq!((read.is_ok(), exceeded), (fits, !fits), "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn number_of_values_is_limited_per_line() {
        let values = "[],".repeat(1 << 18);
        for (text, fits) in [
            (format!("[{values}0]\n"), false),
            (format!("\"{values}\"\n"), true),
            ("[[],[],[]]\n".repeat(1 << 16), true),
            ("[".repeat(200), false),
        ] {
            let (read, exceeded) = read(text.as_bytes(), 8 << 20).await;
            assert_eq!((read.is_ok(), exceeded), (fits, !fits), "{}", &text[..20]);
        }
    }
}
