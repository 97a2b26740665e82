//! Holds the arguments of tools to JSON Schema.
//!
//! The library for it is larger than an interpreter when compiled to WebAssembly: 2.6 MB. This validator implements draft 2020-12 with the
//! forms of `items` and `dependencies` that earlier drafts had, and means the same in the engine and in the provider. All other keywords,
//! including `format`, are annotations, as in that draft; those that would have to be enforced, and are not, are refused by name. The tests
//! compare it with the library.
//!
//! Regular expressions are matched in linear time, so that ones with look-around or back-references are refused. `\d`, `\w`, `\s` and `\b`
//! are about ASCII. One check may take so many steps of matching, because nobody can stop it.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    ptr,
};

use serde_json::{Map, Value};

use self::pattern::Pattern;

mod pattern;

/// How many schemas one check may recurse through, by values and in place, in a provider: each level uses a little of a stack whose size
/// the host of the provider decides.
pub const MAX_PROVIDER_LEVELS: usize = 400;

/// The same in the engine: more than schemas and arguments can lead to.
pub const MAX_ENGINE_LEVELS: usize = 5_000;

/// The most steps that one check may match regular expressions for. A second or so.
const MAX_STEPS: u64 = 100_000_000;

/// What the names of drafts begin with. In other dialects keywords may mean anything.
const DRAFTS: [&str; 2] = ["https://json-schema.org/draft", "http://json-schema.org/draft"];

/// Keywords that would have to be enforced.
const REFUSED: [&str; 3] = ["contentSchema", "$recursiveRef", "$dynamicRef"];

/// A compiled schema.
pub(super) struct Validator {
    /// The rules of each schema. The first is the whole.
    schemas: Vec<Vec<Rule>>,
    max_levels: usize,
}

/// One check of a value.
struct Check<'a> {
    schemas: &'a [Vec<Rule>],
    /// The steps that are left for regular expressions.
    steps: Cell<u64>,
    /// Why it ended before its end. What fits, or does not fit, means nothing then.
    stopped: Cell<Option<&'static str>>,
}

/// Why a value is invalid.
#[derive(Debug)]
pub(super) struct ValidationError {
    /// The location, innermost name first.
    place: Vec<String>,
    message: String,
}

impl ValidationError {
    fn here(message: impl Into<String>) -> Self {
        Self { place: Vec::new(), message: message.into() }
    }

    fn within(mut self, part: impl ToString) -> Self {
        self.place.push(part.to_string().replace('~', "~0").replace('/', "~1"));
        self
    }

    /// The location as a JSON pointer, and what is wrong there.
    pub(super) fn location_and_message(&self) -> (String, &str) {
        let place = self.place.iter().rev().fold(String::new(), |place, part| place + "/" + part);
        (place, &self.message)
    }
}

type Validity = Result<(), ValidationError>;

/// One rule for a value. Schemas are indices into the list of all.
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
    /// For properties, or else elements, that no other rule of the schema has looked at. Comes last.
    Unevaluated {
        of: Kind,
        schema: usize,
    },
}

/// What `unevaluatedProperties` and `unevaluatedItems` are about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Properties,
    Items,
}

/// The members of one value that schemas have looked at.
#[derive(Default)]
struct Evaluated<'a> {
    all: bool,
    names: HashSet<&'a str>,
    places: HashSet<usize>,
}

/// Values that have a size.
#[derive(Clone, Copy)]
enum Sized {
    Text,
    Array,
    Object,
}

impl Validator {
    /// Compiles a schema whose size, depth and references were checked already. Each regular expression takes at most so many bytes, and a
    /// check recurses through so many schemas.
    pub(super) fn of(schema: &Value, max_pattern_bytes: usize, max_levels: usize) -> Result<Self, String> {
        let is_draft = |name: &str| DRAFTS.iter().any(|drafts| name.starts_with(drafts));
        if schema.get("$schema").is_some_and(|name| !name.as_str().is_some_and(is_draft)) {
            return Err("`$schema` names no draft of JSON Schema".into());
        }
        let mut reader = Reader { root: schema, found: Vec::new(), index: HashMap::new(), max_pattern_bytes };
        reader.add(schema);
        let mut schemas = Vec::new();
        while let Some(next) = reader.found.get(schemas.len()) {
            schemas.push(reader.rules(next)?);
        }
        Ok(Self { schemas, max_levels })
    }

    /// Checks a value.
    pub(super) fn check(&self, value: &Value) -> Validity {
        let check = Check { schemas: &self.schemas, steps: Cell::new(MAX_STEPS), stopped: Cell::new(None) };
        let validity = check.validate(0, value, self.max_levels);
        check.stopped.get().map_or(validity, |reason| Err(ValidationError::here(reason)))
    }
}

