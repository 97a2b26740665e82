//! Holds the arguments of tools to JSON Schema.
//!
//! The library for it is larger than an interpreter when compiled to WebAssembly: 2.6 MB. This validator implements draft 2020-12 with the
//! forms of `items` and `dependencies` that earlier drafts had, and means the same in the engine and in the provider. All other keywords,
//! including `format`, are annotations, as in that draft; those that would have to be enforced, and are not, are refused by name. The tests
//! compare it with the library.
//!
//! Regular expressions are matched in linear time, so that ones with look-around or back-references are refused. `\d`, `\w`, `\s` and `\b`
//! are about ASCII. One check may take so many steps of matching, because nobody can stop it.

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

/// How many schemas one check may recurse through, by values and in place, in a provider: each level uses a little of a stack whose size
/// the host of the provider decides.
pub const MAX_PROVIDER_LEVELS: usize = 400;

/// The same in the engine: more than schemas and arguments can lead to.
pub const MAX_ENGINE_LEVELS: usize = 5_000;

/// What the names of drafts begin with. In other dialects keywords may mean anything.
const DRAFTS: [&str; 2] = ["https://json-schema.org/draft", "http://json-schema.org/draft"];

/// A compiled schema.
pub(super) struct Validator {
    /// The rules of each schema. The first is the whole.
    schemas: Vec<Vec<Rule>>,
    max_levels: usize,
}

impl Validator {
    /// Compiles a schema whose size, depth and references were checked already. Each regular expression takes at most so many bytes, and a
    /// check recurses through so many schemas.
    pub(super) fn of(schema: &Value, max_pattern_bytes: usize, max_levels: usize) -> Result<Self, String> {
        let is_draft = |name: &str| DRAFTS.iter().any(|drafts| name.starts_with(drafts));
        if schema.get("$schema").is_some_and(|name| !name.as_str().is_some_and(is_draft)) {
            return Err("`$schema` names no draft of JSON Schema".into());
        }
        Ok(Self { schemas: read(schema, max_pattern_bytes)?, max_levels })
    }

    /// Checks a value.
    pub(super) fn check(&self, value: &Value) -> Validity {
        check(&self.schemas, value, self.max_levels)
    }
}

#[cfg(test)]
mod tests;
