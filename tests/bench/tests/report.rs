//! Tests the JSON report, which programs such as `.ci/threads` read.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::BTreeSet, process::Command};

use serde_json::Value;

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_report_has_every_case() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_glovebox-bench")).args(["javascript", "--quick", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(keys(&report), BTreeSet::from(["machine", "results", "ratios", "differences", "sessions", "suspended"]));
    let cases: BTreeSet<&str> =
        report["results"].as_array().unwrap().iter().map(|line| line["case"].as_str().unwrap()).collect();
    let expected = [
        "fresh",
        "component",
        "component_awaited",
        "component_async",
        "live",
        "instantiate",
        "process",
        "work",
        "checkpoint",
        "checkpoint_512k",
        "checkpoint_1m",
        "checkpoint_4m",
        "checkpoint_16m",
        "checkpoint_64m",
        "fork",
        "hibernate",
        "resume",
        "suspend_1",
        "resume_1",
        "suspend_10",
        "resume_10",
        "suspend_100",
        "resume_100",
        "calls",
        "journal",
        "parallel_1",
        "parallel_n",
        "parallel_2n",
        "many_sessions",
    ];
    assert_eq!(cases, BTreeSet::from(expected));
    for line in report["results"].as_array().unwrap() {
        assert_eq!(keys(line), BTreeSet::from(["case", "runtime", "n", "p50_ms", "p99_ms"]));
        assert!(line["p50_ms"].as_f64().unwrap() > 0.0, "{line}");
    }
    for line in report["ratios"].as_array().unwrap() {
        assert_eq!(keys(line), BTreeSet::from(["case", "runtime", "against", "ratio"]));
    }
    for line in report["sessions"].as_array().unwrap() {
        assert_eq!(line["count"], 100);
        let bytes = line["bytes_each"].as_u64().unwrap();
        assert!((10_000..10_000_000).contains(&bytes), "{line}");
    }
    let suspended = report["suspended"].as_array().unwrap();
    assert_eq!(suspended.iter().map(|line| line["answered"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 10, 100]);
    for line in suspended {
        assert_eq!(keys(line), BTreeSet::from(["runtime", "answered", "bytes"]));
        let bytes = line["bytes"].as_u64().unwrap();
        assert!((200..20_000).contains(&bytes), "{line}");
    }
    for line in report["differences"].as_array().unwrap() {
        assert_eq!(keys(line), BTreeSet::from(["case", "runtime", "against", "difference_us"]));
    }
}
