//! Tests of messages and replies.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use super::{Guest, TEST_TIMEOUT, echo, gate, restricted};
use crate::tools::{Tool, ToolDefinitionError, ToolError, ToolErrorKind, ToolOutcome, Toolbox};

#[test]
fn a_call_is_answered_under_its_own_id() {
    let mut guest = Guest::new(&[echo()], |_| {});
    guest.call(7, "echo", &json!({"a": [1, null, "é"]}));
    assert_eq!(guest.read().unwrap(), json!({"id": 7, "ok": {"a": [1, null, "é"]}}));
    assert_eq!(guest.read(), None, "no further reply is due");
    let records = guest.end();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].name, "echo");
    assert_eq!(records[0].arguments.as_deref(), Some(r#"{"a":[1,null,"é"]}"#));
    assert_eq!(records[0].outcome, ToolOutcome::Returned(Some(r#"{"a":[1,null,"é"]}"#.into())));
}

#[test]
fn replies_arrive_in_order_of_completion() {
    let (gate, open, begun) = gate();
    let mut guest = Guest::new(&[echo(), gate], |_| {});
    guest.call(1, "gate", &json!({}));
    begun.recv_timeout(TEST_TIMEOUT).unwrap();
    guest.call(2, "echo", &json!({}));
    assert_eq!(guest.read().unwrap()["id"], 2);
    assert_eq!(guest.peek(), None);
    open.send(()).unwrap();
    assert_eq!(guest.read().unwrap()["id"], 1);
}

#[test]
fn handler_receives_call_details() {
    let tool = Tool::new("who", "")
        .handler(|call, _| Ok(json!([call.name, call.index, call.session_id, call.cancel.is_cancelled()])));
    let mut guest = Guest::new(&[tool], |_| {});
    for index in 0..2 {
        guest.call(5, "who", &json!({}));
        assert_eq!(guest.ok(), json!(["who", index, "s1", false]), "an ID can be used again once its call is answered");
    }
}

#[test]
fn failures_have_a_kind_and_a_message() {
    let schema = json!({"properties": {"a": {"type": "integer", "maximum": 3}}, "required": ["a"]});
    let tools = [
        echo().schema(schema),
        Tool::new("fail", "").handler(|_, _| Err(ToolError::new("no such city"))),
        Tool::new("broken", "").handler(|_, _| panic!("a handler panics")),
    ];
    let mut guest = Guest::new(&tools, |_| {});
    let mut error = |name: &str, arguments: Value| {
        guest.call(1, name, &arguments);
        guest.error()
    };
    let is = |kind: &str, message: &str| (kind.to_owned(), message.to_owned());
    assert_eq!(error("fail", json!({})), is("ToolError", "no such city"));
    assert_eq!(error("broken", json!({})), is("ToolError", "`broken` panicked"));
    assert_eq!(error("missing", json!({})), is("UnknownTool", "unknown tool `missing`"));
    let (kind, message) = error("echo", json!({"a": "secret"}));
    assert_eq!(kind, "InvalidArguments");
    assert!(message.contains("/a") && message.contains("integer") && !message.contains("secret"), "{message}");
    assert_eq!(error("echo", json!({"a": 4})).0, "InvalidArguments");
    assert_eq!(error("echo", json!({})).0, "InvalidArguments");
    assert_eq!(error("echo", json!([1])).0, "InvalidArguments");
    guest.call(1, "echo", &json!({"a": 3}));
    assert_eq!(guest.ok(), json!({"a": 3}), "usable after");
    let kinds: Vec<_> = guest.end().iter().map(|record| record.outcome.word()).collect();
    let invalid = ToolErrorKind::InvalidArguments.name();
    let failed = ["ToolError", "ToolError", "UnknownTool", invalid, invalid, invalid, invalid, "returned"];
    assert_eq!(kinds, failed);
}

#[test]
fn language_models_are_ordinary_tools() {
    let tools =
        [Tool::llm_query(|_, prompt| Ok(format!("{prompt}?"))), Tool::rlm_query(|_, task, ctx| Ok(json!([task, ctx])))];
    let mut guest = Guest::new(&tools, |_| {});
    guest.call(1, "llm_query", &json!({"prompt": "why"}));
    assert_eq!(guest.ok(), json!("why?"));
    guest.call(1, "rlm_query", &json!({"task": "t"}));
    assert_eq!(guest.ok(), json!(["t", null]));
    guest.call(1, "rlm_query", &json!({"task": "t", "ctx": [1]}));
    assert_eq!(guest.ok(), json!(["t", [1]]));
    guest.call(1, "llm_query", &json!({"task": "t"}));
    assert_eq!(guest.error().0, "InvalidArguments");
}

#[test]
fn guest_timeout_applies_to_one_read() {
    let mut guest = Guest::new(&[echo()], |_| {});
    guest.send(&json!({"wait": 5}));
    assert_eq!(guest.calls.read_timeout(), Some(Duration::from_millis(5)));
    assert_eq!(guest.calls.read_timeout(), None);
    guest.send(&json!({"wait": 5}));
    guest.send(&json!({"wait": null}));
    assert_eq!(guest.calls.read_timeout(), None);
    assert_eq!(guest.read(), None, "a `wait` message has no reply");
}

#[test]
fn timed_out_call_is_abandoned_and_cancelled() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let slow = Tool::new("slow", "").handler(move |call, _| {
        sender.send(call.cancel.wait_timeout(TEST_TIMEOUT)).ok();
        Ok(json!("late"))
    });
    let mut guest = Guest::new(&[slow], |limits| limits.tool_timeout_ms = 30);
    guest.call(1, "slow", &json!({}));
    let (kind, message) = guest.error();
    assert_eq!(kind, "ToolTimeout");
    assert!(message.contains("tool_timeout_ms"), "{message}");
    assert!(receiver.recv_timeout(TEST_TIMEOUT).unwrap());
    assert_eq!(guest.read(), None, "a late answer is discarded");
}

#[test]
fn late_call_times_out_even_if_nobody_waited() {
    let late = Tool::new("late", "").handler(|_, _| {
        thread::sleep(Duration::from_millis(60));
        Ok(json!(1))
    });
    let mut guest = Guest::new(&[late], |limits| limits.tool_timeout_ms = 20);
    guest.call(1, "late", &json!({}));
    thread::sleep(Duration::from_millis(200));
    assert_eq!(guest.error().0, "ToolTimeout");
}

#[test]
fn handlers_are_cancelled_when_the_execution_ends() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let slow = Tool::new("slow", "").handler(move |call, _| {
        sender.send(call.cancel.wait_timeout(TEST_TIMEOUT)).ok();
        Ok(json!(1))
    });
    let mut guest = Guest::new(std::slice::from_ref(&slow), |_| {});
    guest.call(1, "slow", &json!({}));
    let records = guest.end();
    assert_eq!(records[0].outcome, ToolOutcome::Unfinished);
    assert!(receiver.recv_timeout(TEST_TIMEOUT).unwrap(), "cancelled at the end of the execution");
    let mut guest = Guest::new(std::slice::from_ref(&slow), |_| {});
    guest.call(1, "slow", &json!({}));
    drop(guest);
    assert!(receiver.recv_timeout(TEST_TIMEOUT).unwrap(), "cancelled when the execution is dropped");
    let mut guest = Guest::new(&[slow], |_| {});
    guest.call(1, "slow", &json!({}));
    guest.calls.cancel();
    assert!(receiver.recv_timeout(TEST_TIMEOUT).unwrap(), "cancelled with the execution");
    assert_eq!(guest.ok(), json!(1), "a guest that still waits receives the result");
}

fn named(name: &str) -> Result<Toolbox, ToolDefinitionError> {
    Toolbox::new(&[Tool::new(name, "").handler(|_, _| Ok(json!(null)))])
}

#[test]
fn tool_name_must_be_an_identifier() {
    for name in ["a", "search_web", "a1", "A", &"a".repeat(64)] {
        assert!(named(name).is_ok(), "{name}");
    }
    for name in [
        "",
        "1a",
        "_a",
        "a-b",
        "a b",
        "a.b",
        "é",
        "class",
        "await",
        "constructor",
        "then",
        "ToolError",
        "a\0",
        &"a".repeat(65),
    ] {
        assert!(matches!(named(name), Err(ToolDefinitionError::Name(_))), "{name}");
    }
}

#[test]
fn tool_name_is_registered_once() {
    let error = Toolbox::new(&[echo(), echo()]).unwrap_err();
    assert_eq!(error, ToolDefinitionError::Duplicate("echo".into()));
}

#[test]
fn a_tool_without_a_handler_is_refused() {
    assert_eq!(Toolbox::new(&[Tool::new("a", "")]).unwrap_err(), ToolDefinitionError::NoHandler("a".into()));
}

#[test]
fn a_schema_is_checked_when_it_is_registered() {
    let schemas = [
        ("no schema", json!(7)),
        ("of no object", json!({"type": "string"})),
        ("no such type", json!({"type": "object", "properties": {"a": {"type": "text"}}})),
        ("a pattern that is none", json!({"properties": {"a": {"pattern": "("}}})),
        ("a pattern that can take forever", json!({"properties": {"a": {"pattern": r"(a+)\1"}}})),
        ("look-around", json!({"properties": {"a": {"pattern": "(?=a)b"}}})),
        ("a huge pattern", json!({"properties": {"a": {"pattern": "(((a{1000}){1000}){1000})"}}})),
        ("a file", json!({"$ref": "file:///etc/passwd"})),
        ("a host", json!({"$ref": "http://127.0.0.1:1/schema.json"})),
        ("its own nowhere", json!({"$ref": "#/definitions/missing"})),
    ];
    for (what, schema) in schemas {
        let tool = echo().schema(schema);
        assert!(matches!(Toolbox::new(&[tool]), Err(ToolDefinitionError::Schema { .. })), "{what}");
    }
}

#[test]
fn total_size_of_definitions_is_limited() {
    let with = |length: usize| {
        let tool = Tool::new("a", "x".repeat(length)).handler(|_, _| Ok(json!(null)));
        Toolbox::new(&[tool]).map(|toolbox| toolbox.tools().catalogue().len())
    };
    let around = with(0).unwrap();
    let max = 1 << 20;
    assert_eq!(with(max - around - 1).unwrap(), max - 1, "under");
    assert_eq!(with(max - around).unwrap(), max, "at");
    let over = with(max - around + 1).unwrap_err();
    assert_eq!(over, ToolDefinitionError::TooLarge { bytes: max + 1, max });
}

#[test]
fn catalogue_contains_the_full_definitions() {
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "c": {}, "b": {}},
        "required": ["c"],
    });
    let mut guest = Guest::new(&[echo().schema(schema.clone()), Tool::rlm_query(|_, _, _| Ok(json!(1)))], |_| {});
    guest.send(&json!({"list": true}));
    let catalogue = guest.read().unwrap();
    assert_eq!(
        catalogue["tools"][0],
        json!({
            "name": "echo",
            "description": "Gives back its arguments.",
            "schema": schema,
            "parameters": ["c", "a", "b"],
        })
    );
    assert_eq!(catalogue["tools"][1]["name"], "rlm_query");
    assert_eq!(catalogue["tools"][1]["parameters"], json!(["task", "ctx"]));
    let mut without = Guest::new(&[], |_| {});
    without.send(&json!({"list": true}));
    assert_eq!(without.read().unwrap(), json!({"tools": []}));
}

