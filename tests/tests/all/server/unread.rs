//! Tests that the server's memory for clients that do not read is bounded, for every kind of answer.

use std::{net::TcpStream, time::Duration};

use glovebox_server::{Admission, ServiceConfig, TenantConfig, http::HttpConfig};
use glovebox_tests::process::{in_child, peak_growth};
use serde_json::json;

use super::support::{Server, Setup};

const ROOM: usize = 16 << 20;

/// Returns the maximum growth of this process's memory, in bytes, while `count` answers are not read.
fn grown(server: &Server, ask: impl Fn(usize) -> TcpStream, count: usize) -> u64 {
    server.post("/v1/execute", &json!({"language": "python", "source": "print(1)"})).ok();
    peak_growth(count, ask)
}

fn server() -> Server {
    let http = HttpConfig { bodies_bytes: ROOM, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    Server::start(Setup { http, ..Setup::default() })
}

#[test]
fn errors_quote_input_truncated() {
    if !in_child("server::unread::errors_quote_input_truncated", Duration::from_secs(200)) {
        return;
    }
    let server = server();
    for letter in ["x", "\u{202e}", "\\u0001"] {
        let body = format!("{{\"{}\": 1}}", letter.repeat((6 << 20) / letter.len()));
        let answer = server.ask("POST", "/v1/execute", &[], body.as_bytes());
        assert!(answer.body.len() < 8 << 10, "{}", answer.body.len());
        let grown = grown(&server, |_| server.begin("POST", "/v1/execute", &[], body.as_bytes()), 24);
        assert!(grown < (ROOM + (64 << 20)) as u64, "{letter:?}: {} MiB", grown >> 20);
    }
}

#[test]
fn unread_streams_are_bounded() {
    if !in_child("server::unread::unread_streams_are_bounded", Duration::from_secs(200)) {
        return;
    }
    // Scripts run in this process. The number of interpreters must not depend on the number of processors.
    let admission = Admission { running: 2, ..Admission::default() };
    let service = ServiceConfig { admission, ..ServiceConfig::default() };
    let http = HttpConfig { bodies_bytes: ROOM, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    let server = Server::start(Setup { service, http, ..Setup::default() });
    let source = "import sys\nfor _ in range(3): sys.stdout.write('\\x01' * 900_000)";
    let body = json!({"language": "python", "source": source}).to_string();
    let accept = [("accept", "application/x-ndjson")];
    let grown = grown(&server, |_| server.begin("POST", "/v1/execute", &accept, body.as_bytes()), 40);
    assert!(grown < (ROOM + (64 << 20)) as u64, "{} MiB", grown >> 20);
}

#[test]
fn unread_lists_are_bounded() {
    if !in_child("server::unread::unread_lists_are_bounded", Duration::from_secs(200)) {
        return;
    }
    let http = HttpConfig { e2b: true, bodies_bytes: ROOM, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    let change = |config: &mut TenantConfig| config.sessions = 100;
    let server = Server::start(Setup { http, tenant: Some(Box::new(change)), ..Setup::default() });
    let metadata = json!({"metadata": {"a": "x".repeat(60 << 10)}});
    let made: Vec<_> = (0..60).map(|_| server.post("/v2/sandboxes", &metadata).ok()).collect();
    let session = format!("/v1/sessions/{}.python", made[0]["sandboxID"].as_str().unwrap());
    // In JSON, each character of the names occupies six bytes.
    let make = "import os\nfor n in range(400): os.makedirs(f'{n:03}/' + '/'.join(['\\x01' * 200] * 15))";
    let ran = server.post(&format!("{session}/execute"), &json!({"source": make})).ok();
    assert_eq!(ran["outcome"]["kind"], "completed", "{ran}");
    let paths = ["/v2/sandboxes".to_owned(), format!("{session}/files")];
    for path in &paths {
        let bytes = server.get(path).body.len();
        assert!(bytes > 3 << 20, "{path}: {bytes} bytes");
    }
    for path in &paths {
        let grown = grown(&server, |_| server.begin("GET", path, &[], b""), 40);
        assert!(grown < (ROOM + (64 << 20)) as u64, "{path}: {} MiB", grown >> 20);
    }
}

#[test]
fn files_are_listed_by_pages() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let make = "for n in range(5): open(f'f{n}', 'w').close()";
    server.post("/v1/sessions/s/execute", &json!({"source": make})).ok();
    let mut paths = Vec::new();
    let mut query = "?limit=2".to_owned();
    loop {
        let page = server.get(&format!("/v1/sessions/s/files{query}")).ok();
        let files = page["files"].as_array().unwrap();
        assert!(files.len() <= 2);
        paths.extend(files.iter().map(|file| file["path"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=2&cursor={next}");
    }
    assert_eq!(paths, ["f0", "f1", "f2", "f3", "f4"]);
    for limit in [0, 10_001] {
        assert_eq!(server.get(&format!("/v1/sessions/s/files?limit={limit}")).problem().0, 400);
    }
    // The paths are so long that the page ends at its size limit, not at its entry limit.
    let make = "import os\nfor n in range(400):\n d = f'{n:03}' + '/' + '/'.join(['x' * 200] * 15)\n os.makedirs(d)";
    let made = server.post("/v1/sessions/s/execute", &json!({"source": make})).ok();
    assert_eq!(made["outcome"]["kind"], json!("completed"), "{made}");
    let page = server.get("/v1/sessions/s/files");
    assert!(page.body.len() < 4 << 20 && page.ok()["next"].is_string(), "{}", page.body.len());
}
