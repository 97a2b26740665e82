//! Tests recorded executions: a replay must have the same results, including the exact fuel.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use glovebox::{
    CancelToken, ExecuteError, Execution, Language, Outcome, Policy, RecordError, Recording, Request, Resource,
    Sandbox, Tool, ToolError, ToolErrorKind,
};
use glovebox_tests::{engine, whole_matrix};
use serde_json::json;

use super::{BOTH, answer, done, needs, of, stepped};

/// A script that uses every kind of external input.
const PYTHON: &str = "
import asyncio, os, random, sys, time, uuid
print(sys.stdin.read(), time.time_ns(), time.monotonic_ns(), random.random(), os.urandom(8).hex(), uuid.uuid4())
open('new', 'w').write(uuid.uuid4().hex)
open('old', 'a').write('more')
async def square(n):
    try: return await tools.square.aio(n=n)
    except tools.ToolError as error: return type(error).__name__, str(error)
async def main(): print(await asyncio.gather(*[square(n) for n in (1, 'x', 3)]))
asyncio.run(main())
time.sleep(0.001)
print(tools.square(n=random.randrange(1000)), time.time_ns(), file=sys.stderr)
";

const JAVASCRIPT: &str = "
const fs = require('fs');
print(fs.readFileSync(0, 'utf8'), Date.now(), performance.now(), Math.random(), crypto.randomUUID());
fs.writeFileSync('new', crypto.randomUUID());
fs.appendFileSync('old', 'more');
const square = n => tools.square({n}).catch(error => [error.name, error.message]);
print(await Promise.all([1, 'x', 3].map(square)));
await new Promise(done => setTimeout(done, 1));
console.error(await tools.square({n: Math.floor(Math.random() * 1000)}), Date.now());
";

/// Returns a tool that squares numbers, fails for other values, and counts its calls.
fn square(calls: &Arc<AtomicUsize>) -> Tool {
    let calls = Arc::clone(calls);
    Tool::new("square", "Squares a number.").schema(json!({ "properties": { "n": {} }, "required": ["n"] })).handler(
        move |_, arguments| {
            calls.fetch_add(1, Ordering::SeqCst);
            match arguments["n"].as_i64() {
                Some(n) => Ok(json!(n * n)),
                None => Err(ToolError::of(ToolErrorKind::Denied, "not a number")),
            }
        },
    )
}

/// Builds a sandbox with the file `old`.
fn sandbox(language: Language, edit: impl FnOnce(&mut Policy)) -> Sandbox {
    let mut policy = Policy::default();
    edit(&mut policy);
    Sandbox::builder(engine()).language(language).policy(policy).file("old", "old").build().unwrap()
}

fn recorded(sandbox: &Sandbox, source: &str) -> Execution {
    sandbox.run(Request::new(source).recorded(true)).unwrap()
}

/// Turns the recording of an execution into bytes and back.
fn recording(execution: &Execution) -> Recording {
    Recording::from_bytes(&execution.recording().unwrap().to_bytes()).unwrap()
}

/// Returns the difference that a replay reports.
fn difference(sandbox: &Sandbox, recording: &Recording) -> String {
    match sandbox.replay(recording) {
        Err(ExecuteError::NotRepeated { difference }) => difference,
        other => panic!("{other:?}"),
    }
}

