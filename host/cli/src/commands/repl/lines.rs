//! Source of input: a terminal, with editing and a history, or a file or pipe, line by line.

use std::{
    io::{self, BufRead, Read},
    path::PathBuf,
};

use anstream::{AutoStream, ColorChoice};
use anyhow::Context as _;
use glovebox::Session;
use rustyline::{ColorMode, CompletionType, Config, Editor, error::ReadlineError, history::FileHistory};

use super::{
    completer::Completer,
    directive,
    editing::{self, Editing, TypedBracket},
    parser::{INDENT, Parser, without_mark},
};
use crate::terminal::{GOOD, Hinted};

/// Number of inputs in the history.
const HISTORY_COUNT: usize = 1_000;
/// Maximum length of an input in the history. Longer ones were pasted, and can be pasted again.
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

/// Source of input.
pub(super) enum Lines {
    Terminal { editor: Box<Editor<Editing, FileHistory>>, history: Option<PathBuf> },
    Piped { from: Box<dyn BufRead>, parser: Parser, max_bytes: u64 },
}

impl Lines {
    /// Reads from the terminal, with the history in the file `history`.
    pub(super) fn terminal(parser: &Parser, completer: Completer, history: Option<PathBuf>) -> anyhow::Result<Self> {
        let has_colors = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        let config = Config::builder()
            .max_history_size(HISTORY_COUNT)
            .and_then(|config| config.history_ignore_dups(true))
            .context("cannot set up line editing")?
            // Like in shells, an input that begins with a space is not added to the history.
            .history_ignore_space(true)
            // Like in shells, the first Tab completes the common prefix, and the second lists all completions.
            .completion_type(CompletionType::List)
            .indent_size(u8::try_from(INDENT.len()).unwrap_or_default())
            .color_mode(if has_colors { ColorMode::Forced } else { ColorMode::Disabled })
            .build();
        let mut editor = Editor::with_config(config).context("cannot set up line editing")?;
        let bracket = TypedBracket::default();
        editing::bind(&mut editor, parser, &bracket);
        editor.set_helper(Some(Editing { completer, bracket }));
        if let Some(path) = &history {
            // The file does not exist at the first start. The REPL also works without a history.
            if let Err(error) = editor.load_history(path) {
                tracing::debug!(%error, "no history");
            }
        }
        Ok(Self::Terminal { editor: Box::new(editor), history })
    }

    /// Reads standard input without editing.
    pub(super) fn piped(parser: Parser, max_bytes: u64) -> Self {
        Self::Piped { from: Box::new(io::stdin().lock()), parser, max_bytes }
    }

    /// Returns `true` if a person types the input.
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
                        // Without the indentation of a blank last line.
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

/// Adds an input to the history, in memory and in its file. Errors of writing the file are ignored.
fn remember(editor: &mut Editor<Editing, FileHistory>, history: Option<&PathBuf>, text: &str) {
    if text.len() > HISTORY_ENTRY_BYTES {
        return;
    }
    let added = editor.add_history_entry(text);
    if let (Ok(true), Some(path)) = (added, history)
        && let Err(error) = editor.append_history(path)
    {
        tracing::debug!(%error, "the history cannot be written");
    }
}

/// Reads lines until they form a complete input, or the input ends.
fn piped(from: &mut dyn BufRead, parser: &Parser, max_bytes: u64) -> anyhow::Result<Input> {
    let mut text = String::new();
    loop {
        let left = max_bytes.saturating_sub(text.len().try_into().unwrap_or(u64::MAX));
        let mut line = String::new();
        let read = from
            .take(left.saturating_add(1))
            .read_line(&mut line)
            .map_err(|error| Hinted::new("cannot read standard input", "it must be UTF-8 text").because(error))?;
        if u64::try_from(read).is_ok_and(|read| read > left) {
            return Err(Hinted::new(
                format!("one piece of input is longer than {max_bytes} bytes"),
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
