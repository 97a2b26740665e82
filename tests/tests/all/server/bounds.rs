//! Every resource that a client can make the server allocate has a limit. The tests stay below, reach and exceed each
//! limit.

use std::{
    io::{Read, Write},
    num::NonZeroU32,
    time::{Duration, Instant},
};

use glovebox_server::{Admission, ServiceConfig, TenantConfig, http::HttpConfig};
use glovebox_sessions::{DirectoryStore, SessionId, SessionLock, SessionStore as _, block_on};
use serde_json::json;

use super::support::{Answer, Server, Setup, metric, until};

fn tenant(change: impl FnOnce(&mut TenantConfig) + 'static) -> Setup {
    Setup { tenant: Some(Box::new(change)), ..Setup::default() }
}

fn http(change: impl FnOnce(&mut HttpConfig)) -> Setup {
    let mut config = HttpConfig::default();
    change(&mut config);
    Setup { http: config, ..Setup::default() }
}

/// Sends a request for a script that runs until the client disconnects.
fn running(server: &Server) -> std::net::TcpStream {
    let body = json!({"language": "python", "source": "import time; time.sleep(60)"}).to_string();
    server.begin("POST", "/v1/execute", &[], body.as_bytes())
}

/// Disconnects the client of a running script, and waits until the script has ended.
fn end(server: &Server, running: std::net::TcpStream) {
    drop(running);
    until("nothing runs", || metric(server, "glovebox_running") == 0);
}

/// Returns a server with these bounds on executions. Its scripts may run for two minutes.
fn admitting(admission: Admission) -> Server {
    let service = ServiceConfig { admission, ..ServiceConfig::default() };
    Server::start(Setup { service, ..tenant(|tenant| tenant.policy.limits.timeout_ms = 120_000) })
}

fn quick(server: &Server) -> Answer {
    server.post("/v1/execute", &json!({"language": "python", "source": "print(1)"}))
}

