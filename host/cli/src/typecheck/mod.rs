//! Type checks of Python scripts, with the program `ty` in a confined child process.
//!
//! A check writes the script, declarations of its globals and a configuration to a private temporary directory, and
//! runs `ty` on it. The types of added packages are in another such directory. The child process limits its memory and
//! the number of its open files before it executes `ty`. On Linux, it also gives up access to the network and to all
//! other files, and the ability to start programs. `ty` executes no code of the script. Servers, and commands that check
//! several scripts, keep such processes running.
//!
//! | file | content |
//! |---|---|
//! | `assigned`, `targets` | attributes that a script adds to its objects |
//! | `checker` | the pinned program, its configuration and its rules |
//! | `declarations` | the globals of scripts and of sessions |
//! | `findings` | reading the program's output |
//! | `idioms` | errors that valid scripts cause |
//! | `package_types` | types of packages that users add |
//! | `shared_reads` | reading packages once, for all checks |
//! | `snippets` | snippets that run one after the other in a session |
//! | `warm` | processes that check many scripts |

mod assigned;
mod checker;
mod declarations;
mod findings;
mod idioms;
mod package_types;
mod shared_reads;
mod snippets;
mod targets;
mod warm;

use std::{
    env,
    error::Error,
    fs, io,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use glovebox::{CancelToken, Diagnostic};
use glovebox_server::{CheckTypes, ConfinedAccess, TypedScript, confine_program};

pub(crate) use self::snippets::{ModuleStub, SnippetError, SnippetFormat, TypedSnippet};
use self::{
    assigned::AssignedAttributes,
    findings::MAX_DIAGNOSTICS,
    idioms::{Idioms, PackageUses},
    package_types::{AddedPackages, PackageTypes},
    shared_reads::ReadError,
    warm::{ServerKey, WarmCheckError, WarmPool},
};
use crate::{
    engine::Host,
    own_program,
    program::{ProgramEnd, run_bounded},
    terminal::HintedError,
};

/// The hidden subcommand that confines itself and executes the checker.
const SUBCOMMAND: &str = "check-types";

/// The option of the subcommand for its task.
const MODE_OPTION: &str = "--mode";

/// The option of the subcommand for a directory with packages.
const PACKAGES_OPTION: &str = "--packages";

/// The task and the output of a checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckerMode {
    /// A single check, with one line per diagnostic.
    Concise,
    /// A single check, with several lines per diagnostic.
    Full,
    /// Like `Full`, with escape sequences for colors.
    ColoredFull,
    /// A single check, with a JSON report for GitLab.
    Gitlab,
    /// A single check, with a workflow command for GitHub per diagnostic.
    Github,
    /// Checks of scripts that arrive in the Language Server Protocol.
    Serve,
}

impl CheckerMode {
    /// Returns the value of the subcommand's option.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the checker's name for the output of a single check.
    fn output_format(self) -> Option<&'static str> {
        match self {
            Self::Concise => Some("concise"),
            Self::Full | Self::ColoredFull => Some("full"),
            Self::Gitlab => Some("gitlab"),
            Self::Github => Some("github"),
            Self::Serve => None,
        }
    }
}

/// The names of the files in the temporary directory. The script is the `__main__` module, so that no import can find
/// it under another name.
const SCRIPT: &str = "__main__.py";
const DECLARATIONS: &str = "__builtins__.pyi";
const CONFIGURATION: &str = "ty.toml";

/// The timeout of one check. 100 lines take a tenth of a second.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum private memory of the checker in bytes. A check of 100 lines needs 45 MB.
const MEMORY_BYTES: u64 = 1 << 30;

/// Maximum number of open files of the checker.
const OPEN_FILES: u64 = 64;

/// Maximum length of the checker's output in bytes. Later output is ignored.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// The exit codes of the checker without and with diagnostics.
const FINISHED: [i32; 2] = [0, 1];

/// A hint for a script that the checker cannot check within its limits.
const HINT: &str = "simplify the script, or run without --types";

/// Option of the servers that offer type checks.
#[derive(Args, Debug)]
pub(crate) struct TypeCheckArgs {
    /// Let clients request type checks of Python scripts (`check_types`); downloads the type checker if necessary
    #[arg(long)]
    types: bool,
}

impl TypeCheckArgs {
    /// Returns the checker for a server, if the option is set.
    pub(crate) fn checker(&self, host: &Host) -> anyhow::Result<Option<Arc<dyn CheckTypes>>> {
        if self.types { Ok(Some(Arc::new(TypeChecker::open(host)?.stay_running()))) } else { Ok(None) }
    }
}

/// The downloaded type checker.
#[derive(Debug)]
pub(crate) struct TypeChecker {
    program: PathBuf,
    /// Processes that stay running, or `None` to start one for each check.
    pool: Option<WarmPool>,
    packages: AddedPackages,
}

