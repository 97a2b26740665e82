//! Tests that parsing an execution's JSON and serializing it again does not change the JSON.

use glovebox::{Execution, Language, Policy, Request, Sandbox, SessionOptions, Tool};
use glovebox_tests::engine;
use serde_json::{Value, json};

fn read_again(execution: &Execution) -> (Value, Execution) {
    let text = serde_json::to_string(execution).unwrap();
    let read: Execution = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    (serde_json::from_str(&text).unwrap(), read)
}

#[test]
fn execution_json_round_trips() {
    let mut policy = Policy::default();
    policy.limits.stdout_bytes = 10;
    policy.limits.timeout_ms = 2_000;
    let sandbox = Sandbox::builder(engine())
        .language(Language::Python)
        .policy(policy)
        .tool(Tool::new("double", "").handler(|_, arguments| Ok(json!(arguments["n"].as_i64().unwrap_or(0) * 2))))
        .tool(Tool::new("fail", "").handler(|_, _| Err("it failed".into())))
        .build()
        .unwrap();
    let kind = |source: &str| {
        let (json, read) = read_again(&sandbox.run(Request::new(source)).unwrap());
        assert!(read.files().list("**").unwrap().is_empty(), "the execution created no files");
        json["outcome"]["kind"].as_str().unwrap().to_owned()
    };
    for (source, expected) in [
        ("print('é' * 20)", "completed"),
        ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe')", "completed"),
        ("import sys; sys.exit(3)", "exited"),
        ("open('a', 'w').write('x'); 1 / 0", "raised"),
        ("import requestz", "raised"),
        ("while True: pass", "exhausted"),
        ("x = []\nwhile True: x.append('y' * 1000000)", "exhausted"),
        ("tools.double(n=4)\ntry: tools.fail()\nexcept tools.ToolError: pass\nprint(1)", "completed"),
        (
            "class P:\n  def _repr_mimebundle_(self, **_): return {'text/plain': 'p', 'image/png': b'\\x89PNG', 'text/html': '<p>'}\ndisplay(P())",
            "completed",
        ),
    ] {
        assert_eq!(kind(source), expected, "{source}");
    }
}

#[test]
fn session_values_round_trip() {
    let sandbox = Sandbox::builder(engine()).language(Language::JavaScript).build().unwrap();
    let session = sandbox.open_session(SessionOptions::default()).unwrap();
    for source in ["[1, 2.5, 'a', null]", "null", "undefined", "() => 1", "12345678901234567890n", "({a: {b: 1e300}})"]
    {
        read_again(&session.run(Request::new(source)).unwrap());
    }
}

#[test]
fn malformed_execution_json_is_rejected() {
    let sandbox = Sandbox::builder(engine()).language(Language::Python).build().unwrap();
    let json = serde_json::to_value(sandbox.run(Request::new("display('x')")).unwrap()).unwrap();
    for (name, value) in [
        ("outcome", json!({"kind": "unknown"})),
        ("stdout", json!(1)),
        ("displays", json!([{"is_result": false, "data": {"image/png": "%"}}])),
        ("tool_calls", json!([{"name": "t", "error": {"type": "Unheard"}, "started_ms": 0.0, "duration_ms": 0.0}])),
        ("metadata", json!(null)),
    ] {
        let mut changed = json.clone();
        changed[name] = value.clone();
        assert!(serde_json::from_value::<Execution>(changed).is_err(), "{name} {value}");
    }
}
