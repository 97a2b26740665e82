//! Validates tool arguments against JSON Schema.
//!
//! The `jsonschema` crate takes 2.6 MB as WebAssembly, more than an interpreter. This validator implements draft
//! 2020-12, and the forms of `items` and `dependencies` in earlier drafts. It behaves the same in the engine and in the
//! provider. As in draft 2020-12, all other keywords are annotations, including `format`. Unsupported keywords that
//! would have to be enforced are rejected by name. The tests compare the validator with `jsonschema`.
//!
//! Regular expressions are matched in linear time, so look-around and back-references are rejected. `\d`, `\w`, `\s`
//! and `\b` are limited to ASCII. The number of matching steps in a check is limited, because a check cannot be
//! interrupted.

mod check;

use std::{collections::HashMap, fmt, ptr};

use check::{Validity, check};
use glovebox_vfs::escaped;
use regex_lite::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Maximum number of schemas that one check may recurse through in a provider, over nested values and nested schemas.
/// Each level uses stack, whose size the provider's host determines.
pub const MAX_PROVIDER_LEVELS: usize = 400;

/// Like `MAX_PROVIDER_LEVELS`, but for the engine. Schemas and arguments within their limits never reach this depth.
pub const MAX_ENGINE_LEVELS: usize = 5_000;

/// URL prefixes of the JSON Schema drafts. In other dialects, keywords may have any meaning.
const DRAFTS: [&str; 2] = ["https://json-schema.org/draft", "http://json-schema.org/draft"];

/// A compiled schema.
pub(super) struct Validator {
    /// The rules of each schema. The first schema is the root.
    schemas: Vec<Vec<Rule>>,
    max_levels: usize,
}

impl Validator {
    /// Compiles a schema whose size, depth and references were checked. `max_pattern_bytes` limits the size of each
    /// compiled regular expression, and `max_levels` the recursion of a check.
    pub(super) fn of(schema: &Value, max_pattern_bytes: usize, max_levels: usize) -> Result<Self, String> {
        let is_draft = |name: &str| DRAFTS.iter().any(|drafts| name.starts_with(drafts));
        if schema.get("$schema").is_some_and(|name| !name.as_str().is_some_and(is_draft)) {
            return Err("`$schema` does not name a known draft of JSON Schema".into());
        }
        Ok(Self { schemas: read(schema, max_pattern_bytes)?, max_levels })
    }

    pub(super) fn check(&self, value: &Value) -> Validity {
        check(&self.schemas, value, self.max_levels)
    }
}

#[cfg(test)]
mod tests;

/// A rule for a value. Refers to schemas by index.
enum Rule {
    Never,
    Type(Vec<String>),
    OneOfThese(Vec<Value>),
    Minimum {
        bound: f64,
        excluded: bool,
        shown: Value,
    },
    Maximum {
        bound: f64,
        excluded: bool,
        shown: Value,
    },
    MultipleOf(Value),
    Size {
        of: Countable,
        min: u64,
        max: u64,
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
        min: u64,
        max: u64,
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
    /// Applies to the properties or elements that no other rule of the schema has evaluated. Always the last rule.
    Unevaluated {
        of: MemberKind,
        schema: usize,
    },
}

/// The members that `unevaluatedProperties` or `unevaluatedItems` applies to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MemberKind {
    Properties,
    Items,
}

/// A type of value whose size a schema can limit.
#[derive(Clone, Copy)]
enum Countable {
    Text,
    Array,
    Object,
}

impl Countable {
    /// Returns the type of value that a keyword such as `minLength` applies to.
    fn limited_by(keyword: &str) -> Self {
        match keyword.get(3..) {
            Some("Length") => Self::Text,
            Some("Items") => Self::Array,
            _ => Self::Object,
        }
    }

    fn size(self, value: &Value) -> Option<u64> {
        match self {
            Self::Text => value.as_str().map(|text| text.chars().count() as u64),
            Self::Array => value.as_array().map(|items| items.len() as u64),
            Self::Object => value.as_object().map(|members| members.len() as u64),
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Text => "characters",
            Self::Array => "elements",
            Self::Object => "properties",
        }
    }
}

