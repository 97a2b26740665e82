//! The source of input: a terminal with line editing and a history, or a file or pipe, which is read line by line.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{self, BufRead, Read},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use glovebox::Session;
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Config, Context, Editor, Event, EventContext,
    EventHandler, Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
    completion::Completer as Complete,
    error::ReadlineError,
    highlight::{CmdKind, Highlighter},
    hint::Hinter,
    history::{FileHistory, History},
    validate::Validator,
};

use super::{
    completer::{Completer, Completions},
    directive,
    parser::{INDENT, Parser, blank_before_cursor, dedented, next_indent, without_mark},
    tokens::{Dialect, TokenKind, tokens},
};
use crate::terminal::{GOOD, HintedError, OrHint as _};

/// Maximum number of inputs in the history.
const HISTORY_COUNT: usize = 1_000;
/// Maximum length of an input in the history in bytes. Longer inputs are usually pasted, and can be pasted again.
const HISTORY_ENTRY_BYTES: usize = 16 << 10;

/// The result of reading an input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Code to run, or a command.
    Text(String),
    /// An input discarded with Ctrl-C.
    Cleared,
    /// The end of all input.
    End,
}

/// The source of input.
pub(super) enum Lines {
    Terminal { editor: Box<Editor<Editing, FileHistory>>, history: Option<PathBuf> },
    Piped { from: Box<dyn BufRead>, parser: Parser, max_bytes: u64 },
}

impl Lines {
    /// Creates a source that reads from the terminal, with the history in the file `history`.
    pub(super) fn terminal(parser: &Parser, completer: Completer, history: Option<PathBuf>) -> anyhow::Result<Self> {
        let has_colors = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        let config = Config::builder()
            .max_history_size(HISTORY_COUNT)
            .and_then(|config| config.history_ignore_dups(true))
            .context("cannot set up line editing")?
            // As in shells, an input that begins with a space is not added to the history.
            .history_ignore_space(true)
            // As in shells, the first Tab completes the common prefix, and the second lists all completions.
            .completion_type(CompletionType::List)
            .indent_size(u8::try_from(INDENT.len()).unwrap_or_default())
            .color_mode(if has_colors { ColorMode::Forced } else { ColorMode::Disabled })
            .build();
        let mut editor = Editor::with_config(config).context("cannot set up line editing")?;
        let bracket = TypedBracket::default();
        bind_keys(&mut editor, parser, &bracket);
        editor.set_helper(Some(Editing { completer, bracket }));
        if let Some(path) = &history {
            // The file does not exist on the first run, and the REPL also works without a history.
            if let Err(error) = editor.load_history(path) {
                tracing::debug!(%error, "cannot load the history");
            }
        }
        Ok(Self::Terminal { editor: Box::new(editor), history })
    }

    /// Creates a source that reads standard input, without line editing.
    pub(super) fn piped(parser: Parser, max_bytes: u64) -> Self {
        Self::Piped { from: Box::new(io::stdin().lock()), parser, max_bytes }
    }

    /// Returns `true` if the input comes from a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// Reads the next complete input. At a terminal, names are completed from `session`.
    pub(super) fn next(&mut self, prompt: &str, session: Option<Session>) -> anyhow::Result<Input> {
        match self {
            Self::Terminal { editor, history } => {
                if let Some(Editing { completer, .. }) = editor.helper_mut() {
                    completer.session = session;
                }
                match editor.readline(&(prompt, format!("{GOOD}{prompt}{GOOD:#}"))) {
                    Ok(text) => {
                        // Remove trailing whitespace, such as the indentation of a blank last line.
                        let text = text.trim_end();
                        remember(editor, history.as_ref(), text);
                        Ok(Input::Text(without_mark(text).to_owned()))
                    }
                    Err(ReadlineError::Interrupted) => Ok(Input::Cleared),
                    Err(ReadlineError::Eof) => Ok(Input::End),
                    Err(error) => Err(error).context("cannot read the terminal"),
                }
            }
            Self::Piped { from, parser, max_bytes } => piped(from, parser, *max_bytes),
        }
    }
}