impl Check<'_> {
    fn rules(&self, schema: usize) -> &[Rule] {
        self.schemas.get(schema).map_or(&[], Vec::as_slice)
    }

    fn stop(&self, reason: &'static str) -> ValidationError {
        self.stopped.set(Some(reason));
        ValidationError::here(reason)
    }

    fn validate(&self, schema: usize, value: &Value, left: usize) -> Validity {
        let Some(left) = left.checked_sub(1) else {
            return Err(self.stop("it nests too deep to be held to the schema"));
        };
        if let Some(reason) = self.stopped.get() {
            return Err(ValidationError::here(reason));
        }
        self.rules(schema).iter().try_for_each(|rule| match rule {
            Rule::Unevaluated { of, schema: others } => self.unevaluated(schema, *of, *others, value, left),
            rule => self.apply(rule, value, left),
        })
    }

    fn fits(&self, schema: usize, value: &Value, left: usize) -> bool {
        self.validate(schema, value, left).is_ok()
    }

    fn matches(&self, pattern: &Pattern, text: &str) -> bool {
        let Some(left) = self.steps.get().checked_sub(pattern.steps(text)) else {
            self.stop("its texts are too long for the schema's regular expressions");
            return false;
        };
        self.steps.set(left);
        pattern.matches(text)
    }

    fn apply(&self, rule: &Rule, value: &Value, left: usize) -> Validity {
        let wrong = |is_wrong: bool, message: &dyn Fn() -> String| {
            if is_wrong { Err(ValidationError::here(message())) } else { Ok(()) }
        };
        match rule {
            Rule::Never => Err(ValidationError::here("nothing is allowed here")),
            Rule::Type(names) => {
                let fits = names.iter().any(|name| is_of_type(value, name));
                wrong(!fits, &|| format!("value is not of type {}", listed(names)))
            }
            Rule::OneOfThese(these) => {
                wrong(!these.iter().any(|each| same(each, value)), &|| "value is none of those allowed".into())
            }
            Rule::Least { bound, excluded, shown } => {
                let is_less = value.as_f64().is_some_and(|number| number < *bound || *excluded && number <= *bound);
                wrong(is_less, &|| format!("value is less than the minimum of {shown}"))
            }
            Rule::Most { bound, excluded, shown } => {
                let is_more = value.as_f64().is_some_and(|number| number > *bound || *excluded && number >= *bound);
                wrong(is_more, &|| format!("value is greater than the maximum of {shown}"))
            }
            Rule::MultipleOf(of) => wrong(!is_multiple(value, of), &|| format!("value is not a multiple of {of}")),
            Rule::Size { of, least, most } => {
                let size = of.size(value);
                let fits = size.is_none_or(|size| (*least..=*most).contains(&size));
                wrong(!fits, &|| format!("value has {} {}", size.unwrap_or_default(), of.unit()))
            }
            Rule::Unique => wrong(has_equals(value), &|| "value has equal elements".into()),
            Rule::Required(names) => names.iter().try_for_each(|name| require(value, name)),
            Rule::RequiredBeside(pairs) => pairs
                .iter()
                .filter(|(name, _)| value.as_object().is_some_and(|object| object.contains_key(name)))
                .flat_map(|(_, names)| names)
                .try_for_each(|name| require(value, name)),
            Rule::SchemasBeside(pairs) => pairs
                .iter()
                .filter(|(name, _)| value.as_object().is_some_and(|object| object.contains_key(name)))
                .try_for_each(|(_, schema)| self.validate(*schema, value, left)),
            Rule::Properties { named, patterns, others } => self.properties(value, named, patterns, *others, left),
            Rule::PropertyNames(schema) => {
                let mut names = value.as_object().into_iter().flat_map(Map::keys);
                names.try_for_each(|name| self.validate(*schema, &Value::String(name.clone()), left))
            }
            Rule::Items { first, others } => {
                let schemas = first.iter().copied().map(Some).chain(std::iter::repeat(*others));
                let items = value.as_array().into_iter().flatten();
                items.zip(schemas).enumerate().try_for_each(|(at, (item, schema))| {
                    schema.map_or(Ok(()), |schema| self.validate(schema, item, left).map_err(|wrong| wrong.within(at)))
                })
            }
            Rule::Contains { schema, least, most } => {
                let count =
                    |items: &Vec<Value>| items.iter().filter(|item| self.fits(*schema, item, left)).count() as u64;
                let fits = value.as_array().is_none_or(|items| (*least..=*most).contains(&count(items)));
                wrong(!fits, &|| "value has too few or too many elements of the kind that it must contain".into())
            }
            Rule::All(schemas) => schemas.iter().try_for_each(|schema| self.validate(*schema, value, left)),
            Rule::Any(schemas) => {
                let fits = schemas.iter().any(|schema| self.fits(*schema, value, left));
                wrong(!fits, &|| "value is not valid under any of the given schemas".into())
            }
            Rule::ExactlyOne(schemas) => {
                let count = schemas.iter().filter(|schema| self.fits(**schema, value, left)).count();
                wrong(count != 1, &|| format!("value is valid under {count} of the given schemas, not one"))
            }
            Rule::Not(schema) => wrong(self.fits(*schema, value, left), &|| "value is what it must not be".into()),
            Rule::If { condition, then, otherwise } => {
                let next = if self.fits(*condition, value, left) { then } else { otherwise };
                next.map_or(Ok(()), |schema| self.validate(schema, value, left))
            }
            Rule::Pattern(pattern) => {
                let fits = value.as_str().is_none_or(|text| self.matches(pattern, text));
                wrong(!fits, &|| "value does not match the regular expression".into())
            }
            // Knows the schema that it is part of.
            Rule::Unevaluated { .. } => Ok(()),
        }
    }

    fn properties(
        &self,
        value: &Value,
        named: &HashMap<String, usize>,
        patterns: &[(Pattern, usize)],
        others: Option<usize>,
        left: usize,
    ) -> Validity {
        for (name, property) in value.as_object().into_iter().flatten() {
            let mut is_other = true;
            let matching = patterns.iter().filter(|(pattern, _)| self.matches(pattern, name)).map(|(_, schema)| schema);
            for schema in named.get(name).into_iter().chain(matching) {
                is_other = false;
                self.validate(*schema, property, left).map_err(|wrong| wrong.within(name))?;
            }
            if let Some(schema) = others.filter(|_| is_other) {
                self.other(schema, "additional", name, property, left)?;
            }
        }
        Ok(())
    }

    /// A property that only a schema for others is about.
    fn other(&self, schema: usize, which: &str, name: &str, property: &Value, left: usize) -> Validity {
        if matches!(self.rules(schema), [Rule::Never]) {
            let name: String = name.chars().take(64).collect();
            let message = format!("{which} properties are not allowed ('{name}' was unexpected)");
            return Err(ValidationError::here(message));
        }
        self.validate(schema, property, left).map_err(|wrong| wrong.within(name))
    }

    /// Holds what no rule of `schema` has looked at to `others`.
    fn unevaluated(&self, schema: usize, of: Kind, others: usize, value: &Value, left: usize) -> Validity {
        let mut evaluated = Evaluated::default();
        for rule in self.rules(schema).iter().filter(|rule| !matches!(rule, Rule::Unevaluated { .. })) {
            self.evaluate(rule, of, value, left, &mut evaluated);
        }
        match value {
            _ if evaluated.all => Ok(()),
            Value::Object(members) if of == Kind::Properties => members
                .iter()
                .filter(|(name, _)| !evaluated.names.contains(name.as_str()))
                .try_for_each(|(name, property)| self.other(others, "unevaluated", name, property, left)),
            Value::Array(items) if of == Kind::Items => {
                items.iter().enumerate().filter(|(place, _)| !evaluated.places.contains(place)).try_for_each(
                    |(place, item)| self.validate(others, item, left).map_err(|wrong| wrong.within(place)),
                )
            }
            _ => Ok(()),
        }
    }

    /// Notes which members of a value a rule that it fits has looked at.
    fn evaluate<'v>(&self, rule: &Rule, of: Kind, value: &'v Value, left: usize, into: &mut Evaluated<'v>) {
        let Some(left) = left.checked_sub(1) else {
            self.stop("it nests too deep to be held to the schema");
            return;
        };
        let mut within = |schema: usize| {
            self.rules(schema).iter().for_each(|rule| self.evaluate(rule, of, value, left, into));
        };
        match rule {
            Rule::All(schemas) => schemas.iter().copied().for_each(within),
            Rule::Any(schemas) | Rule::ExactlyOne(schemas) => {
                schemas.iter().copied().filter(|schema| self.fits(*schema, value, left)).for_each(within);
            }
            Rule::SchemasBeside(pairs) => {
                let has = |name: &String| value.as_object().is_some_and(|members| members.contains_key(name));
                pairs.iter().filter(|(name, _)| has(name)).for_each(|(_, schema)| within(*schema));
            }
            Rule::If { condition, then, otherwise } => {
                if self.fits(*condition, value, left) {
                    within(*condition);
                    then.iter().copied().for_each(within);
                } else {
                    otherwise.iter().copied().for_each(within);
                }
            }
            Rule::Properties { named, patterns, others } if of == Kind::Properties => {
                into.all |= others.is_some();
                let names = value.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
                let is_seen =
                    |name: &&str| named.contains_key(*name) || patterns.iter().any(|(it, _)| self.matches(it, name));
                into.names.extend(names.filter(is_seen));
            }
            Rule::Items { first, others } if of == Kind::Items => {
                into.all |= others.is_some();
                into.places.extend(0..first.len());
            }
            Rule::Contains { schema, .. } if of == Kind::Items => {
                let items = value.as_array().into_iter().flatten().enumerate();
                into.places.extend(items.filter(|(_, item)| self.fits(*schema, item, left)).map(|(place, _)| place));
            }
            Rule::Unevaluated { of: other, .. } => into.all |= *other == of,
            _ => {}
        }
    }
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

