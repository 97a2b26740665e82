//! Tests started executions that end because of a cancellation, a drop or a limit.

use std::{sync::mpsc, thread, time::Duration};

use glovebox::{AdvanceError, CancelToken, Language, Outcome, Request, Step, Stream, Tool};
use glovebox_tests::short;

use super::{BOTH, LONG, answer, done, needs, of, questions, start, stepped, text};

const LOOPS: (&str, &str) = ("print('on', flush=True)\nwhile True: pass", "console.log('on'); for (;;) {}");
const ASKS: (&str, &str) = ("print(tools.ask(q=1))", "print(await tools.ask({q: 1}))");

/// Returns a listener, and a channel that closes when the listener has been dropped.
fn alarm() -> (impl FnMut(Stream, &[u8]) + Send + 'static, mpsc::Receiver<()>) {
    let (sender, receiver) = mpsc::channel();
    (move |_, _: &[u8]| sender.send(()).unwrap_or_default(), receiver)
}

/// Waits until the listener has been dropped.
fn until_gone(receiver: &mpsc::Receiver<()>) {
    loop {
        match receiver.recv_timeout(LONG) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the execution still runs"),
        }
    }
}

#[test]
fn execution_is_cancelled_between_steps() {
    for language in BOTH {
        let started = start(&stepped(language, &[], |_| {}), of(language, ASKS.0, ASKS.1));
        let requests = needs(&started, Vec::new());
        started.cancel();
        started.cancel();
        // The calls of the cancelled wait are not returned again.
        let execution = done(&started, Vec::new());
        assert_eq!((&execution.outcome, execution.stdout.text()), (&Outcome::Cancelled, String::new()));
        assert_eq!(done(&started, vec![answer(&requests[0], 1)]).outcome, Outcome::Cancelled);
    }
}

#[test]
fn calls_made_after_a_cancellation_are_returned() {
    let sandbox = stepped(Language::Python, &[], |policy| {
        policy.limits.timeout_ms = 60_000;
        policy.limits.timeout_reserve_ms = 6_000;
    });
    let source = "try: tools.ask(q=1)\nexcept KeyboardInterrupt: print(tools.ask(q=2))";
    let started = sandbox.start(Request::new(source)).unwrap();
    needs(&started, Vec::new());
    started.cancel();
    let requests = needs(&started, Vec::new());
    // The first call has no answer yet, so it is returned again.
    assert_eq!(questions(&requests), [1, 2]);
    assert_eq!(text(&done(&started, vec![answer(&requests[1], "undone")])), "undone\n");
}

#[test]
fn execution_is_cancelled_in_a_loop() {
    for language in BOTH {
        let started = start(&stepped(language, &[], |_| {}), of(language, LOOPS.0, LOOPS.1));
        while started.read_output(Stream::Stdout, 0, 1).is_empty() {
            assert!(matches!(started.advance(Vec::new(), Some(Duration::from_millis(1))).unwrap(), Step::Running));
        }
        let cancel = started.cancel_token().clone();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| done(&started, Vec::new()));
            cancel.cancel();
            assert_eq!(waiting.join().unwrap().outcome, Outcome::Cancelled);
        });
        started.cancel();
        assert_eq!(started.execution().unwrap().outcome, Outcome::Cancelled);
    }
}

#[test]
fn request_token_cancels_the_execution_only_downwards() {
    let sandbox = stepped(Language::JavaScript, &[], |_| {});
    let all = CancelToken::new();
    let [one, two] = [(); 2].map(|()| sandbox.start(Request::new(ASKS.1).cancel(&all)).unwrap());
    needs(&one, Vec::new());
    let requests = needs(&two, Vec::new());
    one.cancel();
    assert!(!all.is_cancelled());
    assert_eq!(needs(&two, Vec::new()), requests);
    all.cancel();
    for started in [one, two] {
        assert_eq!(done(&started, Vec::new()).outcome, Outcome::Cancelled);
    }
}

