//! Names of the parts of types, in WIT and in Rust.

use std::collections::BTreeSet;

use serde::{Serialize, de::DeserializeOwned};
use wit_parser::TypeDefKind;

use crate::Contract;

pub(crate) type Names = BTreeSet<String>;

impl Contract {
    /// Returns the fields, cases or flags of a type.
    pub(crate) fn names(&self, name: &str) -> Names {
        let (_, definition) =
            self.types().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("`{name}` is in wit/"));
        names_of(&definition.kind)
    }
}

/// Returns the fields, cases or flags of a type; empty for other types.
pub(crate) fn names_of(kind: &TypeDefKind) -> Names {
    match kind {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| field.name.clone()).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|case| case.name.clone()).collect(),
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| case.name.clone()).collect(),
        TypeDefKind::Flags(flags) => flags.flags.iter().map(|flag| flag.name.clone()).collect(),
        _ => Names::new(),
    }
}

pub(crate) fn listed(names: &[&str]) -> Names {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Returns the fields of a serialized Rust value, with hyphens as in WIT.
pub(crate) fn fields(value: &impl Serialize) -> Names {
    let json = serde_json::to_value(value).unwrap();
    json.as_object().expect("it has fields").keys().map(|name| name.replace('_', "-")).collect()
}

/// Returns the cases of a Rust enum, from serde's error for an unknown case. So none can be missing.
pub(crate) fn cases<T: DeserializeOwned>() -> Names {
    let error = serde_json::from_str::<T>("\"no such case\"").err().expect("no enum has this case").to_string();
    let (_, list) = error.split_once("expected ").unwrap_or_else(|| panic!("{error}"));
    let names: Names = list.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    assert!(names.len() > 1, "{error}");
    names
}
