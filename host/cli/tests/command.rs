//! Tests that transcripts cannot express: signals, pipes, bytes, and several concurrent processes.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod caches;
mod daemon;
mod images;
mod monty;
mod support;
mod suspended;
mod tools;
mod types;

use std::{
    collections::BTreeSet,
    fs,
    io::{BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use support::{interrupt, prepare, text, up, wait};

fn glovebox(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_glovebox"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(args: &[&str]) -> Output {
    prepared(args).output().unwrap()
}

fn prepared(args: &[&str]) -> Command {
    prepare();
    glovebox(args)
}

fn json(args: &[&str]) -> (Value, Option<i32>) {
    let output = output(args);
    let value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)));
    (value, output.status.code())
}

/// Starts a script and waits for its first line, so that it is running.
fn started(args: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = prepared(args).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    up(&mut out);
    (child, out)
}

fn rest(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    text(&bytes)
}

#[test]
fn json_has_exactly_the_names_of_the_contract() {
    let names = [
        "success",
        "outcome",
        "exit_code",
        "interrupted",
        "value",
        "stdout",
        "stderr",
        "stdout_truncated",
        "stderr_truncated",
        "displays",
        "displays_dropped",
        "fuel_consumed",
        "memory_used_bytes",
        "duration_ms",
        "files_created",
        "files_modified",
        "files_deleted",
        "tool_calls",
        "workspace_path",
        "session_id",
        "rolled_back_to",
        "guidance",
        "metadata",
    ];
    let (value, code) = json(&["run", "--json", "-e", "print(1); open('a.txt', 'w').write('x'); raise SystemExit(4)"]);
    let found: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(found, BTreeSet::from(names));
    assert_eq!(code, Some(4));
    assert_eq!(value["exit_code"], 4);
    assert_eq!(value["success"], false);
    assert_eq!(value["outcome"], serde_json::json!({ "kind": "exited", "code": 4 }));
    assert_eq!(value["stdout"], "1\n");
    assert_eq!(value["files_created"], serde_json::json!(["a.txt"]));
    assert_eq!(value["session_id"], Value::Null);
    assert_eq!(value["metadata"]["runtime"], "python");
}

#[test]
fn json_reports_a_limit_beside_the_exit_code() {
    let (value, code) = json(&["run", "--json", "--fuel", "20000000", "-e", "while True: pass"]);
    assert_eq!(code, Some(137));
    assert_eq!(value["outcome"]["kind"], "exhausted");
    assert_eq!(value["outcome"]["resource"], "fuel");
    assert_eq!(value["outcome"]["limit"], 20_000_000);
}

#[test]
fn out_of_memory_exits_with_137_and_names_the_flag() {
    let output = output(&["run", "--memory-bytes", "64MiB", "-e", "x = bytearray(1 << 30)"]);
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("raise the limit with --memory-bytes N"), "{}", text(&output.stderr));
}

#[test]
fn output_bytes_are_unchanged() {
    let output = output(&[
        "run",
        "-e",
        "import sys; sys.stdout.buffer.write(bytes(range(256)) * 100); sys.stderr.buffer.write(b'\\xff\\x00')",
    ]);
    let expected: Vec<u8> = (0..100).flat_map(|_| 0..=255).collect();
    assert!(output.stdout == expected, "stdout differs");
    assert_eq!(output.stderr, b"\xff\x00");
}

