//! Tests suspended executions in sessions. The client stores the executions as bytes.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::SessionKey;
use glovebox_server::TenantConfig;
use serde_json::{Value, json};

use super::support::{Answer, Server, Setup};

/// For each language: its name, a setup script, the script to suspend, and an expression for the result.
const SCRIPTS: [(&str, &str, &str, &str); 2] = [
    (
        "python",
        "import random\nx = ['before']",
        "x.append(str(random.random()))\nx.append(tools.ask(q=1))\nx.append(tools.ask(q=2))\nprint(x[0], x[2], x[3])",
        "' '.join(x)",
    ),
    (
        "javascript",
        "x = ['before']; 0",
        "x.push(String(Math.random())); x.push(await tools.ask({q: 1})); x.push(await tools.ask({q: 2}));\n\
         print(x[0], x[2], x[3])",
        "x.join(' ')",
    ),
];

fn setup() -> Setup {
    Setup { key: Some(SessionKey::new(&[7; 32]).unwrap()), ..Setup::default() }
}

fn open(server: &Server, id: &str, language: &str) {
    server.post("/v1/sessions", &json!({"id": id, "language": language})).ok();
}

fn execute(server: &Server, id: &str, source: &str) -> Value {
    server.post(&format!("/v1/sessions/{id}/execute"), &json!({ "source": source })).ok()
}

/// Starts a suspendable execution in a session and returns its ID.
fn start(server: &Server, id: &str, source: &str) -> String {
    let body = json!({"source": source, "tools": [{"name": "ask"}], "suspendable": true});
    waiting(&server.post(&format!("/v1/sessions/{id}/execute"), &body))
}

fn waiting(answer: &Answer) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["execution"].as_str().unwrap().to_owned()
}

