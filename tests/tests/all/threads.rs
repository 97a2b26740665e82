//! Tests calls from many threads, and from threads with small stacks.

use std::{sync::mpsc, thread};

use glovebox::{CancelToken, Language, Request};
use glovebox_tests::{sandbox, short};

const DEEP: [(Language, &str, &str); 4] = [
    (Language::Python, "def f(): f()\nf()", "raised RecursionError"),
    (Language::Python, "import json\njson.loads('[' * 100000)", "raised RecursionError"),
    (Language::JavaScript, "function f() { return f() + 1 } f()", "raised RangeError"),
    (Language::JavaScript, "const d = () => [2, 1].sort(d); d()", "raised RangeError"),
];

#[test]
fn a_caller_with_a_small_stack_runs_deep_guests() {
    let run = || {
        for (language, source, expected) in DEEP {
            let execution = sandbox(language, |_| {}).execute(source).unwrap();
            assert_eq!(short(&execution.outcome), expected, "{source}");
        }
    };
    thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}

#[test]
fn a_session_may_move_between_threads() {
    for (language, define, show) in
        [(Language::Python, "x = 41", "print(x + 1)"), (Language::JavaScript, "var x = 41", "console.log(x + 1)")]
    {
        let mut session = sandbox(language, |_| {}).session().unwrap();
        session = thread::spawn(move || {
            assert!(session.execute(define).unwrap().is_success());
            session
        })
        .join()
        .unwrap();
        assert_eq!(session.execute(show).unwrap().stdout.text(), "42\n");
        session.close().unwrap();
    }
}

#[test]
fn threads_run_independent_guests() {
    let python = sandbox(Language::Python, |_| {});
    let javascript = sandbox(Language::JavaScript, |_| {});
    thread::scope(|scope| {
        for worker in 0..8 {
            let (python, javascript) = (&python, &javascript);
            scope.spawn(move || {
                for round in 0..25 {
                    let name = format!("w{worker}r{round}");
                    let execution = python
                        .execute(&format!(
                            "open('{name}', 'w').write('{name}')\nimport os\nprint('{name}', os.listdir())"
                        ))
                        .unwrap();
                    assert_eq!(execution.stdout.text(), format!("{name} ['{name}']\n"));
                    assert_eq!(execution.files_created, [name.as_str()]);
                    assert_eq!(execution.files().read(&name).unwrap(), name.as_bytes());
                    let execution = javascript
                        .execute(&format!("globalThis.n = (globalThis.n ?? 0) + 1; console.log('{name}', n)"))
                        .unwrap();
                    assert_eq!(execution.stdout.text(), format!("{name} 1\n"));
                }
            });
        }
    });
}

#[test]
fn sessions_in_threads_are_isolated() {
    let sandbox = sandbox(Language::Python, |_| {});
    thread::scope(|scope| {
        for worker in 0..6 {
            let sandbox = &sandbox;
            scope.spawn(move || {
                let session = sandbox.session().unwrap();
                session.execute(&format!("mine = {worker}\ncount = 0")).unwrap();
                for round in 1..=30 {
                    let execution = session.execute("count += 1\nprint(mine, count)").unwrap();
                    assert_eq!(execution.stdout.text(), format!("{worker} {round}\n"));
                    assert_eq!(execution.session_id.as_deref(), Some(session.id()));
                }
            });
        }
    });
}

#[test]
fn endless_guest_does_not_delay_others() {
    let slow = sandbox(Language::Python, |policy| {
        policy.limits.timeout_ms = 600_000;
        policy.limits.fuel = u64::MAX / 4;
    });
    let quick = sandbox(Language::JavaScript, |_| {});
    let cancel = CancelToken::new();
    let (begins, begun) = mpsc::channel();
    thread::scope(|scope| {
        let looping = scope.spawn(|| {
            let request = Request::new("print('on', flush=True)\nwhile True: pass").cancel(&cancel);
            slow.run(request.on_output(move |_, _| begins.send(()).unwrap_or_default())).unwrap()
        });
        begun.recv().unwrap();
        for _ in 0..50 {
            assert!(quick.execute("console.log(1)").unwrap().is_success());
        }
        assert!(!looping.is_finished(), "the other executions waited for the loop");
        cancel.cancel();
        assert_eq!(short(&looping.join().unwrap().outcome), "cancelled");
    });
}
