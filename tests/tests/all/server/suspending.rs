//! Tests suspended executions that the client stores as bytes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{SessionKey, Tool};
use glovebox_server::{TenantConfig, http::HttpConfig};
use serde_json::{Value, json};

use super::support::{Answer, LINES, Server, Setup, metric, until};

const OTHER: &str = "the other token";

/// Scripts that receive a file, times and random numbers, and call a tool twice.
const SCRIPTS: [(&str, &str); 2] = [
    (
        "python",
        "import random, time\nprint(random.random(), time.time_ns())\nprint(tools.ask(q=1), open('given').read())\nprint(tools.ask(q=2))",
    ),
    (
        "javascript",
        "const fs = require('fs');\nprint(Math.random(), Date.now());\nprint(await tools.ask({q: 1}), fs.readFileSync('given', 'utf8'));\nprint(await tools.ask({q: 2}));",
    ),
];

fn setup() -> Setup {
    Setup { other: Some(OTHER), key: Some(SessionKey::new(&[7; 32]).unwrap()), ..Setup::default() }
}

/// Returns a suspendable request.
fn request(language: &str, source: &str) -> Value {
    json!({
        "language": language, "source": source, "tools": [{"name": "ask"}], "files": {"given": "file"},
        "suspendable": true,
    })
}

/// Returns the ID and the calls of an execution that waits for answers.
fn waiting(answer: &Answer) -> (String, Value) {
    assert_eq!(answer.status, 202, "{answer:?}");
    let answer = answer.json();
    (answer["execution"].as_str().unwrap().to_owned(), answer["calls"].clone())
}

fn suspend(server: &Server, execution: &str) -> Answer {
    server.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"")
}

/// Starts an execution and suspends it at its first wait.
fn suspended(server: &Server, request: &Value) -> Vec<u8> {
    let (execution, _) = waiting(&server.post("/v1/execute", request));
    bytes(&suspend(server, &execution))
}

fn bytes(answer: &Answer) -> Vec<u8> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/octet-stream")), "{answer:?}");
    answer.body.clone()
}

/// Returns a request that resumes an execution.
fn resumption(bytes: &[u8], answers: &Value) -> Value {
    json!({
        "suspended": {"base64": BASE64_STANDARD.encode(bytes)}, "answers": answers, "tools": [{"name": "ask"}],
        "files": {"given": "file"},
    })
}

fn resume(server: &Server, bytes: &[u8], answers: &Value) -> Answer {
    server.post("/v1/executions/resume", &resumption(bytes, answers))
}

