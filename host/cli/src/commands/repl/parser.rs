//! Checks whether an input is complete. The language's own parser decides, in a separate guest, so that the session is
//! not affected. Also computes the indentation of continuation lines.

use glovebox::{Diagnostic, Outcome, Request, Sandbox};

use super::{
    directive,
    tokens::{Dialect, Token, TokenKind, tokens},
};

const PYTHON: &str = include_str!("parser.py");

/// Possible continuations of incomplete JavaScript: another line, the end of a template, or the end of a comment.
const JAVASCRIPT_SUFFIXES: [&str; 3] = ["\n", "\n`", "\n*/"];

/// A parser that distinguishes complete input from incomplete input.
#[derive(Clone, Debug)]
pub(super) struct Parser {
    /// A sandbox with the session's runtime and the default policy, which grants no host directories.
    sandbox: Sandbox,
    dialect: Dialect,
}

impl Parser {
    pub(super) fn new(sandbox: Sandbox, dialect: Dialect) -> Self {
        Self { sandbox, dialect }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns `true` if the Enter key ends an input that was typed at a terminal.
    pub(super) fn accepts(&self, typed: &str) -> bool {
        let typed = without_mark(typed);
        typed.trim().is_empty() || directive::is_one(typed) || !self.needs_more(without_trailing_indent(typed))
    }

    /// Returns `true` for an incomplete input. An invalid input is complete: running it reports the error.
    pub(super) fn needs_more(&self, typed: &str) -> bool {
        match self.dialect {
            Dialect::Python => {
                let checked = self.sandbox.run(Request::new(PYTHON).stdin(typed.as_bytes()));
                checked.is_ok_and(|execution| execution.outcome == Outcome::Exited { code: 0 })
            }
            Dialect::JavaScript | Dialect::TypeScript => {
                // The parser reports the position of its error. If appending text moves the position, the parser had
                // reached the end of the input.
                let Some(at) = self.first_error(typed) else { return false };
                JAVASCRIPT_SUFFIXES.iter().any(|suffix| self.first_error(&format!("{typed}{suffix}")) != Some(at))
            }
        }
    }

    /// Returns `true` if the parser accepts `source`.
    pub(super) fn is_valid(&self, source: &str) -> bool {
        self.first_error(source).is_none()
    }

    fn first_error(&self, source: &str) -> Option<(u32, u32)> {
        let diagnostics = self.sandbox.validate_request(self.dialect.request(source)).unwrap_or_default();
        diagnostics.first().map(|Diagnostic { line, column, .. }| (*line, *column))
    }
}

/// The indentation of one level.
pub(super) const INDENT: &str = "    ";

/// Returns the indentation of the line after `typed`.
pub(super) fn next_indent(dialect: Dialect, typed: &str) -> String {
    let tokens = tokens(dialect, typed);
    if tokens.last().is_some_and(|token| token.is_open && token.end() == typed.len()) {
        // The line continues a string.
        return String::new();
    }
    let line_start = typed.rfind('\n').map_or(0, |at| at + 1);
    let line = tokens.iter().filter(|token| token.start >= line_start && token.kind != TokenKind::Comment);
    let line: Vec<&Token<'_>> = line.collect();
    let indent = leading_blank(typed.get(line_start..).unwrap_or_default());
    let begins_block = dialect == Dialect::Python && line.last().is_some_and(|token| token.is_sign(":"));
    if begins_block || opens_bracket(&line) {
        return format!("{indent}{INDENT}");
    }
    let ends_block = dialect == Dialect::Python && line.first().is_some_and(|token| leaves_block(token));
    if ends_block { dedented(indent).to_owned() } else { indent.to_owned() }
}

/// Returns the whitespace at the beginning of a line.
fn leading_blank(line: &str) -> &str {
    let length = line.len() - line.trim_start().len();
    line.get(..length).unwrap_or_default()
}

/// Returns the indentation of the cursor's line, if it is a continuation line with only blanks before the cursor.
pub(super) fn blank_before_cursor(typed: &str) -> Option<&str> {
    let (_, line) = typed.rsplit_once('\n')?;
    (!line.is_empty() && line.trim().is_empty()).then_some(line)
}

/// Returns the indentation reduced by one level.
pub(super) fn dedented(indent: &str) -> &str {
    let shorter = indent.strip_suffix(INDENT).or_else(|| indent.strip_suffix('\t'));
    shorter.unwrap_or_else(|| indent.trim_end_matches(' '))
}

/// Returns the input without the indentation of a blank last line, so that the parser sees an empty line.
fn without_trailing_indent(typed: &str) -> &str {
    blank_before_cursor(typed).and_then(|blank| typed.strip_suffix(blank)).unwrap_or(typed)
}

/// Returns `true` if a line opens a bracket that it does not close.
fn opens_bracket(line: &[&Token<'_>]) -> bool {
    let (mut depth, mut lowest) = (0_i64, 0_i64);
    for token in line.iter().filter(|token| token.kind == TokenKind::Sign) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        lowest = lowest.min(depth);
    }
    depth > lowest
}

/// Returns `true` if a statement that begins with this token ends its block.
fn leaves_block(token: &Token<'_>) -> bool {
    token.kind == TokenKind::Keyword && matches!(token.text, "return" | "pass" | "break" | "continue" | "raise")
}

/// Returns a single-line input without the leading space that excludes it from the history. Python would read the space
/// as indentation. Returns a multi-line input unchanged.
pub(super) fn without_mark(text: &str) -> &str {
    if text.contains('\n') { text } else { text.trim_start() }
}

#[cfg(test)]
mod tests {
    use super::{blank_before_cursor, dedented, next_indent, without_mark, without_trailing_indent};
    use crate::commands::repl::tokens::Dialect::{self, JavaScript, Python};

