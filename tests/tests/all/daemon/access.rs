//! Tests that requests over the socket need no token and accept any `Host`, and that the API equals the server's.

use std::io::Write;

use serde_json::{Value, json};

use super::support::{Answer, TestDaemon, request};

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
