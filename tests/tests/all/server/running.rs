//! Tests the IDs of streamed executions, their cancellation, and partial answers to their tool calls.

use std::{net::TcpStream, time::Duration};

use glovebox::Policy;
use serde_json::{Value, json};

use super::support::{Answer, Chunks, LINES, Server, Setup, metric, until};

/// Returns a server whose scripts may run for ten minutes.
fn patient() -> Server {
    let mut policy = Policy::default();
    (policy.limits.timeout_ms, policy.limits.tool_timeout_ms) = (600_000, 600_000);
    let change = move |tenant: &mut glovebox_server::TenantConfig| tenant.policy = policy;
    Server::start(Setup { tenant: Some(Box::new(change)), ..Setup::default() })
}

fn cancel(server: &Server, execution: &str) -> Answer {
    server.ask("DELETE", &format!("/v1/executions/{execution}"), &[], b"")
}

/// Returns the last chunk's result, and asserts that it contains the output.
fn result(mut chunks: Chunks<TcpStream>, stdout: &str) -> Value {
    let last = chunks.by_ref().last().unwrap();
    assert_eq!((&last["type"], &last["result"]["stdout"]), (&json!("result"), &json!(stdout)), "{last}");
    last["result"].clone()
}

#[test]
fn running_execution_is_cancelled_softly_by_its_id() {
    let server = patient();
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let source = "import time\nprint('here', flush=True)\ntry:\n  while True: time.sleep(0.01)\nexcept KeyboardInterrupt:\n  print('caught')\n  x = 1\n  raise";
    let tools = json!([{"name": "ask"}]);
    for (path, tools) in [
        ("/v1/execute", json!([])),
        ("/v1/execute", tools.clone()),
        ("/v1/sessions/s/execute", json!([])),
        ("/v1/sessions/s/execute", tools),
    ] {
        let (mut chunks, execution) = server.stream(path, &json!({"source": source, "tools": tools}));
        assert_eq!(chunks.next().unwrap()["text"], "here\n");
        assert_eq!(cancel(&server, &execution).status, 204);
        let result = result(chunks, "here\ncaught\n");
        assert_eq!(result["outcome"]["kind"], "cancelled", "{result}");
        until("it is forgotten", || cancel(&server, &execution).status == 404);
    }
    assert_eq!(server.get("/v1/sessions/s/variables/x").ok()["value"], 1, "a soft stop keeps the session's state");
}

#[test]
fn waiting_execution_is_cancelled_before_it_starts() {
    let server = patient();
    server.post("/v1/sessions", &json!({"id": "s", "language": "python"})).ok();
    let source = "print('here', flush=True)\nwhile True: pass";
    let (mut first, execution) = server.stream("/v1/sessions/s/execute", &json!({ "source": source }));
    assert_eq!(first.next().unwrap()["text"], "here\n");
    for tools in [json!([]), json!([{"name": "ask"}])] {
        let body = json!({"source": "print('never')", "tools": tools});
        let (mut queued, waiting) = server.stream("/v1/sessions/s/execute", &body);
        assert_eq!(cancel(&server, &waiting).status, 204);
        let last = queued.by_ref().last().unwrap();
        assert_eq!((&last["type"], &last["problem"]["type"]), (&json!("error"), &json!("cancelled")), "{last}");
    }
    assert_eq!(cancel(&server, &execution).status, 204);
    assert_eq!(result(first, "here\n")["outcome"]["kind"], "cancelled");
    let next = server.post("/v1/sessions/s/execute", &json!({"source": "print('next')"})).ok();
    assert_eq!(next["stdout"], "next\n", "the session continues");
}

