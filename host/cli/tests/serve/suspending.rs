//! Tests that suspended executions survive the server, with workers and without.

use std::{fs, io::Read as _, net::TcpStream};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::server::{Answer, OTHER, Server, in_session, kill, until};

fn request(source: &str) -> Value {
    json!({
        "language": "python", "source": source, "tools": [{ "name": "ask" }], "files": { "given": "file" },
        "return_files": ["out"], "suspendable": true,
    })
}

fn resumption(bytes: &[u8], answers: &Value) -> Value {
    json!({
        "suspended": { "base64": BASE64_STANDARD.encode(bytes) }, "answers": answers, "tools": [{ "name": "ask" }],
        "files": { "given": "file" }, "return_files": ["out"],
    })
}

/// Starts an execution and returns its ID when it waits for an answer.
fn start(server: &Server, request: &Value) -> String {
    let answer = server.post("/v1/execute", request);
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["execution"].as_str().unwrap().to_owned()
}

/// Suspends an execution and returns its bytes.
fn suspend(server: &Server, execution: &str) -> Vec<u8> {
    let mut stream: TcpStream = server.begin("POST", &format!("/v1/executions/{execution}/suspend"), &[], "");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("application/octet-stream"), "{head}");
    answer[end + 4..].to_vec()
}

#[test]
fn suspended_executions_survive_workers_and_server() {
    let source = "import random\nprint(random.random())\nwith open('out', 'w') as out:\n    \
                  out.write(open('given').read() + tools.ask(q=1) + tools.ask(q=2))";
    let (one, two) = (json!([{ "id": 0, "value": "1" }]), json!([{ "id": 1, "value": "2" }]));
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    fs::write(&key, "7".repeat(64)).unwrap();
    let config = format!("key_file = {:?}\n{OTHER}", key.to_str().unwrap());
    let (workers, in_process): (&[&str], &[&str]) = (&["--workers", "2"], &["--in-process"]);

    let server = Server::start_on(dir, &config, workers);
    let first = suspend(&server, &start(&server, &request(source)));
    let refused = server.ask_as_other("POST", "/v1/executions/resume", &resumption(&first, &one).to_string());
    assert_eq!(refused.problem(), (400, "invalid-argument".into()), "another tenant's bytes");
    let mut damaged = first.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let refused = server.post("/v1/executions/resume", &resumption(&damaged, &one));
    assert_eq!(refused.problem(), (400, "invalid-argument".into()));
    let prints = suspend(&server, &start(&server, &request("print(open('given').read())\ntools.ask()")));
    let mut body = resumption(&prints, &one);
    body["files"] = json!({ "given": "another file" });
    assert_eq!(server.post("/v1/executions/resume", &body).problem(), (409, "diverged".into()));
    let execution = start(&server, &json!({ "source": "tools.ask()", "tools": [{ "name": "ask" }] }));
    let refused = server.ask("POST", &format!("/v1/executions/{execution}/suspend"), "");
    assert_eq!(refused.problem(), (409, "not-suspendable".into()));
    server.workers().into_iter().for_each(kill);
    until("new workers are ready", || {
        server.metric("glovebox_worker_restarts_total") == 2 && server.metric("glovebox_workers") == 2
    });

    // A server without workers and a new server with workers can each resume executions that the other has suspended.
    let mut outputs = Vec::new();
    let mut dir = server.kill();
    for flags in [in_process, workers] {
        let server = Server::start_on(dir, &config, flags);
        let waiting = server.post("/v1/executions/resume", &resumption(&first, &one));
        assert_eq!((waiting.status, &waiting.json()["calls"][0]["id"]), (202, &json!(1)), "{flags:?}");
        let second = suspend(&server, waiting.json()["execution"].as_str().unwrap());
        dir = server.kill();
        for flags in [workers, in_process] {
            let server = Server::start_on(dir, &config, flags);
            let done = server.post("/v1/executions/resume", &resumption(&second, &two)).ok();
            assert_eq!(done["files"]["out"], BASE64_STANDARD.encode("file12"), "{flags:?}: {done}");
            outputs.push(done["stdout"].as_str().unwrap().to_owned());
            dir = server.kill();
        }
    }
    assert!(outputs.iter().all(|output| *output == outputs[0]), "{outputs:?}");
}

