//! Output of guests, and the command's own messages about it.

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    mem,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    sync::{Arc, Mutex, PoisonError},
};

use glovebox::{
    AdviceKind, CancelToken, Correction, Execution, Outcome, Resource, Rollback, Stream, internal::whole_characters,
};

use crate::terminal::{dimmed, format_count, grouped, note, printable, write_printable};

/// A listener that forwards a guest's output: unchanged to a pipe or a file, and with escaped control characters to a
/// terminal. It cancels the guest when the output is closed.
#[derive(Clone, Debug)]
pub(crate) struct Passthrough {
    cancel: CancelToken,
    state: Arc<Mutex<OutputState>>,
}

#[derive(Debug)]
struct OutputState {
    failure: Option<io::Error>,
    stdout: Option<TerminalText>,
    stderr: Option<TerminalText>,
}

/// A converter of output chunks to text that cannot control a terminal. Carriage returns are retained: progress bars
/// overwrite their line with carriage returns, which cannot affect other lines.
#[derive(Debug, Default)]
struct TerminalText {
    /// Bytes of an incomplete character at the end of the last chunk, at most three.
    held: Vec<u8>,
}

impl TerminalText {
    fn write(&mut self, out: &mut impl Write, piece: &[u8]) -> io::Result<()> {
        self.held.extend_from_slice(piece);
        let rest = self.held.split_off(whole_characters(&self.held).len());
        let bytes = mem::replace(&mut self.held, rest);
        for (at, part) in bytes.split(|byte| *byte == b'\r').enumerate() {
            if at > 0 {
                out.write_all(b"\r")?;
            }
            write_printable(out, part)?;
        }
        Ok(())
    }

    /// Writes the bytes of a character that was never completed.
    fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        write_printable(out, &mem::take(&mut self.held))
    }
}

fn write_stream(out: &mut impl Write, text: Option<&mut TerminalText>, bytes: &[u8]) -> io::Result<()> {
    match text {
        Some(text) => text.write(out, bytes)?,
        None => out.write_all(bytes)?,
    }
    out.flush()
}

impl Passthrough {
    /// Creates a forwarder that can cancel the guest. With `is_raw`, a terminal receives the bytes unchanged.
    pub(crate) fn new(cancel: &CancelToken, is_raw: bool) -> Self {
        let text = |is_terminal: bool| (is_terminal && !is_raw).then(TerminalText::default);
        let (stdout, stderr) = (text(io::stdout().is_terminal()), text(io::stderr().is_terminal()));
        Self { cancel: cancel.clone(), state: Arc::new(Mutex::new(OutputState { failure: None, stdout, stderr })) }
    }

    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.failure.is_some() {
            // Output after the first failure is dropped.
            return;
        }
        let written = match stream {
            Stream::Stdout => write_stream(&mut io::stdout().lock(), state.stdout.as_mut(), bytes),
            // A script continues without standard error, as in a shell.
            _ => write_stream(&mut io::stderr().lock(), state.stderr.as_mut(), bytes).or(Ok(())),
        };
        if let Err(error) = written {
            self.cancel.cancel();
            state.failure = Some(error);
        }
    }

    /// Writes the bytes of an incomplete character. Returns the error that prevented writing the output, on the first
    /// call only.
    pub(crate) fn finish(&self) -> Option<io::Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let out = state.stdout.as_mut().map(|text| text.finish(&mut io::stdout().lock()));
        let _ = state.stderr.as_mut().map(|text| text.finish(&mut io::stderr().lock()));
        state.failure.take().or(out.and_then(Result::err))
    }
}

