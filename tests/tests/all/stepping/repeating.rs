//! Tests the replay of a suspended execution: delayed and refused calls, times, session limits, and several
//! continuations of one suspended execution.

use std::{
    slice, thread,
    time::{Duration, Instant},
};

use glovebox::{
    AdvanceError, ExecuteError, HibernateOptions, Language, Outcome, Policy, Request, ResumeOptions, Sandbox, Step,
    Tool, ToolAnswer, ToolPolicy,
};
use glovebox_tests::{fixed, lone_engine, short};
use serde_json::json;

use super::{
    BOTH, LONG, answer, ask, done, needs, of, questions, stepped,
    suspending::{
        reply, request, resume, resume_in_session, run_with_suspensions, run_without_suspensions, through_bytes,
    },
    text,
};

/// A script that makes five concurrent calls, of which the policy refuses two, and then two sequential calls.
const FIVE: (&str, &str) = (
    "
import asyncio
async def ask(q):
    try: return await tools.ask.aio(q=q)
    except tools.ToolLimit: return 'limit'
async def main(): print(*await asyncio.gather(*[ask(q) for q in 'vwxyz']))
asyncio.run(main())
print(tools.more(q='x'), tools.more(q='y'))",
    "
const ask = q => tools.ask({q}).catch(error => error.name === 'ToolLimit' ? 'limit' : error.name);
print(...await Promise.all([...'vwxyz'].map(ask)));
print(await tools.more({q: 'x'}), await tools.more({q: 'y'}));",
);

/// Calls beyond `tool_calls_at_once` wait in a queue. Calls beyond the policy's maximum fail when they leave the queue,
/// which can happen when another call's reply is read.
#[test]
fn queued_and_refused_calls_are_repeated() {
    let more = Tool::new("more", "").schema(json!({ "properties": { "q": {} }, "required": ["q"] })).stepped();
    for language in BOTH {
        for (at_once, answers_at_once) in [(1, 1), (2, 1), (2, 2), (3, 2), (5, 1), (5, 2), (5, 3)] {
            let sandbox = stepped(language, slice::from_ref(&more), |policy| {
                policy.limits.tool_calls_at_once = at_once;
                let mut limited = ToolPolicy::default();
                limited.max_calls = Some(3);
                policy.tools.insert("ask".to_owned(), limited);
            });
            let source = of(language, FIVE.0, FIVE.1);
            let (execution, suspensions) = run_with_suspensions(&sandbox, source, answers_at_once);
            assert_eq!(text(&execution), "v w x limit limit\nx y\n", "{language}, {at_once}, {answers_at_once}");
            assert!(suspensions >= 3, "{suspensions}");
            let other = run_without_suspensions(&sandbox, source, answers_at_once);
            assert_eq!(text(&execution), text(&other), "{language}");
            let outcomes = |calls: &[glovebox::ToolRecord]| -> Vec<_> {
                calls.iter().map(|call| (call.name.clone(), call.outcome.clone())).collect()
            };
            assert_eq!(outcomes(&execution.tool_calls), outcomes(&other.tool_calls), "{language}");
        }
    }
}

#[test]
fn some_of_many_calls_can_be_answered_before_a_suspension() {
    const SOURCE: (&str, &str) = (
        "
import asyncio
async def main(): print(*await asyncio.gather(*[tools.ask.aio(q=q) for q in 'uvwxyz']))
asyncio.run(main())",
        "print(...await Promise.all([...'uvwxyz'].map(q => tools.ask({q}))))",
    );
    for language in BOTH {
        let sandbox = stepped(language, &[], |policy| policy.limits.tool_calls_at_once = 3);
        let started = sandbox.start(request(of(language, SOURCE.0, SOURCE.1))).unwrap();
        let first = needs(&started, Vec::new());
        assert_eq!(questions(&first), ["u", "v", "w"]);
        // The second call is answered, so another call leaves the queue.
        let left = needs(&started, vec![reply(&first[1])]);
        assert_eq!(questions(&left), ["u", "w", "x"]);
        let resumed = resume(&sandbox, &through_bytes(&started));
        assert_eq!(needs(&resumed, Vec::new()), left);
        let last = needs(&resumed, left.iter().map(reply).collect());
        assert_eq!(questions(&last), ["y", "z"]);
        let execution = done(&resumed, last.iter().map(reply).collect());
        assert_eq!(text(&execution), "u v w x y z\n", "{language}");
    }
}

