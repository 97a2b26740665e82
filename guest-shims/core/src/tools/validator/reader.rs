//! Reads a schema's keywords as rules.

use std::{collections::HashMap, ptr};

use serde_json::{Map, Value};

use super::{Kind, Pattern, Rule, Sized};

/// Unsupported keywords that would have to be enforced.
const REFUSED: [&str; 3] = ["contentSchema", "$recursiveRef", "$dynamicRef"];

/// Returns the rules of each schema within a schema. The first one is the whole.
pub(super) fn read(schema: &Value, max_pattern_bytes: usize) -> Result<Vec<Vec<Rule>>, String> {
    let mut reader = Reader { root: schema, found: Vec::new(), index: HashMap::new(), max_pattern_bytes };
    reader.add(schema);
    let mut schemas = Vec::new();
    while let Some(next) = reader.found.get(schemas.len()) {
        schemas.push(reader.rules(next)?);
    }
    Ok(schemas)
}

/// Compiles schemas, each once.
struct Reader<'a> {
    root: &'a Value,
    found: Vec<&'a Value>,
    /// By address, so that a schema with several references is compiled once.
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

    /// Adds the rules that several keywords define together.
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
        // Before draft 2019-09, this keyword had the roles of both `dependentRequired` and `dependentSchemas`.
        if let Some(dependencies) = keywords.get("dependencies") {
            let dependencies = dependencies.as_object().ok_or_else(|| wrong("dependencies"))?;
            let (required, schemas): (Vec<_>, Vec<_>) = dependencies.iter().partition(|(_, it)| it.is_array());
            let required = required.into_iter().map(|(name, names)| Some((name.clone(), texts(names)?)));
            rules.push(Rule::RequiredBeside(required.collect::<Option<_>>().ok_or_else(|| wrong("dependencies"))?));
            let schemas = schemas.into_iter().map(|(name, schema)| (name.clone(), self.add(schema)));
            rules.push(Rule::SchemasBeside(schemas.collect()));
        }
        // Before draft 2020-12, `items` had the schemas of the first elements, and `additionalItems` that of the
        // others.
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

fn type_names(said: &Value) -> Option<Vec<String>> {
    const KNOWN: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
    let names = said.as_str().map_or_else(|| texts(said), |name| Some(vec![name.to_owned()]))?;
    names.iter().all(|name| KNOWN.contains(&name.as_str())).then_some(names)
}

fn texts(said: &Value) -> Option<Vec<String>> {
    said.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

/// Parses a count. A schema may write it with a zero fraction.
fn count(said: &Value) -> Option<u64> {
    said.as_u64()
        .or_else(|| said.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0)?.to_string().parse().ok())
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
