//! Declarations of a session's global variables.

use std::{collections::BTreeSet, fmt::Write as _};

use glovebox::{FunctionSignature, SessionVariable, VariableKind};

/// Imports for the declarations. Their aliases cannot collide with variables, which can have the name of a type.
const IMPORTS: &str = "\nimport builtins as _glovebox_builtins\nfrom typing import Any as _glovebox_Any\n";

/// Modules with their classes. A variable that is an instance of one of these classes has the class as its type. All
/// other instances have type `Any`. The checker does not know the classes of packages, and some other classes do not
/// declare all attributes of their instances.
const CLASSES: [(&str, &[&str]); 7] = [
    (
        "builtins",
        &[
            "bool",
            "bytearray",
            "bytes",
            "complex",
            "dict",
            "float",
            "frozenset",
            "int",
            "list",
            "range",
            "set",
            "str",
            "tuple",
        ],
    ),
    ("collections", &["Counter", "OrderedDict", "defaultdict", "deque"]),
    ("datetime", &["date", "datetime", "time", "timedelta", "timezone"]),
    ("decimal", &["Decimal"]),
    ("fractions", &["Fraction"]),
    ("pathlib", &["PosixPath"]),
    ("re", &["Match", "Pattern"]),
];

/// Returns declarations of variables for a script. Variables in `global` statements of the script have type `Any`,
/// because its functions can change their types.
pub(super) fn declarations(variables: &[SessionVariable], source: &str) -> String {
    if variables.is_empty() {
        return String::new();
    }
    let assigned = names_in_global_statements(source);
    let mut text = IMPORTS.to_owned();
    for (number, SessionVariable { name, kind }) in variables.iter().enumerate() {
        let import = format!("_glovebox_{number}");
        let declared = match kind {
            _ if assigned.contains(name.as_str()) => None,
            VariableKind::Module { name: module } => Some(format!("import {module} as {import}\n{name} = {import}\n")),
            // In a stub file, `import NAME as NAME` also exports the name.
            VariableKind::Imported { module, name: original } if original == name => {
                Some(format!("from {module} import {original} as {name}\n"))
            }
            VariableKind::Imported { module, name: original } => {
                Some(format!("from {module} import {original} as {import}\n{name} = {import}\n"))
            }
            VariableKind::Function(signature) => Some(function(name, signature)),
            VariableKind::Instance { module, class } if !is_declared(module, class) => None,
            VariableKind::Instance { module, class } if module == "builtins" => {
                Some(format!("{name}: _glovebox_builtins.{class}\n"))
            }
            VariableKind::Instance { module, class } => {
                Some(format!("import {module} as {import}\n{name}: {import}.{class}\n"))
            }
            _ => None,
        };
        text.push_str(&declared.unwrap_or_else(|| format!("{name}: _glovebox_Any\n")));
    }
    text
}

fn is_declared(module: &str, class: &str) -> bool {
    CLASSES.iter().any(|(declared, classes)| *declared == module && classes.contains(&class))
}

fn function(name: &str, signature: &FunctionSignature) -> String {
    let FunctionSignature { positional, keyword_only, .. } = signature;
    let mut parameters = Vec::new();
    let required_count = positional.len().saturating_sub(signature.default_count);
    for (index, parameter) in positional.iter().enumerate() {
        if index > 0 && index == signature.positional_only_count {
            parameters.push("/".to_owned());
        }
        let default = if index < required_count { "" } else { "=..." };
        parameters.push(format!("{parameter}{default}"));
    }
    if signature.positional_only_count > 0 && signature.positional_only_count == positional.len() {
        parameters.push("/".to_owned());
    }
    match &signature.rest {
        Some(rest) => parameters.push(format!("*{rest}")),
        None if keyword_only.is_empty() => {}
        None => parameters.push("*".to_owned()),
    }
    for parameter in keyword_only {
        let default = if parameter.is_required { "" } else { "=..." };
        parameters.push(format!("{}{default}", parameter.name));
    }
    parameters.extend(signature.keywords.as_ref().map(|keywords| format!("**{keywords}")));
    let mut text = String::new();
    if signature.is_async {
        text.push_str("async ");
    }
    let _ = writeln!(text, "def {name}({}) -> _glovebox_Any: ...", parameters.join(", "));
    text
}

