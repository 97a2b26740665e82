//! Tests the operations on sessions in memory.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::Policy;
use serde_json::{Value, json};

use super::support::{TestDaemon, tenant, until};

#[test]
fn a_session_has_its_context_and_keeps_its_variables() {
    let daemon = TestDaemon::new();
    let opened = daemon.post("/v1/sessions", &json!({"id": "s", "context": {"title": "Moby Dick"}})).ok();
    assert_eq!((&opened["language"], &opened["live"]["executions"]), (&json!("python"), &json!(0)));
    let execute = |source: &str| daemon.post("/v1/sessions/s/execute", &json!({ "source": source })).ok();
    let result = execute("import sys\nprint(context['title'])\nprint('bad', file=sys.stderr)\nx = 20");
    assert_eq!((&result["stdout"], &result["stderr"]), (&json!("Moby Dick\n"), &json!("bad\n")));
    assert_eq!((&result["success"], &result["session_id"]), (&json!(true), &json!("s")));
    let failed = execute("x = x + 1\nraise ValueError('test')");
    assert_eq!((&failed["outcome"]["kind"], &failed["outcome"]["message"]), (&json!("raised"), &json!("test")));
    let variable = |name: &str| daemon.get(&format!("/v1/sessions/s/variables/{name}"));
    assert_eq!(variable("x").ok(), json!({"repr": "21", "value": 21}));
    assert_eq!(variable("nothing").problem(), (404, "no-variable".into()));
    let opaque = variable("sys").ok();
    assert!(opaque.get("value").is_none() && opaque["repr"].as_str().unwrap().contains("module"), "{opaque}");
    assert_eq!(daemon.ask("PUT", "/v1/sessions/s/variables/x", &[], b"[1, {\"a\": null}]").status, 204);
    assert_eq!(daemon.prints("s", "print(x)"), "[1, {'a': None}]\n");
    let described = daemon.get("/v1/sessions/s").ok();
    assert_eq!((&described["executions"], &described["live"]["ended"]), (&json!(3), &Value::Null));
}

#[test]
fn failed_commit_changes_the_generation() {
    let host = tempfile::tempdir().unwrap();
    let mut policy = Policy::default();
    policy.workspace = Some(host.path().to_owned());
    let daemon = TestDaemon::with(tenant(|tenant| tenant.policy = policy));
    daemon.open("s");
    let generation = || daemon.get("/v1/sessions/s").ok()["generation"].clone();
    // Files with this prefix are reserved, so they are not committed.
    let source = "n = globals().get('n', 0) + 1; open('.glovebox-commit-x', 'w').close()";
    for body in [json!({"source": source}), json!({"source": source, "tools": [{"name": "ask"}]})] {
        let before = generation();
        let failed = daemon.post("/v1/sessions/s/execute", &body);
        assert_eq!(failed.problem(), (503, "unavailable".into()), "{failed:?}");
        assert_ne!(generation(), before, "{body}: the script has run");
    }
    assert_eq!(daemon.prints("s", "import os; os.remove('.glovebox-commit-x'); print(n)"), "2\n");
}

#[test]
fn per_execution_inputs_apply() {
    let daemon = TestDaemon::new();
    daemon.open("s");
    let execute = |body: Value| daemon.post("/v1/sessions/s/execute", &body).ok();
    let given = json!({"source": "print(input(), context)", "stdin": "line\nmore", "context": 7});
    assert_eq!(execute(given)["stdout"], "line 7\n");
    let source = "import sys; b = sys.stdin.buffer.read(); sys.stdout.buffer.write(b)";
    let result = execute(json!({"source": source, "stdin": {"base64": "AP8="}}));
    assert_eq!((&result["stdout"], &result["stdout_base64"]), (&json!("\0\u{fffd}"), &json!("AP8=")));
    let named = execute(json!({"source": "1/0", "name": "mine.py"}));
    assert!(named["outcome"]["traceback"].as_str().unwrap().contains("mine.py"));
    let late = execute(json!({"source": "while True: pass", "deadline_ms": 200}));
    assert_eq!(late["outcome"]["kind"], "cancelled");
    let tools = json!([{"name": "ask"}]);
    let answer = daemon.post("/v1/sessions/s/execute", &json!({"source": "print(tools.ask())", "tools": tools}));
    assert_eq!(answer.status, 202);
    let path = format!("/v1/executions/{}/continue", answer.json()["execution"].as_str().unwrap());
    assert_eq!(daemon.post(&path, &json!({"answers": [{"id": 0, "value": 5}]})).ok()["stdout"], "5\n");
    assert_eq!(daemon.prints("s", "print(hasattr(tools, 'ask'))"), "False\n", "tools belong to one request");
}

