//! Tests the workers of `glovebox serve`: they execute all scripts, and the server survives the end of any worker.

use std::{fs, io::Read as _, process::Command, thread};

use glovebox::Limits;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    server::{Answer, OTHER, Server, in_session, kill, parent, peak_kib, processor_ticks, python, status, until},
    support,
};

#[test]
fn workers_use_tools_from_a_prepared_bundle() {
    let dir = TempDir::new().unwrap();
    let (bundle, cache) = (dir.path().join("prepared.zip"), dir.path().join("cache"));
    let (bundle, cache) = (bundle.to_str().unwrap(), cache.to_str().unwrap());
    support::prepare();
    let mut command = Command::new(env!("CARGO_BIN_EXE_glovebox"));
    let written = command.args(["runtimes", "bundle", "--compiled", bundle, "javascript", "typescript"]).output();
    assert!(written.unwrap().status.success());
    let flags = ["--workers", "1", "--runtime", "javascript", "--cache-dir", cache, "--prepared", bundle];
    let server = Server::start(&flags);
    let script = json!({ "language": "javascript", "name": "a.ts", "source": "const x: number = 42; console.log(x)" });
    assert_eq!(server.post("/v1/execute", &script).ok()["stdout"], "42\n");
}

#[test]
fn scripts_and_sessions_run_in_confined_workers() {
    let server = Server::start(&["--workers", "3"]);
    let info = server.get("/v1/info").ok();
    assert_eq!((&info["workers"]["count"], &info["workers"]["ready"]), (&json!(3), &json!(3)));
    let workers = server.workers();
    assert_eq!(workers.len(), 3, "{workers:?}");
    for worker in &workers {
        assert_eq!(info["workers"]["confinement"]["resource_limits"], "on");
        assert_eq!(info["workers"]["confinement"]["no_new_privileges"], "on");
        assert_eq!(status(*worker, "NoNewPrivs"), "1");
        // The server must report what the kernel enforces.
        let is_filtered = status(*worker, "Seccomp") == "2";
        assert_eq!(info["workers"]["confinement"]["seccomp"] == "on", is_filtered, "{info}");
        let limits = fs::read_to_string(format!("/proc/{worker}/limits")).unwrap();
        let limit = |name: &str| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        // A third of the 100 live sessions, rounded up: there are three workers.
        let sessions = 34;
        let bytes = (64 << 30) + sessions * ((256 << 20) + Limits::default().memory_bytes);
        assert_eq!(limit("Max core file size"), "0");
        assert_eq!(limit("Max open files"), (4_096 + 4 * sessions).to_string());
        assert_eq!(limit("Max data size"), bytes.to_string());
        let environment = fs::read(format!("/proc/{worker}/environ")).unwrap();
        assert!(
            !String::from_utf8_lossy(&environment).contains("a token of the tests"),
            "the worker's environment must not contain a token"
        );
    }
    assert_eq!(server.post("/v1/execute", &python("print(6 * 7)")).ok()["stdout"], "42\n");
    assert_eq!(server.post("/v1/execute", &python("1 / 0")).ok()["outcome"]["kind"], "raised");
    assert_eq!(server.post("/v1/execute", &json!({ "source": 1 })).problem(), (400, "invalid-argument".into()));
    assert_eq!(server.post("/v1/validate", &python("(")).ok()["diagnostics"][0]["line"], 1);

    // Sessions with given and generated names run on all workers.
    let mut ids: Vec<String> = (0..6).map(|n| format!("s{n}")).collect();
    for id in &ids {
        server.post("/v1/sessions", &json!({ "id": id, "language": "python" })).ok();
    }
    let made = server.post("/v1/sessions", &json!({ "language": "python" })).ok();
    ids.push(made["id"].as_str().unwrap().to_owned());
    for id in &ids {
        assert_eq!(in_session(&server, id, "x = 1").status, 200);
    }
    for (n, id) in ids.clone().into_iter().enumerate() {
        let fork = server.post(&format!("/v1/sessions/{id}/fork"), &json!({ "id": format!("f{n}") })).ok();
        ids.push(fork["id"].as_str().unwrap().to_owned());
        let fork = server.ask("POST", &format!("/v1/sessions/{id}/fork"), "").ok();
        ids.push(fork["id"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        let value = in_session(&server, id, "x += 1\nx").ok();
        assert_eq!(value["value"]["json"], 2, "{id}: {value}");
    }
    let list = server.get("/v1/sessions").ok();
    let listed = list["sessions"].as_array().unwrap();
    assert_eq!(listed.len(), ids.len());
    assert!(listed.iter().all(|session| !session["live"].is_null()), "each worker reports its live sessions: {list}");
    until("the workers have reported", || usize::try_from(server.metric("glovebox_live_sessions")) == Ok(ids.len()));
    // Files, variables and state have the same format as without workers.
    assert_eq!(server.ask("PUT", "/v1/sessions/s0/files/a/b.txt", "text").status, 204);
    assert_eq!(server.get("/v1/sessions/s0/files/a/b.txt").text, "text");
    assert_eq!(in_session(&server, "s0", "import os; os.symlink('a/b.txt', 'link')").status, 200);
    assert_eq!(server.get("/v1/sessions/s0/files/link").text, "text");
    assert_eq!(server.get("/v1/sessions/s0/variables/x").ok()["value"], 2);
    assert_eq!(server.ask("DELETE", "/v1/sessions/s0", "").status, 204);
    assert_eq!(server.get("/v1/sessions/s0").problem(), (404, "not-found".into()));
    assert_eq!(server.get("/v1/sessions/s0/nothing").problem(), (404, "no-route".into()));
    assert!(
        server.metric(r#"glovebox_execution_seconds_count{door="http",language="python",outcome="completed"}"#) > 20
    );
}

#[test]
fn killed_worker_loses_only_running_executions() {
    let server = Server::start(&["--workers", "2"]);
    let ids: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    for id in &ids {
        server.post("/v1/sessions", &json!({ "id": id, "language": "python" })).ok();
        assert_eq!(in_session(&server, id, "x = 1").status, 200);
    }
    let keyed = [("idempotency-key", "k")];
    let slow = python("import time; time.sleep(8)").to_string();
    let running = [
        server.begin("POST", "/v1/execute", &[], &slow),
        server.begin("POST", "/v1/execute", &keyed, &slow),
        server.begin("POST", "/v1/execute", &[("accept", "application/x-ndjson")], &slow),
        server.begin(
            "POST",
            "/v1/sessions/s0/execute",
            &[],
            &json!({ "source": "x = 99; import time; time.sleep(8)" }).to_string(),
        ),
    ];
    until("all executions are running", || server.metric("glovebox_running") == 4);
    let before = server.workers();
    before.iter().for_each(|worker| kill(*worker));
    let [whole, again, stream, session] = running.map(Answer::read);
    for answer in [&whole, &again, &session] {
        assert_eq!(answer.problem(), (500, "worker-died".into()));
        assert!(answer.json()["detail"].as_str().unwrap().contains("the script may have run"), "{answer:?}");
    }
    assert!(stream.text.contains("worker-died"), "{stream:?}");
    // Other requests can also fail at the moment of the kill.
    until("replacement workers are ready", || {
        server.metric("glovebox_worker_restarts_total") == 2 && server.metric("glovebox_workers") == 2
    });
    // The request may have run, so it is not repeated.
    let again = Answer::read(server.begin("POST", "/v1/execute", &keyed, &slow));
    assert_eq!(again.problem(), (409, "idempotency-key".into()));
    for id in &ids {
        assert_eq!(in_session(&server, id, "x").ok()["value"]["json"], 1, "{id} must keep its last acknowledged state");
    }
    assert_eq!(server.post("/v1/execute", &python("print(1)")).ok()["stdout"], "1\n");
    let after = server.workers();
    assert!(after.len() == 2 && after.iter().all(|worker| !before.contains(worker)), "{before:?} {after:?}");
    assert_eq!((server.metric("glovebox_running"), server.metric("glovebox_worker_restarts_total")), (0, 2));
    assert_eq!(server.get("/v1/info").ok()["workers"]["restarts"], 2);
    assert_eq!(server.metric(r#"glovebox_refused_total{door="http",code="worker-died"}"#), 4);
}

#[test]
fn workers_forward_output_and_cancellation() {
    let server = Server::start(&["--workers", "1"]);
    let source = "import time\nfor n in range(3000):\n    print(n, flush=True)\n    time.sleep(0.003)";
    let mut stream =
        server.begin("POST", "/v1/execute", &[("accept", "text/event-stream")], &python(source).to_string());
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("event: stdout") {
        let mut some = [0; 512];
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&some[..count]);
    }
    assert_eq!(server.metric("glovebox_running"), 1, "output must arrive while the script is running");
    drop(stream);
    until("the execution is cancelled", || server.metric("glovebox_running") == 0);
    // The server has accepted the request, but a worker might not have received it. An execution that is cancelled
    // before a worker has received it is not counted.
    let worker = server.workers()[0];
    let before = processor_ticks(worker);
    let whole = server.begin("POST", "/v1/execute", &[], &python("while True: pass").to_string());
    until("the execution is running", || processor_ticks(worker) > before + 5);
    drop(whole);
    until("the execution is cancelled", || server.metric("glovebox_running") == 0);
    let outcome =
        |kind: &str| format!(r#"glovebox_execution_seconds_count{{door="http",language="python",outcome="{kind}"}}"#);
    // An execution is counted after its worker has reported it, perhaps a moment later.
    until("both executions are counted", || server.metric(&outcome("cancelled")) == 2);
    // A long response arrives completely.
    let long = server.post("/v1/execute", &python("print('x' * 500_000)")).ok();
    assert_eq!(long["stdout"].as_str().unwrap().len(), 500_001);
}

/// The server drops a worker's reply that does not fit into its memory budget.
#[test]
fn replies_of_workers_take_bounded_memory() {
    let config = "[http]\nbodies_bytes = 8_388_608\n\n[policy.limits]\nstdout_bytes = 16_000_000\n";
    let server = Server::start_on(tempfile::tempdir().unwrap(), config, &["--workers", "1"]);
    // Each character takes six bytes in JSON.
    let print = |count: usize| server.post("/v1/execute", &python(&format!("print('\\x01' * {count}, end='')")));
    let peak_kib = || peak_kib(&server);
    assert_eq!(print(300_000).ok()["stdout"].as_str().unwrap().len(), 300_000);
    let before = peak_kib();
    for _ in 0..2 {
        assert_eq!(print(6_000_000).problem(), (503, "unavailable".into()));
    }
    let more = peak_kib() - before;
    assert!(more < 16 << 10, "{more} KiB for replies that have no room");
    assert_eq!(print(300_000).ok()["stdout"].as_str().unwrap().len(), 300_000);
}

#[test]
fn queue_and_quotas_stay_in_the_server() {
    let config = "[admission]\nrunning = 1\nwaiting = 1\nwait_ms = 60_000\n\n[policy.limits]\ntimeout_ms = 60_000\n";
    let server = Server::start_on(tempfile::tempdir().unwrap(), config, &["--workers", "2"]);
    let first = server.begin("POST", "/v1/execute", &[], &python("import time; time.sleep(8)").to_string());
    until("one execution is running", || server.metric("glovebox_running") == 1);
    let second = server.begin("POST", "/v1/execute", &[], &python("print(1)").to_string());
    until("one execution is waiting", || server.metric("glovebox_waiting") == 1);
    assert_eq!(server.post("/v1/execute", &python("1")).problem(), (503, "unavailable".into()));
    assert_eq!((Answer::read(first).status, Answer::read(second).status), (200, 200));
}

#[test]
fn workers_save_sessions_and_end_with_the_server() {
    let server = Server::start(&["--workers", "2"]);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    assert_eq!(in_session(&server, "s", "x = 5").status, 200);
    let workers = server.workers();
    let dir = server.kill();
    until("the workers have ended", || workers.iter().all(|worker| parent(*worker).is_none()));
    // Workers also end promptly when the server is stopped.
    let mut server = Server::start_on(dir, "", &["--workers", "3"]);
    assert_eq!(in_session(&server, "s", "x").ok()["value"]["json"], 5);
    let workers = server.workers();
    support::interrupt(&server.child);
    assert_eq!(support::wait(&mut server.child), 0);
    until("the workers have ended", || workers.iter().all(|worker| parent(*worker).is_none()));
}

#[test]
fn worker_count_and_manual_start_are_checked() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_glovebox")).args(args).output().unwrap();
        (output.status.code(), support::text(&output.stderr))
    };
    let (code, error) = run(&["serve-worker"]);
    assert!(code == Some(125) && error.contains("started only by `glovebox serve`"), "{code:?} {error}");
    let (code, error) = run(&["serve", "--workers", "257"]);
    assert!(code.is_some_and(|code| code > 0) && error.contains("1..=256"), "{code:?} {error}");
}

#[test]
fn session_operations_of_workers_are_audited() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let config = format!("[audit]\nfile = {:?}\n", log.to_str().unwrap());
    let server = Server::start_on(dir, &config, &["--workers", "2"]);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    assert_eq!(in_session(&server, "s", "x = 1").status, 200);
    assert_eq!(server.get("/v1/sessions/s/variables/x").ok()["value"], 1);
    assert_eq!(server.ask("PUT", "/v1/sessions/s/files/a.txt", "text").status, 204);
    assert_eq!(server.post("/v1/sessions/t/hibernate", &json!({})).status, 404);
    let lines: Vec<Value> =
        fs::read_to_string(&log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let printed: Vec<_> = lines
        .iter()
        .map(|line| [&line["action"], &line["session"], &line["of"], &line["outcome"]].map(|value| value.as_str()))
        .collect();
    assert_eq!(
        printed,
        [
            [Some("open"), Some("s"), None, Some("done")],
            [Some("execute"), Some("s"), None, Some("completed")],
            [Some("get-variable"), Some("s"), Some("x"), Some("done")],
            [Some("change-files"), Some("s"), Some("a.txt"), Some("done")],
            [Some("hibernate"), Some("t"), None, Some("not-found")],
        ]
    );
    assert!(lines.iter().all(|line| line["door"] == "http" && line["tenant"].is_string()), "{lines:?}");
}

#[test]
fn audit_log_has_operations_of_a_killed_worker() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("audit.jsonl");
    let config = format!("[audit]\nfile = {:?}\n", log.to_str().unwrap());
    let server = Server::start_on(dir, &config, &["--workers", "1"]);
    server.post("/v1/sessions", &json!({ "id": "s", "language": "python" })).ok();
    let source = "import atexit\n@atexit.register\ndef spin():\n    while True: pass";
    assert_eq!(in_session(&server, "s", source).status, 200);
    let worker = server.workers()[0];
    let before = processor_ticks(worker);
    let closing = server.begin("DELETE", "/v1/sessions/s", &[], "");
    until("the exit handler is running", || processor_ticks(worker) > before + 20);
    kill(worker);
    assert_eq!(Answer::read(closing).problem(), (500, "worker-died".into()));
    // The line is written after the response is sent.
    until("the audit log contains the failure", || {
        let last = fs::read_to_string(&log).unwrap().lines().last().map(serde_json::from_str::<Value>);
        let last = last.unwrap().unwrap_or_default();
        ["action", "session", "outcome"].map(|key| last[key].as_str()) == ["close", "s", "worker-died"].map(Some)
    });
}

#[test]
fn sessions_of_workers_are_in_an_object_store() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().join("objects").to_str().unwrap());
    let flags = ["--workers", "2", "--store", &url];
    let server = Server::start_on(dir, "", &flags);
    for id in ["a", "b", "c"] {
        server.post("/v1/sessions", &json!({ "id": id, "language": "python" })).ok();
        assert_eq!(in_session(&server, id, "x = 1").status, 200);
    }
    server.workers().into_iter().for_each(kill);
    until("replacement workers are ready", || {
        server.metric("glovebox_worker_restarts_total") == 2 && server.metric("glovebox_workers") == 2
    });
    for id in ["a", "b", "c"] {
        assert_eq!(in_session(&server, id, "x += 1\nx").ok()["value"]["json"], 2, "{id}");
    }
    let mut server = server;
    support::interrupt(&server.child);
    assert_eq!(support::wait(&mut server.child), 0);
    let server = Server::start_on(server.kill(), "", &flags);
    let list = server.get("/v1/sessions").ok();
    assert_eq!(list["sessions"].as_array().unwrap().len(), 3, "{list}");
    assert_eq!(in_session(&server, "b", "x").ok()["value"]["json"], 2);
    assert_eq!(server.ask("DELETE", "/v1/sessions/b", "").status, 204);
    assert_eq!(server.get("/v1/sessions/b").problem(), (404, "not-found".into()));
}

