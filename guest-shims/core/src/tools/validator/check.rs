//! Validates a value against compiled schemas.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
};

use serde_json::{Map, Value};

use super::{MemberKind, Pattern, Rule, has_equals, is_multiple, is_of_type, json_equal};

/// Maximum number of steps for regular expressions in one check, about one second.
pub(super) const MAX_STEPS: u64 = 100_000_000;

/// The state of one validation.
struct Check<'a> {
    schemas: &'a [Vec<Rule>],
    /// The remaining steps for regular expressions.
    steps: Cell<u64>,
    /// The reason why the check was stopped early. If the check was stopped, all other results are meaningless.
    stopped: Cell<Option<&'static str>>,
}

/// The reason why a value is invalid.
#[derive(Debug)]
pub(in crate::tools) struct ValidationError {
    /// The location, innermost name first.
    place: Vec<String>,
    message: String,
}

impl ValidationError {
    fn new(message: impl Into<String>) -> Self {
        Self { place: Vec::new(), message: message.into() }
    }

    fn within(mut self, part: impl ToString) -> Self {
        self.place.push(part.to_string().replace('~', "~0").replace('/', "~1"));
        self
    }

    /// Returns the location as a JSON pointer, and the message.
    pub(in crate::tools) fn location_and_message(&self) -> (String, &str) {
        let place = self.place.iter().rev().fold(String::new(), |place, part| place + "/" + part);
        (place, &self.message)
    }
}

pub(super) type Validity = Result<(), ValidationError>;

/// The members of a value that the rules of a schema have evaluated.
#[derive(Default)]
struct EvaluatedMembers<'a> {
    all: bool,
    names: HashSet<&'a str>,
    places: HashSet<usize>,
}

/// Validates a value against the first schema, to a recursion depth of `max_levels`.
pub(super) fn check(schemas: &[Vec<Rule>], value: &Value, max_levels: usize) -> Validity {
    let check = Check { schemas, steps: Cell::new(MAX_STEPS), stopped: Cell::new(None) };
    let validity = check.validate(0, value, max_levels);
    check.stopped.get().map_or(validity, |reason| Err(ValidationError::new(reason)))
}