#[test]
fn output_arrives_while_the_script_still_runs() {
    let (mut child, _out) =
        started(&["run", "--timeout-ms", "100000", "-e", "import time; print('up', flush=True); time.sleep(90)"]);
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn ctrl_c_stops_waiting_and_computing_guests() {
    for code in ["import time; print('up', flush=True); time.sleep(90)", "print('up', flush=True)\nwhile True: pass"] {
        let limits = ["--timeout-ms", "100000", "--timeout-reserve-ms", "10000", "--fuel", "1000000000000"];
        let (mut child, _out) = started(&[&["run", "-e", code][..], &limits].concat());
        let begin = Instant::now();
        interrupt(&child);
        assert_eq!(wait(&mut child), 130);
        assert!(begin.elapsed() < Duration::from_secs(60), "Ctrl-C must stop the script early");
        let printed = rest(child.stderr.take().unwrap());
        assert!(printed.ends_with("Interrupted: the execution was cancelled\nglovebox: cancelled\n"), "{printed}");
    }
}

#[test]
fn ctrl_c_skips_the_remaining_scripts() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("first.py");
    let second = dir.path().join("second.py");
    fs::write(&first, "import time; print('up', flush=True); time.sleep(90)").unwrap();
    fs::write(&second, "print('second')").unwrap();
    let (mut child, out) =
        started(&["run", "--timeout-ms", "100000", first.to_str().unwrap(), second.to_str().unwrap()]);
    interrupt(&child);
    assert_eq!(wait(&mut child), 130);
    assert_eq!(rest(out), "");
}

#[test]
fn ignored_signal_stays_ignored() {
    let run = |traps: &str| {
        let command =
            format!("{traps} exec \"$0\" run --timeout-ms 100000 -e \"print('up', flush=True); print(input())\"");
        prepare();
        let mut child = Command::new("sh")
            .args(["-c", &command, env!("CARGO_BIN_EXE_glovebox")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        up(&mut out);
        (child, out)
    };
    for signal in [Signal::HUP, Signal::INT] {
        // The shell ignores the signals, like `nohup` and `&`.
        let (mut child, out) = run("trap '' HUP INT;");
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.stdin.take().unwrap().write_all(b"went on\n").unwrap();
        assert_eq!((wait(&mut child), rest(out)), (0, "went on\n".to_owned()), "{signal:?}");
    }
    for (signal, code) in [(Signal::HUP, 129), (Signal::INT, 130)] {
        let (mut child, _out) = run("");
        let _open = child.stdin.take();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(wait(&mut child), code, "{signal:?}");
    }
}

#[test]
fn closed_output_pipe_ends_an_endless_script() {
    let (mut child, out) = started(&[
        "run",
        "--timeout-ms",
        "100000",
        "--fuel",
        "1000000000000",
        "--stdout-bytes",
        "1000000000",
        "-e",
        "while True: print('up')",
    ]);
    drop(out);
    assert_eq!(wait(&mut child), 141);
    assert_eq!(rest(child.stderr.take().unwrap()), "");
}

#[test]
fn open_standard_input_blocks_only_its_readers() {
    for (language, code) in [("python", "print('up')"), ("javascript", "console.log('up')")] {
        let mut child = prepared(&["run", "-l", language, "-e", code]).stdin(Stdio::piped()).spawn().unwrap();
        let _open = child.stdin.take();
        assert_eq!(wait(&mut child), 0);
        assert_eq!(rest(child.stdout.take().unwrap()), "up\n");
    }
    let code = "import sys; print('up', flush=True); sys.stdin.read()";
    let mut child = prepared(&["run", "--timeout-ms", "500", "-e", code]).stdin(Stdio::piped()).spawn().unwrap();
    let _open = child.stdin.take();
    assert_eq!(wait(&mut child), 124);
    let mut child = prepared(&["run", "--timeout-ms", "100000", "-e", code]).stdin(Stdio::piped()).spawn().unwrap();
    let _open = child.stdin.take();
    up(&mut BufReader::new(child.stdout.take().unwrap()));
    interrupt(&child);
    assert_eq!(wait(&mut child), 130);
}

#[test]
fn every_script_of_a_run_reads_the_same_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("first.py");
    fs::write(&script, "print(input())").unwrap();
    let script = script.to_str().unwrap();
    let mut child = prepared(&["run", script, script]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"abc\n").unwrap();
    assert_eq!(wait(&mut child), 0);
    assert_eq!(rest(child.stdout.take().unwrap()), "abc\nabc\n");
}

#[test]
fn json_log_has_one_object_a_line() {
    let ran = output(&["run", "--log-format", "json", "-v", "-e", "print(1)"]);
    assert_eq!(text(&ran.stdout), "1\n");
    let lines: Vec<Value> = text(&ran.stderr).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!lines.is_empty());
    for line in &lines {
        let keys: BTreeSet<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(["timestamp", "level", "target", "fields"].iter().all(|key| keys.contains(key)), "{line}");
    }
    assert!(lines.iter().all(|line| line["target"].as_str().unwrap().starts_with("glovebox")), "{lines:?}");
    // Choosing a format enables logging.
    assert!(!output(&["run", "--log-format", "json", "-e", "1"]).stderr.is_empty());
    assert!(output(&["run", "-e", "1"]).stderr.is_empty());
}

