//! Tests `glovebox daemon`: its socket, its shutdown, and the subcommands that connect to it.

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    output, prepared,
    support::{PATIENCE, interrupt, text, wait},
};

fn start(socket: &Path) -> Child {
    let child = prepared(&["daemon", "--socket", socket.to_str().unwrap()]).spawn().unwrap();
    let begun = Instant::now();
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        assert!(begun.elapsed() < PATIENCE, "it does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Returns the output of `status` or `stop`, and its exit code.
fn ask(what: &str, socket: &Path) -> (String, Option<i32>) {
    let output = output(&["daemon", what, "--socket", socket.to_str().unwrap()]);
    (text(&output.stdout) + &text(&output.stderr), output.status.code())
}

#[test]
fn daemon_starts_reports_its_status_and_stops() {
    let home = tempfile::tempdir().unwrap();
    // Uses the default socket.
    let said = prepared(&["daemon", "status"]).env("HOME", home.path()).output().unwrap();
    let default = home.path().join(".rlm").join("daemon.sock");
    assert!(text(&said.stderr).contains(default.to_str().unwrap()), "{}", text(&said.stderr));
    assert_eq!(said.status.code(), Some(1));

    let mut first = start(&default);
    let begun = Instant::now();
    // The connection that waited for the daemon to start may still be open.
    let status = loop {
        let (status, code) = ask("status", &default);
        assert_eq!(code, Some(0));
        if status.contains("0 sessions, 0 connections") {
            break status;
        }
        assert!(begun.elapsed() < PATIENCE, "{status}");
    };
    assert!(status.contains("listens at"), "{status}");
    let second = output(&["daemon", "--socket", default.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(125));
    assert!(text(&second.stderr).contains("a daemon is already listening at"), "{}", text(&second.stderr));
    assert_eq!(ask("stop", &default), (String::new(), Some(0)));
    assert_eq!(wait(&mut first), 0);
    assert!(!default.exists());
    assert_eq!(ask("stop", &default).1, Some(1));

    // The socket of a killed daemon is replaced, and Ctrl-C stops a daemon like `stop`.
    let mut killed = start(&default);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(default.exists());
    let mut third = start(&default);
    interrupt(&third);
    assert_eq!(wait(&mut third), 0);
    assert!(!default.exists());
}

#[test]
fn one_client_is_served_over_standard_streams() {
    let mut child = prepared(&["daemon", "--stdio"]).stdin(Stdio::piped()).spawn().unwrap();
    let lines = concat!(
        r#"{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"context": [1, 2, 3]}}"#,
        "\n",
        r#"{"jsonrpc": "2.0", "id": 2, "method": "execute", "params": {"code": "print(sum(context))"}}"#,
        "\n",
    );
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answers: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [opened, executed] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!(opened.pointer("/result/language"), Some(&Value::from("python")));
    assert_eq!(executed.pointer("/result/stdout"), Some(&Value::from("6\n")));
    // Standard output contains nothing else.
    assert_eq!(answers.len(), 2);
}