    #[test]
    fn continuation_lines_are_indented() {
        for (dialect, typed, indent) in [
            (Python, "def f():", "    "),
            (Python, "def f():  # why", "    "),
            (Python, "def f():\n    if x:", "        "),
            (Python, "def f():\n    x = 1", "    "),
            (Python, "def f():\n    return 1", ""),
            (Python, "def f():\n    if x:\n        pass", "    "),
            (Python, "x = [", "    "),
            (Python, "x = [\n    1,", "    "),
            (Python, "x = [\n    1,\n]", ""),
            (Python, "x = {1: 2", "    "),
            (Python, "x = '''a:", ""),
            (Python, "if x:\n\ty", "\t"),
            (JavaScript, "function f() {", "    "),
            (JavaScript, "if (x) {\n    y\n} else {", "    "),
            (JavaScript, "f(() => {\n    x\n})", ""),
            (JavaScript, "f(() => ({", "    "),
            (JavaScript, "const a = `{", ""),
            (JavaScript, "'{' +", ""),
        ] {
            assert_eq!(next_indent(dialect, typed), indent, "{typed}");
        }
        assert_eq!(next_indent(Dialect::TypeScript, "interface A {"), "    ");
    }

    #[test]
    fn indentation_is_four_spaces_or_a_tab() {
        for (indent, less) in [("", ""), ("  ", ""), ("    ", ""), ("        ", "    "), ("\t\t", "\t"), ("     ", " ")]
        {
            assert_eq!(dedented(indent), less, "{indent:?}");
        }
    }

    #[test]
    fn a_blank_line_is_empty_to_the_parser() {
        assert_eq!(without_trailing_indent("if x:\n    y\n    "), "if x:\n    y\n");
        assert_eq!(without_trailing_indent("if x:\n    y"), "if x:\n    y");
        assert_eq!(without_trailing_indent("   "), "   ");
        assert_eq!(blank_before_cursor("f(\n  "), Some("  "));
        for typed in ["  ", "f(\n", "f(\n  x"] {
            assert_eq!(blank_before_cursor(typed), None, "{typed:?}");
        }
    }

    #[test]
    fn hiding_mark_is_not_indentation() {
        assert_eq!(without_mark("  x = 1"), "x = 1");
        assert_eq!(without_mark("if x:\n    y"), "if x:\n    y");
        assert_eq!(without_mark("  [1,\n  2]"), "  [1,\n  2]");
    }
}
