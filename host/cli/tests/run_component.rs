//! Tests of `glovebox run-component` that transcripts cannot express.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    fs,
    io::{BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
#[cfg(target_os = "linux")]
use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{Resolve, WorldId};

use support::{interrupt, prepare, text, up, wait};

/// Returns the path of a fixture that the library's tests use as well.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../component-runner/tests/fixtures").join(name)
}

fn host(args: &[&str]) -> Command {
    prepare();
    let mut command = Command::new(env!("CARGO_BIN_EXE_glovebox"));
    command.arg("run-component").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(args: &[&str]) -> Output {
    host(args).output().unwrap()
}

/// Returns a fixture in the text format with a Python script.
fn scripted(name: &str, script: &str) -> Vec<u8> {
    let text = fs::read_to_string(fixture(name)).unwrap();
    wat::parse_str(text.replace("LENGTH", &script.len().to_string()).replace("SCRIPT", script)).unwrap()
}

/// Encodes a module as a component.
fn encoded(mut module: Vec<u8>, resolve: &Resolve, world: WorldId) -> Vec<u8> {
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}

fn wit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")
}

/// Creates a directory with `agent.wasm`, a command that writes `up` and executes a Python script, and `tools.wat`,
/// which implements tools for the script.
fn agent(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit()).unwrap();
    let world = resolve.select_world(&[package], Some("command")).unwrap();
    let component = encoded(scripted("agent.wat", script), &resolve, world);
    fs::write(dir.path().join("agent.wasm"), component).unwrap();
    let tools = fs::read_to_string(fixture("tools.wat")).unwrap();
    let tools = tools.replace("LISTED", "7").replace("SCHEMA_LENGTH", "\\02\\00\\00\\00").replace("SCHEMA", "{}");
    fs::write(dir.path().join("tools.wat"), tools).unwrap();
    dir
}

/// Creates a directory with `agent.wasm`, a command that executes a Python script twice at the same time, through
/// version 0.3.0 of the contract.
fn concurrent_agent(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut resolve = Resolve::default();
    for directory in [wit(), wit().join("0.3")] {
        resolve.push_dir(directory).unwrap();
    }
    let text = fs::read_to_string(fixture("concurrent.wit")).unwrap();
    let package = resolve.push_str("concurrent.wit", &text).unwrap();
    let world = resolve.select_world(&[package], Some("concurrent")).unwrap();
    let component = encoded(scripted("concurrent.wat", script), &resolve, world);
    fs::write(dir.path().join("agent.wasm"), component).unwrap();
    dir
}

fn path(dir: &tempfile::TempDir, name: &str) -> String {
    dir.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn an_application_executes_scripts_within_its_quotas() {
    let dir = agent("print(1)");
    let agent = path(&dir, "agent.wasm");
    let ran = output(&["--json", &agent]);
    assert_eq!((ran.status.code(), text(&ran.stdout)), (Some(0), "up\n".into()), "{}", text(&ran.stderr));
    let printed = text(&ran.stderr);
    let report: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(report["outcome"], serde_json::json!({ "kind": "returned" }));
    assert_eq!(report["sandbox"]["executions"], 1);
    for refused in [["--max-executions", "0"], ["--max-fuel", "0"], ["--fuel", "1"]] {
        let ran = output(&[&refused[..], &[&agent]].concat());
        assert_eq!(ran.status.code(), Some(1), "{refused:?}: {}", text(&ran.stderr));
    }
}

#[test]
fn an_asynchronous_application_executes_scripts_within_its_quotas() {
    let dir = concurrent_agent("print(1)");
    let agent = path(&dir, "agent.wasm");
    let ran = output(&["--json", &agent]);
    let stderr = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let report: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
    assert_eq!(report["outcome"], serde_json::json!({ "kind": "returned" }));
    assert_eq!(report["sandbox"]["executions"], 2);
    for refused in [["--max-executions", "1"], ["--max-fuel", "0"], ["--fuel", "1"]] {
        let ran = output(&[&refused[..], &[&agent]].concat());
        assert_eq!(ran.status.code(), Some(1), "{refused:?}: {}", text(&ran.stderr));
    }
}

#[test]
fn time_limit_stops_an_asynchronous_application() {
    let dir = concurrent_agent("any(0for _ in iter(int,1))");
    let agent = path(&dir, "agent.wasm");
    let limits = ["--timeout-ms", "3600000", "--fuel", "1000000000000000", "--app-timeout-ms", "2000"];
    let ran = output(&[&limits[..], &[&agent]].concat());
    assert_eq!(ran.status.code(), Some(124), "{}", text(&ran.stderr));
}

#[test]
fn scripts_call_the_tools_of_a_component() {
    let dir = agent("assert tools.echo(n=1)=={'n':1} and len(dir(tools))>=7");
    let (agent, tools) = (path(&dir, "agent.wasm"), path(&dir, "tools.wat"));
    assert_eq!(output(&["--tools", &tools, &agent]).status.code(), Some(0));
    assert_eq!(output(&[&agent]).status.code(), Some(1), "the script needs the tools");
    let twice = output(&["--tools", &tools, "--tools", &tools, &agent]);
    assert_eq!(twice.status.code(), Some(125));
    assert!(text(&twice.stderr).contains("`echo`"), "{}", text(&twice.stderr));
}

#[test]
fn ctrl_c_stops_a_script_of_an_application() {
    let dir = agent("[1for _ in iter(int,1)]");
    let agent = path(&dir, "agent.wasm");
    let mut child = host(&["--timeout-ms", "3600000", "--fuel", "1000000000000000", &agent]).spawn().unwrap();
    up(&mut BufReader::new(child.stdout.take().unwrap()));
    interrupt(&child);
    assert_eq!(wait(&mut child), 130);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stderr, "glovebox: cancelled\n");
}

