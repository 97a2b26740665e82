//! Declarations of the globals of scripts and of sessions, which the checker does not know.

use std::{collections::BTreeSet, fmt::Write as _};

use anyhow::Context as _;
use glovebox::{
    ClassDescription, FunctionSignature, Language, MethodDescription, SessionVariable, VariableKind, tool_stubs,
};
use glovebox_server::TypedScript;

/// The beginning of the declarations if a script's tools are unknown.
const NO_TOOLS: &str = "from typing import Any\n\n";

/// The declaration of `tools` if a script's tools are unknown.
const UNKNOWN_TOOLS: &str = "tools: Any\n";

/// The names and declarations of all globals except `tools`. Some of them exist only in certain executions: `context`
/// if the request has a value for it, `_` in sessions, and `_state` with `auto_persist_globals`.
const GLOBALS: [(&str, &str); 8] = [
    ("chunk_text", "def chunk_text(text: str, size: int, overlap: int = 0) -> list[str]: ...\n"),
    ("search_context", "def search_context(pattern: Any, window: int = 100) -> list[dict[str, Any]]: ...\n"),
    ("display", "def display(*values: Any, **options: Any) -> None: ...\n"),
    ("llm_query", "llm_query: Any\n"),
    ("rlm_query", "rlm_query: Any\n"),
    ("context", "context: Any\n"),
    ("_", "_: Any\n"),
    ("_state", "_state: dict[str, Any]\n"),
];

/// Returns the source text of the declarations. The checker adds the declared names to Python's builtins. If the tools
/// are unknown, the global `tools` has type `Any`. A variable of the session replaces a global of the same name.
pub(super) fn source(script: &TypedScript<'_>) -> anyhow::Result<String> {
    let variables = script.variables.unwrap_or_default();
    let names: BTreeSet<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
    let mut text = match script.tools {
        _ if names.contains("tools") => NO_TOOLS.to_owned(),
        None => [NO_TOOLS, UNKNOWN_TOOLS].concat(),
        Some(tools) => tool_stubs(tools, Language::Python).context("cannot declare the tools")?,
    };
    for (_, declaration) in GLOBALS.iter().filter(|(name, _)| !names.contains(name)) {
        text.push_str(declaration);
    }
    text.push_str(&declarations(variables, script.source));
    Ok(text)
}

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

/// Imports for the declaration of a dataclass.
const DATACLASS_IMPORTS: &str = "\
    from dataclasses import dataclass as _glovebox_dataclass, KW_ONLY as _glovebox_KW_ONLY\n\
    from typing import ClassVar as _glovebox_ClassVar\n";

