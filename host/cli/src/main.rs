//! The `glovebox` command: runs untrusted Python and JavaScript from the shell.
//!
//! Each subcommand has a file of its own in `commands/`; the flags they share are in `args/`. What starts up is
//! only what the command needs: `glovebox run` builds no instance pool, starts no thread but the one that waits for
//! Ctrl-C, and hashes nothing.

mod args;
mod cli;
mod commands;
mod engine;
mod interrupt;
mod logging;
mod progress;
mod source;
mod terminal;

use clap::Parser;

fn main() {
    let cli = cli::Cli::parse();
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
    std::process::exit(code);
}
