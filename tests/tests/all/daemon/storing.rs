//! Tests suspended executions in a daemon's sessions. The daemon or its client stores them.

use std::sync::Arc;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_sessions::DirectoryStore;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::{Answer, TestDaemon, http, tenant};

const SOURCE: &str = "x.append(tools.ask(q=1)); x.append(tools.ask(q=2)); print(x)";

/// Starts a daemon that stores suspended executions in `dir`.
fn storing(dir: &TempDir) -> TestDaemon {
    let store = Arc::new(DirectoryStore::open(dir.path()).unwrap());
    TestDaemon::with(tenant(move |tenant| tenant.suspended_store = Some(store)))
}

/// Opens a session with a variable, and starts an execution that waits for an answer.
fn start(daemon: &TestDaemon, more: (&str, bool)) -> Answer {
    daemon.open("s");
    daemon.prints("s", "x = ['before']");
    let mut body = json!({"source": SOURCE, "tools": [{"name": "ask"}]});
    body[more.0] = more.1.into();
    daemon.post("/v1/sessions/s/execute", &body)
}

/// Returns the path of a stored execution.
fn stored(answer: &Answer) -> String {
    assert_eq!((answer.status, &answer.json()["type"]), (202, &json!("suspended")), "{answer:?}");
    format!("/v1/suspended/{}", answer.json()["id"].as_str().unwrap())
}

fn ask(daemon: &TestDaemon, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    daemon.ask("POST", path, headers, body.to_string().as_bytes())
}

fn answers(id: u64, value: &str) -> Value {
    json!({"answers": [{"id": id, "value": value}]})
}

#[test]
fn stored_execution_survives_a_restart_of_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let first = storing(&dir);
    let body = json!({"source": "print(tools.ask(q=1))", "tools": [{"name": "ask"}], "suspend": true});
    let path = stored(&first.post("/v1/execute", &body));
    drop(first);
    let second = storing(&dir);
    assert_eq!(second.get(&path).ok()["calls"][0]["arguments"], json!({"q": 1}));
    assert_eq!(second.post(&path, &answers(0, "one")).ok()["stdout"], "one\n");
    assert_eq!(second.post(&path, &answers(0, "one")).problem(), (404, "not-found".into()));
}

#[test]
fn execution_in_a_session_of_the_daemon_is_stored_and_resumed_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = storing(&dir);
    let suspended = start(&first, ("suspend", true));
    assert!(suspended.header("etag").is_some());
    assert_eq!(suspended.header("etag"), first.get("/v1/sessions/s").header("etag"));
    let path = stored(&suspended);
    assert_eq!(first.prints("s", "print(x)"), "['before']\n", "the session can be used");
    assert_eq!(first.post(&path, &answers(0, "one")).problem(), (412, "generation".into()), "it has changed");
    let any = [("if-match", "*")];
    let next = stored(&ask(&first, &path, &any, &answers(0, "one")));
    assert_eq!(ask(&first, &path, &any, &answers(0, "one")).problem(), (404, "not-found".into()));
    assert_eq!(first.prints("s", "print(x)"), "['before']\n");
    drop(first);

    // The daemon keeps the sessions only in memory, but the execution contains the state of its session.
    let second = storing(&dir);
    let missing = ask(&second, &next, &any, &answers(1, "two"));
    assert_eq!(missing.problem(), (404, "not-found".into()), "{missing:?}");
    second.open("s");
    let done = ask(&second, &next, &any, &answers(1, "two"));
    assert_eq!(done.ok()["stdout"], "['before', 'one', 'two']\n", "{done:?}");
    assert_eq!(second.get("/v1/sessions/s").header("etag"), done.header("etag"));
    assert_eq!(second.prints("s", "print(x)"), "['before', 'one', 'two']\n");
}