#[test]
fn sessions_with_workers_resume_suspended_executions() {
    let dir = tempfile::tempdir().unwrap();
    let (workers, in_process): (&[&str], &[&str]) = (&["--workers", "2"], &["--in-process"]);
    let server = Server::start_on(dir, "", workers);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    in_session(&server, "s", "import random\nx = ['before']").ok();
    let body = json!({
        "source": "x.append(random.random())\nx.append(tools.ask(q=1))\nprint(x[0], x[2])",
        "tools": [{ "name": "ask" }], "suspendable": true,
    });
    let waiting = server.post("/v1/sessions/s/execute", &body);
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let bytes = suspend(&server, waiting.json()["execution"].as_str().unwrap());
    assert_eq!(in_session(&server, "s", "len(x)").ok()["value"]["json"], 1);
    let mut dir = server.kill();
    let body = json!({
        "session": "s", "suspended": { "base64": BASE64_STANDARD.encode(&bytes) },
        "answers": [{ "id": 0, "value": "after" }], "tools": [{ "name": "ask" }],
    });
    let mut numbers = Vec::new();
    for flags in [workers, in_process] {
        let server = Server::start_on(dir, "", flags);
        let resume = |generation: &str| {
            let headers = [("if-match", generation)];
            Answer::read(server.begin("POST", "/v1/executions/resume", &headers, &body.to_string()))
        };
        assert_eq!(resume("\"1-1\"").problem(), (412, "generation".into()), "{flags:?}");
        assert_eq!(resume("*").ok()["stdout"], "before after\n", "{flags:?}");
        numbers.push(in_session(&server, "s", "x[1]").ok()["value"]["json"].clone());
        dir = server.kill();
    }
    assert_eq!(numbers[0], numbers[1], "the random number is the recorded one");
}

#[test]
fn session_with_workers_keeps_its_state_if_a_resumption_is_refused() {
    let server = Server::start_on(tempfile::tempdir().unwrap(), "", &["--workers", "2"]);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    let body = json!({ "source": "x = tools.ask(q=1)", "tools": [{ "name": "ask" }], "suspendable": true });
    let waiting = server.post("/v1/sessions/s/execute", &body);
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let bytes = suspend(&server, waiting.json()["execution"].as_str().unwrap());
    in_session(&server, "s", "x = 'later'").ok();
    let etag = || {
        let mut answer = String::new();
        server.begin("GET", "/v1/sessions/s", &[], "").read_to_string(&mut answer).unwrap();
        answer.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().to_owned()
    };
    let resume = |call: u64, etag: &str| {
        let body = json!({
            "session": "s", "suspended": { "base64": BASE64_STANDARD.encode(&bytes) },
            "answers": [{ "id": call, "value": "answer" }], "tools": [{ "name": "ask" }],
        });
        Answer::read(server.begin("POST", "/v1/executions/resume", &[("if-match", etag)], &body.to_string()))
    };
    let later = etag();
    assert_eq!(resume(7, &later).problem(), (400, "invalid-argument".into()), "unknown call");
    assert_eq!(etag(), later);
    assert_eq!(in_session(&server, "s", "x").ok()["value"]["json"], "later");
    // The client can send other answers with the `ETag` from before the refused request.
    let later = etag();
    assert_eq!(resume(7, &later).problem(), (400, "invalid-argument".into()), "unknown call");
    resume(0, &later).ok();
    assert_eq!(in_session(&server, "s", "x").ok()["value"]["json"], "answer");
}

#[test]
fn session_with_workers_keeps_its_state_if_a_limit_stops_the_repeated_steps() {
    let server = Server::start_on(tempfile::tempdir().unwrap(), "", &["--workers", "2"]);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    let source = "for _ in range(300_000): pass\nx = tools.ask(q=1)";
    let body = json!({ "source": source, "tools": [{ "name": "ask" }], "suspendable": true });
    let waiting = server.post("/v1/sessions/s/execute", &body);
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let bytes = suspend(&server, waiting.json()["execution"].as_str().unwrap());
    in_session(&server, "s", "x = 'later'").ok();
    let dir = server.kill();

    let server = Server::start_on(dir, "[policy.limits]\nfuel = 100_000_000\n", &["--workers", "2"]);
    let body = json!({
        "session": "s", "suspended": { "base64": BASE64_STANDARD.encode(&bytes) },
        "answers": [{ "id": 0, "value": "answer" }], "tools": [{ "name": "ask" }],
    });
    let headers = [("if-match", "*")];
    let stopped = Answer::read(server.begin("POST", "/v1/executions/resume", &headers, &body.to_string()));
    assert_eq!(stopped.ok()["outcome"]["kind"], "exhausted");
    assert_eq!(in_session(&server, "s", "x").ok()["value"]["json"], "later");
}

#[test]
fn long_context_of_a_session_can_be_suspended() {
    let server = Server::start_on(tempfile::tempdir().unwrap(), "", &["--workers", "2"]);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    let context: Vec<Value> = (0..300_000_u64).map(|n| json!([n * n % 1_009 % 10])).collect();
    let body = json!({
        "source": "tools.ask()", "context": context, "tools": [{ "name": "ask" }], "suspendable": true,
    });
    let json_bytes = body.to_string().len();
    let waiting = server.post("/v1/sessions/s/execute", &body);
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let bytes = suspend(&server, waiting.json()["execution"].as_str().unwrap());
    assert!(bytes.len() > 3 * json_bytes, "the state contains objects: {} and {json_bytes}", bytes.len());
}
