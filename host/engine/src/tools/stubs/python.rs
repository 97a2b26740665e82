//! A Python stub of tools.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    Declaration, Tool, TypeNames, declare_all, description_lines, is_plain, one_line, quoted,
    types::{MAX_NAME_CHARS, Member, ObjectType, ToolTypes, Type},
};

const HEAD: &str = r#"# Declares the global `tools` of scripts.
# Pyright reads this file if its name is `__builtins__.pyi`.

from typing import Any, Literal, NotRequired, TypedDict

class _ToolError(Exception):
    """A tool failed. The message comes from the host."""

class _ToolLimit(_ToolError):
    """There were too many calls, or a message was too large."""

class _ToolTimeout(_ToolError):
    """A tool timed out."""

class _UnknownTool(_ToolError):
    """The host has no such tool."""

class _InvalidArguments(_ToolError):
    """The arguments do not match the tool's schema."""

class _ToolDenied(_ToolError):
    """A person or a policy refused the call. Do not retry the call."""

class _Search:
    def __call__(self, query: str, limit: int = 5) -> list[dict[str, str]]:
        """Finds tools by words of their names, descriptions and arguments."""

class _Describe:
    def __call__(self, name: str) -> dict[str, Any]:
        """Returns a tool's name, description, signature and schema."""

class _ToolsByName:
    def __getitem__(self, name: str) -> Any:
        """Returns a tool by its name."""

"#;

const TOOLS: &str = "\
class _Tools(_ToolsByName):
    ToolError = _ToolError
    ToolLimit = _ToolLimit
    ToolTimeout = _ToolTimeout
    UnknownTool = _UnknownTool
    InvalidArguments = _InvalidArguments
    ToolDenied = _ToolDenied
";

/// The names that [`HEAD`] and [`TOOLS`] declare. Names of tools' types also begin with an underscore, and must differ
/// from these names.
const OWN_NAMES: [&str; 10] = [
    "_Describe",
    "_InvalidArguments",
    "_Search",
    "_ToolDenied",
    "_ToolError",
    "_ToolLimit",
    "_ToolTimeout",
    "_Tools",
    "_ToolsByName",
    "_UnknownTool",
];

/// The functions of `tools`, with their types. A tool with the same name replaces the function.
const HELPERS: [(&str, &str); 2] = [("search", "_Search"), ("describe", "_Describe")];

/// Names that a method's parameters cannot have: the keywords, and `self`.
const KEYWORDS: [&str; 36] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "self", "try", "while", "with", "yield",
];

/// The names that occur in types. In a class with a member of the same name, the name would refer to the member instead
/// of the type.
const TYPES: [&str; 9] = ["Any", "Literal", "NotRequired", "bool", "dict", "float", "int", "list", "str"];

/// Returns `true` for a name that Python reserves.
pub(crate) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name) && name != "self"
}

/// Returns the stub (`.pyi`) of the tools.
pub(super) fn stub(tools: &[Tool]) -> String {
    let mut names = TypeNames { used: OWN_NAMES.map(str::to_owned).into(), last: 0 };
    let Declaration { types, members } =
        declare_all(tools, |name, description, types| declaration(&mut names, name, description, types));
    let mut text = [HEAD, types.as_str(), TOOLS].concat();
    for (name, class) in HELPERS {
        if tools.iter().all(|tool| tool.name != name) {
            let _ = writeln!(text, "    {name}: {class}");
        }
    }
    text.push_str(&members);
    text.push_str("\ntools: _Tools\n");
    text
}

/// Declares a tool as a member whose class has the methods `__call__` and `aio`.
fn declaration(names: &mut TypeNames, name: &str, description: &str, types: &ToolTypes) -> Declaration {
    let own = types.objects.iter().map(|object| names.unique(format!("_{}", object.name)));
    let objects: Vec<String> = own.collect();
    let mut text = String::new();
    for (object, own) in types.objects.iter().zip(&objects) {
        write_object(&mut text, own, object, &objects);
    }
    let class = names.unique(format!("_{name}"));
    let parameters = parameters(&types.arguments, &objects);
    let result = kind(&types.result, &objects);
    let documentation = documentation(description, &types.arguments);
    let _ = write!(
        text,
        "class {class}:\n    def __call__(self{parameters}) -> {result}:{documentation}\n    \
         async def aio(self{parameters}) -> {result}:\n        \
         \"\"\"Like `tools.{name}`, but awaitable: calls run concurrently.\"\"\"\n\n"
    );
    Declaration { types: text, members: format!("    {name}: {class}\n") }
}

