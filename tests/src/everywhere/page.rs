//! Generates `docs/cases.md`: the cases, and the hosts in which they pass.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

use glovebox::Language;
use serde::Deserialize;

use super::{
    Host,
    exceptions::{DifferenceKind, EXCEPTIONS, Exception, HOSTILE_EXCEPTIONS, expected, expected_of_concurrent},
};
use crate::Case;

/// Returns the page, generated from [`EXCEPTIONS`], which the trials enforce for every case in every host.
pub fn page(cases: &[Case]) -> String {
    let mut page = String::from(INTRODUCTION);
    let Matrix { date, commit } = Matrix::read();
    let _ = write!(page, "it last passed on {date}, at commit `{commit}`.{GENERATED}");
    let (with_packages, cases): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.packages);
    for host in Host::ALL {
        page += &rows(host, host.title(), &cases, expected);
    }
    let concurrent = format!("{}, version 0.3.0", Host::Wasmtime.title());
    page += &rows(Host::Wasmtime, &concurrent, &cases, expected_of_concurrent);
    page += DIFFERENCES;
    for exception in EXCEPTIONS {
        let (names, mut hosts) = (quoted(exception.cases), titles(exception.hosts));
        if exception.only_blocking {
            hosts += ", version 0.2.0 only";
        }
        let differs = match exception.differs {
            DifferenceKind::Outcome => "outcome",
            DifferenceKind::Details => "details",
        };
        let _ = writeln!(page, "| {names} | {hosts} | {differs} | {} |", exception.reason);
    }
    page += HOSTILE;
    for exception in HOSTILE_EXCEPTIONS {
        let (names, hosts) = (quoted(exception.rows), titles(exception.hosts));
        let _ = writeln!(page, "| {names} | {hosts} | {} | {} |", exception.outcome, exception.reason);
    }
    page += PACKAGES;
    let names: BTreeSet<_> = with_packages.iter().map(|case| case.name.as_str()).collect();
    let _ = writeln!(page, "\n{}.", names.into_iter().collect::<Vec<_>>().join(", "));
    page += ALL;
    for language in Language::ALL {
        let names: BTreeSet<_> =
            cases.iter().filter(|case| case.language == language).map(|case| case.name.as_str()).collect();
        let _ = writeln!(page, "\n**{}**: {}.", title(language), names.into_iter().collect::<Vec<_>>().join(", "));
    }
    page
}

/// Returns the rows of a host with this name, one for each language.
fn rows(host: Host, name: &str, cases: &[&Case], expected: fn(Host, &Case) -> Option<&'static Exception>) -> String {
    let mut rows = String::new();
    for language in Language::ALL {
        let here: Vec<_> = cases.iter().copied().filter(|case| case.language == language).collect();
        let count = |differs| {
            let is_listed = |case: &&&Case| expected(host, case).is_some_and(|exception| exception.differs == differs);
            here.iter().filter(is_listed).count()
        };
        let (otherwise, details) = (count(DifferenceKind::Outcome), count(DifferenceKind::Details));
        let _ = writeln!(
            rows,
            "| {name} | {} | {} | {} | {details} | {otherwise} |",
            title(language),
            here.len(),
            here.len() - otherwise - details,
        );
    }
    rows
}

/// The date and commit of the full matrix's last pass, from `tests/goldens/matrix.toml`.
#[derive(Deserialize)]
struct Matrix {
    date: String,
    commit: String,
}

impl Matrix {
    fn read() -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/matrix.toml");
        toml::from_str(&fs::read_to_string(file).expect("the file exists"))
            .expect("the file contains a date and a commit")
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn titles(hosts: &[Host]) -> String {
    match hosts {
        all if all == Host::ALL => "all".into(),
        some => some.iter().map(|host| host.title()).collect::<Vec<_>>().join(", "),
    }
}

fn title(language: Language) -> &'static str {
    match language {
        Language::Python => "Python",
        Language::JavaScript => "JavaScript",
    }
}

const INTRODUCTION: &str = "\
# Case results of the provider in other hosts

Read this page to find out how the portable provider, `glovebox.wasm`, differs from the engine.

Each component host below runs the cases of [`tests/cases`](../tests/cases/README.md) with its default stack. With a fixed clock and seeded
entropy, each step must also produce the engine's result: outcome, output, files, values, memory, and exactly the same fuel.

Every push runs all cases in `wasmtime`, and those with `smoke = true` in the other hosts and with [version 0.3.0](asynchronous-providers.md) of
the provider. `.ci/full` runs the whole matrix:
";

const GENERATED: &str = "

`BLESS=1 cargo test --workspace --test cases everywhere/page` generates this page from the exceptions in `tests/src/everywhere/exceptions.rs`. A
test fails if a case differs without an exception, or has an exception and does not differ.

*Different details* means that the case's expectations are met, but a number, or a text that the case does not check, differs from the
engine's.

| host | language | cases | same result | different details | different outcome |
|---|---|---|---|---|---|
";

const DIFFERENCES: &str = "
## Differences

| cases | hosts | difference | reason |
|---|---|---|---|
";

const HOSTILE: &str = "
## Hostile scripts

These hosts also run the scripts of [`tests/hostile`](../tests/hostile). After each script, the same instance answers the next call. Each script ends
with the outcome that `tests/hostile` expects, with these exceptions:

| scripts | hosts | outcome | reason |
|---|---|---|---|
";

const PACKAGES: &str = "
## Cases that need packages

The provider does not contain the packages at `/app/site-packages`. If a file is imported under a computed name, the provider cannot load the
Node modules that the file imports. Only the engine runs these cases:
";

const ALL: &str = "
## All cases
";
