//! Measures calls to `glovebox:sandbox` as the calling component sees them. Prints the median and 90th percentile of
//! each row as JSON, in microseconds.

use std::{
    error::Error,
    time::{Duration, Instant},
};

use glovebox_guest::{Checkpoints, Clock, Entropy, Language, Limits, Policy, Runtime, Sandbox, Session, SessionPolicy};
use serde_json::{Map, Value, json};

/// The number of calls before the measurement, because hosts may optimize code that is called often.
const WARM_UP: usize = 30;
/// Maximum duration of the measurement for one row of the table.
const ROW: Duration = Duration::from_secs(10);
/// Maximum number of calls measured for one row of the table.
const CALLS: usize = 200;
const MIB: [u64; 2] = [1, 64];

fn main() -> Result<(), Box<dyn Error>> {
    let info = glovebox_guest::info();
    let mut rows = Map::new();
    for language in [Language::Javascript, Language::Python] {
        if info.runtimes.iter().any(|runtime| runtime.language == language) {
            measure(language, &mut rows)?;
        }
    }
    println!("{}", serde_json::to_string_pretty(&json!({"provider": info.version, "us": rows}))?);
    Ok(())
}

fn measure(language: Language, rows: &mut Map<String, Value>) -> Result<(), Box<dyn Error>> {
    let (runtime, name, print) = match language {
        Language::Javascript => (Runtime::Javascript, "javascript", "console.log(1)"),
        Language::Python => (Runtime::Python, "python", "print(1)"),
    };
    let sandbox = Sandbox::new(runtime.clone()).policy(policy(Checkpoints::Never));
    let mut row = |what: &str, times: Value| drop(rows.insert(format!("{name}/{what}"), times));
    row("execute", times(|| succeeds(sandbox.execute(print)?.is_success()))?);
    row("validate", times(|| succeeds(sandbox.validate(print)?.is_empty()))?);
    row("open", times(|| Ok(drop(sandbox.session()?)))?);

    let one = sandbox.session()?;
    row("session-execute", times(|| succeeds(one.execute(print)?.is_success()))?);
    drop(one);
    let saved = Sandbox::new(runtime).policy(policy(Checkpoints::Always)).session()?;
    row("session-execute-checkpoint", times(|| succeeds(saved.execute(print)?.is_success()))?);
    drop(saved);
    for mib in MIB {
        let sessions = [holding(&sandbox, language, mib)?, holding(&sandbox, language, mib)?];
        let mut turn = 0;
        row(
            &format!("switch-{mib}-mib"),
            times(|| {
                turn = 1 - turn;
                succeeds(sessions[turn].execute(print)?.is_success())
            })?,
        );
        row(&format!("stay-{mib}-mib"), times(|| succeeds(sessions[0].execute(print)?.is_success()))?);
    }
    Ok(())
}

/// Returns a row's policy. Rows differ only in their checkpoint policy, because checkpoints take time.
fn policy(checkpoints: Checkpoints) -> Policy {
    let limits = Limits { memory_bytes: Some(512 << 20), ..Limits::default() };
    let session = SessionPolicy { checkpoints: Some(checkpoints), ..SessionPolicy::default() };
    Policy {
        limits: Some(limits),
        clock: Some(Clock::Fixed(0)),
        entropy: Some(Entropy::Seeded(1)),
        session: Some(session),
        ..Policy::default()
    }
}

/// Opens a session with `mib` mebibytes of private, nonzero memory.
fn holding(sandbox: &Sandbox, language: Language, mib: u64) -> Result<Session, Box<dyn Error>> {
    let session = sandbox.session()?;
    let source = match language {
        Language::Javascript => format!("var held = new Uint8Array({mib} << 20).fill(7); undefined"),
        Language::Python => format!("held = b'\\x07' * ({mib} << 20)"),
    };
    succeeds(session.execute(source.as_str())?.is_success())?;
    Ok(session)
}

fn succeeds(success: bool) -> Result<(), Box<dyn Error>> {
    if success { Ok(()) } else { Err("a script of the measurement failed".into()) }
}

fn times(mut call: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<Value, Box<dyn Error>> {
    let begin = Instant::now();
    let mut times = Vec::new();
    for number in 0..WARM_UP + CALLS {
        let start = Instant::now();
        call()?;
        if number >= WARM_UP || begin.elapsed() > ROW / 2 {
            times.push(start.elapsed());
        }
        if begin.elapsed() > ROW {
            break;
        }
    }
    times.sort();
    let at = |part: usize| times.get(times.len() * part / 100).map(|time| time.as_micros() as u64);
    Ok(json!({"p50": at(50), "p90": at(90), "calls": times.len()}))
}
