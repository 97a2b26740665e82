//! The commands `fleet-model figures` and `fleet-model trace`: see `docs/fleet-model.md`.

use std::{io::Write, process::ExitCode};

use fleet_model::figures::{Scale, figures};
use fleet_model::{inputs::Inputs, trace::trace};

const USAGE: &str = "\
usage: fleet-model figures [--quick] INPUTS.toml   prints the figures of a simulation as JSON
       fleet-model trace SESSIONS LIVE EXECUTIONS  prints a trace for a server with memory for LIVE sessions";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let printed = match arguments.as_slice() {
        ["figures", "--quick", file] => simulate(file, Scale::QUICK),
        ["figures", file] => simulate(file, Scale::FULL),
        ["trace", sessions, live, executions] => match (sessions.parse(), live.parse(), executions.parse()) {
            (Ok(sessions), Ok(live), Ok(executions)) => Ok(trace(sessions, live, executions)),
            _ => Err(USAGE.to_owned()),
        },
        _ => Err(USAGE.to_owned()),
    };
    match printed {
        Ok(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(message) => {
            eprintln!("fleet-model: {message}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(file: &str, scale: Scale) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read `{file}`: {error}"))?;
    let inputs = Inputs::parse(&text).map_err(|error| format!("`{file}`: {error}"))?;
    let begun = std::time::Instant::now();
    let figures = figures(&inputs, scale, &mut |name| eprintln!("{:>6.1} s  {name}", begun.elapsed().as_secs_f64()));
    eprintln!("{:>6.1} s  total", begun.elapsed().as_secs_f64());
    serde_json::to_string_pretty(&figures).map(|text| text + "\n").map_err(|error| error.to_string())
}
