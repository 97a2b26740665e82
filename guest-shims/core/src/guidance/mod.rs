//! Explains failures, and advises the people and models that write scripts.
//!
//! The advice is derived from the outcome, the limits and the source, never from a script's output. Text from a script
//! (names, paths, messages) is quoted briefly and without control characters. Advice contains a corrected source line
//! only if it is unambiguous which part of the line to change.

mod javascript;
mod limits;
mod python;
mod replacements;

use glovebox_interpreters::RaisedOutcome;
use serde::{Deserialize, Serialize};

pub use replacements::substitutes;

use crate::{Language, Limits, Outcome, Resource};

/// Advice on an execution, with an analysis of its fuel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guidance {
    /// The execution's fuel usage, with a suggested limit.
    pub fuel: FuelAnalysis,
    /// Known problems and their solutions, the most important first. Often empty.
    pub advice: Vec<Advice>,
}

/// Returns the modules that need no installation, for suggestions in place of a misspelt name. Tests check that each
/// module exists and that the list is complete.
pub fn modules(language: Language) -> impl Iterator<Item = &'static str> {
    match language {
        Language::Python => PYTHON_MODULES,
        Language::JavaScript => JAVASCRIPT_MODULES,
    }
    .split(' ')
}

/// Returns the import names of the packages at `/app/site-packages`. A test checks that the list is complete.
pub fn packages() -> impl Iterator<Item = &'static str> {
    PYTHON_PACKAGES.split(' ')
}

/// Analyzes an execution's fuel usage and explains its failure.
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

/// A problem and possible solutions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The topic of the problem.
    pub kind: AdviceKind,
    /// The problem, in one sentence.
    pub summary: String,
    /// Possible solutions, each independent of the others.
    pub steps: Vec<String>,
    /// The corrected line, if it is unambiguous which part of the line to change. A corrected name is a guess: the most
    /// similar known name.
    pub correction: Option<Correction>,
}

/// The topic of an [`Advice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// The fuel limit was reached.
    Fuel,
    /// The time limit was reached.
    Time,
    /// The memory limit was reached.
    Memory,
    /// The call stack overflowed.
    CallDepth,
    /// Output was truncated.
    Output,
    /// A module, package or export does not exist.
    Module,
    /// The source has a syntax error.
    Syntax,
    /// TypeScript that the TypeScript stripper rejects, or types in a JavaScript script or in a module.
    TypescriptSyntax,
    /// A file does not exist or is not accessible.
    Path,
    /// The sandbox has no network, or the policy does not allow the address.
    Network,
    /// The sandbox has no subprocesses.
    Subprocess,
    /// The sandbox has no threads.
    Threads,
    /// The script read standard input beyond its end.
    Input,
    /// A feature of another environment, such as a browser or another runtime.
    Environment,
}

/// A corrected line of the script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correction {
    /// The line's number, counted from 1.
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

/// Quotes untrusted text for use in a sentence: shortened, on one line, in backticks.
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
    /// `true` if the interpreter's library includes data packages, such as numpy and pandas.
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

/// Maximum length, in characters, of a source line that is examined for advice. Longer lines are ignored.
const MAX_LINE_CHARS: usize = 300;

impl<'a> UncaughtException<'a> {
    fn is(&self, type_name: &str) -> bool {
        self.raised.type_name == type_name
    }

    fn message(&self) -> &'a str {
        &self.raised.message
    }

    /// Returns the text between `before` and `after` in the message.
    fn text_between(&self, before: &str, after: &str) -> Option<&'a str> {
        let (_, rest) = self.message().split_once(before)?;
        rest.split_once(after).map(|(inside, _)| inside)
    }

    /// Returns the line that raised the exception, if it is a line of the script and short enough.
    fn line(&self) -> Option<&'a str> {
        let number = usize::try_from(self.raised.line?).ok()?;
        let line = self.source.lines().nth(number.checked_sub(1)?)?;
        (line.chars().count() <= MAX_LINE_CHARS).then_some(line)
    }

    /// Returns a correction that replaces the line that raised the exception.
    fn corrected(&self, text: String) -> Option<Correction> {
        Some(Correction { line: self.raised.line?, text })
    }

    /// Replaces a word in the line that raised the exception, if the word occurs there exactly once.
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

/// Returns `true` if the source starts with a Markdown code fence.
fn is_fenced(source: &str) -> bool {
    source.trim_start().starts_with("```")
}