/// Returns the names in `global` statements. The result can include words that follow a statement.
pub(super) fn names_in_global_statements(source: &str) -> BTreeSet<&str> {
    let statements = source.split(['\n', ';', ':']).filter_map(|part| part.trim_start().strip_prefix("global"));
    let lists = statements.filter(|names| names.starts_with([' ', '\t', '\\']));
    lists.flat_map(|names| names.split(|c: char| !c.is_alphanumeric() && c != '_')).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn variables(described: &[(&str, Value)]) -> Vec<SessionVariable> {
        let list: Value = described.iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
        serde_json::from_value(list).unwrap()
    }

    fn instance(module: &str, class: &str) -> Value {
        json!({ "instance": { "module": module, "class": class } })
    }

    #[test]
    fn variables_are_declared_by_kind() {
        let described = [
            ("list", instance("builtins", "int")),
            ("day", instance("datetime", "date")),
            ("own", instance("__main__", "Own")),
            ("nothing", instance("builtins", "NoneType")),
            ("np", json!({ "module": { "name": "numpy" } })),
            ("Path", json!({ "imported": { "module": "pathlib", "name": "Path" } })),
            ("root", json!({ "imported": { "module": "math", "name": "sqrt" } })),
            ("unknown", json!("other")),
        ];
        let expected = "
import builtins as _glovebox_builtins
from typing import Any as _glovebox_Any
list: _glovebox_builtins.int
import datetime as _glovebox_1
day: _glovebox_1.date
own: _glovebox_Any
nothing: _glovebox_Any
import numpy as _glovebox_4
np = _glovebox_4
from pathlib import Path as Path
from math import sqrt as _glovebox_6
root = _glovebox_6
unknown: _glovebox_Any
";
        assert_eq!(declarations(&variables(&described), ""), expected);
        assert_eq!(declarations(&[], ""), "");
    }

    #[test]
    fn functions_have_their_parameters() {
        let names = |names: &str| names.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (positional, positional_only_count, default_count, rest, keywords, expected) in [
            ("", 0, 0, None, None, "def f() -> _glovebox_Any: ...\n"),
            ("a b", 0, 1, None, Some("k"), "def f(a, b=..., **k) -> _glovebox_Any: ...\n"),
            ("a b", 1, 2, Some("r"), None, "def f(a=..., /, b=..., *r) -> _glovebox_Any: ...\n"),
            ("a b", 2, 0, None, None, "def f(a, b, /) -> _glovebox_Any: ...\n"),
        ] {
            let signature = FunctionSignature {
                positional: names(positional),
                positional_only_count,
                default_count,
                rest: rest.map(str::to_owned),
                keywords: keywords.map(str::to_owned),
                ..FunctionSignature::default()
            };
            assert_eq!(function("f", &signature), expected);
        }
        let parameter = |name: &str, is_required: bool| json!({ "name": name, "is_required": is_required });
        let mut signature: FunctionSignature = serde_json::from_value(json!({
            "positional": ["a"], "positional_only_count": 0, "default_count": 0,
            "keyword_only": [parameter("b", true), parameter("c", false)],
            "rest": null, "keywords": null, "is_async": true,
        }))
        .unwrap();
        assert_eq!(function("f", &signature), "async def f(a, *, b, c=...) -> _glovebox_Any: ...\n");
        signature.rest = Some("r".to_owned());
        assert_eq!(function("f", &signature), "async def f(a, *r, b, c=...) -> _glovebox_Any: ...\n");
    }

    #[test]
    fn variables_in_global_statements_have_any_type() {
        let described = ["a", "b", "c", "d"].map(|name| (name, instance("builtins", "int")));
        for (source, of_type_any) in [
            ("def f():\n    global a, b\n    a = None", "a b"),
            ("def f(): global a; c = 1", "a"),
            ("def f():\n\tglobal\ta,\\\n", "a"),
            ("globals()['a'] = 1\nglobala = a\nx = 'global a'", ""),
        ] {
            let text = declarations(&variables(&described), source);
            let found: Vec<&str> = text.lines().filter_map(|line| line.strip_suffix(": _glovebox_Any")).collect();
            assert_eq!(found.join(" "), of_type_any, "{source}");
        }
    }
}
