//! The value of a Python script is that of its last statement, as Python's own parser sees it.

use glovebox::Language;
use glovebox_tests::sandbox;

/// Generated scripts; with the default fuel there would be a few hundred.
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
