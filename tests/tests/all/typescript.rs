//! Tests that stripping types from hostile sources is subject to the script's limits, and that the host survives it.

use std::thread;

use glovebox::{CancelToken, Execution, Language, Limits, Outcome, Request, Resource, Sandbox, Stream};
use glovebox_tests::{engine, short};

/// The error for a source that the parser cannot process on a guest's stack.
const DEEP: &str = "SyntaxError: cannot remove the types: the script is nested too deeply";

const MIB: u64 = 1 << 20;

fn sandbox(change: impl FnOnce(&mut Limits)) -> Sandbox {
    let mut limits = Limits::default();
    change(&mut limits);
    Sandbox::builder(engine()).language(Language::JavaScript).limits(limits).build().unwrap()
}

fn run(sandbox: &Sandbox, source: &str) -> Execution {
    sandbox.run(Request::new(source).name("x.ts")).unwrap()
}

/// Nests `inside` between `open` and `close`, `count` times.
fn nested(open: &str, inside: &str, close: &str, count: usize) -> String {
    format!("{}{inside}{}", open.repeat(count), close.repeat(count))
}

#[test]
fn hostile_typescript_ends_in_outcomes() {
    let sandbox = sandbox(|limits| {
        limits.source_bytes = 16 * MIB;
        limits.fuel = 3_000_000_000;
        limits.timeout_ms = 120_000;
    });
    let table: &[(&str, String, &str)] = &[
        ("parentheses", "(".repeat(200_000), DEEP),
        ("closed parentheses", nested("(", "1", ")", 200_000), DEEP),
        ("brackets", nested("[", "1", "]", 200_000), DEEP),
        ("negations", format!("{}1", "!".repeat(200_000)), DEEP),
        ("members", format!("a{}", ".b".repeat(500_000)), DEEP),
        ("sums", format!("1{}", "+1".repeat(500_000)), DEEP),
        ("calls", format!("f{}", "()".repeat(300_000)), DEEP),
        ("conditions", format!("{};", "if(1)".repeat(200_000)), DEEP),
        ("blocks", nested("{", "", "}", 200_000), DEEP),
        ("arrows", format!("{}1", "x=>".repeat(200_000)), DEEP),
        ("ternaries", format!("{}1", "a?b:".repeat(200_000)), DEEP),
        ("templates", nested("`${", "1", "}`", 100_000), DEEP),
        ("open generics", format!("let x: {}", "A<".repeat(200_000)), DEEP),
        ("generics", format!("let x: {}", nested("A<", "B", ">", 200_000)), DEEP),
        ("tuples", format!("let x: {}", nested("[", "1", "]", 200_000)), DEEP),
        ("object types", format!("let x: {}", nested("{a:", "1", "}", 200_000)), DEEP),
        ("unions", format!("let x: 1{}", "|1".repeat(400_000)), "completed"),
        ("conditional types", format!("type T<A> = {}1", "A extends 1 ? 2 : ".repeat(50_000)), DEEP),
        ("assertions", format!("x{}", " as T".repeat(200_000)), DEEP),
        ("non-null", format!("x{}", "!".repeat(500_000)), DEEP),
        ("casts", format!("{}x", "<T>".repeat(200_000)), DEEP),
        (
            "decorators",
            format!("{} class A {{}}", "@a ".repeat(200_000)),
            "SyntaxError: unexpected token in expression: '@'",
        ),
        ("functions", nested("function f(){", "", "}", 100_000), DEEP),
        ("classes", nested("class A{static{", "", "}}", 100_000), DEEP),
        ("comments", "/*".repeat(500_000), "SyntaxError: Expression expected"),
        ("one name", format!("let {}: number", "a".repeat(1_000_000)), "completed"),
        (
            "a name that is wrong",
            format!("{} {}", "a".repeat(500_000), "b".repeat(500_000)),
            "SyntaxError: cannot remove the types: the TypeScript parser crashed",
        ),
        ("NUL", "let a\0: number".to_owned(), "SyntaxError: Unexpected character '\\0'"),
        ("lone surrogate", r#"let a: string = "\uD800"; console.log(a.length)"#.to_owned(), "completed"),
        (
            "beyond Unicode",
            r#"let a: string = "\u{110000}""#.to_owned(),
            "SyntaxError: Bad character escape sequence, expected 1-6 hex characters i",
        ),
        ("byte order marks", "\u{feff}\u{feff}let a: number = 1".to_owned(), "completed"),
        ("line separators", "let a: {\u{2028}b: 1\u{2029}} | null = null".to_owned(), "completed"),
        ("lines", "\n".repeat(1_000_000), "completed"),
        ("10 MB of junk", "\u{7f}#@\\\u{10ffff}".repeat(1_200_000), "exhausted fuel"),
        ("10 MB of declarations", "let a: A<B> = (c as D)!;\n".repeat(400_000), "exhausted memory"),
    ];
    let mut wrong = String::new();
    for (name, source, expected) in table {
        let execution = run(&sandbox, source);
        let got = match &execution.outcome {
            Outcome::Raised(raised) => {
                format!("{}: {}", raised.type_name, raised.message.chars().take(60).collect::<String>())
            }
            outcome => short(outcome),
        };
        if got != *expected {
            wrong += &format!("{name}: {got}\n");
        }
        assert!(execution.fuel_consumed <= 3_000_000_000, "{name}");
        let after = run(&sandbox, "const a: number = 1; console.log(a)");
        assert_eq!(after.stdout.text(), "1\n", "after {name}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_caller_with_a_small_stack_can_run_deep_types() {
    let sandbox = sandbox(|_| ());
    let work = move || {
        let deep = run(&sandbox, &format!("let x: {}", nested("A<", "B", ">", 100_000)));
        let plain = run(&sandbox, "const a: number = 1; console.log(a)");
        (deep.is_success(), plain.stdout.text())
    };
    let ended = thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
    assert_eq!(ended, (false, "1\n".to_owned()));
}

#[test]
fn type_removal_costs_the_scripts_fuel() {
    let source = "interface A { b: string; c?: number }\nconst a: A = { b: 'x' };\nconsole.log(a.b as string)";
    let plain = "                                      \nconst a    = { b: 'x' };\nconsole.log(a.b          )";
    let roomy = sandbox(|_| ());
    let (first, again) = (run(&roomy, source), run(&roomy, source));
    assert_eq!(first.stdout.text(), "x\n");
    assert_eq!(first.fuel_consumed, again.fuel_consumed, "fuel is reproducible");
    let without = roomy.run(Request::new(plain).name("x.js")).unwrap();
    let stripping = first.fuel_consumed - without.fuel_consumed;
    assert!(stripping > 10_000, "{stripping}");
    for (fuel, completes) in
        [(first.fuel_consumed + 1, true), (first.fuel_consumed - 1, false), (stripping - 1, false), (1, false)]
    {
        let sandbox = sandbox(|limits| {
            limits.fuel = fuel;
            limits.fuel_reserve = 0;
        });
        let execution = run(&sandbox, source);
        if completes {
            assert_eq!(execution.outcome, Outcome::Completed, "{fuel}");
        } else {
            assert_eq!(execution.outcome, Outcome::Exhausted { resource: Resource::Fuel, limit: fuel, used: fuel });
        }
    }
}

#[test]
fn type_removal_counts_against_the_memory_limit() {
    let sandbox = sandbox(|limits| limits.memory_bytes = 16 * MIB);
    let large = "let a: A<B> = (c as D)!;\n".repeat(20_000);
    let execution = run(&sandbox, &large);
    assert!(
        matches!(execution.outcome, Outcome::Exhausted { resource: Resource::Memory, limit, used } if limit == 16 * MIB && used > limit),
        "{:?}",
        execution.outcome
    );
    let found = sandbox.validate_request(Request::new(&large).name("x.ts")).unwrap();
    assert!(found[0].message.starts_with("the parser was stopped: out of memory"), "{found:?}");
    assert_eq!(run(&sandbox, "const a: number = 1; console.log(a)").stdout.text(), "1\n");
}

#[test]
fn source_limit_applies_before_type_removal() {
    let source = "let a: 1";
    for (source_bytes, runs) in [(9, true), (8, true), (7, false)] {
        let sandbox = sandbox(|limits| limits.source_bytes = source_bytes);
        assert_eq!(sandbox.run(Request::new(source).name("x.ts")).is_ok(), runs, "{source_bytes}");
    }
}

#[test]
fn cancellation_prevents_type_removal() {
    let (sandbox, cancel) = (sandbox(|_| ()), CancelToken::new());
    cancel.cancel();
    let execution = sandbox.run(Request::new("let a: 1").name("x.ts").cancel(&cancel)).unwrap();
    assert_eq!((execution.outcome, execution.stderr.text()), (Outcome::Cancelled, String::new()));
}

#[test]
fn type_errors_are_printed_within_the_output_limit() {
    for (stderr_bytes, held) in [(200, 81), (81, 81), (80, 80), (0, 0)] {
        let sandbox = sandbox(|limits| limits.stderr_bytes = stderr_bytes);
        let (sender, receiver) = std::sync::mpsc::channel();
        let request = Request::new("enum A {}").name("x.ts").on_output(move |stream, bytes| {
            assert_eq!(stream, Stream::Stderr);
            sender.send(bytes.len()).unwrap();
        });
        let execution = sandbox.run(request).unwrap();
        assert_eq!((execution.stderr.bytes.len(), execution.stderr.total_bytes), (held, 81));
        assert_eq!((execution.stderr.is_truncated(), execution.metadata.stderr_total_bytes), (held < 81, 81));
        assert_eq!(receiver.iter().sum::<usize>(), held);
    }
}

#[test]
fn session_continues_after_failed_type_removal() {
    let session = sandbox(|limits| limits.memory_bytes = 16 * MIB).session().unwrap();
    let run = |source: &str| session.run(Request::new(source).name("x.ts")).unwrap();
    assert!(run("let held: number = 1").is_success());
    let stopped = run(&"let a: A<B> = (c as D)!;\n".repeat(20_000));
    assert!(matches!(stopped.outcome, Outcome::Exhausted { resource: Resource::Memory, .. }), "{:?}", stopped.outcome);
    assert!(stopped.rolled_back_to.is_none(), "the interpreter was not entered");
    assert_eq!(short(&run("enum A {}").outcome), "raised SyntaxError");
    assert_eq!(run("console.log(held as number)").stdout.text(), "1\n");
    assert_eq!(session.info().executions, 3);
}