/// Adds an input to the history, in memory and in its file. Errors when writing the file are only logged.
fn remember(editor: &mut Editor<Editing, FileHistory>, history: Option<&PathBuf>, text: &str) {
    if text.len() > HISTORY_ENTRY_BYTES {
        return;
    }
    let added = editor.add_history_entry(text);
    if let (Ok(true), Some(path)) = (added, history)
        && let Err(error) = editor.append_history(path)
    {
        tracing::debug!(%error, "cannot write the history");
    }
}

/// Reads lines until they form a complete input or the file ends.
fn piped(from: &mut dyn BufRead, parser: &Parser, max_bytes: u64) -> anyhow::Result<Input> {
    let mut text = String::new();
    loop {
        let left = max_bytes.saturating_sub(text.len().try_into().unwrap_or(u64::MAX));
        let mut line = String::new();
        let read = from
            .take(left.saturating_add(1))
            .read_line(&mut line)
            .or_hint(|| "cannot read standard input".into(), "it must be UTF-8 text")?;
        if u64::try_from(read).is_ok_and(|read| read > left) {
            return Err(HintedError::new(
                format!("the input is longer than {max_bytes} bytes"),
                "raise the limit with --source-bytes N",
            )
            .into());
        }
        if read == 0 {
            return Ok(if text.is_empty() { Input::End } else { Input::Text(text) });
        }
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        if text.is_empty() && line.trim().is_empty() {
            continue;
        }
        let is_first = text.is_empty();
        if !is_first {
            text.push('\n');
        }
        text.push_str(line);
        if (is_first && directive::is_one(line)) || !parser.needs_more(&text) {
            return Ok(Input::Text(text));
        }
    }
}

/// The helper of the line editor, for completion and colours.
pub(super) struct Editing {
    pub(super) completer: Completer,
    pub(super) bracket: TypedBracket,
}

/// The editor's own validation is unused: only the handler of the Enter key checks inputs.
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

fn style(kind: TokenKind) -> Option<Style> {
    match kind {
        TokenKind::Keyword => Some(AnsiColor::Magenta.on_default()),
        TokenKind::Text => Some(AnsiColor::Green.on_default()),
        TokenKind::Number => Some(AnsiColor::Cyan.on_default()),
        TokenKind::Comment => Some(Style::new().dimmed()),
        TokenKind::Name | TokenKind::Sign => None,
    }
}

/// A closing bracket that was typed at the beginning of a line. Completion is the only command of the editor that
/// replaces text. The bracket's key therefore requests completion, and the result is the bracket with less indentation.
#[derive(Clone, Debug, Default)]
pub(super) struct TypedBracket(Arc<Mutex<Option<char>>>);

impl TypedBracket {
    fn set(&self, bracket: char) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bracket);
    }

    /// Returns the position and text of the replacement, and clears the bracket.
    pub(super) fn take(&self, typed: &str) -> Option<(usize, String)> {
        let bracket = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let indent = blank_before_cursor(typed)?;
        Some((typed.len() - indent.len(), format!("{}{bracket}", dedented(indent))))
    }
}

/// Binds Enter, Backspace and the closing brackets to their handlers.
pub(super) fn bind_keys<H: Helper, I: History>(editor: &mut Editor<H, I>, parser: &Parser, typed: &TypedBracket) {
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

/// The handler of the Enter key: accepts a complete input, and otherwise starts another line, with indentation.
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

/// The handler of the Backspace key: removes one level of indentation before the cursor.
struct Backspace;

impl ConditionalEventHandler for Backspace {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, context: &EventContext<'_>) -> Option<Cmd> {
        blank_before_cursor(before_cursor(context)).map(|_| Cmd::Dedent(Movement::WholeLine))
    }
}

/// The handler of closing brackets: moves a bracket that begins a line one level to the left.
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
    use super::{TypedBracket, highlighted};
    use crate::commands::repl::tokens::Dialect;

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
