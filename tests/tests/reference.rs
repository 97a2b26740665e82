//! The contract's page in `docs/` is what `wit/` says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, fs, path::Path};

use glovebox_tests::{
    Goldens,
    reference::{anchor, page},
};

fn made() -> String {
    page(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit"))
}

#[test]
fn the_reference_page_is_what_the_contract_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md");
    if Goldens::blessing() {
        fs::write(&path, made()).unwrap();
    }
    let held = fs::read_to_string(&path).unwrap_or_default();
    assert!(held == made(), "docs/reference.md is not what wit/ says; run with BLESS=1");
}

#[test]
fn links_on_the_reference_page_lead_somewhere() {
    let page = made();
    let headings: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| anchor(line.trim_start_matches(['#', ' '])))
        .collect();
    let anchors: BTreeSet<&str> = headings.iter().map(String::as_str).collect();
    assert_eq!(anchors.len(), headings.len(), "two headings have one anchor: {headings:?}");
    let links: BTreeSet<&str> = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 40, "{links:?}");
    let lost: Vec<_> = links.difference(&anchors).collect();
    assert!(lost.is_empty(), "{lost:?}");
}