#[test]
fn standard_input_is_data_or_the_script() {
    for (args, input, expected) in [
        (&["run", "--stdin", "-", "-e", "print(input()[::-1])"][..], "abc\n", "cba\n"),
        (&["run", "-e", "print(input()[::-1])"], "abc\n", "cba\n"),
        (&["run", "-"], "print(1 + 1)", "2\n"),
        (&["run", "--language", "javascript", "-"], "console.log(1 + 2)", "3\n"),
    ] {
        let mut child = prepared(args).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        assert_eq!(wait(&mut child), 0, "{args:?}");
        assert_eq!(rest(child.stdout.take().unwrap()), expected, "{args:?}");
    }
}

#[test]
fn seed_makes_output_and_fuel_reproducible() {
    for (language, code) in [
        ("python", "import random, time, os; print(random.random(), time.time(), os.urandom(4))"),
        ("javascript", "console.log(Math.random(), Date.now())"),
    ] {
        let run = |seed| json(&["run", "--json", "--seed", seed, "--language", language, "-e", code]).0;
        let (first, second, other) = (run("7"), run("7"), run("8"));
        assert_eq!(first["stdout"], second["stdout"]);
        assert_eq!(first["fuel_consumed"], second["fuel_consumed"]);
        assert_ne!(first["stdout"], other["stdout"]);
    }
}

#[test]
fn files_reach_the_workspace_when_the_policy_commits() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().to_str().unwrap();
    let run = |extra: &[&str], code| output(&[&["run", "--workspace", workspace][..], extra, &["-e", code]].concat());
    assert!(run(&["--commit", "never"], "open('a.txt', 'w').write('1')").status.success());
    assert!(!dir.path().join("a.txt").exists());
    assert_eq!(run(&["--commit", "on-success"], "open('a.txt', 'w').write('2'); 1 / 0").status.code(), Some(1));
    assert!(!dir.path().join("a.txt").exists());
    assert!(run(&[], "open('a.txt', 'w').write('3')").status.success());
    assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), "3");
}

#[test]
fn a_read_only_mount_is_read_and_not_written() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.txt"), "held").unwrap();
    let mount = format!("{}:/data:ro", dir.path().display());
    let output =
        output(&["run", "--mount", &mount, "-e", "print(open('/data/a.txt').read()); open('/data/b.txt', 'w')"]);
    assert_eq!(text(&output.stdout), "held\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(!dir.path().join("b.txt").exists());
}

#[test]
fn concurrent_commands_are_independent() {
    let children: Vec<_> =
        (0..8).map(|n| prepared(&["run", "-e", &format!("print({n} * 111)")]).spawn().unwrap()).collect();
    for (n, child) in children.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stdout), format!("{}\n", n * 111), "{}", text(&output.stderr));
    }
}

