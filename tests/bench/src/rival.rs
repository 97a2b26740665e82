//! The interpreters that are installed here.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use glovebox::Language;

use crate::work;

/// An interpreter that is spawned for every script.
#[derive(Debug)]
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    /// Its version and where it is.
    pub(crate) description: String,
    program: PathBuf,
    /// What comes before the script.
    options: &'static [&'static str],
}

impl Rival {
    /// The one for a language, where it is installed.
    pub(crate) fn find(language: Language) -> Option<Self> {
        // What `PATH` finds may be a version manager's shell script, which would make us look good: ask for the real thing.
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

    /// Runs a script once, from nothing to exit.
    pub(crate) fn spawn(&self, source: &str) -> anyhow::Result<Duration> {
        time_process(Command::new(&self.program).args(self.options).arg(source))
    }

    /// Runs the script for the processor, which says itself how long it took.
    pub(crate) fn work(&self, source: &str) -> anyhow::Result<Duration> {
        let mut command = Command::new(&self.program);
        command.args(self.options).arg(source).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
        ensure!(output.status.success(), "{command:?} failed: {}", output.status);
        work::took(&String::from_utf8_lossy(&output.stdout))
    }
}

/// The time from spawning a process to its exit, its output thrown away.
pub(crate) fn time_process(command: &mut Command) -> anyhow::Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status();
    let took = start.elapsed();
    let status = status.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(took)
}