#[test]
fn repeated_execution_has_the_same_results() {
    for language in BOTH {
        let calls = Arc::new(AtomicUsize::new(0));
        let plain = sandbox(language, |_| {});
        let with_tool = plain.with_tools(&[square(&calls)]).unwrap();
        let source = of(language, PYTHON, JAVASCRIPT);
        let execution = with_tool.run(Request::new(source).stdin(b"input").recorded(true)).unwrap();
        assert!(execution.is_success(), "{language}: {execution:?}");
        assert_eq!((execution.files_created.len(), execution.files_modified.len()), (1, 1), "{language}");
        assert_eq!(calls.swap(0, Ordering::SeqCst), 4, "{language}");
        let recording = recording(&execution);
        assert_eq!(recording.fuel_consumed(), execution.fuel_consumed);
        // A replay needs no tool, and does not call one that exists.
        for sandbox in [&with_tool, &plain] {
            let repeated = sandbox.replay(&recording).unwrap();
            assert_eq!(repeated.stdout, execution.stdout, "{language}");
            assert_eq!(repeated.stderr, execution.stderr, "{language}");
            assert_eq!(repeated.fuel_consumed, execution.fuel_consumed, "{language}");
            assert_eq!(repeated.files().read("new").unwrap(), execution.files().read("new").unwrap(), "{language}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0, "{language}: a tool was called");
    }
}

#[test]
fn failed_execution_can_be_repeated() {
    for language in BOTH {
        let loops = of(language, "print(1)\nwhile True: pass", "print(1); for (;;);");
        for source in [
            of(language, "raise ValueError(__import__('time').time_ns())", "throw new Error(Date.now())"),
            of(
                language,
                "raise SystemExit(__import__('random').randrange(1, 99))",
                "process.exit(Date.now() % 99 + 1)",
            ),
            of(language, "(", "("),
            of(language, "tools.unknown()", "await tools.unknown()"),
            of(language, "tools.square(x=1)", "await tools.square({x: 1})"),
            loops,
        ] {
            let calls = Arc::new(AtomicUsize::new(0));
            let sandbox = sandbox(language, |policy| policy.limits.fuel = 200_000_000);
            let execution = recorded(&sandbox.with_tools(&[square(&calls)]).unwrap(), source);
            assert!(!execution.is_success(), "{language}: {source}");
            if source == loops {
                let is_out = matches!(execution.outcome, Outcome::Exhausted { resource: Resource::Fuel, .. });
                assert!(is_out && execution.interrupted.is_none(), "{language}: {:?}", execution.outcome);
                assert_eq!(execution.stdout.text(), "1\n", "{language}");
            }
            let repeated = sandbox.replay(&recording(&execution)).unwrap();
            assert_eq!(repeated.outcome, execution.outcome, "{language}: {source}");
            assert_eq!(repeated.fuel_consumed, execution.fuel_consumed, "{language}: {source}");
        }
    }
}

#[test]
fn typescript_can_be_repeated() {
    let sandbox = sandbox(Language::JavaScript, |_| {});
    for source in ["const x: number = Math.random(); print(x)", "const x: = 1"] {
        let request = Request::new(source).name("a.ts").recorded(true);
        let execution = sandbox.run(request).unwrap();
        let repeated = sandbox.replay(&recording(&execution)).unwrap();
        assert_eq!(
            (repeated.outcome, repeated.fuel_consumed),
            (execution.outcome, execution.fuel_consumed),
            "{source}"
        );
    }
}

#[test]
fn started_and_resumed_executions_can_be_recorded() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |_| {});
        let source = of(
            language,
            "print(tools.ask(q=1))\nprint(tools.ask(q=2))",
            "print(await tools.ask({q: 1}))\nprint(await tools.ask({q: 2}))",
        );
        let started = sandbox.start(Request::new(source).suspendable(true).recorded(true)).unwrap();
        let calls = needs(&started, Vec::new());
        let calls = needs(&started, vec![answer(&calls[0], 5)]);
        let suspended = started.suspend().unwrap();
        let resumed = sandbox.start(suspended.request().recorded(true)).unwrap();
        needs(&resumed, Vec::new());
        let execution = done(&resumed, vec![answer(&calls[0], 6)]);
        assert!(execution.is_success(), "{language}: {execution:?}");
        // The caller has no calls to answer.
        let recording = recording(&execution);
        let repeated = done(&sandbox.start(recording.request()).unwrap(), Vec::new());
        assert_eq!(repeated.stdout, execution.stdout, "{language}");
        // The suspended execution itself counts as cancelled.
        assert_eq!(done(&started, Vec::new()).recording(), Err(RecordError::Interrupted), "{language}");
    }
}

