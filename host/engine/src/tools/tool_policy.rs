//! The `tools` table of a policy: restrictions on individual tools.

use std::collections::BTreeMap;

use glovebox_core::{
    PolicyError,
    tools::{CallFailure, CheckedDefinition, Definition, MAX_ENGINE_LEVELS},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{ToolDefinitionError, ToolErrorKind, toolbox::simple_schema_size};

/// The calls to a tool that need an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approve {
    /// No call.
    #[default]
    Never,
    /// Every call.
    Always,
}

impl Approve {
    fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// Restrictions on one tool, in addition to the tool's own schema and to the limits on all tools. Default: none.
///
/// A call that violates a restriction fails in the script, and the tool is not called.
///
/// ```
/// # use glovebox::Policy;
/// let policy = Policy::from_toml(r#"
///     [tools.fetch]
///     max_calls = 5
///     [tools.fetch.schema.properties.url]
///     pattern = "^https://example[.]com/"
/// "#)?;
/// assert_eq!(policy.tools["fetch"].max_calls, Some(5));
/// # Ok::<(), glovebox::PolicyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolPolicy {
    /// Maximum number of calls to the tool in one execution, from 0 to 1,000,000. Calls that fail count as well.
    /// Further calls fail with [`ToolErrorKind::Limit`]. Default: no limit for the tool. `limits.tool_calls` still
    /// limits the total number of calls to all tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u64>,
    /// A JSON Schema that the arguments must match in addition to the tool's own schema. Calls with other arguments
    /// fail with [`ToolErrorKind::InvalidArguments`]. Default: only the tool's own schema applies.
    ///
    /// The rules of [`Tool::schema`](crate::Tool::schema) apply. References (`$ref`), `$id` and `null` are not allowed.
    /// For the value `null`, write `type = "null"`. The limits [`MAX_SCHEMA_DEPTH`](Self::MAX_SCHEMA_DEPTH),
    /// [`MAX_SCHEMA_BYTES`](Self::MAX_SCHEMA_BYTES) and [`MAX_PATTERNS`](Self::MAX_PATTERNS) apply as well. The
    /// compiled size of each regular expression is limited to 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The calls that need an approval. Default: none.
    ///
    /// A call that needs an approval does not reach the tool's handler. If the request sets
    /// [`Request::approvals`](crate::Request::approvals), the call waits, and
    /// [`Started::advance`](crate::Started::advance) returns the call with
    /// [`ToolRequest::approve`](crate::ToolRequest::approve). In all other executions, the call fails with
    /// [`ToolErrorKind::Denied`].
    #[serde(skip_serializing_if = "Approve::is_never")]
    pub approve: Approve,
}

impl ToolPolicy {
    /// Maximum number of tools in a policy.
    pub const MAX_TOOLS: usize = 256;
    /// Maximum size of all schemas of a policy as JSON text, in bytes.
    pub const MAX_SCHEMA_BYTES: usize = 128 << 10;
    /// Maximum number of nested objects and arrays in a schema. The TOML parser rejects more than 80 levels, so a
    /// policy file can contain every allowed schema.
    pub const MAX_SCHEMA_DEPTH: usize = 64;
    /// Maximum number of regular expressions in all schemas of a policy. The limit bounds the time and memory for
    /// compiling the expressions.
    pub const MAX_PATTERNS: usize = 32;

    /// Maximum value of `max_calls`, as for `limits.tool_calls`.
    const MAX_CALLS: u64 = 1_000_000;

    /// Adds restrictions. The lower `max_calls` applies, arguments must match both schemas, and calls need an approval if
    /// either policy requires it.
    pub fn narrow(&mut self, other: Self) {
        let Self { max_calls, schema, approve } = other;
        self.approve = self.approve.max(approve);
        self.max_calls = self.max_calls.into_iter().chain(max_calls).min();
        self.schema = match (self.schema.take(), schema) {
            (Some(own), Some(added)) if own != added => Some(json!({ "allOf": [own, added] })),
            (own, added) => own.or(added),
        };
    }
}

/// A policy's restrictions on all tools, with compiled schemas.
#[derive(Debug, Default)]
pub struct ToolRules(BTreeMap<String, ToolRule>);

