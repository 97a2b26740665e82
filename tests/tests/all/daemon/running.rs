//! Tests events while a script runs: tool calls to the client, cancellation, output and disconnected clients.

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::Policy;
use serde_json::{Value, json};

use super::support::{Answer, LINES, Setup, TestDaemon, tenant, until};
use crate::server::{limit_scripts::STOPPED, type_checks::MarkChecker};

/// Returns a daemon whose scripts may run for ten minutes.
fn patient() -> TestDaemon {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.tool_timeout_ms) = (600_000, 600_000);
    TestDaemon::with(tenant(|tenant| tenant.policy = policy))
}

/// Returns the definitions of the functions that query models.
fn queries() -> Value {
    json!([
        {"name": "llm_query", "schema": {"properties": {"prompt": {"type": "string"}}, "required": ["prompt"]}},
        {"name": "rlm_query", "schema": {"properties": {"task": {"type": "string"}, "ctx": {}}, "required": ["task", "ctx"]}},
    ])
}

/// Returns the only call of a suspended execution, and the path at which to answer it.
fn call(answer: &Answer) -> (Value, String) {
    assert_eq!(answer.status, 202, "{answer:?}");
    let needs = answer.json();
    let [call] = needs["calls"].as_array().unwrap().as_slice() else { panic!("{needs}") };
    (call.clone(), format!("/v1/executions/{}/continue", needs["execution"].as_str().unwrap()))
}

fn reply(daemon: &TestDaemon, path: &str, call: &Value, value: Value) -> Answer {
    daemon.post(path, &json!({"answers": [{"id": call["id"], "value": value}]}))
}

#[test]
fn scripts_query_models_of_the_client() {
    let daemon = patient();
    daemon.post("/v1/sessions", &json!({"id": "s", "context": ["the", "context"]})).ok();
    let source = "print(llm_query('why?'))\nprint(rlm_query('sum up'))\nprint(rlm_query('other', {'a': 1}))";
    let answer = daemon.post("/v1/sessions/s/execute", &json!({"source": source, "tools": queries()}));
    let (first, path) = call(&answer);
    assert_eq!((&first["name"], &first["arguments"]), (&json!("llm_query"), &json!({"prompt": "why?"})));
    let (second, _) = call(&reply(&daemon, &path, &first, json!("because")));
    let expected = json!({"task": "sum up", "ctx": ["the", "context"]});
    assert_eq!((&second["name"], &second["arguments"]), (&json!("rlm_query"), &expected));
    let (third, _) = call(&reply(&daemon, &path, &second, json!({"n": [1]})));
    assert_eq!(third["arguments"]["ctx"], json!({"a": 1}));
    let result = daemon.post(&path, &json!({"answers": [{"id": third["id"], "error": "no budget"}]})).ok();
    assert_eq!(result["stdout"], "because\n{'n': [1]}\n");
    assert!(result["outcome"]["message"].as_str().unwrap().contains("no budget"), "{result}");
    assert_eq!(result["tool_calls"].as_array().unwrap().len(), 3);
}

#[test]
fn types_are_checked_before_a_script_runs_in_a_session() {
    let checker = Arc::<MarkChecker>::default();
    let daemon = TestDaemon::with(Setup { service: checker.service(), ..Setup::default() });
    daemon.open("s");
    let run = |source: &str| {
        daemon.post("/v1/sessions/s/execute", &json!({"source": source, "check_types": true, "tools": queries()}))
    };
    assert_eq!(run("x = 1").ok()["outcome"]["kind"], "completed");
    assert_eq!(run("x = 2\nx # wrong").problem(), (422, "type-errors".into()));
    assert_eq!(daemon.prints("s", "print(x)"), "1\n");
    let checked = checker.checked.lock().unwrap();
    assert!(checked.iter().all(|(tools, _)| tools.len() == 2), "{checked:?}");
    let variables: Vec<_> = checked.iter().map(|(_, variables)| variables.clone()).collect();
    assert_eq!(variables, [Some(Vec::new()), Some(vec!["x".to_owned()])]);
}

#[test]
fn unanswered_tool_call_times_out() {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.tool_timeout_ms) = (600_000, 300);
    let daemon = TestDaemon::with(tenant(|tenant| tenant.policy = policy));
    daemon.open("s");
    let source = "try:\n  llm_query('anybody?')\nexcept Exception as e:\n  print(type(e).__name__)";
    let begun = Instant::now();
    let mut answer = daemon.post("/v1/sessions/s/execute", &json!({"source": source, "tools": queries()}));
    // On a slow machine, the first answer can arrive after the timeout.
    if answer.status == 202 {
        let (_, path) = call(&answer);
        until("it ends", || {
            answer = daemon.post(&path, &json!({}));
            answer.status != 202 && answer.status != 409
        });
    }
    assert_eq!(answer.ok()["stdout"], "ToolTimeout\n");
    assert!(begun.elapsed() > Duration::from_millis(300));
    assert_eq!(daemon.prints("s", "print(1)"), "1\n", "the session stays usable");
}

