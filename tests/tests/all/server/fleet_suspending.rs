//! Tests executions in a fleet's sessions while they wait for the client's answers or are suspended.

use std::{
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    fleet::{server, server_with_memory, setup_in, with_session},
    support::{Answer, Server, Setup, until},
};
use crate::fleet_engine::FleetEngine;

const TIMEOUT: Duration = Duration::from_secs(60);

const SOURCE: &str = "import random\nx = [random.random(), tools.ask(q=1)]\nx.append(tools.ask(q=2))\nprint(x[1:])";

fn open(server: &Server, id: &str) {
    server.post("/v1/sessions", &json!({"id": id, "language": "python"})).ok();
}

fn value(server: &Server, source: &str) -> Value {
    server.post("/v1/sessions/s/execute", &json!({ "source": source })).ok()["value"]["json"].clone()
}

/// Starts an execution that waits for an answer, and returns its ID.
fn start(server: &Server, suspendable: bool) -> String {
    let body = json!({"source": SOURCE, "tools": [{"name": "ask"}], "suspendable": suspendable});
    waiting(&server.post("/v1/sessions/s/execute", &body), 0)
}

/// Asserts that an execution waits for the answer to call `call`, and returns its ID.
fn waiting(answer: &Answer, call: u64) -> String {
    assert_eq!(answer.status, 202, "{answer:?}");
    let expected = json!([{"id": call, "name": "ask", "arguments": {"q": call + 1}}]);
    assert_eq!(answer.json()["calls"], expected);
    answer.json()["execution"].as_str().unwrap().to_owned()
}

fn proceed(server: &Server, execution: &str, answers: &Value) -> Answer {
    server.post(&format!("/v1/executions/{execution}/continue"), &json!({ "answers": answers }))
}

/// Suspends an execution. Returns its bytes, and the generation of its session.
fn suspend(server: &Server, execution: &str) -> (Vec<u8>, String) {
    let answer = server.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    let etag = answer.header("etag").unwrap().to_owned();
    (answer.body, etag)
}

fn resume(server: &Server, bytes: &[u8], headers: &[(&str, &str)], answers: &Value) -> Answer {
    let suspended = BASE64_STANDARD.encode(bytes);
    let body = json!({
        "session": "s", "suspended": {"base64": suspended}, "answers": answers, "tools": [{"name": "ask"}],
    });
    server.ask("POST", "/v1/executions/resume", headers, body.to_string().as_bytes())
}

#[test]
fn client_answers_the_calls_of_a_fleet_session() {
    let (_engine, server) = with_session();
    let execution = start(&server, false);
    let unknown = proceed(&server, &execution, &json!([{"id": 3, "value": 1}]));
    assert_eq!(unknown.problem(), (400, "invalid-argument".into()));
    waiting(&proceed(&server, &execution, &json!([])), 0);
    let refused = server.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
    assert_eq!(refused.problem(), (409, "not-suspendable".into()), "it was started without `suspendable`");
    waiting(&proceed(&server, &execution, &json!([{"id": 0, "value": "one"}])), 1);
    // The answer to a call that was answered before is ignored.
    let both = json!([{"id": 0, "value": "other"}, {"id": 1, "error": "failed"}]);
    let raised = proceed(&server, &execution, &both);
    assert_eq!(raised.ok()["outcome"]["kind"], "raised", "{raised:?}");
    assert_eq!(proceed(&server, &execution, &json!([])).problem(), (404, "not-found".into()));
    assert_eq!(value(&server, "x[1]"), "one");
}

#[test]
fn waiting_execution_in_a_fleet_is_cancelled() {
    let (engine, server) = with_session();
    let execution = start(&server, false);
    let count = engine.requests().len();
    let cancelled = server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").ok();
    assert_eq!(cancelled["outcome"]["kind"], "cancelled", "{cancelled}");
    assert_eq!(engine.requests().len(), count, "no node runs the execution");
    let body = json!({"source": SOURCE, "tools": [{"name": "ask"}], "deadline_ms": 500});
    let begin = Instant::now();
    let mut answer = server.post("/v1/sessions/s/execute", &body);
    while answer.status == 202 {
        assert!(begin.elapsed() < TIMEOUT, "the deadline has no effect");
        thread::sleep(Duration::from_millis(50));
        answer = proceed(&server, &waiting(&answer, 0), &json!([]));
    }
    assert_eq!(answer.ok()["outcome"]["kind"], "cancelled", "{answer:?}");
    assert!(begin.elapsed() >= Duration::from_millis(500));
    assert_eq!(value(&server, "globals().get('x')"), Value::Null);
}