/// Compiles schemas, each once.
struct Reader<'a> {
    root: &'a Value,
    found: Vec<&'a Value>,
    /// By address: a schema with several references is compiled once.
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
        let schemas = schemas.as_array().ok_or("a list of schemas is something else")?;
        Ok(schemas.iter().map(|schema| self.add(schema)).collect())
    }

    fn rules(&mut self, schema: &'a Value) -> Result<Vec<Rule>, String> {
        let keywords = match schema {
            Value::Bool(true) => return Ok(Vec::new()),
            Value::Bool(false) => return Ok(vec![Rule::Never]),
            Value::Object(keywords) => keywords,
            _ => return Err("a schema is neither an object nor true or false".into()),
        };
        let mut rules = Vec::new();
        for (keyword, said) in keywords {
            let wrong = || format!("`{keyword}` cannot be {}", kind(said));
            if REFUSED.contains(&keyword.as_str()) {
                return Err(format!("`{keyword}` cannot be used"));
            }
            rules.extend(match keyword.as_str() {
                "type" => Some(Rule::Type(type_names(said).ok_or_else(wrong)?)),
                "enum" => Some(Rule::OneOfThese(said.as_array().ok_or_else(wrong)?.clone())),
                "const" => Some(Rule::OneOfThese(vec![said.clone()])),
                "minimum" | "exclusiveMinimum" => Some(Rule::Least {
                    bound: said.as_f64().ok_or_else(wrong)?,
                    excluded: keyword == "exclusiveMinimum",
                    shown: said.clone(),
                }),
                "maximum" | "exclusiveMaximum" => Some(Rule::Most {
                    bound: said.as_f64().ok_or_else(wrong)?,
                    excluded: keyword == "exclusiveMaximum",
                    shown: said.clone(),
                }),
                "multipleOf" => {
                    let is_positive = said.as_f64().is_some_and(|of| of > 0.0);
                    Some(Rule::MultipleOf(if is_positive { said.clone() } else { return Err(wrong()) }))
                }
                "minLength" => {
                    Some(Rule::Size { of: Sized::Text, least: count(said).ok_or_else(wrong)?, most: u64::MAX })
                }
                "maxLength" => Some(Rule::Size { of: Sized::Text, least: 0, most: count(said).ok_or_else(wrong)? }),
                "minItems" => {
                    Some(Rule::Size { of: Sized::Array, least: count(said).ok_or_else(wrong)?, most: u64::MAX })
                }
                "maxItems" => Some(Rule::Size { of: Sized::Array, least: 0, most: count(said).ok_or_else(wrong)? }),
                "minProperties" => {
                    Some(Rule::Size { of: Sized::Object, least: count(said).ok_or_else(wrong)?, most: u64::MAX })
                }
                "maxProperties" => {
                    Some(Rule::Size { of: Sized::Object, least: 0, most: count(said).ok_or_else(wrong)? })
                }
                "uniqueItems" => said.as_bool().ok_or_else(wrong)?.then_some(Rule::Unique),
                "required" => Some(Rule::Required(texts(said).ok_or_else(wrong)?)),
                "dependentRequired" => {
                    let pairs = said.as_object().ok_or_else(wrong)?.iter();
                    let pairs = pairs.map(|(name, names)| Some((name.clone(), texts(names)?)));
                    Some(Rule::RequiredBeside(pairs.collect::<Option<_>>().ok_or_else(wrong)?))
                }
                "dependentSchemas" => {
                    let pairs = said.as_object().ok_or_else(wrong)?.iter();
                    Some(Rule::SchemasBeside(pairs.map(|(name, schema)| (name.clone(), self.add(schema))).collect()))
                }
                "pattern" => Some(Rule::Pattern(self.pattern(said.as_str().ok_or_else(wrong)?)?)),
                "propertyNames" => Some(Rule::PropertyNames(self.add(said))),
                "allOf" => Some(Rule::All(self.all(said)?)),
                "anyOf" => Some(Rule::Any(self.all(said)?)),
                "oneOf" => Some(Rule::ExactlyOne(self.all(said)?)),
                "not" => Some(Rule::Not(self.add(said))),
                "$ref" => {
                    let pointer = said.as_str().and_then(|text| text.strip_prefix('#')).ok_or_else(wrong)?;
                    let target = self.root.pointer(pointer).ok_or_else(wrong)?;
                    Some(Rule::All(vec![self.add(target)]))
                }
                _ => None,
            });
        }
        self.rules_of_several(keywords, &mut rules)?;
        Ok(rules)
    }

    /// The rules that several keywords define together.
    fn rules_of_several(&mut self, keywords: &'a Map<String, Value>, rules: &mut Vec<Rule>) -> Result<(), String> {
        let wrong = |keyword: &str| format!("`{keyword}` is not what it must be");
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
        // Before draft 2019-09 one keyword was for both, `dependentRequired` and `dependentSchemas`.
        if let Some(dependencies) = keywords.get("dependencies") {
            let dependencies = dependencies.as_object().ok_or_else(|| wrong("dependencies"))?;
            let (required, schemas): (Vec<_>, Vec<_>) = dependencies.iter().partition(|(_, it)| it.is_array());
            let required = required.into_iter().map(|(name, names)| Some((name.clone(), texts(names)?)));
            rules.push(Rule::RequiredBeside(required.collect::<Option<_>>().ok_or_else(|| wrong("dependencies"))?));
            let schemas = schemas.into_iter().map(|(name, schema)| (name.clone(), self.add(schema)));
            rules.push(Rule::SchemasBeside(schemas.collect()));
        }
        // Before draft 2020-12, `items` held the first elements' schemas and `additionalItems` that of the others.
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
                Some(said) => count(said).ok_or_else(|| wrong(keyword)),
                None => Ok(default),
            };
            let (least, most) = (bound("minContains", 1)?, bound("maxContains", u64::MAX)?);
            rules.push(Rule::Contains { schema: self.add(schema), least, most });
        }
        if let Some(condition) = keywords.get("if") {
            let condition = self.add(condition);
            let then = keywords.get("then").map(|schema| self.add(schema));
            let otherwise = keywords.get("else").map(|schema| self.add(schema));
            rules.push(Rule::If { condition, then, otherwise });
        }
        for (keyword, of) in [("unevaluatedProperties", Kind::Properties), ("unevaluatedItems", Kind::Items)] {
            rules.extend(keywords.get(keyword).map(|schema| Rule::Unevaluated { of, schema: self.add(schema) }));
        }
        Ok(())
    }

    fn pattern(&self, text: &str) -> Result<Pattern, String> {
        Pattern::of(text, self.max_pattern_bytes)
    }
}

