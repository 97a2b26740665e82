//! Tests forks of suspended executions: each fork must behave like an execution that received the fork's answers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox::{
    AdvanceError, ExecuteError, Fork, ForkError, Language, Outcome, Request, ResumeError, Sandbox, Suspended, Tool,
};
use glovebox_tests::{engine, fixed, lone_engine, sandbox_on};
use serde_json::json;

use super::{
    BOTH, LONG, answer, ask, done, needs, of, stepped,
    suspending::{request, resume, through_bytes},
    text,
};

/// Suspends a script at its first call.
fn suspended(sandbox: &Sandbox, source: &str) -> Suspended {
    let started = sandbox.start(request(source)).unwrap();
    needs(&started, Vec::new());
    through_bytes(&started)
}

#[test]
fn forks_receive_different_answers() {
    for language in BOTH {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let counter = Tool::new("count", "").handler(move |_, _| Ok(json!(counted.fetch_add(1, Ordering::SeqCst))));
        let sandbox = stepped(language, &[counter], |_| {});
        let source = of(
            language,
            "
n = tools.count()
with open('f', 'w') as file: file.write('x')
x = tools.ask(q=n)
with open('f', 'a') as file: file.write(x)
print(x, open('f').read())",
            "
const fs = require('fs');
const n = await tools.count();
fs.writeFileSync('f', 'x');
const x = await tools.ask({q: n});
fs.writeFileSync('f', fs.readFileSync('f', 'utf8') + x);
print(x, fs.readFileSync('f', 'utf8'));",
        );
        let suspended = suspended(&sandbox, source);
        let calls = suspended.tool_requests();
        let forks = suspended.fork(&sandbox, 3).unwrap();
        let outputs = forks.iter().zip(["a", "b", "c"]).map(|(Fork { started, session, .. }, value)| {
            assert!(session.is_none());
            assert_eq!(needs(started, Vec::new()), calls, "{language}");
            text(&done(started, vec![answer(&calls[0], value)]))
        });
        assert_eq!(outputs.collect::<Vec<_>>(), ["a xa\n", "b xb\n", "c xc\n"], "{language}");
        assert_eq!(count.load(Ordering::SeqCst), 1, "{language}");
        assert!(suspended.fork(&sandbox, 0).unwrap().is_empty());
    }
}

#[test]
fn forks_use_as_much_fuel_as_uninterrupted_scripts() {
    for language in BOTH {
        let sandbox = stepped(language, &[], fixed);
        let source = of(
            language,
            "import random, time\nx = tools.ask(q=1)\nprint([x] * x, random.random(), time.time())",
            "const x = await tools.ask({q: 1}); print(Array(x).fill(x), Math.random(), Date.now())",
        );
        let suspended = suspended(&sandbox, source);
        let calls = suspended.tool_requests();
        for (fork, value) in suspended.fork(&sandbox, 3).unwrap().iter().zip([1, 20, 300]) {
            let execution = done(&fork.started, vec![answer(&calls[0], value)]);
            let uninterrupted = sandbox.start(request(source)).unwrap();
            needs(&uninterrupted, Vec::new());
            let expected = done(&uninterrupted, vec![answer(&calls[0], value)]);
            assert_eq!(text(&execution), text(&expected), "{language}");
            assert_eq!(execution.fuel_consumed, expected.fuel_consumed, "{language}");
        }
    }
}

#[test]
fn forks_can_be_forked() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let suspended = suspended(&sandbox, "print(tools.ask(q=1), tools.ask(q=2))");
    let first = suspended.tool_requests();
    let mut outputs = Vec::new();
    for (fork, value) in suspended.fork(&sandbox, 2).unwrap().iter().zip(["a", "b"]) {
        let second = needs(&fork.started, vec![answer(&first[0], value)]);
        for (fork, value) in through_bytes(&fork.started).fork(&sandbox, 2).unwrap().iter().zip(["c", "d"]) {
            outputs.push(text(&done(&fork.started, vec![answer(&second[0], value)])));
        }
    }
    assert_eq!(outputs, ["a c\n", "a d\n", "b c\n", "b d\n"]);
}