/// The writes of all workers count towards one limit, even if they happen at the same time.
#[test]
fn stored_bytes_of_a_token_are_limited_in_all_workers_together() {
    stored_bytes_are_limited(tempfile::tempdir().unwrap(), &[]);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().join("objects").to_str().unwrap());
    stored_bytes_are_limited(dir, &["--store", &url]);
}

fn stored_bytes_are_limited(dir: TempDir, store: &[&str]) {
    const MAX: u64 = 32 << 20;
    let config = format!("{OTHER}stored_bytes = {MAX}\n");
    let server = Server::start_on(dir, &config, &[&["--workers", "4"], store].concat());
    let ids: Vec<String> = (0..12).map(|n| format!("s{n}")).collect();
    for id in &ids {
        server.ask_as_other("POST", "/v1/sessions", &json!({ "id": id, "language": "python" }).to_string()).ok();
    }
    let source = json!({ "source": "import os; x = os.urandom(8 << 20); None" });
    let write = |id: &String| server.ask_as_other("POST", &format!("/v1/sessions/{id}/execute"), &source.to_string());
    let answers: Vec<Answer> = thread::scope(|scope| {
        let clients: Vec<_> = ids.iter().map(|id| scope.spawn(move || write(id))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let saved = answers.iter().filter(|answer| answer.status == 200).count();
    assert!((1..4).contains(&saved), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.problem() == (500, "unsaved".into())));
    let list = server.ask_as_other("GET", "/v1/sessions", "").ok();
    let stored: u64 = list["sessions"].as_array().unwrap().iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
    assert!(stored <= MAX, "{stored}");
}

#[test]
fn contexts_of_an_e2b_sandbox_share_files_in_a_worker() {
    let server = Server::start(&["--workers", "3", "--e2b"]);
    for _ in 0..3 {
        let sandbox = server.post("/v2/sandboxes", &json!({ "templateID": "t" })).json();
        let (id, secret) = (sandbox["sandboxID"].as_str().unwrap(), sandbox["envdAccessToken"].as_str().unwrap());
        let headers = [("e2b-sandbox-id", id), ("x-access-token", secret)];
        let ask = |path: &str, body: Value| Answer::read(server.begin("POST", path, &headers, &body.to_string()));
        let run = |code: &str, language: &str| ask("/execute", json!({ "code": code, "language": language })).text;
        assert!(run("open('f', 'w').write('from python')", "python").contains("end_of_execution"));
        assert!(run("require('fs').readFileSync('f', 'utf8')", "javascript").contains("from python"));
        assert!(run("open('f').read()", "python").contains("from python"));
        let missing = ask("/filesystem.Filesystem/Stat", json!({ "path": "none" }));
        assert_eq!((missing.status, missing.json()["code"].as_str()), (404, Some("not_found")));
        let unknown = ask("/execute", json!({ "code": "1", "context_id": "none" }));
        assert!(unknown.status == 404 && unknown.text.contains("no context"), "{unknown:?}");
    }
}

#[test]
fn workers_are_used_by_default() {
    let count = thread::available_parallelism().unwrap().get();
    let server = Server::start(&["--e2b"]);
    assert_eq!(server.workers().len(), count);
    assert_eq!(server.get("/v1/info").ok()["workers"]["count"], count);
    let server = Server::start(&["--in-process"]);
    assert!(server.workers().is_empty() && server.get("/v1/info").ok()["workers"].is_null());
    assert_eq!(server.post("/v1/execute", &python("print(1)")).ok()["stdout"], "1\n");
}
