//! Tests that the server's memory for hostile clients over HTTP is bounded: clients that do not read, and requests whose
//! values need many times the memory of their text.

use std::time::Duration;

use glovebox_server::http::HttpConfig;
use glovebox_tests::process::{in_child, peak_growth};
use serde_json::{Value, json};

use super::{
    http::{Server, answer},
    support::until,
};

const ROOM: usize = 16 << 20;
/// Maximum growth of the server's memory: the memory for requests and answers, and 64 MiB for everything else.
const MAX_GROWTH: u64 = (ROOM + (64 << 20)) as u64;

fn server() -> Server {
    Server::start(HttpConfig { bodies_bytes: ROOM, body_time: Duration::from_secs(1), ..HttpConfig::default() })
}

#[test]
fn unread_answers_are_bounded() {
    if !in_child("mcp::unread::unread_answers_are_bounded", Duration::from_secs(200)) {
        return;
    }
    let server = server();
    let call = |name: &str, arguments: Value| {
        let (status, text) = server.ask(&[], "tools/call", json!({ "name": name, "arguments": arguments }));
        assert!(status == 200 && !text.contains("\"isError\":true"), "{text}");
    };
    call("session_open", json!({ "language": "javascript", "session": "s" }));
    let write = "require('fs').writeFileSync('f', 'x'.repeat(3_500_000))";
    call("run_code", json!({ "language": "javascript", "session": "s", "code": write }));
    let file = json!({ "uri": "glovebox://session/s/files/f" });
    let (status, text) = server.ask(&[], "resources/read", file.clone());
    assert!(status == 200 && text.len() > 3_500_000, "{status}: {} bytes", text.len());
    let grown = peak_growth(40, |_| server.begin(&[], "resources/read", file.clone()));
    assert!(grown < MAX_GROWTH, "{} MiB", grown >> 20);
    assert_eq!(server.run(&[], "1").0, 200);
}

#[test]
fn values_of_requests_are_bounded() {
    if !in_child("mcp::unread::values_of_requests_are_bounded", Duration::from_secs(200)) {
        return;
    }
    let server = server();
    // Each entry occupies 700 bytes of memory, and 17 bytes of text.
    let entries: serde_json::Map<String, Value> =
        (10_000..14_000).map(|name: u32| (name.to_string(), json!({ "a": 0 }))).collect();
    let capabilities = json!({ "experimental": entries });
    let run = |code: &str| {
        let arguments = json!({ "language": "javascript", "code": code });
        server.begin_with(&capabilities, &[], "tools/call", json!({ "name": "run_code", "arguments": arguments }))
    };
    let (status, text) = answer(run("1"));
    assert_eq!(status, 200, "{text}");
    // Without a limit, 80 requests would occupy 240 MB until their scripts have ended.
    let grown = peak_growth(80, |_| run("await new Promise((wake) => setTimeout(wake, 3_000))"));
    assert!(grown < MAX_GROWTH, "{} MiB", grown >> 20);
    assert_eq!(server.run(&[], "1").0, 200);
}

/// Returns the body of a tool call, as JSON text.
fn call(method: &str, name: &str, arguments: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"{name}","arguments":{arguments},"_meta":{meta}}}}}"#
    )
}

/// The requests have the maximum size. Their values would need up to 65 times that size, and errors that quote them in
/// full would need up to three times that size.
#[test]
fn errors_of_large_requests_are_bounded() {
    if !in_child("mcp::unread::errors_of_large_requests_are_bounded", Duration::from_secs(400)) {
        return;
    }
    const ROOM: usize = 64 << 20;
    const BYTES: usize = 6 << 20;
    let server =
        Server::start(HttpConfig { bodies_bytes: ROOM, body_time: Duration::from_secs(1), ..HttpConfig::default() });
    assert_eq!(server.run(&[], "1").0, 200);
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "run_code")];
    let long = |letter: &str| letter.repeat(BYTES / letter.len());
    let run =
        |fields: &str| call("tools/call", "run_code", &format!(r#"{{"language":"javascript","code":"1",{fields}}}"#));
    let named = |letter: &str| run(&format!(r#""{}":1"#, long(letter)));
    for (kind, body, status) in [
        ("a name of an argument", named("x"), 200),
        ("a name with hidden characters", named("\u{202e}"), 200),
        ("a name with escaped characters", named("\\u0001"), 200),
        ("a value", call("tools/call", "run_code", &format!(r#"{{"language":"{}","code":"1"}}"#, long("x"))), 200),
        ("a method that differs from the header", call(&long("x"), "run_code", "{}"), 400),
        ("a tool that differs from the header", call("tools/call", &long("x"), "{}"), 400),
        ("many values", run(&format!(r#""x":[{}0]"#, long("[],"))), 413),
        ("many levels", run(&format!(r#""x":{}"#, long("["))), 413),
    ] {
        let ask = || server.send(&headers, body.as_bytes());
        let (mut answered, mut text) = answer(ask());
        until("the memory of the earlier requests is free", || {
            let is_refused = answered == 503;
            if is_refused {
                (answered, text) = answer(ask());
            }
            !is_refused
        });
        let start: String = text.chars().take(1_000).collect();
        assert!(answered == status && text.len() < 8 << 10, "{kind}: {answered}, {} bytes: {start}", text.len());
        let grown = peak_growth(24, |_| ask());
        assert!(grown < (ROOM + (64 << 20)) as u64, "{kind}: {} MiB", grown >> 20);
    }
    until("the memory is free", || server.run(&[], "1").0 == 200);
}