/// Returns a server without a key, with `bodies_bytes` of memory for requests and responses.
fn with_memory(bodies_bytes: usize) -> Server {
    let http = HttpConfig { bodies_bytes, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    Server::start(Setup { http, ..Setup::default() })
}

fn go_on(server: &Server, execution: &str, answers: &Value) -> Answer {
    server.post(&format!("/v1/executions/{execution}/continue"), &json!({ "answers": answers }))
}

#[test]
fn suspended_execution_resumes_on_another_server() {
    let (one, two) = (json!([{"id": 0, "value": "one"}]), json!([{"id": 1, "value": "two"}]));
    for (language, source) in SCRIPTS {
        let server = Server::start(setup());
        let (execution, calls) = waiting(&server.post("/v1/execute", &request(language, source)));
        let first = bytes(&suspend(&server, &execution));
        assert_eq!(
            go_on(&server, &execution, &one).problem(),
            (404, "not-found".into()),
            "the server has forgotten it"
        );
        let suspended = server.audited();
        assert_eq!((suspended.len(), &suspended[0]["outcome"]), (1, &json!("suspended")), "{suspended:?}");
        let dir = server.stop(Duration::from_secs(5));

        let server = Server::start(Setup { dir: Some(dir), ..setup() });
        let (unanswered, same) = waiting(&resume(&server, &first, &json!([])));
        assert_eq!(same, calls, "{language}");
        server.ask("DELETE", &format!("/v1/executions/{unanswered}"), &[], b"").ok();
        // The script can be suspended at each call.
        let (execution, next) = waiting(&resume(&server, &first, &one));
        assert_eq!((&next[0]["id"], &next[0]["arguments"]), (&json!(1), &json!({"q": 2})), "{language}");
        let second = bytes(&suspend(&server, &execution));
        let done = resume(&server, &second, &two).ok();
        let lines: Vec<_> = done["stdout"].as_str().unwrap().lines().collect();
        assert_eq!((lines.len(), &lines[1..]), (3, &["one file", "two"][..]), "{language}: {done}");
        assert_eq!(done["tool_calls"].as_array().unwrap().len(), 2, "{language}: {done}");
        // The script receives the same times and random numbers each time.
        let (execution, _) = waiting(&resume(&server, &first, &one));
        assert_eq!(go_on(&server, &execution, &two).ok()["stdout"], done["stdout"], "{language}");
        // The audit log links the executions.
        let lines = server.audited();
        assert_eq!(lines[0]["resumed_sha256"], suspended[0]["suspended_sha256"], "{lines:?}");
        let source = &suspended[0]["source_sha256"];
        assert!(source.is_string() && lines.iter().all(|line| line["source_sha256"] == *source), "{lines:?}");
        let outcomes: Vec<_> = lines.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, ["cancelled", "suspended", "completed", "completed"], "{language}");
        assert_eq!(metric(&server, "glovebox_running"), 0);
    }
}

#[test]
fn suspended_call_can_be_answered_in_several_ways() {
    let change: Box<dyn FnOnce(&mut TenantConfig)> = Box::new(|tenant| tenant.suspended = 1);
    let server = Server::start(Setup { tenant: Some(change), ..setup() });
    let source = "try: print('got', tools.ask(q=1))\nexcept tools.ToolError as error: print('no:', error)\nopen('out', 'w').write('x')";
    let bytes = suspended(&server, &request("python", source));
    for (answer, printed) in [
        (json!({"id": 0, "value": "yes"}), "got yes\n"),
        (json!({"id": 0, "value": null}), "got None\n"),
        (json!({"id": 0, "error": "not today"}), "no: not today\n"),
    ] {
        // An invalid answer ends the resumed execution, so it does not count as suspended.
        let invalid = resume(&server, &bytes, &json!([{"id": 7, "value": 1}]));
        assert_eq!(invalid.problem(), (400, "invalid-argument".into()));
        let mut body = resumption(&bytes, &json!([answer]));
        body["return_files"] = json!(["*"]);
        let done = server.post("/v1/executions/resume", &body).ok();
        assert_eq!((&done["stdout"], &done["files"]["out"]), (&json!(printed), &json!("eA==")), "{done}");
    }
}

#[test]
fn retry_with_a_key_returns_the_same_bytes() {
    let server = Server::start(setup());
    let (execution, _) = waiting(&server.post("/v1/execute", &request("python", "print(tools.ask(q=1))")));
    let path = format!("/v1/executions/{execution}/suspend");
    let [first, second] = [(); 2].map(|()| server.ask("POST", &path, &[("idempotency-key", "k")], b""));
    assert_eq!(bytes(&first), bytes(&second));
    assert_eq!(suspend(&server, &execution).problem(), (404, "not-found".into()), "a request without the key");
    let done = resume(&server, &bytes(&second), &json!([{"id": 0, "value": "x"}]));
    assert_eq!(done.ok()["stdout"], "x\n");
    // A request that failed can be repeated with its key.
    let mut plain = request("python", "tools.ask(q=1)");
    plain["suspendable"] = json!(false);
    let (execution, _) = waiting(&server.post("/v1/execute", &plain));
    let path = format!("/v1/executions/{execution}/suspend");
    for _ in 0..2 {
        let refused = server.ask("POST", &path, &[("idempotency-key", "l")], b"");
        assert_eq!(refused.problem(), (409, "not-suspendable".into()));
    }
}

