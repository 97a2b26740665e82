//! Tests scripts that run in new interpreters.

use std::{io::Read, time::Duration};

use glovebox::{Policy, Tool};
use serde_json::{Value, json};

use super::support::{Answer, Server, Setup, TOKEN, metric, until};

#[test]
fn script_runs_with_all_request_fields() {
    let server = Server::start(Setup::default());
    let answer = server.post(
        "/v1/execute",
        &json!({
            "language": "python", "name": "x.py", "stdin": "one\ntwo\n", "context": {"a": [1, 2.5]},
            "files": {"in/a.txt": "text", "b.bin": {"base64": "AP8="}},
            "policy": {"args": ["--fast"], "env": {"K": "v"}, "limits": {"timeout_ms": 5_000}},
            "return_files": ["out/**", "*.bin"],
            "source": "import sys, os\nprint(input(), sys.argv, os.environ['K'], context['a'], open('in/a.txt').read())\n\
                       os.mkdir('out')\nopen('out/r', 'wb').write(open('b.bin', 'rb').read() * 2)\nraise ValueError('é')",
        }),
    );
    let answer = answer.ok();
    assert_eq!(answer["stdout"], "one ['x.py', '--fast'] v [1, 2.5] text\n");
    assert_eq!(answer["outcome"]["kind"], "raised");
    assert_eq!(answer["outcome"]["message"], "é");
    assert_eq!(answer["files"], json!({"b.bin": "AP8=", "out/r": "AP8A/w=="}));
    assert_eq!(answer["files_created"], json!(["out/r"]));
    assert_eq!((&answer["workspace_path"], &answer["files_left_out"]), (&Value::Null, &json!(0)));
    // The next execution does not see the state of this one.
    let next = server.post(
        "/v1/execute",
        &json!({"language": "python", "source": "import os; print(os.listdir('.'), 'context' in globals())"}),
    );
    assert_eq!(next.ok()["stdout"], "[] False\n");
}

#[test]
fn validation_does_not_run_the_script() {
    let server = Server::start(Setup::default());
    let validate =
        |source: &str| server.post("/v1/validate", &json!({"language": "javascript", "source": source})).ok();
    assert_eq!(validate("while (true) {}"), json!({"diagnostics": []}));
    assert_eq!(validate("let = ;")["diagnostics"][0]["line"], 1);
}

#[test]
fn host_workspace_path_is_not_revealed() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::write(workspace.path().join("a.txt"), "host").unwrap();
    let path = workspace.path().to_path_buf();
    let change = move |tenant: &mut glovebox_server::TenantConfig| tenant.policy.workspace = Some(path);
    let server = Server::start(Setup { tenant: Some(Box::new(change)), ..Setup::default() });
    let run = json!({"language": "python", "source": "print(open('a.txt').read())", "return_files": ["*"]});
    let answer = server.post("/v1/execute", &run);
    let name = workspace.path().to_str().unwrap();
    assert_eq!(answer.ok()["files"], json!({"a.txt": "aG9zdA=="}));
    assert!(!answer.text().contains(name) && !server.get("/v1/info").text().contains(name));
}

#[test]
fn value_of_the_last_expression_is_returned_by_default() {
    let server = Server::start(Setup::default());
    for (language, source) in [("python", "x = [1, 2]\nx * 2"), ("javascript", "const x = [1, 2]; [...x, ...x]")] {
        let body = json!({"language": language, "source": source});
        let with = server.post("/v1/execute", &body).ok();
        assert_eq!(with["value"]["json"], json!([1, 2, 1, 2]), "{language}");
        let mut body = body;
        body["value"] = json!(false);
        let without = server.post("/v1/execute", &body).ok();
        assert_eq!(without["value"], Value::Null, "{language}");
    }
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let refused = server.post("/v1/sessions/s/execute", &json!({"source": "1", "value": false}));
    assert_eq!(refused.problem(), (400, "invalid-argument".into()));
}

