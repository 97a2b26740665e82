//! Limits that data cases cannot show: sessions, input sizes, impossible values.

use glovebox::{Language, Limits, Policy, Request, Sandbox};
use glovebox_tests::{engine, lone_engine, sandbox, sandbox_on, short};

#[test]
fn sessions_are_counted_and_given_back() {
    // An engine of its own: the count is the engine's.
    let engine = lone_engine(None);
    let sandbox = sandbox_on(&engine, Language::JavaScript, |policy| policy.limits.session_count = 2);
    let first = sandbox.session().unwrap();
    let second = sandbox.session().unwrap();
    let error = sandbox.session().unwrap_err().to_string();
    assert!(error.contains("session_count") && error.contains('2'), "{error}");
    drop(first);
    let third = sandbox.session().unwrap();
    assert_ne!(third.id(), second.id());
    assert!(second.execute("1").unwrap().is_success());
}

#[test]
fn sessions_bytes_are_counted() {
    let engine = lone_engine(None);
    let sandbox = sandbox_on(&engine, Language::JavaScript, |policy| policy.limits.session_total_bytes = 10 << 20);
    let large = sandbox.session().unwrap();
    large.execute("globalThis.kept = new Uint8Array(30e6).fill(1)").unwrap();
    let error = sandbox.session().unwrap_err().to_string();
    assert!(error.contains("session_total_bytes"), "{error}");
    large.close().unwrap();
    assert!(sandbox.session().is_ok());
}

#[test]
fn a_megabyte_of_input_arrives_whole() {
    let input = "0123456789abcde\n".repeat(1 << 16);
    let scripts = [
        (Language::Python, "import sys\nd = sys.stdin.read()\nprint(len(d), d[-16:], end='')"),
        (Language::JavaScript, "const d = std.in.readAsString(); std.out.puts(`${d.length} ${d.slice(-16)}`)"),
    ];
    for (language, source) in scripts {
        let execution = sandbox(language, |_| {}).run(Request::new(source).stdin(input.as_bytes())).unwrap();
        assert_eq!(execution.stdout.text(), "1048576 0123456789abcde\n", "{language}");
    }
}

#[test]
fn source_is_limited_at_its_very_size() {
    for (language, line) in [(Language::Python, "x = 1\n"), (Language::JavaScript, "x = 1\n")] {
        let most = 1_200;
        let sandbox = sandbox(language, |policy| policy.limits.source_bytes = most);
        let source = |bytes: u64| {
            let mut text = line.repeat(usize::try_from(bytes).unwrap() / 6);
            text.push_str(&"\n".repeat(usize::try_from(bytes).unwrap() - text.len()));
            text
        };
        assert!(sandbox.execute(&source(most - 1)).unwrap().is_success());
        assert!(sandbox.execute(&source(most)).unwrap().is_success());
        let error = sandbox.execute(&source(most + 1)).unwrap_err().to_string();
        assert!(error.contains("source_bytes") && error.contains("1200"), "{error}");
        let error = sandbox.validate(&source(most + 1)).unwrap_err().to_string();
        assert!(error.contains("source_bytes"), "{error}");
        assert!(sandbox.execute(&source(most)).unwrap().is_success(), "usable after");
    }
}

#[test]
fn a_memory_limit_without_room_for_the_interpreter_is_an_error_that_says_so() {
    let mut limits = Limits::default();
    limits.memory_bytes = 1 << 20;
    let error = Sandbox::builder(engine()).language(Language::Python).limits(limits).build().unwrap_err().to_string();
    assert!(error.contains("memory_bytes"), "{error}");
}

#[test]
fn impossible_limits_are_refused_by_name() {
    for (key, value) in [
        ("fuel", 0),
        ("fuel", u64::MAX),
        ("timeout_ms", 0),
        ("timeout_ms", u64::MAX),
        ("memory_bytes", 0),
        ("memory_bytes", 5 << 30),
        ("stdout_bytes", u64::MAX),
        ("workspace_inodes", 0),
        ("fuel_reserve", u64::MAX),
        ("timeout_reserve_ms", 60_001),
        ("tool_calls", 1_000_001),
        ("tool_calls_at_once", 0),
        ("tool_calls_at_once", 1_025),
        ("tool_timeout_ms", 0),
        ("tool_bytes", 0),
        ("tool_bytes", (64 << 20) + 1),
        ("tool_record_bytes", u64::MAX),
        ("persisted_bytes", 12),
        ("persisted_bytes", (64 << 20) + 1),
    ] {
        let text = format!("[limits]\n{key} = {value}");
        let error = Policy::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(key), "{key} = {value}: {error}");
    }
    for text in [
        "[limits]\nfuel = -1",
        "[limits]\nfule = 1",
        "colour = 'red'",
        "[limits]\nfuel = 'much'",
        "clock = 'noon'",
        "[[mounts]]\nhost = '.'\nguest = 'relative'",
        "[env]\n'A=B' = 'c'",
    ] {
        let error = Policy::from_toml(text).unwrap_err().to_string();
        let names = ["fuel", "fule", "colour", "clock", "noon", "mount", "env"];
        assert!(names.iter().any(|name| error.contains(name)), "{text:?}: {error}");
    }
}

#[test]
fn the_callers_policy_is_not_changed() {
    let mut policy = Policy::default();
    policy.env.insert("A".into(), "b".into());
    let before = policy.clone();
    let sandbox = Sandbox::builder(engine()).policy(policy.clone()).build().unwrap();
    sandbox.execute("import os; os.environ['A'] = 'c'").unwrap();
    assert_eq!(policy, before);
    assert_eq!(sandbox.policy(), &before);
    assert_eq!(sandbox.execute("import os; print(os.environ['A'])").unwrap().stdout.text(), "b\n");
}

#[test]
fn fuel_of_the_largest_budget_does_not_wrap() {
    for language in Language::ALL {
        let sandbox = sandbox(language, |policy| policy.limits.fuel = i64::MAX.unsigned_abs());
        let execution = sandbox.execute("").unwrap();
        assert_eq!(short(&execution.outcome), "completed");
        assert!(execution.fuel_consumed < 10_000_000);
    }
}
