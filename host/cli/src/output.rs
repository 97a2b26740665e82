//! A guest's output on its way to ours, and what is said beside it.

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::MetadataExt as _,
    },
    sync::{Arc, Mutex, PoisonError},
};

use glovebox::{AdviceKind, CancelToken, Correction, Execution, Outcome, Output, Resource, Rollback, Stream};

use crate::terminal::{counted, dimmed, grouped, note, printable};

/// Passes a guest's output on, byte for byte. When our own output is gone, so is the reason to go on.
#[derive(Clone, Debug)]
pub(crate) struct Passthrough {
    cancel: CancelToken,
    failure: Arc<Mutex<Option<io::Error>>>,
}

impl Passthrough {
    pub(crate) fn new(cancel: &CancelToken) -> Self {
        Self { cancel: cancel.clone(), failure: Arc::default() }
    }

    pub(crate) fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            // Nobody wants to know how the script ends now, either.
            return;
        }
        let written = match stream {
            Stream::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            // A script goes on without standard error, as it would in a shell.
            _ => io::stderr().lock().write_all(bytes).or(Ok(())),
        };
        if let Err(error) = written {
            self.cancel.cancel();
            *failure = Some(error);
        }
    }

    /// Why the output could not be written, once.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Says on standard error what the script's own output does not: which flag raises the limit that its last line names.
pub(crate) fn explain(execution: &Execution) {
    // What we say begins a line: standard error's own, or where both streams go to one place, standard output's.
    let said_more = !matches!(execution.outcome, Outcome::Completed | Outcome::Exited { .. } | Outcome::Raised(_));
    let is_truncated = execution.stdout.is_truncated() || execution.stderr.is_truncated();
    let is_open = |output: &Output| output.bytes.last().is_some_and(|last| *last != b'\n');
    if (said_more || is_truncated)
        && (is_open(&execution.stderr) || (is_open(&execution.stdout) && goes_where_stderr_goes()))
    {
        let _ = io::stderr().write_all(b"\n");
    }
    for (stream, output, flag) in
        [("stdout", &execution.stdout, "--stdout-bytes"), ("stderr", &execution.stderr, "--stderr-bytes")]
    {
        if output.is_truncated() {
            let (retained, total) =
                (grouped(output.bytes.len().try_into().unwrap_or(u64::MAX)), grouped(output.total_bytes));
            note(&format!(
                "{stream} truncated: the first {retained} of {total} bytes were retained; raise it with {flag} N"
            ));
        }
    }
    let outcome = &execution.outcome;
    match outcome {
        Outcome::Exhausted { resource, .. } => note(way_out(*resource)),
        Outcome::Cancelled | Outcome::Trapped { .. } => note(&outcome.describe()),
        // The script's own doing, which its own output tells.
        _ => {}
    }
    match execution.rolled_back_to {
        Some(Rollback { executions_lost: 0, .. }) => note("the session is as it was before this"),
        Some(Rollback { executions_lost, .. }) => {
            note(&format!(
                "the session is as it was before this and {}",
                counted(executions_lost, "earlier execution")
            ));
        }
        None => {}
    }
}

/// Whether standard output and standard error are one terminal, file or pipe.
fn goes_where_stderr_goes() -> bool {
    let place = |handle: io::Result<OwnedFd>| {
        let metadata = File::from(handle.ok()?).metadata().ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let out = place(io::stdout().as_fd().try_clone_to_owned());
    out.is_some() && out == place(io::stderr().as_fd().try_clone_to_owned())
}

/// Says what can be done about a failure, dimmed under what happened. Output that was cut off was spoken of already.
pub(crate) fn advise(execution: &Execution) {
    let is_said = matches!(execution.outcome, Outcome::Exhausted { .. });
    for advice in execution.guidance.advice.iter().filter(|advice| advice.kind != AdviceKind::Output) {
        if !is_said {
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

/// Writes a value on a line of its own, as the interpreter does. The script chose it: a terminal is not driven by it.
pub(crate) fn show_value(repr: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if out.is_terminal() {
        writeln!(out, "{}", printable(repr))?;
    } else {
        writeln!(out, "{repr}")?;
    }
    out.flush()
}

fn way_out(resource: Resource) -> &'static str {
    match resource {
        Resource::Fuel => "raise it with --fuel N",
        Resource::Time => "raise it with --timeout-ms N",
        Resource::Memory => "raise it with --memory-bytes N",
    }
}