#[test]
fn execution_in_a_fleet_is_suspended_and_resumed_through_another_server() {
    let engine = FleetEngine::start();
    let (one, other) = (server(&engine), server(&engine));
    open(&one, "s");
    let (first, etag) = suspend(&one, &start(&one, true));
    assert_eq!(one.get("/v1/sessions/s").header("etag"), Some(&*etag));
    assert_eq!((engine.running(), &one.audited().pop().unwrap()["outcome"]), (0, &json!("suspended")));
    let answers = json!([{"id": 0, "value": "one"}]);
    let execution = waiting(&resume(&other, &first, &[("if-match", &etag)], &answers), 1);
    let (second, etag) = suspend(&other, &execution);
    drop(other);
    let headers = [("if-match", &*etag), ("idempotency-key", "k")];
    // A key that was used with another route and server has no effect on this request.
    let executed = server(&engine).ask("POST", "/v1/sessions/s/execute", &headers[1..], br#"{"source": "1"}"#);
    let headers = [("if-match", executed.header("etag").unwrap()), headers[1]];
    let done = resume(&one, &second, &headers, &json!([{"id": 1, "value": "two"}]));
    assert_eq!(done.ok()["stdout"], "['one', 'two']\n", "{done:?}");
    assert_eq!(one.get("/v1/sessions/s").header("etag"), done.header("etag"));
    // For the same key, another server of the fleet returns the first result.
    let again = resume(&server(&engine), &second, &headers, &json!([{"id": 1, "value": "two"}]));
    assert_eq!(
        (again.ok()["stdout"].clone(), again.header("etag")),
        (done.json()["stdout"].clone(), done.header("etag"))
    );
    assert_eq!(engine.requests().pop().unwrap().key.as_deref(), Some("one/resume/k"));
    assert_eq!(value(&one, "x[1:]"), json!(["one", "two"]));
}

#[test]
fn suspended_execution_in_a_fleet_outlives_the_answers_of_the_engine() {
    let (engine, server) = with_session();
    let execution = start(&server, true);
    engine.forget_answers();
    let execution = waiting(&proceed(&server, &execution, &json!([{"id": 0, "value": "one"}])), 1);
    engine.forget_answers();
    let (bytes, etag) = suspend(&server, &execution);
    let done = resume(&server, &bytes, &[("if-match", &etag)], &json!([{"id": 1, "value": "two"}]));
    assert_eq!(done.ok()["stdout"], "['one', 'two']\n", "{done:?}");
    let path = store(&server);
    engine.forget_answers();
    let next = stored(&server.post(&path, &answering(0, "one")));
    engine.forget_answers();
    assert_eq!(server.post(&next, &answering(1, "two")).ok()["stdout"], "['one', 'two']\n");
}

#[test]
fn changed_fleet_session_is_not_replaced() {
    let (engine, server) = with_session();
    let (bytes, etag) = suspend(&server, &start(&server, true));
    value(&server, "x = 'changed'");
    let answers = json!([{"id": 0, "value": "one"}]);
    assert_eq!(resume(&server, &bytes, &[("if-match", &etag)], &answers).problem(), (412, "generation".into()));
    assert_eq!(resume(&server, &bytes, &[], &answers).problem(), (400, "invalid-argument".into()));
    let unknown = json!([{"id": 7, "value": 1}]);
    assert_eq!(resume(&server, &bytes, &[("if-match", "*")], &unknown).problem(), (400, "invalid-argument".into()));
    for (status, expected) in [(422, "not-resumable"), (424, "diverged")] {
        engine.fail(Some((status, "the bytes")));
        let failed = resume(&server, &bytes, &[("if-match", "*")], &answers);
        assert_eq!(failed.problem(), (409, expected.into()), "{failed:?}");
    }
    engine.fail(None);
    let execution = waiting(&resume(&server, &bytes, &[("if-match", "*")], &answers), 1);
    proceed(&server, &execution, &json!([{"id": 1, "value": "two"}])).ok();
    assert_eq!(value(&server, "x[1:]"), json!(["one", "two"]));
}

/// Returns the bodies and keys of the requests that resumed an execution.
fn resumptions(engine: &FleetEngine) -> Vec<(Value, String)> {
    let resuming = engine.requests().into_iter().filter(|request| request.body["resumption"].is_object());
    resuming.map(|request| (request.body, request.key.unwrap())).collect()
}

#[test]
fn unanswered_step_in_a_fleet_is_repeated_without_running_twice() {
    let (engine, server) = with_session();
    let execution = start(&server, false);
    let one = json!([{"id": 0, "value": "one"}]);
    // The step does not reach a node.
    engine.fail(Some((503, "overloaded at 10.0.0.1")));
    let lost = proceed(&server, &execution, &one);
    assert_eq!((lost.problem(), lost.header("retry-after")), ((503, "unavailable".into()), Some("1")), "{lost:?}");
    assert!(lost.text().contains("send the same answers again"), "{lost:?}");
    engine.fail(None);
    // A node runs the step, but the connection breaks.
    engine.lose_answer();
    assert_eq!(proceed(&server, &execution, &one).status, 503);
    let generation = server.get("/v1/sessions/s").header("etag").map(str::to_owned);
    waiting(&proceed(&server, &execution, &one), 1);
    let sent = resumptions(&engine);
    assert_eq!((sent.len(), sent.iter().all(|step| *step == sent[0])), (3, true), "{sent:?}");
    assert!(sent[0].1.starts_with("one/step/"), "{}", sent[0].1);
    assert_eq!(server.get("/v1/sessions/s").header("etag"), generation.as_deref(), "it was not run again");
    // The step whose answer was lost ran with the first answer.
    engine.lose_answer();
    assert_eq!(proceed(&server, &execution, &json!([{"id": 1, "value": "two"}])).status, 503);
    let done = proceed(&server, &execution, &json!([{"id": 1, "value": "other"}]));
    assert_eq!(done.ok()["stdout"], "['one', 'two']\n", "{done:?}");
    assert_eq!(value(&server, "x[1:]"), json!(["one", "two"]));
}

#[test]
fn answers_to_some_of_the_calls_can_be_repeated() {
    let (engine, server) = with_session();
    let source = "import asyncio\nasync def main(): print(*await asyncio.gather(tools.ask.aio(q=1), tools.ask.aio(q=2)))\nasyncio.run(main())";
    let answer = server.post("/v1/sessions/s/execute", &json!({"source": source, "tools": [{"name": "ask"}]}));
    assert_eq!((answer.status, &answer.json()["calls"][1]["id"]), (202, &json!(1)), "{answer:?}");
    let execution = answer.json()["execution"].as_str().unwrap().to_owned();
    let second = json!([{"id": 1, "value": "two"}]);
    engine.lose_answer();
    assert_eq!(proceed(&server, &execution, &second).status, 503);
    // The other call still waits, and has a smaller ID than the answered one.
    waiting(&proceed(&server, &execution, &second), 0);
    let done = proceed(&server, &execution, &json!([{"id": 0, "value": "one"}, {"id": 1, "value": "other"}]));
    assert_eq!(done.ok()["stdout"], "one two\n", "{done:?}");
}

#[test]
fn execution_with_an_unanswered_step_is_cancelled() {
    let (engine, server) = with_session();
    let execution = start(&server, true);
    engine.lose_answer();
    assert_eq!(proceed(&server, &execution, &json!([{"id": 0, "value": "one"}])).status, 503);
    let refused = server.ask("POST", &format!("/v1/executions/{execution}/suspend"), &[], b"");
    assert_eq!(refused.problem(), (409, "not-suspendable".into()));
    let cancelled = server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").ok();
    assert_eq!(cancelled["outcome"]["kind"], "cancelled", "{cancelled}");
    let sent = resumptions(&engine);
    assert_eq!((sent.len(), &sent[1].0["deadline_ms"]), (2, &json!(0)), "no node starts a cancelled step");
    assert_eq!(sent[0].1, sent[1].1);
    assert_eq!(value(&server, "globals().get('x')"), Value::Null);
}

#[test]
fn execution_in_a_fleet_is_kept_while_there_is_no_memory_for_its_bytes() {
    let engine = FleetEngine::start();
    let server = server_with_memory(&engine, 6 << 20);
    open(&server, "s");
    value(&server, "import random; y = random.randbytes(600_000)");
    // The tools of a waiting execution stay in memory. This leaves 660 kB. Each list counts as 800 bytes.
    let tools = json!([{"name": "ask", "schema": {"default": vec![[0]; 6_050]}}]);
    let body = json!({"language": "python", "source": "tools.ask()", "tools": tools});
    let occupant = server.post("/v1/execute", &body);
    assert_eq!(occupant.status, 202, "{occupant:?}");
    let execution = start(&server, false);
    let one = json!([{"id": 0, "value": "one"}]);
    assert_eq!(proceed(&server, &execution, &one).problem(), (503, "unavailable".into()));
    waiting(&proceed(&server, &execution, &json!([])), 0);
    assert!(resumptions(&engine).is_empty(), "no answer was used");
    let occupant = occupant.json()["execution"].as_str().unwrap().to_owned();
    assert_eq!(server.ask("DELETE", &format!("/v1/executions/{occupant}"), &[], b"").status, 200);
    // Memory of earlier responses is released after they have been sent.
    let repeated = |answers: &Value| {
        let mut answer = proceed(&server, &execution, answers);
        until("there is memory", || {
            if answer.status == 503 {
                answer = proceed(&server, &execution, answers);
            }
            answer.status != 503
        });
        answer
    };
    waiting(&repeated(&one), 1);
    let done = repeated(&json!([{"id": 1, "value": "two"}]));
    assert_eq!(done.ok()["stdout"], "['one', 'two']\n", "{done:?}");
}

/// Returns the path of a stored execution.
fn stored(answer: &Answer) -> String {
    assert_eq!((answer.status, &answer.json()["type"]), (202, &json!("suspended")), "{answer:?}");
    format!("/v1/suspended/{}", answer.json()["id"].as_str().unwrap())
}

/// Starts an execution that the server stores when it waits for an answer, and returns its path.
fn store(server: &Server) -> String {
    let body = json!({"source": SOURCE, "tools": [{"name": "ask"}], "suspend": true});
    let suspended = server.post("/v1/sessions/s/execute", &body);
    assert_eq!(suspended.header("etag"), server.get("/v1/sessions/s").header("etag"));
    assert_eq!(suspended.json()["session"], "s");
    stored(&suspended)
}

fn answering(id: u64, value: &str) -> Value {
    json!({"answers": [{"id": id, "value": value}]})
}

#[test]
fn stored_execution_of_a_fleet_session_continues_once_through_any_server() {
    let engine = FleetEngine::start();
    let first = server(&engine);
    open(&first, "s");
    let path = store(&first);
    assert_eq!(engine.running(), 0);
    let dir = first.stop(Duration::from_secs(5));

    let second = Server::start(Setup { dir: Some(dir), ..setup_in(engine.client(), "one", |_| {}) });
    assert_eq!(second.get(&path).ok()["calls"][0]["arguments"], json!({"q": 1}));
    assert_eq!(second.post(&path, &answering(7, "x")).problem(), (400, "invalid-argument".into()));
    assert!(resumptions(&engine).is_empty());
    let body = answering(0, "one").to_string();
    let streams: Vec<_> = (0..4).map(|_| second.begin("POST", &path, &[], body.as_bytes())).collect();
    let answers: Vec<_> = streams.into_iter().map(Answer::read).collect();
    let (continued, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 202);
    assert!(continued.len() == 1 && refused.iter().all(|answer| answer.status == 404), "{answers:?}");
    // A node repeats the first steps without the answer. The server then deletes the execution and sends the answer.
    let sent: Vec<_> =
        resumptions(&engine).into_iter().map(|(body, _)| body["resumption"]["answers"].clone()).collect();
    let counts: Vec<_> = sent.iter().map(|answers| answers.as_array().unwrap().len()).collect();
    assert_eq!(counts, [0, 1], "{sent:?}");
    let done = second.post(&stored(continued[0]), &answering(1, "two"));
    assert_eq!(done.ok()["stdout"], "['one', 'two']\n", "{done:?}");
    assert_eq!(second.get("/v1/sessions/s").header("etag"), done.header("etag"));
    assert_eq!(second.get("/v1/suspended").ok()["suspended"], json!([]));
    assert_eq!(value(&second, "x[1:]"), json!(["one", "two"]));
}

#[test]
fn stored_execution_of_a_fleet_session_remains_stored_until_its_steps_are_repeated() {
    let (engine, server) = with_session();
    let path = store(&server);
    for (failure, expected) in [((503, "overloaded"), 503), ((422, "the bytes"), 409), ((424, "the bytes"), 409)] {
        engine.fail(Some(failure));
        assert_eq!(server.post(&path, &answering(0, "one")).status, expected);
        engine.fail(None);
        assert_eq!(server.get(&path).status, 200);
    }
    // A node repeats the steps, but the connection breaks. The session keeps its state as a new generation.
    engine.lose_answer();
    assert_eq!(server.post(&path, &answering(0, "one")).status, 503);
    assert_eq!(server.post(&path, &answering(0, "one")).problem(), (412, "generation".into()));
    let etag = server.get("/v1/sessions/s").header("etag").unwrap().to_owned();
    let body = answering(0, "one").to_string();
    let next = stored(&server.ask("POST", &path, &[("if-match", &etag)], body.as_bytes()));
    value(&server, "x = 'changed'");
    assert_eq!(server.post(&next, &answering(1, "two")).problem(), (412, "generation".into()));
    let body = answering(1, "two").to_string();
    let done = server.ask("POST", &next, &[("if-match", "*")], body.as_bytes());
    assert_eq!(done.ok()["stdout"], "['one', 'two']\n", "{done:?}");
    assert_eq!(value(&server, "x[1:]"), json!(["one", "two"]));
}

#[test]
fn answers_to_a_claimed_execution_are_repeated() {
    let (engine, server) = with_session();
    let path = store(&server);
    // The server deletes the execution between the two answers of the engine.
    engine.lose_answer_after(1);
    let next = stored(&server.post(&path, &answering(0, "one")));
    let [(_, first), (_, second), (_, repeated)] = &resumptions(&engine)[..] else { panic!() };
    assert!(first != second && second == repeated, "the repetition has the same key");
    assert_eq!(server.get(&path).status, 404);
    assert_eq!(server.post(&next, &answering(1, "two")).ok()["stdout"], "['one', 'two']\n");
}

#[test]
fn server_of_a_fleet_without_a_store_names_the_setting() {
    let engine = FleetEngine::start();
    let server = Server::start(setup_in(engine.client(), "one", |tenant| tenant.suspended_store = None));
    open(&server, "s");
    let body = json!({"source": SOURCE, "tools": [{"name": "ask"}], "suspend": true});
    let refused = server.post("/v1/sessions/s/execute", &body);
    assert_eq!(refused.problem(), (422, "unsupported".into()));
    assert!(["`suspended_store`", "`suspendable`"].iter().all(|text| refused.text().contains(text)), "{refused:?}");
    assert!(engine.requests().iter().all(|request| request.handler != "execute"), "no script ran");
}

#[test]
fn stored_execution_of_a_stored_session_does_not_continue_in_a_fleet() {
    let with_store = Server::start(Setup::default());
    open(&with_store, "s");
    let mut body = json!({"source": SOURCE, "tools": [{"name": "ask"}], "suspend": true});
    let in_session = stored(&with_store.post("/v1/sessions/s/execute", &body));
    body["language"] = json!("python");
    let outside = stored(&with_store.post("/v1/execute", &body));
    let dir = with_store.stop(Duration::from_secs(5));

    let engine = FleetEngine::start();
    let in_fleet = Server::start(Setup { dir: Some(dir), ..setup_in(engine.client(), "one", |_| {}) });
    // The session of the same name in the fleet is another session.
    open(&in_fleet, "s");
    let refused = in_fleet.post(&in_session, &answering(0, "one"));
    assert!(refused.problem() == (422, "unsupported".into()) && refused.text().contains("a fleet"), "{refused:?}");
    let second = stored(&in_fleet.post(&outside, &answering(0, "one")));
    assert_eq!(in_fleet.post(&second, &answering(1, "two")).ok()["stdout"], "['one', 'two']\n");
    let of_fleet = store(&in_fleet);
    // The other server can still resume the refused execution, but not the execution of the fleet's session.
    let dir = in_fleet.stop(Duration::from_secs(5));
    let with_store = Server::start(Setup { dir: Some(dir), ..Setup::default() });
    let body = answering(0, "one").to_string();
    let refused = with_store.ask("POST", &of_fleet, &[("if-match", "*")], body.as_bytes());
    assert!(refused.problem() == (422, "unsupported".into()) && refused.text().contains("that fleet"), "{refused:?}");
    let second = stored(&with_store.ask("POST", &in_session, &[("if-match", "*")], body.as_bytes()));
    assert_eq!(with_store.post(&second, &answering(1, "two")).ok()["stdout"], "['one', 'two']\n");
}
