//! The installed interpreters that Glovebox is compared with, and the `work` case: a script that times its own
//! computation, in Glovebox and in the installed interpreter.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use glovebox::{Language, Outcome, Sandbox};

/// An installed interpreter, which starts a new process for every script.
#[derive(Debug)]
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    /// The version and path.
    pub(crate) description: String,
    program: PathBuf,
    /// The arguments that precede the script.
    options: &'static [&'static str],
}

impl Rival {
    /// Finds the interpreter of a language, or returns `None` if it is not installed.
    pub(crate) fn find(language: Language) -> Option<Self> {
        // `PATH` may contain a version manager's slow shell script, so ask the interpreter for its own path.
        let (name, ask, options): (_, &[&str], &'static [&'static str]) = match language {
            Language::Python => {
                ("python3", &["-c", "import sys; print(sys.executable); print(sys.version.split()[0])"], &["-I", "-c"])
            }
            Language::JavaScript => ("node", &["-p", "process.execPath + '\\n' + process.version"], &["-e"]),
        };
        let answer = Command::new(name).args(ask).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let answer = String::from_utf8(answer.stdout).ok()?;
        let mut lines = answer.lines();
        let (program, version) = (PathBuf::from(lines.next()?), lines.next()?);
        program.is_absolute().then(|| Self {
            name,
            description: format!("{version} ({})", program.display()),
            program,
            options,
        })
    }

    /// Runs a script in a new process, and returns the time until it exits.
    pub(crate) fn spawn(&self, source: &str) -> anyhow::Result<Duration> {
        time_process(Command::new(&self.program).args(self.options).arg(source))
    }

    /// Runs the script of the `work` case, and returns the time that the script prints.
    pub(crate) fn work(&self, source: &str) -> anyhow::Result<Duration> {
        let mut command = Command::new(&self.program);
        command.args(self.options).arg(source).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(output.status.success(), "{command:?} failed: {}", output.status);
        took(&String::from_utf8_lossy(&output.stdout))
    }
}

/// Starts a process, discards its output, and returns the time until it exits.
pub(crate) fn time_process(command: &mut Command) -> anyhow::Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status();
    let took = start.elapsed();
    let status = status.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(took)
}

/// Returns a script that makes 28,657 function calls and prints how many milliseconds they took.
pub(crate) const fn work_source(language: Language) -> &'static str {
    match language {
        Language::Python => {
            "import time\n\
             def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n\
             begun = time.perf_counter()\n\
             fib(21)\n\
             print((time.perf_counter() - begun) * 1000)"
        }
        Language::JavaScript => {
            "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }\n\
             const begun = performance.now()\n\
             fib(21)\n\
             console.log(performance.now() - begun)"
        }
    }
}

/// Runs the script in a fresh interpreter, and returns the time that the script prints.
pub(crate) fn run_work(sandbox: &Sandbox, source: &str) -> anyhow::Result<Duration> {
    let execution = sandbox.execute(source)?;
    ensure!(
        execution.outcome == Outcome::Completed,
        "the script for the processor ended otherwise: {}",
        execution.stderr.text()
    );
    took(&execution.stdout.text())
}

/// Parses the time that the script printed, in milliseconds.
fn took(printed: &str) -> anyhow::Result<Duration> {
    let millis: f64 = printed.trim().parse().with_context(|| format!("`{}` is not a time", printed.trim()))?;
    Duration::try_from_secs_f64(millis / 1000.0).context("the time is out of range")
}

#[cfg(test)]
mod tests {
    use super::took;

    #[test]
    fn printed_times_are_parsed() {
        assert_eq!(took("1.5\n").unwrap().as_micros(), 1500);
        assert!(took("soon\n").unwrap_err().to_string().contains("`soon`"));
        took("-1\n").unwrap_err();
    }
}
