//! Tools that a component answers itself.
//!
//! Their schemas are the component's word, and the host compiles them and holds arguments to them: both must be bounded. What can
//! make a small schema a large one, or a short check a long one, is refused: references, which may lead from each schema to
//! two others, and what evaluates a schema once more for what another has left.

use serde_json::Value;

use super::wit::types::{SandboxError, Tool};
use crate::tools::weight;

/// The most tools at once.
const TOOLS_MOST: usize = 1_024;

/// The most bytes of all names, descriptions and schemas, as text and as values.
const TEXT_BYTES_MOST: usize = 1 << 20;
const VALUE_BYTES_MOST: u64 = 32 << 20;

/// The most schemas that one tool's consists of: each is held against arguments at most once for each value in them.
const SCHEMAS_MOST: usize = 1_000;

/// The most regular expressions of all tools, and what each may take when it is compiled.
const PATTERNS_MOST: usize = 64;
const PATTERN_BYTES: u64 = 2 << 20;

/// Keywords that are not taken.
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

/// What there is of schemas so far.
#[derive(Default)]
struct Count {
    schemas: usize,
    patterns: usize,
}

fn wrong(what: impl Into<String>) -> SandboxError {
    SandboxError::InvalidArgument(format!("`tools`: {}", what.into()))
}

/// The component's tools, and about how many bytes the host holds for them.
pub(super) fn checked(tools: &[Tool]) -> Result<(Vec<crate::Tool>, u64), SandboxError> {
    if tools.len() > TOOLS_MOST {
        return Err(wrong(format!("there are {} of them, and at most {TOOLS_MOST} are taken", tools.len())));
    }
    let text =
        |tool: &Tool| tool.name.len() + tool.description.len() + tool.arguments_schema.as_ref().map_or(0, String::len);
    let text_bytes: usize = tools.iter().map(text).sum();
    let schemas = tools.iter().filter_map(|tool| tool.arguments_schema.as_ref());
    let value_bytes: u64 = schemas.map(|schema| weight(schema.as_bytes())).sum();
    if text_bytes > TEXT_BYTES_MOST || value_bytes > VALUE_BYTES_MOST {
        return Err(wrong(format!(
            "their names, descriptions and schemas are more than the {TEXT_BYTES_MOST} bytes that are taken"
        )));
    }
    let mut patterns = 0;
    let mut checked = Vec::with_capacity(tools.len());
    for tool in tools {
        let mut made = crate::Tool::new(&*tool.name, &*tool.description).stepped();
        if let Some(text) = &tool.arguments_schema {
            let of = |reason: String| wrong(format!("the schema of `{}`: {reason}", clipped(&tool.name)));
            let schema: Value = serde_json::from_str(text).map_err(|error| of(format!("it is no JSON: {error}")))?;
            let mut count = Count { schemas: 0, patterns };
            count.schema(&schema).map_err(of)?;
            patterns = count.patterns;
            made = made.schema(schema);
        }
        checked.push(made);
    }
    let compiled = PATTERN_BYTES.saturating_mul(patterns as u64);
    Ok((checked, (text_bytes as u64).saturating_add(value_bytes).saturating_add(compiled)))
}

fn clipped(name: &str) -> String {
    name.chars().take(64).collect()
}

impl Count {
    /// Goes through a schema, as deep as its text nests.
    fn schema(&mut self, schema: &Value) -> Result<(), String> {
        self.schemas += 1;
        if self.schemas > SCHEMAS_MOST {
            return Err(format!("it consists of more than {SCHEMAS_MOST} schemas"));
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        for (keyword, value) in keywords {
            match keyword.as_str() {
                refused if REFUSED.contains(&refused) => {
                    return Err(format!("`{refused}` is not taken from a component; write it out"));
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
                    self.patterns(value.as_object().map_or(0, serde_json::Map::len))?;
                    self.named(value)?;
                }
                "pattern" => self.patterns(1)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn one_or_several(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Array(schemas) => schemas.iter().try_for_each(|schema| self.schema(schema)),
            schema => self.schema(schema),
        }
    }

    fn named(&mut self, value: &Value) -> Result<(), String> {
        value.as_object().into_iter().flat_map(serde_json::Map::values).try_for_each(|schema| self.schema(schema))
    }

    fn patterns(&mut self, more: usize) -> Result<(), String> {
        self.patterns = self.patterns.saturating_add(more);
        if self.patterns > PATTERNS_MOST {
            return Err(format!("with it there are more than {PATTERNS_MOST} regular expressions"));
        }
        Ok(())
    }
}
