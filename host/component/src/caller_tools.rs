//! Tools whose calls the component answers.
//!
//! The component chooses the schemas of its tools. The host compiles the schemas and checks arguments against them, so
//! it must bound the cost of both. It rejects keywords that can make a small schema expensive. With references, each
//! schema can include the next schema twice, which doubles the cost for each schema. `unevaluatedItems` and
//! `unevaluatedProperties` evaluate schemas again.

use glovebox_core::{
    contract::quoted,
    tools::{MAX_UNTRUSTED_PATTERN_BYTES, weight},
};
use serde_json::Value;

use super::wit::types::{SandboxError, Tool};

/// Maximum number of a component's tools in one execution. The host holds a compiled schema for each tool.
const MAX_TOOLS: usize = 1_024;

/// Maximum total size of all names, descriptions and schemas as text, in bytes.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum total size of all schemas as parsed values, in bytes.
const MAX_VALUE_BYTES: u64 = 32 << 20;

/// Maximum number of JSON values in one tool's schema. A check compares each value in the schema at most once with each
/// value in the arguments, and 1 MiB of arguments can contain half a million values. The check runs on a thread that
/// cannot be interrupted. With this limit, it takes seconds at worst.
const MAX_VALUES: usize = 2_000;

/// Maximum number of regular expressions in all tools of one execution. A match can visit many states per byte of text:
/// with the largest expression, 1 MiB of text takes about ten seconds.
const MAX_PATTERNS: usize = 8;

/// Schema keywords that are rejected.
const REFUSED: [&str; 11] = [
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
];

/// A counter of the regular expressions in schemas.
#[derive(Default)]
struct Patterns(usize);

fn wrong(what: impl Into<String>) -> SandboxError {
    SandboxError::InvalidArgument(format!("`tools`: {}", what.into()))
}

/// Checks and converts the component's tools. Also returns the approximate size of the tools in the host's memory, in
/// bytes.
pub(super) fn check_tools(tools: &[Tool]) -> Result<(Vec<glovebox::Tool>, u64), SandboxError> {
    if tools.len() > MAX_TOOLS {
        return Err(wrong(format!("{} tools exceed the maximum of {MAX_TOOLS}; pass fewer tools", tools.len())));
    }
    let text =
        |tool: &Tool| tool.name.len() + tool.description.len() + tool.arguments_schema.as_ref().map_or(0, String::len);
    let text_bytes: usize = tools.iter().map(text).sum();
    let schemas = tools.iter().filter_map(|tool| tool.arguments_schema.as_ref());
    let value_bytes: u64 = schemas.map(|schema| weight(schema.as_bytes())).sum();
    if text_bytes > MAX_TEXT_BYTES {
        let what = "the names, descriptions and schemas are";
        return Err(wrong(format!(
            "{what} {text_bytes} bytes in total; the maximum is {MAX_TEXT_BYTES}; shorten them"
        )));
    }
    if value_bytes > MAX_VALUE_BYTES {
        return Err(wrong("the schemas contain too many values; pass fewer tools or simpler schemas"));
    }
    let mut patterns = Patterns::default();
    let mut checked = Vec::with_capacity(tools.len());
    for tool in tools {
        let mut definition = glovebox::Tool::new(&*tool.name, &*tool.description).stepped().untrusted_schema();
        if let Some(text) = &tool.arguments_schema {
            let of = |reason: String| wrong(format!("the schema of `{}`: {reason}", quoted(&tool.name)));
            let schema: Value = serde_json::from_str(text).map_err(|error| of(format!("not valid JSON: {error}")))?;
            let count = values(&schema);
            if count > MAX_VALUES {
                return Err(of(format!("it has {count} JSON values; the maximum is {MAX_VALUES}; simplify it")));
            }
            patterns.check_keywords(&schema).map_err(of)?;
            definition = definition.schema(schema);
        }
        checked.push(definition);
    }
    // Charges each regular expression for its compiled form and its matching cache.
    let compiled = (2 * MAX_UNTRUSTED_PATTERN_BYTES as u64).saturating_mul(patterns.0 as u64);
    Ok((checked, (text_bytes as u64).saturating_add(value_bytes).saturating_add(compiled)))
}

/// Counts the JSON values in a value, including the value itself. The parser's nesting limit bounds the recursion.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(self::values).sum(),
        Value::Object(values) => values.values().map(self::values).sum(),
        _ => 0,
    }
}

impl Patterns {
    /// Checks the keywords of a schema and counts its regular expressions.
    fn check_keywords(&mut self, schema: &Value) -> Result<(), String> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                refused if REFUSED.contains(&refused) => {
                    return Err(format!("`{refused}` is not supported in the schema of a component's tool; remove it"));
                }
                "additionalItems"
                | "additionalProperties"
                | "allOf"
                | "anyOf"
                | "contains"
                | "else"
                | "if"
                | "items"
                | "not"
                | "oneOf"
                | "prefixItems"
                | "propertyNames"
                | "then" => self.one_or_several(value)?,
                "properties" => self.check_members(value)?,
                "patternProperties" => {
                    self.add_patterns(value.as_object().map_or(0, serde_json::Map::len))?;
                    self.check_members(value)?;
                }
                "pattern" => self.add_patterns(1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn one_or_several(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| self.check_keywords(schema)),
            schema => self.check_keywords(schema),
        }
    }

    fn check_members(&mut self, value: &Value) -> Result<(), String> {
        value
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values)
            .try_for_each(|schema| self.check_keywords(schema))
    }

    fn add_patterns(&mut self, count: usize) -> Result<(), String> {
        self.0 = self.0.saturating_add(count);
        if self.0 > MAX_PATTERNS {
            return Err(format!("the tools have more than {MAX_PATTERNS} regular expressions in total; remove some"));
        }
        Ok(())
    }
}
