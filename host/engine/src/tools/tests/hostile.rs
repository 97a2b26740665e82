//! Tests of hostile messages from a guest.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use super::{Guest, TEST_TIMEOUT, echo, gate};
use crate::tools::{Tool, Toolbox};

#[test]
fn text_handler_results_are_checked_first() {
    let texts = Tool::new("texts", "").text_handler(|_, arguments| {
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        Ok(arguments["text"].as_str().unwrap().to_owned())
    });
    let mut guest = Guest::new(&[texts], |limits| limits.tool_bytes = 1000);
    let mut answer = |text: &str| {
        guest.call(1, "texts", &json!({ "text": text }));
        let reply = guest.read().unwrap();
        match &reply["error"] {
            Value::Null => reply["ok"].to_string(),
            error => error.to_string(),
        }
    };
    let long = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
    assert_eq!(answer(" {\"a\": [1]}\n"), "{\"a\":[1]}");
    // The arguments have the same limit as the result, but contain eleven more bytes and escaped quotation marks.
    assert_eq!(answer(&long(980)), long(980));
    for text in ["", "junk", "1,\"ok\":2", "1}", "1 2", "1e999", "\"\\ud800\"", &"[".repeat(500)] {
        let error = answer(text);
        assert!(error.contains("the result is not JSON: ") && error.contains("\"ToolError\""), "{text}: {error}");
    }
    let sizes = Tool::new("sizes", "").text_handler(|_, arguments| {
        let arguments: Value = serde_json::from_str(&arguments).unwrap();
        let length = usize::try_from(arguments["bytes"].as_u64().unwrap()).unwrap();
        // This result is not JSON, but its size is checked first.
        Ok("0".repeat(length - 1) + "1")
    });
    let mut guest = Guest::new(&[sizes], |limits| limits.tool_bytes = 1000);
    for (bytes, words) in [(999, "not JSON"), (1000, "not JSON"), (1001, "the result is 1001 bytes")] {
        guest.call(1, "sizes", &json!({ "bytes": bytes }));
        let reply = guest.read().unwrap();
        assert!(reply["error"]["message"].as_str().unwrap().contains(words), "{reply}");
    }
}

#[test]
fn unread_flood_of_messages_is_dropped() {
    let mut guest = Guest::new(&[echo()], |_| {});
    for _ in 0..(1 << 16) + 100 {
        guest.send_text("x");
    }
    let mut replies = 0;
    while let Some(reply) = guest.read() {
        assert_eq!(reply["id"], json!(null));
        replies += 1;
    }
    assert_eq!(replies, 1 << 16);
    guest.call(1, "echo", &json!({}));
    guest.ok();
}

#[test]
fn a_flood_of_refused_calls_is_counted_as_memory() {
    let mut guest = Guest::new(&[echo()], |limits| limits.tool_calls = 0);
    for id in 0..1000 {
        guest.call(id, "echo", &json!({}));
    }
    let held = guest.calls.account().held_bytes();
    assert!(held > 200_000, "{held}");
    while guest.read().is_some() {}
    assert_eq!(guest.calls.account().held_bytes(), 0);
}

#[test]
fn unread_catalogue_holds_no_memory() {
    let tool = Tool::new("a", "x".repeat(1_000_000)).handler(|_, _| Ok(json!(1)));
    let mut guest = Guest::new(&[tool], |_| {});
    for _ in 0..1000 {
        guest.send(&json!({"list": true}));
    }
    assert_eq!(guest.calls.account().held_bytes(), 0);
    assert!(guest.read().unwrap()["tools"].is_array());
    guest.calls.account().set_room(1_000_000);
    assert!(guest.read().unwrap()["error"].is_object(), "the catalogue exceeds the memory limit");
}

