//! Tests suspended executions: a script that is suspended at any of its calls and resumed must behave as if it had run
//! without interruption.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use glovebox::{
    AdvanceError, CancelToken, Clock, Entropy, ExecuteError, Execution, Language, Outcome, Policy, Request,
    ResumeOptions, Sandbox, Session, Started, Step, SuspendError, SuspendRefusal, Suspended, Tool, ToolAnswer,
    ToolError, ToolErrorKind, ToolPolicy, ToolRequest,
};
use serde_json::{Value, json};

use super::{BOTH, LONG, answer, ask, done, needs, of, stepped, text};
use glovebox_tests::engine;

/// A script that uses every kind of external input: answers in any order, errors, times, sleeps, random numbers, and
/// standard input.
const PYTHON: &str = "
import asyncio, os, random, sys, time, uuid
print(sys.stdin.read(), time.time_ns(), time.monotonic_ns(), random.random(), os.urandom(8).hex(), uuid.uuid4())
with open('notes', 'w') as notes: notes.write('a')
for i in range(3):
    print(i, tools.ask(q=i))
    time.sleep(0.001)
async def ask(q):
    try: return await tools.ask.aio(q=q)
    except tools.ToolError as error: return type(error).__name__, str(error)
async def main(): print(await asyncio.gather(*[ask(q) for q in 'abc']))
asyncio.run(main())
print(open('notes').read(), time.time_ns(), random.random(), file=sys.stderr)
";

const JAVASCRIPT: &str = "
const fs = require('fs');
print(fs.readFileSync(0, 'utf8'), Date.now(), performance.now(), Math.random(), crypto.randomUUID());
fs.writeFileSync('notes', 'a');
for (let i = 0; i < 3; i++) { print(i, await tools.ask({q: i})); await new Promise(done => setTimeout(done, 1)); }
const ask = q => tools.ask({q}).catch(error => [error.name, error.message]);
print(await Promise.all(['a', 'b', 'c'].map(ask)));
console.error(fs.readFileSync('notes', 'utf8'), Date.now(), Math.random());
";

/// Fixes the time and the random numbers.
fn repeatable(policy: &mut Policy) {
    policy.clock = Clock::Fixed(1_700_000_000_000_000_000);
    policy.entropy = Entropy::Seeded(7);
}

fn source(language: Language) -> &'static str {
    of(language, PYTHON, JAVASCRIPT)
}

pub(super) fn request(source: &str) -> Request<'_> {
    Request::new(source).stdin(b"input").suspendable(true)
}

/// Answers a call by its arguments: numbers with a list, `b` with an error, other letters with themselves.
pub(super) fn reply(call: &ToolRequest) -> ToolAnswer {
    let q = &call.values()["q"];
    match q.as_str() {
        Some("b") => ToolAnswer::error(call.id, ToolError::of(ToolErrorKind::Timeout, "too late")),
        Some(_) => ToolAnswer::value(call.id, q),
        None => ToolAnswer::value(call.id, &json!([q, 1.5])),
    }
}

pub(super) fn resume(sandbox: &Sandbox, suspended: &Suspended) -> Started {
    sandbox.start(suspended.request()).unwrap()
}

/// Turns an execution into bytes and back.
pub(super) fn through_bytes(started: &Started) -> Suspended {
    let suspended = started.suspend().unwrap();
    Suspended::from_bytes(&suspended.to_bytes(None), None).unwrap()
}

/// Returns standard output and standard error without words of nine or more bytes. The times and random numbers, which
/// differ between runs, are that long.
fn without_chance(execution: &Execution) -> (String, String) {
    let words = |text: &str| {
        let others = text.split_whitespace().filter(|word| word.len() < 9);
        others.collect::<Vec<_>>().join(" ")
    };
    (words(&execution.stdout.text()), words(&execution.stderr.text()))
}

/// Runs a script and suspends it at every wait. Answers up to `answers_at_once` calls before the next wait.
pub(super) fn run_with_suspensions(sandbox: &Sandbox, source: &str, answers_at_once: usize) -> (Arc<Execution>, usize) {
    let mut started = sandbox.start(request(source)).unwrap();
    let (mut answers, mut suspensions) = (Vec::new(), 0);
    loop {
        let calls = match started.advance(answers, None).unwrap() {
            Step::Done(execution) => return (execution, suspensions),
            Step::NeedsTools(calls) => calls,
            Step::Running => panic!("there is no time limit"),
        };
        let suspended = through_bytes(&started);
        assert_eq!(suspended.tool_requests(), calls);
        started = resume(sandbox, &suspended);
        assert_eq!(needs(&started, Vec::new()), calls, "the same calls");
        suspensions += 1;
        answers = calls.iter().take(answers_at_once).map(reply).collect();
    }
}

