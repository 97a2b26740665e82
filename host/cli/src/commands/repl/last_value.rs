//! `_`, the value of the last input.
//!
//! A Python session binds `_` itself, after `last_value.py` has run once. A JavaScript expression is wrapped in an
//! assignment, which shifts the columns of the first line. Wrapped inputs therefore have a different file name in stack
//! traces, and [`unwrapped`] restores names and columns before the terminal shows them.

use super::{
    parser::Parser,
    tokens::{Dialect, Token, TokenKind, tokens},
};

/// Code that makes a Python session bind `builtins._`.
pub(super) const PYTHON_SETUP: &str = include_str!("last_value.py");

/// The text before a wrapped expression. A plain `_ = ` would fail if `_` is a constant, and would name an anonymous
/// function.
const PREFIX: &str = "globalThis._ = [(";
/// The text after a wrapped expression. Its line break ends a comment at the end of the input.
const SUFFIX: &str = "\n)][0]";

/// The file name of a wrapped input in stack traces.
const WRAPPED_FILE: &str = "<expression>";
/// The file name of any other input in stack traces.
const FILE: &str = "<sandbox>";

/// Returns the file name of a wrapped input.
pub(super) fn wrapped_name(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::TypeScript => "<expression>.ts",
        Dialect::Python | Dialect::JavaScript => WRAPPED_FILE,
    }
}

/// Wraps a JavaScript expression so that its value is assigned to `_`. Returns `None` for any other input.
pub(super) fn wrap_expression(parser: &Parser, input: &str) -> Option<String> {
    let expression = input.trim_end().trim_end_matches(';');
    let source = format!("{PREFIX}{expression}{SUFFIX}");
    let is_expression =
        may_be_expression(parser.dialect(), expression) && parser.is_valid(input) && parser.is_valid(&source);
    is_expression.then_some(source)
}

/// Returns `false` for inputs that have another meaning in parentheses, such as blocks and function declarations.
fn may_be_expression(dialect: Dialect, input: &str) -> bool {
    let tokens = tokens(dialect, input);
    let mut tokens = tokens.iter().filter(|token| token.kind != TokenKind::Comment).map(|token| token.text);
    match (tokens.next(), tokens.next()) {
        (None | Some("{" | "function" | "class"), _) | (Some("async"), Some("function")) => false,
        (Some(_), _) => true,
    }
}

/// Returns `true` if an input assigns `_`, or is a declaration that contains `_`.
pub(super) fn declares_last_value(dialect: Dialect, input: &str) -> bool {
    let tokens = tokens(dialect, input);
    let is_last_value = |token: &Token<'_>| token.kind == TokenKind::Name && token.text == "_";
    let declares = |token: &Token<'_>| {
        token.kind == TokenKind::Keyword
            && matches!(token.text, "let" | "const" | "var" | "class" | "function" | "import")
    };
    let is_assigned = tokens.windows(3).any(|window| match window {
        [name, sign, next] => is_last_value(name) && sign.is_sign("=") && !(next.is_sign("=") || next.is_sign(">")),
        _ => false,
    });
    is_assigned || tokens.first().is_some_and(declares) && tokens.iter().any(is_last_value)
}

/// Restores the file names and columns of wrapped inputs in a chunk of standard error.
pub(super) fn unwrapped(text: &[u8]) -> Vec<u8> {
    let Ok(text) = str::from_utf8(text) else { return text.to_vec() };
    let mut pieces = text.split(WRAPPED_FILE);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.push_str(FILE);
        match column_of_first_line(piece) {
            Some((before, column, after)) => {
                let column = column.saturating_sub(PREFIX.len()).max(1);
                out.push_str(&format!("{before}{column}{after}"));
            }
            None => out.push_str(piece),
        }
    }
    out.into_bytes()
}

/// Parses the `:1:COLUMN` that follows a file name. Returns the text before the column, the column, and the text after
/// it.
fn column_of_first_line(text: &str) -> Option<(&str, usize, &str)> {
    let extension = if text.starts_with(".ts") { ".ts".len() } else { 0 };
    let start = extension + ":1:".len();
    let before = text.get(..start).filter(|before| before.ends_with(":1:"))?;
    let left = text.get(start..)?;
    let digits = left.find(|c: char| !c.is_ascii_digit()).unwrap_or(left.len());
    Some((before, left.get(..digits)?.parse().ok()?, left.get(digits..)?))
}

#[cfg(test)]
mod tests {
    use super::{declares_last_value, may_be_expression, unwrapped};
    use crate::commands::repl::tokens::Dialect::{JavaScript, TypeScript};

    #[test]
    fn statements_that_look_like_expressions_are_not_wrapped() {
        for (input, is_expression) in [
            ("x + 1", true),
            ("/* a */ [1]", true),
            ("async () => 1", true),
            ("{}", false),
            ("// a\nfunction f() {}", false),
            ("class A {}", false),
            ("async function f() {}", false),
            ("// nothing", false),
        ] {
            assert_eq!(may_be_expression(JavaScript, input), is_expression, "{input}");
        }
    }

    #[test]
    fn declaration_of_the_last_value_is_recognised() {
        for (input, declares) in [
            ("_ = 1", true),
            ("const _ = require('x')", true),
            ("let { _ } = x", true),
            ("import _ from 'x'", true),
            ("_ == 1", false),
            ("_ => 1", false),
            ("_.x = 1", false),
            ("let x = 1", false),
            ("'_ = 1'", false),
        ] {
            assert_eq!(declares_last_value(JavaScript, input), declares, "{input}");
        }
        assert!(declares_last_value(TypeScript, "const _: number = 1"));
    }

    #[test]
    fn stack_trace_columns_match_the_typed_input() {
        for (printed, shown) in [
            ("    at <eval> (<expression>:1:18)\n", "    at <eval> (<sandbox>:1:1)\n"),
            ("    at f (<expression>.ts:1:20)\n", "    at f (<sandbox>.ts:1:3)\n"),
            ("    at f (<expression>:2:20)\n", "    at f (<sandbox>:2:20)\n"),
            ("    at f (<sandbox>:1:20)\n", "    at f (<sandbox>:1:20)\n"),
            ("<expression>:1:x", "<sandbox>:1:x"),
            ("<expression>:1:3", "<sandbox>:1:1"),
        ] {
            assert_eq!(String::from_utf8(unwrapped(printed.as_bytes())).unwrap(), shown);
        }
        assert_eq!(unwrapped(b"\xff<expression>"), b"\xff<expression>");
    }
}
