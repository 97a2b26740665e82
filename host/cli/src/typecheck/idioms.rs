//! Errors that valid scripts cause, because the checker's declarations are stricter than Python, or because the checker
//! does not see the sandbox's packages.

use std::collections::HashSet;

use glovebox::Diagnostic;

/// Functions that accept a key function. The checker rejects a dictionary's `get` as a key function, because it can
/// return `None`.
const SORTING_FUNCTIONS: [&str; 4] = ["function `sorted`", "function `max`", "function `min`", "method `list.sort`"];

/// Starts of messages about a subscript of a value that can also have other types, such as the result of `re.match`.
const NONE_SUBSCRIPTS: [&str; 2] =
    ["Cannot subscript object of type `None`", "Cannot delete subscript on object of type `None`"];

/// The number of lines that a call with a key function can occupy.
const MAX_CALL_LINES: usize = 5;

/// Maximum number of characters of a line that are searched. Bounds the time for a line with many errors.
const MAX_LINE_CHARS: usize = 10_000;

/// Operators that end with `=` and assign nothing.
const COMPARISONS: [&str; 4] = ["==", "!=", "<=", ">="];

/// Parts of expressions such as `row["name"][0]`. The items of a dictionary can have several types, and the checker
/// reports each type that has no items.
const ITEMS_OF_ITEMS: [&str; 2] = ["\"][", "']["];

/// Expressions whose value is always `None`.
const ALWAYS_NONE: [&str; 7] = [".append(", ".clear(", ".extend(", ".reverse(", ".sort(", ".update(", "None["];

/// The decorators of classes that the checker knows.
const KNOWN_DECORATORS: [&str; 4] = ["@dataclass", "@dataclasses.", "@functools.total_ordering", "@total_ordering"];

/// The valid uses of Python in a script that the checker reports.
#[derive(Clone, Debug)]
pub(super) struct Idioms<'a> {
    lines: Vec<&'a str>,
    /// `true` if the script imports all names of a module, which the checker possibly does not see.
    imports_all_names: bool,
    /// The names of the script's classes.
    classes: HashSet<&'a str>,
    /// The names that the bodies of the script's subclasses define.
    subclass_members: HashSet<&'a str>,
}

impl<'a> Idioms<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        let is_import_of_all = |line: &str| {
            line.starts_with("from ") && line.split('#').next().unwrap_or_default().trim_end().ends_with("import *")
        };
        Self {
            lines: source.lines().map(start_of_line).collect(),
            imports_all_names: source.lines().any(|line| is_import_of_all(line.trim_start())),
            classes: source.split("class ").skip(1).map(|rest| split_name(rest).0).collect(),
            subclass_members: subclass_members(source),
        }
    }

    /// Returns `true` if the reported code can be valid.
    pub(super) fn can_explain(&self, error: &Diagnostic) -> bool {
        let message = error.message.as_str();
        if message.starts_with("Name `") {
            return self.imports_all_names;
        }
        let line = self.lines(error).next().unwrap_or_default();
        // The checker names only one of the types that a value can have.
        if message.contains("with key of type `None`") || message.starts_with("Object of type `None` is not callable") {
            return true;
        }
        if NONE_SUBSCRIPTS.iter().any(|start| message.starts_with(start)) {
            return !ALWAYS_NONE.iter().any(|part| line.contains(part));
        }
        if message.starts_with("Cannot subscript ") && ITEMS_OF_ITEMS.iter().any(|part| line.contains(part)) {
            return true;
        }
        if let Some((operator, types)) = read_operator(message)
            && operator.ends_with('=')
            && !COMPARISONS.contains(&operator)
        {
            return types.contains("of type `None` and") || is_item_or_attribute(line, operator);
        }
        if message.starts_with("No overload of ") {
            let is_sorting = SORTING_FUNCTIONS.iter().any(|function| message.contains(function));
            let is_key = |line: &str| line.contains("key=") && line.contains(".get");
            return has_item(line) || (is_sorting && self.lines(error).take(MAX_CALL_LINES).any(is_key));
        }
        MissingAttribute::read(message).is_some_and(|missing| self.can_have(missing))
    }

    /// Returns the lines of the script from the position of an error.
    fn lines(&self, error: &Diagnostic) -> impl Iterator<Item = &'a str> {
        let before = usize::try_from(error.line.saturating_sub(1)).unwrap_or(usize::MAX);
        self.lines.get(before..).unwrap_or_default().iter().copied()
    }

    /// Returns `true` if an object can have the attribute, because a subclass in the script defines it. Also returns
    /// `true` for private attributes of types outside the script, which are not declared.
    fn can_have(&self, missing: MissingAttribute<'_>) -> bool {
        let MissingAttribute { owner, name } = missing;
        if owner.starts_with("Self@") {
            return self.subclass_members.contains(name);
        }
        name.starts_with('_') && !name.starts_with("__") && !self.classes.contains(owner)
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
        let (start, owner, middle, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_known =
            matches!((start, middle), ("Object of type ", " has no attribute ") | ("Module ", " has no member "));
        is_known.then_some(Self { owner, name })
    }
}

