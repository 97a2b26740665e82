//! Reads the checker's output.

use glovebox::Diagnostic;
use serde_json::Value;

use super::{SCRIPT, checker::rules};

/// Maximum number of diagnostics of one script, not counting those that valid code causes. Later errors are usually
/// consequences of the first error.
pub(super) const MAX_DIAGNOSTICS: usize = 100;

/// The start of a tool's method in the checker's messages.
const TOOL_METHOD: &str = "bound method `_";

/// The code of a diagnostic that reports a fault of the checker.
const FAULT: &str = "panic";

/// Maximum length of a message in characters.
const MAX_MESSAGE_CHARS: usize = 500;

/// Parses the output: a line `PATH:LINE:COLUMN: error[RULE] MESSAGE` for each diagnostic, and other lines. Leaves out
/// syntax errors, which the interpreter's parser reports, and which the checker also reports for a top-level `await`.
/// `tools` are the names of the tools. The caller must limit the length of the output.
pub(super) fn parse(output: &str, tools: &[String]) -> Vec<Diagnostic> {
    output.lines().filter_map(|line| diagnostic(line, tools)).collect()
}

/// Reads the diagnostics in the answer of a checker that stays running, like [`parse`]. Returns `None` if the answer is
/// malformed or reports a fault of the checker.
pub(super) fn from_server(answer: &Value, tools: &[String]) -> Option<Vec<Diagnostic>> {
    let mut found = Vec::new();
    for item in answer.get("items")?.as_array()? {
        let rule = item.get("code")?.as_str()?;
        if rule == FAULT {
            return None;
        }
        let start = item.pointer("/range/start")?;
        // The protocol counts from zero.
        let position = |name: &str| u32::try_from(start.get(name)?.as_u64()?).ok()?.checked_add(1);
        // All lines after the first contain advice.
        let message = item.get("message")?.as_str()?.lines().next()?;
        found.extend(finding(position("line")?, position("character")?, rule, message, tools));
    }
    Some(found)
}

fn diagnostic(line: &str, tools: &[String]) -> Option<Diagnostic> {
    let ReportedError { line, column, rule, message } = ReportedError::read(line)?;
    finding(line, column, rule, message, tools)
}

/// An error in the script, as the checker reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportedError<'a> {
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) rule: &'a str,
    pub(super) message: &'a str,
}

impl<'a> ReportedError<'a> {
    /// Reads a line of the output. Returns `None` for other lines, and for warnings.
    pub(super) fn read(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once(SCRIPT)?;
        let (place, rest) = rest.strip_prefix(':')?.split_once(": error[")?;
        let (line, column) = place.split_once(':')?;
        let (line, column) = (line.parse().ok()?, column.parse().ok()?);
        let (rule, message) = rest.split_once("] ")?;
        Some(Self { line, column, rule, message })
    }
}

/// Returns a diagnostic for the violation of a rule, if the rule is enabled and the code cannot be valid.
fn finding(line: u32, column: u32, rule: &str, message: &str, tools: &[String]) -> Option<Diagnostic> {
    if !rules().any(|known| known == rule) || can_be_valid(message) {
        return None;
    }
    let mut message = rename_classes(message, tools);
    if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE_CHARS) {
        message.truncate(end);
        message.push('…');
    }
    Some(Diagnostic { line, column, message: format!("{message} [{rule}]") })
}

/// Returns a message in which the names of the declared classes are replaced with the names that scripts use.
fn rename_classes(message: &str, tools: &[String]) -> String {
    let message = message.replace("Object of type `_Tools`", "`tools`");
    let mut parts = message.split(TOOL_METHOD);
    let mut renamed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let call = part.split_once('`').and_then(|(method, rest)| Some((tool_call(method, tools)?, rest)));
        let rest = if let Some((call, rest)) = call {
            renamed.push_str(&call);
            rest
        } else {
            renamed.push_str(TOOL_METHOD);
            part
        };
        renamed.push_str(rest);
    }
    renamed
}

/// Returns the text with which a script calls a method of a tool's class, such as `tools.add.aio`, in backticks.
/// `method` does not have the class's leading underscore.
fn tool_call(method: &str, tools: &[String]) -> Option<String> {
    let (tool, name) = method.rsplit_once('.')?;
    let name = match name {
        "__call__" => "",
        "aio" => ".aio",
        _ => return None,
    };
    tools.iter().any(|known| known == tool).then(|| format!("`tools.{tool}{name}`"))
}

/// Returns `true` if the reported code can be valid. A value can have several types, such as `str | None`, of which
/// only some fail. A value with the type `object` can have any type, for example an attribute of a module with a
/// function `__getattr__`. An argument's type can also differ only in ways that do not affect the call.
fn can_be_valid(message: &str) -> bool {
    let mut parts = message.split('`');
    while let (Some(before), Some(quoted)) = (parts.next(), parts.next()) {
        if !before.ends_with("Expected ") && (quoted == "object" || is_union(quoted)) {
            return true;
        }
    }
    // A callable can be a function, which has a `__name__`, even if its type does not show this.
    message.contains("may not be") || message.ends_with("has no attribute `__name__`") || is_valid_argument(message)
}