impl TypeChecker {
    /// Downloads the checker if it is not cached.
    pub(crate) fn open(host: &Host) -> anyhow::Result<Self> {
        let program = checker::program_for_this_platform().ok_or_else(|| {
            HintedError::new(
                "`--types` is not supported on this platform",
                "use Linux or macOS on x86-64 or AArch64, or run without --types",
            )
        })?;
        let program = program.fetch(host.engine.cache_dir(), &*host.steps).context("cannot fetch the type checker")?;
        Ok(Self { program: absolute(&program)?, pool: None, packages: AddedPackages::new(&host.engine) })
    }

    /// Keeps processes running between checks.
    pub(crate) fn stay_running(mut self) -> Self {
        self.pool = WarmPool::new(&self.program);
        self
    }

    /// Returns the type errors of a script that has no syntax errors.
    pub(crate) fn find_errors(
        &self,
        script: &TypedScript<'_>,
        cancel: &CancelToken,
    ) -> anyhow::Result<Vec<Diagnostic>> {
        Ok(unexplained(script.source, self.find_reported_errors(script, cancel)?))
    }

    fn find_reported_errors(&self, script: &TypedScript<'_>, cancel: &CancelToken) -> anyhow::Result<Vec<Diagnostic>> {
        let mut limits = CheckLimits::new(cancel);
        let declarations = declarations::source(script)?;
        let types = self.packages.types_for(script.runtime, &limits).map_err(unread_packages)?;
        let packages = types.as_deref().map(PackageTypes::path);
        let configuration = checker::configuration(script.version, script.variables.is_none(), packages);
        let tools: Vec<String> = script.tools.unwrap_or_default().iter().map(|tool| tool.name().to_owned()).collect();
        if let Some(pool) = &self.pool {
            let key = ServerKey {
                owner: script.owner.to_owned(),
                configuration: configuration.clone(),
                packages: packages.map(Path::to_owned),
            };
            match pool.check(key, &declarations, script.source, &limits) {
                Ok(answer) => {
                    if let Some(found) = findings::from_server(&answer, &tools) {
                        return Ok(found);
                    }
                }
                Err(WarmCheckError::Limit(limit)) => return Err(limit.error(timed_out)),
                Err(WarmCheckError::Unavailable) => {}
            }
            // The code below repeats the failed check in a new process. If that process also fails, the error contains
            // the reason.
            limits = CheckLimits::new(cancel);
        }
        let dir = write(&configuration, &declarations, script.source)
            .context("cannot write the files for the type checker")?;
        Ok(findings::parse(&self.run(dir.path(), packages, CheckerMode::Concise, &limits)?, &tools))
    }

    /// Checks the files in a directory with a new process, which can also read the directory `packages`. Returns the
    /// checker's output.
    fn run(
        &self,
        dir: &Path,
        packages: Option<&Path>,
        mode: CheckerMode,
        limits: &CheckLimits<'_>,
    ) -> anyhow::Result<String> {
        let mut command = Command::new(own_program());
        // The checker reads environment variables, which could change its configuration.
        command.env_clear().arg(SUBCOMMAND).arg(MODE_OPTION).arg(mode.name());
        if let Some(packages) = packages {
            command.arg(PACKAGES_OPTION).arg(packages);
        }
        command.arg(&self.program).arg(absolute(dir)?);
        let timeout = limits.deadline.saturating_duration_since(Instant::now());
        let (end, output) = run_bounded(&mut command, checker::NAME, timeout, MAX_OUTPUT_BYTES, limits.cancel)
            .context("cannot run the type checker")?;
        match end {
            ProgramEnd::TooLong => {}
            ProgramEnd::Exited(status, _) if status.code().is_some_and(|code| FINISHED.contains(&code)) => {}
            ProgramEnd::Exited(status, reason) => {
                let message = format!("the type checker, limited to {MEMORY_BYTES} bytes of memory, failed ({status})");
                let error = HintedError::new(message, HINT);
                return Err(if reason.is_empty() { error } else { error.caused_by(reason) }.into());
            }
            ProgramEnd::TimedOut => return Err(ExceededLimit::Time.error(timed_out)),
            ProgramEnd::Cancelled => return Err(ExceededLimit::Cancelled.error(timed_out)),
        }
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

impl CheckTypes for TypeChecker {
    fn check(
        &self,
        script: &TypedScript<'_>,
        cancel: &CancelToken,
    ) -> Result<Vec<Diagnostic>, Box<dyn Error + Send + Sync>> {
        Ok(self.find_errors(script, cancel)?)
    }
}

/// Returns the diagnostics that valid code cannot cause, at most [`MAX_DIAGNOSTICS`].
fn unexplained(source: &str, reported: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let (uses, idioms) = (PackageUses::of(source), Idioms::of(source));
    let assigned = AssignedAttributes::of(source);
    let mistakes = reported.into_iter().filter(|error| {
        !uses.can_explain(&error.message) && !idioms.can_explain(error) && !assigned.can_explain(&error.message)
    });
    mistakes.take(MAX_DIAGNOSTICS).collect()
}

/// The limits of one check.
#[derive(Clone, Copy, Debug)]
struct CheckLimits<'a> {
    deadline: Instant,
    cancel: &'a CancelToken,
}

impl<'a> CheckLimits<'a> {
    /// Returns the limits of a check that begins now.
    fn new(cancel: &'a CancelToken) -> Self {
        Self { deadline: Instant::now() + TIMEOUT, cancel }
    }