#[test]
fn first_difference_is_an_error() {
    let with_code =
        |code: &str| Sandbox::builder(engine()).language(Language::Python).file("code", code).build().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let code = "import time\nprint(1)\ntime.time()\ntools.square(n=2)";
    let execution = recorded(&with_code(code).with_tools(&[square(&calls)]).unwrap(), "exec(open('code').read())");
    let recording = recording(&execution);
    with_code(code).replay(&recording).unwrap();
    for (old, new, named) in [
        ("print(1)", "print(2)", "wrote different text to standard output"),
        ("print(1)", "print(11)", "the script wrote 3 bytes to standard output instead of 2"),
        ("print(1)", "print(3 - 2)", "units of fuel instead of"),
        ("n=2", "n=3", "the tool calls differ"),
        ("time.time()", "time.monotonic()", "reads the monotonic clock, unlike in the first run"),
        ("time.time()\n", "", "unlike in the first run"),
        ("\ntools.square(n=2)", "", "ended before it received all of its recorded inputs"),
        ("n=2)", "n=2); tools.square(n=2)", "unlike in the first run"),
        ("n=2)", "n=2); 1 / 0", "the outcome is `raised ZeroDivisionError: division by zero` instead of `completed`"),
    ] {
        let found = difference(&with_code(&code.replace(old, new)), &recording);
        assert!(found.contains(named), "{new}: {found}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn other_image_limit_or_tool_is_an_error() {
    let python = sandbox(Language::Python, |_| {});
    let recording = recording(&recorded(&python, "print(1)"));
    let error = sandbox(Language::JavaScript, |_| {}).replay(&recording).unwrap_err();
    assert!(matches!(error, ExecuteError::OtherImage { .. }), "{error}");
    let other = sandbox(Language::Python, |policy| policy.limits.memory_bytes += 65_536);
    assert!(difference(&other, &recording).starts_with("`limits.memory_bytes` is "));
    let slow = sandbox(Language::Python, |policy| policy.limits.timeout_ms += 1);
    slow.replay(&recording).unwrap();
    let with_tool = python.with_tools(&[square(&Arc::default())]).unwrap();
    assert_eq!(difference(&with_tool, &recording), "the sandbox has different tools");
}

#[test]
fn interrupted_execution_has_no_recording() {
    for language in BOTH {
        let sandbox = sandbox(language, |policy| policy.limits.timeout_ms = 300);
        let execution = recorded(&sandbox, of(language, "while True: pass", "for (;;);"));
        assert_eq!(execution.recording(), Err(RecordError::Interrupted), "{language}");
        let cancel = CancelToken::new();
        cancel.cancel();
        let execution = sandbox.run(Request::new("1").cancel(&cancel).recorded(true)).unwrap();
        assert_eq!(execution.recording(), Err(RecordError::Interrupted), "{language}");
    }
    // The script catches the exception that a cancellation raises, and completes.
    let sandbox = sandbox(Language::Python, |policy| {
        policy.limits.timeout_ms = 60_000;
        policy.limits.timeout_reserve_ms = 6_000;
    });
    let source = "try:\n    print('loop', flush=True)\n    while True: pass\nexcept KeyboardInterrupt: print('caught')";
    let cancel = CancelToken::new();
    let cancel_now = cancel.clone();
    let request = Request::new(source).cancel(&cancel).on_output(move |_, _| cancel_now.cancel()).recorded(true);
    let execution = sandbox.run(request).unwrap();
    let found = (execution.stdout.text(), execution.recording());
    assert_eq!(found, ("loop\ncaught\n".into(), Err(RecordError::Interrupted)));
}

#[test]
fn recording_has_a_maximum_size() {
    let sandbox = sandbox(Language::Python, |_| {});
    // The guest receives the bytes in chunks of 256, each of which is charged 16 additional bytes.
    for (bytes, fits) in [(950_000, true), (1_100_000, false)] {
        let execution = recorded(&sandbox, &format!("import os\nprint(len(os.urandom({bytes})))"));
        assert_eq!(execution.stdout.text(), format!("{bytes}\n"), "the script is unaffected");
        assert_eq!(execution.recording().err(), (!fits).then_some(RecordError::TooLarge), "{bytes}");
    }
    let plain = sandbox.execute("1").unwrap();
    assert_eq!(plain.recording(), Err(RecordError::NotRecorded));
}

#[test]
fn policy_can_lower_the_maximum_size_of_a_recording() {
    let low = sandbox(Language::Python, |policy| policy.limits.journal_bytes = 10_000);
    let lowest = sandbox(Language::Python, |policy| policy.limits.journal_bytes = 0);
    // Returns `true` if an execution that receives this many bytes has a recording.
    let fits = |bytes: usize| {
        let execution = recorded(&low, &format!("import os\nprint(len(os.urandom({bytes})))"));
        assert_eq!(execution.stdout.text(), format!("{bytes}\n"), "the script is unaffected");
        match execution.recording() {
            Ok(recording) => assert!(lowest.replay(recording).is_ok(), "a replay has no journal of its own"),
            Err(error) => {
                assert_eq!(error, RecordError::TooLarge);
                assert!(error.to_string().contains("`limits.journal_bytes`"), "{error}");
                return false;
            }
        }
        true
    };
    let (mut at, mut over) = (5_000, 10_000);
    while over - at > 1 {
        let bytes = (at + over) / 2;
        (at, over) = if fits(bytes) { (bytes, over) } else { (at, bytes) };
    }
    assert!(fits(at - 1) && fits(at) && !fits(over), "{at}");
}

#[test]
fn executions_in_sessions_cannot_be_recorded() {
    let sandbox = sandbox(Language::Python, |_| {});
    let session = sandbox.session().unwrap();
    let recording = recording(&recorded(&sandbox, "1"));
    for request in [Request::new("1").recorded(true), recording.request()] {
        let error = session.run(request).unwrap_err();
        assert!(matches!(error, ExecuteError::RecordedInSession), "{error}");
    }
    assert_eq!(session.execute("1").unwrap().value.unwrap().repr, "1");
}

/// A replay finds the directory as the first run left it, and must not change it.
#[test]
fn repetition_does_not_change_host_directories() {
    let dir = tempfile::tempdir().unwrap();
    let mut policy = Policy::default();
    policy.workspace = Some(dir.path().to_owned());
    let sandbox = Sandbox::builder(engine()).language(Language::Python).policy(policy).build().unwrap();
    let execution = recorded(&sandbox, "open('n', 'w').write(str(__import__('time').time_ns()))");
    let path = dir.path().join("n");
    assert!(execution.is_success() && path.exists(), "{execution:?}");
    std::fs::remove_file(&path).unwrap();
    sandbox.replay(&recording(&execution)).unwrap();
    assert!(!path.exists());
}

/// A generator of random scripts (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }

    /// Returns a script of a few random statements.
    fn script(&mut self, language: Language) -> String {
        const STATEMENTS: [[&str; 2]; 9] = [
            ["print(time.time_ns())", "print(Date.now());"],
            ["print(time.monotonic_ns())", "print(performance.now());"],
            ["print(random.random(), os.urandom(3))", "print(Math.random(), crypto.randomUUID());"],
            ["print(tools.square(n=N))", "print(await tools.square({n: N}));"],
            [
                "asyncio.run(several(range(N)))",
                "print(await Promise.all(Array.from({length: N}, (_, n) => tools.square({n}))));",
            ],
            ["open('fN', 'a').write(str(random.random()))", "fs.appendFileSync('fN', `${Math.random()}`);"],
            ["time.sleep(N / 10_000)", "await new Promise(done => setTimeout(done, N / 10));"],
            [
                "try: tools.square(n='x')\nexcept tools.ToolError as error: print(error)",
                "await tools.square({n: 'x'}).catch(error => print(error.message));",
            ],
            ["if random.random() < 0.1: raise ValueError(N)", "if (Math.random() < 0.1) throw new Error(N);"],
        ];
        let prelude = of(
            language,
            "import asyncio, os, random, time\n\
             async def several(ns): print(await asyncio.gather(*[tools.square.aio(n=n) for n in ns]))\n",
            "const fs = require('fs');\n",
        );
        let mut script = prelude.to_owned();
        for _ in 0..1 + self.below(8) {
            let statement = STATEMENTS[usize::try_from(self.below(9)).unwrap()];
            let [python, javascript] = statement;
            writeln!(script, "{}", of(language, python, javascript).replace('N', &self.below(20).to_string())).unwrap();
        }
        script
    }
}

/// `.ci/full` repeats 1,000 recordings.
#[test]
fn random_scripts_repeat_exactly() {
    let seed = u64::from(std::process::id());
    let mut random = Random(seed);
    let runs = if whole_matrix() { 500 } else { 15 };
    for language in BOTH {
        let plain = sandbox(language, |_| {});
        let with_tool = plain.with_tools(&[square(&Arc::default())]).unwrap();
        for run in 0..runs {
            let script = random.script(language);
            let execution = recorded(&with_tool, &script);
            let repeated = plain.replay(&recording(&execution));
            assert!(repeated.is_ok(), "seed {seed}, run {run}: {:?}\n{script}", repeated.err());
        }
    }
}
