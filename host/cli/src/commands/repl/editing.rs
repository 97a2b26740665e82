//! Callbacks of the line editor: keys that accept an input, indent and dedent, and colours of the input line.

use std::{
    borrow::Cow,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use anstyle::{AnsiColor, Style};
use rustyline::{
    Cmd, ConditionalEventHandler, Context, Editor, Event, EventContext, EventHandler, Helper, KeyCode, KeyEvent,
    Modifiers, Movement, RepeatCount,
    completion::Completer as Complete,
    highlight::{CmdKind, Highlighter},
    hint::Hinter,
    history::History,
    validate::Validator,
};

use super::{
    completer::{Completer, Completions},
    dialect::Dialect,
    directive,
    parser::{Parser, blank_before_cursor, dedented, next_indent},
    tokens::{Kind, tokens},
};

/// Completion and colours.
pub(super) struct Editing {
    pub(super) completer: Completer,
    pub(super) bracket: TypedBracket,
}

/// Only the Enter key validates.
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

/// Returns the input with colours. Only escape sequences are added.
fn highlighted(dialect: Dialect, input: &str) -> String {
    let mut out = String::with_capacity(input.len() * 2);
    let mut done = 0;
    for token in tokens(dialect, input) {
        let Some(style) = style(token.kind) else { continue };
        out.push_str(input.get(done..token.start).unwrap_or_default());
        let _ = write!(out, "{style}{}{style:#}", token.text);
        done = token.end();
    }
    out.push_str(input.get(done..).unwrap_or_default());
    out
}

fn style(kind: Kind) -> Option<Style> {
    match kind {
        Kind::Keyword => Some(AnsiColor::Magenta.on_default()),
        Kind::Text => Some(AnsiColor::Green.on_default()),
        Kind::Number => Some(AnsiColor::Cyan.on_default()),
        Kind::Comment => Some(Style::new().dimmed()),
        Kind::Name | Kind::Sign => None,
    }
}

/// A closing bracket that begins a line. Completion is the only command of the editor that replaces text. The key
/// therefore requests completion, and the result is the bracket with less indentation.
#[derive(Clone, Debug, Default)]
pub(super) struct TypedBracket(Arc<Mutex<Option<char>>>);

impl TypedBracket {
    fn set(&self, bracket: char) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bracket);
    }

    /// Returns position and text of the replacement, once.
    pub(super) fn take(&self, typed: &str) -> Option<(usize, String)> {
        let bracket = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let indent = blank_before_cursor(typed)?;
        Some((typed.len() - indent.len(), format!("{}{bracket}", dedented(indent))))
    }
}

/// Binds the keys.
pub(super) fn bind<H: Helper, I: History>(editor: &mut Editor<H, I>, parser: &Parser, typed: &TypedBracket) {
    for key in [KeyEvent(KeyCode::Enter, Modifiers::NONE), KeyEvent::ctrl('J')] {
        editor.bind_sequence(key, handler(Enter { parser: parser.clone() }));
    }
    editor.bind_sequence(KeyEvent(KeyCode::Backspace, Modifiers::NONE), handler(Backspace));
    for bracket in [')', ']', '}'] {
        let key = KeyEvent(KeyCode::Char(bracket), Modifiers::NONE);
        editor.bind_sequence(key, handler(ClosingBracket { bracket, typed: typed.clone() }));
    }
}

fn handler(handler: impl ConditionalEventHandler + 'static) -> EventHandler {
    EventHandler::Conditional(Box::new(handler))
}

fn before_cursor<'c>(context: &'c EventContext<'_>) -> &'c str {
    context.line().get(..context.pos()).unwrap_or_default()
}

/// Accepts a complete input; otherwise starts another line, with indentation.
struct Enter {
    parser: Parser,
}

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        if self.parser.accepts(context.line()) {
            return Some(Cmd::AcceptLine);
        }
        let indent = next_indent(self.parser.dialect(), before_cursor(context));
        Some(Cmd::Insert(1, format!("\n{indent}")))
    }
}

/// Removes a whole level of indentation.
struct Backspace;

impl ConditionalEventHandler for Backspace {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        blank_before_cursor(before_cursor(context)).map(|_| Cmd::Dedent(Movement::WholeLine))
    }
}

/// Moves a bracket that begins a line one level to the left.
struct ClosingBracket {
    bracket: char,
    typed: TypedBracket,
}

impl ConditionalEventHandler for ClosingBracket {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        blank_before_cursor(before_cursor(context))?;
        self.typed.set(self.bracket);
        Some(Cmd::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::dialect::Dialect, TypedBracket, highlighted};

    #[test]
    fn words_strings_numbers_and_comments_have_colours() {
        assert_eq!(
            highlighted(Dialect::Python, "if x: y = 'a', 1  # b"),
            "\x1b[35mif\x1b[0m x: y = \x1b[32m'a'\x1b[0m, \x1b[36m1\x1b[0m  \x1b[2m# b\x1b[0m"
        );
        assert_eq!(highlighted(Dialect::JavaScript, "x.if"), "x.if");
    }

    #[test]
    fn only_escape_sequences_are_added() {
        for input in ["", "  def f():\n    return 'a\n", "x = \"\"\"\n1", "é = 1"] {
            let plain = anstream::adapter::strip_str(&highlighted(Dialect::Python, input)).to_string();
            assert_eq!(plain, input);
        }
    }

    #[test]
    fn a_bracket_that_begins_a_line_is_dedented() {
        let typed = TypedBracket::default();
        assert_eq!(typed.take("f(\n    "), None);
        typed.set(')');
        assert_eq!(typed.take("f(\n        "), Some((3, "    )".to_owned())));
        assert_eq!(typed.take("f(\n        "), None);
        typed.set(')');
        assert_eq!(typed.take("f(x"), None);
    }
}