    /// Fails if a limit is exceeded.
    fn check(&self) -> Result<(), ExceededLimit> {
        if self.cancel.is_cancelled() {
            return Err(ExceededLimit::Cancelled);
        }
        if Instant::now() >= self.deadline { Err(ExceededLimit::Time) } else { Ok(()) }
    }
}

/// The limit that ended a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExceededLimit {
    Time,
    Cancelled,
}

impl ExceededLimit {
    /// Converts the limit to an error. `timed_out` returns the error for exceeded time.
    fn error(self, timed_out: impl FnOnce() -> HintedError) -> anyhow::Error {
        match self {
            Self::Time => timed_out().into(),
            Self::Cancelled => anyhow::anyhow!("interrupted"),
        }
    }
}

/// Describes why a check does not have the types of packages.
fn unread_packages(error: ReadError) -> anyhow::Error {
    let timed_out = || {
        let message = format!("the types of the packages could not be read within {} s", TIMEOUT.as_secs());
        HintedError::new(message, "repeat the check, or run without --types")
    };
    match error {
        ReadError::Limit(limit) => limit.error(timed_out),
        ReadError::Thread(error) => anyhow::Error::new(error).context("cannot read the types of packages"),
    }
}

fn timed_out() -> HintedError {
    HintedError::new(format!("the type checker took longer than {} s", TIMEOUT.as_secs()), HINT)
}

/// Writes the checker's files to a new directory that only this user can read.
fn write(configuration: &str, declarations: &str, source: &str) -> io::Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new().prefix("glovebox-types-").tempdir()?;
    fs::write(dir.path().join(CONFIGURATION), configuration)?;
    fs::write(dir.path().join(DECLARATIONS), declarations)?;
    fs::write(dir.path().join(SCRIPT), source)?;
    Ok(dir)
}

fn absolute(path: &Path) -> io::Result<PathBuf> {
    std::path::absolute(path)
}

/// Confines this process and executes the checker on a directory that [`TypeChecker`] has written. The checker can also
/// read the directory `packages`. All paths must be absolute. Returns only if this fails.
pub(crate) fn execute_confined(
    program: &Path,
    dir: &Path,
    packages: Option<&Path>,
    mode: CheckerMode,
) -> anyhow::Result<i32> {
    // The output then names files in the directory without their path. A confined process cannot change its directory.
    env::set_current_dir(dir).context("cannot open the directory of the type checker")?;
    let access = ConfinedAccess {
        read: [Some(dir), packages].into_iter().flatten().map(Path::to_owned).collect(),
        write: Vec::new(),
        memory_bytes: MEMORY_BYTES,
        open_files: OPEN_FILES,
    };
    confine_program(&access, program).context("cannot limit the type checker")?;
    let mut command = Command::new(program);
    if let Some(format) = mode.output_format() {
        command
            .arg("check")
            .arg("--project")
            .arg(dir)
            .arg("--config-file")
            .arg(dir.join(CONFIGURATION))
            .args(["--output-format", format, "--no-progress"])
            .args(["--color", if mode == CheckerMode::ColoredFull { "always" } else { "never" }])
            .arg(dir.join(SCRIPT));
    } else {
        command.arg("server");
    }
    // A script is too short to benefit from more threads, and each thread costs memory.
    let error = command.env_clear().env("TY_MAX_PARALLELISM", "1").exec();
    Err(error).context("cannot execute the type checker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explained_diagnostics_do_not_hide_others() {
        let diagnostic = |message: &str| Diagnostic { line: 1, column: 1, message: message.to_owned() };
        let explained = diagnostic("Unresolved attribute `high` on type `Place` [missing-attribute]");
        let mistake = diagnostic("Name `cat` used when not defined [unresolved-reference]");
        let mut reported = vec![explained; MAX_DIAGNOSTICS];
        reported.push(mistake.clone());
        assert_eq!(unexplained("place.high = cat", reported), std::slice::from_ref(&mistake));
        assert_eq!(unexplained("cat", vec![mistake; MAX_DIAGNOSTICS + 1]).len(), MAX_DIAGNOSTICS);
    }

    #[test]
    fn names_of_modes_are_values_of_the_option() {
        for mode in CheckerMode::value_variants() {
            assert_eq!(CheckerMode::from_str(&mode.name(), false), Ok(*mode));
        }
    }
}
