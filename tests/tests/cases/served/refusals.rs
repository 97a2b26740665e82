//! Tests rejected requests and their problem types.

use glovebox::Language;
use serde_json::{Value, json};

use super::{BODY_BYTES, FUEL, host::Host};

const ROUTES: [&str; 4] = ["/v1/execute", "/v1/validate", "/v1/sessions", "/v1/sessions/execute"];

pub(super) fn rejections_name_the_problem(host: &Host) {
    for path in ROUTES {
        for body in ["{", "[]", "7", "{\"source\": 1}", "{\"sauce\": \"1\"}", "\u{0}", "{\"source\": \"1\"} x"] {
            let (status, kind, detail) = host.ask("POST", path, &[], body.as_bytes()).problem();
            assert_eq!((status, kind.as_str()), (400, "invalid-argument"), "{path} {body}: {detail}");
        }
        assert_eq!(host.ask("GET", path, &[], b"").problem().0, 405, "{path}");
        assert_eq!(host.ask("POST", &format!("{path}/"), &[], b"").problem().0, 404, "{path}");
    }
    for (path, body, expected) in [
        ("/v1/execute", json!({}), (400, "invalid-argument", "`source` is missing")),
        (
            "/v1/execute",
            json!({ "source": "1", "state": "AAAA" }),
            (400, "invalid-argument", "`state` is supported only for sessions"),
        ),
        ("/v1/execute", json!({ "source": "1", "tools": [] }), (422, "unsupported", "`tools`")),
        ("/v1/execute", json!({ "source": "1", "runtime": "ruby" }), (404, "unknown-runtime", "unknown runtime name")),
        ("/v1/execute", json!({ "source": "1", "language": "ruby" }), (400, "invalid-argument", "ruby")),
        ("/v1/execute", json!({ "source": "1", "stdin": { "base64": "?" } }), (400, "invalid-argument", "")),
        ("/v1/execute", json!({ "source": "1", "stdin": { "text": "?" } }), (400, "invalid-argument", "base64")),
        ("/v1/execute", json!({ "source": "1", "files": { "../a": "" } }), (400, "invalid-argument", "../a")),
        (
            "/v1/execute",
            json!({ "source": "1", "return_files": vec!["*"; 17] }),
            (400, "invalid-argument", "at most 16"),
        ),
        ("/v1/execute", json!({ "source": "1", "return_files": ["*********"] }), (400, "invalid-argument", "9 `*`")),
        ("/v1/execute", json!({ "source": "1", "return_files": ["[" ] }), (422, "file", "[")),
        ("/v1/execute", policy(json!({ "fuel": FUEL + 1 })), (400, "invalid-policy", "`policy.limits.fuel`")),
        ("/v1/execute", policy(json!({ "fule": 1 })), (400, "invalid-policy", "fule")),
        ("/v1/validate", policy(json!({ "memory_bytes": 1_u64 << 40 })), (400, "invalid-policy", "memory_bytes")),
        ("/v1/execute", json!({ "source": "x".repeat((1 << 20) + 1) }), (413, "too-large", "1048577")),
        ("/v1/sessions", json!({ "id": "one" }), (400, "invalid-argument", "`state` identifies a session")),
        ("/v1/sessions", json!({ "runtime": "ruby" }), (404, "unknown-runtime", "unknown runtime name")),
        ("/v1/sessions/execute", json!({ "source": "1" }), (400, "invalid-argument", "no `state`")),
        ("/v1/sessions/execute", json!({ "source": "1", "state": "?" }), (400, "invalid-argument", "`state`")),
        (
            "/v1/sessions/execute",
            json!({ "source": "1", "state": "AAAA" }),
            (409, "not-resumable", "not a hibernated session"),
        ),
        (
            "/v1/sessions/execute",
            json!({ "source": "1", "state": "", "policy": {} }),
            (400, "invalid-argument", "`policy`"),
        ),
        (
            "/v1/sessions/execute",
            json!({ "source": "1", "state": "", "context": 1 }),
            (400, "invalid-argument", "`context`"),
        ),
    ] {
        let (status, kind, detail) = host.post(path, &body).problem();
        assert_eq!((status, kind.as_str()), (expected.0, expected.1), "{path} {body}: {detail}");
        assert!(detail.contains(expected.2), "{path} {body}: {detail}");
    }
}

