//! Every resource that a client can make the daemon allocate has a limit. The tests stay below, reach and exceed each
//! limit.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use glovebox::Policy;
use serde_json::json;

use super::support::{Answer, TestDaemon, http, request, tenant, until};

#[test]
fn request_size_is_limited() {
    let daemon = TestDaemon::with(http(|http| http.body_bytes = 10_000));
    let body = |bytes: usize| {
        let frame = r#"{"source":""}"#;
        frame.replace("\"\"", &format!("\"{}\"", "#".repeat(bytes - frame.len())))
    };
    for bytes in [9_999, 10_000] {
        assert_eq!(daemon.ask("POST", "/v1/validate", &[], body(bytes).as_bytes()).status, 200, "{bytes}");
    }
    let refused = daemon.ask("POST", "/v1/validate", &[], body(10_001).as_bytes());
    assert_eq!(refused.problem(), (413, "too-large".into()));
    daemon.open("s");
    assert_eq!(daemon.prints("s", "print(1)"), "1\n");
}

#[test]
fn unfinished_request_times_out() {
    let daemon = TestDaemon::with(http(|http| {
        (http.header_time, http.body_time) = (Duration::from_secs(2), Duration::from_secs(2));
    }));
    // The server closes the connection, or answers with an error.
    let mut silent = daemon.connect();
    silent.write_all(b"POST /v1/validate HT").unwrap();
    let mut rest = Vec::new();
    silent.read_to_end(&mut rest).unwrap();
    let mut half = daemon.connect();
    half.write_all(b"POST /v1/validate HTTP/1.1\r\ncontent-length: 20\r\n\r\n{\"source\"").unwrap();
    assert_eq!(Answer::read(half).status, 408);
}

#[test]
fn open_sessions_are_limited() {
    let daemon = TestDaemon::with(tenant(|tenant| tenant.sessions = 2));
    daemon.open("a");
    daemon.open("b");
    let state = daemon.get("/v1/sessions/a/state").body;
    for refused in [
        daemon.post("/v1/sessions", &json!({})),
        daemon.post("/v1/sessions/a/fork", &json!({})),
        daemon.ask("PUT", "/v1/sessions/c", &[], &state),
    ] {
        assert_eq!(refused.problem(), (429, "quota-exceeded".into()));
        assert!(refused.text().contains("too many sessions: the limit is 2"), "{refused:?}");
    }
    assert_eq!(daemon.prints("b", "print(1)"), "1\n", "open sessions continue");
    assert_eq!(daemon.ask("DELETE", "/v1/sessions/a", &[], b"").status, 204);
    daemon.open("c");
}