#[test]
fn only_simple_calls_of_the_caller_are_checked_at_once() {
    let is_at_once = |tool: Tool, bytes| {
        let toolbox = Toolbox::new(&[tool]).unwrap();
        toolbox.tools().find("ask").unwrap().is_checked_at_once(Some(0), bytes)
    };
    let ask = |schema| Tool::new("ask", "").schema(schema).stepped();
    let nested = |levels| (1..levels).fold(json!({}), |schema, _| json!({ "properties": { "a": schema } }));
    // The schema has two parts: itself and its type.
    for (bytes, expected) in [(0, true), ((1 << 19) - 1, true), (1 << 19, true), ((1 << 19) + 1, false)] {
        assert_eq!(is_at_once(ask(json!({ "type": "object" })), bytes), expected, "{bytes}");
    }
    for (levels, expected) in [(1, true), (15, true), (16, true), (17, false)] {
        assert_eq!(is_at_once(ask(nested(levels)), 100), expected, "{levels}");
    }
    let typed = json!({
        "type": "object",
        "properties": { "a": { "anyOf": [{ "type": "integer", "minimum": 1 }, { "enum": ["x", null] }] }, "b": true },
        "required": ["a"],
        "additionalProperties": { "type": "array", "items": { "type": "string", "maxLength": 9 } },
    });
    assert!(is_at_once(ask(typed), 100));
    for costly in [
        json!({ "properties": { "a": { "$ref": "#" } } }),
        json!({ "properties": { "a": { "pattern": "a*" } } }),
        json!({ "patternProperties": { "a*": {} } }),
        json!({ "properties": { "a": { "uniqueItems": true } } }),
        json!({ "allOf": [{}] }),
    ] {
        assert!(!is_at_once(ask(costly.clone()), 100), "{costly}");
    }
    assert!(!is_at_once(Tool::new("ask", "").handler(|_, _| Ok(json!(1))), 100), "a handler may block");
}

