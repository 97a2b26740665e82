//! Tests sessions in a fleet: the requests that each route sends to the fleet, and the translation of its errors.

use std::{net::TcpListener, time::Duration};

use glovebox::UrlPatterns;
use glovebox_fleet::{FleetClient, FleetUrl};
use glovebox_server::{
    SessionLocation, TenantConfig,
    http::HttpConfig,
    tools::{Callbacks, CallbacksConfig},
};
use serde_json::{Value, json};

use super::support::{Answer, Server, Setup, metric, until};
use crate::fleet_engine::FleetEngine;

const PYTHON: &str = "python";

/// Returns the setup of a server with a single tenant, whose sessions are in this scope of a fleet.
pub(super) fn setup_in(
    client: FleetClient,
    scope: &'static str,
    change: impl FnOnce(&mut TenantConfig) + 'static,
) -> Setup {
    let place = SessionLocation::Fleet { client, scope: scope.parse().unwrap() };
    let tenant = Box::new(move |config: &mut TenantConfig| {
        config.location = place;
        change(config);
    });
    Setup { tenant: Some(tenant), ..Setup::default() }
}

fn server_in(client: FleetClient, scope: &'static str, change: impl FnOnce(&mut TenantConfig) + 'static) -> Server {
    Server::start(setup_in(client, scope, change))
}

/// Starts a server with this memory for requests and responses.
pub(super) fn server_with_memory(engine: &FleetEngine, bodies_bytes: usize) -> Server {
    let http = HttpConfig { bodies_bytes, body_time: Duration::from_secs(1), ..HttpConfig::default() };
    // Executions wait until the test answers their calls.
    let change = |tenant: &mut TenantConfig| tenant.policy.limits.tool_timeout_ms = 600_000;
    Server::start(Setup { http, ..setup_in(engine.client(), "one", change) })
}

pub(super) fn server(engine: &FleetEngine) -> Server {
    server_in(engine.client(), "one", |_| {})
}

/// Returns a fleet with the session `s`, and a server for it.
pub(super) fn with_session() -> (FleetEngine, Server) {
    let engine = FleetEngine::start();
    let server = server(&engine);
    open(&server, "s").ok();
    (engine, server)
}

fn open(server: &Server, id: &str) -> Answer {
    server.post("/v1/sessions", &json!({"id": id, "language": PYTHON}))
}

fn execute(server: &Server, headers: &[(&str, &str)], source: &str) -> Answer {
    let body = json!({ "source": source }).to_string();
    server.ask("POST", "/v1/sessions/s/execute", headers, body.as_bytes())
}

fn etag(answer: &Answer) -> String {
    answer.header("etag").unwrap_or_else(|| panic!("no ETag: {answer:?}")).to_owned()
}

#[test]
fn fleet_session_is_opened_run_undone_and_closed() {
    let engine = FleetEngine::start();
    let server = server(&engine);
    let opened = server.post("/v1/sessions", &json!({"id": "s", "language": "javascript", "context": [7]}));
    assert_eq!((opened.status, &opened.json()["id"], &opened.json()["executions"]), (201, &json!("s"), &json!(0)));
    assert_eq!(open(&server, "s").problem(), (409, "exists".into()));
    assert_eq!(server.get("/v1/sessions/s").header("etag"), Some(&*etag(&opened)));
    let done = execute(&server, &[], "x = context[0]; x + 1");
    let answer = done.ok();
    assert_eq!((&answer["value"]["json"], &answer["session_id"]), (&json!(8), &json!("s")), "{answer}");
    assert_eq!((&answer["files"], &answer["files_left_out"]), (&json!({}), &json!(0)));
    assert_eq!(server.get("/v1/sessions/s").header("etag"), Some(&*etag(&done)));
    execute(&server, &[], "x = 'changed'").ok();
    let undone = server.post("/v1/sessions/s/undo", &json!({}));
    assert_eq!(undone.ok()["checkpoint"], 4, "each state has a unique number");
    assert_eq!(execute(&server, &[], "x").ok()["value"]["json"], 7);
    server.post("/v1/sessions/s/undo", &json!({})).ok();
    assert_eq!(server.post("/v1/sessions/s/undo", &json!({})).problem(), (409, "no-checkpoint".into()));
    let listed = server.get("/v1/sessions").ok();
    assert_eq!((listed["sessions"].as_array().unwrap().len(), &listed["sessions"][0]["id"]), (1, &json!("s")));
    assert_eq!(listed["sessions"][0]["live"], json!(null));
    assert_eq!(server.ask("DELETE", "/v1/sessions/s", &[], b"").status, 204);
    for answer in [
        server.get("/v1/sessions/s"),
        execute(&server, &[], "1"),
        server.ask("DELETE", "/v1/sessions/s", &[], b""),
        server.post("/v1/sessions/s/undo", &json!({})),
    ] {
        assert_eq!(answer.problem(), (404, "not-found".into()));
        assert!(!answer.text().contains("one!s"), "the error must use the caller's name: {}", answer.text());
    }
    assert!(
        engine.requests().iter().all(|request| ["one!s", "query"].contains(&&*request.name)),
        "{:?}",
        engine.requests()
    );
}

