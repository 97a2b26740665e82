//! What a failure means, and what to do about it: for the people and the models who write the scripts.
//!
//! Everything here is drawn from what is known anyway: the outcome, the limits, the source. Nothing is read out of what a script
//! printed. What a script chose (names, paths, messages) is quoted short and without control characters, and a line of its source
//! comes back only where one change is certain to be what was meant.

mod fuel;
mod javascript;
mod limits;
mod names;
mod python;
mod typescript;

use serde::Serialize;

pub use fuel::{FuelAnalysis, FuelStatus};

use crate::{Language, Limits, Outcome, RaisedOutcome};

/// Advice on an execution, and what it did with its fuel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guidance {
    /// How much of the fuel it used, and what limit would be right.
    pub fuel: FuelAnalysis,
    /// What went wrong that is known how to get around, the most important first; often nothing.
    pub advice: Vec<Advice>,
}

/// What went wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What it is about.
    pub kind: AdviceKind,
    /// What happened, in one sentence.
    pub summary: String,
    /// What can be done, each step by itself.
    pub steps: Vec<String>,
    /// The line as it should be, where that is certain.
    pub correction: Option<Correction>,
}

/// What advice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// All fuel was used.
    Fuel,
    /// It took too long.
    Time,
    /// There was no more memory.
    Memory,
    /// Calls went too deep.
    CallDepth,
    /// Output was cut off.
    Output,
    /// A module is not there.
    Module,
    /// The source is not of its language.
    Syntax,
    /// The source is TypeScript that is more than types, or types where JavaScript is expected.
    TypescriptSyntax,
    /// A file is not there, or not to be reached.
    Path,
    /// There is no network.
    Network,
    /// There are no other processes.
    Subprocess,
    /// There are no threads.
    Threads,
    /// There is no more standard input.
    Input,
    /// Something of another environment: a browser's, another runtime's.
    Environment,
}

/// A line of the script, corrected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Correction {
    /// The line's number, from 1.
    pub line: u32,
    /// The line as it should be.
    pub text: String,
}

/// What advice is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The script's language.
    pub language: Language,
    /// The script.
    pub source: &'a str,
    /// What it did.
    pub outcome: &'a Outcome,
    /// The limits it was held to.
    pub limits: &'a Limits,
    /// The fuel it used.
    pub fuel_consumed: u64,
    /// The bytes it wrote to standard output, kept or not.
    pub stdout_bytes: u64,
    /// The bytes it wrote to standard error, kept or not.
    pub stderr_bytes: u64,
}

/// The modules that a script finds without bringing them: what a misspelt name is compared with.
pub fn modules(language: Language) -> impl Iterator<Item = &'static str> {
    names::of(language)
}

/// The packages that a Python script finds at `/app/site-packages`, by the names it imports them by.
pub fn packages() -> impl Iterator<Item = &'static str> {
    names::packages()
}

/// Draws it.
#[must_use]
pub fn guidance(facts: &Facts<'_>) -> Guidance {
    let mut advice: Vec<Advice> = limits::of_outcome(facts).into_iter().collect();
    if let Outcome::Raised(raised) = facts.outcome {
        let failure = Failure { raised, source: facts.source };
        advice.extend(match facts.language {
            Language::Python => python::advice(&failure),
            Language::JavaScript => javascript::advice(&failure),
        });
    }
    advice.extend(limits::of_output(facts));
    Guidance { fuel: FuelAnalysis::of(facts), advice }
}

/// An exception that reached the top, and the script it came from.
struct Failure<'a> {
    raised: &'a RaisedOutcome,
    source: &'a str,
}

/// Lines that are longer are not shown again.
const MAX_LINE_CHARS: usize = 300;

impl<'a> Failure<'a> {
    fn is(&self, type_name: &str) -> bool {
        self.raised.type_name == type_name
    }

    fn message(&self) -> &'a str {
        &self.raised.message
    }

    /// What of the message stands between these; they and all of it have to be there.
    fn within(&self, before: &str, after: &str) -> Option<&'a str> {
        let (_, rest) = self.message().split_once(before)?;
        rest.split_once(after).map(|(inside, _)| inside)
    }

    /// The line that it was raised at, if the script has it and it is short enough.
    fn line(&self) -> Option<&'a str> {
        let number = usize::try_from(self.raised.line?).ok()?;
        let line = self.source.lines().nth(number.checked_sub(1)?)?;
        (line.chars().count() <= MAX_LINE_CHARS).then_some(line)
    }

    /// That line as it should be.
    fn corrected(&self, text: String) -> Option<Correction> {
        Some(Correction { line: self.raised.line?, text })
    }

    /// That line with one word for another, where it has the word exactly once.
    fn with_word(&self, word: &str, other: &str) -> Option<Correction> {
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

impl Advice {
    fn new(kind: AdviceKind, summary: impl Into<String>, steps: &[&str]) -> Self {
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        Self { kind, summary: summary.into(), steps, correction: None }
    }

    fn with(self, correction: Option<Correction>) -> Self {
        Self { correction, ..self }
    }
}

/// Whether the script stands between the lines that Markdown has around code.
fn is_fenced(source: &str) -> bool {
    source.trim_start().starts_with("```")
}

/// What a script chose, for the middle of a sentence: short, on one line, between backquotes.
fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(MAX_CHARS).collect();
    let rest = if chars.next().is_some() { "…" } else { "" };
    format!("`{}{rest}`", glovebox_vfs::escaped(&shown))
}

#[cfg(test)]
mod tests;
