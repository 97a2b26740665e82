//! Explanations of failures, with advice for the people and models that write the scripts.
//!
//! All of it is derived from the outcome, the limits and the source, never from a script's output. Text from a script
//! (names, paths, messages) is quoted short and without control characters. A source line is returned only if a single
//! correction is certain.

mod javascript;
mod limits;
mod names;
mod python;

use serde::{Deserialize, Serialize};

use crate::{Language, Limits, Outcome, RaisedOutcome, Resource};

/// Advice on an execution, with an analysis of its fuel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guidance {
    /// The fuel analysis, with a suggested limit.
    pub fuel: FuelAnalysis,
    /// Known problems and their solutions, the most important first; often empty.
    pub advice: Vec<Advice>,
}

/// Returns the modules that exist without installation, for comparison with a misspelt name.
pub fn modules(language: Language) -> impl Iterator<Item = &'static str> {
    names::of(language)
}

/// Returns the import names of the packages at `/app/site-packages`.
pub fn packages() -> impl Iterator<Item = &'static str> {
    names::packages()
}

/// Returns the modules that are proposed instead of missing Python modules. Tests with the interpreters import each.
pub fn substitutes(has_data_packages: bool) -> impl Iterator<Item = &'static str> {
    python::substitutes(has_data_packages)
}

/// Analyses an execution.
#[must_use]
pub fn guidance(facts: &Facts<'_>) -> Guidance {
    let mut advice: Vec<Advice> = limits::of_outcome(facts).into_iter().collect();
    if let Outcome::Raised(raised) = facts.outcome {
        let failure = UncaughtException { raised, source: facts.source, has_data_packages: facts.has_data_packages };
        advice.extend(match facts.language {
            Language::Python => python::advice(&failure),
            Language::JavaScript => javascript::advice(&failure),
        });
    }
    advice.extend(limits::of_output(facts));
    Guidance { fuel: FuelAnalysis::of(facts), advice }
}

#[cfg(test)]
mod tests;

/// A problem and its solution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The topic of the problem.
    pub kind: AdviceKind,
    /// The problem, in one sentence.
    pub summary: String,
    /// Possible solutions, each independent of the others.
    pub steps: Vec<String>,
    /// The corrected line, if the correction is certain.
    pub correction: Option<Correction>,
}

/// The topic of a piece of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// The fuel was exhausted.
    Fuel,
    /// The time was exhausted.
    Time,
    /// The memory was exhausted.
    Memory,
    /// The call stack overflowed.
    CallDepth,
    /// Output was truncated.
    Output,
    /// A module does not exist.
    Module,
    /// The source is not valid in its language.
    Syntax,
    /// TypeScript syntax that generates code, or types in JavaScript.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correction {
    /// The line's number, from 1.
    pub line: u32,
    /// The corrected line.
    pub text: String,
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

/// Quotes text from a script for use in a sentence: short, on one line, in backquotes.
fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(MAX_CHARS).collect();
    let rest = if chars.next().is_some() { "…" } else { "" };
    format!("`{}{rest}`", glovebox_vfs::escaped(&shown))
}

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
struct UncaughtException<'a> {
    raised: &'a RaisedOutcome,
    source: &'a str,
    has_data_packages: bool,
}

/// Maximum length of a line that advice repeats.
const MAX_LINE_CHARS: usize = 300;

impl<'a> UncaughtException<'a> {
    fn is(&self, type_name: &str) -> bool {
        self.raised.type_name == type_name
    }

    fn message(&self) -> &'a str {
        &self.raised.message
    }

    /// Returns the middle of a message that consists of `before`, the middle and `after`.
    fn within(&self, before: &str, after: &str) -> Option<&'a str> {
        let (_, rest) = self.message().split_once(before)?;
        rest.split_once(after).map(|(inside, _)| inside)
    }

    /// Returns the line that raised the exception, if the script has it and it is short enough.
    fn line(&self) -> Option<&'a str> {
        let number = usize::try_from(self.raised.line?).ok()?;
        let line = self.source.lines().nth(number.checked_sub(1)?)?;
        (line.chars().count() <= MAX_LINE_CHARS).then_some(line)
    }

    /// Returns the correction of that line.
    fn corrected(&self, text: String) -> Option<Correction> {
        Some(Correction { line: self.raised.line?, text })
    }

    /// Returns that line with one word replaced, if the word occurs exactly once.
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

/// Returns whether the script is fenced as a Markdown code block.
fn is_fenced(source: &str) -> bool {
    source.trim_start().starts_with("```")
}

/// An execution's use of fuel, and a suggested limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuelAnalysis {
    /// The fuel used.
    pub used: u64,
    /// The fuel available: `limits.fuel`.
    pub limit: u64,
    /// The share used, as a whole percentage.
    pub utilization_percent: u64,
    /// The classification of that share.
    pub status: FuelStatus,
    /// A `limits.fuel` with enough room, if this one was exhausted or nearly so: twice an exhausted limit, or one and a
    /// half times a nearly exhausted one.
    pub suggested_limit: Option<u64>,
    /// Loops that may have used the fuel, if it was exhausted.
    pub likely_causes: Vec<String>,
}

/// The share of its fuel that an execution used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FuelStatus {
    /// Less than half.
    Efficient,
    /// Less than three quarters.
    Moderate,
    /// Less than nine tenths.
    Warning,
    /// At least nine tenths.
    Critical,
    /// All fuel was used.
    Exhausted,
}

impl FuelAnalysis {
    fn of(facts: &Facts<'_>) -> Self {
        let (used, limit) = (facts.fuel_consumed, facts.limits.fuel);
        let is_exhausted = matches!(facts.outcome, Outcome::Exhausted { resource: Resource::Fuel, .. });
        let utilization_percent = percent(used, limit);
        let status = match utilization_percent {
            _ if is_exhausted => FuelStatus::Exhausted,
            0..50 => FuelStatus::Efficient,
            50..75 => FuelStatus::Moderate,
            75..90 => FuelStatus::Warning,
            _ => FuelStatus::Critical,
        };
        let suggested_limit = match status {
            FuelStatus::Efficient | FuelStatus::Moderate => None,
            FuelStatus::Warning | FuelStatus::Critical => facts.limits.raised("fuel", 150),
            FuelStatus::Exhausted => facts.limits.raised("fuel", 200),
        };
        let likely_causes = if is_exhausted { causes(facts) } else { Vec::new() };
        Self { used, limit, utilization_percent, status, suggested_limit, likely_causes }
    }
}

fn percent(used: u64, limit: u64) -> u64 {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// Finds loops that only their body can end.
fn causes(facts: &Facts<'_>) -> Vec<String> {
    const MAX_LOOPS: usize = 3;
    let is_endless = |line: &str| {
        let line: String = line.chars().filter(|char| !char.is_whitespace()).take(32).collect();
        match facts.language {
            Language::Python => ["whileTrue:", "while1:", "while(True):"].iter().any(|head| line.starts_with(head)),
            Language::JavaScript => {
                ["while(true)", "while(1)", "while(!0)", "for(;;)"].iter().any(|head| line.starts_with(head))
            }
        }
    };
    let endless = (1u64..).zip(facts.source.lines()).filter(|(_, line)| is_endless(line)).take(MAX_LOOPS);
    endless
        .map(|(number, _)| format!("the loop at line {number} has no exit condition; only its body can end it"))
        .collect()
}