#[test]
fn suspension_with_a_key_needs_memory_to_store_the_bytes() {
    // The server reserves 2 MiB for the journal. An eighth of the memory is for stored responses.
    let server = with_memory(12 << 20);
    let (execution, _) = waiting(&server.post("/v1/execute", &request("python", "print(tools.ask(q=1))")));
    let path = format!("/v1/executions/{execution}/suspend");
    for _ in 0..2 {
        let refused = server.ask("POST", &path, &[("idempotency-key", "k")], b"");
        assert_eq!(refused.problem(), (413, "too-large".into()), "the execution still waits");
    }
    let done = resume(&server, &bytes(&suspend(&server, &execution)), &json!([{"id": 0, "value": "x"}]));
    assert_eq!(done.ok()["stdout"], "x\n");
}

#[test]
fn retry_of_a_resumption_with_a_key_returns_the_same_response() {
    let server = Server::start(setup());
    let resume = |key: &str, bytes: &[u8], answers: &Value| {
        let body = resumption(bytes, answers).to_string();
        server.ask("POST", "/v1/executions/resume", &[("idempotency-key", key)], body.as_bytes())
    };
    let (one, two) = (json!([{"id": 0, "value": "one"}]), json!([{"id": 1, "value": "two"}]));
    let first = suspended(&server, &request("python", "print(tools.ask(q=1))\nprint(tools.ask(q=2))"));
    let [answer, again] = [(); 2].map(|()| resume("k", &first, &one));
    let (execution, _) = waiting(&answer);
    assert_eq!((again.status, &again.body), (202, &answer.body));
    assert_eq!(resume("k", &first, &two).problem(), (422, "idempotency-key".into()), "another request");
    let second = bytes(&suspend(&server, &execution));
    let before = server.audited().len();
    let [answer, again] = [(); 2].map(|()| resume("l", &second, &two));
    assert_eq!((&answer.ok()["stdout"], again.status, &again.body), (&json!("one\ntwo\n"), 200, &answer.body));
    assert_eq!(server.audited().len(), before + 1, "the second request executes nothing");
    // A request that failed can be repeated with its key.
    for _ in 0..2 {
        let invalid = resume("m", &second, &json!([{"id": 7, "value": 1}]));
        assert_eq!(invalid.problem(), (400, "invalid-argument".into()));
    }
    let headers = [("idempotency-key", "n"), LINES];
    let body = resumption(&second, &two).to_string();
    let streamed = server.ask("POST", "/v1/executions/resume", &headers, body.as_bytes());
    assert_eq!(streamed.problem(), (400, "invalid-argument".into()));
    assert!(streamed.text().contains("`Idempotency-Key` is not supported with streamed responses"), "{streamed:?}");
}

#[test]
fn either_the_suspension_or_the_cancellation_of_an_execution_succeeds() {
    let change: Box<dyn FnOnce(&mut TenantConfig)> = Box::new(|tenant| tenant.suspended = 1);
    let server = Server::start(Setup { tenant: Some(change), ..setup() });
    let rounds = 20;
    for round in 0..rounds {
        // The previous round has released the only permit.
        let (execution, _) = waiting(&server.post("/v1/execute", &request("python", "tools.ask(q=1)")));
        let suspending = server.begin("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
        let cancelled = server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"");
        let suspended = Answer::read(suspending);
        match (suspended.status, cancelled.status) {
            (200, 404) | (404, 200) => {}
            (200, 409) => assert_eq!(cancelled.problem(), (409, "execution-busy".into())),
            _ => panic!("{round}: {suspended:?}, {cancelled:?}"),
        }
        assert_eq!(go_on(&server, &execution, &json!([])).problem(), (404, "not-found".into()), "{round}");
    }
    let lines = server.audited();
    let is_expected = |line: &Value| line["outcome"] == "suspended" || line["outcome"] == "cancelled";
    assert!(lines.len() == rounds && lines.iter().all(is_expected), "{lines:?}");
    assert_eq!(metric(&server, "glovebox_running"), 0);
}