#[test]
fn request_body_size_is_limited() {
    let server = Server::start(http(|http| http.body_bytes = 10_000));
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let put = |bytes: usize| server.ask("PUT", "/v1/sessions/s/files/a", &[], &vec![b'x'; bytes]);
    assert_eq!((put(9_999).status, put(10_000).status), (204, 204));
    assert_eq!(put(10_001).problem(), (413, "too-large".into()));
    // The limit also applies to a body without a content length.
    let chunked = |bytes: usize| {
        let head = format!(
            "PUT /v1/sessions/s/files/a HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n",
            server.address,
            super::support::TOKEN
        );
        let body = format!("{bytes:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(bytes));
        Answer::read(server.send((head + &body).as_bytes())).status
    };
    assert_eq!((chunked(10_000), chunked(10_001)), (204, 413));
    assert_eq!(server.get("/v1/sessions/s/files/a").body.len(), 10_000);
}

#[test]
fn total_body_size_and_body_time_are_limited() {
    let server = Server::start(http(|http| (http.bodies_bytes, http.body_time) = (64 << 10, Duration::from_secs(10))));
    let head = |bytes: usize| {
        format!(
            "POST /v1/execute HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: {bytes}\r\n\r\n",
            server.address,
            super::support::TOKEN
        )
    };
    // The request occupies 48 of 64 KiB, and the client sends no more.
    let begin = || server.send(&[head(100_000).as_bytes(), &vec![b' '; 48 << 10]].concat());
    let body = json!({"language": "python", "source": format!("#{}\nprint(1)", "x".repeat(20_000))}).to_string();
    let ask = || server.ask("POST", "/v1/execute", &[], body.as_bytes());
    let mut slow = begin();
    until("the body is held", || {
        std::thread::sleep(Duration::from_millis(200));
        let answer = ask();
        if answer.status == 503 {
            assert_eq!(answer.problem(), (503, "unavailable".into()));
            return true;
        }
        // The second request arrived first and used the memory that the slow request needs.
        slow = begin();
        false
    });
    let small = server.post("/v1/execute", &json!({"language": "python", "source": "print(1)"}));
    assert_eq!(small.ok()["stdout"], "1\n", "a request that fits is served");
    let begun = Instant::now();
    assert_eq!(Answer::read(slow).problem(), (408, "timeout".into()));
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(ask().ok()["stdout"], "1\n", "the memory is free again");
}

/// Returns a server that executes one script at a time, with 896 KiB of memory for requests and responses.
fn small_server() -> Server {
    let admission = Admission { running: 1, waiting: 8, wait_ms: 20_000, ..Admission::default() };
    Server::start(Setup {
        service: ServiceConfig { admission, ..ServiceConfig::default() },
        http: HttpConfig { bodies_bytes: 1 << 20, ..HttpConfig::default() },
        ..tenant(|tenant| tenant.policy.limits.timeout_ms = 60_000)
    })
}

/// Returns a request with a tool whose schema contains `count` lists. Each list costs 5 * 160 bytes.
fn with_lists(source: &str, count: usize) -> String {
    let tools = json!([{"name": "ask", "schema": {"default": vec![[0]; count]}}]);
    json!({"language": "python", "source": source, "tools": tools}).to_string()
}

#[test]
fn parsed_values_of_waiting_requests_are_limited() {
    let server = small_server();
    let body = json!({"language": "python", "source": "import time; time.sleep(50)"}).to_string();
    let first = server.begin("POST", "/v1/execute", &[], body.as_bytes());
    until("one runs", || metric(&server, "glovebox_running") == 1);
    let execute = |body: &str| server.begin("POST", "/v1/execute", &[], body.as_bytes());
    let second = execute(&with_lists("print(2)", 1_000));
    until("one waits", || metric(&server, "glovebox_waiting") == 1);
    let args = json!({"language": "python", "source": "1", "policy": {"args": vec![""; 1_000]}}).to_string();
    // Short names and empty contents take few bytes of JSON, but more memory when parsed.
    let files: serde_json::Map<_, _> = (0..1_000).map(|n| (n.to_string(), json!(""))).collect();
    let files = json!({"language": "python", "source": "1", "files": files}).to_string();
    for body in [with_lists("1", 1_000), with_lists("1", 200), args, files] {
        let refused = Answer::read(execute(&body));
        assert_eq!(refused.problem(), (503, "unavailable".into()));
        assert!(refused.text().contains("memory for requests is full"), "{refused:?}");
    }
    let third = execute(&with_lists("print(3)", 100));
    until("a request that fits waits", || metric(&server, "glovebox_waiting") == 2);
    drop(first);
    assert_eq!(Answer::read(second).ok()["stdout"], "2\n");
    assert_eq!(Answer::read(third).ok()["stdout"], "3\n");
    assert_eq!(Answer::read(execute(&with_lists("print(4)", 1_000))).ok()["stdout"], "4\n", "the memory is free again");
}

#[test]
fn tools_of_suspended_executions_are_limited() {
    let server = small_server();
    let execute = |count: usize| server.ask("POST", "/v1/execute", &[], with_lists("tools.ask()", count).as_bytes());
    let cancel = |answer: &Answer| {
        assert_eq!(answer.status, 202, "{answer:?}");
        let execution = answer.json()["execution"].as_str().unwrap().to_owned();
        assert_eq!(server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").status, 200);
    };
    let first = execute(1_000);
    assert_eq!((first.status, execute(200).problem()), (202, (503, "unavailable".into())));
    cancel(&execute(100));
    cancel(&first);
    cancel(&execute(1_000));
}

#[test]
fn total_size_of_stored_responses_is_limited() {
    let server = Server::start(http(|http| (http.bodies_bytes, http.body_time) = (2 << 20, Duration::from_secs(1))));
    let prints = |bytes: usize| json!({"language": "python", "source": format!("print('x' * {bytes})")}).to_string();
    let ask = |key: &str| server.ask("POST", "/v1/execute", &[("idempotency-key", key)], prints(100_000).as_bytes());
    // An eighth of the memory is reserved for stored responses, enough for two of them.
    let answers = ["1", "2", "3"].map(|key| ask(key).body);
    assert_eq!(ask("1").problem(), (409, "idempotency-key".into()), "the request ran and must not run again");
    assert_eq!((ask("2").body, ask("3").body), (answers[1].clone(), answers[2].clone()));
    // Stored responses do not reduce the memory for other requests.
    let large = server.ask("POST", "/v1/execute", &[], prints(1_700_000).as_bytes());
    assert_eq!(large.ok()["stdout"].as_str().unwrap().len(), 1_700_001);
}

#[test]
fn queued_executions_are_limited() {
    let admission = Admission { running: 1, waiting: 1, wait_ms: 60_000, ..Admission::default() };
    let server = admitting(admission);
    let first = running(&server);
    until("one runs", || metric(&server, "glovebox_running") == 1);
    let second = running(&server);
    until("one waits", || metric(&server, "glovebox_waiting") == 1);
    let third = quick(&server);
    assert_eq!((third.problem(), third.header("retry-after")), ((503, "unavailable".into()), Some("1")));
    // A request that leaves the queue frees its position for another request.
    drop(second);
    until("nobody waits", || metric(&server, "glovebox_waiting") == 0);
    let body = json!({"language": "python", "source": "print(1)"}).to_string();
    let fourth = server.begin("POST", "/v1/execute", &[], body.as_bytes());
    until("another waits", || metric(&server, "glovebox_waiting") == 1);
    drop(first);
    assert_eq!(Answer::read(fourth).ok()["stdout"], "1\n");
}

#[test]
fn queue_wait_is_limited() {
    let admission = Admission { running: 1, waiting: 8, wait_ms: 50, ..Admission::default() };
    let server = admitting(admission);
    let first = running(&server);
    until("one runs", || metric(&server, "glovebox_running") == 1);
    assert_eq!(quick(&server).problem(), (503, "unavailable".into()));
    end(&server, first);
    assert_eq!(metric(&server, "glovebox_waiting"), 0);
    until("a request is served", || quick(&server).status == 200);
}

/// Returns a server on which operations wait for a session that another process uses.
fn patient_server(setup: Setup) -> Server {
    let patient = tenant(|tenant| tenant.store_policy.lock_wait_ms = 60_000);
    Server::start(Setup { tenant: patient.tenant, ..setup })
}

/// Locks a session as another process would.
fn lock(server: &Server, id: &str) -> SessionLock {
    let store = DirectoryStore::open(server.dir.path().join("one")).unwrap();
    block_on(store.try_lock(&SessionId::new(id).unwrap())).unwrap().unwrap()
}

#[test]
fn waiting_session_creations_occupy_no_execution_slots() {
    let admission = Admission { running: 2, wait_ms: 60_000, ..Admission::default() };
    let server =
        patient_server(Setup { service: ServiceConfig { admission, ..ServiceConfig::default() }, ..Setup::default() });
    let lock = lock(&server, "a");
    let open = |id: &str| {
        let body = json!({"id": id, "language": "javascript"}).to_string();
        server.begin("POST", "/v1/sessions", &[], body.as_bytes())
    };
    let first = open("a");
    until("it is being created", || metric(&server, "glovebox_running") == 1);
    let others = ["b", "c", "d"].map(open);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!((metric(&server, "glovebox_running"), quick(&server).status), (1, 200));
    drop(lock);
    assert_eq!(Answer::read(first).status, 201);
    assert_eq!(others.map(|other| Answer::read(other).status), [201; 3]);
}

#[test]
fn body_of_a_disconnected_client_counts_until_its_request_ends() {
    let server = patient_server(http(|http| http.bodies_bytes = 128 << 10));
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    server.post("/v1/sessions/s/execute", &json!({"source": "import os; x = os.urandom(40_000); None"})).ok();
    let state = server.get("/v1/sessions/s/state").body;
    // Together, the state and this file exceed seven eighths of the memory.
    let file = vec![b'x'; (112 << 10) - state.len() + 10_000];
    let write = || server.ask("PUT", "/v1/sessions/s/files/a", &[], &file).status;
    assert_eq!(write(), 204);
    let lock = lock(&server, "t");
    let import = server.begin("PUT", "/v1/sessions/t", &[], &state);
    until("it is being imported", || metric(&server, "glovebox_running") == 1);
    drop(import);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(write(), 503);
    drop(lock);
    until("the memory is free", || write() == 204);
    assert_eq!(server.get("/v1/sessions/t").status, 200, "the operation is completed");
}

#[test]
fn concurrent_executions_of_a_token_are_limited() {
    let server = Server::start(tenant(|tenant| {
        tenant.executions_at_once = 1;
        tenant.policy.limits.timeout_ms = 120_000;
    }));
    let first = running(&server);
    until("one runs", || metric(&server, "glovebox_running") == 1);
    assert_eq!(quick(&server).problem(), (429, "quota-exceeded".into()));
    end(&server, first);
    until("a request is served", || quick(&server).status == 200);
}

#[test]
fn execution_rate_of_a_token_is_limited() {
    let server = Server::start(tenant(|tenant| tenant.executions_per_minute = NonZeroU32::new(2)));
    assert_eq!((quick(&server).status, quick(&server).status), (200, 200));
    let third = quick(&server);
    assert_eq!(third.problem(), (429, "rate-exceeded".into()));
    assert!((1..=30).contains(&third.header("retry-after").unwrap().parse::<u32>().unwrap()));
    assert_eq!(server.audited().len(), 2, "refused requests are not audited");
    assert_eq!(metric(&server, "glovebox_refused_total{door=\"http\",code=\"rate-exceeded\"}"), 1);
    assert_eq!(server.get("/v1/sessions").status, 200, "the rate limit covers only executions");
}

#[test]
fn sessions_of_a_token_are_limited() {
    let server = Server::start(tenant(|tenant| tenant.sessions = 2));
    let open = |id: &str| server.post("/v1/sessions", &json!({"id": id, "language": "javascript"}));
    assert_eq!((open("a").status, open("b").status), (201, 201));
    assert_eq!(open("c").problem(), (429, "quota-exceeded".into()));
    assert_eq!(server.post("/v1/sessions/a/fork", &json!({})).problem().0, 429);
    let state = server.get("/v1/sessions/a/state").body;
    assert_eq!(server.ask("PUT", "/v1/sessions/c", &[], &state).problem().0, 429);
    assert_eq!(server.ask("DELETE", "/v1/sessions/b", &[], b"").status, 204);
    assert_eq!(open("c").status, 201);
}

#[test]
fn session_that_exceeds_the_store_can_be_exported() {
    let server = Server::start(tenant(|tenant| tenant.stored_bytes = 1 << 20));
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let source = json!({"source": "import os; x = os.urandom(2 << 20); None"});
    assert_eq!(server.post("/v1/sessions/s/execute", &source).problem(), (500, "unsaved".into()));
    let state = server.get("/v1/sessions/s/state");
    assert!(state.status == 200 && state.body.len() > 2 << 20, "{} {}", state.status, state.body.len());
    let other = Server::start(Setup::default());
    assert_eq!(other.ask("PUT", "/v1/sessions/t", &[], &state.body).status, 201);
    let value = other.post("/v1/sessions/t/execute", &json!({"source": "len(x)"})).ok()["value"]["json"].clone();
    assert_eq!(value, 2 << 20);
    // Deletes the session, because the server could not save it at shutdown and would report an error.
    assert_eq!(server.ask("DELETE", "/v1/sessions/s", &[], b"").status, 204);
}

#[test]
fn header_size_and_time_are_limited() {
    let server = Server::start(http(|http| (http.header_bytes, http.header_time) = (8 << 10, Duration::from_secs(3))));
    let long = "x".repeat(16 << 10);
    assert_eq!(Answer::read(server.begin("GET", "/healthz", &[("x-long", &long)], b"")).status, 431);
    // The client sends half a request head and nothing more. The server must close the connection.
    let mut stream = server.send(b"GET /healthz HTTP/1.1\r\nhost: local");
    let (mut bytes, begun) = (Vec::new(), Instant::now());
    let _ = stream.read_to_end(&mut bytes);
    assert!(begun.elapsed() < Duration::from_secs(30), "{}", String::from_utf8_lossy(&bytes));
    assert_eq!(server.get("/healthz").status, 200);
}

#[test]
fn connections_beyond_the_limit_wait() {
    let server = Server::start(http(|http| http.connections = 2));
    let mut idle: Vec<_> = (0..2).map(|_| server.send(b"")).collect();
    std::thread::sleep(Duration::from_millis(100));
    let third = server.begin("GET", "/healthz", &[], b"");
    third.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!((&third).read(&mut [0; 1]).is_err(), "the third connection waits");
    drop(idle.pop());
    third.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(Answer::read(third).status, 200);
}

#[test]
fn policies_files_and_patterns_are_limited() {
    let server = Server::start(Setup::default());
    let execute = |name: &str, value: serde_json::Value| {
        server.post("/v1/execute", &json!({"language": "python", "source": "print(1)", name: value}))
    };
    let patterns = |count: usize| execute("return_files", json!(vec!["*"; count]));
    assert_eq!((patterns(16).status, patterns(17).problem().0), (200, 400));
    let one = |pattern: String| execute("return_files", json!([pattern]));
    assert_eq!((one("*a".repeat(8)).status, one("*a".repeat(9)).problem().0), (200, 400));
    assert_eq!((one("a".repeat(1_024)).status, one("a".repeat(1_025)).problem().0), (200, 400));
    let files = |count: usize| {
        execute("files", (0..count).map(|n| (n.to_string(), json!(""))).collect::<serde_json::Map<_, _>>().into())
    };
    assert_eq!((files(9_000).status, files(10_001).problem().0), (200, 400));
    let policy = |bytes: usize| execute("policy", json!({"args": ["a".repeat(bytes)]}));
    assert_eq!((policy(100_000).status, policy(200_000).problem().0), (200, 400), "the engine's own limit is lower");
    assert_eq!(policy((256 << 10) + 1).problem(), (400, "invalid-argument".into()));
    // Each list costs 5 units, and requests of more than 256 Ki units are never parsed.
    let lists = |count: usize| server.ask("POST", "/v1/validate", &[], with_lists("1", count).as_bytes());
    assert_eq!((lists(52_000).status, lists(53_000).problem()), (200, (400, "invalid-argument".into())));
}

#[test]
fn pipelined_requests_are_separate() {
    let server = Server::start(Setup::default());
    let one = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    let last = format!("GET /readyz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", server.address);
    let mut stream = server.send((one.clone() + &one + &last).as_bytes());
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!((text.matches("HTTP/1.1 200").count(), text.matches("ready\n").count()), (3, 1), "{text}");
    let mut stream = server.send(one.as_bytes());
    stream.write_all(b"GET / HTTP/9.9\r\n\r\n").unwrap();
    let _ = stream.read_to_string(&mut text);
    assert_eq!(server.get("/healthz").status, 200);
}