/// First size limit to try when compiling an expression, in bytes.
const MIN_BYTES: usize = 1 << 10;

/// Minimum size of one state in a compiled expression, in bytes.
const STATE_BYTES: usize = 32;

struct Pattern {
    regex: Regex,
    /// Maximum number of automaton states that matching visits for each byte of a string.
    states: u64,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.regex.as_str()).finish()
    }
}

impl Pattern {
    /// Compiles a regular expression to at most `max_bytes`.
    fn of(text: &str, max_bytes: usize) -> Result<Self, String> {
        let compile = |bytes| RegexBuilder::new(text).size_limit(bytes).build();
        let mut bytes = MIN_BYTES;
        loop {
            match compile(bytes.min(max_bytes)) {
                Ok(regex) => {
                    let states = u64::try_from(bytes.min(max_bytes) / STATE_BYTES).unwrap_or(u64::MAX);
                    return Ok(Self { regex, states });
                }
                // The library does not report the compiled size, so larger limits are tried. An invalid expression also
                // fails at the largest limit.
                Err(_) if bytes < max_bytes => bytes *= 2,
                Err(error) => return Err(format!("a regular expression is not supported: {error}")),
            }
        }
    }

    /// Returns the maximum number of steps for matching a string.
    fn steps(&self, text: &str) -> u64 {
        (text.len() as u64 + 1).saturating_mul(self.states)
    }

    /// Returns `true` if the expression matches anywhere in a string.
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

/// Returns `true` if two values are equal in JSON Schema: 1 equals 1.0.
fn json_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| json_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| json_equal(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

/// Returns `true` if an array has two equal items. Sorts the items by text, to avoid comparing all pairs of a long
/// array.
fn has_equals(value: &Value) -> bool {
    let Some(items) = value.as_array() else { return false };
    let mut texts: Vec<String> = items.iter().map(|item| with_floats(item).to_string()).collect();
    texts.sort_unstable();
    texts.windows(2).any(|pair| matches!(pair, [one, other] if one == other))
}

/// Returns the value with each number as a float, so that equal values have equal text. An object's members are sorted
/// by name already.
fn with_floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(with_floats).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(name, it)| (name.clone(), with_floats(it))).collect())
        }
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

/// Unsupported keywords that would have to be enforced.
const REFUSED: [&str; 3] = ["contentSchema", "$recursiveRef", "$dynamicRef"];

/// Returns the rules of a schema and of all its subschemas. The root schema is first.
fn read(schema: &Value, max_pattern_bytes: usize) -> Result<Vec<Vec<Rule>>, String> {
    let mut reader = Reader { root: schema, found: Vec::new(), index: HashMap::new(), max_pattern_bytes };
    reader.add(schema);
    let mut schemas = Vec::new();
    while let Some(next) = reader.found.get(schemas.len()) {
        schemas.push(reader.rules(next)?);
    }
    Ok(schemas)
}

/// A compiler that compiles a schema and each of its subschemas once.
struct Reader<'a> {
    root: &'a Value,
    found: Vec<&'a Value>,
    /// Schema indices by address, so that a schema with several references is compiled once.
    index: HashMap<*const Value, usize>,
    max_pattern_bytes: usize,
}

impl<'a> Reader<'a> {
    fn add(&mut self, schema: &'a Value) -> usize {
        let next = self.found.len();
        let index = *self.index.entry(ptr::from_ref(schema)).or_insert(next);
        if index == next {
            self.found.push(schema);
        }
        index
    }

    fn all(&mut self, schemas: &'a Value) -> Result<Vec<usize>, String> {
        let schemas = schemas.as_array().ok_or("`allOf`, `anyOf`, `oneOf` and `prefixItems` must be arrays")?;
        Ok(schemas.iter().map(|schema| self.add(schema)).collect())
    }