#[test]
fn the_readmes_first_command_runs_both_examples() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let output = output(&["run", &format!("{examples}/hello.py"), &format!("{examples}/hello.js")]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(out.contains("Hello from Python 3.15.0 on wasi\n") && out.contains("Hello from JavaScript\n"), "{out}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn script_starts_with_the_libraries_that_it_names() {
    for (source, expected) in [
        ("import sys; print('num' + 'py' in sys.modules)", "False\n"),
        ("import sys; print('num' + 'py' in sys.modules) # pandas", "True\n"),
        ("import sys; __import__('num' + 'py'); print('num' + 'py' in sys.modules)", "True\n"),
    ] {
        let output = output(&["run", "-e", source]);
        assert_eq!((&*text(&output.stdout), &*text(&output.stderr)), (expected, ""), "{source}");
    }
}

/// Each command reports an error that contains a file name or an argument with line breaks.
#[test]
fn argument_names_cannot_forge_lines() {
    let dir = tempfile::tempdir().unwrap();
    let hostile = |end: &str| format!("{}/a\nerror: forged\u{202e}{end}", dir.path().display());
    let (wheel, wat, policy) = (hostile("-1.0-py3-none-any.whl"), hostile(".wat"), hostile(".toml"));
    let (script, name) = (hostile(".py"), hostile(""));
    fs::write(&wheel, "x").unwrap();
    fs::write(&wat, "(component\nerror: forged").unwrap();
    fs::write(&policy, "\"a\\nerror: forged\\u202E\" = 1").unwrap();
    let tar = hostile(".tar");
    fs::write(&tar, "x").unwrap();
    for args in [
        &["run", &script][..],
        &["run", "--policy", &policy, "-e", "1"],
        &["run-component", &wat],
        &["run-component", "--env", &name, &wat],
        &["packages", "add", &wheel],
        &["image", "build", &name, "--from", "javascript", "--preload", "fs"],
        &["image", "build", "x", "--from", "python", "--wheel", &wheel],
        &["image", "show", &name],
        &["image", "remove", &name],
        &["image", "import", &tar],
        &["image", "export", &name, &tar],
        &["runtimes", "remove", &name],
    ] {
        let output = output(args);
        let printed = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 125)), "{args:?}: {printed}");
        assert!(!printed.lines().skip(1).any(|line| line.starts_with("error")), "{args:?}: {printed}");
        assert!(!printed.contains('\u{202e}') && printed.len() < 4_096, "{args:?}: {printed}");
    }
}

#[test]
fn packages_that_a_script_requires_are_added_if_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("tree.py");
    let block =
        "# /// script\n# dependencies = [\"anytree<1\", \"requests\", \"Anytree\", \"no-such-package\"]\n# ///\n";
    fs::write(&script, format!("{block}import anytree; print(anytree.Node('root').name)")).unwrap();
    let run = |flags: &[&str]| {
        let mut command = glovebox(&[&["run"], flags, &[script.to_str().unwrap()]].concat());
        let output = command.env("XDG_STATE_HOME", dir.path()).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, stderr) = run(&[]);
    assert!(code == Some(1) && stderr.contains("ModuleNotFoundError"), "{stderr}");
    assert!(stderr.contains("requires the package `anytree`; allow it with --allow-package anytree"), "{stderr}");
    assert_eq!(stderr.matches("--allow-package").count(), 1, "{stderr}");
    let (code, _, stderr) = run(&["--allow-package", "anytre"]);
    assert!(code == Some(125) && stderr.contains("`anytre`: it is not in the catalogue"), "{stderr}");
    let (code, printed, stderr) = run(&["--allow-package", "Anytree"]);
    assert!(code == Some(0) && printed == "root\n", "{printed}{stderr}");
    assert!(stderr.contains("added the package anytree 2.13.0"), "{stderr}");
    assert!(stderr.contains("requires `anytree <1`, but version 2.13.0 is installed"), "{stderr}");
    let (code, _, stderr) = run(&[]);
    assert!(code == Some(0) && !stderr.contains("added"), "{stderr}");
}

