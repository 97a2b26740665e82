//! Registration of tools.

use serde_json::json;

use super::{Guest, echo};
use crate::tools::{Tool, ToolDefinitionError, Toolbox};

fn named(name: &str) -> Result<Toolbox, ToolDefinitionError> {
    Toolbox::new(&[Tool::new(name, "").handler(|_, _| Ok(json!(null)))])
}

#[test]
fn a_name_is_one_that_scripts_can_write() {
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
fn a_name_is_registered_once() {
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
fn descriptions_and_schemas_have_a_bound_together() {
    let with = |length: usize| {
        let tool = Tool::new("a", "x".repeat(length)).handler(|_, _| Ok(json!(null)));
        Toolbox::new(&[tool]).map(|toolbox| toolbox.tools().catalogue().len())
    };
    let around = with(0).unwrap();
    let most = 1 << 20;
    assert_eq!(with(most - around - 1).unwrap(), most - 1, "under");
    assert_eq!(with(most - around).unwrap(), most, "at");
    let over = with(most - around + 1).unwrap_err();
    assert_eq!(over, ToolDefinitionError::TooLarge { bytes: most + 1, most });
}

#[test]
fn the_catalogue_says_all_there_is_to_know() {
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
