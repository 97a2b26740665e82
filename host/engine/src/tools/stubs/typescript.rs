//! TypeScript declarations of tools.

use std::fmt::Write as _;

use serde_json::Value;

use super::{
    Declaration, Tool, TypeNames, declare_all, description_lines, is_plain, quoted,
    types::{Member, ObjectType, ToolTypes, Type},
};

const HEAD: &str = "\
// Declares the global `tools` of scripts.

declare namespace ToolTypes {
  type ErrorClass = new (message?: string) => Error;
";

const TOOLS: &str = "\
}

declare const tools: {
  /** A tool failed. The message comes from the host. */
  readonly ToolError: ToolTypes.ErrorClass;
  /** There were too many calls, or a message was too large. */
  readonly ToolLimit: ToolTypes.ErrorClass;
  /** A tool timed out. */
  readonly ToolTimeout: ToolTypes.ErrorClass;
  /** The host has no such tool. */
  readonly UnknownTool: ToolTypes.ErrorClass;
  /** The arguments do not match the tool's schema. */
  readonly InvalidArguments: ToolTypes.ErrorClass;
  /** A person or a policy refused the call. Do not retry the call. */
  readonly ToolDenied: ToolTypes.ErrorClass;
";

/// The functions of `tools`. A tool with the same name replaces the function.
const HELPERS: [(&str, &str); 2] = [
    (
        "search",
        "  /** Finds tools by words of their names, descriptions and arguments. */\n  \
         search(query: string, limit?: number): Array<{ name: string; description: string; signature: string }>;\n",
    ),
    (
        "describe",
        "  /** Returns a tool's name, description, signature and schema. */\n  \
         describe(name: string): { name: string; description: string; signature: string; schema: any };\n",
    ),
];

/// Returns the declarations (`.d.ts`) of the tools.
pub(super) fn stub(tools: &[Tool]) -> String {
    let mut names = TypeNames::default();
    let Declaration { types, members } =
        declare_all(tools, |name, description, types| declaration(&mut names, name, description, types));
    let mut text = [HEAD, types.as_str(), TOOLS].concat();
    for (name, helper) in HELPERS {
        if tools.iter().all(|tool| tool.name != name) {
            text.push_str(helper);
        }
    }
    text.push_str(&members);
    text.push_str("};\n");
    text
}

/// Declares a tool as a method with two overloads: one takes an object, the other takes positional arguments.
fn declaration(names: &mut TypeNames, name: &str, description: &str, types: &ToolTypes) -> Declaration {
    let own: Vec<String> = types.objects.iter().map(|object| names.unique(object.name.clone())).collect();
    let objects: Vec<String> = own.iter().map(|name| format!("ToolTypes.{name}")).collect();
    let mut text = String::new();
    for (object, own) in types.objects.iter().zip(&own) {
        write_interface(&mut text, own, object, &objects);
    }
    let mut methods = String::new();
    write_comment(&mut methods, &description_lines(description));
    // `new(…)` would declare a constructor.
    let method = if name == "new" { "\"new\"" } else { name };
    let result = kind(&types.result, &objects);
    let arguments = &types.arguments;
    if arguments.members.is_empty() {
        let accepted = if arguments.accepts_others { "{ [name: string]: any }" } else { "{}" };
        let _ = writeln!(methods, "  {method}(args?: {accepted}): Promise<{result}>;");
    } else {
        let own = names.unique(arguments.name.clone());
        write_interface(&mut text, &own, arguments, &objects);
        let optional = if arguments.members.iter().any(|member| member.is_required) { "" } else { "?" };
        let _ = writeln!(methods, "  {method}(args{optional}: ToolTypes.{own}): Promise<{result}>;");
        let positional = positional(&arguments.members, &objects);
        let _ = writeln!(methods, "  {method}(...args: [{positional}]): Promise<{result}>;");
    }
    Declaration { types: text, members: methods }
}

/// Returns the elements of the tuple type for positional arguments, with labels if every name can be a label.
fn positional(members: &[Member], objects: &[String]) -> String {
    let has_labels = members.iter().all(|member| is_plain(&member.name));
    let elements = members.iter().map(|Member { name, kind, is_required, .. }| {
        let (kind, optional) = (self::kind(kind, objects), if *is_required { "" } else { "?" });
        if has_labels { format!("{name}{optional}: {kind}") } else { format!("({kind}){optional}") }
    });
    elements.collect::<Vec<_>>().join(", ")
}

fn write_interface(text: &mut String, name: &str, object: &ObjectType, objects: &[String]) {
    let _ = writeln!(text, "  interface {name} {{");
    for Member { name, kind, is_required, description, default } in &object.members {
        let mut about = description.clone();
        if let Some(value) = default {
            let space = if about.is_empty() { "" } else { " " };
            let _ = write!(about, "{space}Default: {}", literal(value));
        }
        if !about.is_empty() {
            let _ = writeln!(text, "    /** {} */", without_end(&about));
        }
        let (name, optional) = (member_name(name), if *is_required { "" } else { "?" });
        let _ = writeln!(text, "    {name}{optional}: {};", self::kind(kind, objects));
    }
    if object.accepts_others {
        text.push_str("    [name: string]: any;\n");
    }
    text.push_str("  }\n");
}

fn member_name(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { string(name) }
}

fn kind(kind: &Type, objects: &[String]) -> String {
    match kind {
        Type::Any => "any".to_owned(),
        Type::String => "string".to_owned(),
        Type::Integer | Type::Number => "number".to_owned(),
        Type::Boolean => "boolean".to_owned(),
        Type::Null => "null".to_owned(),
        Type::List(items) => format!("Array<{}>", self::kind(items, objects)),
        Type::Dictionary(values) => format!("{{ [name: string]: {} }}", self::kind(values, objects)),
        Type::Object(index) => objects.get(*index).cloned().unwrap_or_else(|| "any".to_owned()),
        Type::Literals(values) => values.iter().map(literal).collect::<Vec<_>>().join(" | "),
        Type::Union(kinds) => {
            let kinds = kinds.iter().map(|each| self::kind(each, objects));
            kinds.collect::<Vec<_>>().join(" | ")
        }
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => string(text),
        other => other.to_string(),
    }
}

fn string(text: &str) -> String {
    quoted(text, |code| format!("\\u{{{code:x}}}"))
}

/// Writes a comment before a member of `tools`.
fn write_comment(text: &mut String, lines: &[String]) {
    match lines {
        [] => {}
        [line] => {
            let _ = writeln!(text, "  /** {} */", without_end(line));
        }
        lines => {
            text.push_str("  /**\n");
            for line in lines {
                let space = if line.is_empty() { "" } else { " " };
                let _ = writeln!(text, "   *{space}{}", without_end(line));
            }
            text.push_str("   */\n");
        }
    }
}

/// Escapes `*/` in a line, so that the line does not end the comment that contains it.
fn without_end(line: &str) -> String {
    line.replace("*/", "*\\/")
}
