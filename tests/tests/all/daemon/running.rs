//! Tests events while a script runs: tool calls to the client, cancellation, output, disconnected clients.

use std::{
    net::Shutdown,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::support::{Running, Setup, reply, until};

/// Returns a daemon whose scripts may run for ten minutes.
fn patient() -> Running {
    let mut policy = glovebox::Policy::default();
    policy.limits.timeout_ms = 600_000;
    Running::with(Setup { policy, ..Setup::default() })
}

#[test]
fn scripts_call_tools_of_the_client() {
    let daemon = Running::new();
    let mut client = daemon.client();
    let session = client.ok("initialize", json!({ "context": ["the", "context"] }))["session"].clone();
    let code = "print(llm_query('why?'))\nprint(rlm_query('sum up'))\nprint(rlm_query('other', {'a': 1}))";
    let id = client.begin("execute", json!({ "code": code }));
    let asked = client.asked();
    assert_eq!(
        (&asked["method"], &asked["params"]),
        (&json!("llm_query"), &json!({ "session": session, "prompt": "why?" }))
    );
    reply(&mut client, &asked, json!("because"));
    let asked = client.asked();
    assert_eq!(
        (&asked["method"], &asked["params"]["task"], &asked["params"]["ctx"]),
        (&json!("rlm_query"), &json!("sum up"), &json!(["the", "context"]))
    );
    reply(&mut client, &asked, json!({ "n": [1] }));
    let asked = client.asked();
    assert_eq!(asked["params"]["ctx"], json!({ "a": 1 }));
    client.send(
        &json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": 1, "message": "no budget" } }).to_string(),
    );
    let result = client.end(id)["result"].take();
    assert_eq!(result["stdout"], "because\n{'n': [1]}\n");
    assert!(result["error"].as_str().unwrap().contains("no budget"), "{result}");
    assert_eq!(result["tool_calls"].as_array().unwrap().len(), 3);
}

#[test]
fn client_tools_have_schemas_and_run_concurrently() {
    let daemon = Running::new();
    let mut client = daemon.client();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    client.ok(
        "initialize",
        json!({ "queries": [], "tools": [{ "name": "double", "description": "Doubles.", "schema": schema }] }),
    );
    let code = "import asyncio\nasync def main():\n  return await asyncio.gather(*[tools.double.aio(n=n) for n in range(3)])\nprint(asyncio.run(main()))\ntry:\n  tools.double(n='x')\nexcept Exception as e:\n  print(type(e).__name__)\ntry:\n  llm_query('x')\nexcept Exception as e:\n  print('none')";
    let id = client.begin("execute", json!({ "code": code }));
    let asked: Vec<Value> = (0..3).map(|_| client.asked()).collect();
    for request in asked.iter().rev() {
        assert_eq!((&request["method"], &request["params"]["name"]), (&json!("tool"), &json!("double")));
        let n = request["params"]["arguments"]["n"].as_i64().unwrap();
        reply(&mut client, request, json!(2 * n));
    }
    assert_eq!(client.end(id)["result"]["stdout"], "[0, 2, 4]\nInvalidArguments\nnone\n");
}

#[test]
fn unanswered_tool_call_times_out() {
    let mut policy = glovebox::Policy::default();
    policy.limits.tool_timeout_ms = 300;
    let daemon = Running::with(Setup { policy, ..Setup::default() });
    let mut client = daemon.opened();
    let code = "try:\n  llm_query('anybody?')\nexcept Exception as e:\n  print(type(e).__name__)";
    let begun = Instant::now();
    let id = client.begin("execute", json!({ "code": code }));
    let asked = client.asked();
    assert_eq!(client.end(id)["result"]["stdout"], "ToolTimeout\n");
    assert!(begun.elapsed() > Duration::from_millis(300));
    let told = client.asked();
    assert_eq!(
        (&told["method"], &told["params"]["id"]),
        (&json!("cancel"), &asked["id"]),
        "the client sees that the call was cancelled"
    );
    reply(&mut client, &asked, json!("too late"));
    assert_eq!(client.prints("print(1)"), "1\n", "the session stays usable");
}

#[test]
fn request_is_cancelled_by_id_and_the_session_lives_on() {
    let daemon = patient();
    let mut client = daemon.opened();
    client.prints("x = 1");
    let id = client.begin("execute", json!({ "code": "print('here')\nllm_query('go on?')\nwhile True: pass" }));
    let told = client.asked();
    reply(&mut client, &told, json!("yes"));
    let queued = client.begin("execute", json!({ "code": "print('never')" }));
    until("it runs", || daemon.executing() == 1);
    assert_eq!(client.ok("cancel", json!({ "id": queued }))["cancelled"], 1);
    assert_eq!(client.end(queued)["error"]["code"], -32_800, "a cancelled request in the queue must not start");
    assert_eq!(client.ok("cancel", json!({ "id": 12_345 }))["cancelled"], 0);
    let begun = Instant::now();
    assert_eq!(client.ok("cancel", json!({ "id": id }))["cancelled"], 1);
    let result = client.end(id)["result"].take();
    assert_eq!((&result["outcome"]["kind"], &result["error"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(result["stdout"], "here\n", "output before the cancellation is retained");
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(client.prints("print(x)"), "1\n");
}

#[test]
fn cancellation_ends_a_wait_for_the_client() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    let id = client.begin("execute", json!({ "code": "llm_query('why?')" }));
    client.asked();
    client.send(&json!({ "jsonrpc": "2.0", "method": "cancel" }).to_string());
    assert_eq!(client.end(id)["result"]["outcome"]["kind"], "cancelled");
    assert_eq!(client.asked()["method"], "cancel");
}

#[test]
fn output_is_streamed_on_request() {
    let daemon = Running::new();
    let mut client = daemon.opened();
    let code = "import sys\nprint('one', flush=True)\nprint('e', file=sys.stderr)\nllm_query('go on?')\nprint('ü')";
    let id = client.begin("execute", json!({ "code": code, "stream": true }));
    let (mut out, mut err) = (String::new(), String::new());
    loop {
        let told = client.asked();
        if told["method"] == "llm_query" {
            reply(&mut client, &told, json!("yes"));
            break;
        }
        assert_eq!((&told["method"], &told["params"]["request"]), (&json!("output"), &json!(id)));
        let to = if told["params"]["stream"] == "stdout" { &mut out } else { &mut err };
        to.push_str(told["params"]["text"].as_str().unwrap());
    }
    assert_eq!((out.as_str(), err.as_str()), ("one\n", "e\n"), "output is streamed before the execution ends");
    assert_eq!(client.end(id)["result"]["stdout"], "one\nü\n");
    let id = client.begin("execute", json!({ "code": "print(1)" }));
    client.end(id);
    assert!(
        client.others.iter().all(|other| other["params"]["request"] != json!(id)),
        "output is streamed only on request"
    );
}

#[test]
fn disconnecting_cancels_the_clients_executions() {
    let daemon = patient();
    for half_first in [false, true] {
        let mut client = daemon.opened();
        client.begin("execute", json!({ "code": "while True: pass" }));
        client.ok("initialize", json!({ "open": false }));
        client.begin("execute", json!({ "code": "while True: pass", "fresh": true }));
        client.begin("execute", json!({ "code": "print('queued')" }));
        until("both run", || daemon.executing() == 2);
        if half_first {
            client.stream.shutdown(Shutdown::Write).unwrap();
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(daemon.executing(), 2, "executions continue because the client may still read answers");
        }
        let begun = Instant::now();
        drop(client);
        until("nothing runs", || daemon.executing() == 0);
        assert!(begun.elapsed() < Duration::from_secs(60), "the limit is ten minutes");
    }
    let mut other = daemon.client();
    until("nothing is held", || {
        let pong = other.ok("ping", json!({}));
        pong["sessions"] == 0 && pong["connections"] == 1
    });
}

#[test]
fn stopping_daemon_ends_executions_first() {
    let mut daemon = Running::new();
    let mut client = daemon.opened();
    let id = client.begin("execute", json!({ "code": "import time; time.sleep(0.5); print(llm_query('last?'))" }));
    until("it runs", || daemon.executing() == 1);
    client.ok("shutdown", json!({}));
    let asked = client.asked();
    reply(&mut client, &asked, json!("yes"));
    assert_eq!(client.end(id)["result"]["stdout"], "yes\n");
    assert!(client.receive().is_none());
    assert!(daemon.has_stopped());
    assert!(!daemon.socket.exists());
}
