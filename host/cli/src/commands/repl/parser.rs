//! Checks whether an input is complete. The language's own parser decides, in a separate guest, so that the session of
//! the input is not affected.

use glovebox::{Diagnostic, Outcome, Request, Sandbox};

use super::{
    dialect::Dialect,
    directive,
    indent::{without_mark, without_trailing_indent},
};

const PYTHON: &str = include_str!("parser.py");

/// Possible continuations of incomplete JavaScript: another line, the end of a template, the end of a comment.
const JAVASCRIPT_SUFFIXES: [&str; 3] = ["\n", "\n`", "\n*/"];

/// Distinguishes complete input from incomplete input.
#[derive(Clone, Debug)]
pub(super) struct Parser {
    /// For the session's runtime, under the default policy: without host directories.
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
                // reached the end.
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