#[test]
fn fleet_operations_are_audited_and_counted() {
    let (_engine, server) = with_session();
    let fuel = execute(&server, &[], "print(6 * 7)").ok()["fuel_consumed"].clone();
    execute(&server, &[], "1 / 0").ok();
    server.post("/v1/sessions/s/undo", &json!({})).ok();
    server.ask("DELETE", "/v1/sessions/s", &[], b"");
    execute(&server, &[], "1");
    let lines: Vec<(Value, Value)> =
        server.audited().iter().map(|line| (line["action"].clone(), line["outcome"].clone())).collect();
    let expected = [
        ("open", "done"),
        ("execute", "completed"),
        ("execute", "raised"),
        ("undo", "done"),
        ("close", "done"),
        ("execute", "not-found"),
    ];
    assert_eq!(lines, expected.map(|(action, outcome)| (json!(action), json!(outcome))));
    assert_eq!((&server.audited()[1]["fuel"], &server.audited()[1]["session"]), (&fuel, &json!("s")));
    assert_eq!(metric(&server, "glovebox_running"), 0);
}

#[test]
fn fresh_executions_do_not_use_the_fleet() {
    let engine = FleetEngine::start();
    let server = server(&engine);
    let body = json!({"language": PYTHON, "source": "open('a', 'w').write('x')", "return_files": ["a"]});
    assert_eq!(server.post("/v1/execute", &body).ok()["files"]["a"], "eA==");
    assert_eq!(server.post("/v1/validate", &json!({"language": PYTHON, "source": "1 +"})).status, 200);
    assert!(engine.requests().is_empty(), "{:?}", engine.requests());
}

