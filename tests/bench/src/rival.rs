//! The installed interpreters that Glovebox is compared with.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use glovebox::Language;

use crate::work;

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
        work::took(&String::from_utf8_lossy(&output.stdout))
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
