//! Tests conditional changes to a session.

use serde_json::json;

use super::support::{Server, Setup};

#[test]
fn every_session_change_checks_the_generation() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "javascript"})).ok();
    server.post("/v1/sessions/s/execute", &json!({"source": "x = 1"})).ok();
    server.ask("PUT", "/v1/sessions/s/files/a", &[], b"1");
    let etag = || server.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    let changes: [(&str, &str, &[u8]); 9] = [
        ("POST", "execute", br#"{"source": "y = 2"}"#),
        ("POST", "fork", b""),
        ("POST", "undo", b""),
        ("POST", "checkpoint", b""),
        ("POST", "hibernate", b""),
        ("PUT", "variables/x", b"5"),
        ("PUT", "files/a", b"2"),
        ("DELETE", "files/a", b""),
        ("DELETE", "", b""),
    ];
    for (method, what, body) in changes {
        let path = format!("/v1/sessions/s/{what}");
        let path = path.trim_end_matches('/');
        let before = etag();
        let stale = server.ask(method, path, &[("if-match", "\"1-1\"")], body);
        assert_eq!(stale.problem(), (412, "generation".into()), "{method} {what}");
        assert_eq!(etag(), before, "a refused request must not change anything: {method} {what}");
        let done = server.ask(method, path, &[("if-match", &before)], body);
        assert!(matches!(done.status, 200 | 201 | 204), "{method} {what}: {done:?}");
        if !matches!(what, "" | "fork") {
            assert_eq!(done.header("etag"), Some(etag().as_str()), "{method} {what}");
        }
    }
    assert_eq!(server.get("/v1/sessions/s").status, 404);
    // A precondition never holds for a session that does not exist yet.
    for (method, path) in [("POST", "/v1/execute"), ("POST", "/v1/sessions"), ("PUT", "/v1/sessions/t")] {
        let answer = server.ask(method, path, &[("if-match", "\"1-1\"")], b"{}");
        assert_eq!(answer.problem(), (400, "invalid-argument".into()), "{method} {path}");
    }
}