impl Check<'_> {
    fn rules(&self, schema: usize) -> &[Rule] {
        self.schemas.get(schema).map_or(&[], Vec::as_slice)
    }

    fn stop(&self, reason: &'static str) -> ValidationError {
        self.stopped.set(Some(reason));
        ValidationError::new(reason)
    }

    fn validate(&self, schema: usize, value: &Value, left: usize) -> Validity {
        let Some(left) = left.checked_sub(1) else {
            return Err(self.stop("the value is too deeply nested to check against the schema; flatten it"));
        };
        if let Some(reason) = self.stopped.get() {
            return Err(ValidationError::new(reason));
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
            self.stop("the value's strings are too long for the schema's regular expressions");
            return false;
        };
        self.steps.set(left);
        pattern.matches(text)
    }

    fn apply(&self, rule: &Rule, value: &Value, left: usize) -> Validity {
        let wrong = |is_wrong: bool, message: &dyn Fn() -> String| {
            if is_wrong { Err(ValidationError::new(message())) } else { Ok(()) }
        };
        match rule {
            Rule::Never => Err(ValidationError::new("no value is allowed here")),
            Rule::Type(names) => {
                let fits = names.iter().any(|name| is_of_type(value, name));
                wrong(!fits, &|| format!("value is not of type {}", quoted_list(names)))
            }
            Rule::OneOfThese(these) => wrong(!these.iter().any(|each| json_equal(each, value)), &|| {
                "value is not one of the allowed values".into()
            }),
            Rule::Minimum { bound, excluded, shown } => {
                let is_less = value.as_f64().is_some_and(|number| number < *bound || *excluded && number <= *bound);
                let limit = if *excluded { "not greater than" } else { "less than the minimum of" };
                wrong(is_less, &|| format!("value is {limit} {shown}"))
            }
            Rule::Maximum { bound, excluded, shown } => {
                let is_more = value.as_f64().is_some_and(|number| number > *bound || *excluded && number >= *bound);
                let limit = if *excluded { "not less than" } else { "greater than the maximum of" };
                wrong(is_more, &|| format!("value is {limit} {shown}"))
            }
            Rule::MultipleOf(of) => wrong(!is_multiple(value, of), &|| format!("value is not a multiple of {of}")),
            Rule::Size { of, min, max } => {
                let Some(size) = of.size(value) else { return Ok(()) };
                let unit = of.unit();
                wrong(size < *min, &|| format!("the number of {unit} is {size}; the minimum is {min}"))?;
                wrong(size > *max, &|| format!("the number of {unit} is {size}; the maximum is {max}"))
            }
            Rule::Unique => wrong(has_equals(value), &|| "value has duplicate elements".into()),
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
            Rule::Contains { schema, min, max } => {
                let count =
                    |items: &Vec<Value>| items.iter().filter(|item| self.fits(*schema, item, left)).count() as u64;
                let fits = value.as_array().is_none_or(|items| (*min..=*max).contains(&count(items)));
                wrong(!fits, &|| "value has too few or too many elements that match `contains`".into())
            }
            Rule::All(schemas) => schemas.iter().try_for_each(|schema| self.validate(*schema, value, left)),
            Rule::Any(schemas) => {
                let fits = schemas.iter().any(|schema| self.fits(*schema, value, left));
                wrong(!fits, &|| "value is not valid under any of the given schemas".into())
            }
            Rule::ExactlyOne(schemas) => {
                let count = schemas.iter().filter(|schema| self.fits(**schema, value, left)).count();
                wrong(count != 1, &|| format!("value is valid under {count} of the given schemas instead of one"))
            }
            Rule::Not(schema) => {
                wrong(self.fits(*schema, value, left), &|| "value matches a schema that `not` forbids".into())
            }
            Rule::If { condition, then, otherwise } => {
                let next = if self.fits(*condition, value, left) { then } else { otherwise };
                next.map_or(Ok(()), |schema| self.validate(schema, value, left))
            }
            Rule::Pattern(pattern) => {
                let fits = value.as_str().is_none_or(|text| self.matches(pattern, text));
                wrong(!fits, &|| "value does not match the regular expression".into())
            }
            // `validate` handles this rule, because it depends on the other rules of its schema.
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
                self.validate_other_property(schema, "additional", name, property, left)?;
            }
        }
        Ok(())
    }

    /// Validates a property that only the schema for additional or unevaluated properties covers.
    fn validate_other_property(
        &self,
        schema: usize,
        which: &str,
        name: &str,
        property: &Value,
        left: usize,
    ) -> Validity {
        if matches!(self.rules(schema), [Rule::Never]) {
            let name: String = name.chars().take(64).collect();
            let message = format!("{which} properties are not allowed ('{name}' was unexpected)");
            return Err(ValidationError::new(message));
        }
        self.validate(schema, property, left).map_err(|wrong| wrong.within(name))
    }

    /// Validates the members that no other rule of `schema` has evaluated. `others` is the schema for these members.
    fn unevaluated(&self, schema: usize, of: MemberKind, others: usize, value: &Value, left: usize) -> Validity {
        let mut evaluated = EvaluatedMembers::default();
        for rule in self.rules(schema).iter().filter(|rule| !matches!(rule, Rule::Unevaluated { .. })) {
            self.evaluate(rule, of, value, left, &mut evaluated);
        }
        match value {
            _ if evaluated.all => Ok(()),
            Value::Object(members) if of == MemberKind::Properties => {
                members.iter().filter(|(name, _)| !evaluated.names.contains(name.as_str())).try_for_each(
                    |(name, property)| self.validate_other_property(others, "unevaluated", name, property, left),
                )
            }
            Value::Array(items) if of == MemberKind::Items => {
                items.iter().enumerate().filter(|(place, _)| !evaluated.places.contains(place)).try_for_each(
                    |(place, item)| self.validate(others, item, left).map_err(|wrong| wrong.within(place)),
                )
            }
            _ => Ok(()),
        }
    }

    /// Adds to `into` the members of a value that a matching rule has evaluated.
    fn evaluate<'v>(
        &self,
        rule: &Rule,
        of: MemberKind,
        value: &'v Value,
        left: usize,
        into: &mut EvaluatedMembers<'v>,
    ) {
        let Some(left) = left.checked_sub(1) else {
            self.stop("the value is too deeply nested to check against the schema; flatten it");
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
            Rule::Properties { named, patterns, others } if of == MemberKind::Properties => {
                into.all |= others.is_some();
                let names = value.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
                let is_seen =
                    |name: &&str| named.contains_key(*name) || patterns.iter().any(|(it, _)| self.matches(it, name));
                into.names.extend(names.filter(is_seen));
            }
            Rule::Items { first, others } if of == MemberKind::Items => {
                into.all |= others.is_some();
                into.places.extend(0..first.len());
            }
            Rule::Contains { schema, .. } if of == MemberKind::Items => {
                let items = value.as_array().into_iter().flatten().enumerate();
                into.places.extend(items.filter(|(_, item)| self.fits(*schema, item, left)).map(|(place, _)| place));
            }
            Rule::Unevaluated { of: other, .. } => into.all |= *other == of,
            _ => {}
        }
    }
}

fn require(value: &Value, name: &str) -> Validity {
    match value {
        Value::Object(members) if !members.contains_key(name) => {
            Err(ValidationError::new(format!("\"{name}\" is a required property")))
        }
        _ => Ok(()),
    }
}

fn quoted_list(names: &[String]) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ")
}
