//! Tests that a Python script's value is its last statement's value, according to Python's own parser.

use glovebox::Language;
use glovebox_tests::sandbox;

/// The number of generated scripts. They need far more fuel than the default limit.
const SCRIPTS: usize = 6_000;

#[test]
fn last_statement_agrees_with_the_syntax_tree() {
    let python = sandbox(Language::Python, |policy| {
        policy.args = vec![SCRIPTS.to_string()];
        policy.limits.fuel = 1_000_000_000_000;
        policy.limits.timeout_ms = 120_000;
    });
    let execution = python.execute(include_str!("values.py")).unwrap();
    assert_eq!(execution.stdout.text(), "True True True\n", "{}", execution.stderr.text());
}