/// The restrictions on one tool.
#[derive(Debug)]
struct ToolRule {
    max_calls: Option<u64>,
    schema: Option<CheckedDefinition>,
    /// The result of [`simple_schema_size`], or 0 without a schema.
    schema_size: Option<usize>,
    approve: Approve,
}

impl ToolRules {
    /// Checks the restrictions and compiles their schemas.
    ///
    /// # Errors
    /// Fails if a restriction is invalid.
    pub fn new(tools: &BTreeMap<String, ToolPolicy>) -> Result<Self, PolicyError> {
        if tools.len() > ToolPolicy::MAX_TOOLS {
            let reason =
                format!("it has {} entries; the maximum is {}; remove some", tools.len(), ToolPolicy::MAX_TOOLS);
            return Err(PolicyError::Tool { key: "tools".into(), reason });
        }
        let (mut bytes, mut patterns) = (0_usize, 0_usize);
        let mut rules = BTreeMap::new();
        for (name, ToolPolicy { max_calls, schema, approve }) in tools {
            let wrong = |key: &str, reason: String| PolicyError::Tool { key: format!("tools.{name}{key}"), reason };
            let any = json!({});
            let definition = Definition {
                name,
                description: "",
                schema: schema.as_ref().unwrap_or(&any),
                is_untrusted: true,
                max_levels: MAX_ENGINE_LEVELS,
            };
            definition.check_name().map_err(|_| {
                wrong("", "scripts cannot call a tool with this name; use an identifier that is not reserved".into())
            })?;
            if let Some(calls) = max_calls.filter(|calls| *calls > ToolPolicy::MAX_CALLS) {
                let reason = format!("the value is {calls}; it must be between 0 and {}", ToolPolicy::MAX_CALLS);
                return Err(wrong(".max_calls", reason));
            }
            let schema_size = schema.as_ref().map_or(Some(0), simple_schema_size);
            let schema = match schema {
                None => None,
                Some(schema) => {
                    check_parts(schema, ToolPolicy::MAX_SCHEMA_DEPTH).map_err(|reason| wrong(".schema", reason))?;
                    bytes = bytes.saturating_add(schema.to_string().len());
                    if bytes > ToolPolicy::MAX_SCHEMA_BYTES {
                        let max = ToolPolicy::MAX_SCHEMA_BYTES;
                        let reason =
                            format!("the schemas of all tools are more than {max} bytes as JSON; shorten them");
                        return Err(wrong(".schema", reason));
                    }
                    let checked = definition.check().map_err(|error| match error {
                        ToolDefinitionError::Schema { reason, .. } => wrong(".schema", reason),
                        error => wrong(".schema", error.to_string()),
                    })?;
                    patterns = patterns.saturating_add(checked.pattern_count());
                    if patterns > ToolPolicy::MAX_PATTERNS {
                        let max = ToolPolicy::MAX_PATTERNS;
                        let reason =
                            format!("the schemas of all tools have more than {max} regular expressions; remove some");
                        return Err(wrong(".schema", reason));
                    }
                    Some(checked)
                }
            };
            let rule = ToolRule { max_calls: *max_calls, schema, schema_size, approve: *approve };
            rules.insert(name.clone(), rule);
        }
        Ok(Self(rules))
    }

    /// Counts a call to the tool `name`. `counts` contains the number of the execution's calls so far, by tool name.
    /// Fails if the tool has reached its maximum number of calls.
    pub(super) fn count(&self, name: &str, counts: &mut BTreeMap<String, u64>) -> Result<(), CallFailure> {
        let Some(max_calls) = self.0.get(name).and_then(|rule| rule.max_calls) else { return Ok(()) };
        let count = counts.entry(name.to_owned()).or_default();
        if *count >= max_calls {
            let message =
                format!("no more calls to `{name}` are allowed: the maximum `tools.{name}.max_calls` is {max_calls}");
            return Err(CallFailure::new(ToolErrorKind::Limit, message));
        }
        *count += 1;
        Ok(())
    }

    /// Returns the size of the schema for the tool `name`, as [`simple_schema_size`] does, or 0 without a schema.
    pub(super) fn schema_size(&self, name: &str) -> Option<usize> {
        self.0.get(name).map_or(Some(0), |rule| rule.schema_size)
    }