/// The total size of the arguments of concurrent calls is limited. Calls beyond that limit wait, although
/// `tool_calls_at_once` allows them.
#[test]
fn calls_delayed_for_memory_are_delayed_again() {
    let sandbox = stepped(Language::Python, &[], |policy| {
        policy.limits.memory_bytes = 512 << 20;
        policy.limits.tool_bytes = 8 << 20;
    });
    let source = "
import asyncio
async def main(): print(*await asyncio.gather(*[tools.ask.aio(q=q * 6_000_000) for q in 'vwx']))
asyncio.run(main())";
    let mut started = sandbox.start(request(source)).unwrap();
    let mut answers = Vec::new();
    for letter in ["v", "w", "x"] {
        let calls = needs(&started, answers);
        assert_eq!(calls.len(), 1, "the other calls wait for memory");
        assert!(calls[0].arguments.contains(letter));
        let suspended = through_bytes(&started);
        assert_eq!(suspended.tool_requests(), calls);
        started = resume(&sandbox, &suspended);
        assert!(needs(&started, Vec::new()) == calls, "the same call");
        answers = vec![answer(&calls[0], letter)];
    }
    assert_eq!(text(&done(&started, answers)), "v w x\n");
}

#[test]
fn repeated_calls_keep_their_times() {
    const PAUSE: Duration = Duration::from_millis(50);
    let sandbox = stepped(Language::Python, &[], |_| {});
    let source = "import time\ntime.sleep(0.05)\ntools.ask(q=1)\ntools.ask(q=2)\ntools.ask(q=3)";
    let started = sandbox.start(request(source)).unwrap();
    let calls = needs(&started, Vec::new());
    thread::sleep(PAUSE);
    let calls = needs(&started, vec![reply(&calls[0])]);
    let suspended = through_bytes(&started);
    let first = done(&started, Vec::new());
    assert_eq!(first.outcome, Outcome::Cancelled);
    thread::sleep(6 * PAUSE);
    let resumed = resume(&sandbox, &suspended);
    needs(&resumed, Vec::new());
    let calls = needs(&resumed, vec![reply(&calls[0])]);
    let execution = done(&resumed, vec![reply(&calls[0])]);
    text(&execution);
    let [one, two, three] = &execution.tool_calls[..] else { panic!("{:?}", execution.tool_calls) };
    assert_eq!(one, &first.tool_calls[0]);
    assert!(one.started >= PAUSE && one.duration >= PAUSE, "{one:?}");
    assert_eq!(two.started, first.tool_calls[1].started);
    // Like the duration of the execution, the times do not include the replay.
    assert!(two.started + two.duration <= three.started, "{two:?} {three:?}");
    assert!(three.started + three.duration <= execution.duration, "{three:?} {:?}", execution.duration);
}

#[test]
fn time_counts_in_memory_and_not_while_suspended() {
    const PAUSE: Duration = Duration::from_millis(150);
    let sandbox = stepped(Language::Python, &[], |_| {});
    let source = "import time\nbefore = time.monotonic()\ntools.ask(q=1)\nprint(time.monotonic() - before)";
    let begun = Instant::now();
    let started = sandbox.start(request(source)).unwrap();
    let calls = needs(&started, Vec::new());
    thread::sleep(PAUSE);
    let suspended = through_bytes(&started);
    drop(started);
    thread::sleep(2 * PAUSE);
    let resumed = resume(&sandbox, &suspended);
    needs(&resumed, Vec::new());
    let execution = done(&resumed, vec![reply(&calls[0])]);
    let not_suspended = begun.elapsed() - 2 * PAUSE;
    assert!((PAUSE..=not_suspended).contains(&execution.duration), "{:?} {not_suspended:?}", execution.duration);
    let waited: f64 = text(&execution).trim().parse().unwrap();
    assert!(waited >= PAUSE.as_secs_f64(), "the monotonic clock goes on: {waited}");
}

#[test]
fn time_limit_includes_the_time_before_each_suspension() {
    const PAUSE: Duration = Duration::from_millis(500);
    let sandbox = stepped(Language::Python, &[], |policy| policy.limits.timeout_ms = 3000);
    let mut started = sandbox.start(request("tools.ask(q=1)")).unwrap();
    let mut waits = 0;
    let execution = loop {
        if let Step::Done(execution) = started.advance(Vec::new(), Some(LONG)).unwrap() {
            break execution;
        }
        waits += 1;
        assert!(waits < 20, "the time starts again at each resumption");
        thread::sleep(PAUSE);
        // At the limit, the execution ends instead.
        if let Ok(suspended) = started.suspend() {
            started = resume(&sandbox, &suspended);
        }
    };
    assert_eq!(short(&execution.outcome), "exhausted time");
}

