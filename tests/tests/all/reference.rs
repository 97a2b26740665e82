//! Tests that the contract's page in `docs/` and its types in `bindings/python` match `wit/`.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use glovebox_tests::{
    hold_file, python_types,
    reference::{anchor, page},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn generated_page() -> String {
    page(&root().join("wit"))
}

#[test]
fn reference_page_matches_the_contract() {
    hold_file("docs/reference.md", &generated_page());
}

#[test]
fn python_types_match_the_contract() {
    hold_file("bindings/python/src/glovebox_sandbox/types.py", &python_types::module(&root().join("wit")));
}

#[test]
fn reference_page_links_are_valid() {
    let page = generated_page();
    let headings: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches(['#', ' '])))
        .collect();
    let anchors: BTreeSet<&str> = headings.iter().map(String::as_str).collect();
    assert_eq!(anchors.len(), headings.len(), "two headings share an anchor: {headings:?}");
    let links: BTreeSet<&str> = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 40, "{links:?}");
    let lost: Vec<_> = links.difference(&anchors).collect();
    assert!(lost.is_empty(), "{lost:?}");
}
