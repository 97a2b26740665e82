//! The rules that a schema consists of.

use std::collections::HashMap;

use serde_json::Value;

use super::pattern::Pattern;

/// A rule for a value. Schemas are indices into the list of all schemas.
pub(super) enum Rule {
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
pub(super) enum Kind {
    Properties,
    Items,
}

/// Values that have a size.
#[derive(Clone, Copy)]
pub(super) enum Sized {
    Text,
    Array,
    Object,
}

impl Sized {
    pub(super) fn size(self, value: &Value) -> Option<u64> {
        match self {
            Self::Text => value.as_str().map(|text| text.chars().count() as u64),
            Self::Array => value.as_array().map(|items| items.len() as u64),
            Self::Object => value.as_object().map(|members| members.len() as u64),
        }
    }

    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Text => "characters, which are too few or too many",
            Self::Array => "elements, which are too few or too many",
            Self::Object => "properties, which are too few or too many",
        }
    }
}
