//! Tests the operations on sessions.

use serde_json::{Value, json};

use super::support::{Running, config};

#[test]
fn a_session_has_its_context_and_keeps_its_variables() {
    let daemon = Running::new();
    let mut client = daemon.client();
    let opened = client.ok("initialize", json!({ "context": { "title": "Moby Dick" } }));
    assert_eq!((&opened["language"], &opened["protocol"]), (&json!("python"), &json!(1)));
    let result = client
        .ok("execute", json!({ "code": "import sys\nprint(context['title'])\nprint('bad', file=sys.stderr)\nx = 20" }));
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("Moby Dick\n"), &json!("bad\n")));
    assert_eq!((&result["error"], &result["success"]), (&Value::Null, &json!(true)));
    assert!(result["duration_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(result["session_id"], opened["session"]);
    let failed = client.ok("execute", json!({ "code": "x = x + 1\nraise ValueError('test')" }));
    assert_eq!(failed["error"], "ValueError: test");
    assert_eq!(client.ok("getVariable", json!({ "name": "x" })), json!({ "found": true, "repr": "21", "value": 21 }));
    assert_eq!(client.ok("getVariable", json!({ "name": "nothing" })), json!({ "found": false }));
    let opaque = client.ok("getVariable", json!({ "name": "sys" }));
    assert!(opaque.get("value").is_none() && opaque["repr"].as_str().unwrap().contains("module"), "{opaque}");
    client.ok("setVariable", json!({ "name": "x", "value": [1, { "a": null }] }));
    assert_eq!(client.prints("print(x)"), "[1, {'a': None}]\n");
}

#[test]
fn per_execution_inputs_apply() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    let given = json!({ "code": "print(input(), context)", "stdin": "line\nmore", "context": 7 });
    assert_eq!(client.ok("execute", given)["stdout"], "line 7\n");
    let bytes = json!({ "code": "import sys; b = sys.stdin.buffer.read(); sys.stdout.buffer.write(b)", "stdin": { "base64": "AP8=" } });
    let result = client.ok("execute", bytes);
    assert_eq!((&result["stdout"], &result["stdout_base64"]), (&json!("\0\u{fffd}"), &json!("AP8=")));
    let named = client.ok("execute", json!({ "code": "1/0", "name": "mine.py" }));
    assert!(named["outcome"]["traceback"].as_str().unwrap().contains("mine.py"));
    let late = client.ok("execute", json!({ "code": "while True: pass", "timeout_ms": 200 }));
    assert_eq!((&late["error"], &late["outcome"]["kind"]), (&json!("cancelled"), &json!("cancelled")));
}

#[test]
fn session_limits_are_capped_by_the_daemon() {
    let daemon = Running::new();
    let mut client = daemon.client();
    client.ok("initialize", json!({ "policy": { "limits": { "timeout_ms": 300 } } }));
    let result = client.ok("execute", json!({ "code": "while True: pass" }));
    assert_eq!((&result["error"], &result["outcome"]["resource"]), (&json!("timeout: over 300 ms"), &json!("time")));
    let (code, name, message) =
        client.refused("initialize", json!({ "policy": { "limits": { "timeout_ms": 999_999_999 } } }));
    assert_eq!((code, name.as_str()), (-32_602, "invalid-policy"), "{message}");
    let (code, _, message) = client.refused("initialize", json!({ "policy": { "workspace": "/etc" } }));
    assert!(code == -32_602 && message.contains("`policy.workspace` cannot be set"), "{message}");
}

#[test]
fn one_connection_has_sessions_in_both_languages() {
    let daemon = Running::new();
    let mut client = daemon.client();
    let python = client.ok("initialize", json!({ "context": "python" }))["session"].clone();
    let javascript = client.ok("initialize", json!({ "language": "javascript", "context": "js" }))["session"].clone();
    assert_eq!(client.prints("console.log(context)"), "js\n", "the default is the newest session");
    let result = client.ok("execute", json!({ "session": python, "code": "print(context)" }));
    assert_eq!(result["stdout"], "python\n");
    client.ok("destroy", json!({}));
    assert_eq!(client.prints("print(context)"), "python\n", "the default falls back to the previous session");
    assert_eq!(client.refused("execute", json!({ "session": javascript, "code": "1" })).1, "session-ended");
    client.ok("destroy", json!({ "session": python }));
    assert_eq!(client.refused("execute", json!({ "code": "1" })).0, -32_002);
    let mut other = daemon.client();
    other.ok("initialize", json!({}));
    assert_eq!(
        other.refused("execute", json!({ "session": python, "code": "1" })).1,
        "session-ended",
        "sessions must not be visible to other clients"
    );
}