#[test]
fn policys_schema_decides_too_if_a_call_is_checked_at_once() {
    // The tool's schema has one part.
    let ask = Tool::new("ask", "").schema(json!({})).stepped();
    let is_at_once = |rule: Value, bytes| {
        let toolbox =
            restricted(std::slice::from_ref(&ask), json!({ "ask": rule, "other": { "schema": { "not": {} } } }));
        let rule_size = toolbox.rules().schema_size("ask");
        toolbox.tools().find("ask").unwrap().is_checked_at_once(rule_size, bytes)
    };
    for (bytes, expected) in [((1 << 20) - 1, true), (1 << 20, true), ((1 << 20) + 1, false)] {
        assert_eq!(is_at_once(json!({ "max_calls": 9 }), bytes), expected, "{bytes}");
    }
    // Together, the schemas have four parts.
    let typed = json!({ "schema": { "properties": { "a": { "type": "string" } } } });
    for (bytes, expected) in [((1 << 18) - 1, true), (1 << 18, true), ((1 << 18) + 1, false)] {
        assert_eq!(is_at_once(typed.clone(), bytes), expected, "{bytes}");
    }
    for costly in [json!({ "pattern": "a*" }), json!({ "uniqueItems": true }), json!({ "not": {} })] {
        let rule = json!({ "schema": { "properties": { "a": costly } } });
        assert!(!is_at_once(rule.clone(), 100), "{rule}");
    }
}
