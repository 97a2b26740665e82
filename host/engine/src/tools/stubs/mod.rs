//! Typed declarations of tools: a Python stub or TypeScript declarations.
//!
//! Schemas, names and descriptions can come from untrusted servers. Their number, depth and size are limited. Their
//! text is escaped, so every declaration is valid source text.
//!
//! | file | content |
//! |---|---|
//! | `types` | the types of a tool's arguments and result, from its JSON Schemas |
//! | `python` | Python source text |
//! | `typescript` | TypeScript source text |

mod python;
mod types;
mod typescript;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use glovebox_vfs::{is_control, is_hidden};
use types::ToolTypes;

use super::{Tool, ToolDefinitionError, check_tools};
use crate::Language;
pub(crate) use python::is_keyword as is_python_keyword;

/// Maximum length of one tool's declarations in bytes.
const MAX_TOOL_BYTES: usize = 64 << 10;

/// Maximum length of all typed declarations in bytes. Without types, a tool's declaration is shorter than 1 KiB.
const MAX_BYTES: usize = 1 << 20;

/// Maximum length of a tool's description in characters.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

/// Returns typed declarations of the tools, for editors, type checkers and models: a stub (`.pyi`) for Python, and
/// TypeScript declarations (`.d.ts`) for JavaScript. They declare the global `tools` of scripts.
///
/// The types come from the tools' schemas ([`Tool::schema`], [`Tool::result_schema`]), which can be untrusted. A type
/// that has no equivalent, or exceeds a limit, is declared as `Any` or `any`. For each tool, at most 2,000 schemas, 100
/// object types with 100 members each, and 8 levels of nesting within a type are declared. Descriptions are shortened
/// to 2,000 characters. A tool whose declarations exceed 64 KiB, or 1 MiB together with the declarations of the tools
/// before it, is declared without types or a description.
///
/// # Errors
/// Fails like [`check_tools`], if scripts could not use these tools.
///
/// ```
/// use glovebox::{Language, Tool, tool_stubs};
/// use serde_json::json;
///
/// let schema = json!({ "properties": { "city": { "type": "string" } }, "required": ["city"] });
/// let weather = Tool::new("weather", "Returns the weather.").schema(schema).stepped();
/// let stub = tool_stubs(&[weather], Language::Python)?;
/// assert!(stub.contains("def __call__(self, city: str) -> Any:"));
/// # Ok::<(), glovebox::ToolDefinitionError>(())
/// ```
pub fn tool_stubs(tools: &[Tool], language: Language) -> Result<String, ToolDefinitionError> {
    check_tools(tools)?;
    Ok(match language {
        Language::Python => python::stub(tools),
        Language::JavaScript => typescript::stub(tools),
    })
}

/// The declarations of one or more tools.
#[derive(Default)]
struct Declaration {
    /// The types, declared at the top level.
    types: String,
    /// The members of `tools`.
    members: String,
}

impl Declaration {
    fn len(&self) -> usize {
        self.types.len().saturating_add(self.members.len())
    }
}

/// Declares tools with `declare`, which receives each tool's name, description and types. Omits types and descriptions
/// over the limits.
fn declare_all(tools: &[Tool], mut declare: impl FnMut(&str, &str, &ToolTypes) -> Declaration) -> Declaration {
    let mut all = Declaration::default();
    let mut bytes_left = MAX_BYTES;
    for tool in tools {
        let mut declaration = declare(&tool.name, &tool.description, &ToolTypes::of(tool));
        if declaration.len() > MAX_TOOL_BYTES.min(bytes_left) {
            declaration = declare(&tool.name, "", &ToolTypes::untyped(&tool.name));
        } else {
            bytes_left = bytes_left.saturating_sub(declaration.len());
        }
        all.types.push_str(&declaration.types);
        all.members.push_str(&declaration.members);
    }
    all
}

/// The names of types in one document.
#[derive(Default)]
struct TypeNames {
    used: BTreeSet<String>,
    /// The last number that was appended to a name.
    last: usize,
}

impl TypeNames {
    /// Returns `name`, with a number appended if the name is already in use.
    fn unique(&mut self, name: String) -> String {
        let mut unique = name.clone();
        while !self.used.insert(unique.clone()) {
            self.last += 1;
            unique = format!("{name}_{}", self.last);
        }
        unique
    }
}

/// Returns `true` if a name consists of ASCII letters, digits and underscores, and does not begin with a digit.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns at most `max_chars` characters of a string on one line, without control characters and invisible characters.
fn one_line(text: &str, max_chars: usize) -> String {
    let clipped = text.chars().take(max_chars);
    let spaced = clipped.map(|c| if is_control(c) { ' ' } else { c });
    let visible: String = spaced.filter(|c| !is_hidden(*c)).collect();
    let mut line = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().nth(max_chars).is_some() {
        line.push('…');
    }
    line
}

/// Returns the lines of a description, shortened, without indentation or repeated empty lines.
fn description_lines(description: &str) -> Vec<String> {
    let clipped: String = description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let mut lines: Vec<String> = Vec::new();
    for line in clipped.lines().map(|line| one_line(line, MAX_DESCRIPTION_CHARS)) {
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line);
        }
    }
    if lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    if let Some(last) = lines.last_mut().filter(|_| clipped.len() < description.len()) {
        last.push('…');
    }
    lines
}

/// Returns `text` as a string literal in double quotes. `escape` formats the code of an invisible character.
fn quoted(text: &str, escape: fn(u32) -> String) -> String {
    let mut literal = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            c if is_hidden(c) => literal.push_str(&escape(u32::from(c))),
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}
