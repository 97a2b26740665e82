//! Tests authorization and the isolation of tenants.

use serde_json::json;

use super::support::{Server, Setup, TOKEN};

#[test]
fn requests_need_a_known_token() {
    let server = Server::start(Setup::default());
    for path in
        ["/v1/info", "/v1/sessions", "/v1/sessions/s", "/v1/sessions/s/files", "/v1/sessions/s/state", "/metrics"]
    {
        for headers in
            [("authorization", ""), ("authorization", "Bearer wrong"), ("authorization", TOKEN), ("x-api-key", "wrong")]
        {
            let answer = server.ask("GET", path, &[headers], b"");
            assert_eq!(answer.problem(), (401, "unauthorized".into()), "{path} {headers:?}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    for path in ["/v1/execute", "/v1/validate", "/v1/sessions", "/v1/sessions/s/execute", "/v1/sessions/s/undo"] {
        let body = json!({"source": "1"}).to_string();
        assert_eq!(server.ask("POST", path, &[("authorization", "Bearer ")], body.as_bytes()).status, 401, "{path}");
    }
    assert!(server.audited().is_empty());
    for headers in [("authorization", format!("bearer  {TOKEN}")), ("x-api-key", TOKEN.to_owned())] {
        assert_eq!(server.ask("GET", "/v1/info", &[(headers.0, &headers.1)], b"").status, 200);
    }
    for path in ["/healthz", "/readyz", "/v1/openapi.json"] {
        assert_eq!(server.ask("GET", path, &[("authorization", "")], b"").status, 200, "{path}");
    }
}

#[test]
fn sessions_belong_to_their_token() {
    let server = Server::start(Setup { other: Some("the other token"), ..Setup::default() });
    let other = ("authorization", "Bearer the other token");
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    server.post("/v1/sessions/s/execute", &json!({"source": "x = 'mine'"})).ok();
    assert_eq!(server.ask("GET", "/v1/sessions", &[other], b"").json()["sessions"], json!([]));
    for (method, path) in [
        ("GET", "/v1/sessions/s"),
        ("GET", "/v1/sessions/s/state"),
        ("GET", "/v1/sessions/s/variables/x"),
        ("GET", "/v1/sessions/s/files"),
        ("POST", "/v1/sessions/s/fork"),
        ("POST", "/v1/sessions/s/undo"),
        ("POST", "/v1/sessions/s/hibernate"),
        ("DELETE", "/v1/sessions/s"),
    ] {
        assert_eq!(server.ask(method, path, &[other], b"").problem(), (404, "not-found".into()), "{method} {path}");
    }
    // For another token, the same name denotes another session.
    assert_eq!(server.ask("POST", "/v1/sessions", &[other], br#"{"id": "s", "language": "python"}"#).status, 201);
    let seen = server.ask("POST", "/v1/sessions/s/execute", &[other], br#"{"source": "'x' in globals()"}"#);
    assert_eq!(seen.ok()["value"]["json"], false);
    assert_eq!(server.get("/v1/sessions/s/variables/x").ok()["value"], "mine");
    // Answers stored under an idempotency key also belong to their token.
    let (key, body) = (
        ("idempotency-key", "k"),
        json!({"language": "python", "source": "import random; print(random.random())"}).to_string(),
    );
    let mine = server.ask("POST", "/v1/execute", &[key], body.as_bytes());
    let theirs = server.ask("POST", "/v1/execute", &[key, other], body.as_bytes());
    assert_ne!(mine.ok()["stdout"], theirs.ok()["stdout"]);
}

#[test]
fn cross_site_requests_are_rejected() {
    let server = Server::start(Setup::default());
    let port = server.address.port();
    for (host, origin, status) in [
        (format!("localhost:{port}"), None, 200),
        (format!("127.0.0.1:{port}"), Some(format!("http://127.0.0.1:{port}")), 200),
        ("rebound.example".into(), None, 421),
        (format!("rebound.example:{port}"), Some(format!("http://rebound.example:{port}")), 421),
        (format!("localhost:{port}"), Some("https://evil.example".into()), 403),
        (format!("localhost:{port}"), Some("null".into()), 403),
    ] {
        let mut headers = vec![("host", host.as_str())];
        headers.extend(origin.as_deref().map(|origin| ("origin", origin)));
        assert_eq!(server.ask("GET", "/v1/info", &headers, b"").status, status, "{headers:?}");
    }
    // A request with two host names is rejected.
    let own = format!("localhost:{port}");
    assert_eq!(server.ask("GET", "/v1/info", &[("host", &own), ("host", "evil.example")], b"").status, 421);
}
