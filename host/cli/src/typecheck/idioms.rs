//! Errors that valid scripts cause, because the checker's declarations are stricter than Python.

use glovebox::Diagnostic;

/// Functions that accept a key function. The checker rejects a dictionary's `get` as a key function, because it can
/// return `None`.
const SORTING_FUNCTIONS: [&str; 4] = ["function `sorted`", "function `max`", "function `min`", "method `list.sort`"];

/// The number of lines that a call with a key function can occupy.
const MAX_CALL_LINES: usize = 5;

/// Expressions whose value is always `None`.
const ALWAYS_NONE: [&str; 7] = [".append(", ".clear(", ".extend(", ".reverse(", ".sort(", ".update(", "None["];

/// The valid uses of Python in a script that the checker reports.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idioms<'a> {
    source: &'a str,
    /// `true` if the script imports all names of a module, which the checker possibly does not see.
    imports_all_names: bool,
}

impl<'a> Idioms<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        let is_import_of_all = |line: &str| {
            line.starts_with("from ") && line.split('#').next().unwrap_or_default().trim_end().ends_with("import *")
        };
        Self { source, imports_all_names: source.lines().any(|line| is_import_of_all(line.trim_start())) }
    }

    /// Returns `true` if the reported code can be valid.
    pub(super) fn can_explain(&self, error: &Diagnostic) -> bool {
        let message = error.message.as_str();
        if message.starts_with("Name `") {
            return self.imports_all_names;
        }
        if message.contains("with key of type `None`") {
            // The key can have other types too.
            return true;
        }
        if message.starts_with("Cannot subscript object of type `None`") {
            // The value can have other types too, for example the result of `re.match`.
            return !self.lines(error).take(1).any(|line| ALWAYS_NONE.iter().any(|part| line.contains(part)));
        }
        if SORTING_FUNCTIONS.iter().any(|function| message.contains(function)) {
            return self.lines(error).take(MAX_CALL_LINES).any(|line| line.contains("key=") && line.contains(".get"));
        }
        MissingAttribute::read(message).is_some_and(|missing| self.can_have(missing))
    }

    /// Returns the lines of the script from the position of an error.
    fn lines(&self, error: &Diagnostic) -> impl Iterator<Item = &'a str> {
        let before = usize::try_from(error.line.saturating_sub(1)).unwrap_or(usize::MAX);
        self.source.lines().skip(before)
    }

    /// Returns `true` if a class of the script can have the attribute, because the script defines it in a subclass or
    /// assigns it to an object. Also returns `true` for private attributes of other types, which are not declared.
    fn can_have(&self, missing: MissingAttribute<'_>) -> bool {
        let MissingAttribute { owner, name } = missing;
        if owner.starts_with("Self@") || self.source.contains(&format!("class {owner}")) {
            !self.source.contains("__slots__") && self.source.lines().any(|line| defines(line, name))
        } else {
            name.starts_with('_') && !name.starts_with("__")
        }
    }
}

/// A type, or a module, and an attribute that it does not have.
#[derive(Clone, Copy)]
struct MissingAttribute<'a> {
    owner: &'a str,
    name: &'a str,
}

impl<'a> MissingAttribute<'a> {
    fn read(message: &'a str) -> Option<Self> {
        let mut parts = message.split('`');
        let (start, first, middle, second) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        match (start, middle) {
            ("Object of type ", " has no attribute ") | ("Module ", " has no member ") => {
                Some(Self { owner: first, name: second })
            }
            ("Unresolved attribute ", " on type ") => Some(Self { owner: second, name: first }),
            _ => None,
        }
    }
}

/// Returns `true` if a line defines or assigns an attribute.
fn defines(line: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // Computed once, because a line of an untrusted script can contain the name many times.
    let start = line.len().saturating_sub(line.trim_start().len());
    line.match_indices(name).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let Some(after) = rest.strip_prefix(name) else { return false };
        if before.ends_with(is_word) || after.starts_with(is_word) {
            return false;
        }
        let after = after.trim_start();
        let is_assigned = (after.starts_with('=') && !after.starts_with("==")) || after.starts_with(':');
        let is_statement = at == start || before.ends_with('.');
        before.ends_with("def ") || (is_assigned && is_statement)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_code_is_accepted_and_mistakes_are_not() {
        let sound = "Object of type `Self@speak` has no attribute `sound` [missing-attribute]";
        let name = "Name `cat` used when not defined [unresolved-reference]";
        let none = "Cannot subscript object of type `None` with no `__getitem__` method [not-subscriptable]";
        let key = "Method `__getitem__` of type `x` cannot be called with key of type `None` on object of type `y` [x]";
        let sorted = "No overload of function `sorted` matches arguments [no-matching-overload]";
        let assigned = "Unresolved attribute `late` on type `Node` [missing-attribute]";
        let private = "Object of type `RLock` has no attribute `_count` [missing-attribute]";
        let public = "Object of type `RLock` has no attribute `count` [missing-attribute]";
        for (source, message, is_explained) in [
            ("self.sound\nclass Dog(Animal):\n    sound = 'woof'", sound, true),
            ("self.sound\nclass Dog(Animal):\n    sound: str", sound, true),
            ("self.sound\nclass Dog(Animal):\n    def sound(self): pass", sound, true),
            ("self.sound\nd.sound = 1", sound, true),
            ("self.sound\nd.sounds = 1\nd.sound == 1\nplay(sound=1)", sound, false),
            ("self.sound\nd.sound = 1\nclass Dog:\n    __slots__ = ()", sound, false),
            ("cat()\nfrom sandbox_utils import *", name, true),
            ("cat()\nif x:\n    from a.b import *  # All.", name, true),
            ("cat()\nfrom sandbox_utils import ls", name, false),
            ("m = re.match('a', text)[0]", none, true),
            ("print([3, 1].sort()[0])", none, false),
            ("print(errorcode[error.errno])", key, true),
            ("for k in sorted(rows, key=rows.get): pass", sorted, true),
            ("sorted(\n    rows,\n    key=rows.get,\n)", sorted, true),
            ("sorted([3, 1], descending=True)", sorted, false),
            ("rows.sort(key=rows.get)", "No overload of bound method `list.sort` matches arguments [x]", true),
            ("class Node: pass\nn = Node()\nn.late = n", assigned, true),
            ("x = 1\nx.late = 2", assigned, false),
            ("lock._count", private, true),
            ("class RLock: pass\nRLock()._count", private, false),
            ("x.count", public, false),
            ("threading._x", "Module `threading` has no member `_x` [missing-attribute]", true),
            ("tools._x", "`tools` has no attribute `_x` [missing-attribute]", false),
        ] {
            let error = Diagnostic { line: 1, column: 1, message: message.to_owned() };
            assert_eq!(Idioms::of(source).can_explain(&error), is_explained, "{source}: {message}");
        }
    }
}