#[test]
fn execution_keeps_its_id_when_it_is_suspended() {
    let server = patient();
    let source = "print('one')\na = tools.ask()\nprint('two', flush=True)\nwhile True: pass";
    let body = json!({"language": "python", "source": source, "tools": [{"name": "ask"}]});
    let (mut chunks, execution) = server.stream("/v1/execute", &body);
    let last = chunks.by_ref().last().unwrap();
    assert_eq!((&last["type"], &last["execution"]), (&json!("needs-tools"), &json!(execution)), "{last}");
    assert_eq!(metric(&server, "glovebox_running"), 0);
    let path = format!("/v1/executions/{execution}/continue");
    let answers = json!({"answers": [{"id": 0, "value": 1}]}).to_string();
    let mut chunks = Chunks::new(server.begin("POST", &path, &[LINES], answers.as_bytes()));
    assert_eq!(chunks.next().unwrap(), json!({"type": "stdout", "text": "two\n"}));
    assert_eq!(cancel(&server, &execution).status, 204);
    assert_eq!(result(chunks, "one\ntwo\n")["outcome"]["kind"], "cancelled");
    assert_eq!(cancel(&server, &execution).problem(), (404, "not-found".into()));

    // A cancelled script that reaches a tool call ends instead of waiting for the answer.
    let source = "print('here', flush=True)\ntry:\n  while True: pass\nexcept KeyboardInterrupt:\n  tools.ask()";
    let body = json!({"language": "python", "source": source, "tools": [{"name": "ask"}]});
    let (mut chunks, execution) = server.stream("/v1/execute", &body);
    assert_eq!(chunks.next().unwrap()["text"], "here\n");
    assert_eq!(cancel(&server, &execution).status, 204);
    assert_eq!(result(chunks, "here\n")["outcome"]["kind"], "cancelled");
}

#[test]
fn cancellation_returns_the_result_of_an_execution_that_ends_meanwhile() {
    let server = patient();
    let policy = json!({"limits": {"tool_timeout_ms": 500}});
    let tools = json!([{"name": "ask"}]);
    let body = json!({"language": "python", "source": "print('here')\ntools.ask()", "tools": tools, "policy": policy});
    // The call times out while the requests arrive.
    for pause_ms in (450..750).step_by(30) {
        let answer = server.post("/v1/execute", &body);
        // On a slow machine, the call may already have timed out.
        if answer.status == 202 {
            std::thread::sleep(Duration::from_millis(pause_ms));
            let cancelled = cancel(&server, answer.json()["execution"].as_str().unwrap());
            assert_eq!(cancelled.ok()["stdout"], "here\n", "{pause_ms} ms: {cancelled:?}");
        }
    }
}

#[test]
fn other_tenants_cannot_cancel_an_execution() {
    let server = Server::start(Setup { other: Some("the other token"), ..Setup::default() });
    let body = json!({"language": "python", "source": "import time\nprint(1, flush=True)\ntime.sleep(1)\nprint(2)"});
    let (chunks, execution) = server.stream("/v1/execute", &body);
    let path = format!("/v1/executions/{execution}");
    let theirs = server.ask("DELETE", &path, &[("authorization", "Bearer the other token")], b"");
    assert_eq!(theirs.problem(), (404, "not-found".into()));
    assert_eq!(result(chunks, "1\n2\n")["outcome"]["kind"], "completed");
}

