//! Tests invalid tools, expensive schemas, and components that call `tools`.

use glovebox::{Policy, Tool};
use glovebox_component_host::{Quotas, SandboxHost};
use glovebox_tests::{engine, process::in_child, puppet::Puppet};
use serde_json::{Value, json};

use super::{LONG, MIB, assert_others_work, error, grown, ok, puppet};

fn tool(name: &str, schema: &str) -> Value {
    json!({ "name": name, "description": "", "arguments-schema": schema })
}

fn start_with(puppet: &mut Puppet, tools: &Value) -> Value {
    puppet.call("start", &json!(["javascript", { "source": "1" }, {}, tools])).unwrap()
}

#[test]
fn number_of_tools_is_limited() {
    let mut puppet = puppet();
    let tools = |count: usize| -> Value { (0..count).map(|n| tool(&format!("t{n}"), "{}")).collect() };
    ok(&start_with(&mut puppet, &tools(1_024)));
    assert_eq!(error(&start_with(&mut puppet, &tools(1_025))).0, "invalid-argument");
    let session = puppet.call("session.open", &json!(["python", {}, { "tools": tools(1_025) }])).unwrap();
    assert_eq!(error(&session).0, "invalid-argument");
    assert_eq!(puppet.store.data().usage().sessions, 0);
    assert_others_work();
}

#[test]
fn invalid_tools_are_named() {
    let mut puppet = puppet();
    let long = "x".repeat(65);
    let huge = "x".repeat(1 << 20);
    for name in ["", "1a", "a-b", "then", "constructor", "ToolError", "class", "é", "a\0", &long, &huge] {
        let answer = start_with(&mut puppet, &json!([tool(name, "{}")]));
        assert_eq!(error(&answer).0, "invalid-argument", "{name}");
        assert!(error(&answer).1.len() < 1_000, "repeated input is truncated");
    }
    assert_eq!(error(&start_with(&mut puppet, &json!([tool("a", "{}"), tool("a", "{}")]))).0, "invalid-argument");
    assert_others_work();
}

#[test]
fn slow_and_large_schemas_are_rejected() {
    if !in_child("hostile_components::tools::slow_and_large_schemas_are_rejected", LONG) {
        return;
    }
    assert_others_work();
    let mut puppet = puppet();
    let object = |keywords: Value| json!({ "type": "object", "properties": { "x": keywords } }).to_string();
    let doubling: serde_json::Map<String, Value> = (0..30)
        .map(|n| {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            (format!("d{n}"), json!({ "allOf": [next, next] }))
        })
        .chain([("d30".to_owned(), json!({ "type": "integer" }))])
        .collect();
    let wide: Vec<Value> = (0..1_001).map(|n| json!({ "multipleOf": n + 1 })).collect();
    let patterns: Vec<Value> = (0..65).map(|n| json!({ "pattern": format!("^a{n}$") })).collect();
    let schemas = [
        "{".into(),
        "[".repeat(1 << 19),
        "3".into(),
        r#"{"type": "array"}"#.into(),
        json!({ "properties": { "x": { "$ref": "#/$defs/d0" } }, "$defs": doubling }).to_string(),
        object(json!({ "$ref": "https://example.com/schema.json" })),
        object(json!({ "$ref": "file:///etc/passwd" })),
        object(json!({ "$ref": "#" })),
        object(json!({ "$dynamicRef": "#a" })),
        object(json!({ "allOf": wide })),
        object(json!({ "allOf": patterns })),
        object(json!({ "pattern": "(((((x{100}){100}){100}){100}){100})" })),
        object(json!({ "pattern": "(a)\\1" })),
        object(json!({ "pattern": "(" })),
        object(json!({ "enum": vec![json!(1); 600_000] })),
        json!({ "$schema": "https://example.com/meta.json" }).to_string(),
    ];
    let grown = grown(|| {
        for schema in schemas {
            let answer = start_with(&mut puppet, &json!([tool("a", &schema)]));
            assert!(
                answer.get("err").is_some() && error(&answer).0 == "invalid-argument",
                "{}: {answer}",
                schema.chars().take(100).collect::<String>()
            );
        }
    });
    assert!(grown < 256 * MIB, "the host grew by {} MiB", grown / MIB);
    assert_others_work();
}