fn require(value: &Value, name: &str) -> Validity {
    match value {
        Value::Object(members) if !members.contains_key(name) => {
            Err(ValidationError::here(format!("\"{name}\" is a required property")))
        }
        _ => Ok(()),
    }
}

fn type_names(said: &Value) -> Option<Vec<String>> {
    const KNOWN: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let names = said.as_str().map_or_else(|| texts(said), |name| Some(vec![name.to_owned()]))?;
    names.iter().all(|name| KNOWN.contains(&name.as_str())).then_some(names)
}

fn texts(said: &Value) -> Option<Vec<String>> {
    said.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// A number of things. A schema may write it with a zero fraction.
fn count(said: &Value) -> Option<u64> {
    said.as_u64()
        .or_else(|| said.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0)?.to_string().parse().ok())
}

fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "this number",
        Value::String(_) => "this text",
        Value::Array(_) => "this array",
        Value::Object(_) => "this object",
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

/// Whether two values are equal in JSON Schema: 1 equals 1.0.
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

/// Sorts by text first, so that a long array is not compared pairwise.
fn has_equals(value: &Value) -> bool {
    let Some(items) = value.as_array() else { return false };
    let mut texts: Vec<String> = items.iter().map(|item| plainly(item).to_string()).collect();
    texts.sort_unstable();
    texts.windows(2).any(|pair| matches!(pair, [one, other] if one == other))
}

/// The value with each number as a fraction, so that equal numbers are written alike. An object's members are already
/// sorted by name.
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

#[cfg(test)]
mod tests;
