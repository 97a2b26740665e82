//! Tests the socket's location and permissions. Requests over the socket need no token and accept any `Host`, and the API
//! equals the server's.

use std::{
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, net::UnixListener, process::CommandExt},
    path::Path,
    process::Command,
    time::Duration,
};

use glovebox_server::http::{SocketError, SocketListener};
use serde_json::{Value, json};

use super::support::{Answer, TestDaemon, request, until};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Binds the daemon's listener to a path.
fn bind(path: &Path) -> Result<(), SocketError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { SocketListener::bind(path).map(drop) })
}

#[test]
fn only_the_same_user_may_connect() {
    let daemon = TestDaemon::new();
    assert_eq!(mode(&daemon.socket), 0o600);
    assert_eq!(daemon.get("/v1/info").status, 200);
    if !runs_as_root() {
        return;
    }
    // The daemon rejects a different user who can reach the socket.
    fs::set_permissions(daemon.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
        try:\n  s.sendall(b'GET /v1/info HTTP/1.1\\r\\n\\r\\n')\n  print(s.recv(4096).decode() or 'closed')\n\
        except ConnectionError:\n  print('closed')";
    let output =
        Command::new("python3").args(["-c", script]).arg(&daemon.socket).uid(65_534).gid(65_534).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "closed\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(daemon.get("/v1/info").status, 200, "other connections are accepted afterwards");
    fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o600)).unwrap();
    let output =
        Command::new("python3").args(["-c", script]).arg(&daemon.socket).uid(65_534).gid(65_534).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("PermissionError"));
}

/// Returns `true` if the test can switch to another user.
fn runs_as_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|this| std::os::unix::fs::MetadataExt::uid(&this) == 0)
}

#[test]
fn socket_directory_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a").join(".rlm").join("daemon.sock");
    bind(&path).unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert!(!path.exists(), "the socket is removed with the daemon");
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    for (mode, fits) in [(0o755, true), (0o775, false), (0o757, false), (0o1777, false)] {
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        match bind(&open.join("d.sock")) {
            Ok(()) => assert!(fits, "{mode:o}"),
            Err(error) => {
                assert!(!fits && error.to_string().contains("is writable by other users"), "{mode:o}: {error}")
            }
        }
    }
    assert!(matches!(bind(&dir.path().join("x".repeat(120))), Err(SocketError::TooLong(_))));
}

#[test]
fn only_a_dead_daemons_socket_is_replaced() {
    let daemon = TestDaemon::new();
    let error = bind(&daemon.socket).unwrap_err().to_string();
    assert!(error.contains("a server is already listening at") && error.contains("glovebox daemon stop"), "{error}");
    assert_eq!(daemon.get("/v1/info").status, 200);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.sock");
    let other = UnixListener::bind(&path).unwrap();
    assert!(matches!(bind(&path), Err(SocketError::InUse(_))), "a socket of another program must not be replaced");
    drop(other);
    assert!(path.exists());
    bind(&path).unwrap();
    assert!(!path.exists());

    fs::write(&path, "precious").unwrap();
    assert!(matches!(bind(&path), Err(SocketError::NotASocket(_))));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert!(matches!(bind(&path), Err(SocketError::NotASocket(_))), "links must not be followed");

    // The daemon binds the socket under the temporary name `new` and then renames it.
    let (path, new) = (dir.path().join("e.sock"), dir.path().join("e.sock.new"));
    fs::write(&new, "precious").unwrap();
    assert!(matches!(bind(&path), Err(SocketError::NotASocket(found)) if found == new));
    assert_eq!(fs::read_to_string(&new).unwrap(), "precious");
    fs::remove_file(&new).unwrap();
    drop(UnixListener::bind(&new).unwrap());
    bind(&path).unwrap();
    assert!(!new.exists());
}

#[test]
fn socket_of_another_process_is_not_removed() {
    let mut daemon = TestDaemon::new();
    fs::remove_file(&daemon.socket).unwrap();
    let other = UnixListener::bind(&daemon.socket).unwrap();
    daemon.stop(Duration::ZERO);
    assert!(daemon.has_stopped());
    until("it is there", || daemon.socket.exists());
    drop(daemon.connect());
    drop(other);
}

#[test]
fn requests_need_no_token_and_accept_every_host() {
    let daemon = TestDaemon::new();
    let info = daemon.get("/v1/info").ok();
    assert_eq!((&info["protocol"], &info["pid"]), (&json!(2), &json!(std::process::id())));
    assert_eq!((&info["sessions"], info["uptime_ms"].is_u64()), (&json!(0), true));
    daemon.open("s");
    assert_eq!(daemon.get("/v1/info").ok()["sessions"], 1);
    for headers in [[("authorization", "Bearer of another server")], [("x-api-key", "a key")], [("cookie", "a=b")]] {
        assert_eq!(daemon.ask("GET", "/v1/sessions", &headers, b"").status, 200, "{headers:?}");
    }
    for origin in ["http://localhost", "http://any.example", "https://evil.example", "null"] {
        let refused = daemon.ask("GET", "/v1/info", &[("origin", origin)], b"");
        assert_eq!(refused.problem(), (403, "origin".into()), "{origin}");
        assert!(
            refused.text().contains("web pages are not allowed on the socket; remove the `Origin` header"),
            "{refused:?}"
        );
    }
    assert_eq!(daemon.get("/").problem(), (404, "no-route".into()), "there is no page");
}

#[test]
fn invalid_requests_get_problem_documents() {
    let daemon = TestDaemon::new();
    daemon.open("s");
    for (method, path, body, status, kind) in [
        ("POST", "/v1/execute", "[1,", 400, "invalid-argument"),
        ("POST", "/v1/execute", "{\"source\": \"1\", \"nothing\": 1}", 400, "invalid-argument"),
        ("POST", "/v1/sessions", "{\"language\": \"cobol\"}", 400, "invalid-argument"),
        ("POST", "/v1/sessions", "{\"id\": \"s\"}", 409, "exists"),
        ("POST", "/v1/sessions/t/execute", "{\"source\": \"1\"}", 404, "not-found"),
        ("DELETE", "/v1/executions/none", "", 404, "not-found"),
        ("POST", "/v1/initialize", "{}", 404, "no-route"),
        ("PATCH", "/v1/sessions", "{}", 405, "no-method"),
    ] {
        let answer = daemon.ask(method, path, &[], body.as_bytes());
        assert_eq!(answer.problem(), (status, kind.to_owned()), "{method} {path} {body}");
    }
    assert_eq!(daemon.prints("s", "print(1)"), "1\n", "usable after");
}

#[test]
fn a_connection_carries_several_requests() {
    let daemon = TestDaemon::new();
    let mut stream = daemon.connect();
    let open = request("POST", "/v1/sessions", &[], b"{\"id\": \"s\", \"language\": \"python\"}");
    let open = String::from_utf8(open).unwrap().replace("connection: close\r\n", "");
    let last = request("POST", "/v1/sessions/s/execute", &[], b"{\"source\": \"print(1)\"}");
    stream.write_all(&[open.as_bytes(), &last].concat()).unwrap();
    let both = Answer::read(stream);
    assert_eq!(both.status, 201);
    let text = String::from_utf8_lossy(&both.body).into_owned();
    let (_, second) = text.split_once("HTTP/1.1 200 ").unwrap_or_else(|| panic!("{text}"));
    let second: Value = serde_json::from_str(second.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(second["stdout"], "1\n");
}