    fn rules(&mut self, schema: &'a Value) -> Result<Vec<Rule>, String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(Vec::new()),
            Value::Bool(false) => return Ok(vec![Rule::Never]),
            Value::Object(keywords) => keywords,
            _ => return Err("a schema is neither an object nor a boolean".into()),
        };
        let mut rules = Vec::new();
        for (keyword, operand) in keywords {
            let wrong = || invalid(keyword, operand);
            if REFUSED.contains(&keyword.as_str()) {
                return Err(format!("`{keyword}` is not supported"));
            }
            rules.extend(match keyword.as_str() {
                "type" => Some(Rule::Type(type_names(operand).ok_or_else(wrong)?)),
                "enum" => Some(Rule::OneOfThese(operand.as_array().ok_or_else(wrong)?.clone())),
                "const" => Some(Rule::OneOfThese(vec![operand.clone()])),
                "minimum" | "exclusiveMinimum" => Some(Rule::Minimum {
                    bound: operand.as_f64().ok_or_else(wrong)?,
                    excluded: keyword == "exclusiveMinimum",
                    shown: operand.clone(),
                }),
                "maximum" | "exclusiveMaximum" => Some(Rule::Maximum {
                    bound: operand.as_f64().ok_or_else(wrong)?,
                    excluded: keyword == "exclusiveMaximum",
                    shown: operand.clone(),
                }),
                "multipleOf" => {
                    let is_positive = operand.as_f64().is_some_and(|of| of > 0.0);
                    Some(Rule::MultipleOf(if is_positive { operand.clone() } else { return Err(wrong()) }))
                }
                "minLength" | "minItems" | "minProperties" => {
                    let min = count(operand).ok_or_else(wrong)?;
                    Some(Rule::Size { of: Countable::limited_by(keyword), min, max: u64::MAX })
                }
                "maxLength" | "maxItems" | "maxProperties" => {
                    let max = count(operand).ok_or_else(wrong)?;
                    Some(Rule::Size { of: Countable::limited_by(keyword), min: 0, max })
                }
                "uniqueItems" => operand.as_bool().ok_or_else(wrong)?.then_some(Rule::Unique),
                "required" => Some(Rule::Required(texts(operand).ok_or_else(wrong)?)),
                "dependentRequired" => {
                    let pairs = operand.as_object().ok_or_else(wrong)?.iter();
                    let pairs = pairs.map(|(name, names)| Some((name.clone(), texts(names)?)));
                    Some(Rule::RequiredBeside(pairs.collect::<Option<_>>().ok_or_else(wrong)?))
                }
                "dependentSchemas" => {
                    let pairs = operand.as_object().ok_or_else(wrong)?.iter();
                    Some(Rule::SchemasBeside(pairs.map(|(name, schema)| (name.clone(), self.add(schema))).collect()))
                }
                "pattern" => Some(Rule::Pattern(self.pattern(operand.as_str().ok_or_else(wrong)?)?)),
                "propertyNames" => Some(Rule::PropertyNames(self.add(operand))),
                "allOf" => Some(Rule::All(self.all(operand)?)),
                "anyOf" => Some(Rule::Any(self.all(operand)?)),
                "oneOf" => Some(Rule::ExactlyOne(self.all(operand)?)),
                "not" => Some(Rule::Not(self.add(operand))),
                "$ref" => {
                    let pointer = operand.as_str().and_then(|text| text.strip_prefix('#')).ok_or_else(wrong)?;
                    let target = self.root.pointer(pointer).ok_or_else(wrong)?;
                    Some(Rule::All(vec![self.add(target)]))
                }
                _ => None,
            });
        }
        self.rules_of_several(keywords, &mut rules)?;
        Ok(rules)
    }

    /// Adds the rules that combine several keywords.
    fn rules_of_several(&mut self, keywords: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Result<(), String> {
        let wrong = |keyword: &str| invalid(keyword, keywords.get(keyword).unwrap_or(&Value::Null));
        const PROPERTIES: [&str; 3] = ["properties", "patternProperties", "additionalProperties"];
        if PROPERTIES.iter().any(|keyword| keywords.contains_key(*keyword)) {
            let mut named = HashMap::new();
            if let Some(properties) = keywords.get("properties") {
                for (name, schema) in properties.as_object().ok_or_else(|| wrong("properties"))? {
                    named.insert(name.clone(), self.add(schema));
                }
            }
            let mut patterns = Vec::new();
            if let Some(properties) = keywords.get("patternProperties") {
                for (text, schema) in properties.as_object().ok_or_else(|| wrong("patternProperties"))? {
                    patterns.push((self.pattern(text)?, self.add(schema)));
                }
            }
            let others = keywords.get("additionalProperties").map(|schema| self.add(schema));
            rules.push(Rule::Properties { named, patterns, others });
        }
        // Before draft 2019-09, this keyword combined `dependentRequired` and `dependentSchemas`.
        if let Some(dependencies) = keywords.get("dependencies") {
            let dependencies = dependencies.as_object().ok_or_else(|| wrong("dependencies"))?;
            let (required, schemas): (Vec<_>, Vec<_>) = dependencies.iter().partition(|(_, it)| it.is_array());
            let required = required.into_iter().map(|(name, names)| Some((name.clone(), texts(names)?)));
            rules.push(Rule::RequiredBeside(required.collect::<Option<_>>().ok_or_else(|| wrong("dependencies"))?));
            let schemas = schemas.into_iter().map(|(name, schema)| (name.clone(), self.add(schema)));
            rules.push(Rule::SchemasBeside(schemas.collect()));
        }
        // Before draft 2020-12, `items` could list the schemas of the first elements, with `additionalItems` as the
        // schema of the remaining elements.
        let (first, others) = match keywords.get("items") {
            Some(first @ Value::Array(_)) => (Some(first), keywords.get("additionalItems")),
            others => (keywords.get("prefixItems"), others),
        };
        if first.is_some() || others.is_some() {
            let first = first.map_or(Ok(Vec::new()), |first| self.all(first))?;
            let others = others.map(|schema| self.add(schema));
            rules.push(Rule::Items { first, others });
        }
        if let Some(schema) = keywords.get("contains") {
            let bound = |keyword: &str, default: u64| match keywords.get(keyword) {
                Some(operand) => count(operand).ok_or_else(|| wrong(keyword)),
                None => Ok(default),
            };
            let (min, max) = (bound("minContains", 1)?, bound("maxContains", u64::MAX)?);
            rules.push(Rule::Contains { schema: self.add(schema), min, max });
        }
        if let Some(condition) = keywords.get("if") {
            let condition = self.add(condition);
            let then = keywords.get("then").map(|schema| self.add(schema));
            let otherwise = keywords.get("else").map(|schema| self.add(schema));
            rules.push(Rule::If { condition, then, otherwise });
        }
        for (keyword, of) in
            [("unevaluatedProperties", MemberKind::Properties), ("unevaluatedItems", MemberKind::Items)]
        {
            rules.extend(keywords.get(keyword).map(|schema| Rule::Unevaluated { of, schema: self.add(schema) }));
        }
        Ok(())
    }

    fn pattern(&self, text: &str) -> Result<Pattern, String> {
        Pattern::of(text, self.max_pattern_bytes)
    }
}

fn type_names(operand: &Value) -> Option<Vec<String>> {
    const KNOWN: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let names = operand.as_str().map_or_else(|| texts(operand), |name| Some(vec![name.to_owned()]))?;
    names.iter().all(|name| KNOWN.contains(&name.as_str())).then_some(names)
}

fn texts(operand: &Value) -> Option<Vec<String>> {
    operand.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Parses a count, which a schema may write with a zero fraction.
fn count(operand: &Value) -> Option<u64> {
    operand
        .as_u64()
        .or_else(|| operand.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0)?.to_string().parse().ok())
}

/// Returns the error for a keyword whose value has the wrong type or is out of range.
fn invalid(keyword: &str, value: &Value) -> String {
    format!("`{keyword}` has the invalid value `{}`", escaped(&value.to_string()))
}
