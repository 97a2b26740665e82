//! Advice and its parts.

use serde::{Deserialize, Serialize};

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
    pub(super) fn new(kind: AdviceKind, summary: impl Into<String>, steps: &[&str]) -> Self {
        let steps = steps.iter().map(|step| (*step).to_owned()).collect();
        Self { kind, summary: summary.into(), steps, correction: None }
    }

    pub(super) fn with(self, correction: Option<Correction>) -> Self {
        Self { correction, ..self }
    }
}

/// Quotes text from a script for use in a sentence: short, on one line, in backquotes.
pub(super) fn quoted(text: &str) -> String {
    const MAX_CHARS: usize = 100;
    let mut chars = text.chars();
    let shown: String = chars.by_ref().take(MAX_CHARS).collect();
    let rest = if chars.next().is_some() { "…" } else { "" };
    format!("`{}{rest}`", glovebox_vfs::escaped(&shown))
}
