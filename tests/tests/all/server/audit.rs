//! Tests the audit log and the metrics, and access to them.

use std::time::{Duration, Instant};

use glovebox_server::TenantConfig;
use serde_json::json;

use super::support::{Answer, Server, Setup, TOKEN, metric, until};

#[test]
fn every_session_operation_is_audited() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    server.ask("PUT", "/v1/sessions/s/variables/x", &[], b"\"a secret\"");
    server.get("/v1/sessions/s/variables/x").ok();
    server.ask("PUT", "/v1/sessions/s/files/d/f", &[], b"a secret");
    server.get("/v1/sessions/s/files/d/f");
    server.get("/v1/sessions/s/files/nothing");
    server.ask("DELETE", "/v1/sessions/s/files/d?recursive=true", &[], b"");
    server.post("/v1/sessions/s/fork", &json!({"id": "t"})).ok();
    server.ask("DELETE", "/v1/sessions/s", &[], b"");
    let lines = server.audited();
    let acts: Vec<_> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (text("action"), text("of"), text("outcome"))
        })
        .collect();
    let expected = [
        ("open", "", "done"),
        ("set-variable", "x", "done"),
        ("get-variable", "x", "done"),
        ("change-files", "d/f", "done"),
        ("read-files", "d/f", "done"),
        ("read-files", "nothing", "file"),
        ("change-files", "d", "done"),
        ("fork", "t", "done"),
        ("close", "", "done"),
    ];
    let expected: Vec<_> = expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())).into();
    assert_eq!(acts, expected);
    assert!(lines.iter().all(|line| line["session"] == "s" && line["tenant"] == "one" && line["door"] == "http"));
    assert!(!format!("{lines:?}").contains("secret"));
}

#[test]
fn tokens_see_their_totals_or_all_if_allowed() {
    let change: Box<dyn FnOnce(&mut TenantConfig)> = Box::new(|tenant| tenant.sees_all_metrics = false);
    let server = Server::start(Setup { tenant: Some(change), other: Some("the other token"), ..Setup::default() });
    let metrics =
        |token: &str| server.ask("GET", "/metrics", &[("authorization", &format!("Bearer {token}"))], b"").text();
    let body = json!({"language": "javascript", "source": "1"}).to_string();
    for _ in 0..2 {
        server.ask("POST", "/v1/execute", &[("authorization", "Bearer the other token")], body.as_bytes()).ok();
    }
    server.post("/v1/execute", &json!({"language": "javascript", "source": "1"})).ok();
    let count = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("glovebox_execution_seconds_count")).unwrap().to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((count(&metrics(TOKEN)), count(&metrics("the other token"))), (1, 3));
}

#[test]
fn exit_handlers_and_value_reads_end_with_the_server() {
    let source = "import atexit\n@atexit.register\ndef _():\n    while True: pass\nclass Slow:\n    def __repr__(self):\n        while True: pass\nslow = Slow()";
    for (method, path) in [("GET", "/v1/sessions/s/variables/slow"), ("DELETE", "/v1/sessions/s")] {
        let change = |tenant: &mut TenantConfig| tenant.policy.limits.timeout_ms = 600_000;
        let server = Server::start(Setup { tenant: Some(Box::new(change)), ..Setup::default() });
        server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
        server.post("/v1/sessions/s/execute", &json!({ "source": source })).ok();
        let stream = server.begin(method, path, &[], b"");
        until("it runs", || metric(&server, "glovebox_running") == 1);
        let begun = Instant::now();
        let answer = std::thread::spawn(move || Answer::read(stream));
        server.stop(Duration::from_millis(100));
        assert!(begun.elapsed() < Duration::from_secs(60), "{method}: stopping must not wait for the time limit");
        let _: Answer = answer.join().unwrap();
    }
}
