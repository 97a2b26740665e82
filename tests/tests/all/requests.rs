//! Tests a request's context, and standard input that is read on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::Duration,
};

use glovebox::{CancelToken, ExecuteError, Language, Outcome, Request, Resource};
use glovebox_tests::{sandbox, short};
use serde_json::{Value, json};

const LANGUAGES: [Language; 2] = [Language::Python, Language::JavaScript];

fn reads(language: Language) -> &'static str {
    match language {
        Language::Python => "import sys\nprint(repr(sys.stdin.read()), repr(sys.stdin.read()))",
        Language::JavaScript => {
            "const read = () => JSON.stringify(require('fs').readFileSync(0, 'utf8')); console.log(read(), read())"
        }
    }
}

fn prints(language: Language, what: &str) -> String {
    match language {
        Language::Python => format!("import json; print(json.dumps({what}))"),
        Language::JavaScript => format!("console.log(JSON.stringify({what}))"),
    }
}

#[test]
fn context_is_set_for_one_script_only() {
    let context = json!({ "city": "Oslo", "sizes": [1, 2.5, null], "__proto__": { "x": 1 } });
    for language in LANGUAGES {
        let sandbox = sandbox(language, |_| ());
        for _ in 0..3 {
            let source = prints(language, "context");
            let execution = sandbox.run(Request::new(&source).context(&context)).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&execution.stdout.text()).unwrap(), context, "{language}");
            // The next request has no context, even in a recycled instance.
            let without = sandbox.execute("context").unwrap();
            assert!(short(&without.outcome).starts_with("raised "), "{language}: {without:?}");
        }
        let session = sandbox.session().unwrap();
        session.run(Request::new("1").context(&json!(7))).unwrap();
        assert_eq!(session.execute("context").unwrap().value.unwrap().repr, "7", "the context stays in the session");
        session.run(Request::new("1").context(&json!(8))).unwrap();
        assert_eq!(session.execute("context").unwrap().value.unwrap().repr, "8");
        let started = session.start(Request::new("context").context(&json!(9))).unwrap();
        started.advance(Vec::new(), None).unwrap();
        assert_eq!(started.execution().unwrap().value.as_ref().unwrap().repr, "9");
    }
}

#[test]
fn context_size_is_limited_like_standard_input() {
    for language in LANGUAGES {
        let sandbox = sandbox(language, |policy| policy.limits.stdin_bytes = 100);
        for (length, fits) in [(99, true), (100, true), (101, false)] {
            let context = Value::String("x".repeat(length - 2));
            match sandbox.run(Request::new("1").context(&context)) {
                Ok(_) => assert!(fits, "{length}"),
                Err(error) => {
                    assert!(!fits && matches!(error, ExecuteError::ValueTooLarge { bytes: 101, .. }), "{error}")
                }
            }
        }
    }
}

#[test]
fn standard_input_is_read_lazily_once() {
    for language in LANGUAGES {
        let sandbox = sandbox(language, |policy| policy.limits.stdin_bytes = 5);
        let read_count = Arc::new(AtomicU32::new(0));
        let run = |source: &str, bytes: &'static [u8]| {
            let read_count = Arc::clone(&read_count);
            let read = move || {
                read_count.fetch_add(1, Ordering::SeqCst);
                bytes.to_vec()
            };
            sandbox.run(Request::new(source).stdin_from(read)).unwrap().stdout.text().trim_end().replace('\'', "\"")
        };
        assert_eq!(run("1", b"abc"), "");
        assert_eq!(read_count.load(Ordering::SeqCst), 0, "{language}: unread input must not be requested");
        for (bytes, expected) in [(&b"abcd"[..], "abcd"), (b"abcde", "abcde"), (b"abcdef", "abcde"), (b"", "")] {
            read_count.store(0, Ordering::SeqCst);
            assert_eq!(run(reads(language), bytes), format!("\"{expected}\" \"\""), "{language}");
            assert_eq!(read_count.load(Ordering::SeqCst), 1, "{language}");
        }
        // In a session, each execution has its own standard input.
        let session = sandbox.session().unwrap();
        for bytes in [b"one", b"two"] {
            let execution = session.run(Request::new(reads(language)).stdin_from(move || bytes.to_vec())).unwrap();
            assert!(execution.stdout.text().contains(std::str::from_utf8(bytes).unwrap()), "{language}");
        }
        assert!(!session.execute(reads(language)).unwrap().stdout.text().contains("two"));
    }
}

#[test]
fn wait_for_standard_input_can_be_cancelled() {
    for language in LANGUAGES {
        let sandbox = sandbox(language, |policy| policy.limits.timeout_ms = 500);
        let (never, end) = mpsc::channel::<()>();
        let execution = sandbox.run(Request::new(reads(language)).stdin_from(move || {
            let _ = end.recv();
            Vec::new()
        }));
        let outcome = execution.unwrap().outcome;
        assert!(matches!(outcome, Outcome::Exhausted { resource: Resource::Time, .. }), "{outcome:?}");
        drop(never);
        let token = CancelToken::new();
        let (never, end) = mpsc::channel::<()>();
        let cancelling = token.clone();
        let execution = sandbox.run(Request::new(reads(language)).cancel(&token).stdin_from(move || {
            cancelling.cancel();
            let _ = end.recv_timeout(Duration::from_secs(60));
            Vec::new()
        }));
        assert_eq!(short(&execution.unwrap().outcome), "cancelled", "{language}");
        drop(never);
    }
}