#[test]
fn execution_is_cancelled_by_its_id_and_the_session_lives_on() {
    let daemon = patient();
    daemon.open("s");
    daemon.prints("s", "x = 1");
    let path = "/v1/sessions/s/execute";
    let (mut running, execution) =
        daemon.stream(path, &json!({"source": "print('here', flush=True)\nwhile True: pass"}));
    assert_eq!(running.next().unwrap()["text"], "here\n");
    let (queued, waiting) = daemon.stream(path, &json!({"source": "print('never')"}));
    let cancel = |execution: &str| daemon.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"");
    assert_eq!(cancel(&waiting).status, 204);
    let problem = queued.last().unwrap()["problem"].take();
    assert_eq!(problem["type"], "cancelled", "a cancelled request in the queue must not start: {problem}");
    assert_eq!(cancel("12345").problem(), (404, "not-found".into()));
    let begun = Instant::now();
    assert_eq!(cancel(&execution).status, 204);
    let result = running.last().unwrap()["result"].take();
    assert_eq!((&result["outcome"]["kind"], &result["stdout"]), (&json!("cancelled"), &json!("here\n")));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(daemon.prints("s", "print(x)"), "1\n");
}

#[test]
fn cancellation_ends_a_wait_for_the_client() {
    let daemon = patient();
    daemon.open("s");
    let body = json!({"source": "print('asked')\nllm_query('why?')", "tools": queries()});
    let (chunks, execution) = daemon.stream("/v1/sessions/s/execute", &body);
    assert_eq!(chunks.last().unwrap()["type"], "needs-tools");
    let cancelled = daemon.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").ok();
    assert_eq!((&cancelled["outcome"]["kind"], &cancelled["stdout"]), (&json!("cancelled"), &json!("asked\n")));
    assert_eq!(daemon.prints("s", "print(1)"), "1\n", "the session is free");
}

#[test]
fn output_is_streamed_on_request() {
    let daemon = patient();
    daemon.open("s");
    let source = "import sys\nprint('one', flush=True)\nprint('e', file=sys.stderr)\nllm_query('go on?')\nprint('ü')";
    let (chunks, execution) = daemon.stream("/v1/sessions/s/execute", &json!({"source": source, "tools": queries()}));
    let pieces: Vec<Value> = chunks.collect();
    let text = |name: &str| -> String {
        pieces.iter().filter(|piece| piece["type"] == name).map(|piece| piece["text"].as_str().unwrap()).collect()
    };
    assert_eq!((text("stdout").as_str(), text("stderr").as_str()), ("one\n", "e\n"));
    assert_eq!(pieces.last().unwrap()["type"], "needs-tools", "output is streamed before the execution ends");
    let path = format!("/v1/executions/{execution}/continue");
    let done = daemon.ask("POST", &path, &[LINES], br#"{"answers": [{"id": 0, "value": "yes"}]}"#).text();
    let pieces: Vec<Value> = done.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(pieces[0], json!({"type": "stdout", "text": "ü\n"}));
    assert_eq!(pieces.last().unwrap()["result"]["stdout"], "one\nü\n");
}

#[test]
fn output_before_a_limit_is_returned_and_streamed() {
    let daemon = TestDaemon::new();
    for (id, script) in STOPPED.iter().enumerate() {
        let opened = json!({"id": id.to_string(), "language": script.language, "policy": script.policy()});
        daemon.post("/v1/sessions", &opened).ok();
        let path = format!("/v1/sessions/{id}/execute");
        let body = json!({"source": script.source});
        script.check(&daemon.post(&path, &body).ok());
        script.check_streamed(&daemon.ask("POST", &path, &[LINES], body.to_string().as_bytes()).text());
    }
}

#[test]
fn disconnecting_cancels_the_clients_executions() {
    let daemon = patient();
    daemon.open("s");
    let endless = br#"{"source": "while True: pass"}"#;
    for headers in [&[][..], &[LINES][..]] {
        let in_session = daemon.begin("POST", "/v1/sessions/s/execute", headers, endless);
        let fresh = daemon.begin("POST", "/v1/execute", headers, endless);
        let queued = daemon.begin("POST", "/v1/sessions/s/execute", headers, endless);
        until("both run", || daemon.executing() == 2);
        let begun = Instant::now();
        drop((in_session, fresh, queued));
        until("nothing runs", || daemon.executing() == 0);
        assert!(begun.elapsed() < Duration::from_secs(60), "the limit is ten minutes");
    }
    assert_eq!(daemon.prints("s", "print(1)"), "1\n", "the session outlives its clients");
}

#[test]
fn stopping_daemon_ends_executions_first() {
    let mut daemon = TestDaemon::new();
    daemon.open("s");
    let source = br#"{"source": "import time; time.sleep(1); print('last')"}"#;
    let mut running = daemon.begin("POST", "/v1/sessions/s/execute", &[], source);
    until("it runs", || daemon.executing() == 1);
    daemon.stop(Duration::from_secs(30));
    until("the socket is closed", || std::os::unix::net::UnixStream::connect(&daemon.socket).is_err());
    assert_eq!(Answer::read(&mut running).ok()["stdout"], "last\n");
    assert_eq!(running.read(&mut [0]).unwrap(), 0);
    assert!(daemon.has_stopped());
    assert!(!daemon.socket.exists());
}
