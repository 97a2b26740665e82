//! Every resource that a client can make the daemon allocate has a limit. The tests reach, undershoot and exceed each
//! limit.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::support::{Running, config, refusal, reply, until};

#[test]
fn message_size_is_limited() {
    let daemon = Running::with(config(|config| config.message_bytes = 10_000));
    let message = |bytes: usize| {
        let frame = r#"{"jsonrpc":"2.0","id":1,"method":"validate","params":{"code":""}}"#;
        frame.replace("\"code\":\"", &format!("\"code\":\"{}", "#".repeat(bytes - frame.len())))
    };
    let mut client = daemon.opened();
    for bytes in [9_999, 10_000] {
        assert!(client.answer(&message(bytes))["result"].is_object(), "{bytes}");
    }
    let answer = client.answer(&message(10_001));
    assert_eq!((answer["error"]["code"].as_i64(), &answer["id"]), (Some(-32_600), &Value::Null));
    assert!(client.receive().is_none(), "the connection closes because the next message boundary is unknown");
    assert_eq!(daemon.opened().prints("print(1)"), "1\n");
}

#[test]
fn unfinished_message_times_out() {
    let daemon = Running::with(config(|config| config.message_time = Duration::from_secs(2)));
    let mut client = daemon.client();
    std::thread::sleep(Duration::from_secs(3));
    client.ok("ping", json!({}));
    client.stream.write_all(b"{\"jsonrpc\"").unwrap();
    assert_eq!(client.receive().unwrap()["error"]["code"], -32_600);
    assert!(client.receive().is_none());
}

#[test]
fn total_message_size_is_limited() {
    let daemon = Running::with(config(|config| {
        (config.message_bytes, config.messages_bytes) = (1 << 20, 1 << 20);
        config.message_time = Duration::from_secs(5);
    }));
    let mut holder = daemon.client();
    holder.stream.write_all(&vec![b' '; 900 << 10]).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let mut client = daemon.client();
    // The request waits for memory, which is released when the other client is disconnected.
    let source = "#".repeat(600 << 10);
    client.ok("initialize", json!({ "open": false }));
    client.ok("validate", json!({ "code": source }));
    assert_eq!(holder.receive().unwrap()["error"]["code"], -32_600);
}

#[test]
fn pending_requests_are_limited() {
    let daemon = Running::with(config(|config| config.outstanding = 3));
    let mut client = daemon.opened();
    // The first script waits for an answer of the client, and the others wait for the first.
    let ids: Vec<u64> = (0..3).map(|_| client.begin("execute", json!({ "code": "llm_query('go on?')" }))).collect();
    let (code, name, _) = client.refused("execute", json!({ "code": "1" }));
    assert_eq!((code, name.as_str()), (-32_000, "quota-exceeded"));
    client.ok("ping", json!({}));
    for id in ids {
        let asked = client.asked();
        reply(&mut client, &asked, json!("yes"));
        assert!(client.end(id)["result"].is_object());
    }
    assert_eq!(client.prints("print(1)"), "1\n", "usable after");
}

#[test]
fn open_sessions_are_limited() {
    let daemon = Running::with(config(|config| (config.connection_sessions, config.sessions) = (2, 3)));
    let (mut one, mut two) = (daemon.opened(), daemon.opened());
    one.ok("initialize", json!({}));
    let (_, name, message) = one.refused("initialize", json!({}));
    assert!(
        name == "quota-exceeded" && message.contains("this connection has reached its limit of 2 sessions"),
        "{message}"
    );
    let (_, name, message) = two.refused("initialize", json!({}));
    assert!(
        name == "quota-exceeded" && message.contains("this daemon has reached its limit of 3 sessions"),
        "{message}"
    );
    assert_eq!(two.prints("print(1)"), "1\n", "open sessions continue");
    one.ok("destroy", json!({}));
    two.ok("initialize", json!({}));
    drop(two);
    until("a client that is gone has none", || one.call("initialize", json!({}))["result"].is_object());
}