pub(super) fn run_without_suspensions(sandbox: &Sandbox, source: &str, answers_at_once: usize) -> Arc<Execution> {
    let started = sandbox.start(request(source)).unwrap();
    let mut answers = Vec::new();
    loop {
        match started.advance(answers, None).unwrap() {
            Step::Done(execution) => return execution,
            Step::NeedsTools(calls) => answers = calls.iter().take(answers_at_once).map(reply).collect(),
            Step::Running => panic!("there is no time limit"),
        }
    }
}

#[test]
fn suspended_script_behaves_like_an_uninterrupted_one() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |_| {});
        for (answers_at_once, waits) in [(1, 6), (2, 5), (3, 4)] {
            let (execution, suspensions) = run_with_suspensions(&sandbox, source(language), answers_at_once);
            assert!(execution.is_success(), "{language}: {execution:?}");
            assert_eq!(suspensions, waits, "{language}, {answers_at_once}");
            let other = run_without_suspensions(&sandbox, source(language), answers_at_once);
            assert_eq!(without_chance(&execution), without_chance(&other), "{language}");
            let calls = |execution: &Execution| -> Vec<_> {
                let calls = execution.tool_calls.iter();
                calls.map(|call| (call.name.clone(), call.arguments.clone(), call.outcome.clone())).collect()
            };
            assert_eq!(calls(&execution), calls(&other), "{language}");
            assert_eq!(execution.files_created, ["notes"], "{language}");
            assert_eq!(execution.files_created, other.files_created);
        }
    }
}

/// With a fixed clock and seeded random numbers, all runs use exactly the same fuel.
#[test]
fn suspensions_cost_no_fuel() {
    for language in BOTH {
        let sandbox = stepped(language, &[], repeatable);
        let (execution, _) = run_with_suspensions(&sandbox, source(language), 2);
        let other = run_without_suspensions(&sandbox, source(language), 2);
        assert!(execution.is_success(), "{language}: {execution:?}");
        assert_eq!(execution.fuel_consumed, other.fuel_consumed, "{language}");
        assert_eq!(execution.stdout, other.stdout, "{language}");
    }
}

#[test]
fn execution_without_a_meter_can_be_suspended() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |policy| policy.metering = glovebox::Metering::None);
        let (execution, suspensions) = run_with_suspensions(&sandbox, source(language), 3);
        assert_eq!((execution.is_success(), suspensions), (true, 4), "{language}: {execution:?}");
    }
}

#[test]
fn suspended_call_can_be_answered_in_several_ways() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let started = sandbox.start(request("x = tools.ask(q=1)\nprint('got', x)")).unwrap();
    let calls = needs(&started, Vec::new());
    let suspended = through_bytes(&started);
    for value in [json!(1), json!("two"), Value::Null] {
        let resumed = resume(&sandbox, &suspended);
        needs(&resumed, Vec::new());
        let execution = done(&resumed, vec![ToolAnswer::value(calls[0].id, &value)]);
        let shown = if value.is_null() { "None".to_owned() } else { value.to_string().replace('"', "") };
        assert_eq!(text(&execution), format!("got {shown}\n"));
    }
    // The suspended execution itself has ended.
    let execution = done(&started, Vec::new());
    assert_eq!(execution.outcome, Outcome::Cancelled);
    assert!(matches!(started.suspend(), Err(SuspendError::Ended)));
}

#[test]
fn handlers_are_not_called_again() {
    for language in BOTH {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let counter = Tool::new("count", "").handler(move |_, _| Ok(json!(counted.fetch_add(1, Ordering::SeqCst))));
        let sandbox = stepped(language, &[], |_| {}).with_tools(&[counter]).unwrap();
        let source = of(
            language,
            "print(tools.count(), tools.count())\nprint(tools.ask(q='x'))\nprint(tools.count())",
            "print(await tools.count(), await tools.count())\nprint(await tools.ask({q: 'x'}))\nprint(await tools.count())",
        );
        let (execution, _) = run_with_suspensions(&sandbox, source, 1);
        assert_eq!(text(&execution), "0 1\nx\n2\n", "{language}");
        assert_eq!(count.load(Ordering::SeqCst), 3, "{language}");
    }
}