fn suspend(server: &Server, execution: &str) -> Vec<u8> {
    let answer = server.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

fn etag(server: &Server, id: &str) -> String {
    server.get(&format!("/v1/sessions/{id}")).header("etag").unwrap().to_owned()
}

fn resumption(id: &str, bytes: &[u8], answers: &Value) -> Value {
    let suspended = BASE64_STANDARD.encode(bytes);
    json!({"session": id, "suspended": {"base64": suspended}, "answers": answers, "tools": [{"name": "ask"}]})
}

fn resume_if(server: &Server, etag: &str, body: &Value) -> Answer {
    server.ask("POST", "/v1/executions/resume", &[("if-match", etag)], body.to_string().as_bytes())
}

fn resume(server: &Server, id: &str, bytes: &[u8], answers: &Value) -> Answer {
    resume_if(server, &etag(server, id), &resumption(id, bytes, answers))
}

#[test]
fn execution_in_a_session_resumes_on_another_server() {
    let (one, two) = (json!([{"id": 0, "value": "one"}]), json!([{"id": 1, "value": "two"}]));
    for (language, first, source, result) in SCRIPTS {
        let server = Server::start(setup());
        open(&server, "s", language);
        execute(&server, "s", first);
        let bytes = suspend(&server, &start(&server, "s", source));
        let value = execute(&server, "s", result)["value"].clone();
        assert_eq!(value["json"], "before", "the session is in the state before the execution: {language}");
        let dir = server.stop(Duration::from_secs(5));

        let server = Server::start(Setup { dir: Some(dir), ..setup() });
        let execution = waiting(&resume(&server, "s", &bytes, &one));
        let second = suspend(&server, &execution);
        assert_eq!(execute(&server, "s", result)["value"]["json"], "before", "{language}");
        // A new session of the same runtime can receive the state, too.
        open(&server, "t", language);
        let mut results = Vec::new();
        for id in ["s", "t"] {
            let done = resume(&server, id, &second, &two);
            assert_eq!(done.ok()["stdout"], "before one two\n", "{language}: {done:?}");
            assert_eq!(done.header("etag").map(str::to_owned), Some(etag(&server, id)), "{language}");
            results.push(execute(&server, id, result)["value"]["json"].clone());
        }
        assert_eq!(results[0], results[1], "the random number is the recorded one: {language}");
        assert!(results[0].as_str().unwrap().starts_with("before 0."), "{language}: {results:?}");
        // The results are stored.
        let dir = server.stop(Duration::from_secs(5));
        let server = Server::start(Setup { dir: Some(dir), ..setup() });
        assert_eq!(execute(&server, "s", result)["value"]["json"], results[0], "{language}");
    }
}

#[test]
fn changed_session_is_not_replaced() {
    let server = Server::start(setup());
    open(&server, "s", "python");
    let path = format!("/v1/executions/{}/suspend", start(&server, "s", "x = tools.ask(q=1)"));
    let answers = [(); 2].map(|()| server.ask("POST", &path, &[("idempotency-key", "k")], b""));
    let old = etag(&server, "s");
    for answer in &answers {
        assert_eq!((answer.status, answer.header("etag")), (200, Some(&*old)), "{answer:?}");
    }
    let bytes = answers[0].body.clone();
    execute(&server, "s", "x = 'changed'");
    let body = resumption("s", &bytes, &json!([{"id": 0, "value": "answer"}]));
    assert_eq!(resume_if(&server, &old, &body).problem(), (412, "generation".into()));
    let unconditional = server.post("/v1/executions/resume", &body);
    assert_eq!(unconditional.problem(), (400, "invalid-argument".into()));
    assert!(unconditional.text().contains("`session` requires `If-Match`"), "{unconditional:?}");
    assert_eq!(execute(&server, "s", "x")["value"]["json"], "changed");
    resume_if(&server, "*", &body).ok();
    assert_eq!(execute(&server, "s", "x")["value"]["json"], "answer");
}

#[test]
fn session_keeps_its_state_if_a_resumption_is_refused() {
    let server = Server::start(setup());
    open(&server, "s", "python");
    let bytes = suspend(&server, &start(&server, "s", "x = tools.ask(q=1)"));
    execute(&server, "s", "x = 'later'");
    let before = etag(&server, "s");
    let mut body = resumption("s", &bytes, &json!([{"id": 0, "value": "answer"}]));
    body["tools"][0]["name"] = json!("other");
    assert_eq!(resume_if(&server, "*", &body).problem(), (409, "diverged".into()));
    assert_eq!(etag(&server, "s"), before);
    let unknown = resume(&server, "s", &bytes, &json!([{"id": 7, "value": "answer"}]));
    assert!((400..500).contains(&unknown.status), "{unknown:?}");
    assert_eq!(etag(&server, "s"), before);
    assert_eq!(execute(&server, "s", "x")["value"]["json"], "later");
    resume(&server, "s", &bytes, &json!([{"id": 0, "value": "answer"}])).ok();
    assert_eq!(execute(&server, "s", "x")["value"]["json"], "answer");
}

#[test]
fn session_keeps_its_state_if_a_limit_stops_the_repeated_steps() {
    let source = "for _ in range(300_000): pass\nx = tools.ask(q=1)";
    let server = Server::start(setup());
    open(&server, "s", "python");
    let bytes = suspend(&server, &start(&server, "s", source));
    let body = json!({"source": source, "tools": [{"name": "ask"}], "suspend": true});
    let stored = server.post("/v1/sessions/s/execute", &body);
    assert_eq!(stored.status, 202, "{stored:?}");
    let path = format!("/v1/suspended/{}", stored.json()["id"].as_str().unwrap());
    execute(&server, "s", "x = 'later'");
    let dir = server.stop(Duration::from_secs(5));

    let answers = json!([{"id": 0, "value": "answer"}]);
    let answered = json!({ "answers": answers }).to_string();
    let resume_stored = |server: &Server| server.ask("POST", &path, &[("if-match", "*")], answered.as_bytes());
    let change = |tenant: &mut TenantConfig| tenant.policy.limits.fuel = 100_000_000;
    let server = Server::start(Setup { dir: Some(dir), tenant: Some(Box::new(change)), ..setup() });
    let before = etag(&server, "s");
    for stopped in [resume(&server, "s", &bytes, &answers), resume_stored(&server)] {
        assert_eq!(stopped.ok()["outcome"]["kind"], "exhausted", "{stopped:?}");
        assert_eq!(stopped.header("etag"), Some(&*before));
    }
    assert_eq!(etag(&server, "s"), before);
    assert_eq!(execute(&server, "s", "x")["value"]["json"], "later");
    let dir = server.stop(Duration::from_secs(5));

    // Both executions can still be resumed.
    let server = Server::start(Setup { dir: Some(dir), ..setup() });
    for resumed in [resume(&server, "s", &bytes, &answers), resume_stored(&server)] {
        assert_eq!(resumed.ok()["outcome"]["kind"], "completed", "{resumed:?}");
        assert_eq!(execute(&server, "s", "x")["value"]["json"], "answer");
    }
}

#[test]
fn execution_is_resumed_only_where_it_ran() {
    let server = Server::start(setup());
    open(&server, "s", "python");
    open(&server, "js", "javascript");
    let bytes = suspend(&server, &start(&server, "s", "x = tools.ask(q=1)"));
    let mut body = resumption("s", &bytes, &json!([]));
    body.as_object_mut().unwrap().remove("session");
    let fresh = server.post("/v1/executions/resume", &body);
    assert_eq!(fresh.problem(), (400, "invalid-argument".into()));
    assert!(fresh.text().contains("was suspended in a session"), "{fresh:?}");
    assert_eq!(resume(&server, "js", &bytes, &json!([])).problem(), (409, "not-resumable".into()));
    assert_eq!(resume_if(&server, "*", &resumption("none", &bytes, &json!([]))).problem(), (404, "not-found".into()));
    let mut body = resumption("s", &bytes, &json!([]));
    body["files"] = json!({"given": "file"});
    assert_eq!(resume_if(&server, "*", &body).problem(), (400, "invalid-argument".into()));

    let request = json!({
        "language": "python", "source": "tools.ask(q=1)", "tools": [{"name": "ask"}], "suspendable": true,
    });
    let outside = suspend(&server, &waiting(&server.post("/v1/execute", &request)));
    let refused = resume(&server, "s", &outside, &json!([]));
    assert_eq!(refused.problem(), (400, "invalid-argument".into()));
    assert!(refused.text().contains("was suspended outside a session"), "{refused:?}");
    // The session is still usable.
    assert_eq!(execute(&server, "s", "1 + 1")["value"]["json"], 2);
}
