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

mod check;
mod reader;

use std::{collections::HashMap, fmt};

use check::{Validity, check};
use reader::read;
use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

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

/// A rule for a value. Schemas are indices into the list of all schemas.
enum Rule {
    Never,
    Type(Vec<String>),
    OneOfThese(Vec<Value>),
    Least {
        bound: f64,
        excluded: bool,
        shown: Value,
    },
    Most {
        bound: f64,
        excluded: bool,
        shown: Value,
    },
    MultipleOf(Value),
    Size {
        of: Sized,
        least: u64,
        most: u64,
    },
    Unique,
    Required(Vec<String>),
    RequiredBeside(Vec<(String, Vec<String>)>),
    SchemasBeside(Vec<(String, usize)>),
    Properties {
        named: HashMap<String, usize>,
        patterns: Vec<(Pattern, usize)>,
        others: Option<usize>,
    },
    PropertyNames(usize),
    Items {
        first: Vec<usize>,
        others: Option<usize>,
    },
    Contains {
        schema: usize,
        least: u64,
        most: u64,
    },
    All(Vec<usize>),
    Any(Vec<usize>),
    ExactlyOne(Vec<usize>),
    Not(usize),
    If {
        condition: usize,
        then: Option<usize>,
        otherwise: Option<usize>,
    },
    Pattern(Pattern),
    /// Applies to properties, or else elements, that no other rule of the schema has evaluated. Always the last rule.
    Unevaluated {
        of: Kind,
        schema: usize,
    },
}

/// The subject of `unevaluatedProperties` and `unevaluatedItems`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Properties,
    Items,
}

/// Values that have a size.
#[derive(Clone, Copy)]
enum Sized {
    Text,
    Array,
    Object,
}

impl Sized {
    fn size(self, value: &Value) -> Option<u64> {
        match self {
            Self::Text => value.as_str().map(|text| text.chars().count() as u64),
            Self::Array => value.as_array().map(|items| items.len() as u64),
            Self::Object => value.as_object().map(|members| members.len() as u64),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Text => "characters, which are too few or too many",
            Self::Array => "elements, which are too few or too many",
            Self::Object => "properties, which are too few or too many",
        }
    }
}

/// Compiled size of the smallest expressions, in bytes.
const LEAST_BYTES: usize = 1 << 10;

/// Minimum size of one state of a compiled expression, in bytes.
const STATE_BYTES: usize = 32;

struct Pattern {
    regex: Regex,
    /// Maximum number of states that each byte of a text is compared in.
    states: u64,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.regex.as_str()).finish()
    }
}

impl Pattern {
    /// Compiles an expression to at most `max_bytes`.
    fn of(text: &str, max_bytes: usize) -> Result<Self, String> {
        let compile = |bytes| RegexBuilder::new(text).size_limit(bytes).build();
        let mut bytes = LEAST_BYTES;
        loop {
            match compile(bytes.min(max_bytes)) {
                Ok(regex) => {
                    let states = u64::try_from(bytes.min(max_bytes) / STATE_BYTES).unwrap_or(u64::MAX);
                    return Ok(Self { regex, states });
                }
                // The library does not return the size. An expression that cannot be compiled at all fails with the
                // largest size, too.
                Err(_) if bytes < max_bytes => bytes *= 2,
                Err(error) => return Err(format!("a regular expression cannot be used: {error}")),
            }
        }
    }

    /// Returns the maximum number of steps for matching a text.
    fn steps(&self, text: &str) -> u64 {
        (text.len() as u64 + 1).saturating_mul(self.states)
    }

    /// Returns whether the expression matches a part of a text.
    fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Number(number) => {
            name == "number"
                || name == "integer" && (!number.is_f64() || number.as_f64().is_some_and(|it| it.fract() == 0.0))
        }
        Value::String(_) => name == "string",
        Value::Array(_) => name == "array",
        Value::Object(_) => name == "object",
    }
}

/// Returns whether two values are equal in JSON Schema, where 1 equals 1.0.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

/// Returns whether an array has equal items. It sorts by text first, to avoid comparing all pairs of a long array.
fn has_equals(value: &Value) -> bool {
    let Some(items) = value.as_array() else { return false };
    let mut texts: Vec<String> = items.iter().map(|item| plainly(item).to_string()).collect();
    texts.sort_unstable();
    texts.windows(2).any(|pair| matches!(pair, [one, other] if one == other))
}

/// Returns the value with each number as a fraction, so that equal numbers have equal text. The members of an object
/// are already sorted by name.
fn plainly(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(plainly).collect(),
        Value::Object(members) => Value::Object(members.iter().map(|(name, it)| (name.clone(), plainly(it))).collect()),
        other => other.clone(),
    }
}

fn is_multiple(value: &Value, of: &Value) -> bool {
    if let (Some(value), Some(of)) = (value.as_i64(), of.as_i64()) {
        return value.checked_rem(of).is_none_or(|rest| rest == 0);
    }
    match (value.as_f64(), of.as_f64()) {
        (Some(value), Some(of)) => {
            let times = value / of;
            (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
        }
        _ => true,
    }
}
