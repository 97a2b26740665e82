//! Cancels executions from another thread, and listens to their output while they run.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use glovebox::{CancelToken, Execution, Language, OnUnwind, Outcome, Request, Stream};
use glovebox_tests::{fixed, sandbox, short};

const LOOPS: [(Language, &str); 2] = [(Language::Python, "while True: pass"), (Language::JavaScript, "for (;;) {}")];
const SLEEPS: [(Language, &str); 4] = [
    (Language::Python, "import time; time.sleep(60)"),
    (Language::Python, "import asyncio; asyncio.run(asyncio.sleep(60))"),
    (Language::JavaScript, "os.sleep(60000)"),
    (Language::JavaScript, "setTimeout(() => 0, 60000)"),
];

/// Cancels `source` after 100 ms and returns the time from the cancellation to the end of the execution.
fn cancelled_after(language: Language, source: &str) -> Duration {
    let sandbox = sandbox(language, |policy| {
        policy.limits.timeout_ms = 60_000;
        policy.limits.fuel = 1_000_000_000_000;
    });
    let token = CancelToken::new();
    let other = token.clone();
    let canceller = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        other.cancel();
        Instant::now()
    });
    let execution = sandbox.run(Request::new(source).cancel(&token)).unwrap();
    let took = canceller.join().unwrap().elapsed();
    assert_eq!(execution.outcome, Outcome::Cancelled, "{source}");
    assert!(!execution.is_success());
    assert_eq!(short(&sandbox.execute("").unwrap().outcome), "completed", "the sandbox can still be used");
    took
}

#[test]
fn a_loop_is_cancelled() {
    for (language, source) in LOOPS {
        let took = cancelled_after(language, source);
        assert!(took < Duration::from_secs(30), "{language}: {took:?}");
    }
}

#[test]
fn a_wait_is_cancelled() {
    for (language, source) in SLEEPS {
        let took = cancelled_after(language, source);
        assert!(took < Duration::from_secs(30), "{source}: {took:?}");
    }
}

/// Runs `source` under a time limit of a minute, cancels it after `after`, and returns the result.
fn cancelled_by_itself(language: Language, source: &str, after: Duration) -> Execution {
    let sandbox = sandbox(language, |policy| {
        policy.limits.timeout_ms = 60_000;
        policy.limits.fuel = 1_000_000_000_000;
    });
    sandbox.run(Request::new(source).cancel_after(after)).unwrap()
}

#[test]
fn execution_is_cancelled_at_its_deadline() {
    for (language, source) in LOOPS.into_iter().chain(SLEEPS) {
        let execution = cancelled_by_itself(language, source, Duration::from_millis(100));
        assert_eq!(execution.outcome, Outcome::Cancelled, "{source}");
        assert!(execution.duration >= Duration::from_millis(100) && execution.duration < Duration::from_secs(30));
    }
}

#[test]
fn script_sees_the_timeout_exception() {
    let source = "
try:
    print('on', flush=True)
    while True: pass
except BaseException as error:
    print('asked')
    raise";
    let sandbox = sandbox(Language::Python, |policy| {
        policy.limits.timeout_ms = 600_000;
        policy.limits.timeout_reserve_ms = 60_000;
        policy.limits.fuel = 1_000_000_000_000;
    });
    // A slow machine might not start the script within the shorter times.
    for after_ms in [200, 2_000, 20_000] {
        let execution = sandbox.run(Request::new(source).cancel_after(Duration::from_millis(after_ms))).unwrap();
        assert_eq!(execution.outcome, Outcome::Cancelled);
        if execution.stdout.text().starts_with("on") {
            assert_eq!(execution.stdout.text(), "on\nasked\n");
            assert!(execution.interrupted.is_some());
            return;
        }
    }
    panic!("the script never started");
}

#[test]
fn unreached_deadline_cancels_nothing() {
    for after in [Duration::from_secs(3600), Duration::MAX] {
        let execution = cancelled_by_itself(Language::JavaScript, "console.log(1)", after);
        assert_eq!((short(&execution.outcome), execution.stdout.text()), ("completed".into(), "1\n".into()));
    }
}