#[test]
fn session_policy_narrows_the_granted_policy() {
    let daemon = TestDaemon::new();
    let open = |id: &str, policy: Value| daemon.post("/v1/sessions", &json!({"id": id, "policy": policy}));
    open("s", json!({"limits": {"timeout_ms": 2_000}, "env": {"K": "v"}})).ok();
    let endless = |id: &str| {
        daemon.post(&format!("/v1/sessions/{id}/execute"), &json!({"source": "while True: pass"})).ok()["outcome"]
            .clone()
    };
    assert_eq!((&endless("s")["resource"], &endless("s")["limit"]), (&json!("time"), &json!(2_000)));
    assert_eq!(daemon.prints("s", "import os; print(os.environ['K'])"), "v\n");
    // Forks and resumed sessions keep their limits, and a resumed session has the policy of the request.
    daemon.post("/v1/sessions/s/fork", &json!({"id": "fork"})).ok();
    assert_eq!(endless("fork")["limit"], 2_000);
    let state = BASE64_STANDARD.encode(&daemon.get("/v1/sessions/s/state").body);
    let policy = json!({"limits": {"timeout_ms": 400}});
    daemon.post("/v1/sessions", &json!({"id": "resumed", "state": {"base64": state}, "policy": policy})).ok();
    assert_eq!(endless("resumed")["limit"], 400);
    let refused = open("t", json!({"limits": {"timeout_ms": 999_999_999}}));
    assert_eq!(refused.problem(), (400, "invalid-policy".into()));
    let refused = open("t", json!({"workspace": "/etc"}));
    assert_eq!(refused.problem(), (400, "invalid-policy".into()));
    assert!(refused.text().contains("`policy.workspace` cannot be set"), "{refused:?}");
    assert_eq!(daemon.get("/v1/sessions/t").problem(), (404, "not-found".into()));
}

