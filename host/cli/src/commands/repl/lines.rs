//! The source of input: a person at a terminal, with editing and a history, or a file or pipe, line by line.

use std::{
    io::{self, BufRead, Read},
    path::PathBuf,
};

use anyhow::Context as _;
use rustyline::{
    Config, Context, Editor, Helper,
    completion::Completer,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::{directive, parser::Parser};
use crate::terminal::{HEAD, Hinted};

/// The number of inputs in the history.
const HISTORY_COUNT: usize = 1_000;
/// A longer input is not added: it was pasted, and can be pasted again.
const HISTORY_ENTRY_BYTES: usize = 16 << 10;
/// The text that the Tab key inserts at the beginning of a line.
const INDENT: &str = "    ";

/// One piece of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Code to run, or a command.
    Text(String),
    /// Discarded with Ctrl-C.
    Cleared,
    /// The end of the input.
    End,
}

/// The source of input.
pub(super) enum Lines {
    Terminal { editor: Box<Editor<Editing, FileHistory>>, history: Option<PathBuf> },
    Piped { from: Box<dyn BufRead>, parser: Parser, max_bytes: u64 },
}

impl Lines {
    /// A terminal, with the history in `history`.
    pub(super) fn terminal(parser: Parser, history: Option<PathBuf>) -> anyhow::Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_COUNT)
            .and_then(|config| config.history_ignore_dups(true))
            .context("cannot set up line editing")?
            // As in shells, an input that begins with a space is not added.
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config).context("cannot set up line editing")?;
        editor.set_helper(Some(Editing { parser }));
        if let Some(path) = &history {
            // It does not exist the first time, and no failure to read it is worth stopping for.
            if let Err(error) = editor.load_history(path) {
                tracing::debug!(%error, "no history");
            }
        }
        Ok(Self::Terminal { editor: Box::new(editor), history })
    }

    /// Standard input as it is.
    pub(super) fn piped(parser: Parser, max_bytes: u64) -> Self {
        Self::Piped { from: Box::new(io::stdin().lock()), parser, max_bytes }
    }

    /// Whether a person types.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// The next complete input.
    pub(super) fn next(&mut self, prompt: &str) -> anyhow::Result<Input> {
        match self {
            Self::Terminal { editor, history } => {
                let styled = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
                let shown = if styled { format!("{HEAD}{prompt}{HEAD:#}") } else { prompt.to_owned() };
                match editor.readline(&(prompt, shown)) {
                    Ok(text) => {
                        remember(editor, history.as_ref(), &text);
                        Ok(Input::Text(without_mark(&text).to_owned()))
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

/// Adds an input to the history, in memory and in its file; a failure to write the file is ignored.
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

/// A line without the space that keeps it out of the history: Python would take it for an indentation.
fn without_mark(text: &str) -> &str {
    if text.contains('\n') { text } else { text.trim_start() }
}

/// Reads lines until they are a complete input, or the input ends.
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

/// The editor's callbacks while a person types.
pub(super) struct Editing {
    parser: Parser,
}

impl Validator for Editing {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let typed = without_mark(ctx.input());
        let is_complete = typed.trim().is_empty() || directive::is_one(typed) || !self.parser.needs_more(typed);
        Ok(if is_complete { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Editing {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..pos).unwrap_or(line);
        if directive::is_one(typed) {
            return Ok((0, directive::completions(typed)));
        }
        let begins_line = typed.rsplit('\n').next().is_some_and(|start| start.trim().is_empty());
        Ok((pos, if begins_line { vec![INDENT.to_owned()] } else { Vec::new() }))
    }
}

impl Hinter for Editing {
    type Hint = String;
}

impl Highlighter for Editing {}

impl Helper for Editing {}

#[cfg(test)]
mod tests {
    use super::without_mark;

    #[test]
    fn the_space_that_hides_a_line_is_no_indentation() {
        assert_eq!(without_mark("  x = 1"), "x = 1");
        assert_eq!(without_mark("if x:\n    y"), "if x:\n    y");
        assert_eq!(without_mark("  [1,\n  2]"), "  [1,\n  2]");
    }
}
