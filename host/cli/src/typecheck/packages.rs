//! Errors that only packages cause. The checker does not see the sandbox's packages. It accepts every use of their
//! modules and values, but does not know the effects of their decorators and metaclasses on classes of the script, and
//! assumes that an import that can fail always fails.

use std::collections::HashSet;

/// The decorators of classes that the checker knows.
const KNOWN_DECORATORS: [&str; 4] = ["@dataclass", "@dataclasses.", "@functools.total_ordering", "@total_ordering"];

/// The uses of packages in a script that the checker misunderstands.
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
