//! Tests limits that cases cannot express: sessions, input sizes and invalid values. Also checks that `docs/limits.md`
//! lists every limit.

use std::{fs, path::Path};

use glovebox::{Language, Limits, Policy, Request, Sandbox};
use glovebox_tests::{engine, lone_engine, sandbox, sandbox_on, short, spare_bytes};

#[test]
fn session_count_is_limited_and_released() {
    // A separate engine, because the engine counts its sessions.
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
fn session_bytes_are_limited() {
    let engine = lone_engine(None);
    let sandbox = sandbox_on(&engine, Language::JavaScript, |policy| policy.limits.session_total_bytes = 10 << 20);
    let large = sandbox.session().unwrap();
    // A checkpoint precedes each execution, so growing memory is charged twice.
    assert!(large.execute("globalThis.held = new Uint8Array(8 << 20).fill(1); 0").unwrap().is_success());
    let refused = large.execute("globalThis.more = new Uint8Array(4 << 20); 0").unwrap();
    assert!(!refused.is_success(), "the limit of all sessions is exceeded");
    let held = large.info();
    assert!((8 << 20..=10 << 20).contains(&held.held_bytes), "{held:?}");
    assert!(held.checkpoints_skipped > 0, "no checkpoint fits: {held:?}");
    assert_eq!(
        large.execute("held[5] + held.length").unwrap().value.unwrap().repr,
        "8388609",
        "the session stays usable"
    );
    let error = large.checkpoint().unwrap_err().to_string();
    assert!(error.contains("session_total_bytes"), "{error}");
    let error = large.fork().unwrap_err().to_string();
    assert!(error.contains("session_total_bytes"), "{error}");
    let beside = sandbox.session().expect("a new session needs almost no memory");
    assert!(
        !beside.execute("new Uint8Array(4 << 20).fill(1); 0").unwrap().is_success(),
        "another session has no room either"
    );
    large.close().unwrap();
    assert!(beside.execute("new Uint8Array(4 << 20).fill(1); 0").unwrap().is_success(), "usable after");
}

/// The total memory of many sessions stays within the limit, for each way in which scripts can use the machine's
/// memory.
#[test]
fn many_sessions_together_stay_within_their_limit() {
    const TOTAL: u64 = 192 << 20;
    let fills = [
        (
            Language::Python,
            "x = []\ntry:\n    while True: x.append(bytearray(b'1') * 1_000_000)\nexcept MemoryError: pass",
        ),
        (
            Language::Python,
            "try:\n    for n in range(99):\n        with open(f'f{n}', 'wb') as f: f.write(b'1' * 1_000_000)\nexcept (OSError, MemoryError): pass",
        ),
        // Writes to image pages, through objects created at boot.
        (Language::Python, "import gc\ngc.unfreeze()\nx = gc.get_objects()\ny = [x for x in x]"),
        (Language::JavaScript, "globalThis.x = []; try { for (;;) x.push(new Uint8Array(1e6).fill(1)) } catch {} 0"),
        (
            Language::JavaScript,
            "try { for (let n = 0; n < 99; n++) std.writeFile('f' + n, 'x'.repeat(1e6)) } catch {} 0",
        ),
    ];
    let engine = lone_engine(None);
    let sandboxes =
        Language::ALL.map(|language| sandbox_on(&engine, language, |policy| policy.limits.session_total_bytes = TOTAL));
    let image_bytes = 64 << 20;
    let mut sessions = Vec::new();
    let mut refused = 0;
    for (language, source) in fills.iter().cycle().take(30) {
        let sandbox = &sandboxes[usize::from(*language != Language::ALL[0])];
        let Ok(session) = sandbox.session() else {
            refused += 1;
            continue;
        };
        for _ in 0..3 {
            refused += u32::from(session.execute(source).is_err());
        }
        sessions.push(session);
        let held: u64 = sessions.iter().map(|session| session.info().held_bytes).sum();
        assert!(held <= TOTAL + image_bytes, "{held} bytes after {language}: {source}");
    }
    let held: u64 = sessions.iter().map(|session| session.info().held_bytes).sum();
    assert!(held > TOTAL / 2, "{held}");
    assert!(refused > 0 || sessions.iter().any(|session| session.info().checkpoints_skipped > 0));
    drop(sessions);
    assert!(sandboxes.iter().all(|sandbox| sandbox.session().unwrap().execute("1").unwrap().is_success()));
}

#[test]
fn reported_memory_includes_script_and_interpreter() {
    let scripts = [
        (Language::Python, "", "data = bytearray(10_000_000)", 10_000_000),
        (Language::JavaScript, "", "const data = new Uint8Array(5_000_000).fill(1)", 5_000_000),
    ];
    for (language, empty, allocates, bytes) in scripts {
        let sandbox = sandbox(language, |_| {});
        let used = |source: &str| sandbox.execute(source).unwrap().memory_used_bytes;
        let (without, with) = (used(empty), used(allocates));
        assert!(with >= bytes, "{language}: {with} bytes");
        // The heap has some free space, and grows by whole pages.
        let grown = with - without;
        assert!(
            grown.abs_diff(bytes) < 1 << 20,
            "{language}: {grown} bytes more than the {without} of an empty script"
        );
    }
}

#[test]
fn megabyte_of_input_is_read() {
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
fn source_size_limit_is_exact() {
    for (language, line) in [(Language::Python, "x = 1\n"), (Language::JavaScript, "x = 1\n")] {
        let max = 1_200;
        let sandbox = sandbox(language, |policy| policy.limits.source_bytes = max);
        let source = |bytes: u64| {
            let mut text = line.repeat(usize::try_from(bytes).unwrap() / 6);
            text.push_str(&"\n".repeat(usize::try_from(bytes).unwrap() - text.len()));
            text
        };
        assert!(sandbox.execute(&source(max - 1)).unwrap().is_success());
        assert!(sandbox.execute(&source(max)).unwrap().is_success());
        let error = sandbox.execute(&source(max + 1)).unwrap_err().to_string();
        assert!(error.contains("source_bytes") && error.contains("1200"), "{error}");
        let error = sandbox.validate(&source(max + 1)).unwrap_err().to_string();
        assert!(error.contains("source_bytes"), "{error}");
        assert!(sandbox.execute(&source(max)).unwrap().is_success(), "usable after");
    }
}

#[test]
fn memory_limit_below_the_interpreter_is_an_error() {
    let mut limits = Limits::default();
    limits.memory_bytes = 1 << 20;
    let error = Sandbox::builder(engine()).language(Language::Python).limits(limits).build().unwrap_err().to_string();
    assert!(error.contains("memory_bytes"), "{error}");
}

#[test]
fn memory_is_limited_beside_the_image() {
    const LIMIT_BYTES: u64 = 64_000_000;
    const PAGE_BYTES: u64 = 64 << 10;
    for (language, before, after) in
        [(Language::Python, "x = bytearray(", ")"), (Language::JavaScript, "var x = new Uint8Array(", ").fill(1)")]
    {
        let sandbox = sandbox(language, |policy| policy.limits.memory_bytes = LIMIT_BYTES);
        let take = |bytes: u64| sandbox.execute(&format!("{before}{bytes}{after}")).unwrap();
        // Finds the largest size that fits, to within a page.
        let (mut at, mut over) = (10_000_000, LIMIT_BYTES + spare_bytes(language));
        while over - at > PAGE_BYTES {
            let bytes = (at + over) / 2;
            let fits = take(bytes).is_success();
            (at, over) = if fits { (bytes, over) } else { (at, bytes) };
        }
        let used = take(at).memory_used_bytes;
        // The difference is the reserve for output and the allocator's overhead.
        assert!(used <= LIMIT_BYTES && used + (1 << 20) > LIMIT_BYTES, "{language}: {at} took {used}");
        assert_eq!(short(&take(over).outcome), "exhausted memory", "{language}");
        assert!(take(10_000_000).is_success(), "{language}: usable after");
    }
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
        ("journal_bytes", (1 << 20) + 1),
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

#[test]
fn every_limit_is_on_the_page() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/limits.md")).unwrap();
    let limits = serde_json::to_value(Limits::default()).unwrap();
    let names = limits.as_object().unwrap().keys();
    let lost: Vec<_> = names
        .filter(|name| !page.contains(&format!("| `{name}`")) && !page.contains(&format!(", `{name}` |")))
        .collect();
    assert!(lost.is_empty(), "docs/limits.md has no row for {lost:?}");
}
