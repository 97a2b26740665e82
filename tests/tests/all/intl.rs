//! `Intl` against Node.js: `tests/goldens/intl.json` contains 500 calls with Node's results, which
//! `vendor_js/intl/source/calls.mjs` writes. `BLESS=1` adds the results that differ here, as `ours`.

use std::{env, fs, path::PathBuf};

use glovebox::{Language, Policy, Request, Sandbox};
use glovebox_tests::engine;
use serde_json::{Value, json};

/// The differences come from data that FormatJS lacks: day periods of Korean and Traditional Chinese, and the
/// nominative of months in Finnish.
const MAX_DIFFERENCES: usize = 5;

const SCRIPT: &str = "
    const made = ({ type, method, locale, options, args }) =>
      new Intl[type](locale === 'tlh' ? ['tlh', 'en-US'] : locale, options)[method](...args);
    const results = context.map((call) => { try { return made(call); } catch (error) { return String(error); } });
    console.log(JSON.stringify(results));
";

#[test]
fn formatting_equals_nodes() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens/intl.json");
    let mut calls: Vec<Value> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let sandbox = Sandbox::builder(engine()).language(Language::JavaScript).policy(Policy::default()).build().unwrap();
    let execution = sandbox.run(Request::new(SCRIPT).context(&json!(calls))).unwrap();
    assert!(execution.success(), "{execution:?}");
    let results: Vec<Value> = serde_json::from_str(&execution.stdout.text()).unwrap();
    assert_eq!(results.len(), calls.len());
    let mut unexpected = Vec::new();
    let mut differences = 0;
    for (call, result) in calls.iter_mut().zip(&results) {
        let expected = call.get("ours").unwrap_or(&call["node"]);
        differences += usize::from(*result != call["node"]);
        if result == expected {
            continue;
        }
        unexpected.push(format!("{call}\n  returned {result}"));
        let call = call.as_object_mut().unwrap();
        if *result == call["node"] {
            call.remove("ours");
        } else {
            call.insert("ours".to_owned(), result.clone());
        }
    }
    assert!(differences <= MAX_DIFFERENCES, "{differences} of {} calls differ from Node.js", calls.len());
    if env::var_os("BLESS").is_some_and(|value| value == "1") {
        let lines: Vec<String> = calls.iter().map(Value::to_string).collect();
        fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
    } else {
        assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    }
}