fn fenced() -> Advice {
    let steps = ["Send only the code, without the ``` lines around it."];
    Advice::new(AdviceKind::Syntax, "The script is a Markdown code block.", &steps)
}

/// An execution's fuel usage, and a suggested limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FuelAnalysis {
    /// The used fuel.
    pub used: u64,
    /// The available fuel: `limits.fuel`.
    pub limit: u64,
    /// The used share of the limit, as a whole percentage.
    pub utilization_percent: u64,
    /// The classification of the used share.
    pub status: FuelStatus,
    /// A larger `limits.fuel`: twice the limit if it was exhausted, or one and a half times if at least three quarters
    /// of it was used. `None` otherwise, or if the limit cannot be raised.
    pub suggested_limit: Option<u64>,
    /// Loops in the source that may have used the fuel, if it was exhausted.
    pub likely_causes: Vec<String>,
}

/// A classification of an execution's fuel usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FuelStatus {
    /// Less than 50% of the fuel was used.
    Efficient,
    /// At least 50% but less than 75% of the fuel was used.
    Moderate,
    /// At least 75% but less than 90% of the fuel was used.
    Warning,
    /// At least 90% of the fuel was used.
    Critical,
    /// The execution ran out of fuel.
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
            FuelStatus::Warning | FuelStatus::Critical => facts.limits.raised_limit("fuel", 150),
            FuelStatus::Exhausted => facts.limits.raised_limit("fuel", 200),
        };
        let likely_causes = if is_exhausted { causes(facts) } else { Vec::new() };
        Self { used, limit, utilization_percent, status, suggested_limit, likely_causes }
    }
}

fn percent(used: u64, limit: u64) -> u64 {
    let percent = u128::from(used) * 100 / u128::from(limit.max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

/// Finds loops that only their own body can end, such as `while True`.
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

/// Python's standard library, without deprecated modules and modules that are useless to scripts.
const PYTHON_MODULES: &str = "\
    abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 cProfile calendar cmath cmd code \
    codecs codeop collections colorsys compileall concurrent configparser contextlib contextvars copy copyreg csv \
    dataclasses datetime dbm decimal difflib dis doctest email encodings enum errno faulthandler filecmp fileinput \
    fnmatch fractions ftplib functools gc getopt getpass gettext glob graphlib gzip hashlib heapq hmac html http \
    imaplib importlib inspect io ipaddress itertools json keyword linecache locale logging mailbox marshal math \
    mimetypes modulefinder multiprocessing netrc numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil \
    platform plistlib poplib posixpath pprint profile pstats py_compile pyclbr pydoc queue quopri random re \
    reprlib runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver \
    sqlite3 stat statistics string stringprep struct subprocess symtable sys sysconfig tarfile tempfile textwrap \
    threading time timeit token tokenize tomllib trace traceback tracemalloc types typing unicodedata unittest \
    urllib uuid warnings wave weakref wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// The import names of the packages at `/app/site-packages`.
const PYTHON_PACKAGES: &str = "\
    PyPDF2 attr attrs certifi charset_normalizer cobble dateutil defusedxml et_xmlfile idna jinja2 leather mammoth markdown markupsafe \
    openpyxl requests sandbox_utils six tabulate tomli urllib3 xlsxwriter";

/// The modules for `import` and `require`, including the interpreter's own modules.
const JAVASCRIPT_MODULES: &str = "\
    assert assert/strict buffer console crypto events fs fs/promises module node:test os path path/posix path/win32 perf_hooks \
    process querystring std string_decoder sys timers timers/promises tty url util util/types";

/// The vendored packages for `require` and `requireVendor`.
const VENDORED: [&str; 4] = ["csv-simple", "json-utils", "sandbox-utils", "string-utils"];

/// Maximum length of a name to compare, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Returns `true` if a list, separated by spaces, contains a word.
fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|other| other == word)
}

/// Returns the name that is closest to a misspelt name. Up to a third of the letters may differ, or one letter in a
/// short name.
fn nearest<'n>(name: &str, among: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let length = name.chars().count();
    if length > MAX_NAME_CHARS {
        return None;
    }
    let max = (length / 3).max(1);
    let distance = |other: &'n str| (strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase()), other);
    let nearest = among.into_iter().map(distance).min_by_key(|(distance, _)| *distance);
    nearest.filter(|(distance, other)| *distance <= max && *distance < length && name != *other).map(|(_, other)| other)
}
