//! Validation of tool arguments against JSON Schema.
//!
//! Compiled to WebAssembly, the usual library is larger than an interpreter: 2.6 MB. This validator implements draft
//! 2020-12, with the forms of `items` and `dependencies` of earlier drafts, and behaves the same in the engine and in
//! the provider. All other keywords, including `format`, are annotations, as in that draft. Unsupported keywords that
//! would have to be enforced are rejected by name. The tests compare the validator with the library.
//!
//! Regular expressions are matched in linear time, so expressions with look-around or back-references are rejected.
//! `\d`, `\w`, `\s` and `\b` are limited to ASCII. The number of matching steps in one check is limited, because a
//! check cannot be stopped.

use serde_json::Value;

use self::{
    check::{Validity, check},
    reader::read,
    rule::Rule,
};

mod check;
mod pattern;
mod reader;
mod rule;
mod values;

/// Maximum number of schemas that one check may recurse through in a provider, by values and in place. Each level uses
/// some of a stack whose size the provider's host decides.
pub const MAX_PROVIDER_LEVELS: usize = 400;

/// Like `MAX_PROVIDER_LEVELS`, in the engine: more than schemas and arguments can lead to.
pub const MAX_ENGINE_LEVELS: usize = 5_000;

/// Prefixes of the names of drafts. In other dialects, keywords may have any meaning.
const DRAFTS: [&str; 2] = ["https://json-schema.org/draft", "http://json-schema.org/draft"];

/// A compiled schema.
pub(super) struct Validator {
    /// The rules of each schema. The first schema is the whole.
    schemas: Vec<Vec<Rule>>,
    max_levels: usize,
}

impl Validator {
    /// Compiles a schema whose size, depth and references were already checked. `max_pattern_bytes` bounds each
    /// compiled regular expression, and `max_levels` the recursion of a check.
    pub(super) fn of(schema: &Value, max_pattern_bytes: usize, max_levels: usize) -> Result<Self, String> {
        let is_draft = |name: &str| DRAFTS.iter().any(|drafts| name.starts_with(drafts));
        if schema.get("$schema").is_some_and(|name| !name.as_str().is_some_and(is_draft)) {
            return Err("`$schema` names no draft of JSON Schema".into());
        }
        Ok(Self { schemas: read(schema, max_pattern_bytes)?, max_levels })
    }

    pub(super) fn check(&self, value: &Value) -> Validity {
        check(&self.schemas, value, self.max_levels)
    }
}

#[cfg(test)]
mod tests;
