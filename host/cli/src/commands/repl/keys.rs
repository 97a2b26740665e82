//! Keys that accept an input, indent and dedent.

use std::sync::{Arc, Mutex, PoisonError};

use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, Helper, KeyCode, KeyEvent, Modifiers,
    Movement, RepeatCount, history::History,
};

use super::{
    indent::{blank_before_cursor, dedented, next_indent},
    parser::Parser,
};

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
    use super::TypedBracket;

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
