//! Callbacks of the line editor.

use std::borrow::Cow;

use rustyline::{
    Context, Helper,
    completion::Completer as Complete,
    highlight::{CmdKind, Highlighter},
    hint::Hinter,
    validate::Validator,
};

use super::{
    completer::{Completer, Completions},
    directive,
    highlight::highlighted,
    keys::TypedBracket,
};

/// Completion and colours.
pub(super) struct Editing {
    pub(super) completer: Completer,
    pub(super) bracket: TypedBracket,
}

/// Only the Enter key validates: see [`keys`](super::keys).
impl Validator for Editing {}

impl Complete for Editing {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, context: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..pos).unwrap_or(line);
        if let Some((start, text)) = self.bracket.take(typed) {
            return Ok((start, vec![text]));
        }
        let Completions { start, texts } = self.completer.completions(typed, context.history());
        Ok((start, texts))
    }
}

impl Hinter for Editing {
    type Hint = String;
}

impl Highlighter for Editing {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if directive::is_one(line) {
            Cow::Borrowed(line)
        } else {
            Cow::Owned(highlighted(self.completer.dialect, line))
        }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl Helper for Editing {}