#[test]
fn policies_of_sessions_are_limited() {
    let daemon = TestDaemon::new();
    // Parsed values count as 160 bytes each: 12.8 MB for each policy. All policies can occupy 64 MiB in total.
    let open = |count: usize| daemon.post("/v1/sessions", &json!({"policy": {"args": vec![""; count]}}));
    let refused = open(100_000);
    assert_eq!(refused.problem(), (400, "invalid-argument".into()));
    assert!(refused.text().contains("the maximum is 262144"), "{refused:?}");
    let opened: Vec<String> = (0..5).map(|_| open(79_000).ok()["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(open(79_000).problem(), (429, "quota-exceeded".into()));
    let forked = daemon.post(&format!("/v1/sessions/{}/fork", opened[0]), &json!({}));
    assert_eq!(forked.problem(), (429, "quota-exceeded".into()), "a fork keeps the policy");
    daemon.open("s");
    assert_eq!(daemon.prints("s", "print(1)"), "1\n", "sessions without a policy fit");
    assert_eq!(daemon.ask("DELETE", &format!("/v1/sessions/{}", opened[0]), &[], b"").status, 204);
    open(79_000).ok();
}

#[test]
fn open_connections_are_limited() {
    let daemon = TestDaemon::with(http(|http| http.connections = 2));
    let (one, two) = (daemon.connect(), daemon.connect());
    let mut three = daemon.connect();
    three.write_all(&request("GET", "/v1/info", &[], b"")).unwrap();
    three.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(three.read(&mut [0]).is_err(), "a further connection waits");
    three.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    drop(one);
    assert_eq!(Answer::read(three).status, 200);
    drop(two);
}

#[test]
fn suspended_executions_are_limited() {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.tool_timeout_ms) = (600_000, 600_000);
    let daemon = TestDaemon::with(tenant(|tenant| (tenant.policy, tenant.suspended) = (policy, 2)));
    let ask = || daemon.post("/v1/execute", &json!({"source": "tools.ask()", "tools": [{"name": "ask"}]}));
    let first = ask();
    assert_eq!((first.status, ask().status), (202, 202));
    assert_eq!(ask().problem(), (429, "quota-exceeded".into()));
    let path = format!("/v1/executions/{}", first.json()["execution"].as_str().unwrap());
    daemon.ask("DELETE", &path, &[], b"").ok();
    assert_eq!(ask().status, 202);
}

#[test]
fn unread_results_of_a_process_are_limited() {
    let mut setup = http(|http| http.bodies_bytes = 16 << 20);
    let mut policy = Policy::default();
    policy.limits.tool_timeout_ms = 4_000;
    setup.tenant = Some(Box::new(|tenant| tenant.policy = policy));
    let daemon = TestDaemon::with(setup);
    let body = json!({"source": "print('x' * 1_500_000)\ntools.ask()", "tools": [{"name": "ask"}]});
    let start = || {
        let started = daemon.post("/v1/execute", &body);
        assert_eq!(started.status, 202, "{started:?}");
        format!("/v1/executions/{}/continue", started.json()["execution"].as_str().unwrap())
    };
    let ended = || -> u64 {
        let text = daemon.service.metrics_text();
        let counts = text.lines().filter(|line| line.starts_with("glovebox_execution_seconds_count"));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    // Each client process can use 7 MiB, enough for four results.
    let unread: Vec<String> = (0..4).map(|_| start()).collect();
    until("four executions have ended", || ended() == 4);
    let dropped = start();
    until("the last execution has ended", || ended() == 5);
    assert_eq!(daemon.post(&dropped, &json!({})).problem(), (404, "not-found".into()));
    for path in unread {
        assert_eq!(daemon.post(&path, &json!({})).ok()["stdout"].as_str().unwrap().len(), 1_500_001);
    }
}

#[test]
fn requests_that_wait_for_a_session_are_charged() {
    let mut setup = http(|http| http.bodies_bytes = 16 << 20);
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.tool_timeout_ms) = (600_000, 600_000);
    setup.tenant = Some(Box::new(|tenant| tenant.policy = policy));
    let daemon = TestDaemon::with(setup);
    daemon.open("s");
    let body = json!({"source": "tools.ask()", "tools": [{"name": "ask"}]});
    assert_eq!(daemon.post("/v1/sessions/s/execute", &body).status, 202);
    let value = json!("x".repeat(3_000_000)).to_string();
    let waiting = daemon.begin("PUT", "/v1/sessions/s/variables/x", &[], value.as_bytes());
    // The requests of one client process can use 7 MiB. Parsing a request needs memory for two copies.
    let source = json!({"source": "#".repeat(3_000_000)}).to_string();
    let validate = || daemon.ask("POST", "/v1/validate", &[], source.as_bytes()).status;
    until("the waiting request is charged", || validate() == 503);
    drop(waiting);
    until("the memory is free", || validate() != 503);
}

#[test]
fn idle_sessions_end() {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.tool_timeout_ms) = (600_000, 600_000);
    let daemon = TestDaemon::with(tenant(|tenant| tenant.policy = policy));
    for id in ["idle", "read", "busy", "waits"] {
        daemon.open(id);
    }
    let waiting =
        daemon.post("/v1/sessions/waits/execute", &json!({"source": "tools.ask()", "tools": [{"name": "ask"}]}));
    assert_eq!(waiting.status, 202);
    let source = "import time\nwhile True: time.sleep(0.01)";
    let (busy, execution) = daemon.stream("/v1/sessions/busy/execute", &json!({ "source": source }));
    until("it runs", || daemon.executing() == 1);
    daemon.tenant.end_idle_sessions(Duration::from_secs(600));
    assert_eq!(daemon.tenant.open_sessions(), Some(4));
    let used = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    daemon.get("/v1/sessions/read").ok();
    // All sessions except `read` were last used before `used`.
    daemon.tenant.end_idle_sessions(used.elapsed());
    assert_eq!(daemon.get("/v1/sessions/idle").problem(), (404, "not-found".into()));
    assert_eq!(daemon.get("/v1/sessions/read").ok()["id"], "read", "reading counts as use");
    assert_eq!(daemon.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"").status, 204);
    assert_eq!(busy.last().unwrap()["type"], "result", "a running execution counts as use");
    assert_eq!(daemon.get("/v1/sessions/busy").ok()["id"], "busy");
    let path = format!("/v1/executions/{}/continue", waiting.json()["execution"].as_str().unwrap());
    let done = daemon.post(&path, &json!({"answers": [{"id": 0, "value": 1}]}));
    assert_eq!(done.status, 200, "a suspended execution counts as use: {done:?}");
}
