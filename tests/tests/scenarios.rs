//! Every scenario of the requirements is shown by a case or a test, or says why it is not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test program: a panic is a failed test"
)]

use std::{collections::BTreeSet, path::Path};

use glovebox_tests::{Scenarios, cases_dir, claimed_in_tests, load_cases};

#[test]
fn every_scenario_named_exists_and_every_scenario_in_scope_is_named() {
    let scenarios = Scenarios::load().unwrap();
    let cases = load_cases(&cases_dir()).unwrap();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dirs = ["tests", "../host/engine/tests", "../host/cli/tests", "../runtimes/tests"].map(|dir| here.join(dir));
    let dirs: Vec<&Path> = dirs.iter().map(AsRef::as_ref).collect();
    let mut named = claimed_in_tests(&dirs);
    named.extend(cases.into_iter().flat_map(|case| case.scenarios));

    let unknown: BTreeSet<_> = named.iter().filter(|name| !scenarios.in_scope.contains(*name)).collect();
    assert!(unknown.is_empty(), "no such scenario in scope in `scenarios.txt`: {unknown:#?}");
    for (name, reason) in &scenarios.out_of_scope {
        println!("not here: {name} ({reason})");
    }
    let missing: BTreeSet<_> = scenarios.in_scope.iter().filter(|name| !named.contains(*name)).collect();
    assert!(missing.is_empty(), "in scope, and no case or test names it: {missing:#?}");
}

// scenario: javascript-runtime: Exclude binary from version control
#[test]
fn no_binary_of_a_runtime_can_be_committed() {
    let ignored = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.gitignore")).unwrap();
    for pattern in ["*.wasm", "*.cwasm"] {
        assert!(ignored.lines().any(|line| line == pattern), "`.gitignore` lacks `{pattern}`");
    }
}

// scenario: javascript-runtime: Document binary source and version
#[test]
fn the_readme_names_every_runtime_with_version_checksum_and_source() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    for entry in glovebox_runtimes::Manifest::builtin().unwrap().runtimes() {
        assert!(readme.contains(&entry.version), "the README lacks version {} of `{}`", entry.version, entry.name);
        assert!(readme.contains(&entry.sha256.to_string()), "the README lacks the checksum of `{}`", entry.name);
    }
}