#[test]
fn listener_receives_all_output_once() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let heard = Arc::new(Mutex::new(String::new()));
    let listen = || {
        let heard = Arc::clone(&heard);
        move |_, bytes: &[u8]| heard.lock().unwrap().push_str(&String::from_utf8_lossy(bytes))
    };
    let source = "print('one')\ntools.ask(q=1)\nprint('two')\ntools.ask(q=2)\nprint('three')";
    let mut started = sandbox.start(request(source).on_output(listen())).unwrap();
    for written in ["one\n", "one\ntwo\n"] {
        let calls = needs(&started, Vec::new());
        assert_eq!(*heard.lock().unwrap(), written);
        let suspended = through_bytes(&started);
        started = sandbox.start(suspended.request().on_output(listen())).unwrap();
        needs(&started, Vec::new());
        assert_eq!(started.read_output(glovebox::Stream::Stdout, 0, 100), written.as_bytes());
        assert!(matches!(
            started.advance(calls.iter().map(reply).collect(), None).unwrap(),
            Step::NeedsTools(_) | Step::Done(_)
        ));
    }
    assert_eq!(*heard.lock().unwrap(), "one\ntwo\nthree\n");
}

#[test]
fn only_waiting_executions_can_be_suspended() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let plain = sandbox.start(Request::new("tools.ask(q=1)")).unwrap();
    needs(&plain, Vec::new());
    assert!(matches!(plain.suspend(), Err(SuspendError::NotSuspendable)));

    let busy = sandbox.start(request("while True: pass")).unwrap();
    assert!(matches!(busy.suspend(), Err(SuspendError::Running)));
    busy.cancel();

    let ended = sandbox.start(request("1")).unwrap();
    ended.advance(Vec::new(), None).unwrap();
    assert!(matches!(ended.suspend(), Err(SuspendError::Ended)));
}

