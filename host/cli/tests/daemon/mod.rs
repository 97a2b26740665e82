//! Tests `glovebox daemon`: its socket, its shutdown, and the subcommands that connect to it.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    output, prepared,
    support::{TEST_TIMEOUT, interrupt, text, wait},
};

fn start(socket: &Path) -> Child {
    let child = prepared(&["daemon", "--socket", socket.to_str().unwrap()]).spawn().unwrap();
    until_listening(socket);
    child
}

fn until_listening(socket: &Path) {
    let begun = Instant::now();
    while UnixStream::connect(socket).is_err() {
        assert!(begun.elapsed() < TEST_TIMEOUT, "the daemon does not listen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the output of `status` or `stop`, and its exit code.
fn ask(what: &str, socket: &Path) -> (String, Option<i32>) {
    let output = output(&["daemon", what, "--socket", socket.to_str().unwrap()]);
    (text(&output.stdout) + &text(&output.stderr), output.status.code())
}

#[test]
fn daemon_starts_reports_its_status_and_stops() {
    let home = tempfile::tempdir().unwrap();
    // Without a flag, the command uses the default socket.
    let status = prepared(&["daemon", "status"]).env("HOME", home.path()).output().unwrap();
    let default = home.path().join(".rlm").join("daemon.sock");
    assert!(text(&status.stderr).contains(default.to_str().unwrap()), "{}", text(&status.stderr));
    assert_eq!(status.status.code(), Some(1));

    let mut first = start(&default);
    let (status, code) = ask("status", &default);
    assert_eq!(code, Some(0));
    let process = format!("(process {}, up ", first.id());
    assert!(
        status.contains("listens at") && status.contains(&process) && status.ends_with("\n0 sessions\n"),
        "{status}"
    );
    let second = output(&["daemon", "--socket", default.to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(125));
    assert!(text(&second.stderr).contains("a server is already listening at"), "{}", text(&second.stderr));
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

/// Sends a request without a token over a socket, and returns the answer's status and JSON.
fn request(socket: &Path, method: &str, path: &str, body: &str) -> (String, Value) {
    let mut stream = UnixStream::connect(socket).unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn daemon_keeps_sessions_in_memory_until_they_are_idle() {
    let home = tempfile::tempdir().unwrap();
    let socket = home.path().join("d.sock");
    let args = ["daemon", "--socket", socket.to_str().unwrap(), "--idle", "10s", "--timeout-ms", "2000"];
    let mut child = prepared(&args).env("XDG_STATE_HOME", home.path().join("state")).spawn().unwrap();
    until_listening(&socket);
    let opened = request(&socket, "POST", "/v1/sessions", r#"{"id": "s", "context": [1, 2, 3]}"#);
    assert_eq!((opened.0.as_str(), &opened.1["language"]), ("HTTP/1.1 201 Created", &Value::from("python")));
    let executed = request(&socket, "POST", "/v1/sessions/s/execute", r#"{"source": "print(sum(context))"}"#);
    assert_eq!(executed.1["stdout"], "6\n");
    assert!(ask("status", &socket).0.ends_with("\n1 session\n"));
    assert_eq!(request(&socket, "GET", "/v1/info", "").1["policy"]["limits"]["timeout_ms"], 2_000);
    // No part of the session is on disk. The directory `state` is for suspended executions.
    let names = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let (all, stored) = (names(home.path()), names(&home.path().join("state/glovebox/daemon")));
    assert!(all.iter().all(|name| name == "state" || name.starts_with("d.sock")), "{all:?}");
    assert!(stored.iter().all(|name| !name.ends_with(".session")), "{stored:?}");
    let begun = Instant::now();
    while request(&socket, "GET", "/v1/info", "").1["sessions"] != 0 {
        assert!(begun.elapsed() < TEST_TIMEOUT, "the idle session ends");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(ask("stop", &socket).1, Some(0));
    assert_eq!(wait(&mut child), 0);
}

#[test]
fn suspended_execution_survives_a_killed_daemon() {
    let home = tempfile::tempdir().unwrap();
    let (socket, state) = (home.path().join("d.sock"), home.path().join("state"));
    let start = |state: &Path| {
        let args = ["daemon", "--socket", socket.to_str().unwrap()];
        let child = prepared(&args).env("XDG_STATE_HOME", state).spawn().unwrap();
        until_listening(&socket);
        child
    };
    let mut first = start(&state);
    let body =
        r#"{"source": "print(tools.ask(q=1))", "language": "python", "tools": [{"name": "ask"}], "suspend": true}"#;
    let (status, suspended) = request(&socket, "POST", "/v1/execute", body);
    assert_eq!((status.as_str(), &suspended["type"]), ("HTTP/1.1 202 Accepted", &Value::from("suspended")));
    let id = suspended["id"].as_str().unwrap().to_owned();
    assert!(state.join("glovebox/daemon").join(format!("{id}.session")).exists());
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = start(&state);
    let answers = r#"{"answers": [{"id": 0, "value": "one"}]}"#;
    let done = request(&socket, "POST", &format!("/v1/suspended/{id}"), answers);
    assert_eq!(done.1["stdout"], "one\n", "{done:?}");
    interrupt(&second);
    assert_eq!(wait(&mut second), 0);

    // Without a usable directory, the daemon refuses only such requests.
    let mut third = start(Path::new("/dev/null"));
    assert_eq!(request(&socket, "POST", "/v1/execute", body).0, "HTTP/1.1 422 Unprocessable Entity");
    assert_eq!(request(&socket, "POST", "/v1/execute", r#"{"source": "1"}"#).0, "HTTP/1.1 200 OK");
    interrupt(&third);
    assert_eq!(wait(&mut third), 0);
}

#[test]
fn server_listens_on_a_socket_without_a_token() {
    let home = tempfile::tempdir().unwrap();
    let (socket, store) = (home.path().join("s.sock"), home.path().join("store"));
    let args = ["serve", "--in-process", "--socket", socket.to_str().unwrap(), "--store", store.to_str().unwrap()];
    let mut child = prepared(&args).spawn().unwrap();
    until_listening(&socket);
    assert_eq!(request(&socket, "POST", "/v1/sessions", r#"{"id": "stored"}"#).0, "HTTP/1.1 201 Created");
    assert!(ask("status", &socket).0.ends_with("\nsessions in a store\n"));
    assert_eq!(ask("stop", &socket).1, Some(0));
    assert_eq!(wait(&mut child), 0);
    let mut child = prepared(&args).spawn().unwrap();
    until_listening(&socket);
    assert_eq!(request(&socket, "GET", "/v1/sessions/stored", "").1["id"], "stored", "sessions survive a restart");
    interrupt(&child);
    assert_eq!(wait(&mut child), 0);
}
