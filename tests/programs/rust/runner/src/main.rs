//! Runs the Python script on its standard input, and prints the result.

use std::{error::Error, io, process::ExitCode};

use glovebox_guest::{Limits, Outcome, Policy, Sandbox};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let script = io::read_to_string(io::stdin())?;

    // Less than the host grants: these scripts are small.
    let limits = Limits::default().fuel(1_000_000_000).memory_bytes(64 << 20);
    let sandbox = Sandbox::python().policy(Policy::default().limits(limits));

    // Messages of the language's own parser; nothing is executed.
    let diagnostics = sandbox.validate(script.as_str())?;
    for diagnostic in &diagnostics {
        eprintln!("{}:{}: {}", diagnostic.line, diagnostic.column, diagnostic.message);
    }
    if !diagnostics.is_empty() {
        return Ok(ExitCode::FAILURE);
    }

    // `sandbox.execute(script)` suffices for a caller that does not need the files.
    let started = sandbox.start(script, &[])?;
    let execution = started.finish()?;
    print!("{}", execution.stdout.text());
    let files = started.files()?;
    for path in &execution.files_created {
        eprintln!("it wrote {path}, {} bytes", files.stat(path)?.size_bytes);
    }

    // A script that fails is not an error for `?`.
    match &execution.outcome {
        Outcome::Completed | Outcome::Exited(0) => return Ok(ExitCode::SUCCESS),
        Outcome::Raised(raised) => eprint!("{}", raised.traceback),
        outcome => eprintln!("the script {outcome}"),
    }
    Ok(ExitCode::FAILURE)
}