#[test]
fn journal_has_a_maximum_size() {
    let sandbox = stepped(Language::Python, &[], |policy| policy.limits.tool_bytes = 2 << 20);
    // An answer is charged for its text and 16 bytes for each of its entries.
    for (bytes, fits) in [(1_000_000, true), (1_100_000, false)] {
        let source = "print(len(tools.ask(q=1)))\ntools.ask(q=2)";
        let started = sandbox.start(request(source)).unwrap();
        let calls = needs(&started, Vec::new());
        let long = ToolAnswer::value(calls[0].id, &json!("x".repeat(bytes)));
        let calls = needs(&started, vec![long]);
        match started.suspend() {
            Ok(_) => assert!(fits, "{bytes}"),
            Err(SuspendError::Refused(SuspendRefusal::JournalFull)) => {
                assert!(!fits, "{bytes}");
                let execution = done(&started, vec![reply(&calls[0])]);
                assert_eq!(text(&execution), format!("{bytes}\n"));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn policy_can_lower_the_maximum_size_of_the_journal() {
    let sandbox = stepped(Language::Python, &[], |policy| policy.limits.journal_bytes = 10_000);
    // Returns `true` if the execution can be suspended after an answer of this length.
    let fits = |bytes: usize| {
        let started = sandbox.start(request("print(len(tools.ask(q=1)))\ntools.ask(q=2)")).unwrap();
        let calls = needs(&started, Vec::new());
        let calls = needs(&started, vec![ToolAnswer::value(calls[0].id, &json!("x".repeat(bytes)))]);
        let Err(error) = started.suspend() else { return true };
        assert!(error.to_string().contains("`limits.journal_bytes`"), "{error}");
        assert_eq!(text(&done(&started, vec![reply(&calls[0])])), format!("{bytes}\n"), "the script continues");
        false
    };
    let (mut at, mut over) = (5_000, 10_000);
    while over - at > 1 {
        let bytes = (at + over) / 2;
        (at, over) = if fits(bytes) { (bytes, over) } else { (at, bytes) };
    }
    assert!(fits(at - 1) && fits(at) && !fits(over), "{at}");
}

#[test]
fn clock_readings_fill_the_journal() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    for (readings, fits) in [(60_000, true), (70_000, false)] {
        let source = format!("import time\nfor _ in range({readings}): time.time()\nprint(tools.ask(q=1))");
        let started = sandbox.start(request(&source)).unwrap();
        let calls = needs(&started, Vec::new());
        match started.suspend() {
            Ok(_) => assert!(fits, "{readings}"),
            Err(error) => {
                assert!(!fits && error.to_string().contains("clock readings"), "{readings}: {error}");
                assert_eq!(text(&done(&started, vec![answer(&calls[0], 2)])), "2\n");
            }
        }
    }
}

#[test]
fn difference_from_the_first_run_is_an_error() {
    let with_code = |code: &str| {
        let builder = Sandbox::builder(engine()).language(Language::Python).tool(ask());
        builder.file("code", code).build().unwrap()
    };
    let code = "import time\nprint(1)\ntime.time()\ntools.ask(q=1)";
    let sandbox = with_code(code);
    let started = sandbox.start(request("exec(open('code').read())")).unwrap();
    needs(&started, Vec::new());
    let suspended = started.suspend().unwrap();
    for (old, new, difference) in [
        ("print(1)", "print(2 + 3)", "units of fuel instead of"),
        ("print(1)", "print(12)", "wrote 3 bytes to standard output and 0 to standard error instead of 2 and 0"),
        ("q=1", "q=2", "waits for different tool calls"),
        ("time.time()", "time.monotonic()", "reads the monotonic clock, unlike in the first run"),
        ("tools.ask(q=1)", "pass", "ended, unlike in the first run"),
    ] {
        let resumed = resume(&with_code(&code.replace(old, new)), &suspended);
        let error = resumed.advance(Vec::new(), Some(LONG)).unwrap_err();
        let AdvanceError::Execute(error) = error else { panic!("{new}: {error}") };
        assert!(matches!(*error, ExecuteError::Diverged { .. }), "{new}: {error}");
        assert!(error.to_string().contains(difference), "{new}: {error}");
    }
    needs(&resume(&sandbox, &suspended), Vec::new());
    let other = stepped(Language::JavaScript, &[], |_| {});
    let error = other.start(suspended.request()).unwrap_err();
    assert!(matches!(error, ExecuteError::OtherImage { .. }), "{error}");
}

/// Restores the session of a suspended execution, and resumes the execution in it.
pub(super) fn resume_in_session(sandbox: &Sandbox, suspended: &Suspended) -> (Session, Started) {
    let session = sandbox.resume_suspended_session(suspended, ResumeOptions::default()).unwrap();
    let started = session.start(suspended.request()).unwrap();
    (session, started)
}

#[test]
fn execution_in_a_session_can_be_suspended() {
    const FIRST: [&str; 2] = [
        "import random, time\nrandom.seed(7)\nx, before = [context['n']], time.monotonic()",
        "let x = [context.n], before = performance.now(); fs = require('fs'); fs.writeFileSync('f', 'a'); 0",
    ];
    const SECOND: [&str; 2] = [
        "
x.append(tools.ask(q='one'))
x.append(random.random())
x.append(tools.ask(q='two'))
print(x, time.monotonic() >= before)
len(x)",
        "
x.push(await tools.ask({q: 'one'}));
x.push(fs.readFileSync('f', 'utf8'));
x.push(await tools.ask({q: 'two'}));
print(x, performance.now() >= before);
x.length",
    ];
    for (language, is_repeatable) in BOTH.into_iter().flat_map(|language| [(language, false), (language, true)]) {
        let [first, second] = [FIRST, SECOND].map(|[python, javascript]| of(language, python, javascript));
        let sandbox = stepped(language, &[], |policy| {
            if is_repeatable {
                repeatable(policy)
            }
        });
        let open = || {
            let session = sandbox.session().unwrap();
            session.run(Request::new(first).context(&json!({"n": 1}))).unwrap();
            session
        };
        let plain = open();
        let started = plain.start(request(second).suspendable(false).context(&json!({"n": 2}))).unwrap();
        let calls = needs(&started, Vec::new());
        let calls = needs(&started, vec![reply(&calls[0])]);
        let expected = done(&started, vec![reply(&calls[0])]);

        let mut session = open();
        let mut started = session.start(request(second).context(&json!({"n": 2}))).unwrap();
        for _ in 0..2 {
            let calls = needs(&started, Vec::new());
            let suspended = through_bytes(&started);
            assert!(suspended.is_in_session());
            let size = suspended.to_bytes(None).len();
            assert!(size <= 100_000, "{language}: {size} bytes");
            // The suspended execution counts as cancelled, so its session is rolled back to its last checkpoint.
            assert_eq!(done(&started, Vec::new()).outcome, Outcome::Cancelled, "{language}");
            let length = session.execute(of(language, "len(x)", "x.length")).unwrap().value.unwrap();
            assert_eq!(length.repr, "1", "{language}");
            (session, started) = resume_in_session(&sandbox, &suspended);
            assert_eq!(needs(&started, Vec::new()), calls);
            let answered = started.advance(vec![reply(&calls[0])], Some(LONG)).unwrap();
            assert!(matches!(answered, Step::NeedsTools(_) | Step::Done(_)), "{answered:?}");
        }
        let execution = done(&started, Vec::new());
        assert_eq!(text(&execution), text(&expected), "{language}");
        if is_repeatable {
            assert_eq!(execution.fuel_consumed, expected.fuel_consumed, "{language}");
        }
        assert_eq!(execution.value.as_ref().unwrap().repr, "4", "{language}");
        // The session continues with its variables and with the second value of `context`.
        let both = session.execute(of(language, "len(x), context['n']", "[x.length, context.n].join()")).unwrap();
        assert!(["(4, 2)", "'4,2'"].contains(&&*both.value.unwrap().repr), "{language}");
    }
}

#[test]
fn suspended_execution_is_resumed_where_it_ran() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let session = sandbox.session().unwrap();
    let in_session = session.start(request("tools.ask(q=1)")).unwrap();
    needs(&in_session, Vec::new());
    let in_session = in_session.suspend().unwrap();
    let outside = sandbox.start(request("tools.ask(q=1)")).unwrap();
    needs(&outside, Vec::new());
    let outside = outside.suspend().unwrap();

    let refused = sandbox.run(in_session.request()).unwrap_err();
    assert!(matches!(refused, ExecuteError::OtherSession { in_session: true }), "{refused}");
    let refused = sandbox.session().unwrap().run(outside.request()).unwrap_err();
    assert!(matches!(refused, ExecuteError::OtherSession { in_session: false }), "{refused}");
    let refused = sandbox.resume_suspended_session(&outside, ResumeOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("outside a session"), "{refused}");
}

#[test]
fn waiting_call_is_not_passed_to_a_handler() {
    let plain = Sandbox::builder(engine()).language(Language::Python).build().unwrap();
    let started = plain.start(request("print(tools.ask(q=1))").tools(vec![ask()])).unwrap();
    needs(&started, Vec::new());
    let suspended = through_bytes(&started);
    let called = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&called);
    let handled = Tool::new("ask", "Asks.")
        .schema(json!({ "properties": { "q": {} }, "required": ["q"] }))
        .handler(move |_, _| Ok(json!(counted.fetch_add(1, Ordering::SeqCst))));
    let resumed = plain.start(suspended.request().tools(vec![handled])).unwrap();
    let error = resumed.advance(Vec::new(), Some(LONG)).unwrap_err();
    assert!(error.to_string().contains("the tool `ask` now has a handler"), "{error}");
    assert_eq!(called.load(Ordering::SeqCst), 0);
    let resumed = plain.start(suspended.request().tools(vec![ask()])).unwrap();
    let calls = needs(&resumed, Vec::new());
    assert_eq!(text(&done(&resumed, vec![answer(&calls[0], 7)])), "7\n");
}

#[test]
fn waiting_call_counts_once_towards_the_policy() {
    let sandbox = stepped(Language::Python, &[], |policy| {
        let mut limited = ToolPolicy::default();
        limited.max_calls = Some(2);
        policy.tools.insert("ask".to_owned(), limited);
    });
    let source = "
print(tools.ask(q='x'))
print(tools.ask(q='y'))
try: tools.ask(q='z')
except tools.ToolLimit: print('limit')";
    let (execution, suspensions) = run_with_suspensions(&sandbox, source, 1);
    assert_eq!((&*text(&execution), suspensions), ("x\ny\nlimit\n", 2));
}

#[test]
fn cancellation_during_the_repetition_is_a_cancellation() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let session = sandbox.session().unwrap();
    let started = session.start(request("for i in range(30_000_000): pass\ntools.ask(q=1)")).unwrap();
    needs(&started, Vec::new());
    let suspended = started.suspend().unwrap();
    let session = sandbox.resume_suspended_session(&suspended, ResumeOptions::default()).unwrap();
    let cancel = CancelToken::new();
    cancel.cancel();
    let resumed = session.start(suspended.request().cancel(&cancel)).unwrap();
    assert_eq!(done(&resumed, Vec::new()).outcome, Outcome::Cancelled);
    assert!(session.execute("1 + 1").unwrap().is_success());
    let resumed = session.start(suspended.request()).unwrap();
    resumed.cancel();
    assert_eq!(done(&resumed, Vec::new()).outcome, Outcome::Cancelled);
}