#[test]
fn zero_deadline_runs_nothing() {
    let execution = cancelled_by_itself(Language::JavaScript, "console.log(1)", Duration::ZERO);
    assert_eq!((execution.outcome, execution.stdout.text()), (Outcome::Cancelled, String::new()));
}

#[test]
fn outcome_names_the_first_time_limit() {
    let sandbox = sandbox(Language::Python, |policy| policy.limits.timeout_ms = 200);
    let request = Request::new("while True: pass").cancel_after(Duration::from_secs(3600));
    assert_eq!(short(&sandbox.run(request).unwrap().outcome), "exhausted time");
}

#[test]
fn waiting_for_a_session_counts_against_the_deadline() {
    let sandbox = sandbox(Language::Python, |policy| policy.limits.timeout_ms = 60_000);
    let session = sandbox.session().unwrap();
    let (begun, wait) = mpsc::channel();
    let token = CancelToken::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = Request::new("print(1, flush=True)\nwhile True: pass")
                .cancel(&token)
                .on_output(move |_, _| begun.send(()).unwrap());
            session.run(request).unwrap()
        });
        wait.recv_timeout(Duration::from_secs(30)).unwrap();
        let execution = session.run(Request::new("x = 1").cancel_after(Duration::from_millis(50))).unwrap();
        assert_eq!(execution.outcome, Outcome::Cancelled);
        token.cancel();
    });
    assert!(session.get_variable("x").unwrap().is_none());
}

#[test]
fn parent_token_cancels_child_executions() {
    let sandbox = sandbox(Language::Python, |policy| policy.limits.timeout_ms = 60_000);
    let all = CancelToken::new();
    let (one, two) = (all.child(), all.child());
    thread::scope(|scope| {
        let runs = [&one, &two].map(|token| {
            let sandbox = &sandbox;
            scope.spawn(move || sandbox.run(Request::new("import time; time.sleep(60)").cancel(token)).unwrap().outcome)
        });
        all.cancel();
        assert_eq!(runs.map(|run| run.join().unwrap()), [Outcome::Cancelled, Outcome::Cancelled]);
    });
}

#[test]
fn cancelled_token_runs_nothing() {
    let token = CancelToken::new();
    token.cancel();
    for (language, source) in
        [(Language::Python, "open('x', 'w'); print(1)"), (Language::JavaScript, "std.open('x', 'w'); print(1)")]
    {
        let execution = sandbox(language, |_| {}).run(Request::new(source).cancel(&token)).unwrap();
        assert_eq!(execution.outcome, Outcome::Cancelled);
        assert_eq!(execution.stdout.text(), "");
        assert!(execution.files_created.is_empty());
    }
}

#[test]
fn cancelling_one_execution_leaves_the_others_alone() {
    let sandbox = sandbox(Language::JavaScript, |policy| policy.limits.fuel = 1_000_000_000_000);
    let token = CancelToken::new();
    let (begun, wait) = mpsc::channel();
    thread::scope(|scope| {
        let (sandbox, token) = (&sandbox, &token);
        let victim = scope.spawn(move || {
            let request = Request::new("console.log(1); for (;;) {}")
                .cancel(token)
                .on_output(move |_, _| begun.send(()).unwrap());
            sandbox.run(request).unwrap().outcome
        });
        let other =
            scope.spawn(|| sandbox.execute("let n = 0; for (let i = 0; i < 3e6; i++) n += i; console.log(n)").unwrap());
        wait.recv_timeout(Duration::from_secs(10)).unwrap();
        token.cancel();
        assert_eq!(victim.join().unwrap(), Outcome::Cancelled);
        assert_eq!(other.join().unwrap().stdout.text(), "4499998500000\n");
    });
}

#[test]
fn cancelled_session_reports_it() {
    let sandbox = sandbox(Language::Python, |policy| {
        policy.limits.timeout_reserve_ms = 0;
        policy.session.on_unwind = OnUnwind::End;
    });
    let session = sandbox.session().unwrap();
    let token = CancelToken::new();
    let other = token.clone();
    let request =
        Request::new("print('on', flush=True)\nwhile True: pass").cancel(&token).on_output(move |_, _| other.cancel());
    assert_eq!(session.run(request).unwrap().outcome, Outcome::Cancelled);
    let error = session.execute("1").unwrap_err().to_string();
    assert!(error.contains("has ended") && error.contains("cancelled"), "{error}");
}