/// Runs a Python script that calls `tools.a(x=VALUE)`; `schema` is the tool's schema.
fn call(puppet: &mut Puppet, schema: &str, value: &str) -> Value {
    let source = format!("tools.a(x={value})");
    let tools = json!([tool("a", schema)]);
    let answer = puppet.call("start", &json!(["python", { "source": source }, {}, tools])).unwrap();
    let started = ok(&answer).clone();
    let step = puppet.call("started.continue", &json!([started, [], null])).unwrap();
    ok(&step).clone()
}

#[test]
fn backtracking_patterns_match_in_time() {
    if !in_child("hostile_components::tools::backtracking_patterns_match_in_time", LONG) {
        return;
    }
    let mut puppet = puppet();
    for pattern in ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*x", "^(([a-z])+.)+[A-Z]([a-z])+$"] {
        let schema = json!({ "properties": { "x": { "type": "string", "pattern": pattern } } }).to_string();
        println!("{pattern}");
        let step = call(&mut puppet, &schema, "'a' * 100_000 + '!'");
        assert_eq!(step["done"]["outcome"]["raised"]["type-name"], "InvalidArguments", "{pattern}");
    }
    assert_others_work();
}

#[test]
fn nesting_of_contexts_and_variables_is_limited() {
    let mut puppet = puppet();
    for bad in ["[".repeat(1 << 20), "{\"a\":".repeat(1 << 18), "[".repeat(10_000) + &"]".repeat(9_999)] {
        let opened = puppet.call("session.open", &json!(["python", {}, { "context": bad }])).unwrap();
        assert_eq!(error(&opened).0, "invalid-argument");
        let session = puppet.call("session.open", &json!(["python", {}, {}])).unwrap();
        let session = ok(&session).clone();
        let set = puppet.call("session.set-variable", &json!([session, "a", bad])).unwrap();
        assert_eq!(error(&set).0, "invalid-argument");
        puppet.call("session.drop", &json!([session])).unwrap();
    }
    // The guest rejects JSON that is nested too deeply for its parser.
    let deep = "[".repeat(1 << 20) + &"]".repeat(1 << 20);
    let session = puppet.call("session.open", &json!(["python", {}, {}])).unwrap();
    let set = puppet.call("session.set-variable", &json!([ok(&session), "a", deep])).unwrap();
    assert_eq!(error(&set).0, "variable");
    let opened = puppet.call("session.open", &json!(["python", {}, { "context": deep }])).unwrap();
    assert!(opened.get("err").is_some());
    assert_eq!(puppet.store.data().usage().sessions, 1);
    let deep = "[".repeat(100) + &"]".repeat(100);
    ok(&puppet.call("session.open", &json!(["python", {}, { "context": deep }])).unwrap());
    assert_others_work();
}

#[test]
fn tool_calls_respect_limits_and_quotas() {
    let mut quotas = Quotas::default();
    quotas.executions = 8;
    let echo = Tool::new("echo", "").handler(|_, arguments| Ok(arguments));
    let crash = Tool::new("crash", "").handler(|_, _| panic!("as it should"));
    let host = SandboxHost::builder(engine()).policy(Policy::default()).quotas(quotas).tool(echo).tool(crash);
    let mut puppet = Puppet::new(&host.build().unwrap());
    let mut call = |name: &str, arguments: &str| puppet.call("tools.call", &json!([name, arguments])).unwrap();
    assert_eq!(ok(&call("echo", r#"{"a": 1}"#)), r#"{"a":1}"#);
    let huge = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    let wrong = [
        ("echo", "{", "invalid-arguments"),
        ("echo", "{},\"id\":5,\"name\":\"crash\"", "invalid-arguments"),
        ("echo", &"[".repeat(10_000), "invalid-arguments"),
        ("echo", huge.as_str(), "limit"),
        ("nobody\",\"x\":\"", "{}", "unknown"),
        (&"x".repeat(1 << 20), "{}", "unknown"),
        ("crash", "{}", "failed"),
        ("echo", "{}", "limit"),
    ];
    for (name, arguments, kind) in wrong {
        let answer = call(name, arguments);
        assert_eq!(answer["err"]["kind"], kind, "{answer}");
        assert!(answer["err"]["message"].as_str().unwrap().len() <= 5_000);
    }
    let exceeded = "`executions` would be exceeded: the maximum is 8; raise the quota in the host";
    assert_eq!(call("echo", "{}")["err"]["message"], exceeded);
    assert_others_work();
}