/// Explains an outcome on standard error, for example with the flag that raises an exceeded limit.
pub(crate) fn explain(execution: &Execution) {
    let has_reason = !matches!(execution.outcome, Outcome::Completed | Outcome::Exited { .. } | Outcome::Raised(_));
    let is_truncated = execution.stdout.is_truncated() || execution.stderr.is_truncated();
    if has_reason || is_truncated {
        end_open_line(&execution.stdout.bytes, &execution.stderr.bytes);
    }
    for (stream, output, flag) in
        [("stdout", &execution.stdout, "--stdout-bytes"), ("stderr", &execution.stderr, "--stderr-bytes")]
    {
        if output.is_truncated() {
            let (retained, total) =
                (grouped(output.bytes.len().try_into().unwrap_or(u64::MAX)), grouped(output.total_bytes));
            note(&format!(
                "{stream} truncated: the first {retained} of {total} bytes were retained; raise the limit with {flag} N"
            ));
        }
    }
    let outcome = &execution.outcome;
    match outcome {
        Outcome::Exhausted { resource, .. } => note(remedy(*resource)),
        Outcome::Cancelled | Outcome::Trapped { .. } => note(&outcome.describe()),
        // The script's own output explains the other outcomes.
        _ => {}
    }
    match execution.rolled_back_to {
        Some(Rollback { executions_lost: 0, .. }) => note("the session was rolled back to its state before this run"),
        Some(Rollback { executions_lost, .. }) => {
            note(&format!(
                "the session was rolled back to its state before this run and {}",
                format_count(executions_lost, "earlier execution")
            ));
        }
        None => {}
    }
}

/// Ends the last line of a script's output, if it is open. A message then begins on a new line of standard error, and
/// of standard output if both are the same terminal, file or pipe.
pub(crate) fn end_open_line(stdout: &[u8], stderr: &[u8]) {
    let is_open = |bytes: &[u8]| bytes.last().is_some_and(|last| *last != b'\n');
    if is_open(stderr) || (is_open(stdout) && shares_file_with_stderr()) {
        let _ = io::stderr().write_all(b"\n");
    }
}

/// Returns `true` if standard output and standard error are the same terminal, file or pipe.
fn shares_file_with_stderr() -> bool {
    let place = |handle: io::Result<OwnedFd>| {
        let metadata = File::from(handle.ok()?).metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let out = place(io::stdout().as_fd().try_clone_to_owned());
    out.is_some() && out == place(io::stderr().as_fd().try_clone_to_owned())
}

/// Prints advice on a failure, dimmed. Truncated output has already been reported.
pub(crate) fn advise(execution: &Execution) {
    let is_explained = matches!(execution.outcome, Outcome::Exhausted { .. });
    for advice in execution.guidance.advice.iter().filter(|advice| advice.kind != AdviceKind::Output) {
        if !is_explained {
            dimmed(&advice.summary);
        }
        for step in &advice.steps {
            dimmed(&format!("- {step}"));
        }
        if let Some(Correction { line, text }) = &advice.correction {
            dimmed(&format!("  line {line}: {text}"));
        }
    }
}

/// Writes a value on a separate line, like the interpreter. The value is untrusted and is escaped on a terminal.
pub(crate) fn show_value(repr: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        writeln!(out, "{}", printable(repr))?;
    } else {
        writeln!(out, "{repr}")?;
    }
    out.flush()
}

fn remedy(resource: Resource) -> &'static str {
    match resource {
        Resource::Fuel => "raise the limit with --fuel N",
        Resource::Time => "raise the limit with --timeout-ms N",
        Resource::Memory => "raise the limit with --memory-bytes N",
    }
}

#[cfg(test)]
mod tests {
    use super::TerminalText;

    #[test]
    fn output_chunks_cannot_control_a_terminal() {
        let output = "50%\r60%\n\x1b[2J\u{9b}1A\u{202e}\u{2028} é€😀".as_bytes();
        let shown = "50%\r60%\n\\u{1b}[2J\\u{9b}1A\\u{202e}\\u{2028} é€😀\\xf0\\x9f";
        for size in 1..=output.len() {
            let (mut text, mut out) = (TerminalText::default(), Vec::new());
            for piece in output.chunks(size).chain([&b"\xf0\x9f"[..]]) {
                text.write(&mut out, piece).unwrap();
                assert!(text.held.len() < 4);
            }
            text.finish(&mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), shown, "{size}");
        }
    }
}