#[test]
fn started_execution_ends_at_its_deadline() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let started = sandbox.start(Request::new(ASKS.0).cancel_after(Duration::from_millis(50))).unwrap();
    let execution = loop {
        if let Step::Done(execution) = started.advance(Vec::new(), None).unwrap() {
            break execution;
        }
    };
    assert_eq!(execution.outcome, Outcome::Cancelled);
}

#[test]
fn time_between_steps_counts() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |policy| policy.limits.timeout_ms = 300);
        let started = start(&sandbox, of(language, ASKS.0, ASKS.1));
        let execution = loop {
            if let Step::Done(execution) = started.advance(Vec::new(), None).unwrap() {
                break execution;
            }
        };
        assert_eq!(short(&execution.outcome), "exhausted time");
    }
}

#[test]
fn execution_finishes_without_a_waiter() {
    let sandbox = stepped(Language::Python, &[], |_| {});
    let (listener, receiver) = alarm();
    let started = sandbox.start(Request::new("print(1)").on_output(listener)).unwrap();
    until_gone(&receiver);
    assert_eq!(text(&done(&started, Vec::new())), "1\n");
}

#[test]
fn dropping_a_started_execution_ends_it() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |_| {});
        for source in [of(language, LOOPS.0, LOOPS.1), of(language, ASKS.0, ASKS.1)] {
            let (listener, receiver) = alarm();
            drop(sandbox.start(Request::new(source).on_output(listener)).unwrap());
            until_gone(&receiver);
        }
        let (listener, receiver) = alarm();
        let started = sandbox.start(Request::new(of(language, ASKS.0, ASKS.1)).on_output(listener)).unwrap();
        needs(&started, Vec::new());
        drop(started);
        until_gone(&receiver);
        assert_eq!(text(&done(&start(&sandbox, "print(1)"), Vec::new())), "1\n", "the sandbox stays usable");
    }
}

#[test]
fn ending_does_not_wait_for_handlers() {
    let (begun, has_begun) = mpsc::channel();
    let slow = Tool::new("slow", "").handler(move |call, _| {
        begun.send(()).ok();
        let _ = call.cancel.wait_timeout(LONG);
        Err("given up".into())
    });
    let sandbox = stepped(Language::Python, &[slow], |_| {});
    let (listener, receiver) = alarm();
    let request = Request::new("tools.slow()").on_output(listener);
    let started = sandbox.start(request).unwrap();
    has_begun.recv_timeout(LONG).unwrap();
    assert!(matches!(started.advance(Vec::new(), Some(Duration::from_millis(20))).unwrap(), Step::Running));
    drop(started);
    until_gone(&receiver);
}

#[test]
fn panic_is_an_error() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |_| {});
        let request = Request::new("print(1)").on_output(|_, _| panic!("as the test wants it"));
        let started = sandbox.start(request).unwrap();
        for _ in 0..2 {
            let error = started.advance(Vec::new(), Some(LONG)).unwrap_err();
            assert!(matches!(error, AdvanceError::Panicked), "{error}");
        }
        assert!(started.execution().is_none());
        assert_eq!(text(&done(&start(&sandbox, "print(1)"), Vec::new())), "1\n", "the sandbox stays usable");
    }
}

#[test]
fn limits_apply_to_started_executions() {
    for language in BOTH {
        let sandbox = stepped(language, &[], |policy| policy.limits.fuel = 300_000_000);
        let execution = done(&start(&sandbox, of(language, LOOPS.0, LOOPS.1)), Vec::new());
        assert_eq!(short(&execution.outcome), "exhausted fuel");
    }
}

#[test]
fn files_persist_after_a_started_execution() {
    for language in BOTH {
        let source = of(
            language,
            "open('a', 'w').write(tools.ask(q=1))",
            "const file = std.open('a', 'w'); file.puts(await tools.ask({q: 1})); file.close()",
        );
        let started = start(&stepped(language, &[], |_| {}), source);
        let requests = needs(&started, Vec::new());
        let execution = done(&started, vec![answer(&requests[0], "text")]);
        assert_eq!(execution.files().read("a").unwrap(), b"text");
        assert_eq!(execution.files_created, ["a"]);
    }
}
