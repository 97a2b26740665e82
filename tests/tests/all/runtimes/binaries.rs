//! Tests binaries given by path: each runs as a plain command within the limits. The error for an unusable binary
//! contains its path.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use glovebox::{ExecuteError, Language, Outcome, Sandbox, SandboxBuilder, TrapKind};
use glovebox_tests::{engine, short};
use tempfile::TempDir;

use super::chain;

/// Writes a guest program to a file.
fn program(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path
}

fn custom(path: &Path) -> SandboxBuilder {
    Sandbox::builder(engine()).language(Language::JavaScript).runtime_path(path)
}

const HELLO: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (data (i32.const 8) "hello\0a")
    (data (i32.const 0) "\08\00\00\00\06\00\00\00")
    (func (export "_start")
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))
        (call $exit (i32.const 3))))"#;

#[test]
fn unknown_binary_runs_as_a_plain_command() {
    let dir = TempDir::new().unwrap();
    let path = program(&dir, "hello.wasm", HELLO);
    let sandbox = custom(&path).build().unwrap();
    assert!(!sandbox.is_prepared());
    for _ in 0..2 {
        let execution = sandbox.execute("whatever").unwrap();
        assert_eq!(execution.outcome, Outcome::Exited { code: 3 });
        assert_eq!(execution.stdout.text(), "hello\n");
        assert!(!execution.metadata.prepared);
        assert_eq!(execution.metadata.version, None);
        assert!(execution.metadata.runtime_name.contains("hello.wasm"), "{}", execution.metadata.runtime_name);
        assert!(
            execution.files_created.is_empty(),
            "the script's own file must not count as created: {:?}",
            execution.files_created
        );
        assert!(execution.fuel_consumed > 0);
    }
    assert!(matches!(sandbox.session(), Err(ExecuteError::NotPrepared { .. })));
    assert!(matches!(sandbox.validate("x"), Err(ExecuteError::NotPrepared { .. })));
}

#[test]
fn fuel_equals_executed_instructions() {
    let dir = TempDir::new().unwrap();
    // Each iteration executes five instructions.
    for (language, rounds) in [(Language::JavaScript, 100_000), (Language::Python, 200_000)] {
        let body = "(loop (br_if 0 (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))";
        let text = format!(
            "(module (memory (export \"memory\") 1)
                (func (export \"_start\") (local $n i32) (local.set $n (i32.const {rounds})) {body}))"
        );
        let path = program(&dir, "rounds.wasm", &text);
        let mut limits = glovebox::Limits::default();
        limits.fuel = 2_000_000_000;
        let sandbox = Sandbox::builder(engine()).language(language).runtime_path(&path).limits(limits).build().unwrap();
        let fuel = sandbox.execute("").unwrap().fuel_consumed;
        assert!((rounds * 5..rounds * 5 + 100).contains(&fuel), "{language}: {fuel} for {rounds} rounds");
    }
}

#[test]
fn a_plain_command_gets_the_script_as_its_argument() {
    let dir = TempDir::new().unwrap();
    // The program prints its arguments in order, as they are laid out in memory.
    let path = program(
        &dir,
        "args.wasm",
        r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (drop (call $sizes (i32.const 100) (i32.const 104)))
            (drop (call $args (i32.const 200) (i32.const 1000)))
            (i32.store (i32.const 0) (i32.const 1000))
            (i32.store (i32.const 4) (i32.load (i32.const 104)))
            (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))))"#,
    );
    let execution = custom(&path).build().unwrap().execute("the source").unwrap();
    assert_eq!(execution.outcome, Outcome::Completed);
    let text = execution.stdout.text();
    let args: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    assert!(args.len() >= 2 && args[args.len() - 1].ends_with(".js"), "{args:?}");
}

#[test]
fn guest_traps_are_distinguished() {
    let dir = TempDir::new().unwrap();
    let programs = [
        ("unreachable", "(func (export \"_start\") unreachable)", TrapKind::Unreachable),
        ("stack", "(func $f (export \"_start\") (call $f))", TrapKind::StackOverflow),
        (
            "memory",
            "(memory (export \"memory\") 1) (func (export \"_start\") (drop (i32.load (i32.const -4))))",
            TrapKind::OutOfBounds,
        ),
        ("table", "(table 1 funcref) (func (export \"_start\") (call_indirect (i32.const 5)))", TrapKind::OutOfBounds),
        ("null", "(table 1 funcref) (func (export \"_start\") (call_indirect (i32.const 0)))", TrapKind::BadCall),
        ("zero", "(func (export \"_start\") (drop (i32.div_s (i32.const 1) (i32.const 0))))", TrapKind::Arithmetic),
    ];
    for (name, body, expected) in programs {
        let memory = if body.contains("memory (export") { "" } else { "(memory (export \"memory\") 1)" };
        let path = program(&dir, name, &format!("(module {memory} {body})"));
        let execution = custom(&path).build().unwrap().execute("").unwrap();
        assert_eq!(execution.outcome, Outcome::Trapped { trap: expected }, "{name}");
    }
}