/// Returns `true` for a type such as `str | int`, but not `list[str | int]`.
fn is_union(types: &str) -> bool {
    let mut depth = 0_usize;
    types.split(' ').any(|word| {
        let is_separator = word == "|" && depth == 0;
        depth = depth.saturating_add(word.matches(['[', '(']).count()).saturating_sub(word.matches([']', ')']).count());
        is_separator && word != types
    })
}

/// Returns `true` if the reported argument can be valid when the script runs, for example a list of integers instead of
/// floats. In calls to tools, values whose JSON can match the schema are also valid. These are tuples instead of lists,
/// dictionary variables instead of objects with known members, and strings instead of literals.
fn is_valid_argument(message: &str) -> bool {
    let Some((callee, types)) = message.split_once(" is incorrect: Expected `") else { return false };
    let Some((expected, found)) = types.split_once("`, found `") else { return false };
    let Some(found) = found.strip_suffix('`') else { return false };
    let is_tool = callee.starts_with("Argument to bound method `_");
    let text = found.replace("LiteralString", "str").replace('*', "");
    let numbers = with_numbers(&text);
    let is_object = |text: &str| text.starts_with('_') || text.contains("[_");
    // Searched once, because an untrusted type can be long and have many alternatives.
    let has_dictionary = found.contains("dict[");
    expected.split(" | ").chain([expected]).any(|expected| {
        let is_container = expected.contains('[') && (expected == text || expected == numbers);
        let is_dictionary = has_dictionary && is_object(expected);
        let is_tuple = expected.starts_with("list[") && found.starts_with("tuple[");
        let is_string = expected.starts_with("Literal[") && text == "str";
        is_container || (is_tool && (is_dictionary || is_tuple || is_string))
    })
}