/// Returns the operator in a message about the types of its operands, and the rest of the message.
fn read_operator(message: &str) -> Option<(&str, &str)> {
    message.strip_prefix("Operator `")?.split_once('`')
}

/// Returns `true` if a line reads an item with a text as its key. The items of a dictionary can have several types, of
/// which the message does not name all.
fn has_item(line: &str) -> bool {
    let is_value = |c: char| c.is_alphanumeric() || "_])".contains(c);
    let mut starts = ["[\"", "['"].into_iter().flat_map(|start| line.match_indices(start));
    starts.any(|(at, _)| line.get(..at).is_some_and(|before| before.ends_with(is_value)))
}

/// Returns `true` if a line changes an item or an attribute with an operator such as `+=`. The type of such a value can
/// be wider than the type in the message.
fn is_item_or_attribute(line: &str, operator: &str) -> bool {
    let Some((target, _)) = line.split_once(operator) else { return false };
    target.contains(['[', '.'])
}

/// Returns the names that the bodies of classes with a base class define.
fn subclass_members(source: &str) -> HashSet<&str> {
    let mut members = HashSet::new();
    // The indentation of the class statement, and of the first line of its body.
    let (mut class, mut body) = (None, None);
    for line in source.lines() {
        let text = line.trim_start();
        let indent = line.len().saturating_sub(text.len());
        if text.is_empty() {
            continue;
        }
        if text.starts_with("class ") && text.contains('(') {
            (class, body) = (Some(indent), None);
        } else if class.is_some_and(|class| indent > class) {
            if indent == *body.get_or_insert(indent) {
                members.extend(defined_name(text));
            }
        } else {
            class = None;
        }
    }
    members
}

/// Returns the name of the function or the variable that a statement defines.
fn defined_name(statement: &str) -> Option<&str> {
    let statement = statement.strip_prefix("async ").unwrap_or(statement);
    if let Some(function) = statement.strip_prefix("def ") {
        let (name, rest) = split_name(function);
        return rest.starts_with('(').then_some(name);
    }
    let (name, rest) = split_name(statement);
    let rest = rest.trim_start();
    (rest.starts_with(':') || (rest.starts_with('=') && !rest.starts_with("=="))).then_some(name)
}

/// Splits a text after the identifier at its start, which can be empty.
fn split_name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Returns the part of a line that is searched.
fn start_of_line(line: &str) -> &str {
    let end = line.char_indices().nth(MAX_LINE_CHARS).map_or(line.len(), |(end, _)| end);
    line.get(..end).unwrap_or(line)
}

