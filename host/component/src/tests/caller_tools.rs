//! Tests of the limits on a component's own tools.

use super::*;
use crate::{caller_tools::check_tools, wit::types::Tool};

fn tool(name: impl Into<String>, schema: impl Into<String>) -> Tool {
    Tool { name: name.into(), description: String::new(), arguments_schema: Some(schema.into()) }
}

/// Returns the reason for the rejection, or `None` if the tools are accepted.
fn refusal(tools: &[Tool]) -> Option<String> {
    match check_tools(tools) {
        Ok(_) => None,
        Err(SandboxError::InvalidArgument(text)) => Some(text),
        Err(other) => panic!("{other:?}"),
    }
}

fn refusal_of(schema: &str) -> String {
    refusal(&[tool("ask", schema)]).unwrap_or_default()
}

#[test]
fn plain_schemas_are_accepted() {
    for schema in [
        "{}",
        r#"{"type": "object", "properties": {"$ref": {"type": "string"}, "unevaluatedItems": {}}}"#,
        r#"{"properties": {"a": {"enum": ["$ref"], "pattern": "^a+$"}}, "required": ["a"], "additionalProperties": false}"#,
        r#"{"properties": {"a": {"anyOf": [{"type": "null"}, {"items": [{}, true], "prefixItems": [{}]}]}}, "x-vendor": {"$ref": 1}}"#,
    ] {
        assert_eq!(refusal_of(schema), "", "{schema}");
    }
}

