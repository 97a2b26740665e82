//! A small agent that runs a model's scripts in the sandbox and shows every possible outcome.
//!
//! This is an ordinary program. Its calls to `glovebox_guest` make it a component that imports `glovebox:sandbox`.

use std::{io::Read as _, time::Duration};

use glovebox_guest::{
    Blob, Error, Execution, Files, Limits, Outcome, Policy, Request, Sandbox, Session, SessionOptions, Step, Tool,
    ToolAnswer, ToolRequest, info,
};

/// A result with a boxed error, because reading in chunks returns `std::io::Error` instead of `Error`.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut languages: Vec<String> = info().runtimes.iter().map(|runtime| runtime.language.to_string()).collect();
    languages.dedup();
    println!("runtimes: {}", languages.join(", "));

    let prices = SessionOptions::default().context(r#"[{"price": 5}, {"price": 7}]"#);
    let session = Sandbox::python().open_session(&prices)?;
    work(&session)?;
    keep(&session)?;
    outcomes()?;
    step()?;
    errors(&session)
}

/// Describes a script's result. No outcome is an error: the sandbox worked as intended.
fn described(execution: &Execution) -> String {
    let mut text = match &execution.outcome {
        Outcome::Completed => "completed".into(),
        Outcome::Exited(code) => format!("exited with {code}"),
        Outcome::Raised(raised) => match raised.line {
            Some(line) => format!("raised {raised} (line {line})"),
            None => format!("raised {raised}"),
        },
        Outcome::Exhausted(exhausted) => format!("exhausted {}, limit {}", exhausted.resource, exhausted.limit),
        Outcome::Cancelled => "cancelled".into(),
        Outcome::Trapped(trap) => format!("trapped, {trap}"),
    };
    if let Some(value) = &execution.value {
        text += &format!(", value {}", value.repr);
    }
    if !execution.stdout.bytes.is_empty() {
        text += &format!(", wrote: {}", execution.stdout.text().trim());
    }
    text
}

/// Prints a file in chunks, because it may be larger than one call returns.
fn show_file(files: &Files, path: &str) -> Result<()> {
    let mut contents = String::new();
    let size = files.open(path)?.read_to_string(&mut contents)?;
    println!("file: {path} ({size} bytes): {contents}");
    Ok(())
}

/// A model's possible answers to "add up the prices". Each answer is tried, and its problem is reported back to the
/// model.
const ANSWERS: [&str; 3] = [
    "total = sum(item['price'] for item in context",
    "total = sum(item.price for item in context)",
    "\
total = sum(item['price'] for item in context)
with open('total.txt', 'w') as file:
    file.write(str(total))
total",
];

/// Runs the agent's loop: validates and runs each script until one succeeds.
fn work(session: &Session) -> Result<()> {
    for (turn, answer) in (1..).zip(ANSWERS) {
        // Uses the language's own parser, which runs nothing.
        if let Some(first) = Sandbox::python().validate(answer)?.first() {
            let (line, column, message) = (first.line, first.column, &first.message);
            println!("turn {turn}: not well-formed, line {line}, column {column}: {message}");
            continue;
        }
        let execution = session.execute(answer)?;
        println!("turn {turn}: {}", described(&execution));
        if execution.is_success() {
            break;
        }
    }
    show_file(&session.files()?, "total.txt")
}

fn total(session: &Session) -> Result<String> {
    Ok(session.get_variable("total")?.and_then(|value| value.json).ok_or("there is no total")?)
}

/// Keeps variables and files in a session, and forks, undoes and saves its state.
fn keep(session: &Session) -> Result<()> {
    let copy = session.fork()?;
    copy.execute("total += 100")?;
    println!("fork: {} in the copy, {} in the original", total(&copy)?, total(session)?);
    // Dropping releases the session, because the number of sessions is limited.
    drop(copy);

    session.execute("total = 0")?;
    let before = total(session)?;
    session.undo()?;
    println!("undo: {before} before, {} after", total(session)?);

    let state = session.hibernate()?;
    let resumed = Sandbox::python().resume(&state, &SessionOptions::default())?;
    println!("resume: {}", total(&resumed)?);
    Ok(())
}

/// Creates a sandbox with the default policy and these limits. A policy can only request less than the host grants.
fn limited(limits: Limits) -> Sandbox {
    Sandbox::python().policy(Policy::default().limits(limits))
}