/// The uses of packages in a script that the checker misunderstands. It accepts every use of their modules and values,
/// but does not know the effects of their decorators and metaclasses on classes of the script, and assumes that an
/// import that can fail always fails.
#[derive(Clone, Debug)]
pub(super) struct PackageUses<'a> {
    /// `true` if a package can add a constructor to a class.
    adds_constructors: bool,
    /// `true` if the script has a substitute for a module that it cannot import.
    has_substitutes: bool,
    /// The words of all lines with imports.
    imported: HashSet<&'a str>,
}

impl<'a> PackageUses<'a> {
    pub(super) fn of(source: &'a str) -> Self {
        let is_substitute = |line: &str| {
            line.starts_with("except") && (line.contains("ImportError") || line.contains("ModuleNotFoundError"))
        };
        let is_import = |line: &&str| line.starts_with("from ") || line.starts_with("import ");
        let imports = source.lines().map(str::trim_start).filter(is_import);
        Self {
            adds_constructors: source.contains("metaclass=") || has_decorated_class(source),
            has_substitutes: source.lines().any(|line| is_substitute(line.trim_start())),
            imported: imports.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_')).collect(),
        }
    }

    /// Returns `true` if a package can make the reported code valid.
    pub(super) fn can_explain(&self, message: &str) -> bool {
        (self.adds_constructors && message.contains("`object.__init__`"))
            || (self.has_substitutes && (message.contains("`None` is not callable") || self.names_substitute(message)))
    }

    /// Returns `true` for a message about a call to a function that the script also imports.
    fn names_substitute(&self, message: &str) -> bool {
        let Some((_, rest)) = message.split_once("function `") else { return false };
        rest.split_once('`').is_some_and(|(name, _)| self.imported.contains(name))
    }
}

