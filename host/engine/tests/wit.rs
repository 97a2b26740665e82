//! The WIT package is well-formed, and the Rust API says the same in the same words.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]
use std::{collections::BTreeSet, path::Path};

use glovebox::{Language, Limits, ToolErrorKind};
use wit_parser::{PackageId, Resolve, TypeDefKind};

/// What is in `wit/`, and which package of it is ours.
fn contract() -> (Resolve, PackageId) {
    let mut resolve = Resolve::default();
    let (package, _) =
        resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit")).expect("wit/ resolves");
    (resolve, package)
}

fn package() -> Resolve {
    contract().0
}

fn kind<'a>(resolve: &'a Resolve, name: &str) -> &'a TypeDefKind {
    let (_, definition) = resolve
        .types
        .iter()
        .find(|(_, definition)| definition.name.as_deref() == Some(name))
        .unwrap_or_else(|| panic!("`{name}` is in wit/"));
    &definition.kind
}

fn words(resolve: &Resolve, name: &str) -> BTreeSet<String> {
    match kind(resolve, name) {
        TypeDefKind::Record(record) => record.fields.iter().map(|field| field.name.replace('-', "_")).collect(),
        TypeDefKind::Variant(variant) => variant.cases.iter().map(|case| case.name.clone()).collect(),
        TypeDefKind::Enum(cases) => cases.cases.iter().map(|case| case.name.clone()).collect(),
        other => panic!("`{name}` has no words: {other:?}"),
    }
}

#[test]
fn limits_are_the_same_in_wit_and_rust() {
    let rust = serde_json::to_value(Limits::default()).unwrap();
    let rust: BTreeSet<String> = rust.as_object().unwrap().keys().cloned().collect();
    assert_eq!(words(&package(), "limits"), rust);
}

#[test]
fn outcomes_are_the_same_in_wit_and_rust() {
    // The match makes the compiler ask for a new word here when an outcome is added.
    let rust = ["completed", "exited", "raised", "exhausted", "cancelled", "trapped"];
    assert_eq!(words(&package(), "outcome"), rust.map(str::to_owned).into());
    let languages: BTreeSet<String> = Language::ALL.iter().map(|language| language.name().to_owned()).collect();
    assert_eq!(words(&package(), "language"), languages);
}

#[test]
fn what_an_execution_tells_has_its_place_in_the_contract() {
    // In WIT the success and the exit code follow from the outcome, and what was kept of a stream tells what was not; the
    // duration is in nanoseconds; host paths and going back are the engine's own.
    let there = words(&package(), "execution");
    for name in ["outcome", "interrupted", "value", "stdout", "stderr", "fuel_consumed", "tool_calls", "session_id"] {
        assert!(there.contains(name), "{name}");
    }
}

#[test]
fn failures_of_tools_are_the_same_in_wit_and_rust() {
    let word = |kind| match kind {
        ToolErrorKind::Failed => "failed",
        ToolErrorKind::Limit => "limit",
        ToolErrorKind::Timeout => "timeout",
        ToolErrorKind::Unknown => "unknown",
        _ => "invalid-arguments",
    };
    let rust = [
        ToolErrorKind::Failed,
        ToolErrorKind::Limit,
        ToolErrorKind::Timeout,
        ToolErrorKind::Unknown,
        ToolErrorKind::InvalidArguments,
    ];
    assert_eq!(words(&package(), "tool-error"), rust.map(word).map(str::to_owned).into());
}

#[test]
fn every_item_of_the_contract_is_documented() {
    let (resolve, package) = contract();
    for (_, interface) in resolve.interfaces.iter().filter(|(_, interface)| interface.package == Some(package)) {
        for (name, id) in &interface.types {
            let definition = &resolve.types[*id];
            let is_use = matches!(definition.kind, TypeDefKind::Type(_));
            assert!(is_use || definition.docs.contents.is_some(), "`{name}` has no documentation");
        }
        for (name, function) in &interface.functions {
            assert!(function.docs.contents.is_some(), "`{name}` has no documentation");
        }
    }
}