#[test]
fn fuel_limit_includes_the_fuel_before_a_suspension() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |policy| {
            fixed(policy);
            policy.limits.fuel = 300_000_000;
        });
        let source = of(
            language,
            "for _ in range(100_000): pass\ntools.ask(q=1)\nwhile True: pass",
            "for (let i = 0; i < 100_000; i++); await tools.ask({q: 1}); for (;;);",
        );
        let started = sandbox.start(request(source)).unwrap();
        let calls = needs(&started, Vec::new());
        let expected = done(&started, vec![reply(&calls[0])]);
        assert_eq!(short(&expected.outcome), "exhausted fuel", "{language}");
        let started = sandbox.start(request(source)).unwrap();
        needs(&started, Vec::new());
        let resumed = resume(&sandbox, &through_bytes(&started));
        needs(&resumed, Vec::new());
        let execution = done(&resumed, vec![reply(&calls[0])]);
        assert_eq!(execution.outcome, expected.outcome, "{language}");
        assert_eq!(execution.fuel_consumed, expected.fuel_consumed, "{language}");
    }
}

#[test]
fn execution_that_ends_while_it_repeats_its_steps_commits_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = |fuel: u64| {
        stepped(Language::Python, &[], |policy| {
            policy.workspace = Some(dir.path().to_owned());
            policy.limits.fuel = fuel;
        })
    };
    let source = "open('f', 'x').close()\nfor _ in range(300_000): pass\nprint(tools.ask(q=1))";
    let started = sandbox(10_000_000_000).start(request(source)).unwrap();
    let calls = needs(&started, Vec::new());
    let suspended = through_bytes(&started);
    let stopped = resume(&sandbox(100_000_000), &suspended);
    assert_eq!(short(&done(&stopped, Vec::new()).outcome), "exhausted fuel");
    assert!(stopped.has_only_repeated() && !dir.path().join("f").exists());
    let resumed = resume(&sandbox(10_000_000_000), &suspended);
    assert_eq!(needs(&resumed, Vec::new()), calls);
    assert_eq!(text(&done(&resumed, vec![answer(&calls[0], 2)])), "2\n");
    assert!(!resumed.has_only_repeated() && dir.path().join("f").exists());
}

/// The bytes of a suspended execution set no limit: the sandbox that resumes it does.
#[test]
fn resumed_execution_has_the_journal_limit_of_its_own_sandbox() {
    let sandbox = |bytes| stepped(Language::Python, &[], |policy| policy.limits.journal_bytes = bytes);
    let started = sandbox(1 << 20).start(request("print(len(tools.ask(q=1)))\ntools.ask(q=2)")).unwrap();
    let calls = needs(&started, Vec::new());
    let calls = needs(&started, vec![answer(&calls[0], "x".repeat(1_000))]);
    let suspended = through_bytes(&started);
    // Returns `true` if the resumed execution can be suspended again with this limit.
    let fits = |bytes| {
        let resumed = resume(&sandbox(bytes), &suspended);
        assert_eq!(needs(&resumed, Vec::new()), calls);
        let Err(error) = resumed.suspend() else { return true };
        assert!(error.to_string().contains("`limits.journal_bytes`"), "{error}");
        assert_eq!(text(&done(&resumed, vec![reply(&calls[0])])), "1000\n", "the script continues");
        false
    };
    let (mut under, mut at) = (1_000, 5_000);
    while at - under > 1 {
        let bytes = (under + at) / 2;
        (under, at) = if fits(bytes) { (under, bytes) } else { (bytes, at) };
    }
    assert!(!fits(under) && fits(at) && fits(at + 1), "{at}");
}

