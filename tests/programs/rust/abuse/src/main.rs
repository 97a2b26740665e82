//! Attacks on a provider by a hostile caller and by hostile tools. Prints the result of each attempt on one line. All
//! attempts run in one instance, which must answer correctly after each of them.

mod tools;

use std::error::Error;

use glovebox_guest::{
    Blob, Clock, Entropy, IfExists, Limits, Outcome, OutputStream, Policy, Request, Sandbox, Session, SessionOptions,
};

/// An attempt: its name, and the function that makes it.
type Attempt = (&'static str, fn() -> Result<String, Box<dyn Error>>);

const ATTEMPTS: &[Attempt] = &[
    ("sessions-without-end", sessions_without_end),
    ("forks-without-end", forks_without_end),
    ("state-without-end", state_without_end),
    ("checkpoints-without-end", checkpoints_without_end),
    ("forged-states", forged_states),
    ("large-reply", large_reply),
    ("deep-reply", deep_reply),
    ("odd-replies", odd_replies),
    ("deep-values", deep_values),
    ("odd-names", odd_names),
    ("odd-paths", odd_paths),
    ("odd-patterns", odd_patterns),
    ("odd-ranges", odd_ranges),
    ("odd-policies", odd_policies),
    ("large-sources", large_sources),
    ("left-in-the-middle", left_in_the_middle),
];

fn main() -> Result<(), Box<dyn Error>> {
    // The provider requests the tools only once.
    tools::set();
    for (name, attempt) in ATTEMPTS {
        let came = attempt().unwrap_or_else(|error| format!("ERROR {error}"));
        let after = sandbox(Limits::default()).execute("console.log(6 * 7)")?;
        let usable = if after.stdout.text() == "42\n" { "" } else { ", NOT USABLE" };
        println!("{name}: {came}{usable}");
    }
    Ok(())
}

fn sandbox(limits: Limits) -> Sandbox {
    let policy = Policy {
        limits: Some(limits),
        clock: Some(Clock::Fixed(0)),
        entropy: Some(Entropy::Seeded(1)),
        ..Policy::default()
    };
    Sandbox::javascript().policy(policy)
}

/// Returns `ok`, or the first words of the error, which identify it.
fn kind<T>(result: Result<T, glovebox_guest::Error>) -> String {
    match result {
        Ok(_) => "ok".to_owned(),
        Err(error) => {
            let text = format!("{error:?}");
            text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned()
        }
    }
}

/// Joins the distinct results, in order.
fn kinds(all: impl IntoIterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for each in all {
        if !seen.contains(&each) {
            seen.push(each);
        }
    }
    seen.join(" ")
}

/// Creates up to `max` objects, until creation fails. Returns the objects and the result.
fn fill<T>(max: usize, make: impl Fn(usize) -> Result<T, glovebox_guest::Error>) -> (Vec<T>, String) {
    let mut made = Vec::new();
    for number in 0..max {
        match make(number) {
            Ok(one) => made.push(one),
            error => return (made, kind(error)),
        }
    }
    (made, "no end".to_owned())
}

fn sessions_without_end() -> Result<String, Box<dyn Error>> {
    let sandbox = sandbox(Limits { session_count: Some(5), ..Limits::default() });
    let (mut sessions, end) = fill(9, |_| sandbox.session());
    let count = sessions.len();
    sessions.pop();
    let (more, again) = fill(9, |_| sandbox.session());
    Ok(format!("{count}, {end}; one closed: {}, {again}", more.len()))
}

fn forks_without_end() -> Result<String, Box<dyn Error>> {
    let first = sandbox(Limits { session_count: Some(5), ..Limits::default() }).session()?;
    first.execute("var x = 1")?;
    let (forks, end) = fill(9, |_| first.fork());
    let values = forks.iter().map(|fork| Ok(fork.execute("x += 1; x")?.value.map(|value| value.repr)));
    let values: Result<Vec<_>, glovebox_guest::Error> = values.collect();
    Ok(format!("{}, {end}, {:?}", forks.len(), values?.into_iter().flatten().collect::<Vec<_>>()))
}

fn state_without_end() -> Result<String, Box<dyn Error>> {
    let limits = Limits { session_total_bytes: Some(64 << 20), session_count: Some(100), ..Limits::default() };
    let sandbox = sandbox(limits);
    let (sessions, end) = fill(100, |_| {
        let session = sandbox.session()?;
        session.execute("var held = new Uint8Array(8 << 20).fill(7); undefined")?;
        Ok(session)
    });
    let is_bounded = (1..9).contains(&sessions.len());
    drop(sessions);
    Ok(format!("bounded: {is_bounded}, {end}; all closed: {}", kind(sandbox.session())))
}

fn checkpoints_without_end() -> Result<String, Box<dyn Error>> {
    let session = sandbox(Limits::default()).session()?;
    for number in 0..300 {
        session.execute(format!("var x = {number}"))?;
        session.checkpoint()?;
    }
    let retained = session.checkpoints()?.len();
    Ok(format!("retained few: {}, {}", retained < 100, kind(session.undo_to(u64::MAX))))
}

/// Resumes forged states: states with a changed byte, truncated states, and arbitrary bytes. Changes every byte at the
/// beginning and some later bytes.
fn forged_states() -> Result<String, Box<dyn Error>> {
    let sandbox = sandbox(Limits::default());
    let session = sandbox.session()?;
    session.execute("var held = 'x'.repeat(100); [1, 2, 3].map(String).join()")?;
    let bytes = session.hibernate()?.to_vec();
    drop(session);
    let resume =
        |bytes: &[u8]| kind(Blob::of(bytes).and_then(|state| sandbox.resume(&state, &SessionOptions::default())));
    let step = bytes.len() / 60 + 1;
    let changed = (0..80).chain((0..bytes.len()).step_by(step)).map(|at| {
        let mut forged = bytes.clone();
        forged[at] ^= 0x55;
        resume(&forged)
    });
    let cut = (0..bytes.len()).step_by(step * 2).map(|len| resume(&bytes[..len]));
    let forged = kinds(changed.chain(cut));
    let others =
        kinds([vec![], vec![0; 1 << 20], vec![0xff; 1 << 20], bytes.repeat(2)].iter().map(|bytes| resume(bytes)));
    Ok(format!("forged {forged}, others {others}, itself {}", resume(&bytes)))
}

/// Returns a script's view of a tool's reply.
fn reply(tool: &str) -> Result<String, Box<dyn Error>> {
    let source = format!(
        "try {{ const r = await tools.{tool}({{}}); console.log(typeof r, String(r).length) }} catch (e) {{ console.log(e.name) }}"
    );
    let execution = sandbox(Limits { memory_bytes: Some(64 << 20), ..Limits::default() }).execute(source)?;
    Ok(match execution.outcome {
        Outcome::Completed => text(execution),
        Outcome::Raised(raised) => format!("raised {}", raised.type_name),
        other => format!("{other:?}"),
    })
}

fn large_reply() -> Result<String, Box<dyn Error>> {
    reply("large")
}

fn deep_reply() -> Result<String, Box<dyn Error>> {
    reply("deep")
}

fn odd_replies() -> Result<String, Box<dyn Error>> {
    let all = ["empty", "cut", "surrogate", "huge_number", "long_error"];
    Ok(all
        .iter()
        .map(|tool| Ok(format!("{tool} {}", reply(tool)?)))
        .collect::<Result<Vec<_>, Box<dyn Error>>>()?
        .join(", "))
}

fn deep_values() -> Result<String, Box<dyn Error>> {
    let session = sandbox(Limits::default()).session()?;
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let wide = format!("[{}1]", "1,".repeat(100_000));
    let set =
        [deep.as_str(), "[", "", "1 2", "\"\\ud800\"", wide.as_str()].map(|json| kind(session.set_variable("x", json)));
    session.execute("var a = []; for (let i = 0; i < 1e5; i++) a = [a]; var c = {}; c.c = c; undefined")?;
    let got = ["a", "c", "x"].map(|name| kind(session.get_variable(name)));
    Ok(format!("set {}, got {}", set.join(" "), got.join(" ")))
}

fn odd_names() -> Result<String, Box<dyn Error>> {
    let session = sandbox(Limits::default()).session()?;
    let long = "x".repeat(1 << 20);
    let names =
        ["", "__proto__", "a b", "a.b", "1x", "\0", "constructor", "globalThis", "let", long.as_str(), "\u{202e}x"];
    let all =
        names.map(|name| format!("{}/{}", kind(session.get_variable(name)), kind(session.set_variable(name, "1"))));
    Ok(format!("{}, {:?}", kinds(all), text(session.execute("console.log([] instanceof Object)")?)))
}

fn text(execution: glovebox_guest::Execution) -> String {
    execution.stdout.text().trim().to_owned()
}

fn odd_paths() -> Result<String, Box<dyn Error>> {
    let session = sandbox(Limits::default()).session()?;
    let (long, deep) = ("x".repeat(1 << 20), "d/".repeat(5_000) + "f");
    let paths =
        ["", "/", ".", "..", "../x", "a/../../x", "a\0b", "a//b", "/etc/passwd", long.as_str(), deep.as_str(), "f/"];
    session.execute("os.symlink('/', 'up'); os.symlink('loop', 'loop'); undefined")?;
    let all = paths
        .iter()
        .chain(&["up/x", "loop", "loop/x"])
        .map(|path| kind(session.write_file(path, b"x", IfExists::Replace)));
    let all = kinds(all.collect::<Vec<_>>());
    let found = session.files()?.list("**")?;
    Ok(format!("{all}, {:?}", found.into_iter().map(|entry| entry.path).collect::<Vec<_>>()))
}

fn odd_patterns() -> Result<String, Box<dyn Error>> {
    let session = sandbox(Limits::default()).session()?;
    session.write_file("a".repeat(200).as_str(), b"x", IfExists::Fail)?;
    let patterns = [
        "*a".repeat(100) + "b",
        "**/".repeat(1_000),
        "{a,b}".repeat(1_000),
        "{".repeat(10_000),
        "[".repeat(10_000),
        "x".repeat(1 << 20),
    ];
    let files = session.files()?;
    Ok(kinds(patterns.iter().map(|pattern| kind(files.list(pattern).map(|found| found.len())))))
}

fn odd_ranges() -> Result<String, Box<dyn Error>> {
    let sandbox = sandbox(Limits::default());
    let session = sandbox.session()?;
    session.write_file("f", b"12345", IfExists::Fail)?;
    let (files, blob) = (session.files()?, Blob::of(b"12345")?);
    let started = sandbox.start("console.log(12345)", &[])?;
    started.finish()?;
    let ranges = [(0, u64::MAX), (3, u64::MAX), (5, 1), (u64::MAX, u64::MAX), (u64::MAX, 1), (1 << 32, 1), (0, 0)];
    let lens = ranges.map(|(offset, len)| {
        let read = files
            .read_at("f", offset, len)
            .map_or_else(|error| kind::<()>(Err(error)), |bytes| bytes.len().to_string());
        format!(
            "{read}/{}/{}",
            blob.read_at(offset, len).len(),
            started.read_output(OutputStream::Stdout, offset, len).len()
        )
    });
    Ok(lens.join(" "))
}

fn odd_policies() -> Result<String, Box<dyn Error>> {
    let max = u64::MAX;
    let all = [
        Limits { memory_bytes: Some(0), ..Limits::default() },
        Limits { memory_bytes: Some(1 << 20), ..Limits::default() },
        Limits { memory_bytes: Some(max), ..Limits::default() },
        Limits { fuel: Some(max), timeout_ms: Some(max), ..Limits::default() },
        Limits { stdout_bytes: Some(max), stderr_bytes: Some(max), ..Limits::default() },
        Limits {
            workspace_bytes: Some(max),
            workspace_inodes: Some(max),
            open_files: Some(u32::MAX),
            ..Limits::default()
        },
        Limits { fuel: Some(0), ..Limits::default() },
        Limits { tool_calls_at_once: Some(u32::MAX), tool_bytes: Some(max), ..Limits::default() },
    ];
    // The script allocates as much as possible. The policy must either be rejected or limit the script.
    let source = "let all = []; try { for (let i = 0; i < 9; i++) all.push(new ArrayBuffer(1 << 20)) } catch {}";
    Ok(all.map(|limits| kind(sandbox(limits).execute(source))).join(" "))
}

fn large_sources() -> Result<String, Box<dyn Error>> {
    let sandbox = sandbox(Limits { source_bytes: Some(4 << 20), stdin_bytes: Some(1 << 20), ..Limits::default() });
    let large = kind(sandbox.execute("/".repeat(5 << 20)));
    let mut with_stdin = Request::new("1");
    with_stdin.stdin = Some(vec![0; (1 << 20) + 1]);
    let stdin = kind(sandbox.execute(with_stdin));
    let nested = ["(", "[", "{", "`${", "()=>", "!", "a?"].map(|piece| {
        let source = piece.repeat(500_000);
        let ran = sandbox.execute(source.as_str()).map(|execution| execution.is_success());
        format!("{}/{ran:?}", kind(sandbox.validate(source)))
    });
    Ok(format!("{large} {stdin} {}", kinds(nested)))
}

/// Starts executions that are never continued or are dropped halfway.
fn left_in_the_middle() -> Result<String, Box<dyn Error>> {
    let sandbox = sandbox(Limits { session_count: Some(3), ..Limits::default() });
    let session: Session = sandbox.session()?;
    let started = session.start("var x = 1")?;
    let busy = [kind(session.execute("1")), kind(session.fork()), kind(session.hibernate()), kind(session.start("1"))];
    drop(started);
    let after = kind(session.execute("1"));
    let started = session.start("var y = 1")?;
    drop(session);
    let orphan = kind(started.finish());
    let all: Vec<_> = (0..100).map(|_| sandbox.start("for (;;);", &[])).collect::<Result<_, _>>()?;
    drop(all);
    Ok(format!("{}, {after}, {orphan}", kinds(busy)))
}