/// Shows every way in which a script can end. Each script runs in a new interpreter.
fn outcomes() -> Result<()> {
    let endings = [
        (Sandbox::javascript(), Request::new("console.log('hello from javascript')")),
        (Sandbox::python(), Request::new("raise SystemExit(3)")),
        (Sandbox::python(), Request::new("int('twelve')")),
        (limited(Limits::default().fuel(50_000_000)), Request::new("while True: pass")),
        // Cancelled after a tenth of a second.
        (Sandbox::python(), Request::new("import time\ntime.sleep(60)").deadline(Duration::from_millis(100))),
        // Hashing nested tuples exceeds the interpreter's native stack.
        (Sandbox::python(), Request::new("t = ()\nfor _ in range(400000): t = (t,)\nhash(t)")),
    ];
    for (sandbox, request) in endings {
        println!("outcome: {}", described(&sandbox.execute(request)?));
    }
    Ok(())
}

/// A script that calls a tool of this program.
const NOTES: &str = "\
held = [tools.remember(fact=fact) for fact in ('tea costs 3', 'milk costs 2')]
try:
    tools.remember(fact='one too many')
except tools.ToolError as error:
    print('refused:', error)
open('notes.txt', 'w').write(str(held))
";

/// Runs a script whose tool calls this program answers: the script runs until it needs a tool, waits, and continues
/// with the answer.
///
/// `started.finish_with(…)` replaces the loop in a program that has nothing else to do.
fn step() -> Result<()> {
    let tool = Tool::new("remember", "Keeps a fact, and says how many there are.")
        .schema(r#"{"type": "object", "properties": {"fact": {"type": "string"}}, "required": ["fact"]}"#);
    let started = Sandbox::python().start(NOTES, &[tool])?;
    let (mut notebook, mut answers) = (Vec::new(), Vec::new());
    let execution = loop {
        match started.step_within(Duration::from_secs(1), &answers)? {
            Step::NeedsTools(calls) => answers = calls.iter().map(|call| remember(&mut notebook, call)).collect(),
            Step::Running => answers.clear(),
            Step::Done(execution) => break execution,
        }
    };
    println!("steps: {}", described(&execution));
    show_file(&started.files()?, "notes.txt")
}

fn remember(notebook: &mut Vec<String>, call: &ToolRequest) -> ToolAnswer {
    println!("tool: {} {}", call.name, call.arguments);
    if notebook.len() == 2 {
        return call.fails("the notebook is full");
    }
    notebook.push(call.arguments.clone());
    call.returns(notebook.len().to_string())
}

/// Prints the reason for a refused call. An error is a fault of the host or the caller, never of the script.
fn refused<T>(result: std::result::Result<T, Error>) -> Result<()> {
    let Err(error) = result else { return Err("the sandbox accepted an invalid call".into()) };
    let detail = match &error {
        Error::SourceTooLarge { bytes, limit } | Error::StdinTooLarge { bytes, limit } => {
            format!(", {bytes} bytes of at most {limit}")
        }
        Error::File(failure) => format!(", {}", failure.kind),
        // The other cases carry a message, which `Display` shows.
        _ => String::new(),
    };
    println!("error: {}{detail}", error.name());
    Ok(())
}

fn errors(session: &Session) -> Result<()> {
    refused(Sandbox::named("cobol").execute(""))?;
    refused(limited(Limits::default().fuel(0)).execute(""))?;
    refused(limited(Limits::default().source_bytes(8)).execute("print(1 + 1)"))?;
    refused(limited(Limits::default().stdin_bytes(2)).execute(Request::new("").stdin("abc")))?;
    refused(Sandbox::python().start("", &[Tool::new("no name", "")]))?;
    refused(Sandbox::python().resume(&Blob::of(b"no session")?, &SessionOptions::default()))?;
    refused(session.undo_to(1_000_000))?;
    refused(session.files()?.stat("missing.txt"))?;

    // A session runs one execution at a time. Until the started execution has ended, the session refuses other calls.
    let started = session.start("import time\ntime.sleep(60)")?;
    refused(session.execute(""))?;
    started.cancel();
    println!("outcome: {}", described(&started.finish()?));
    refused(started.files())?;

    session.close()?;
    refused(session.execute(""))
}