#[test]
fn each_fork_in_a_session_has_its_own_session() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |_| {});
        let session = sandbox.session().unwrap();
        session.execute(of(language, "x = [0]", "var x = [0]; 0")).unwrap();
        let source = of(language, "x.append(tools.ask(q=x))\nx", "x.push(await tools.ask({q: x})); x.join()");
        let started = session.start(request(source)).unwrap();
        let calls = needs(&started, Vec::new());
        let suspended = through_bytes(&started);
        let forks = suspended.fork(&sandbox, 2).unwrap();
        let last = of(language, "x[-1]", "x[x.length - 1]");
        for (fork, value) in forks.iter().zip([1, 2]) {
            let in_fork = fork.session.as_ref().unwrap();
            assert_ne!(in_fork.id(), session.id());
            assert!(done(&fork.started, vec![answer(&calls[0], value)]).is_success(), "{language}");
            assert_eq!(in_fork.execute(last).unwrap().value.unwrap().repr, value.to_string(), "{language}");
        }
        assert_eq!(session.execute(last).unwrap().value.unwrap().repr, "0", "{language}");
    }
}

#[test]
fn failed_fork_frees_the_sessions() {
    // A separate engine, because the engine counts its sessions.
    let engine = lone_engine(None);
    let sandbox = sandbox_on(&engine, Language::JavaScript, |policy| policy.limits.session_count = 3);
    let sandbox = sandbox.with_tools(&[ask()]).unwrap();
    let session = sandbox.session().unwrap();
    let started = session.start(request("await tools.ask({q: 1})")).unwrap();
    needs(&started, Vec::new());
    let suspended = through_bytes(&started);
    let error = suspended.fork(&sandbox, 3).unwrap_err();
    assert!(
        matches!(error, ForkError::Session(ResumeError::Session(ExecuteError::TooManySessions { .. }))),
        "{error:?}"
    );
    // The sessions are free when the cancelled executions have ended.
    let deadline = Instant::now() + LONG;
    let forks = loop {
        match suspended.fork(&sandbox, 2) {
            Ok(forks) => break forks,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    for fork in &forks {
        assert_eq!(needs(&fork.started, Vec::new()).len(), 1);
    }
}

#[test]
fn script_that_behaves_differently_cannot_be_forked() {
    let with_code = |code: &str| {
        let builder = Sandbox::builder(engine()).language(Language::Python).tool(ask());
        builder.file("code", code).build().unwrap()
    };
    let sandbox = with_code("tools.ask(q=1)");
    let suspended = suspended(&sandbox, "exec(open('code').read())");
    let error = suspended.fork(&with_code("tools.ask(q=2)"), 2).unwrap_err();
    let ForkError::Resume(AdvanceError::Execute(error)) = error else { panic!("{error:?}") };
    assert!(matches!(*error, ExecuteError::Diverged { .. }), "{error}");
    let error = suspended.fork(&stepped(Language::JavaScript, &[], |_| {}), 2).unwrap_err();
    assert!(matches!(error, ForkError::Start(ExecuteError::OtherImage { .. })), "{error:?}");
    assert_eq!(suspended.fork(&sandbox, 2).unwrap().len(), 2);
}

#[test]
fn dropped_fork_does_not_end_the_others() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let suspended = suspended(&sandbox, "print(tools.ask(q=1))");
    let calls = suspended.tool_requests();
    let mut forks = suspended.fork(&sandbox, 3).unwrap();
    drop(forks.remove(0));
    forks[0].started.cancel();
    assert_eq!(done(&forks[0].started, Vec::new()).outcome, Outcome::Cancelled);
    assert_eq!(text(&done(&forks[1].started, vec![answer(&calls[0], 5)])), "5\n");
    let resumed = resume(&sandbox, &suspended);
    needs(&resumed, Vec::new());
    assert_eq!(text(&done(&resumed, vec![answer(&calls[0], 6)])), "6\n");
    assert!(sandbox.run(Request::new("1")).unwrap().is_success());
}
