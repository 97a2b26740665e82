//! Generates `docs/public-programs.md`, and a paragraph in `docs/python.md`, from the results of public programs on
//! Linux and in the sandbox. `BLESS=1` writes both.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use glovebox_tests::hold_file;
use serde::Deserialize;

const RESULTS: &str = "tests/goldens/public_programs.toml";
const PAGE: &str = "docs/public-programs.md";
const PYTHON_PAGE: &str = "docs/python.md";
/// The text before the generated paragraph in `docs/python.md`.
const BEFORE: &str = "\n## Unavailable features\n\n";
/// The text after the generated paragraph.
const AFTER: &str = "\n\n|";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Results {
    /// The month of the runs.
    date: String,
    /// The native interpreters and their versions.
    native: String,
    collection: Vec<Collection>,
}

/// A public collection of programs, and the number of programs that ran.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Collection {
    name: String,
    /// `owner/name` on GitHub.
    repository: String,
    version: String,
    contents: String,
    /// Only each `every`-th program ran.
    #[serde(default = "all")]
    every: usize,
    programs: usize,
    /// The number of programs that succeed on Linux.
    succeed: usize,
    #[serde(default)]
    exception: Vec<Exception>,
}

fn all() -> usize {
    1
}

/// Programs that succeed on Linux and have a different result in the sandbox for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    programs: Vec<String>,
    difference: Difference,
    reason: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Difference {
    Exception,
    Memory,
    Output,
    Test,
    Timeout,
}

impl Difference {
    fn text(self) -> &'static str {
        match self {
            Self::Exception => "exception",
            Self::Memory => "out of memory",
            Self::Output => "different output",
            Self::Test => "failed test",
            Self::Timeout => "timeout",
        }
    }
}

impl Collection {
    fn exceptions(&self) -> usize {
        self.exception.iter().map(|exception| exception.programs.len()).sum()
    }

    /// Returns the number of programs with the same result in the sandbox as on Linux.
    fn same(&self) -> usize {
        self.succeed.checked_sub(self.exceptions()).unwrap()
    }
}

impl Results {
    fn read() -> Self {
        toml::from_str(&text(RESULTS)).unwrap()
    }

    fn succeed(&self) -> usize {
        self.collection.iter().map(|collection| collection.succeed).sum()
    }

    /// Returns a sentence about all collections.
    fn summary(&self) -> String {
        let same: usize = self.collection.iter().map(Collection::same).sum();
        // Rounded down, so that 100% means all programs.
        let permille = same * 1_000 / self.succeed();
        format!(
            "Of {} public programs that succeed on Linux, {} ({}.{}%) have the same result here.",
            grouped(self.succeed()),
            grouped(same),
            permille / 10,
            permille % 10
        )
    }

    fn page(&self) -> String {
        let mut page = format!("{INTRODUCTION}{}\n{METHOD}", self.summary());
        let _ = write!(page, "{} were the native interpreters ({}).\n{COLLECTIONS}", self.native, self.date);
        for each in &self.collection {
            let ran = match each.every {
                1 => String::new(),
                every => format!(" (1 in {every})"),
            };
            let _ = writeln!(
                page,
                "| [{}](https://github.com/{}) | {} | {} | {}{ran} | {} | {} |",
                each.name,
                each.repository,
                each.version,
                each.contents,
                grouped(each.programs),
                grouped(each.succeed),
                grouped(each.same())
            );
        }
        page += EXCEPTIONS;
        for each in &self.collection {
            for exception in &each.exception {
                let (difference, reason) = (exception.difference.text(), &exception.reason);
                for program in &exception.programs {
                    let _ = writeln!(page, "| {} | `{program}` | {difference} | {reason} |", each.name);
                }
            }
        }
        page + REASONS
    }

    /// Returns the paragraph in `docs/python.md`.
    fn paragraph(&self) -> String {
        format!(
            "{} [Public programs](public-programs.md) lists each exception\nwith its reason, and the {} collections, \
             such as HumanEval and MBPP ({}).",
            self.summary(),
            self.collection.len(),
            self.date
        )
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// Formats a number below a million in groups of three: `10,000`.
fn grouped(number: usize) -> String {
    match (number / 1_000, number % 1_000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

#[test]
fn results_are_complete() {
    for each in Results::read().collection {
        assert!(each.succeed <= each.programs && each.exceptions() <= each.succeed, "{}", each.name);
        let programs: Vec<_> = each.exception.iter().flat_map(|exception| &exception.programs).collect();
        assert_eq!(programs.iter().collect::<BTreeSet<_>>().len(), programs.len(), "{} repeats a program", each.name);
        for exception in &each.exception {
            let is_given = !exception.reason.is_empty() && !exception.reason.starts_with("TODO");
            assert!(is_given && !exception.reason.contains('|'), "{}: {:?}", each.name, exception.programs);
        }
    }
}

#[test]
fn page_of_public_programs_matches_the_results() {
    hold_file(PAGE, &Results::read().page());
}

#[test]
fn python_page_summarizes_the_results() {
    let page = text(PYTHON_PAGE);
    let (before, rest) = page.split_once(BEFORE).unwrap();
    let (held, after) = rest.split_once(AFTER).unwrap();
    let paragraph = Results::read().paragraph();
    // Other tests write the same page with `BLESS=1`, so this test writes only a different paragraph.
    if held != paragraph {
        hold_file(PYTHON_PAGE, &[before, BEFORE, &paragraph, AFTER, after].concat());
    }
}

const INTRODUCTION: &str = "\
# Public programs

Read this page to learn which public programs have a different result in the sandbox than on Linux, and why.

";

const METHOD: &str = "
Each program runs natively, and then in a new interpreter of the sandbox (`python-3.15-data` or `javascript`). A program succeeds if it exits
with `0`, including its tests, assertions and doctests. Programs that fail or take longer than 20 s natively are excluded. The limits in the
sandbox are 60 s and 1 GiB of memory, without a limit on fuel.

The standard output must also be the same, except for memory addresses, white space at the ends of lines, and relative differences of up to a
millionth between numbers. Output that changes between native runs, such as random numbers, is not compared.

";

const COLLECTIONS: &str = "
`BLESS=1 cargo test --test all public_programs::` generates this page from `tests/goldens/public_programs.toml`.

| collection | version | contents | programs | succeed natively | same result here |
|---|---|---|---|---|---|
";

const EXCEPTIONS: &str = "
## Exceptions

This table lists every program that succeeds natively and has a different result here.

| collection | program | result here | reason |
|---|---|---|---|
";

const REASONS: &str = "
## Reasons

* **Time**: [computation is slower](performance.md#computation) in WebAssembly. JavaScript has no just-in-time compiler.
* **Unavailable features**: [Python](python.md#unavailable-features) and [JavaScript](javascript.md#unavailable-features) have tables of them, with alternatives.
* **Sets**: hashes have 32 bits here and 64 bits natively, so sets have a different order. Python does not define this order.
* **Numbers**: the last digits of floating-point numbers depend on the C library and on the order of additions.
* **Versions**: Python 3.15 has other messages and tracebacks than the native version.
";