#[test]
fn scripts_call_tools_of_the_server() {
    let change = |tenant: &mut glovebox_server::TenantConfig| {
        tenant.tools =
            vec![Tool::new("add", "Adds.").handler(|_, arguments| Ok(json!(arguments["a"].as_i64().unwrap() + 1)))];
    };
    let server = Server::start(Setup { tenant: Some(Box::new(change)), ..Setup::default() });
    assert_eq!(server.get("/v1/info").ok()["tools"], json!(["add"]));
    for language in ["python", "javascript"] {
        let source =
            if language == "python" { "print(tools.add(a=1))" } else { "console.log(await tools.add({a: 1}))" };
        assert_eq!(server.post("/v1/execute", &json!({"language": language, "source": source})).ok()["stdout"], "2\n");
    }
}

#[test]
fn output_is_streamed_as_events_or_lines() {
    let server = Server::start(Setup::default());
    let source = "import sys, time\nprint('é', end='', flush=True)\ntime.sleep(0.05)\nprint('x', file=sys.stderr)\nprint(input())";
    let body = json!({"language": "python", "source": source, "stdin": "in"}).to_string();
    let lines = server.ask("POST", "/v1/execute", &[("accept", "application/x-ndjson")], body.as_bytes());
    assert_eq!(lines.header("content-type"), Some("application/x-ndjson"));
    let pieces: Vec<Value> = lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |name: &str| -> String {
        pieces.iter().filter(|piece| piece["type"] == name).map(|piece| piece["text"].as_str().unwrap()).collect()
    };
    assert_eq!((text("stdout"), text("stderr")), ("éin\n".into(), "x\n".into()));
    assert!(pieces.len() >= 5, "expected one piece per flush: {pieces:?}");
    let result = pieces.last().unwrap();
    assert_eq!((&result["type"], &result["result"]["stdout"]), (&json!("result"), &json!("éin\n")));

    let events = server.ask("POST", "/v1/execute", &[("accept", "text/event-stream")], body.as_bytes()).text();
    let names: Vec<&str> = events.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!((names[0], names[1], names[names.len() - 1]), ("started", "stdout", "result"), "{events}");
    assert!(
        events
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .all(|data| serde_json::from_str::<Value>(data).is_ok())
    );

    // The error only occurs after the response has started, so the last line of the response reports it.
    let wrong = json!({"language": "python", "source": "1", "runtime": "nothing"}).to_string();
    let wrong = server.ask("POST", "/v1/execute", &[("accept", "application/x-ndjson")], wrong.as_bytes());
    let pieces: Vec<Value> = wrong.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((pieces.len(), &pieces[1]["problem"]["type"]), (2, &json!("unknown-runtime")), "{pieces:?}");
}

#[test]
fn disconnecting_ends_the_execution() {
    let server = Server::start(Setup::default());
    for accept in ["application/json", "application/x-ndjson"] {
        let before = server.audited().len();
        let body = json!({"language": "python", "source": "print(1, flush=True)\nwhile True: pass"}).to_string();
        let stream = server.begin("POST", "/v1/execute", &[("accept", accept)], body.as_bytes());
        until("it runs", || metric(&server, "glovebox_running") == 1);
        drop(stream);
        until("it has ended", || metric(&server, "glovebox_running") == 0);
        until("it is written down", || server.audited().len() == before + 1);
        assert_eq!(server.audited()[before]["outcome"], "cancelled", "{accept}");
    }
    assert_eq!(server.post("/v1/execute", &json!({"language": "python", "source": "print(1)"})).ok()["stdout"], "1\n");
}

#[test]
fn slow_reader_delays_only_its_own_script() {
    let mut policy = Policy::default();
    policy.limits.timeout_ms = 5_000;
    let change = move |tenant: &mut glovebox_server::TenantConfig| tenant.policy = policy;
    let server = Server::start(Setup { tenant: Some(Box::new(change)), ..Setup::default() });
    let body = json!({"language": "python", "source": "while True: print('x' * 10_000, flush=True)"}).to_string();
    let mut slow = server.begin("POST", "/v1/execute", &[("accept", "application/x-ndjson")], body.as_bytes());
    until("it runs", || metric(&server, "glovebox_running") == 1);
    assert_eq!(server.post("/v1/execute", &json!({"language": "python", "source": "print(1)"})).ok()["stdout"], "1\n");
    until("its time is over, though nobody reads", || metric(&server, "glovebox_running") == 0);
    let mut text = String::new();
    slow.read_to_string(&mut text).unwrap();
    assert!(text.contains("\"exhausted\""), "{}", text.len());
}

