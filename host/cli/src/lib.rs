//! The `glovebox` command as a function: [`command`]. The Python package also uses it.
//!
//! Each subcommand has its own file in `commands/`; shared flags are in `args/`. A command starts only what it needs:
//! `glovebox run` creates no instance pool, and does not compute the full digests of an interpreter's files.

mod args;
mod cli;
mod commands;
mod displays;
mod engine;
mod file;
mod interrupt;
mod logging;
mod output;
mod program;
mod report;
mod script_packages;
mod session_dir;
mod source;
mod stdin;
mod suspending;
#[cfg(feature = "full")]
mod tenants;
mod terminal;
#[cfg(feature = "full")]
mod typecheck;

use std::{ffi::OsString, path::PathBuf, sync::OnceLock};

/// The path of the executable that runs this command, for child processes.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Runs a command line and returns the exit code. The first argument is the program's name. `program` is an executable
/// that runs this function, for subcommands that need child processes.
pub fn command(args: Vec<OsString>, program: PathBuf) -> i32 {
    // Only the first call in a process sets the path.
    let _ = PROGRAM.set(program);
    let cli = cli::Cli::read(args.clone());
    #[cfg(feature = "full")]
    if matches!(&cli.command, cli::Command::Service(command) if command.is_server()) {
        commands::serve_worker::restart_with_threshold(&args);
    }
    let code = match commands::dispatch(&cli) {
        Ok(code) => code,
        Err(_) if interrupt::is_pressed() => {
            terminal::note("interrupted");
            interrupt::EXIT_CODE
        }
        Err(error) if terminal::is_broken_pipe(&error) => terminal::BROKEN_PIPE_EXIT_CODE,
        Err(error) => {
            terminal::report(&error);
            terminal::OWN_ERROR_EXIT_CODE
        }
    };
    program::kill_all();
    visible(code)
}

/// Returns the path of the executable that runs this command, for child processes.
#[cfg(feature = "full")]
pub(crate) fn own_program() -> PathBuf {
    PROGRAM.get().cloned().unwrap_or_else(|| "glovebox".into())
}

/// Returns the exit code for the system, which keeps only the lowest eight bits: 256 would look like success.
fn visible(code: i32) -> i32 {
    const OTHER_FAILURE: i32 = 255;
    if code != 0 && code.trailing_zeros() >= 8 { OTHER_FAILURE } else { code }
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn every_failure_has_a_nonzero_exit_code() {
        for (code, seen) in [(0, 0), (1, 1), (-1, -1), (255, 255), (256, 255), (257, 257), (512, 255), (i32::MIN, 255)]
        {
            assert_eq!(visible(code), seen, "{code}");
        }
    }
}