    /// Returns `true` if calls to the tool `name` need an approval.
    pub(super) fn needs_approval(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|rule| rule.approve == Approve::Always)
    }

    /// Checks the arguments of a call to the tool `name` against the policy's schema.
    pub(super) fn check(&self, name: &str, arguments: &Value) -> Result<(), CallFailure> {
        let Some(schema) = self.0.get(name).and_then(|rule| rule.schema.as_ref()) else { return Ok(()) };
        schema.check(arguments).map_err(|failure| {
            let CallFailure { kind, message } = failure;
            let message = format!("the policy restricts calls to `{name}` (`tools.{name}.schema`): {message}");
            CallFailure::new(kind, message)
        })
    }
}

/// Rejects schemas that are nested too deeply or have no TOML form. Also rejects schemas whose meaning would change as
/// part of a larger schema.
fn check_parts(schema: &Value, left: usize) -> Result<(), String> {
    if schema.is_null() {
        return Err(
            "`null` is not allowed; write `type = \"null\"` for the value `null`, and use only finite numbers".into()
        );
    }
    let Some(left) = left.checked_sub(usize::from(schema.is_object() || schema.is_array())) else {
        return Err(format!("it is nested more than {} levels deep", ToolPolicy::MAX_SCHEMA_DEPTH));
    };
    match schema {
        Value::Array(items) => items.iter().try_for_each(|item| check_parts(item, left)),
        Value::Object(members) => {
            let is_text = |key: &&&str| members.get(**key).is_some_and(Value::is_string);
            if let Some(key) = ["$ref", "$id"].iter().find(is_text) {
                return Err(format!("`{key}` is not supported in a policy; write the schema out"));
            }
            members.values().try_for_each(|member| check_parts(member, left))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(max_calls: Option<u64>, schema: Option<Value>) -> ToolPolicy {
        ToolPolicy { max_calls, schema, ..ToolPolicy::default() }
    }

    fn rules(tools: impl IntoIterator<Item = (String, ToolPolicy)>) -> Result<ToolRules, String> {
        ToolRules::new(&tools.into_iter().collect()).map_err(|error| error.to_string())
    }

    fn one(schema: Value) -> Result<ToolRules, String> {
        rules([("echo".to_owned(), tool(None, Some(schema)))])
    }

    #[test]
    fn number_of_restricted_tools_has_a_maximum() {
        for (count, fits) in [(255, true), (256, true), (257, false)] {
            let made = rules((0..count).map(|at| (format!("t{at}"), ToolPolicy::default())));
            assert_eq!(made.is_ok(), fits, "{count}");
        }
    }

    #[test]
    fn max_calls_has_a_maximum() {
        for (calls, fits) in [(0, true), (999_999, true), (1_000_000, true), (1_000_001, false)] {
            let made = rules([("echo".to_owned(), tool(Some(calls), None))]);
            assert_eq!(made.is_ok(), fits, "{calls}");
            assert!(fits || made.unwrap_err().contains("`tools.echo.max_calls`: the value is 1000001"));
        }
    }

    #[test]
    fn size_of_all_schemas_has_a_maximum() {
        let text = |length: usize| json!({ "title": "x".repeat(length) });
        let rest = ToolPolicy::MAX_SCHEMA_BYTES - 2 * text(0).to_string().len() - 1_000;
        for (length, fits) in [(rest - 1, true), (rest, true), (rest + 1, false)] {
            let made = rules([
                ("a".to_owned(), tool(None, Some(text(1_000)))),
                ("b".to_owned(), tool(None, Some(text(length)))),
            ]);
            assert_eq!(made.is_ok(), fits, "{length}");
            assert!(fits || made.unwrap_err().starts_with("`tools.b.schema`: the schemas of all tools"));
        }
    }

    #[test]
    fn depth_of_a_schema_has_a_maximum() {
        // The value of `const` is not a schema, so only its depth is limited.
        let nested = |depth: usize| json!({ "const": (1..depth).fold(json!(1), |inner, _| json!([inner])) });
        for (depth, fits) in [(63, true), (64, true), (65, false)] {
            let made = one(nested(depth));
            assert_eq!(made.is_ok(), fits, "{depth}");
            assert!(fits || made.unwrap_err().contains("nested more than 64 levels deep"));
        }
    }

    #[test]
    fn number_of_regular_expressions_has_a_maximum() {
        let patterns = |count: usize| json!({ "allOf": vec![json!({ "pattern": "a" }); count] });
        for (count, fits) in [(15, true), (16, true), (17, false)] {
            let made = rules([
                ("a".to_owned(), tool(None, Some(patterns(16)))),
                ("b".to_owned(), tool(None, Some(patterns(count)))),
            ]);
            assert_eq!(made.is_ok(), fits, "{count}");
            assert!(fits || made.unwrap_err().contains("more than 32 regular expressions"));
        }
    }

    #[test]
    fn invalid_restrictions_name_their_key() {
        for (schema, expected) in [
            (json!(true), "`tools.echo.schema`: it must be a JSON object"),
            (json!({ "type": "array" }), "`tools.echo.schema`: it must be a JSON object"),
            (json!({ "type": "objekt" }), "`tools.echo.schema`: it must be a JSON object"),
            (json!({ "maxProperties": "1" }), "`maxProperties` has the invalid value `\"1\"`"),
            (json!({ "properties": { "a": { "$ref": "https://example.com/a.json" } } }), "`$ref` is not supported"),
            (json!({ "properties": { "a": { "$ref": "#" } } }), "`$ref` is not supported"),
            (json!({ "$id": "https://example.com/a.json" }), "`$id` is not supported"),
            (json!({ "$schema": "https://example.com/dialect" }), "`$schema` does not name a known draft"),
            (json!({ "properties": { "a": { "const": null } } }), "`null` is not allowed"),
            (json!({ "propertyNames": { "pattern": "(?=a)" } }), "regular expression is not supported"),
            (json!({ "propertyNames": { "pattern": "x{9999}{9999}" } }), "regular expression is not supported"),
        ] {
            let error = one(schema.clone()).unwrap_err();
            assert!(error.starts_with("`tools.echo.schema`: ") && error.contains(expected), "{schema}: {error}");
        }
        for name in ["", "a-b", "class", "network.fetch"] {
            let error = rules([(name.to_owned(), ToolPolicy::default())]).unwrap_err();
            assert_eq!(
                error,
                format!(
                    "`tools.{name}`: scripts cannot call a tool with this name; use an identifier that is not reserved"
                )
            );
        }
        assert!(one(json!({ "properties": { "$ref": { "type": "string" } } })).is_ok(), "a property's name");
    }

    #[test]
    fn narrowing_is_an_intersection() {
        let narrowed = |mut own: ToolPolicy, added: ToolPolicy| {
            own.narrow(added);
            own
        };
        let (short, word) = (json!({ "maxProperties": 1 }), json!({ "required": ["a"] }));
        for (own, added, calls) in
            [(None, None, None), (Some(2), None, Some(2)), (None, Some(3), Some(3)), (Some(2), Some(3), Some(2))]
        {
            assert_eq!(narrowed(tool(own, None), tool(added, None)).max_calls, calls);
            assert_eq!(narrowed(tool(added, None), tool(own, None)).max_calls, calls);
        }
        let approving = |approve| ToolPolicy { approve, ..ToolPolicy::default() };
        for (own, added, approve) in [
            (Approve::Never, Approve::Never, Approve::Never),
            (Approve::Always, Approve::Never, Approve::Always),
            (Approve::Never, Approve::Always, Approve::Always),
            (Approve::Always, Approve::Always, Approve::Always),
        ] {
            assert_eq!(narrowed(approving(own), approving(added)).approve, approve, "{own:?} {added:?}");
        }
        let schema = |own: Option<&Value>, added: Option<&Value>| {
            narrowed(tool(None, own.cloned()), tool(None, added.cloned())).schema
        };
        assert_eq!(schema(Some(&short), None), Some(short.clone()));
        assert_eq!(schema(None, Some(&word)), Some(word.clone()));
        assert_eq!(schema(Some(&word), Some(&word)), Some(word.clone()), "an equal schema changes nothing");
        let both = one(schema(Some(&short), Some(&word)).unwrap()).unwrap();
        for (arguments, fits) in [
            (json!({ "a": 1 }), true),
            (json!({}), false),
            (json!({ "b": 1 }), false),
            (json!({ "a": 1, "b": 1 }), false),
        ] {
            assert_eq!(both.check("echo", &arguments).is_ok(), fits, "{arguments}");
            assert!(both.check("other", &arguments).is_ok(), "other tools are not restricted");
        }
    }
}
