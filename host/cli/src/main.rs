//! The `glovebox` command: runs untrusted Python and JavaScript from the shell.

fn main() {
    let program = std::env::current_exe().unwrap_or_else(|_| "glovebox".into());
    std::process::exit(glovebox_cli::command(std::env::args_os().collect(), program));
}