/// Returns declarations of variables for a script. Variables in `global` statements of the script have type `Any`,
/// because its functions can change their types.
fn declarations(variables: &[SessionVariable], source: &str) -> String {
    if variables.is_empty() {
        return String::new();
    }
    let assigned = names_in_global_statements(source);
    let classes: BTreeSet<&str> = variables
        .iter()
        .filter(|variable| matches!(variable.kind, VariableKind::Class(_)))
        .map(|variable| variable.name.as_str())
        .filter(|name| !assigned.contains(name))
        .collect();
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
            VariableKind::Class(description) if classes.contains(name.as_str()) => {
                Some(class(name, description, &classes))
            }
            VariableKind::Object { class } if classes.contains(class.as_str()) => Some(format!("{name}: {class}\n")),
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

/// Returns the names of a dataclass's fields with their declarations, from the parameters of its constructor.
fn dataclass_fields(methods: &[MethodDescription]) -> Vec<(&str, &'static str)> {
    let Some(constructor) = methods.iter().find(|method| method.name == "__init__") else { return Vec::new() };
    let FunctionSignature { positional, default_count, keyword_only, .. } = &constructor.signature;
    let required_count = positional.len().saturating_sub(*default_count);
    let declared = |is_required| if is_required { "_glovebox_Any" } else { "_glovebox_Any = ..." };
    let mut fields: Vec<(&str, &'static str)> = Vec::new();
    // The first parameter is the instance.
    for (index, parameter) in positional.iter().enumerate().skip(1) {
        fields.push((parameter.as_str(), declared(index < required_count)));
    }
    if !keyword_only.is_empty() {
        fields.push(("_", "_glovebox_KW_ONLY"));
    }
    for parameter in keyword_only {
        fields.push((parameter.name.as_str(), declared(parameter.is_required)));
    }
    fields
}

/// Declares a class of the session. `classes` are the names of all declared classes.
fn class(name: &str, description: &ClassDescription, classes: &BTreeSet<&str>) -> String {
    let names = description.bases.iter().map(String::as_str);
    let mut bases: Vec<&str> = names.filter(|base| *base != name && classes.contains(base)).collect();
    if description.is_open || bases.len() < description.bases.len() {
        bases.push("_glovebox_Any");
    }
    let mut text = String::new();
    if description.is_dataclass {
        text.push_str(DATACLASS_IMPORTS);
        text.push_str("@_glovebox_dataclass\n");
    }
    let _ = match bases.as_slice() {
        [] => writeln!(text, "class {name}:"),
        bases => writeln!(text, "class {name}({}):", bases.join(", ")),
    };
    let fields = if description.is_dataclass { dataclass_fields(&description.methods) } else { Vec::new() };
    for (field, default) in &fields {
        let _ = writeln!(text, "    {field}: {default}");
    }
    // All other attributes of a dataclass are class variables, so that they are not fields.
    let kind = if description.is_dataclass { "_glovebox_ClassVar[_glovebox_Any]" } else { "_glovebox_Any" };
    for attribute in &description.attributes {
        if fields.iter().all(|(field, _)| field != attribute) {
            let _ = writeln!(text, "    {attribute}: {kind}");
        }
    }
    for MethodDescription { name, signature } in &description.methods {
        text.push_str("    ");
        text.push_str(&function(name, signature));
    }
    text.push_str("    pass\n");
    text
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

    fn class(bases: &[&str], methods: &Value, attributes: &[&str], is_dataclass: bool) -> Value {
        json!({ "class": {
            "bases": bases, "methods": methods, "attributes": attributes, "is_open": false,
            "is_dataclass": is_dataclass,
        } })
    }

    #[test]
    fn classes_have_their_members() {
        let method = |name: &str| {
            let signature = FunctionSignature { positional: vec!["self".to_owned()], ..FunctionSignature::default() };
            json!([{ "name": name, "signature": signature }])
        };
        let described = [
            ("Shape", class(&["Square", "Lost"], &method("area"), &["x"], false)),
            ("Single", class(&["Single"], &json!([]), &[], false)),
            ("Square", class(&[], &method("__init__"), &[], false)),
            ("shape", json!({ "object": { "class": "Shape" } })),
            ("square", json!({ "object": { "class": "Square" } })),
            ("old", json!({ "object": { "class": "Lost" } })),
        ];
        let of = |source: &str| declarations(&variables(&described), source);
        let single = "class Single(_glovebox_Any):\n    pass\n";
        let members = "    x: _glovebox_Any\n    def area(self) -> _glovebox_Any: ...\n    pass\n";
        let square = "class Square:\n    def __init__(self) -> _glovebox_Any: ...\n    pass\n";
        let instances = "shape: Shape\nsquare: Square\nold: _glovebox_Any\n";
        let expected = [IMPORTS, "class Shape(Square, _glovebox_Any):\n", members, single, square, instances];
        assert_eq!(of(""), expected.concat());
        // The script can change the class.
        let (square, instances) =
            ("Square: _glovebox_Any\n", "shape: Shape\nsquare: _glovebox_Any\nold: _glovebox_Any\n");
        let expected = [IMPORTS, "class Shape(_glovebox_Any):\n", members, single, square, instances];
        assert_eq!(of("def f():\n    global Square\n    Square = 1"), expected.concat());
    }

    #[test]
    fn dataclasses_have_the_fields_of_their_constructor() {
        let constructor = json!([{ "name": "__init__", "signature": {
            "positional": ["self", "x", "y"], "positional_only_count": 0, "default_count": 1,
            "keyword_only": [{ "name": "z", "is_required": true }], "rest": null, "keywords": null, "is_async": false,
        } }]);
        let described = [("Point", class(&[], &constructor, &["x", "other"], true))];
        let expected = "@_glovebox_dataclass\nclass Point:\n    x: _glovebox_Any\n    y: _glovebox_Any = ...\n    \
                        _: _glovebox_KW_ONLY\n    z: _glovebox_Any\n    \
                        other: _glovebox_ClassVar[_glovebox_Any]\n    \
                        def __init__(self, x, y=..., *, z) -> _glovebox_Any: ...\n    pass\n";
        let text = declarations(&variables(&described), "");
        assert_eq!(text, [IMPORTS, DATACLASS_IMPORTS, expected].concat());
        // A class without a constructor of its own.
        let described = [("Point", class(&[], &json!([]), &[], true))];
        let text = declarations(&variables(&described), "");
        assert!(text.ends_with("@_glovebox_dataclass\nclass Point:\n    pass\n"), "{text}");
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