#[test]
fn expensive_schemas_are_rejected_at_any_depth() {
    for keyword in [
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "unevaluatedItems",
        "unevaluatedProperties",
        "dependencies",
        "dependentSchemas",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "discriminator",
    ] {
        for around in [
            "@",
            r#"{"properties": {"a": @}}"#,
            r#"{"patternProperties": {"a": @}}"#,
            r#"{"additionalProperties": @}"#,
            r#"{"items": @}"#,
            r#"{"items": [{}, @]}"#,
            r#"{"additionalItems": @}"#,
            r#"{"prefixItems": [@]}"#,
            r#"{"contains": @}"#,
            r#"{"propertyNames": @}"#,
            r#"{"not": @}"#,
            r#"{"if": @}"#,
            r#"{"then": @}"#,
            r#"{"else": @}"#,
            r#"{"allOf": [@]}"#,
            r#"{"anyOf": [{}, @]}"#,
            r#"{"oneOf": [{"properties": {"b": {"not": @}}}]}"#,
        ] {
            let schema = around.replace('@', &format!(r##"{{"{keyword}": "#"}}"##));
            assert!(refusal_of(&schema).contains(&format!("`{keyword}` is not supported")), "{schema}");
        }
    }
}

#[test]
fn schema_must_be_valid_json() {
    for schema in ["", "{", "{}{}", &"[".repeat(1_000)] {
        assert!(refusal_of(schema).contains("the schema of `ask`: not valid JSON"), "{schema}");
    }
}

#[test]
fn text_of_caller_tools_is_limited() {
    for (bytes, fits) in [((1 << 20) - 1, true), (1 << 20, true), ((1 << 20) + 1, false)] {
        let described = Tool { name: "ask".into(), description: "x".repeat(bytes - 3), arguments_schema: None };
        assert_eq!(refusal(&[described]).is_none(), fits, "{bytes}");
    }
    // A short text can contain many values, so their memory size is estimated before the text is parsed.
    let objects = |count: usize| format!(r#"{{"enum": [{}]}}"#, vec!["{}"; count].join(","));
    assert!(refusal_of(&objects(40_000)).contains("40002 JSON values"));
    assert!(refusal_of(&objects(45_000)).contains("too many values"));
}

#[test]
fn number_of_schema_values_is_limited() {
    // Values are counted at any position, because a check may compare all values of an enum with all of the arguments.
    for around in [r#"{"enum": [@]}"#, r#"{"const": [@]}"#, r#"{"prefixItems": [@]}"#, r#"{"x-vendor": [[@]]}"#] {
        let others = around.matches(['[', '{']).count();
        for (count, fits) in [(1_999, true), (2_000, true), (2_001, false)] {
            let schema = around.replace('@', &vec!["true"; count - others].join(","));
            let refusal = refusal_of(&schema);
            assert_eq!(refusal.is_empty(), fits, "{count}: {refusal}");
            assert_eq!(refusal.contains("2001 JSON values"), !fits, "{refusal}");
        }
    }
    let tools = ["a", "b", "c"].map(|name| tool(name, format!(r#"{{"enum": [{}]}}"#, vec!["0"; 1_900].join(","))));
    assert_eq!(refusal(&tools), None, "the limit applies to each schema separately");
}

#[test]
fn number_of_regular_expressions_is_limited() {
    for (count, fits) in [(7, true), (8, true), (9, false)] {
        let of = |name: &str, count: usize| {
            let patterns: Vec<_> = (0..count).map(|_| r#"{"pattern": "a"}"#).collect();
            tool(name, format!(r#"{{"anyOf": [{}], "patternProperties": {{"b": {{}}}}}}"#, patterns.join(",")))
        };
        let tools = [of("one", 3), of("two", count - 5)];
        assert_eq!(refusal(&tools).is_none(), fits, "{count}");
    }
}

#[test]
fn caller_tools_count_as_held_bytes() {
    let bytes = |tools: &[Tool]| check_tools(tools).unwrap().1;
    let plain = bytes(&[tool("ask", "{}")]);
    assert!(plain < 2_000, "{plain}");
    assert!(bytes(&[tool("ask", r#"{"pattern": "a"}"#)]) > 128 << 10);
    let mut ctx = with_quotas(|quotas| quotas.held_bytes = 100_000);
    let options = |schema: &str| SessionOptions { context: None, tools: Some(vec![tool("ask", schema)]) };
    let refused = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), options(r#"{"pattern": "a"}"#));
    assert!(over_quota(refused).contains("`held-bytes`"));
    let session = HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), options("{}")).unwrap();
    assert_eq!(ctx.usage().held_bytes, plain);
    let fork = HostSession::fork(&mut ctx, same(&session)).unwrap();
    HostSession::drop(&mut ctx, session).unwrap();
    assert_eq!(ctx.usage().held_bytes, plain, "the fork keeps the tools");
    HostSession::drop(&mut ctx, fork).unwrap();
    assert_eq!(ctx.usage().held_bytes, 0);
}

#[test]
fn invalid_tool_definition_is_reported() {
    let mut ctx = ctx();
    for wrong in [
        tool("1a", "{}"),
        tool("class", "{}"),
        tool("ask", r#"{"type": "string"}"#),
        tool("ask", r#"{"pattern": "("}"#),
        tool("ask", r#"{"pattern": "(((a{1000}){1000}){1000})"}"#),
        tool("ask", r#"{"pattern": "a{5000}"}"#),
    ] {
        let options = SessionOptions { context: None, tools: Some(vec![wrong]) };
        let error = error_of(HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), options));
        let SandboxError::InvalidArgument(text) = &error else { panic!("{error:?}") };
        assert!(text.starts_with("`tools`: "), "{text}");
    }
    assert_eq!((ctx.usage().held_bytes, ctx.usage().sessions), (0, 0));
}

#[test]
fn common_patterns_are_accepted() {
    let mut ctx = ctx();
    let schema = r#"{"properties": {
        "mail": {"pattern": "^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\\.[A-Za-z]{2,}$"},
        "word": {"pattern": "^\\w+(-\\w+)*$"},
        "date": {"pattern": "^\\d{4}-\\d{2}-\\d{2}$", "format": "date"}
    }}"#;
    let options = SessionOptions { context: None, tools: Some(vec![tool("ask", schema)]) };
    HostSession::open(&mut ctx, Runtime::Javascript, no_policy(), options).unwrap();
}

#[test]
fn schemas_are_compiled_only_within_the_quotas() {
    fn wrong() -> Vec<Tool> {
        vec![tool("ask", r#"{"pattern": "("}"#)]
    }
    fn open(ctx: &mut SandboxCtx) -> Result<(), SandboxFailure> {
        let options = SessionOptions { context: None, tools: Some(wrong()) };
        HostSession::open(ctx, Runtime::Javascript, no_policy(), options).map(drop)
    }
    fn start(ctx: &mut SandboxCtx) -> Result<(), SandboxFailure> {
        Host::start(ctx, Runtime::Javascript, request(""), no_policy(), wrong()).map(drop)
    }
    for begin in [open as fn(&mut SandboxCtx) -> Result<(), SandboxFailure>, start] {
        let mut ctx = with_quotas(|quotas| quotas.executions = 1);
        assert!(matches!(error_of(begin(&mut ctx)), SandboxError::InvalidArgument(_)));
        assert!(over_quota(begin(&mut ctx)).contains("`executions`"), "the quota is checked before the schema");
        assert!(over_quota(begin(&mut with_quotas(|quotas| quotas.handles = 0))).contains("`handles`"));
        assert_eq!((ctx.usage().started, ctx.usage().handles, ctx.usage().held_bytes), (0, 0, 0));
    }
}