#[test]
fn application_gets_its_arguments_input_and_environment() {
    let probe = fixture("probe.wat");
    let probe = probe.to_str().unwrap();
    let invoke = |call: &str, flags: &[&str], after: &[&str]| {
        let ran =
            host(&[&["--invoke", call][..], flags, &[probe], after].concat()).env("SECRET", "1").output().unwrap();
        text(&ran.stdout).trim_end().to_owned() + &text(&ran.stderr)
    };
    assert_eq!(
        invoke("arguments()", &[], &["--fuel", "x", "--", "-h"]),
        "5",
        "every word after the file is an argument"
    );
    assert_eq!(invoke("variables()", &[], &[]), "0");
    assert_eq!(invoke("variables()", &["--env", "SECRET", "--env", "A=1"], &[]), "2");
    assert_eq!(invoke("read-input(9)", &[], &[]), "-1");
    assert_ne!(invoke("socket()", &[], &[]), "0");
    assert_eq!(invoke("socket()", &["--network"], &[]), "0");
    let mut child = host(&["--invoke", "read-input(9)", probe]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"abc").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "3\n");
}

#[test]
fn directories_are_accessible_as_granted() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "a").unwrap();
    let (probe, host) = (fixture("probe.wat"), dir.path().display().to_string());
    let invoke = |call: &str, granted: &str| {
        let ran = output(&["--dir", granted, "--invoke", call, probe.to_str().unwrap()]);
        text(&ran.stdout).trim_end().to_owned() + &text(&ran.stderr)
    };
    assert_eq!(invoke("open(\"a\", 0, 1)", &host), u32::from(b'a').to_string());
    assert_eq!(invoke("open(\"b\", 1, 2)", &format!("{host}::/d:ro")), "-32", "not permitted");
    assert!(!dir.path().join("b").exists());
    assert_eq!(invoke("open(\"b\", 1, 2)", &format!("{host}::/d")), "0");
    assert!(dir.path().join("b").exists());
}

#[test]
fn ctrl_c_ends_a_wait() {
    let probe = fixture("probe.wat");
    let mut child =
        host(&["--invoke", "read-input(9)", probe.to_str().unwrap()]).stdin(Stdio::piped()).spawn().unwrap();
    let _open = child.stdin.take();
    // Ctrl-C before or during the wait must have the same effect.
    interrupt(&child);
    assert_eq!(wait(&mut child), 130);
}

#[test]
fn unread_output_does_not_delay_limits() {
    let probe = fixture("probe.wat");
    let mut child = host(&["--app-timeout-ms", "50", "--invoke", "spam()", probe.to_str().unwrap()]).spawn().unwrap();
    assert_eq!(wait(&mut child), 124);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("raise the limit with --app-timeout-ms N"), "{stderr}");
}

