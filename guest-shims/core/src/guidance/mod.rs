//! Explanations of failures and what to do about them, for the people and models who write the scripts.
//!
//! All of it is derived from the outcome, the limits and the source, never from what a script printed. Text chosen by a
//! script (names, paths, messages) is quoted short and without control characters. A source line is returned only where
//! one correction is certain to be what was meant.

mod fuel;
mod javascript;
mod limits;
mod names;
mod python;
mod typescript;

use serde::Serialize;

pub use fuel::{FuelAnalysis, FuelStatus};

use crate::{Language, Limits, Outcome, RaisedOutcome};

/// Advice on an execution, and an analysis of its fuel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guidance {
    /// How much of the fuel it used, and a suggested limit.
    pub fuel: FuelAnalysis,
    /// Known problems and their solutions, the most important first; often empty.
    pub advice: Vec<Advice>,
}

/// A problem and its solution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The topic.
    pub kind: AdviceKind,
    /// What happened, in one sentence.
    pub summary: String,
    /// Possible solutions, each on its own.
    pub steps: Vec<String>,
    /// The corrected line, if it is certain.
    pub correction: Option<Correction>,
}

/// The topic of an advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// The fuel ran out.
    Fuel,
    /// The time ran out.
    Time,
    /// The memory ran out.
    Memory,
    /// The call stack overflowed.
    CallDepth,
    /// Output was truncated.
    Output,
    /// A module does not exist.
    Module,
    /// The source is not valid in its language.
    Syntax,
    /// TypeScript syntax beyond types, or types in JavaScript.
    TypescriptSyntax,
    /// A file does not exist or is not accessible.
    Path,
    /// There is no network.
    Network,
    /// There are no subprocesses.
    Subprocess,
    /// There are no threads.
    Threads,
    /// Standard input is at its end.
    Input,
    /// A feature of another environment, such as a browser or another runtime.
    Environment,
}

/// A corrected line of the script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Correction {
    /// The line's number, from 1.
    pub line: u32,
    /// The corrected line.
    pub text: String,
}

/// The input of the analysis.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The script's language.
    pub language: Language,
    /// The script.
    pub source: &'a str,
    /// Its outcome.
    pub outcome: &'a Outcome,
    /// Its limits.
    pub limits: &'a Limits,
    /// The fuel it used.
    pub fuel_consumed: u64,
    /// The bytes it wrote to standard output, kept or not.
    pub stdout_bytes: u64,
    /// The bytes it wrote to standard error, kept or not.
    pub stderr_bytes: u64,
}

/// The modules that exist without installation, for comparison with a misspelt name.
pub fn modules(language: Language) -> impl Iterator<Item = &'static str> {
    names::of(language)
}

/// The packages at `/app/site-packages`, by their import names.
pub fn packages() -> impl Iterator<Item = &'static str> {
    names::packages()
}

/// Analyses an execution.
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

/// An uncaught exception, and its script.
struct Failure<'a> {
    raised: &'a RaisedOutcome,
    source: &'a str,
}

/// Longer lines are not repeated.
const MAX_LINE_CHARS: usize = 300;

impl<'a> Failure<'a> {
    fn is(&self, type_name: &str) -> bool {
        self.raised.type_name == type_name
    }

    fn message(&self) -> &'a str {
        &self.raised.message
    }

    /// The part of the message between these; both must be present and make up the whole message with it.
    fn within(&self, before: &str, after: &str) -> Option<&'a str> {
        let (_, rest) = self.message().split_once(before)?;
        rest.split_once(after).map(|(inside, _)| inside)
    }

    /// The line that raised it, if the script has it and it is short enough.
    fn line(&self) -> Option<&'a str> {
        let number = usize::try_from(self.raised.line?).ok()?;
        let line = self.source.lines().nth(number.checked_sub(1)?)?;
        (line.chars().count() <= MAX_LINE_CHARS).then_some(line)
    }

    /// The corrected version of that line.
    fn corrected(&self, text: String) -> Option<Correction> {
        Some(Correction { line: self.raised.line?, text })
    }

    /// That line with one word replaced, if the word occurs exactly once.
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

/// Whether the script is fenced as a Markdown code block.
fn is_fenced(source: &str) -> bool {
    source.trim_start().starts_with("```")
}

/// Quotes text chosen by a script for use in a sentence: short, on one line, between backquotes.
fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(MAX_CHARS).collect();
    let rest = if chars.next().is_some() { "…" } else { "" };
    format!("`{}{rest}`", glovebox_vfs::escaped(&shown))
}

#[cfg(test)]
mod tests;