#[test]
fn fresh_execution_does_not_affect_the_session() {
    let daemon = Running::new();
    let mut client = daemon.client();
    client.ok("initialize", json!({ "files": { "in.txt": "given" }, "open": false }));
    let code = "open('out.txt', 'w').write(open('in.txt').read() + '!')\nx = 1";
    let result = client.ok("execute", json!({ "code": code, "fresh": true, "return_files": true }));
    assert_eq!(result["files"]["contents"]["out.txt"], "Z2l2ZW4h");
    assert_eq!(result["files"]["entries"].as_array().unwrap().len(), 2);
    assert_eq!(result["files_created"], json!(["out.txt"]));
    assert_eq!(client.ok("getVariable", json!({ "name": "x" }))["found"], false);
    assert_eq!(client.prints("import os; print(os.listdir('.'))"), "['in.txt']\n");
}

#[test]
fn session_supports_files_checkpoints_forks_and_bytes() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    client.ok("writeFile", json!({ "path": "d/a.txt", "contents": "text" }));
    let listed = client.ok("listFiles", json!({ "pattern": "**/*.txt" }));
    assert_eq!(listed["files"][0]["path"], "d/a.txt");
    assert_eq!(client.ok("readFile", json!({ "path": "d/a.txt" }))["contents"]["base64"], "dGV4dA==");
    client.ok("deleteFile", json!({ "path": "d", "recursive": true }));
    assert_eq!(client.refused("readFile", json!({ "path": "d/a.txt" })).1, "file");
    client.prints("open('big', 'wb').write(b'x' * (9 << 20)); print()");
    let piece = |client: &mut super::support::Client, offset: usize| {
        let read = client.ok("readFile", json!({ "path": "big", "offset": offset }));
        assert_eq!(read["size_bytes"], 9 << 20);
        read["contents"]["base64"].as_str().unwrap().len() / 4 * 3
    };
    assert_eq!(piece(&mut client, 0), (8 << 20) + 1, "two bytes of base64 padding count");
    assert_eq!((piece(&mut client, 8 << 20), piece(&mut client, 9 << 20)), ((1 << 20) + 2, 0));
    client.prints("x = 1");
    let checkpoint = client.ok("checkpoint", json!({}))["checkpoint"].clone();
    client.prints("x = 2");
    let state = client.ok("hibernate", json!({}))["state"].clone();
    assert_eq!(client.ok("undo", json!({ "checkpoint": checkpoint }))["checkpoint"], checkpoint);
    assert_eq!(client.prints("print(x)"), "1\n");
    assert!(!client.ok("checkpoints", json!({}))["checkpoints"].as_array().unwrap().is_empty());
    assert_eq!(client.ok("info", json!({}))["language"], "python");
    let original = client.ok("info", json!({}))["id"].clone();
    client.ok("fork", json!({ "context": "forked" }));
    assert_eq!(client.prints("x += 5; print(x, context)"), "6 forked\n");
    assert_eq!(client.ok("execute", json!({ "session": original, "code": "print(x)" }))["stdout"], "1\n");
    client.ok("initialize", json!({ "state": state }));
    assert_eq!(client.prints("print(x)"), "2\n");
    let (code, name, _) = client.refused("initialize", json!({ "state": { "base64": "AAAA" } }));
    assert_eq!((code, name.as_str()), (-32_000, "not-resumable"));
    assert_eq!(client.ok("validate", json!({ "code": "x = (" }))["diagnostics"][0]["line"], 1);
}

#[test]
fn interpreters_are_prepared_in_advance() {
    let daemon = Running::with(config(|config| config.ready = 2));
    let mut client = daemon.client();
    super::support::until("two are ready", || client.ok("ping", json!({}))["ready"] == 2);
    let mut sessions = Vec::new();
    for round in 0..5 {
        sessions.push(client.ok("initialize", json!({ "context": round }))["session"].to_string());
        assert_eq!(
            client.prints("print(context, 'x' in globals()); x = 1"),
            format!("{round} False\n"),
            "a new client must not see other sessions"
        );
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 5);
    assert_eq!(client.ok("ping", json!({}))["sessions"], 5);
    super::support::until("they are made up for", || client.ok("ping", json!({}))["ready"] == 2);
}