#[test]
fn request_that_resumes_an_execution_can_exceed_the_body_limit() {
    let http = HttpConfig { body_bytes: 200_000, ..HttpConfig::default() };
    let server = Server::start(Setup { http, ..setup() });
    let long = request("python", &format!("print(tools.ask(q=1))\n#{}", "x".repeat(180_000)));
    let bytes = suspended(&server, &long);
    let body = resumption(&bytes, &json!([{"id": 0, "value": "x"}]));
    assert!(body.to_string().len() > 200_000, "the bytes are in base64");
    assert_eq!(server.post("/v1/executions/resume", &body).ok()["stdout"], "x\n");
}

#[test]
fn decoded_execution_counts_towards_the_memory_for_requests() {
    let long = request("python", &format!("print(tools.ask(q=1))\n#{}", "x".repeat(1_000_000)));
    let bytes = suspended(&Server::start(Setup::default()), &long);
    // The body is 1.3 MB long, and counts as 2.7 MB while it is parsed. Afterwards, the body and the decoded execution
    // of 2 MB count as 3.4 MB. The servers allow 3.2 and 3.9 MB for requests. A single request may exceed the maximum,
    // so the test keeps another request waiting.
    for (bodies_bytes, status) in [(3_600_000, 503), (4_500_000, 200)] {
        let server = with_memory(bodies_bytes);
        waiting(&server.post("/v1/execute", &request("python", "tools.ask(q=1)")));
        let answer = resume(&server, &bytes, &json!([{"id": 0, "value": "x"}]));
        assert_eq!(answer.status, status, "{bodies_bytes}: {}", answer.text());
    }
}

#[test]
fn resumed_execution_streams_only_new_output() {
    let server = Server::start(setup());
    let source = "print('one', flush=True)\nprint('two', tools.ask(q=1), flush=True)";
    let body = resumption(&suspended(&server, &request("python", source)), &json!([{"id": 0, "value": 2}])).to_string();
    let answer = server.ask("POST", "/v1/executions/resume", &[LINES], body.as_bytes());
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!((types, &lines[1]["text"]), (vec!["started", "stdout", "result"], &json!("two 2\n")), "{lines:?}");
    assert_eq!(lines[2]["result"]["stdout"], "one\ntwo 2\n");
}

#[test]
fn only_bytes_of_the_same_tenant_are_resumed() {
    let server = Server::start(setup());
    let bytes = suspended(&server, &request("python", "tools.ask(q=1)"));
    let answers = json!([{"id": 0, "value": 1}]);
    let body = resumption(&bytes, &answers).to_string();
    let token = format!("Bearer {OTHER}");
    let theirs = server.ask("POST", "/v1/executions/resume", &[("authorization", &token)], body.as_bytes());
    assert_eq!(theirs.problem(), (400, "invalid-argument".into()));
    assert!(theirs.text().contains("sealed with another key"), "{theirs:?}");
    for at in [0, 8, 10, 12, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(resume(&server, &damaged, &answers).problem(), (400, "invalid-argument".into()), "{at}");
    }
    for part in [&bytes[..0], &bytes[..20], &bytes[..bytes.len() - 1]] {
        assert_eq!(resume(&server, part, &answers).problem(), (400, "invalid-argument".into()), "{}", part.len());
    }
    // Bytes with only a checksum are rejected, because they are not sealed.
    let open = Server::start(Setup::default());
    let unsealed = suspended(&open, &request("python", "tools.ask(q=1)"));
    assert_eq!(resume(&open, &unsealed, &answers).status, 200);
    assert_eq!(resume(&server, &unsealed, &answers).problem(), (400, "invalid-argument".into()));
    let sealed = resume(&open, &bytes, &answers);
    assert!(sealed.problem() == (400, "invalid-argument".into()) && sealed.text().contains("`key_file`"), "{sealed:?}");
    assert_eq!(resume(&server, &bytes, &answers).status, 200);
}