/// Returns the parameters after `self`. Arguments whose name cannot be a parameter are passed as `**{name: value}`.
fn parameters(arguments: &ObjectType, objects: &[String]) -> String {
    let mut text = String::new();
    let (mut is_by_name, mut has_star, mut accepts_others) = (false, false, arguments.accepts_others);
    for member in &arguments.members {
        if !is_parameter(&member.name) {
            (is_by_name, accepts_others) = (true, true);
            continue;
        }
        // Later arguments cannot be passed by position, because the omitted argument precedes them.
        if is_by_name && !has_star {
            text.push_str(", *");
            has_star = true;
        }
        let _ = write!(text, ", {}: {}", member.name, kind(&member.kind, objects));
        match &member.default {
            _ if member.is_required => {}
            Some(value) => {
                let _ = write!(text, " = {}", literal(value));
            }
            None => text.push_str(" = ..."),
        }
    }
    if accepts_others {
        let mut others = "arguments".to_owned();
        while arguments.members.iter().any(|member| member.name == others) {
            others.push('_');
        }
        let _ = write!(text, ", **{others}: Any");
    }
    text
}

fn is_parameter(name: &str) -> bool {
    // Type checkers treat a parameter whose name begins with two underscores as positional-only.
    is_plain(name) && !KEYWORDS.contains(&name) && !name.starts_with("__")
}

/// Declares an object type, as a class if all members can be attributes.
fn write_object(text: &mut String, name: &str, object: &ObjectType, objects: &[String]) {
    let is_attribute = |member: &Member| {
        let name = member.name.as_str();
        is_parameter(name) && !name.starts_with('_') && !TYPES.contains(&name)
    };
    let is_class = object.members.iter().all(is_attribute);
    let _ = match is_class {
        true => writeln!(text, "class {name}(TypedDict):"),
        false => writeln!(text, "{name} = TypedDict(\"{name}\", {{"),
    };
    for member in &object.members {
        if !member.description.is_empty() {
            let _ = writeln!(text, "    # {}", member.description);
        }
        let kind = kind(&member.kind, objects);
        let kind = if member.is_required { kind } else { format!("NotRequired[{kind}]") };
        let _ = match is_class {
            true => writeln!(text, "    {}: {kind}", member.name),
            false => writeln!(text, "    {}: {kind},", string(&member.name)),
        };
    }
    if is_class && object.members.is_empty() {
        text.push_str("    pass\n");
    }
    text.push_str(if is_class { "\n" } else { "})\n\n" });
}

fn kind(kind: &Type, objects: &[String]) -> String {
    match kind {
        Type::Any => "Any".to_owned(),
        Type::String => "str".to_owned(),
        Type::Integer => "int".to_owned(),
        Type::Number => "float".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::Null => "None".to_owned(),
        Type::List(items) => format!("list[{}]", self::kind(items, objects)),
        Type::Dictionary(values) => format!("dict[str, {}]", self::kind(values, objects)),
        Type::Object(index) => objects.get(*index).cloned().unwrap_or_else(|| "dict[str, Any]".to_owned()),
        Type::Literals(values) => format!("Literal[{}]", values.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Type::Union(kinds) => {
            let kinds = kinds.iter().map(|each| self::kind(each, objects));
            kinds.collect::<Vec<_>>().join(" | ")
        }
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        other => other.to_string(),
    }
}

fn string(text: &str) -> String {
    quoted(text, |code| format!("\\U{code:08x}"))
}

/// Returns a function body that consists only of a docstring: the descriptions of the function and of its arguments.
fn documentation(description: &str, arguments: &ObjectType) -> String {
    let mut lines = description_lines(description);
    let described: Vec<&Member> =
        arguments.members.iter().filter(|argument| !argument.description.is_empty()).collect();
    if !lines.is_empty() && !described.is_empty() {
        lines.push(String::new());
    }
    for Member { name, description, .. } in described {
        lines.push(format!("{}: {description}", one_line(name, MAX_NAME_CHARS)));
    }
    let escaped: Vec<String> = lines.iter().map(|line| line.replace('\\', "\\\\").replace('"', "\\\"")).collect();
    match escaped.as_slice() {
        [] => " ...".to_owned(),
        [line] => format!("\n        \"\"\"{line}\"\"\""),
        [first, others @ ..] => {
            let mut text = format!("\n        \"\"\"{first}\n");
            for line in others {
                let indentation = if line.is_empty() { "" } else { "        " };
                let _ = writeln!(text, "{indentation}{line}");
            }
            text.push_str("        \"\"\"");
            text
        }
    }
}