#[test]
fn client_stores_an_execution_of_the_daemons_session() {
    let daemon = TestDaemon::new();
    let refused = start(&daemon, ("suspend", true));
    assert_eq!(refused.problem(), (422, "unsupported".into()), "the daemon has no store: {refused:?}");
    assert_eq!(daemon.ask("DELETE", "/v1/sessions/s", &[], b"").status, 204);

    let waiting = start(&daemon, ("suspendable", true));
    let execution = waiting.json()["execution"].as_str().unwrap().to_owned();
    let suspended = daemon.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
    assert_eq!(suspended.status, 200, "{suspended:?}");
    let etag = suspended.header("etag").unwrap().to_owned();
    let bytes = BASE64_STANDARD.encode(&suspended.body);
    let mut body = answers(0, "one");
    (body["session"], body["suspended"], body["tools"]) =
        ("s".into(), json!({ "base64": bytes }), json!([{"name": "ask"}]));
    let resumed = ask(&daemon, "/v1/executions/resume", &[("if-match", &etag)], &body);
    assert_eq!((resumed.status, &resumed.json()["calls"][0]["arguments"]), (202, &json!({"q": 2})), "{resumed:?}");
    let path = format!("/v1/executions/{}/continue", resumed.json()["execution"].as_str().unwrap());
    assert_eq!(daemon.post(&path, &answers(1, "two")).ok()["stdout"], "['before', 'one', 'two']\n");
    // The bytes can be resumed in another session.
    daemon.open("other");
    body["session"] = "other".into();
    let resumed = ask(&daemon, "/v1/executions/resume", &[("if-match", "*")], &body);
    let path = format!("/v1/executions/{}/continue", resumed.json()["execution"].as_str().unwrap());
    daemon.post(&path, &answers(1, "three")).ok();
    assert_eq!(daemon.prints("other", "print(x)"), "['before', 'one', 'three']\n");
    assert_eq!(daemon.prints("s", "print(x)"), "['before', 'one', 'two']\n");
    // An execution that a limit prevents changes no session.
    let small = json!({"id": "small", "language": "python", "policy": {"limits": {"source_bytes": 10}}});
    daemon.post("/v1/sessions", &small).ok();
    daemon.prints("small", "x = 1");
    body["session"] = "small".into();
    let refused = ask(&daemon, "/v1/executions/resume", &[("if-match", "*")], &body);
    assert!((400..500).contains(&refused.status), "{refused:?}");
    assert_eq!(daemon.prints("small", "print(x)"), "1\n");
    body["session"] = "other".into();
    // An execution whose tools differ, or whose answers are invalid, changes no session.
    let etag = || daemon.get("/v1/sessions/other").header("etag").unwrap().to_owned();
    let before = etag();
    for (tool, call) in [("other", 0), ("ask", 7)] {
        (body["tools"], body["answers"][0]["id"]) = (json!([{ "name": tool }]), call.into());
        let refused = ask(&daemon, "/v1/executions/resume", &[("if-match", "*")], &body);
        assert!((400..500).contains(&refused.status), "{refused:?}");
        assert_eq!(etag(), before, "{tool}");
    }
    assert_eq!(daemon.prints("other", "print(x)"), "['before', 'one', 'three']\n");
    // Damaged bytes change no session.
    body["suspended"] = json!({"base64": BASE64_STANDARD.encode(&suspended.body[..100])});
    let damaged = ask(&daemon, "/v1/executions/resume", &[("if-match", "*")], &body);
    assert_eq!(damaged.problem(), (400, "invalid-argument".into()), "{damaged:?}");
    assert_eq!(daemon.prints("other", "print(x)"), "['before', 'one', 'three']\n");
}

#[test]
fn daemons_session_keeps_its_state_if_a_limit_stops_the_repeated_steps() {
    let daemon = TestDaemon::new();
    daemon.open("s");
    let source = "for _ in range(300_000): pass\nx = tools.ask(q=1)";
    let body = json!({"source": source, "tools": [{"name": "ask"}], "suspendable": true});
    let waiting = daemon.post("/v1/sessions/s/execute", &body);
    let execution = waiting.json()["execution"].as_str().unwrap().to_owned();
    let suspended = daemon.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
    assert_eq!(suspended.status, 200, "{suspended:?}");
    let small = json!({"id": "small", "language": "python", "policy": {"limits": {"fuel": 100_000_000}}});
    daemon.post("/v1/sessions", &small).ok();
    daemon.prints("small", "x = 'later'");
    let etag = || daemon.get("/v1/sessions/small").header("etag").unwrap().to_owned();
    let before = etag();
    let mut body = answers(0, "answer");
    (body["session"], body["suspended"], body["tools"]) =
        ("small".into(), json!({ "base64": BASE64_STANDARD.encode(&suspended.body) }), json!([{"name": "ask"}]));
    let stopped = ask(&daemon, "/v1/executions/resume", &[("if-match", &before)], &body);
    assert_eq!(stopped.ok()["outcome"]["kind"], "exhausted", "{stopped:?}");
    assert_eq!((stopped.header("etag"), etag()), (Some(&*before), before.clone()));
    assert_eq!(daemon.prints("small", "print(x)"), "later\n");
}

#[test]
fn state_of_the_daemons_session_counts_before_its_execution_is_suspended() {
    let daemon = TestDaemon::with(http(|http| http.body_bytes = 1 << 20));
    daemon.open("s");
    daemon.prints("s", "import random; y = random.randbytes(4_000_000)");
    let body = json!({"source": "tools.ask(q=1)", "tools": [{"name": "ask"}], "suspendable": true});
    let waiting = daemon.post("/v1/sessions/s/execute", &body);
    let execution = waiting.json()["execution"].as_str().unwrap().to_owned();
    let refused = daemon.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
    assert_eq!(refused.problem(), (409, "not-suspendable".into()), "{refused:?}");
    let done = daemon.post(&format!("/v1/executions/{execution}/continue"), &answers(0, "x"));
    assert_eq!(done.ok()["outcome"]["kind"], "completed", "{done:?}");
}
