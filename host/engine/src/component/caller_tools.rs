//! Tools that a component answers itself.
//!
//! The component chooses their schemas, and the host compiles them and checks arguments against them, so the cost of
//! both must be bounded. Keywords that can make a small schema large, or a short check long, are rejected. References
//! can lead from each schema to two others. `unevaluatedItems` and similar keywords evaluate schemas again.

use glovebox_core::contract::quoted;
use serde_json::Value;

use super::wit::types::{SandboxError, Tool};
use crate::tools::{MAX_FOREIGN_PATTERN_BYTES, weight};

/// Maximum number of tools.
const MAX_TOOLS: usize = 1_024;

/// Maximum bytes of all names, descriptions and schemas: as text, and as parsed values.
const MAX_TEXT_BYTES: usize = 1 << 20;
const MAX_VALUE_BYTES: u64 = 32 << 20;

/// Maximum number of JSON values in one tool's schema. Each is compared at most once with each value in the arguments,
/// and 1 MiB of arguments has half a million values. That takes seconds at worst, on a thread that cannot be
/// interrupted.
const MAX_VALUES: usize = 2_000;

/// Maximum number of regular expressions in all tools. Matching can follow many states for each byte of a text: some
/// ten seconds for 1 MiB and the largest expression.
const MAX_PATTERNS: usize = 8;

/// Rejected keywords.
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

/// Number of regular expressions so far.
#[derive(Default)]
struct Patterns(usize);

fn wrong(what: impl Into<String>) -> SandboxError {
    SandboxError::InvalidArgument(format!("`tools`: {}", what.into()))
}

/// Checks and converts the component's tools. Also returns the approximate bytes that the host holds for them.
pub(super) fn checked(tools: &[Tool]) -> Result<(Vec<crate::Tool>, u64), SandboxError> {
    if tools.len() > MAX_TOOLS {
        return Err(wrong(format!("there are {} of them, and the limit is {MAX_TOOLS}", tools.len())));
    }
    let text =
        |tool: &Tool| tool.name.len() + tool.description.len() + tool.arguments_schema.as_ref().map_or(0, String::len);
    let text_bytes: usize = tools.iter().map(text).sum();
    let schemas = tools.iter().filter_map(|tool| tool.arguments_schema.as_ref());
    let value_bytes: u64 = schemas.map(|schema| weight(schema.as_bytes())).sum();
    if text_bytes > MAX_TEXT_BYTES {
        let what = "their names, descriptions and schemas take";
        return Err(wrong(format!("{what} {text_bytes} bytes, and the limit is {MAX_TEXT_BYTES}")));
    }
    if value_bytes > MAX_VALUE_BYTES {
        return Err(wrong("their schemas have too many values"));
    }
    let mut patterns = Patterns::default();
    let mut checked = Vec::with_capacity(tools.len());
    for tool in tools {
        let mut made = crate::Tool::new(&*tool.name, &*tool.description).stepped().foreign();
        if let Some(text) = &tool.arguments_schema {
            let of = |reason: String| wrong(format!("the schema of `{}`: {reason}", quoted(&tool.name)));
            let schema: Value = serde_json::from_str(text).map_err(|error| of(format!("it is not JSON: {error}")))?;
            let count = values(&schema);
            if count > MAX_VALUES {
                return Err(of(format!("it has {count} values, and the limit is {MAX_VALUES}")));
            }
            patterns.see(&schema).map_err(of)?;
            made = made.schema(schema);
        }
        checked.push(made);
    }
    // The compiled expression, and its matching cache.
    let compiled = (2 * MAX_FOREIGN_PATTERN_BYTES as u64).saturating_mul(patterns.0 as u64);
    Ok((checked, (text_bytes as u64).saturating_add(value_bytes).saturating_add(compiled)))
}

/// Counts the values in a value, including itself. Recursion is bounded by the nesting of the JSON text.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(self::values).sum(),
        Value::Object(values) => values.values().map(self::values).sum(),
        _ => 0,
    }
}

impl Patterns {
    /// Checks the keywords of a schema and counts its regular expressions.
    fn see(&mut self, schema: &Value) -> Result<(), String> {
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                refused if REFUSED.contains(&refused) => {
                    return Err(format!("`{refused}` is not supported in a component's schema; write it out"));
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
                "properties" => self.named(value)?,
                "patternProperties" => {
                    self.more(value.as_object().map_or(0, serde_json::Map::len))?;
                    self.named(value)?;
                }
                "pattern" => self.more(1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn one_or_several(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| self.see(schema)),
            schema => self.see(schema),
        }
    }

    fn named(&mut self, value: &Value) -> Result<(), String> {
        value.as_object().into_iter().flat_map(serde_json::Map::values).try_for_each(|schema| self.see(schema))
    }

    fn more(&mut self, more: usize) -> Result<(), String> {
        self.0 = self.0.saturating_add(more);
        if self.0 > MAX_PATTERNS {
            return Err(format!("the tools have more than {MAX_PATTERNS} regular expressions"));
        }
        Ok(())
    }
}