#[test]
fn state_before_an_execution_counts_as_session_bytes() {
    const HELD: u64 = 4 << 20;
    let engine = lone_engine(None);
    let open = |session_total_bytes: u64| {
        let mut policy = Policy::default();
        policy.limits.session_total_bytes = session_total_bytes;
        let builder = Sandbox::builder(&engine).language(Language::JavaScript).policy(policy).tool(ask());
        let session = builder.build().unwrap().session().unwrap();
        let source = format!("globalThis.held = new Uint8Array({HELD}).fill(1); 0");
        assert!(session.execute(&source).unwrap().is_success());
        session
    };
    let used = || engine.session_usage().bytes;
    let waiting = |request: Request<'_>, session: &glovebox::Session| {
        let started = session.start(request).unwrap();
        let calls = needs(&started, Vec::new());
        (started, calls)
    };
    let source = "await tools.ask({q: 1})";
    let session = open(64 << 20);
    let (started, calls) = waiting(Request::new(source), &session);
    let plain = used();
    done(&started, vec![reply(&calls[0])]);
    let (started, calls) = waiting(request(source), &session);
    let more = used() - plain;
    assert!((HELD..HELD + (2 << 20)).contains(&more), "the state before the execution: {more}");
    done(&started, vec![reply(&calls[0])]);
    // `started` still exists, but the execution has ended.
    assert!(used() < plain + HELD / 2, "{} {plain}", used());
    let (started, _) = waiting(request(source), &session);
    started.suspend().unwrap();
    assert!(used() < plain + HELD / 2, "{} {plain}", used());
    drop((started, session));

    let session = open(7 << 20);
    let error = session.start(request(source)).unwrap().advance(Vec::new(), Some(LONG)).unwrap_err();
    let AdvanceError::Execute(error) = error else { panic!("{error}") };
    assert!(
        matches!(*error, ExecuteError::TooManySessions { key: "limits.session_total_bytes", .. }),
        "the state does not fit: {error}"
    );
    assert_eq!(session.execute("held.length").unwrap().value.unwrap().repr, HELD.to_string(), "usable after");
}

/// The generators are reseeded in the first execution after the session was restored.
#[test]
fn first_execution_of_a_session_with_many_generators_can_be_suspended() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let session = sandbox.session().unwrap();
    let created = session.execute("import random\nx = [random.Random() for _ in range(1_000)]").unwrap();
    assert!(created.is_success(), "{:?}", created.outcome);
    let bytes = session.hibernate(&HibernateOptions::default()).unwrap();
    let session = sandbox.resume(&bytes, ResumeOptions::default()).unwrap();
    let started = session.start(request("tools.ask(q=1)\nprint(len({one.random() for one in x}))")).unwrap();
    let calls = needs(&started, Vec::new());
    let (_session, resumed) = resume_in_session(&sandbox, &started.suspend().unwrap());
    assert_eq!(needs(&resumed, Vec::new()), calls);
    assert_eq!(text(&done(&resumed, vec![reply(&calls[0])])), "1000\n");
}

#[test]
fn suspended_execution_in_a_session_can_be_continued_in_several_ways() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |_| {});
        let session = sandbox.session().unwrap();
        session.execute(of(language, "x = ['old']", "let x = ['old']; 0")).unwrap();
        let source = of(language, "x.append(tools.ask(q=1))\nprint(x)", "x.push(await tools.ask({q: 1})); print(x)");
        let started = session.start(request(source)).unwrap();
        let calls = needs(&started, Vec::new());
        let suspended = through_bytes(&started);
        // Both continuations run at the same time.
        let continued = ["yes", "no"].map(|value| (value, resume_in_session(&sandbox, &suspended)));
        for (value, (session, started)) in continued {
            assert_eq!(needs(&started, Vec::new()), calls, "{language}");
            let execution = done(&started, vec![answer(&calls[0], value)]);
            assert!(text(&execution).contains(value), "{language}: {execution:?}");
            let last = session.execute(of(language, "x[1], len(x)", "[x[1], x.length].join()")).unwrap();
            let expected =
                if language == Language::Python { format!("('{value}', 2)") } else { format!("'{value},2'") };
            assert_eq!(last.value.unwrap().repr, expected, "{language}");
        }
        // A continuation can be suspended again, and that suspension can be continued several times.
        let (_session, started) = resume_in_session(&sandbox, &suspended);
        needs(&started, Vec::new());
        let again = through_bytes(&started);
        for value in [json!(1), json!(2)] {
            let session = sandbox.resume_suspended_session(&again, ResumeOptions::default()).unwrap();
            let started = session.start(again.request()).unwrap();
            assert_eq!(needs(&started, Vec::new()), calls, "{language}");
            let execution = done(&started, vec![ToolAnswer::value(calls[0].id, &value)]);
            assert!(text(&execution).contains(&value.to_string()), "{language}");
        }
    }
}
