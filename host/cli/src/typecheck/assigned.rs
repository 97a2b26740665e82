//! Attributes that a script adds to its own objects, such as `place.high = 1`. Python allows this for functions, for
//! modules, and for classes without `__slots__`. The checker reports the assignment and each use.

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

/// Returns `true` for a message about an attribute that the script adds to an object with an assignment.
pub(super) fn is_assigned(source: &str, message: &str) -> bool {
    let Some((name, owner)) = attribute(message) else { return false };
    let first_word = owner.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    // The declarations of tools begin with an underscore, and messages quote `tools`. `functools.wraps` returns an object
    // of the type `_Wrapped`.
    let is_tool = owner.starts_with(['_', '`']) && !owner.starts_with("_Wrapped[");
    if name.is_empty() || is_tool || FIXED.contains(&first_word) {
        return false;
    }
    let mut parts = source.split(name);
    let mut before = parts.next().unwrap_or_default();
    for after in parts {
        let rest = after.trim_start_matches([' ', '\t']);
        if before.ends_with('.') && rest.starts_with('=') && !rest.starts_with("==") {
            return true;
        }
        before = after;
    }
    false
}

/// Returns the name of the attribute in a message, and a text that begins with the type that does not have it.
fn attribute(message: &str) -> Option<(&str, &str)> {
    if let Some(rest) = message.strip_prefix("Unresolved attribute `") {
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
        let source = "place.high = 1\nplace.low == 2\nplace.lowest=3\nx = high\n";
        for (message, is_valid) in [
            ("Unresolved attribute `high` on type `Place` [missing-attribute]", true),
            ("Unresolved attribute `high` on type `<class 'Place'>`. [missing-attribute]", true),
            ("Unresolved attribute `high` on type `def load(city) -> Unknown` [missing-attribute]", true),
            ("Object of type `Place` has no attribute `high` [missing-attribute]", true),
            ("Unresolved attribute `high` on type `_Wrapped[(...), Unknown]` [missing-attribute]", true),
            ("Class `Place` has no attribute `high` [missing-attribute]", true),
            ("Function `load` has no attribute `lowest` [missing-attribute]", true),
            ("Module `json` has no member `high` [missing-attribute]", true),
            ("Object of type `Place` has no attribute `low` [missing-attribute]", false),
            ("Object of type `Place` has no attribute `x` [missing-attribute]", false),
            ("Object of type `Place` has no attribute `` [missing-attribute]", false),
            ("Object of type `Literal[5]` has no attribute `high` [missing-attribute]", false),
            ("Unresolved attribute `high` on type `list[int]` [missing-attribute]", false),
            ("Unresolved attribute `high` on type `_Tools` [missing-attribute]", false),
            ("`tools` has no attribute `high` [missing-attribute]", false),
            ("Name `high` used when not defined [unresolved-reference]", false),
        ] {
            assert_eq!(is_assigned(source, message), is_valid, "{message}");
        }
        // The separator can occur more than once.
        assert!(is_assigned("highhigh.high = 1", "Object of type `Place` has no attribute `high`"));
    }
}
