//! Tests that the server's memory for hostile clients over HTTP is bounded: clients that do not read, and requests whose
//! values need many times the memory of their text.

use std::time::Duration;

use glovebox_server::http::HttpConfig;
use glovebox_tests::process::{in_child, peak_growth};
use serde_json::{Value, json};

use super::http::Server;

const ROOM: usize = 16 << 20;
/// The memory for requests and answers, and for everything else that the server needs.
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
    let (status, text) = super::http::answer(run("1"));
    assert_eq!(status, 200, "{text}");
    // Without a limit, 80 requests would occupy 240 MB until their scripts have ended.
    let grown = peak_growth(80, |_| run("await new Promise((wake) => setTimeout(wake, 3_000))"));
    assert!(grown < MAX_GROWTH, "{} MiB", grown >> 20);
    assert_eq!(server.run(&[], "1").0, 200);
}