/// Returns `true` if a class of the script has a decorator that the checker does not know.
fn has_decorated_class(source: &str) -> bool {
    let mut is_decorated = false;
    // All other lines can belong to a decorator.
    for line in source.lines().map(str::trim_start) {
        if line.starts_with('@') {
            is_decorated |= !KNOWN_DECORATORS.iter().any(|known| line.starts_with(known));
        } else if line.starts_with("class ") {
            if is_decorated {
                return true;
            }
        } else if line.starts_with("def ") || line.starts_with("async def ") {
            is_decorated = false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_code_is_accepted_and_mistakes_are_not() {
        let sound = "Object of type `Self@speak` has no attribute `sound` [missing-attribute]";
        let name = "Name `cat` used when not defined [unresolved-reference]";
        let none = "Cannot subscript object of type `None` with no `__getitem__` method [not-subscriptable]";
        let subscript = "Cannot subscript object of type `int` with no `__getitem__` method [not-subscriptable]";
        let key = "Method `__getitem__` of type `x` cannot be called with key of type `None` on object of type `y` [x]";
        let sorted = "No overload of function `sorted` matches arguments [no-matching-overload]";
        let private = "Object of type `RLock` has no attribute `_count` [missing-attribute]";
        let public = "Object of type `RLock` has no attribute `count` [missing-attribute]";
        for (source, message, is_explained) in [
            ("self.sound\nclass Dog(Animal):\n    sound = 'woof'", sound, true),
            ("self.sound\nclass Dog(Animal):\n\n    name = ''\n    sound: str", sound, true),
            ("self.sound\nclass Dog(Animal):\n    def sound(self): pass", sound, true),
            ("self.sound\nclass Dog:\n    sound = 'woof'", sound, false),
            ("self.sound\nclass Dog(Animal):\n    sounds = 1\n    sound == 1", sound, false),
            ("self.sound\nclass Dog(Animal):\n    def f(self):\n        sound = 1", sound, false),
            ("self.sound\nclass Dog(Animal): pass\nsound = 1\nplay(sound=1)", sound, false),
            ("cat()\nfrom sandbox_utils import *", name, true),
            ("cat()\nif x:\n    from a.b import *  # All.", name, true),
            ("cat()\nfrom sandbox_utils import ls", name, false),
            ("m = re.match('a', text)[0]", none, true),
            ("rows[0]['name'][0]", subscript, true),
            ("rows[0][0]['name']", subscript, false),
            ("del self.rows[0]", "Cannot delete subscript on object of type `None` with no `x` method [x]", true),
            ("self.done(1)", "Object of type `None` is not callable [not-callable]", true),
            ("(5)(1)", "Object of type `int` is not callable [not-callable]", false),
            ("sum(row['counts'])", "No overload of function `sum` matches arguments [x]", true),
            ("sum(['1', '2'])", "No overload of function `sum` matches arguments [x]", false),
            ("sum(counts)", "No overload of function `sum` matches arguments [x]", false),
            ("print([3, 1].sort()[0])", none, false),
            ("print(errorcode[error.errno])", key, true),
            ("for k in sorted(rows, key=rows.get): pass", sorted, true),
            ("sorted(\n    rows,\n    key=rows.get,\n)", sorted, true),
            ("sorted([3, 1], descending=True)", sorted, false),
            ("rows.sort(key=rows.get)", "No overload of bound method `list.sort` matches arguments [x]", true),
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

    #[test]
    fn items_and_attributes_can_have_wider_types() {
        for (source, operator, left, is_explained) in [
            ("self.count += 1", "+=", "None", true),
            ("count += 1", "+=", "None", true),
            ("counts['a'] += 1", "+=", "list[str]", true),
            ("self.count -= 1", "-=", "str", true),
            ("count += 1", "+=", "str", false),
            ("count += counts[1]", "+=", "str", false),
            ("count['a'] + 1", "+", "str", false),
            ("count['a'] >= 1", ">=", "str", false),
        ] {
            let message =
                format!("Operator `{operator}` is not supported between objects of type `{left}` and `Literal[1]` [x]");
            let error = Diagnostic { line: 1, column: 1, message };
            assert_eq!(Idioms::of(source).can_explain(&error), is_explained, "{source}");
        }
    }

    #[test]
    fn constructors_of_decorated_classes_are_unknown() {
        let message = "Argument `x` does not match any known parameter of `object.__init__` [unknown-argument]";
        for (source, is_explained) in [
            ("@attrs.define\nclass A:\n    x: int", true),
            ("@attr.s(\n    slots=True,\n)\n# A comment.\nclass A:\n    x = attr.ib()", true),
            ("@dataclass\n@model\nclass A: pass", true),
            ("class A(metaclass=registry.Meta): pass", true),
            ("class A: pass", false),
            ("@dataclasses.dataclass(frozen=True)\nclass A: pass", false),
            ("@total_ordering\nclass A: pass", false),
            ("class A:\n    @property\n    def x(self): return 1\nclass B: pass", false),
        ] {
            let uses = PackageUses::of(source);
            assert_eq!(uses.can_explain(message), is_explained, "{source}");
            assert!(!uses.can_explain("Object of type `A` has no attribute `y` [missing-attribute]"), "{source}");
        }
    }

    #[test]
    fn substitutes_for_modules_have_unknown_types() {
        let substitute = "try:\n    from tqdm import tqdm\nexcept ImportError:\n    def tqdm(rows): return rows\n";
        let none = "Object of type `None` is not callable [not-callable]";
        let argument = "Argument `desc` does not match any known parameter of function `tqdm` [unknown-argument]";
        let other = "Argument `desc` does not match any known parameter of function `load` [unknown-argument]";
        for (source, is_explained) in [
            (substitute.to_owned(), true),
            (substitute.replace("ImportError", "(ModuleNotFoundError, OSError)"), true),
            (substitute.replace("ImportError", "OSError"), false),
        ] {
            let uses = PackageUses::of(&source);
            assert_eq!((uses.can_explain(none), uses.can_explain(argument)), (is_explained, is_explained), "{source}");
            assert!(!uses.can_explain(other), "{source}");
        }
    }
}