#[test]
fn request_with_an_idempotency_key_runs_once() {
    let server = Server::start(Setup::default());
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    server.post("/v1/sessions/s/execute", &json!({"source": "n = 0"})).ok();
    let step = json!({"source": "n += 1; n"}).to_string();
    let ask = |key: &str, body: &str| {
        server.ask("POST", "/v1/sessions/s/execute", &[("idempotency-key", key)], body.as_bytes())
    };
    let (first, again) = (ask("k1", &step), ask("k1", &step));
    assert_eq!(
        (first.body.clone(), first.header("etag")),
        (again.body.clone(), again.header("etag")),
        "the repeated request gets the same answer"
    );
    assert_eq!(first.ok()["value"]["json"], 1);
    assert_eq!(ask("k2", &step).ok()["value"]["json"], 2);
    assert_eq!(ask("k1", &json!({"source": "n"}).to_string()).problem(), (422, "idempotency-key".into()));
    // The request was rejected, so its key can be used again.
    assert_eq!(ask("k3", &json!({"source": "n", "files": {}}).to_string()).status, 400);
    assert_eq!(ask("k3", &step).ok()["value"]["json"], 3);
    // An impossible request is rejected before the script runs.
    assert_eq!(ask("k6", &json!({"source": "n += 100", "return_files": ["["]}).to_string()).status, 400);
    // A client that has disconnected can retrieve its answer later.
    let slow = json!({"source": "import time; time.sleep(0.3); n += 1; n"}).to_string();
    drop(server.begin("POST", "/v1/sessions/s/execute", &[("idempotency-key", "k4")], slow.as_bytes()));
    let mut answer = ask("k4", &slow);
    until("it is there", || {
        if answer.status == 409 {
            answer = ask("k4", &slow);
        }
        answer.status == 200
    });
    assert_eq!(answer.ok()["value"]["json"], 4);
    assert_eq!(ask("k5", &step).ok()["value"]["json"], 5);
}

#[test]
fn executions_are_audited_without_source() {
    let server = Server::start(Setup::default());
    let source = "print('a secret of the script')";
    server.post("/v1/execute", &json!({"language": "python", "source": source})).ok();
    server.post("/v1/execute", &json!({"language": "python", "source": source, "runtime": "none"}));
    let lines = server.audited();
    assert_eq!(
        (lines.len(), &lines[0]["outcome"], &lines[1]["outcome"]),
        (2, &json!("completed"), &json!("unknown-runtime"))
    );
    assert_eq!((&lines[0]["tenant"], &lines[0]["door"]), (&json!("one"), &json!("http")));
    assert!(lines[0]["fuel"].as_u64().unwrap() > 0);
    assert_eq!(lines[0]["source_sha256"].as_str().unwrap().len(), 64);
    assert!(!format!("{lines:?}").contains("secret") && !format!("{lines:?}").contains(TOKEN));
}

#[test]
fn stopping_server_drains_executions() {
    let server = Server::start(Setup::default());
    let body = json!({"language": "python", "source": "import time; time.sleep(5); print('done')"}).to_string();
    let running = server.begin("POST", "/v1/execute", &[], body.as_bytes());
    until("it runs", || metric(&server, "glovebox_running") == 1);
    // The shutdown also ends connections that are already open.
    let stream = server.begin("POST", "/v1/execute", &[], b"");
    let (service, waiting) = (server.service.clone(), std::thread::spawn(move || Answer::read(running)));
    assert_eq!(Answer::read(stream).status, 400);
    let ending = std::thread::spawn(move || server.stop(Duration::from_secs(30)));
    until("it drains", || service.is_draining());
    assert_eq!(waiting.join().unwrap().ok()["stdout"], "done\n");
    ending.join().unwrap();
}

#[test]
fn executions_are_cancelled_after_the_drain_timeout() {
    let server = Server::start(Setup::default());
    let body = json!({"language": "python", "source": "while True: pass"}).to_string();
    let running = server.begin("POST", "/v1/execute", &[], body.as_bytes());
    until("it runs", || metric(&server, "glovebox_running") == 1);
    let waiting = std::thread::spawn(move || Answer::read(running));
    server.stop(Duration::from_millis(50));
    assert_eq!(waiting.join().unwrap().ok()["outcome"]["kind"], "cancelled");
}