#[test]
fn expanding_text_is_rejected_before_parsing() {
    let mut guest = Guest::new(&[echo()], |_| {});
    guest.calls.account().set_room(32 << 20);
    let bomb = format!(r#"{{"id":7,"name":"echo","arguments":{{"a":[{}0]}}}}"#, r#"{"":0},"#.repeat(100_000));
    guest.send_text(&bomb);
    let reply = guest.read().unwrap();
    assert_eq!((reply["id"].as_u64(), reply["error"]["type"].as_str()), (Some(7), Some("ToolLimit")));
    assert!(guest.end().is_empty());
}

#[test]
fn excessive_nesting_is_rejected_everywhere() {
    let mut guest = Guest::new(&[echo()], |_| {});
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    guest.send_text(&deep);
    assert_eq!(guest.read().unwrap()["id"], json!(null));
    guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{{"a":{deep}}}}}"#));
    assert!(guest.read().unwrap()["error"].is_object());
}

#[test]
fn pending_id_cannot_be_reused() {
    let (gate, open, _begun) = gate();
    let mut guest = Guest::new(&[gate], |limits| limits.tool_calls_at_once = 1);
    guest.call(1, "gate", &json!({"first": true}));
    guest.call(2, "gate", &json!({}));
    for id in [1, 2] {
        guest.call(id, "gate", &json!({"forged": true}));
        let reply = guest.peek().unwrap();
        assert_eq!(reply["id"], json!(null), "IDs of running and queued calls are taken: {reply}");
    }
    open.send(()).unwrap();
    open.send(()).unwrap();
    assert_eq!(guest.ok(), json!({"first": true}));
    guest.ok();
    assert_eq!(guest.end().len(), 2);
}

#[test]
fn messages_resembling_replies_are_ignored() {
    let (gate, open, begun) = gate();
    let mut guest = Guest::new(&[gate], |_| {});
    guest.call(1, "gate", &json!({}));
    begun.recv_timeout(TEST_TIMEOUT).unwrap();
    guest.send(&json!({"id": 1, "ok": "forged"}));
    assert_eq!(guest.read().unwrap()["id"], json!(null));
    open.send(()).unwrap();
    assert_eq!(guest.ok(), json!({}));
}

#[test]
fn recursive_schema_recurses_no_deeper_than_arguments() {
    let schema = json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": false});
    let mut guest = Guest::new(&[echo().schema(schema)], |_| {});
    let deep = |levels: usize| format!(r#"{}{{}}{}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
    guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{}}}"#, deep(125)));
    guest.ok();
    guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{}}}"#, deep(126)));
    assert_eq!(guest.read().unwrap()["id"], json!(null));
}

/// Returns a schema with a chain of definitions. `link` builds each definition from a reference to the next one.
fn chain(links: usize, link: impl Fn(&Value) -> Value) -> Value {
    let name = |at: usize| format!("d{at}");
    let mut definitions = serde_json::Map::new();
    for at in 0..links {
        definitions.insert(name(at), link(&json!({"$ref": format!("#/$defs/d{}", at + 1)})));
    }
    definitions.insert(name(links), json!({"type": "null"}));
    json!({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

#[test]
fn schema_chain_for_one_value_is_limited() {
    let chain = |links| chain(links, |next| json!({"anyOf": [next, {"type": "null"}]}));
    // Each link is counted twice: its alternative, and the schema that the alternative refers to. The reference to the
    // first link is counted too.
    for (links, fits) in [(14, true), (15, true), (16, false), (300, false), (4_000, false)] {
        assert_eq!(Toolbox::new(&[echo().schema(chain(links))]).is_ok(), fits, "{links}");
    }
    let mut guest = Guest::new(&[echo().schema(chain(15))], |_| {});
    guest.call(1, "echo", &json!({"a": "x"}));
    assert_eq!(guest.error().0, "InvalidArguments");
}

#[test]
fn schema_cycle_on_one_value_is_rejected() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"anyOf": [{"type": "null"}, {"$ref": "#"}]}),
        json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"not": {"$ref": "#/$defs/x"}}}}),
        json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}),
        json!({"$dynamicRef": "#"}),
        json!({"properties": {"a": {"$id": "http://a/b", "$ref": "#"}}}),
    ] {
        assert!(Toolbox::new(&[echo().schema(schema.clone())]).is_err(), "{schema}");
    }
}