#[test]
fn hostile_binary_respects_the_limits() {
    let dir = TempDir::new().unwrap();
    let bodies = [
        ("loop", "(loop $l (br $l))", "exhausted fuel"),
        // Memory growth fails, and the endless loop then exhausts the fuel.
        ("grow", "(loop $l (drop (memory.grow (i32.const 1))) (br $l))", "exhausted fuel"),
        ("grow_at_once", "(drop (memory.grow (i32.const 65535)))", "completed"),
        ("random", "(loop $l (drop (call $random (i32.const 0) (i32.const 65536))) (br $l))", "exhausted fuel"),
        ("yield", "(loop $l (drop (call $yield)) (br $l))", "exhausted fuel"),
        // A thousand vectors that all refer to the same 64 KiB.
        (
            "vectors",
            "(loop $l (drop (call $write (i32.const 1) (i32.const 0) (i32.const 8000) (i32.const 0))) (br $l))",
            "exhausted fuel",
        ),
    ];
    for (name, body, expected) in bodies {
        let path = program(
            &dir,
            name,
            &format!(
                "(module
                (import \"wasi_snapshot_preview1\" \"random_get\" (func $random (param i32 i32) (result i32)))
                (import \"wasi_snapshot_preview1\" \"sched_yield\" (func $yield (result i32)))
                (import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))
                (memory (export \"memory\") 1) (func (export \"_start\") {body}))"
            ),
        );
        let mut limits = glovebox::Limits::default();
        limits.fuel = 20_000_000;
        limits.timeout_ms = 600_000;
        limits.memory_bytes = 16 << 20;
        let execution = custom(&path).limits(limits).build().unwrap().execute("").unwrap();
        assert_eq!(short(&execution.outcome), expected, "{name}");
        assert!(execution.memory_used_bytes <= 16 << 20, "{name}: {}", execution.memory_used_bytes);
        assert!(execution.duration < Duration::from_secs(60), "{name}: {:?}", execution.duration);
    }
}

#[test]
fn endless_start_function_is_stopped_and_named() {
    let dir = TempDir::new().unwrap();
    let starts = [("loops", "(loop (br 0))", "it exceeded the time limit"), ("traps", "unreachable", "`unreachable`")];
    for (name, body, how) in starts {
        let text =
            format!("(module (memory (export \"memory\") 1) (func $s {body}) (func (export \"_start\")) (start $s))");
        let path = program(&dir, name, &text);
        let mut limits = glovebox::Limits::default();
        limits.timeout_ms = 200;
        let error = custom(&path).limits(limits).build().unwrap().execute("").unwrap_err().to_string();
        assert!(error.contains("could not be started") && error.contains(how), "{error}");
    }
}

#[test]
fn unusable_binary_is_named() {
    let dir = TempDir::new().unwrap();
    let text = dir.path().join("text.wasm");
    fs::write(&text, "not wasm").unwrap();
    let imports = program(
        &dir,
        "imports.wasm",
        "(module (import \"env\" \"x\" (func)) (memory (export \"memory\") 1) (func (export \"_start\")))",
    );
    let component = dir.path().join("component.wasm");
    fs::write(&component, b"\0asm\x0d\0\x01\0").unwrap();
    for path in [&text, &imports, &component, &dir.path().to_path_buf()] {
        let error =
            custom(path).build().map(|sandbox| sandbox.execute("").map(drop)).map(|ran| ran.unwrap_err().to_string());
        let error = error.unwrap_or_else(|error| chain(&error));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(error.contains(name), "the error does not name `{name}`: {error}");
    }
}

#[test]
fn missing_binary_error_has_a_hint() {
    let error = chain(&custom(Path::new("/no/such/dir/python-custom.wasm")).build().unwrap_err());
    assert!(error.contains("/no/such/dir/python-custom.wasm"), "{error}");
    assert!(error.contains("run `glovebox runtimes fetch`"), "the error has no hint: {error}");
}