#[test]
fn initial_session_data_is_limited() {
    let daemon = Running::with(config(|config| config.initial_bytes = 1 << 20));
    let mut client = daemon.client();
    let files = |kib: usize| json!({ "open": false, "files": { "a": "x".repeat((kib << 10) - 1) } });
    client.ok("initialize", files(512));
    client.ok("initialize", files(512));
    for asked in [files(16), json!({ "context": "x".repeat(1 << 14) })] {
        assert_eq!(client.refused("initialize", asked).1, "quota-exceeded");
    }
    client.ok("destroy", json!({}));
    client.ok("initialize", json!({ "context": "x".repeat(100_000) }));
    assert_eq!(client.prints("print(len(context))"), "100000\n");
    let schema = |bytes: usize| json!({ "type": "object", "description": "x".repeat(bytes) });
    let tools = |bytes: usize| json!({ "open": false, "tools": [{ "name": "a", "schema": schema(bytes) }, { "name": "b", "schema": schema(bytes) }] });
    client.ok("initialize", tools(130_000));
    let (code, _, message) = client.refused("initialize", tools(140_000));
    assert!(code == -32_602 && message.contains("the maximum is 262144"), "{message}");
}

#[test]
fn parsed_tools_and_policies_of_sessions_are_limited() {
    let daemon = Running::with(config(|config| config.initial_bytes = 1 << 20));
    let mut client = daemon.client();
    let schema = json!({ "default": vec![[0]; 1_000] });
    // An object costs 8 units, a list 4 and each comma 1. A unit costs 160 bytes.
    let bytes = (8 + 4 + 1_000 * 4 + 999) * 160 + schema.to_string().len() + "ask".len();
    let tools = |more: usize| {
        let tool = json!({ "name": "ask", "schema": schema });
        json!({ "open": false, "tools": [tool], "files": { "a": "x".repeat((1 << 20) - bytes - "a".len() + more) } })
    };
    let args = |count: usize| json!({ "open": false, "policy": { "args": vec![""; count] } });
    assert_eq!(client.refused("initialize", tools(1)).1, "quota-exceeded");
    client.ok("initialize", tools(0));
    assert_eq!(client.refused("initialize", args(1)).1, "quota-exceeded");
    client.ok("destroy", json!({}));
    client.ok("initialize", args(6_000));
    assert_eq!(client.refused("initialize", args(1_000)).1, "quota-exceeded");
    client.ok("initialize", args(100));
    let lists = |count: usize| json!({ "tools": [{ "name": "ask", "schema": { "default": vec![[0]; count] } }] });
    let (code, _, message) = client.refused("initialize", lists(60_000));
    assert!(code == -32_602 && message.contains("too many values"), "{message}");
}

#[test]
fn open_connections_are_limited() {
    let daemon = Running::with(config(|config| config.connections = 2));
    let (mut one, two) = (daemon.client(), daemon.client());
    one.ok("ping", json!({}));
    let mut three = daemon.client();
    assert_eq!(refusal(&three.receive().unwrap()).1, "quota-exceeded");
    assert!(three.receive().is_none());
    drop(two);
    until("a place is free", || {
        let mut client = daemon.client();
        client.stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").is_ok()
            && client.receive().is_some_and(|answer| answer["result"]["pong"] == true)
    });
}

#[test]
fn idle_sessions_and_connections_are_closed() {
    let daemon = Running::with(config(|config| config.idle = Duration::from_secs(3)));
    let mut client = daemon.opened();
    client.prints("x = 1");
    let begun = Instant::now();
    // The timeout also closes a connection that has no sessions.
    assert!(client.receive().is_none());
    assert!(begun.elapsed() >= Duration::from_secs(3));
    let mut other = daemon.client();
    assert_eq!(other.ok("ping", json!({}))["sessions"], 0);
    other.ok("initialize", json!({ "open": false }));
    std::thread::sleep(Duration::from_secs(8));
    let fresh = other.ok("execute", json!({ "code": "print(1)", "fresh": true }));
    assert_eq!(fresh["stdout"], "1\n", "a client without an interpreter stays connected");
    let code = "import time\nfor _ in range(6): time.sleep(1)\nprint('busy')";
    assert_eq!(other.prints(code), "busy\n", "a running execution counts as use");
}

#[test]
fn unresponsive_client_is_disconnected() {
    let daemon = Running::with(config(|config| config.write_time = Duration::from_millis(300)));
    let mut client = daemon.opened();
    for _ in 0..20 {
        client.begin("execute", json!({ "code": "print('x' * 1_000_000)", "stream": true }));
    }
    client.begin("execute", json!({ "code": "while True: pass" }));
    let mut other = daemon.client();
    until("it is gone", || other.ok("ping", json!({}))["connections"] == 1);
    until("nothing runs", || daemon.executing() == 0);
}