/// Returns the child processes of a process.
#[cfg(target_os = "linux")]
fn children(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |child: &u32| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{pid}"))
    };
    processes.filter(is_child).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn compiler_exits_with_its_killed_parent() {
    let dir = tempfile::tempdir().unwrap();
    let (file, cache) = (path(&dir, "app.wat"), path(&dir, "cache"));
    // Compiling this component takes several minutes, so a compiler that ends within a minute was stopped.
    fs::write(&file, component(&slow().repeat(50))).unwrap();
    for signal in ["-TERM", "-KILL"] {
        let flags = ["--compile-memory-bytes", "16GiB", "--cache-dir", &cache];
        let mut command = host(&[&flags[..], &["--invoke", "f()", &file]].concat()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        // The first process parses the text, and the second compiles the component.
        let compiler = loop {
            let is_compiler = |pid: &u32| {
                fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().contains("compile-component")
            };
            if let Some(compiler) = children(command.id()).into_iter().find(is_compiler) {
                break compiler;
            }
            assert!(Instant::now() < until && command.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(5));
        };
        assert!(Command::new("kill").args([signal, &command.id().to_string()]).status().unwrap().success());
        command.wait().unwrap();
        let is_running = || {
            let status = fs::read_to_string(format!("/proc/{compiler}/status")).unwrap_or_default();
            !status.is_empty() && !status.lines().any(|line| line.starts_with("State:\tZ"))
        };
        let until = Instant::now() + Duration::from_secs(60);
        while is_running() {
            assert!(Instant::now() < until, "{signal}: the compiler is still running");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn text_format_is_parsed_within_compile_limits() {
    let dir = tempfile::tempdir().unwrap();
    let file = path(&dir, "large.wat");
    fs::write(&file, format!("(component (core module {}))", "(func)".repeat(1 << 20))).unwrap();
    let ran = output(&["--compile-memory-bytes", "64MiB", &file]);
    let printed = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(125), "{printed}");
    assert!(printed.contains("limited to 67108864 bytes of memory, exited early"), "{printed}");
}

#[test]
fn oversized_text_format_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let file = path(&dir, "long.wat");
    for (bytes, words) in [
        ((16 << 20) - 1, "is not a component in text format"),
        (16 << 20, "is not a component in text format"),
        ((16 << 20) + 1, "is larger than 16777216 bytes"),
    ] {
        fs::write(&file, vec![b' '; bytes]).unwrap();
        let ran = output(&[&file]);
        assert!(!ran.status.success());
        let printed = text(&ran.stderr);
        assert!(printed.contains(words), "{bytes}: {printed}");
    }
}

#[test]
fn listed_exports_are_limited() {
    let function = "(core module $m (func (export \"f\") (result i32) i32.const 1)) (core instance $i (instantiate $m))
        (func $f (result u32) (canon lift (core func $i \"f\")))";
    let dir = tempfile::tempdir().unwrap();
    let file = path(&dir, "app.wat");
    for (count, name, max_bytes) in [(3_000, "e".to_owned(), 4 << 10), (900, "e".repeat(1_000), 32 << 10)] {
        let exports: String = (0..count).map(|n| format!("(export \"{name}{n}\" (func $f))")).collect();
        fs::write(&file, format!("(component {function} {exports})")).unwrap();
        for args in [&[&*file][..], &["--invoke", "none()", &*file][..]] {
            let ran = output(args);
            let printed = text(&ran.stderr);
            assert_eq!(ran.status.code(), Some(125), "{printed}");
            let more = format!("… and {} more", count - 50);
            assert!(printed.len() < max_bytes && printed.contains(&more), "{} bytes: {printed}", printed.len());
        }
    }
}

/// Returns a component that contains `function` and exports another function `f`.
fn component(function: &str) -> String {
    format!(
        "(component (core module $m {function} (func (export \"f\"))) (core instance $m (instantiate $m))
         (func (export \"f\") (canon lift (core func $m \"f\"))))"
    )
}

/// Compiles a component that contains `function`, in a separate cache and with these flags.
fn compiled(function: &str, flags: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let (file, cache) = (path(&dir, "app.wat"), path(&dir, "cache"));
    fs::write(&file, component(function)).unwrap();
    output(&[flags, &["--cache-dir", &cache, "--invoke", "f()", &file]].concat())
}

/// Returns a function that takes ten seconds and a gigabyte to compile: each loop assigns every local variable.
fn slow() -> String {
    let (loops, locals) = (500, 2_000);
    let set: String = (0..locals).map(|n| format!("(local.set {n} (i64.add (local.get {n}) (i64.const 1)))")).collect();
    let (begin, end) = ("loop ".repeat(loops), "i32.const 0 br_if 0 end ".repeat(loops));
    format!("(func (local {}) {begin}{set}{end})", "i64 ".repeat(locals))
}

#[test]
fn compilation_time_is_limited() {
    let ran = compiled(&slow(), &["--compile-timeout-ms", "200"]);
    let printed = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(125), "{printed}");
    assert!(printed.contains("compilation took longer than 200 ms"), "{printed}");
    assert!(
        printed.contains("hint: if you trust it, raise --compile-memory-bytes or --compile-timeout-ms"),
        "{printed}"
    );
    // A component that compiles within its limit runs.
    assert_eq!(compiled("", &["--compile-timeout-ms", "60000"]).status.code(), Some(0));
}

#[test]
fn compilation_memory_is_limited() {
    let ran = compiled(&slow(), &["--compile-memory-bytes", "256MiB"]);
    let printed = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(125), "{printed}");
    assert!(printed.contains("limited to 268435456 bytes of memory, exited early"), "{printed}");
    assert_eq!(
        compiled("", &["--compile-memory-bytes", "256MiB"]).status.code(),
        Some(0),
        "256 MiB suffice for a small component"
    );
    assert_eq!(compiled("", &["--compile-memory-bytes", "1KiB"]).status.code(), Some(125), "1 KiB does not suffice");
}

#[test]
fn compiler_errors_and_panics_are_reported_verbatim() {
    let printed = text(&compiled("(func (result i32))", &[]).stderr);
    assert!(printed.contains("cannot compile the component") && printed.contains("type mismatch"), "{printed}");
    let globals = "(global funcref (ref.func $g))".repeat(200_000);
    let ran = compiled(&format!("(func $g) {globals}"), &[]);
    assert_eq!(ran.status.code(), Some(125));
    assert!(text(&ran.stderr).contains("it panicked"), "{}", text(&ran.stderr));
}
