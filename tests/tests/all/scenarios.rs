//! Every scenario of the requirements is shown by a case or a test, or has a reason why not.

use std::{collections::BTreeMap, path::Path};

use glovebox_tests::{Claims, Scenarios, cases_dir, hold_file, load_all_cases, lost_citations};

const PAGE: &str = "docs/scenarios.md";

/// The directories whose tests claim scenarios.
const TESTS: [&str; 5] = ["tests/tests", "host/cli/tests", "host/engine/tests", "runtimes/tests", "bindings/js/tests"];

/// The number of scenarios of each specification. The specifications are not in the repository: a lost line is detected
/// here.
const COUNTS: [(&str, usize); 5] = [
    ("add-javascript-change", 24),
    ("javascript-runtime", 53),
    ("python-runtime", 31),
    ("quickjs-prd", 51),
    ("repl-sandbox", 46),
];

#[test]
fn the_page_names_every_scenario_and_what_shows_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let scenarios = Scenarios::load().unwrap();
    let mut claims = Claims::default();
    load_all_cases(&cases_dir()).unwrap().iter().for_each(|case| claims.add_case(case));
    TESTS.iter().for_each(|place| claims.add_tests(&root.join(place), place).unwrap());

    assert_eq!(scenarios.counts(), BTreeMap::from(COUNTS));
    let problems = scenarios.problems(&claims);
    assert!(problems.is_empty(), "{problems:#?}");
    let page = scenarios.page(&claims);
    hold_file(PAGE, &page);
}

#[test]
fn sentences_name_only_what_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let scenarios = Scenarios::load().unwrap();
    let lost: Vec<String> = scenarios.sentences().flat_map(|text| lost_citations(text, &root)).collect();
    assert_eq!(lost, [""; 0]);
}