#[test]
fn packages_added_by_name_match_their_digest() {
    let dir = tempfile::tempdir().unwrap();
    let (pip, log) = (dir.path().join("python3"), dir.path().join("asked"));
    let serve = r#"[ "$3" = --version ] && exit 0
for wanted; do :; done
echo "$wanted" >> "$ASKED"
echo x > blinker-1.9.0-py3-none-any.whl"#;
    fs::write(&pip, format!("#!/bin/sh\n{serve}\n")).unwrap();
    fs::set_permissions(&pip, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let packages = |args: &[&str]| {
        let mut command = glovebox(&[&["packages"], args].concat());
        let output = command.env("PATH", &path).env("ASKED", &log).env("XDG_STATE_HOME", dir.path()).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, stderr) = packages(&["add", "FLASK"]);
    assert_eq!(code, Some(125), "{stderr}");
    assert!(stderr.contains("`blinker-1.9.0-py3-none-any.whl` with sha256"), "{stderr}");
    // The first requirement could not be added, so the other requirements were not downloaded.
    assert_eq!(fs::read_to_string(&log).unwrap().lines().collect::<BTreeSet<_>>(), ["blinker==1.9.0"].into());
    let (_, listed, _) = packages(&["list"]);
    assert!(!listed.contains("blinker"), "{listed}");
    let (code, _, stderr) = packages(&["add", "flasc"]);
    assert!(
        code == Some(125) && stderr.contains("`flasc` is neither the name of an available package nor a wheel"),
        "{stderr}"
    );
    let (code, available, _) = packages(&["list", "--available"]);
    assert!(code == Some(0) && available.lines().any(|line| line.starts_with("Flask ")), "{available}");
}

#[test]
fn words_after_a_file_are_script_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, source: &str| {
        let path = dir.path().join(name);
        fs::write(&path, source).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let python = write("a.py", "import sys\nprint(sys.argv)\n");
    let javascript = write("b.js", "console.log(process.argv.slice(2).join())\n");
    let stdout = |args: &[&str]| text(&output(args).stdout);
    let words = stdout(&["--fuel", "1_000_000_000", &python, "x", "--fuel", "5", "--", "-z"]);
    assert_eq!(words, "['a.py', 'x', '--fuel', '5', '--', '-z']\n");
    assert_eq!(stdout(&[&javascript, "x", "y"]), "x,y\n");
    assert_eq!(stdout(&["run", &python, &javascript]), "['a.py']\n\n");
}

#[test]
fn server_store_and_key_differ_from_shell_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("server.toml");
    fs::write(&config, "fleet = \"restate://127.0.0.1\"\n").unwrap();
    // With a fleet, `--store` is rejected, but the variables are ignored.
    let check = |more: &[&str]| {
        let args = [&["serve", "--check-config", "--config", config.to_str().unwrap()], more].concat();
        let mut command = glovebox(&args);
        command.env("GLOVEBOX_STORE", dir.path().join("a")).env("GLOVEBOX_KEY_FILE", dir.path().join("b"));
        command.output().unwrap()
    };
    let checked = [check(&[]), check(&["--suspended-store", "d"])];
    assert!(checked.iter().all(|checked| checked.status.success()), "{checked:?}");
    let given = check(&["--store", "c"]);
    assert!(text(&given.stderr).contains("`store` is not supported with `fleet`"), "{}", text(&given.stderr));
}

#[test]
fn overlong_server_configuration_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("server.toml");
    fs::write(&config, "#\n".repeat((2 << 20) + 1)).unwrap();
    let checked = output(&["serve", "--check-config", "--config", config.to_str().unwrap()]);
    assert!(!checked.status.success());
    assert!(text(&checked.stderr).contains("is longer than 4194304 bytes"), "{}", text(&checked.stderr));
}

#[test]
fn names_with_line_ends_cannot_forge_error_lines() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
import os
os.symlink("../x\nerror: forged one", "/app/a\nerror: forged two\u202e")
"#;
    let output = output(&["run", "--workspace", dir.path().to_str().unwrap(), "-e", script]);
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{printed}");
    assert!(!printed.lines().any(|line| line.starts_with("error: forged")), "{printed}");
    assert!(printed.contains(r"`a\nerror: forged two\u{202e}`") && !printed.contains('\u{202e}'), "{printed}");
}