/// Replaces the type `int` with `float`.
fn with_numbers(types: &str) -> String {
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    let words = types.split_inclusive(is_end).map(|word| match word.strip_prefix("int") {
        Some(end) if end.chars().all(is_end) => format!("float{end}"),
        _ => word.to_owned(),
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(lines: &[&str]) -> Vec<(u32, u32, String)> {
        let tools = ["add".to_owned(), "find".to_owned()];
        let diagnostics = parse(&lines.join("\n"), &tools).into_iter();
        diagnostics.map(|Diagnostic { line, column, message }| (line, column, message)).collect()
    }

    #[test]
    fn lines_are_parsed_and_classes_renamed() {
        let found = parsed(&[
            "/tmp/x/__main__.py:5:1: error[missing-attribute] Object of type `_Tools` has no attribute `ad`",
            "../x/__main__.py:7:24: error[unknown-argument] Argument `c` does not match any known parameter of bound \
             method `_add.__call__`",
            "/tmp/x/__main__.py:8:2: error[missing-argument] No argument provided for required parameter `a` of bound \
             method `_add.aio`",
            "Found 3 diagnostics",
        ]);
        let expected: [(u32, u32, &str); 3] = [
            (5, 1, "`tools` has no attribute `ad` [missing-attribute]"),
            (7, 24, "Argument `c` does not match any known parameter of `tools.add` [unknown-argument]"),
            (8, 2, "No argument provided for required parameter `a` of `tools.add.aio` [missing-argument]"),
        ];
        assert_eq!(found, expected.map(|(line, column, message)| (line, column, message.to_owned())));
    }

    #[test]
    fn only_methods_of_tools_are_renamed() {
        let tools = ["add".to_owned()];
        for (message, renamed) in [
            ("bound method `_add.__call__` and bound method `_add.aio`.", "`tools.add` and `tools.add.aio`."),
            ("bound method `_ad.__call__` and bound method `_add.other`", ""),
            ("bound method `add.__call__` of bound method `_add.__call__", ""),
        ] {
            let expected = if renamed.is_empty() { message } else { renamed };
            assert_eq!(rename_classes(message, &tools), expected);
        }
    }

    #[test]
    fn other_lines_are_left_out() {
        let lines = [
            "",
            "All checks passed!",
            "/tmp/x/__main__.py:1:5: error[invalid-syntax] `await` outside of an asynchronous function",
            "/tmp/x/__main__.py:1:5: warning[unused-awaitable] x",
            "/tmp/x/__main__.py:1: error[missing-argument] x",
            "/tmp/x/__main__.py:1:99999999999: error[missing-argument] x",
            "/tmp/x/__main__.py:1:5: error[missing-argument",
            "/tmp/x/other.py:1:5: error[missing-argument] x",
        ];
        assert!(parsed(&lines).is_empty());
    }

    #[test]
    fn objects_of_unknown_type_can_be_valid() {
        for (message, is_reported) in [
            ("Object of type `object` is not callable", false),
            ("Object of type `object` has no attribute `x`", false),
            ("Argument to function `f` is incorrect: Expected `int`, found `object`", false),
            ("Argument to function `f` is incorrect: Expected `object`, found `<special form>`", true),
            ("Too many positional arguments to bound method `object.__init__`: expected 1, got 2", true),
            ("Object of type `list[object]` has no attribute `x`", true),
        ] {
            let found = parsed(&[&format!("/x/__main__.py:1:1: error[missing-attribute] {message}")]);
            assert_eq!(found.len(), usize::from(is_reported), "{message}");
        }
    }

    #[test]
    fn length_of_messages_is_limited() {
        let line = format!("/x/__main__.py:1:1: error[missing-argument] {}", "é".repeat(10_000));
        let found = parse(&line, &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, format!("{}… [missing-argument]", "é".repeat(MAX_MESSAGE_CHARS)));
    }

    #[test]
    fn answers_of_a_server_are_parsed() {
        let item = |line: u64, column: u64, code: &str, message: &str| {
            json!({
                "code": code, "message": message, "severity": 1,
                "range": { "start": { "line": line, "character": column }, "end": { "line": line, "character": 99 } },
            })
        };
        let tools = ["add".to_owned()];
        let parsed = |items: &[Value]| from_server(&json!({ "kind": "full", "items": items }), &tools);
        let (code, message) = ("missing-argument", "No argument for `a` of bound method `_add.aio`");
        let found = parsed(&[
            item(0, 4, code, &format!("{message}\n\ninfo: Advice")),
            item(1, 0, "invalid-syntax", "`await` outside of an asynchronous function"),
            item(2, 0, code, "Object of type `int | None` may not be callable"),
        ]);
        let expected = Diagnostic {
            line: 1,
            column: 5,
            message: "No argument for `a` of `tools.add.aio` [missing-argument]".to_owned(),
        };
        assert_eq!(found, Some(vec![expected]));
        assert_eq!(parsed(&[]), Some(Vec::new()));
        // A fault of the checker, or a malformed answer.
        let line = u64::from(u32::MAX);
        for faulty in [item(0, 0, "panic", "x"), item(line, 0, code, "x"), item(0, 0, code, ""), json!({}), json!(1)] {
            assert_eq!(parsed(std::slice::from_ref(&faulty)), None, "{faulty}");
        }
        for answer in [json!(null), json!({ "kind": "unchanged" }), json!({ "items": {} })] {
            assert_eq!(from_server(&answer, &tools), None, "{answer}");
        }
    }

    #[test]
    fn uncertain_failures_are_left_out() {
        for (message, is_left_out) in [
            ("Object of type `Unknown | None` may not be iterable", true),
            ("Operator `+` is not supported between objects of type `int | None` and `Literal[1]`", true),
            ("Operator `|` is not supported between objects of type `int` and `str`", false),
            ("Object of type `(...) -> Unknown` has no attribute `__name__`", true),
            ("Object of type `list[str | None]` has no attribute `push`", false),
            ("Object of type `_Tools` has no attribute `x`", false),
            ("Argument to function `len` is incorrect: Expected `Sized | None`, found `Literal[5]`", false),
            ("Argument to function `int` is incorrect: Expected `str | None`, found `str | list[str]`", true),
        ] {
            assert_eq!(can_be_valid(message), is_left_out, "{message}");
        }
    }

    #[test]
    fn arguments_with_the_json_of_the_schema_are_accepted() {
        let message = |method: &str, expected: &str, found: &str| {
            format!("Argument to bound method `{method}` is incorrect: Expected `{expected}`, found `{found}`")
        };
        // Expected and found types, and whether the found types are accepted in calls to tools and to other functions.
        for (expected, found, by_tools, by_others) in [
            ("list[float]", "list[int]", true, true),
            ("list[float] | None", "list[int]", true, true),
            ("list[float | None]", "list[int | None]", true, true),
            ("dict[str, float]", "dict[str, int]", true, true),
            ("list[str]", "list[LiteralString]", true, true),
            ("str", "str | None", true, true),
            ("list[float]", "tuple[float*, float*]", true, false),
            ("_add_place", "dict[str, float]", true, false),
            ("list[_add_place]", "list[dict[str, float]]", true, false),
            ("list[_add_place]", "list[_add_place | dict[str, float]]", true, false),
            ("Literal[\"c\", \"f\"]", "str", true, false),
            ("Literal[\"c\", \"f\"]", "Literal[\"k\"]", false, false),
            ("float", "Literal[\"x\"]", false, false),
            ("int", "float*", false, false),
            ("list[int]", "list[float]", false, false),
            ("list[float]", "list[integer]", false, false),
            ("list[float]", "list[str]", false, false),
            ("list[float]", "list[float | str]", false, false),
            ("list[str]", "str", false, false),
            ("_add_place", "Literal[3]", false, false),
        ] {
            let types = format!("{expected} {found}");
            assert_eq!(can_be_valid(&message("_add.__call__", expected, found)), by_tools, "{types}");
            assert_eq!(can_be_valid(&message("list.append", expected, found)), by_others, "{types}");
        }
    }
}
