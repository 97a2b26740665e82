//! Compares `Intl` with Node.js: `tests/goldens/intl.json` contains 500 calls with Node's results, which
//! `vendor_js/intl/source/calls.mjs` writes. `BLESS=1` adds Glovebox's results as `ours` where they differ.

use std::{fs, path::PathBuf};

use glovebox::{Language, Policy, Request, Sandbox};
use glovebox_tests::{Goldens, engine};
use serde_json::{Value, json};

/// Maximum number of calls whose results differ from Node.js. FormatJS has no data for day periods in Traditional
/// Chinese, the nominative of months in Czech, or an Arabic plural.
const MAX_DIFFERENCES: usize = 3;

const SCRIPT: &str = "
    const made = ({ type, method, locale, options, args }) =>
      new Intl[type](locale === 'tlh' ? ['tlh', 'en-US'] : locale, options)[method](...args);
    const results = context.map((call) => { try { return made(call); } catch (error) { return String(error); } });
    console.log(JSON.stringify(results));
";

#[test]
fn formatting_equals_nodes() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("goldens/intl.json");
    let text = fs::read_to_string(&path).unwrap();
    let calls: Vec<Value> = serde_json::from_str(&text).unwrap();
    let sandbox = Sandbox::builder(engine()).language(Language::JavaScript).policy(Policy::default()).build().unwrap();
    let execution = sandbox.run(Request::new(SCRIPT).context(&json!(calls))).unwrap();
    assert!(execution.is_success(), "{execution:?}");
    let results: Vec<Value> = serde_json::from_str(&execution.stdout.text()).unwrap();
    assert_eq!(results.len(), calls.len());
    let differences = calls.iter().zip(&results).filter(|(call, result)| call["node"] != **result).count();
    assert!(differences <= MAX_DIFFERENCES, "{differences} of {} calls differ from Node.js", calls.len());
    if Goldens::blessing() {
        // The file contains one call per line, between brackets.
        let lines =
            text.lines().filter_map(|line| line.strip_suffix(',').or_else(|| line.strip_suffix('}').map(|_| line)));
        let lines: Vec<String> = lines
            .zip(calls.iter().zip(&results))
            .map(|(line, (call, result))| {
                let without = line.split(r#","ours":"#).next().unwrap().trim_end_matches('}');
                let ours = if call["node"] == *result { String::new() } else { format!(r#","ours":{result}"#) };
                format!("{without}{ours}}}")
            })
            .collect();
        fs::write(path, format!("[\n{}\n]\n", lines.join(",\n"))).unwrap();
        return;
    }
    for (call, result) in calls.iter().zip(&results) {
        assert_eq!(result, call.get("ours").unwrap_or(&call["node"]), "{call}");
    }
}
