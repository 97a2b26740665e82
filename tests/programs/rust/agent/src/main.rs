//! A small agent: it lets a model's scripts run in the sandbox, and shows all that can become of one.
//!
//! It is an ordinary program. What makes it a component that imports `glovebox:sandbox` is that it calls `glovebox_guest`.

use std::{io::Read as _, time::Duration};

use glovebox_guest::{
    Blob, Error, Execution, Files, Limits, Outcome, Policy, Request, Sandbox, Session, SessionOptions, Step, Tool,
    ToolAnswer, ToolRequest, info,
};

/// What the program itself may fail with, beside `Error`: reading in pieces is `std::io`.
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

/// What became of a script. None of these is an error: the sandbox did what it was asked to.
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

/// Prints a file, which is read in pieces: it may be larger than one call gives.
fn show_file(files: &Files, path: &str) -> Result<()> {
    let mut contents = String::new();
    let size = files.open(path)?.read_to_string(&mut contents)?;
    println!("file: {path} ({size} bytes): {contents}");
    Ok(())
}

/// What a model might answer to "add up the prices": each answer is tried, and what is wrong with it goes back to the model.
const ANSWERS: [&str; 3] = [
    "total = sum(item['price'] for item in context",
    "total = sum(item.price for item in context)",
    "\
total = sum(item['price'] for item in context)
with open('total.txt', 'w') as file:
    file.write(str(total))
total",
];

/// The loop of an agent: look at the script, run it, and go on until one does what it should.
fn work(session: &Session) -> Result<()> {
    for (turn, answer) in (1..).zip(ANSWERS) {
        // The language's own parser, which runs nothing.
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

/// A session keeps variables and files, and its states can be forked, undone, and saved as bytes.
fn keep(session: &Session) -> Result<()> {
    let copy = session.fork()?;
    copy.execute("total += 100")?;
    println!("fork: {} in the copy, {} in the original", total(&copy)?, total(session)?);
    // The sandbox frees what is dropped: the number of sessions is limited.
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

/// The default policy but for these limits. It can ask for less than the host grants, and for no more.
fn limited(limits: Limits) -> Sandbox {
    Sandbox::python().policy(Policy::default().limits(limits))
}

/// Every way in which a script can end, each in an interpreter of its own.
fn outcomes() -> Result<()> {
    let endings = [
        (Sandbox::javascript(), Request::new("console.log('hello from javascript')")),
        (Sandbox::python(), Request::new("raise SystemExit(3)")),
        (Sandbox::python(), Request::new("int('twelve')")),
        (limited(Limits::default().fuel(50_000_000)), Request::new("while True: pass")),
        // Cancelled after a tenth of a second.
        (Sandbox::python(), Request::new("import time\ntime.sleep(60)").deadline(Duration::from_millis(100))),
        // The hash of nested tuples goes deeper than the interpreter's native stack.
        (Sandbox::python(), Request::new("t = ()\nfor _ in range(100000): t = (t,)\nhash(t)")),
    ];
    for (sandbox, request) in endings {
        println!("outcome: {}", described(&sandbox.execute(request)?));
    }
    Ok(())
}

/// A script that calls a tool of this program's own.
const NOTES: &str = "\
held = [tools.remember(fact=fact) for fact in ('tea costs 3', 'milk costs 2')]
try:
    tools.remember(fact='one too many')
except tools.ToolError as error:
    print('refused:', error)
open('notes.txt', 'w').write(str(held))
";

/// A script that this program answers: it runs until it needs a tool, waits, and goes on with the answer.
///
/// `started.finish_with(…)` is the whole loop, for a program that has nothing else to do meanwhile.
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

/// Prints why a call was refused: an error is the host's or the caller's, never the script's.
fn refused<T>(result: std::result::Result<T, Error>) -> Result<()> {
    let Err(error) = result else { return Err("this must be refused".into()) };
    let detail = match &error {
        Error::SourceTooLarge { bytes, limit } | Error::StdinTooLarge { bytes, limit } => {
            format!(", {bytes} bytes of at most {limit}")
        }
        Error::File(failure) => format!(", {}", failure.kind),
        // The others have a text, which `Display` shows.
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

    // One execution at a time: until the one that was started has ended, the session has time for nothing else.
    let started = session.start("import time\ntime.sleep(60)")?;
    refused(session.execute(""))?;
    started.cancel();
    println!("outcome: {}", described(&started.finish()?));
    refused(started.files())?;

    session.close()?;
    refused(session.execute(""))
}
