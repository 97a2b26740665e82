//! Attributes that a script adds to its own objects, such as `place.high = 1`. Python allows this for functions, for
//! modules, and for classes without `__slots__`. The checker reports the assignment and each use.

use std::collections::HashSet;

use super::targets;

/// The first words of types that never have other attributes.
const FIXED: [&str; 14] = [
    "LiteralString",
    "Literal",
    "None",
    "bool",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "set",
    "str",
    "tuple",
];

/// The start of messages about assignments to an attribute.
const ASSIGNMENT: &str = "Unresolved attribute `";

/// The names of the attributes that a script assigns.
#[derive(Clone, Debug)]
pub(super) struct AssignedAttributes<'a> {
    names: HashSet<&'a str>,
}

impl<'a> AssignedAttributes<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        let mut names = targets::assigned_attributes(source);
        names.extend(named_before_equals(source));
        names.extend(named_in_setattr(source));
        Self { names }
    }

    /// Returns `true` for a message about an attribute that the script adds to an object.
    pub(super) fn can_explain(&self, message: &str) -> bool {
        let Some((name, owner)) = attribute(message) else { return false };
        let first_word = owner.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        // The declarations of tools begin with an underscore, and messages quote `tools`. `functools.wraps` returns an
        // object of the type `_Wrapped`.
        let is_tool = owner.starts_with(['_', '`']) && !owner.starts_with("_Wrapped[");
        !is_tool && !FIXED.contains(&first_word) && (message.starts_with(ASSIGNMENT) || self.names.contains(name))
    }
}

/// Returns the names between a dot and an equals sign, including those in strings, because a string can contain code.
fn named_before_equals(source: &str) -> impl Iterator<Item = &str> {
    source.split('.').skip(1).filter_map(|part| {
        let (name, rest) = split_name(part)?;
        let rest = rest.trim_start_matches([' ', '\t']);
        (rest.starts_with('=') && !rest.starts_with("==")).then_some(name)
    })
}

/// Returns the names in calls such as `setattr(place, "high", 1)`.
fn named_in_setattr(source: &str) -> impl Iterator<Item = &str> {
    source.split("setattr(").skip(1).filter_map(|call| {
        let mut arguments = call.lines().next()?.split(',').skip(1).map(str::trim);
        arguments.find_map(|argument| {
            let text = argument.strip_prefix(['"', '\''])?;
            let (name, rest) = split_name(text)?;
            matches!(rest, "\"" | "'").then_some(name)
        })
    })
}

/// Splits a text after the identifier at its start.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at_checked(end).filter(|(name, _)| !name.is_empty())
}

/// Returns the name of the attribute in a message, and a text that begins with the type that does not have it.
fn attribute(message: &str) -> Option<(&str, &str)> {
    if let Some(rest) = message.strip_prefix(ASSIGNMENT) {
        return rest.split_once("` on type `");
    }
    let split = message.rsplit_once(" has no attribute `").or_else(|| message.rsplit_once(" has no member `"));
    let (owner, rest) = split?;
    let (name, _) = rest.split_once('`')?;
    Some((name, owner.strip_prefix("Object of type `").unwrap_or(owner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assigned_attributes_are_valid() {
        let source = "place.high = 1\nplace.low == 2\nplace.lowest=3\nx = high\nsetattr(places['a'], 'wide', low)\n";
        let assigned = AssignedAttributes::of(source);
        for (message, is_valid) in [
            ("Unresolved attribute `high` on type `Place` [missing-attribute]", true),
            ("Unresolved attribute `high` on type `<class 'Place'>`. [missing-attribute]", true),
            ("Unresolved attribute `high` on type `def load(city) -> Unknown` [missing-attribute]", true),
            ("Object of type `Place` has no attribute `high` [missing-attribute]", true),
            ("Unresolved attribute `high` on type `_Wrapped[(...), Unknown]` [missing-attribute]", true),
            ("Class `Place` has no attribute `high` [missing-attribute]", true),
            ("Function `load` has no attribute `lowest` [missing-attribute]", true),
            ("Module `json` has no member `high` [missing-attribute]", true),
            ("Object of type `Place` has no attribute `wide` [missing-attribute]", true),
            // The checker reports an assignment that the scan of the source has not found.
            ("Unresolved attribute `deep` on type `Place` [missing-attribute]", true),
            ("Object of type `Place` has no attribute `deep` [missing-attribute]", false),
            ("Object of type `Place` has no attribute `low` [missing-attribute]", false),
            ("Object of type `Place` has no attribute `a` [missing-attribute]", false),
            ("Object of type `Place` has no attribute `x` [missing-attribute]", false),
            ("Object of type `Place` has no attribute `` [missing-attribute]", false),
            ("Object of type `Literal[5]` has no attribute `high` [missing-attribute]", false),
            ("Unresolved attribute `high` on type `list[int]` [missing-attribute]", false),
            ("Unresolved attribute `high` on type `_Tools` [missing-attribute]", false),
            ("`tools` has no attribute `high` [missing-attribute]", false),
            ("Name `high` used when not defined [unresolved-reference]", false),
        ] {
            assert_eq!(assigned.can_explain(message), is_valid, "{message}");
        }
        // The separator can occur more than once.
        let message = "Object of type `Place` has no attribute `high`";
        assert!(AssignedAttributes::of("highhigh.high = 1").can_explain(message));
    }
}
