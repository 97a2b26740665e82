//! Whether what was typed so far is all of it. The language's own parser says so, in a guest of its own: the session that
//! the text is for is not touched.

use glovebox::{Diagnostic, Language, Outcome, Request, Sandbox};

const PYTHON: &str = include_str!("complete.py");

/// What may follow JavaScript that is cut off: another line, the end of a template, the end of a comment.
const JAVASCRIPT_SUFFIXES: [&str; 3] = ["\n", "\n`", "\n*/"];

/// Tells complete input from input that goes on.
#[derive(Clone, Debug)]
pub(super) struct Parser {
    /// Of the session's runtime, under the default policy: no host directory is seen there.
    sandbox: Sandbox,
}

impl Parser {
    pub(super) fn new(sandbox: Sandbox) -> Self {
        Self { sandbox }
    }

    /// Whether `typed` is the beginning of something. What is wrong in itself is not: running it says what is wrong.
    pub(super) fn needs_more(&self, typed: &str) -> bool {
        match self.sandbox.language() {
            Language::Python => {
                let checked = self.sandbox.run(Request::new(PYTHON).stdin(typed.as_bytes()));
                checked.is_ok_and(|execution| execution.outcome == Outcome::Exited { code: 0 })
            }
            Language::JavaScript => {
                // The parser names the place it got to. Where that moves when something follows, it had got to the end.
                let Some(at) = self.first_error(typed) else { return false };
                JAVASCRIPT_SUFFIXES.iter().any(|suffix| self.first_error(&format!("{typed}{suffix}")) != Some(at))
            }
        }
    }

    fn first_error(&self, source: &str) -> Option<(u32, u32)> {
        let diagnostics = self.sandbox.validate(source).unwrap_or_default();
        diagnostics.first().map(|Diagnostic { line, column, .. }| (*line, *column))
    }
}