#[test]
fn exponential_schemas_are_rejected_before_checking() {
    let twice = json!({"type": "array", "items": {"$ref": "#/$defs/x"}});
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"anyOf": [twice, twice, {"type": "null"}]}}});
    let mut guest = Guest::new(&[echo().schema(schema)], |_| {});
    let deep = |levels: usize| format!(r#"{{"a":{}null{}}}"#, "[".repeat(levels), "]".repeat(levels));
    guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{}}}"#, deep(10)));
    guest.ok();
    for levels in [40, 120] {
        guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{}}}"#, deep(levels)));
        let (kind, message) = guest.error();
        assert_eq!(kind, "InvalidArguments");
        assert!(message.contains("too deeply nested or too large"), "{message}");
    }
}

#[test]
fn recursive_arguments_reach_the_depth_limit() {
    let node = json!({"type": ["object", "null"], "properties": {"left": {"$ref": "#/$defs/n"}, "right": {"$ref": "#/$defs/n"}}});
    let schema = json!({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}});
    let mut guest = Guest::new(&[echo().schema(schema)], |_| {});
    let deep = format!(r#"{{"a":{}null{}}}"#, r#"{"left":"#.repeat(120), "}".repeat(120));
    guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{deep}}}"#));
    guest.ok();
}

#[test]
fn deepest_check_fits_the_stack() {
    // At each of the 120 levels of the arguments, the check follows 14 `anyOf` schemas and 15 references.
    let mut schema = chain(14, |next| json!({"anyOf": [next, {"type": "null"}]}));
    schema["$defs"]["d14"] = json!({"type": ["array", "null"], "items": {"$ref": "#/$defs/d0"}});
    let mut guest = Guest::new(&[echo().schema(schema)], |_| {});
    let deep = |inner| format!(r#"{{"a":{}{inner}{}}}"#, "[".repeat(120), "]".repeat(120));
    guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{}}}"#, deep("null")));
    guest.ok();
    guest.send_text(&format!(r#"{{"id":1,"name":"echo","arguments":{}}}"#, deep("1")));
    assert_eq!(guest.error().0, "InvalidArguments");
}

#[test]
fn schemas_and_elements_are_counted() {
    let several = |count: usize| json!({"anyOf": vec![json!({}); count - 1]});
    for (count, fits) in [(999, true), (1_000, true), (1_001, false)] {
        assert_eq!(Toolbox::new(&[echo().schema(several(count))]).is_ok(), fits, "{count}");
    }
    let patterns = |count: usize| json!({"anyOf": vec![json!({"pattern": "a"}); count]});
    for (count, fits) in [(63, true), (64, true), (65, false)] {
        assert_eq!(Toolbox::new(&[echo().schema(patterns(count))]).is_ok(), fits, "{count}");
    }
    let names = json!({"properties": {"a": {"items": {"enum": (0..100_000).collect::<Vec<u32>>()}}}});
    let mut guest = Guest::new(&[echo().schema(names)], |_| {});
    guest.call(1, "echo", &json!({"a": [5, 7]}));
    guest.ok();
    guest.call(2, "echo", &json!({"a": vec![5; 2_000]}));
    assert_eq!(guest.error().0, "InvalidArguments");
}

#[test]
fn pattern_matching_is_linear() {
    let schema = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
    let mut guest = Guest::new(&[echo().schema(schema)], |_| {});
    guest.call(1, "echo", &json!({"a": format!("{}b", "a".repeat(100_000))}));
    assert_eq!(guest.error().0, "InvalidArguments");
}

#[test]
fn random_messages_are_answered() {
    let mut guest = Guest::new(&[echo()], |limits| limits.tool_calls = 1_000_000);
    // xorshift64 with seed 1. Each message is a mutation of a valid message.
    let mut state = 1_u64;
    let mut next = |max: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % 1_000_003).unwrap() % max
    };
    for round in 0..5_000_u64 {
        let mut bytes = json!({"id": round, "name": "echo", "arguments": {"a": [1, "b"]}}).to_string().into_bytes();
        for _ in 0..next(4) {
            let at = next(bytes.len());
            bytes[at] = u8::try_from(next(256)).unwrap();
        }
        bytes.truncate(next(bytes.len() + 1).max(bytes.len() / 2));
        guest.calls.send(&bytes);
        while guest.peek().is_some() {}
    }
    thread::sleep(Duration::from_millis(20));
    while guest.read().is_some() {}
    assert_eq!(guest.calls.account().held_bytes(), 0);
}