#[test]
fn resumed_execution_needs_the_same_request() {
    let server = Server::start(setup());
    let bytes = suspended(&server, &request("python", "print(open('given').read())\ntools.ask(q=1)"));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut body = resumption(&bytes, &json!([{"id": 0, "value": 1}]));
        change(&mut body);
        server.post("/v1/executions/resume", &body)
    };
    let other_file = changed(&|body| body["files"]["given"] = json!("another file"));
    assert_eq!(other_file.problem(), (409, "diverged".into()));
    assert_eq!(changed(&|body| body["tools"][0]["name"] = json!("other")).problem(), (409, "diverged".into()));
    let other_image = changed(&|body| body["language"] = json!("javascript"));
    assert_eq!(other_image.problem(), (409, "not-resumable".into()));
    assert_eq!(changed(&|body| body["runtime"] = json!("none")).problem(), (404, "unknown-runtime".into()));
    for (name, value) in [
        ("tools", json!([])),
        ("tools", Value::Null),
        ("suspended", Value::Null),
        ("suspended", json!("text")),
        ("suspended", json!({"base64": "!"})),
        ("source", json!("print(1)")),
        ("stdin", json!("x")),
        ("answers", json!([{"id": 0}])),
    ] {
        let answer = changed(&|body| body[name] = value.clone());
        assert_eq!(answer.problem(), (400, "invalid-argument".into()), "{name}: {value}");
    }
    let less = changed(&|body| body["policy"] = json!({"limits": {"fuel": 1}}));
    assert_ne!(less.status, 202, "the limits of the request apply to the whole execution: {less:?}");
    assert_eq!(changed(&|_| ()).status, 200);
    assert_eq!(metric(&server, "glovebox_running"), 0);
}

#[test]
fn execution_that_cannot_be_suspended_continues() {
    let server = Server::start(setup());
    let refused = |execution: &str| {
        let answer = suspend(&server, execution);
        assert_eq!(answer.problem(), (409, "not-suspendable".into()));
        answer.text()
    };
    let answer = |id: u64, value: &str| json!([{"id": id, "value": value}]);

    let mut plain = request("python", "print(tools.ask(q=1))");
    plain["suspendable"] = json!(false);
    let (execution, _) = waiting(&server.post("/v1/execute", &plain));
    assert!(refused(&execution).contains("without `suspendable`"));
    assert_eq!(go_on(&server, &execution, &answer(0, "x")).ok()["stdout"], "x\n");
    assert_eq!(suspend(&server, &execution).problem(), (404, "not-found".into()));

    // The record of the answers is limited to 1 MiB.
    let source = "for n in range(3): print(len(tools.ask(q=n)))";
    let (execution, _) = waiting(&server.post("/v1/execute", &request("python", source)));
    let long = "x".repeat(700_000);
    waiting(&go_on(&server, &execution, &answer(0, &long)));
    waiting(&go_on(&server, &execution, &answer(1, &long)));
    assert!(refused(&execution).contains("let it finish"));
    assert_eq!(go_on(&server, &execution, &answer(2, "x")).ok()["stdout"], "700000\n700000\n1\n");

    let mut ends = request("python", "tools.ask(q=1)");
    ends["policy"] = json!({"limits": {"tool_timeout_ms": 4_000}});
    let before = server.audited().len();
    let (execution, _) = waiting(&server.post("/v1/execute", &ends));
    until("it has ended", || server.audited().len() > before);
    assert!(refused(&execution).contains("it has ended"));
    assert_eq!(go_on(&server, &execution, &json!([])).ok()["outcome"]["kind"], "raised");

    let (execution, _) = waiting(&server.post("/v1/execute", &request("python", "tools.ask(q=1)\nwhile True: pass")));
    let body = json!({"answers": answer(0, "x")}).to_string();
    let stream = server.begin("POST", &format!("/v1/executions/{execution}/continue"), &[], body.as_bytes());
    until("it runs", || metric(&server, "glovebox_running") == 1);
    assert_eq!(suspend(&server, &execution).problem(), (409, "execution-busy".into()));
    drop(stream);
    until("it has ended", || metric(&server, "glovebox_running") == 0);
}

