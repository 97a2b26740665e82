//! A script and the result of its execution.

use super::advice::Correction;
use crate::{Language, Limits, Outcome, RaisedOutcome};

/// The input of the analysis.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The script's language.
    pub language: Language,
    /// The source text.
    pub source: &'a str,
    /// The outcome of the execution.
    pub outcome: &'a Outcome,
    /// The limits of the execution.
    pub limits: &'a Limits,
    /// `true` if the interpreter has data packages, such as numpy and pandas, in a library of its own.
    pub has_data_packages: bool,
    /// The fuel that the execution used.
    pub fuel_consumed: u64,
    /// Bytes written to standard output, retained or not.
    pub stdout_bytes: u64,
    /// Bytes written to standard error, retained or not.
    pub stderr_bytes: u64,
}

/// An uncaught exception and its script.
pub(super) struct Failure<'a> {
    pub(super) raised: &'a RaisedOutcome,
    pub(super) source: &'a str,
    pub(super) has_data_packages: bool,
}

/// Maximum length of a line that advice repeats.
const MAX_LINE_CHARS: usize = 300;

impl<'a> Failure<'a> {
    pub(super) fn is(&self, type_name: &str) -> bool {
        self.raised.type_name == type_name
    }

    pub(super) fn message(&self) -> &'a str {
        &self.raised.message
    }

    /// Returns the middle of a message that consists of `before`, the middle and `after`.
    pub(super) fn within(&self, before: &str, after: &str) -> Option<&'a str> {
        let (_, rest) = self.message().split_once(before)?;
        rest.split_once(after).map(|(inside, _)| inside)
    }

    /// Returns the line that raised the exception, if the script has it and it is short enough.
    pub(super) fn line(&self) -> Option<&'a str> {
        let number = usize::try_from(self.raised.line?).ok()?;
        let line = self.source.lines().nth(number.checked_sub(1)?)?;
        (line.chars().count() <= MAX_LINE_CHARS).then_some(line)
    }

    /// Returns the correction of that line.
    pub(super) fn corrected(&self, text: String) -> Option<Correction> {
        Some(Correction { line: self.raised.line?, text })
    }

    /// Returns that line with one word replaced, if the word occurs exactly once.
    pub(super) fn with_word(&self, word: &str, other: &str) -> Option<Correction> {
        let line = self.line()?;
        let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == '$';
        let mut places = line.match_indices(word).filter(|(at, _)| {
            let (before, after) = (line.get(..*at), line.get(at + word.len()..));
            !before.is_some_and(|before| before.ends_with(is_part))
                && !after.is_some_and(|after| after.starts_with(is_part))
        });
        let (at, _) = places.next()?;
        if places.next().is_some() {
            return None;
        }
        let (before, after) = (line.get(..at)?, line.get(at + word.len()..)?);
        self.corrected(format!("{before}{other}{after}"))
    }
}

/// Returns whether the script is fenced as a Markdown code block.
pub(super) fn is_fenced(source: &str) -> bool {
    source.trim_start().starts_with("```")
}