#[test]
fn sessions_in_both_languages_are_independent() {
    let daemon = TestDaemon::new();
    daemon.post("/v1/sessions", &json!({"id": "p", "language": "python", "context": "python"})).ok();
    daemon.post("/v1/sessions", &json!({"id": "j", "language": "javascript", "context": "js"})).ok();
    assert_eq!(daemon.prints("j", "console.log(context)"), "js\n");
    assert_eq!(daemon.prints("p", "print(context)"), "python\n");
    let ids = |query: &str| -> Vec<String> {
        let page = daemon.get(&format!("/v1/sessions{query}")).ok();
        page["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (ids(""), ids("?limit=1"), ids("?after=j")),
        (vec!["j".into(), "p".into()], vec!["j".into()], vec!["p".into()])
    );
    assert_eq!(daemon.get("/v1/sessions?limit=1").ok()["next"], "j");
    assert_eq!(daemon.ask("DELETE", "/v1/sessions/j", &[], b"").status, 204);
    let gone = daemon.post("/v1/sessions/j/execute", &json!({"source": "1"}));
    assert_eq!(gone.problem(), (404, "not-found".into()));
    assert_eq!(daemon.prints("p", "print(context)"), "python\n");
}

#[test]
fn fresh_execution_does_not_affect_sessions() {
    let daemon = TestDaemon::new();
    let files = json!({"in.txt": "given"});
    daemon.post("/v1/sessions", &json!({"id": "s", "files": files})).ok();
    let source = "open('out.txt', 'w').write(open('in.txt').read() + '!')\nx = 1";
    let body =
        json!({"source": source, "files": files, "policy": {"limits": {"timeout_ms": 9_000}}, "return_files": ["**"]});
    let result = daemon.post("/v1/execute", &body).ok();
    assert_eq!(result["files"]["out.txt"], "Z2l2ZW4h");
    assert_eq!(result["file_entries"].as_array().unwrap().len(), 2);
    assert_eq!(result["files_created"], json!(["out.txt"]));
    assert_eq!(daemon.get("/v1/sessions/s/variables/x").problem(), (404, "no-variable".into()));
    assert_eq!(daemon.prints("s", "import os; print(os.listdir('.'))"), "['in.txt']\n");
}

#[test]
fn session_supports_files_checkpoints_forks_and_bytes() {
    let daemon = TestDaemon::new();
    daemon.open("s");
    let files = "/v1/sessions/s/files";
    assert_eq!(daemon.ask("PUT", &format!("{files}/d/a.txt"), &[], b"text").status, 204);
    assert_eq!(daemon.get(&format!("{files}?pattern=**/*.txt")).ok()["files"][0]["path"], "d/a.txt");
    assert_eq!(daemon.get(&format!("{files}/d/a.txt")).body, b"text");
    assert_eq!(daemon.ask("DELETE", &format!("{files}/d?recursive=true"), &[], b"").status, 204);
    assert_eq!(daemon.get(&format!("{files}/d/a.txt")).problem(), (422, "file".into()));
    daemon.prints("s", "import os; open('big', 'wb').write(b'x' * (33 << 20)); os.symlink('big', 'link')");
    for name in ["big", "link"] {
        assert_eq!(daemon.get(&format!("{files}/{name}")).problem(), (413, "too-large".into()), "{name}");
        let piece = daemon.ask("GET", &format!("{files}/{name}"), &[("range", "bytes=33554432-")], b"");
        assert_eq!((piece.status, piece.body.len()), (206, 1 << 20), "a large file is read in ranges");
        assert_eq!(piece.header("content-range"), Some("bytes 33554432-34603007/34603008"), "{name}");
        let beyond = daemon.ask("GET", &format!("{files}/{name}"), &[("range", "bytes=34603008-")], b"");
        assert_eq!(beyond.problem(), (416, "range".into()), "{name}");
    }
    daemon.prints("s", "os.remove('big'); os.remove('link'); x = 1");
    let checkpoint = daemon.ask("POST", "/v1/sessions/s/checkpoint", &[], b"").ok()["checkpoint"].clone();
    daemon.prints("s", "x = 2");
    let state = daemon.get("/v1/sessions/s/state").body;
    let undone = daemon.post("/v1/sessions/s/undo", &json!({ "checkpoint": checkpoint })).ok();
    assert_eq!(undone["checkpoint"], checkpoint);
    assert_eq!(daemon.prints("s", "print(x)"), "1\n");
    assert!(!daemon.get("/v1/sessions/s/checkpoints").ok()["checkpoints"].as_array().unwrap().is_empty());
    daemon.post("/v1/sessions/s/fork", &json!({"id": "t"})).ok();
    assert_eq!(daemon.ask("PUT", "/v1/sessions/t/variables/context", &[], b"\"forked\"").status, 204);
    assert_eq!(daemon.prints("t", "x += 5; print(x, context)"), "6 forked\n");
    assert_eq!(daemon.prints("s", "print(x)"), "1\n");
    assert_eq!(daemon.ask("PUT", "/v1/sessions/u", &[], &state).status, 201);
    assert_eq!(daemon.prints("u", "print(x)"), "2\n");
    for (id, status, kind) in [("u", 409, "exists"), ("v", 409, "not-resumable")] {
        let refused = daemon.ask("PUT", &format!("/v1/sessions/{id}"), &[], &[0; 3]);
        assert_eq!(refused.problem(), (status, kind.to_owned()), "{id}");
    }
    let refused = daemon.ask("POST", "/v1/sessions/s/hibernate", &[], b"");
    assert_eq!(refused.problem(), (422, "unsupported".into()), "the session is only in memory");
    assert_eq!(daemon.post("/v1/validate", &json!({"source": "x = ("})).ok()["diagnostics"][0]["line"], 1);
}

#[test]
fn session_has_its_files_even_if_its_client_disconnects() {
    let daemon = TestDaemon::new();
    for pause_ms in 0..16 {
        let body = json!({"id": format!("s{pause_ms}"), "files": {"in.txt": "given"}}).to_string();
        let request = daemon.begin("POST", "/v1/sessions", &[], body.as_bytes());
        std::thread::sleep(Duration::from_millis(pause_ms));
        drop(request);
    }
    // Waits for sessions that the server is still opening. If a client disconnected early enough, its session does not
    // exist.
    std::thread::sleep(Duration::from_secs(1));
    until("all sessions have their files", || {
        let page = daemon.get("/v1/sessions").ok();
        let mut ids = page["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap());
        ids.all(|id| daemon.get(&format!("/v1/sessions/{id}/files/in.txt")).status == 200)
    });
}

#[test]
fn changes_are_conditional_on_the_generation() {
    let daemon = TestDaemon::new();
    daemon.open("s");
    let etag = daemon.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    let execute = |etag: &str| {
        daemon.ask(
            "POST",
            "/v1/sessions/s/execute",
            &[("if-match", etag)],
            br#"{"source": "n = globals().get('n', 0) + 1"}"#,
        )
    };
    let next = execute(&etag).header("etag").unwrap().to_owned();
    assert_eq!(execute(&etag).problem(), (412, "generation".into()));
    let written = daemon.ask("PUT", "/v1/sessions/s/variables/m", &[("if-match", &next)], b"1");
    assert_eq!((written.status, written.header("etag").is_some_and(|new| new != next)), (204, true));
    let closing = daemon.ask("DELETE", "/v1/sessions/s", &[("if-match", &next)], b"");
    assert_eq!(closing.problem(), (412, "generation".into()));
    assert_eq!(daemon.prints("s", "print(n, m)"), "1 1\n");
}

#[test]
fn ended_session_tells_the_reason_until_it_is_closed() {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.timeout_reserve_ms) = (300, 0);
    let daemon = TestDaemon::with(tenant(|tenant| tenant.policy = policy));
    let policy = json!({"session": {"on_unwind": "end"}});
    daemon.post("/v1/sessions", &json!({"id": "s", "policy": policy})).ok();
    daemon.post("/v1/sessions/s/execute", &json!({"source": "while True: pass"})).ok();
    for _ in 0..2 {
        let refused = daemon.post("/v1/sessions/s/execute", &json!({"source": "1"}));
        assert_eq!(refused.problem(), (410, "session-ended".into()));
    }
    assert!(daemon.get("/v1/sessions/s").ok()["live"]["ended"].is_string());
    assert_eq!(daemon.ask("DELETE", "/v1/sessions/s", &[], b"").status, 204);
    assert_eq!(daemon.get("/v1/sessions/s").problem(), (404, "not-found".into()));
}

#[test]
fn new_session_is_unaffected_by_earlier_ones() {
    let daemon = TestDaemon::new();
    for round in 0..5 {
        let opened = daemon.post("/v1/sessions", &json!({ "context": round })).ok();
        let id = opened["id"].as_str().unwrap();
        assert_eq!(daemon.prints(id, "print(context, 'x' in globals()); x = 1"), format!("{round} False\n"));
    }
    assert_eq!(daemon.get("/v1/info").ok()["sessions"], 5);
    assert_eq!(std::fs::read_dir(daemon.dir.path()).unwrap().count(), 2, "only the socket and its lock");
}