#[test]
fn script_continues_after_the_first_of_several_answers() {
    let server = patient();
    for (language, source) in [
        (
            "python",
            "import asyncio\nasync def main():\n  calls = [asyncio.ensure_future(tools.ask.aio(n)) for n in range(3)]\n  \
             done, rest = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)\n  print([call.result() for call in done], len(rest))\n  \
             for call in rest: call.cancel()\n  print(await tools.ask.aio(3))\nasyncio.run(main())",
        ),
        (
            "javascript",
            "const calls = [0, 1, 2].map((n) => tools.ask({n}));\nconsole.log(JSON.stringify([await Promise.race(calls)]), 2);\n\
             console.log(await tools.ask({n: 3}));",
        ),
    ] {
        let schema = json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let body = json!({"language": language, "source": source, "tools": [{"name": "ask", "schema": schema}]});
        let ids = |answer: &Value| -> Vec<u64> {
            answer["calls"].as_array().unwrap().iter().map(|call| call["id"].as_u64().unwrap()).collect()
        };
        let first = server.post("/v1/execute", &body);
        assert_eq!((first.status, ids(&first.json())), (202, vec![0, 1, 2]), "{language}");
        let path = format!("/v1/executions/{}/continue", first.json()["execution"].as_str().unwrap());
        let second = server.post(&path, &json!({"answers": [{"id": 1, "value": "first"}]}));
        assert_eq!(second.status, 202, "{language}: {second:?}");
        assert!(ids(&second.json()).contains(&3) && !ids(&second.json()).contains(&1), "{language}: {second:?}");
        let again = server.post(&path, &json!({}));
        assert_eq!((again.status, ids(&again.json())), (202, ids(&second.json())), "asking again changes nothing");
        // The answers to the calls that the script has abandoned are ignored.
        let answers =
            json!({"answers": [{"id": 0, "value": "late"}, {"id": 2, "value": "late"}, {"id": 3, "value": "last"}]});
        let done = server.post(&path, &answers).ok();
        assert_eq!(done["stdout"].as_str().unwrap().replace('\'', "\""), "[\"first\"] 2\nlast\n", "{language}");
    }
}

#[test]
fn call_that_timed_out_is_no_longer_listed() {
    // A slow machine needs more time for the second call.
    for tool_timeout_ms in [300, 3_000, 30_000] {
        let server = patient();
        let source = "try:\n  tools.ask()\nexcept Exception as e:\n  print(type(e).__name__)\nprint(tools.tell())";
        let policy = json!({"limits": {"tool_timeout_ms": tool_timeout_ms}});
        let tools = json!([{"name": "ask"}, {"name": "tell"}]);
        let body = json!({"language": "python", "source": source, "tools": tools, "policy": policy});
        let mut answer = server.post("/v1/execute", &body);
        let path = format!("/v1/executions/{}/continue", answer.json()["execution"].as_str().unwrap());
        until("the first call has timed out", || {
            answer = server.post(&path, &json!({}));
            answer.json()["calls"][0]["name"] != "ask"
        });
        if answer.status != 202 {
            continue;
        }
        assert_eq!(answer.json()["calls"].as_array().unwrap().len(), 1, "{answer:?}");
        let answers = json!({"answers": [{"id": 0, "value": 1}, {"id": 1, "value": 2}]});
        if server.post(&path, &answers).ok()["stdout"] == "ToolTimeout\n2\n" {
            return;
        }
    }
    panic!("no second call was answered in time");
}

#[test]
fn info_describes_the_server_and_results_all_bytes() {
    let server = Server::start(Setup::default());
    let info = server.get("/v1/info").ok();
    assert_eq!((&info["protocol"], &info["pid"], &info["sessions"]), (&json!(2), &Value::Null, &Value::Null));
    std::thread::sleep(Duration::from_millis(20));
    assert!(server.get("/v1/info").ok()["uptime_ms"].as_u64() > info["uptime_ms"].as_u64());
    let source = "import os, sys\nsys.stdout.buffer.write(b'\\0\\xff')\nos.mkdir('d')\nopen('d/f', 'w').write('text')\nos.symlink('d', 'l')";
    let body = json!({"language": "python", "source": source, "return_files": ["**", "d/*"]});
    let done = server.post("/v1/execute", &body).ok();
    assert_eq!((&done["stdout"], &done["stdout_base64"]), (&json!("\0\u{fffd}"), &json!("AP8=")));
    assert_eq!(done["stderr_base64"], Value::Null);
    let entries: Vec<_> = done["file_entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["path"].as_str().unwrap(), entry["kind"].as_str().unwrap(), entry["modified_ns"].is_u64()))
        .collect();
    assert_eq!(entries, [("d", "directory", true), ("d/f", "file", true), ("l", "symlink", true)]);
    assert_eq!((&done["files"], &done["file_entries"][1]["size_bytes"]), (&json!({"d/f": "dGV4dA=="}), &json!(4)));
}