#[test]
fn suspendable_execution_needs_a_tool_that_the_client_answers() {
    let server = Server::start(setup());
    let mut body = request("python", "1");
    body["tools"] = json!([]);
    assert_eq!(server.post("/v1/execute", &body).problem(), (400, "invalid-argument".into()));
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let in_session = server.post("/v1/sessions/s/execute", &json!({"source": "1", "suspendable": true}));
    assert_eq!(in_session.problem(), (400, "invalid-argument".into()));
}

#[test]
fn memory_for_suspended_executions_is_limited() {
    // The server reserves memory for the bytes before it suspends an execution. If there is not enough memory, the
    // execution keeps waiting.
    let server = with_memory(2 << 20);
    let (execution, _) = waiting(&server.post("/v1/execute", &request("python", "print(tools.ask(q=1))")));
    assert_eq!(suspend(&server, &execution).problem(), (413, "too-large".into()));
    assert_eq!(go_on(&server, &execution, &json!([{"id": 0, "value": "x"}])).ok()["stdout"], "x\n");

    // While a suspendable execution waits, its script counts twice towards the memory for requests: 5.5 MB.
    let server = with_memory(6 << 20);
    let long = request("python", &format!("tools.ask(q=1)\n#{}", "x".repeat(1_000_000)));
    let executions = [(); 2].map(|()| waiting(&server.post("/v1/execute", &long)).0);
    assert_eq!(server.post("/v1/execute", &long).problem(), (503, "unavailable".into()));
    for execution in executions {
        server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").ok();
    }
    let bytes = suspended(&server, &long);
    assert!(bytes.len() > 1_000_000, "the bytes contain the script: {}", bytes.len());
    assert_eq!(resume(&server, &bytes, &json!([{"id": 0, "value": "x"}])).status, 200);
}

#[test]
fn long_call_that_the_client_has_not_seen_prevents_the_suspension() {
    let is_late = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&is_late);
    let change: Box<dyn FnOnce(&mut TenantConfig)> = Box::new(move |tenant| {
        let note = Tool::new("note", "Notes.").handler(move |_, _| {
            noted.store(true, Ordering::SeqCst);
            Ok(json!(null))
        });
        tenant.tools = vec![note];
    });
    let server = Server::start(Setup { tenant: Some(change), ..setup() });
    // The server reserves memory for the calls of its last response. The script makes a longer call afterwards.
    let source = "
import asyncio
async def main():
    first = asyncio.ensure_future(tools.ask.aio(q=1))
    await asyncio.sleep(2)
    second = asyncio.ensure_future(tools.ask.aio(q='x' * 600_000))
    await asyncio.sleep(0)
    await tools.note.aio()
    print(await first, await second)
asyncio.run(main())";
    let (execution, calls) = waiting(&server.post("/v1/execute", &request("python", source)));
    assert_eq!(calls.as_array().map(Vec::len), Some(1), "{calls}");
    until("the script makes the second call", || is_late.load(Ordering::SeqCst));
    assert_eq!(suspend(&server, &execution).problem(), (409, "not-suspendable".into()));
    let (execution, calls) = waiting(&go_on(&server, &execution, &json!([])));
    assert_eq!(calls.as_array().map(Vec::len), Some(2));
    let bytes = bytes(&suspend(&server, &execution));
    let [one, two] = [0, 1].map(|at| json!({"id": calls[at]["id"], "value": at}));
    assert_eq!(resume(&server, &bytes, &json!([one, two])).ok()["stdout"], "0 1\n");
}