fn policy(limits: Value) -> Value {
    json!({ "source": "1", "policy": { "limits": limits } })
}

/// Tests bodies at the limit, above it, and above it without a declared length.
pub(super) fn body_size_is_limited(host: &Host, language: Language) {
    let body = |length: usize| {
        let body = json!({ "language": language.name(), "source": "1", "stdin": "" }).to_string();
        let stdin = "x".repeat(length - body.len());
        body.replace("\"stdin\":\"\"", &format!("\"stdin\":\"{stdin}\""))
    };
    assert_eq!(host.ask("POST", "/v1/execute", &[], body(BODY_BYTES).as_bytes()).status, 200);
    let problem = |(status, kind, _): (u16, String, String)| (status, kind);
    let refused = (413, "too-large".to_owned());
    let over = body(BODY_BYTES + 1);
    assert_eq!(problem(host.ask("POST", "/v1/execute", &[], over.as_bytes()).problem()), refused);
    // The server rejects the declared length before it receives any of the body.
    let length = [("content-length", "99999999999")];
    assert_eq!(problem(host.raw("POST", "/v1/execute", &length, b"").problem()), refused);
    let chunked = format!("{:x}\r\n{over}\r\n0\r\n\r\n", over.len());
    let answer = host.raw("POST", "/v1/execute", &[("transfer-encoding", "chunked")], chunked.as_bytes());
    assert_eq!(problem(answer.problem()), refused);
    assert_eq!(
        host.ask("POST", "/v1/execute", &[], body(BODY_BYTES).as_bytes()).status,
        200,
        "the server must still work"
    );
}

/// A request whose body is late or never arrives does not delay other requests.
pub(super) fn late_body_delays_no_other_request(host: &Host, language: Language) {
    let body = json!({ "language": language.name(), "source": "1" }).to_string();
    let length = body.len().to_string();
    let begin = || host.begin("POST", "/v1/execute", &[("content-length", &length)]);
    let late = begin();
    drop(begin());
    assert_eq!(host.ask("POST", "/v1/execute", &[], body.as_bytes()).status, 200);
    assert_eq!(late.finish(body.as_bytes()).status, 200);
}

pub(super) fn foreign_origin_is_rejected(host: &Host) {
    let answer = host.ask("POST", "/v1/execute", &[("origin", "http://evil.example")], b"{\"source\": \"1\"}");
    assert_eq!(answer.problem().1, "origin");
}

/// Tests a server that has a token but no key.
pub(super) fn token_is_required(host: &Host) {
    let source = b"{\"source\": \"1\"}";
    for headers in [&[][..], &[("authorization", "Bearer wrong")], &[("x-api-key", "")]] {
        let answer = host.ask("POST", "/v1/execute", headers, source);
        assert_eq!(answer.problem().1, "unauthorized", "{headers:?}");
        assert!(answer.head.contains("www-authenticate: bearer"), "{answer:?}");
    }
    let token = [("authorization", "Bearer secret")];
    assert_eq!(host.ask("POST", "/v1/execute", &token, source).status, 200);
    assert_eq!(host.ask("GET", "/healthz", &[], b"").status, 200, "the health check needs no token");
    for path in ["/v1/sessions", "/v1/sessions/execute"] {
        let (status, kind, detail) = host.ask("POST", path, &token, b"").problem();
        assert_eq!((status, kind.as_str()), (422, "unsupported"));
        assert!(detail.contains("`GLOVEBOX_SESSION_KEY`"), "{detail}");
    }
}