#[test]
fn listener_receives_a_line_in_one_chunk() {
    let scripts = [
        (
            Language::Python,
            "import sys\nprint('one')\nprint('t', end='')\nprint('wo')\nprint('e', file=sys.stderr)\nprint('three\\nfour')",
        ),
        (
            Language::JavaScript,
            "console.log('one'); std.out.puts('t'); std.out.puts('wo\\n'); console.error('e'); console.log('three\\nfour')",
        ),
    ];
    for (language, source) in scripts {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&heard);
        let request = Request::new(source).on_output(move |stream, bytes| {
            listener.lock().unwrap().push((stream, String::from_utf8_lossy(bytes).into_owned()));
        });
        assert!(sandbox(language, |_| {}).run(request).unwrap().is_success());
        let of =
            |wanted| heard.lock().unwrap().iter().filter(|each| each.0 == wanted).map(|each| each.1.clone()).collect();
        let (stdout, stderr): (Vec<String>, Vec<String>) = (of(Stream::Stdout), of(Stream::Stderr));
        assert_eq!(stdout[..2], ["one\n", "two\n"], "{language}");
        assert!(stdout[2].starts_with("three\nfour"), "{language}: one write must not be split: {stdout:?}");
        assert_eq!(stderr, ["e\n"], "{language}");
    }
}

#[test]
fn listener_receives_output_while_running() {
    let scripts = [
        (
            Language::Python,
            "import sys, time\nprint('one', flush=True)\nprint('two', file=sys.stderr, flush=True)\ntime.sleep(0.3)\nprint('three')",
        ),
        (Language::JavaScript, "console.log('one'); console.error('two'); os.sleep(300); console.log('three')"),
    ];
    for (language, source) in scripts {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&heard);
        let request = Request::new(source).on_output(move |stream, bytes| {
            listener.lock().unwrap().push((stream, String::from_utf8_lossy(bytes).into_owned(), Instant::now()));
        });
        let execution = sandbox(language, |_| {}).run(request).unwrap();
        let ended = Instant::now();
        let heard = heard.lock().unwrap();
        let of = |stream| heard.iter().filter(|each| each.0 == stream).map(|each| each.1.as_str()).collect::<String>();
        assert_eq!(of(Stream::Stdout), "one\nthree\n", "{language}");
        assert_eq!(of(Stream::Stderr), "two\n", "{language}");
        assert_eq!(execution.stdout.text(), "one\nthree\n");
        assert!(ended - heard[0].2 > Duration::from_millis(200), "{language}: the first piece came before the end");
    }
}

#[test]
fn listener_output_is_limited() {
    for (language, source) in
        [(Language::Python, "print('x' * 5000)"), (Language::JavaScript, "console.log('x'.repeat(5000))")]
    {
        let heard = Arc::new(Mutex::new(0));
        let listener = Arc::clone(&heard);
        let request = Request::new(source).on_output(move |_, bytes| *listener.lock().unwrap() += bytes.len());
        let execution = sandbox(language, |policy| policy.limits.stdout_bytes = 1_000).run(request).unwrap();
        assert_eq!(*heard.lock().unwrap(), 1_000);
        assert_eq!(execution.stdout.total_bytes, 5_001);
    }
}

#[test]
fn listener_receives_the_limit_line() {
    for (language, source) in [
        (Language::Python, "import sys\nsys.stderr.write('mine')\nsys.stderr.flush()\nwhile True: pass"),
        (Language::JavaScript, "std.err.puts('mine'); std.err.flush(); for (;;);"),
    ] {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let listener = Arc::clone(&heard);
        let request = Request::new(source).on_output(move |stream, bytes| {
            assert_eq!(stream, Stream::Stderr);
            listener.lock().unwrap().extend_from_slice(bytes);
        });
        let limited = sandbox(language, |policy| {
            fixed(policy);
            policy.limits.fuel = 20_000_000;
        });
        let execution = limited.run(request).unwrap();
        let line = "OutOfFuel: the script used all of its fuel, 20000000 units\n";
        assert_eq!(execution.stderr.text(), format!("mine\n{line}"), "{language}");
        assert_eq!(*heard.lock().unwrap(), execution.stderr.bytes, "{language}");
    }
}