#[test]
fn operations_unsupported_by_a_fleet_are_rejected() {
    let (engine, server) = with_session();
    let before = engine.requests().len();
    let source = json!({"source": "1", "return_files": ["*"]}).to_string();
    let checked = json!({"source": "1", "check_types": true}).to_string();
    for (method, path, body, expected) in [
        ("GET", "/files", "", "session files"),
        ("GET", "/files/a", "", "session files"),
        ("PUT", "/files/a", "x", "session files"),
        ("DELETE", "/files/a", "", "session files"),
        ("POST", "/execute", &source, "session files"),
        ("POST", "/execute", &checked, "type checks in sessions"),
        ("GET", "/variables/x", "", "print them from a script in the session"),
        ("PUT", "/variables/x", "1", "session variables"),
        ("POST", "/checkpoint", "", "checkpoints"),
        ("GET", "/checkpoints", "", "checkpoints"),
        ("POST", "/undo", r#"{"checkpoint": 1}"#, "`undo` without a `checkpoint`"),
        ("POST", "/fork", "", "open another session"),
        ("GET", "/state", "", "--store"),
        ("PUT", "", "bytes", "--store"),
        ("POST", "/hibernate", "", "each state is already stored"),
    ] {
        let answer = server.ask(method, &format!("/v1/sessions/s{path}"), &[], body.as_bytes());
        assert_eq!(answer.problem(), (501, "not-in-a-fleet".into()), "{method} {path}");
        assert!(answer.text().contains(expected), "{method} {path}: {}", answer.text());
    }
    assert_eq!(engine.requests().len(), before, "the engine must not be called");
    assert_eq!(execute(&server, &[], "1 + 1").ok()["value"]["json"], 2);
}

#[test]
fn fleet_errors_map_to_problems_on_every_route() {
    let engine = FleetEngine::start();
    let server = server(&engine);
    let routes = [
        ("POST", "/v1/sessions", r#"{"id": "t", "language": "python"}"#),
        ("GET", "/v1/sessions", ""),
        ("GET", "/v1/sessions/s", ""),
        ("POST", "/v1/sessions/s/execute", r#"{"source": "1"}"#),
        ("POST", "/v1/sessions/s/undo", ""),
        ("DELETE", "/v1/sessions/s", ""),
    ];
    for (failure, expected, retry, part) in [
        ((404, "service 'glovebox-sessions-00' not found"), (503, "unavailable"), true, "no fleet node"),
        ((400, "`x` is wrong"), (400, "invalid-argument"), false, "`x` is wrong"),
        ((500, "the bytes are damaged"), (500, "internal"), false, "the bytes are damaged"),
        ((503, "overloaded at 10.0.0.1"), (503, "unavailable"), true, "see the server's log"),
    ] {
        engine.fail(Some(failure));
        for (method, path, body) in routes {
            let is_query = path == "/v1/sessions";
            let answer = server.ask(method, path, &[], body.as_bytes());
            if is_query {
                // The admin interface does not use our error codes.
                assert_eq!(answer.problem(), (503, "unavailable".into()), "{method} {path} {failure:?}");
                continue;
            }
            assert_eq!(answer.problem(), (expected.0, expected.1.to_owned()), "{method} {path} {failure:?}");
            assert_eq!(answer.header("retry-after").is_some(), retry, "{method} {path} {failure:?}");
            assert!(answer.text().contains(part), "{method} {path}: {}", answer.text());
            assert!(!answer.text().contains("10.0.0.1"), "{}", answer.text());
        }
    }
    engine.fail(None);
    let unknown = server.post("/v1/sessions", &json!({"runtime": "cobol"}));
    assert_eq!(unknown.problem(), (400, "invalid-argument".into()));
    assert_eq!(open(&server, "s").status, 201, "the server recovers");
}

#[test]
fn unreachable_fleet_engine_is_retried() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = server_in(FleetClient::new(&FleetUrl::local(port, port)).unwrap(), "one", |_| {});
    for answer in [open(&server, "s"), execute(&server, &[], "1"), server.get("/v1/sessions")] {
        assert_eq!(answer.problem(), (503, "unavailable".into()));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert!(!answer.text().contains(&port.to_string()), "the error must not reveal the address: {}", answer.text());
    }
    assert_eq!(server.post("/v1/execute", &json!({"language": PYTHON, "source": "1"})).status, 200);
}

#[test]
fn session_in_an_unexpected_state_is_unchanged() {
    let engine = FleetEngine::start();
    let server = server(&engine);
    let first = etag(&open(&server, "s"));
    let second = etag(&execute(&server, &[("if-match", &first)], "n = 1"));
    assert_ne!(first, second);
    for wrong in [&*first, "\"none\"", "\"1\""] {
        assert_eq!(execute(&server, &[("if-match", wrong)], "n = 2").problem(), (412, "generation".into()), "{wrong}");
        for (method, path) in [("POST", "/v1/sessions/s/undo"), ("DELETE", "/v1/sessions/s")] {
            let answer = server.ask(method, path, &[("if-match", wrong)], b"");
            assert_eq!(answer.problem(), (412, "generation".into()), "{method} {wrong}");
        }
    }
    assert_eq!(execute(&server, &[("if-match", "*")], "n").ok()["value"]["json"], 1);
    // A new session with the same name does not match entity tags of the old session.
    server.ask("DELETE", "/v1/sessions/s", &[], b"");
    assert_ne!(etag(&open(&server, "s")), first);
    assert_eq!(execute(&server, &[("if-match", &first)], "1").problem(), (412, "generation".into()));
}

#[test]
fn idempotency_key_holds_across_servers_and_restarts() {
    let engine = FleetEngine::start();
    let first = server(&engine);
    open(&first, "s").ok();
    let count = "n = globals().get('n', 0) + 1; n";
    let answer = execute(&first, &[("idempotency-key", "k1")], count);
    assert_eq!(answer.ok()["value"]["json"], 1);
    let keys = || engine.requests().into_iter().filter_map(|request| request.key).collect::<Vec<_>>();
    assert_eq!(keys(), ["one/execute/k1"]);
    assert_eq!(execute(&first, &[("idempotency-key", "k1")], count).body, answer.body);
    assert_eq!(keys().len(), 1, "the server repeats its stored answer");
    let other = execute(&first, &[("idempotency-key", "k1")], "2");
    assert_eq!(other.problem(), (422, "idempotency-key".into()));
    drop(first);
    let second = server(&engine);
    let again = execute(&second, &[("idempotency-key", "k1")], count);
    assert_eq!((again.ok(), etag(&again)), (answer.json(), etag(&answer)));
    assert_eq!(execute(&second, &[], "n").ok()["value"]["json"], 1, "the request ran only once");
}

#[test]
fn idempotent_request_is_retried_after_an_outage() {
    let (engine, server) = with_session();
    engine.fail(Some((503, "overloaded")));
    assert_eq!(execute(&server, &[("idempotency-key", "k")], "1").problem(), (503, "unavailable".into()));
    engine.fail(None);
    assert_eq!(execute(&server, &[("idempotency-key", "k")], "1").status, 200);
}

#[test]
fn disconnecting_cancels_unless_the_request_has_a_key() {
    let (engine, server) = with_session();
    let body = json!({"source": "import time\nfor _ in range(100): time.sleep(0.1)"}).to_string();
    let leaving = server.begin("POST", "/v1/sessions/s/execute", &[], body.as_bytes());
    until("it runs", || engine.running() == 1);
    drop(leaving);
    until("it was stopped", || engine.running() == 0);
    until("and written down", || server.audited().last().is_some_and(|line| line["outcome"] == "cancelled"));
    let body = json!({"source": "import time; time.sleep(5); x = 5"}).to_string();
    let leaving = server.begin("POST", "/v1/sessions/s/execute", &[("idempotency-key", "k")], body.as_bytes());
    until("it runs", || engine.running() == 1);
    drop(leaving);
    assert_eq!(execute(&server, &[], "x").ok()["value"]["json"], 5);
}

#[test]
fn tokens_see_only_their_sessions_on_every_server() {
    let engine = FleetEngine::start();
    let (one, same) = (server(&engine), server(&engine));
    let other = server_in(engine.client(), "other", |_| {});
    open(&one, "s").ok();
    execute(&one, &[], "x = 1").ok();
    assert_eq!(execute(&same, &[], "x").ok()["value"]["json"], 1);
    assert_eq!(other.get("/v1/sessions").ok()["sessions"], json!([]));
    assert_eq!(other.get("/v1/sessions/s").problem(), (404, "not-found".into()));
    assert_eq!(open(&other, "s").status, 201, "session names are per token");
    assert_eq!(execute(&other, &[], "globals().get('x')").ok()["value"], json!(null));
}

#[test]
fn fleet_sessions_are_paged_and_limited() {
    let engine = FleetEngine::start();
    let one = server_in(engine.client(), "one", |config| config.sessions = 1_201);
    engine.list_also("one", 1_200);
    engine.list_also("other", 5);
    assert_eq!(open(&one, "s").status, 201, "the last free place");
    assert_eq!(open(&one, "t").problem(), (429, "quota-exceeded".into()));
    let page = |query: &str| {
        let listed = one.get(&format!("/v1/sessions{query}")).ok();
        let ids =
            listed["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned());
        (ids.collect::<Vec<_>>(), listed["next"].as_str().map(str::to_owned))
    };
    let (first, next) = page("");
    assert_eq!((first.len(), next.as_deref()), (1_000, Some("also-00999")));
    let (second, next) = page("?after=also-00999");
    assert_eq!((second.len(), second[0].as_str(), second[200].as_str(), next), (201, "also-01000", "s", None));
    assert_eq!(page("?limit=2&after=also-01198"), (vec!["also-01199".to_owned(), "s".to_owned()], None));
}

#[test]
fn quotas_and_rates_apply_before_the_fleet_is_called() {
    let engine = FleetEngine::start();
    let change = |config: &mut TenantConfig| config.executions_per_minute = std::num::NonZeroU32::new(2);
    let server = server_in(engine.client(), "one", change);
    open(&server, "s").ok();
    execute(&server, &[], "1").ok();
    execute(&server, &[], "1").ok();
    let before = engine.requests().len();
    assert_eq!(execute(&server, &[], "1").problem(), (429, "rate-exceeded".into()));
    assert_eq!(engine.requests().len(), before);
}

#[test]
fn streamed_fleet_response_contains_one_result() {
    let (_engine, server) = with_session();
    let answer = execute(&server, &[("accept", "application/x-ndjson")], "print('hello')");
    let pieces: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let types: Vec<&Value> = pieces.iter().map(|piece| &piece["type"]).collect();
    assert_eq!(types, ["started", "result"]);
    assert_eq!(pieces[1]["result"]["stdout"], "hello\n");
}

#[test]
fn rolled_back_fleet_session_reports_it() {
    let (_engine, server) = with_session();
    let answer = execute(&server, &[], "'rolled back'").ok();
    assert_eq!(answer["rolled_back_to"], json!({"checkpoint": 2, "executions_lost": 0}));
}

#[test]
fn callback_tools_are_forwarded_if_allowed() {
    let engine = FleetEngine::start();
    let server = server_in(engine.client(), "one", |config| {
        let allowed = UrlPatterns::new(&["https://tools.example.com/*".to_owned()]).unwrap();
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned();
        config.callbacks = Some(Callbacks::new(&CallbacksConfig { allowed, secret }).unwrap());
    });
    open(&server, "s").ok();
    let ask = |callback: &str| {
        let tools = json!([{"name": "t", "description": "d", "schema": {"type": "object"}, "callback": callback}]);
        server.post("/v1/sessions/s/execute", &json!({"source": "1 + 1", "tools": tools}))
    };
    ask("https://tools.example.com/t").ok();
    let request = engine.requests().pop().unwrap();
    let tool = json!({
        "name": "t", "description": "d", "schema": {"type": "object"}, "callback": "https://tools.example.com/t",
    });
    assert_eq!((request.handler.as_str(), &request.body["tools"]), ("execute", &json!([tool])));
    let before = engine.requests().len();
    assert_eq!(ask("https://evil.example.com/t").problem(), (400, "invalid-argument".into()));
    assert_eq!(engine.requests().len(), before);
}

#[test]
fn executions_are_cancelled_when_the_server_stops() {
    let (engine, server) = with_session();
    let body = json!({"source": "import time\nfor _ in range(600): time.sleep(0.1)"}).to_string();
    let waiting = server.begin("POST", "/v1/sessions/s/execute", &[], body.as_bytes());
    until("it runs", || engine.running() == 1);
    server.stop(Duration::from_millis(100));
    assert_eq!(Answer::read(waiting).ok()["outcome"]["kind"], "cancelled");
    assert_eq!(engine.running(), 0);
}
