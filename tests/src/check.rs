//! Compares the result of a step with the expectations of its case.

use std::{collections::BTreeMap, fmt::Write as _};

use glovebox::Language;
use serde_json::Value;

use crate::{Case, DiagnosticMatch, DiagnosticSeen, Expect, ObservedExecution, StepResult, TextMatch};

/// Describes how the results of a case's steps differ from its expectations. Returns an empty string if the results are
/// as expected.
pub fn check_case(case: &Case, results: &[StepResult]) -> String {
    let mut report = String::new();
    for (step, result) in case.steps.iter().zip(results) {
        for wrong in check(&step.expect, result, case.language) {
            report += &format!("[{}] {wrong}\n", step.name);
        }
    }
    if results.len() != case.steps.len() {
        report += &format!("{} steps gave {} results\n", case.steps.len(), results.len());
    }
    report
}

/// Describes each difference between `result` and `expect` in one paragraph. Returns an empty list if the result is as
/// expected.
pub fn check(expect: &Expect, result: &StepResult, language: Language) -> Vec<String> {
    let mut wrong = Vec::new();
    match (result, &expect.error, &expect.diagnostics) {
        (StepResult::Refused(error), Some(wanted), _) => text(&mut wrong, "error", wanted, error),
        (StepResult::Validated(seen), _, Some(wanted)) => diagnostics(&mut wrong, wanted, seen),
        (StepResult::Variable(seen), None, None) => value(&mut wrong, expect, seen.as_ref()),
        (StepResult::Listed(seen), None, None) => same(&mut wrong, "paths", expect.paths.as_ref(), seen),
        (StepResult::Done { files }, None, None) if expect.outcome.is_none() => contents(&mut wrong, expect, files),
        (StepResult::Executed { observed, files }, None, None) => {
            ran(&mut wrong, expect, observed, language);
            contents(&mut wrong, expect, files);
            if !wrong.is_empty() {
                wrong.push(summary(observed));
            }
        }
        (result, ..) => wrong.push(format!("unexpected kind of result:\n{result:#?}")),
    }
    wrong
}

fn contents(wrong: &mut Vec<String>, expect: &Expect, files: &BTreeMap<String, Vec<u8>>) {
    for (name, wanted) in &expect.files {
        match files.get(name) {
            Some(bytes) => text(wrong, &format!("file `{name}`"), wanted, &String::from_utf8_lossy(bytes)),
            None => wrong.push(format!("file `{name}`: not in the workspace")),
        }
    }
}

fn value(wrong: &mut Vec<String>, expect: &Expect, seen: Option<&Value>) {
    same(wrong, "has_value", expect.has_value, seen.is_some());
    if let Some(wanted) = &expect.value {
        text(wrong, "value", wanted, seen.and_then(|seen| seen["repr"].as_str()).unwrap_or(""));
    }
    let json = seen.and_then(|seen| seen.get("json"));
    same(wrong, "is_json", expect.is_json, json.is_some());
    if let Some(wanted) = &expect.value_json {
        let wanted: Value = serde_json::from_str(wanted).expect("`value_json` is JSON text");
        same(wrong, "value_json", Some(Some(&wanted)), json);
    }
}

fn displays(wrong: &mut Vec<String>, expect: &Expect, seen: &ObservedExecution) {
    let (mut types, mut texts) = (Vec::new(), String::new());
    for display in &seen.displays {
        let data = display.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
        let mark = if display.get("is_result") == Some(&true.into()) { "result: " } else { "" };
        types.push(format!("{mark}{}", data.keys().map(String::as_str).collect::<Vec<_>>().join(" ")));
        let of_text = data.iter().filter(|(media_type, _)| !media_type.starts_with("image/png"));
        texts.extend(of_text.filter_map(|(_, data)| data.as_str()).map(|text| format!("{text}\n")));
    }
    same(wrong, "displays", Some(&expect.displays), &types);
    same(wrong, "displays_dropped", Some(expect.displays_dropped), seen.displays_dropped);
    if let Some(wanted) = &expect.display_texts {
        text(wrong, "display_texts", wanted, &texts);
    }
}

fn retained(wrong: &mut Vec<String>, expect: &Expect, seen: &ObservedExecution) {
    value(wrong, expect, seen.value.as_ref());
    same(wrong, "rolled_back", Some(expect.rolled_back), seen.rolled_back_to.is_some());
    for (name, key, wanted) in [
        ("interrupted", "type", &expect.interrupted),
        ("interrupted_traceback", "traceback", &expect.interrupted_traceback),
    ] {
        if let Some(wanted) = wanted {
            let found = seen.interrupted.as_ref().and_then(|raised| raised[key].as_str());
            text(wrong, name, wanted, found.unwrap_or(""));
        }
    }
    guidance(wrong, expect, &seen.guidance);
    let names: Vec<String> =
        seen.tool_calls.iter().map(|call| call["name"].as_str().unwrap_or("").to_owned()).collect();
    same(wrong, "tool_calls", Some(&expect.tool_calls), &names);
    if !expect.tool_outcomes.is_empty() {
        let outcome = |call: &Value| call["error"]["type"].as_str().unwrap_or("returned").to_owned();
        let outcomes: Vec<String> = seen.tool_calls.iter().map(outcome).collect();
        same(wrong, "tool_outcomes", Some(&expect.tool_outcomes), &outcomes);
    }
}

fn guidance(wrong: &mut Vec<String>, expect: &Expect, seen: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let advice = seen["advice"].as_array().map_or(&[][..], Vec::as_slice);
    same(wrong, "advice", expect.advice.clone(), advice.iter().map(|advice| text(&advice["kind"])).collect::<Vec<_>>());
    let correction = advice.first().map_or_else(String::new, |advice| text(&advice["correction"]["text"]));
    same(wrong, "correction", expect.correction.clone(), correction);
    same(wrong, "fuel_status", expect.fuel_status.clone(), text(&seen["fuel"]["status"]));
}

fn ran(wrong: &mut Vec<String>, expect: &Expect, seen: &ObservedExecution, language: Language) {
    let kind = field(seen, "kind");
    same(wrong, "outcome", expect.outcome.as_deref(), kind);
    same(wrong, "code", expect.code, number(seen, "code"));
    same(wrong, "line", expect.line, number(seen, "line"));
    same(wrong, "resource", expect.resource.as_deref(), field(seen, "resource"));
    same(wrong, "limit", expect.limit, number(seen, "limit"));
    same(wrong, "trap", expect.trap.as_deref(), field(seen, "trap"));
    same(wrong, "exit_code", expect.exit_code, seen.exit_code);
    for (key, wanted) in [("type", &expect.type_name), ("message", &expect.message), ("traceback", &expect.traceback)] {
        if let Some(wanted) = wanted {
            text(wrong, key, wanted, field(seen, key));
        }
    }

    let well = seen.success;
    let silent = TextMatch::exactly("");
    stream(
        wrong,
        "stdout",
        expect.stdout.as_ref().or(Some(&silent)),
        &seen.stdout,
        seen.metadata.stdout_total_bytes,
        seen.stdout_truncated,
    );
    let stderr = expect.stderr.as_ref().or(well.then_some(&silent));
    stream(wrong, "stderr", stderr, &seen.stderr, seen.metadata.stderr_total_bytes, seen.stderr_truncated);

    displays(wrong, expect, seen);

    same(wrong, "files_created", Some(&expect.files_created), &seen.files_created);
    same(wrong, "files_modified", Some(&expect.files_modified), &seen.files_modified);
    same(wrong, "files_deleted", Some(&expect.files_deleted), &seen.files_deleted);
    between(wrong, "fuel_consumed", expect.min_fuel.or(Some(1)), expect.max_fuel, seen.fuel_consumed);
    between(
        wrong,
        "memory_used_bytes",
        expect.min_memory_bytes.or(Some(1)),
        expect.max_memory_bytes,
        seen.memory_used_bytes,
    );
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a duration in a test's report")]
    let duration_ms = seen.duration_ms as u64;
    between(wrong, "duration_ms", expect.min_duration_ms, expect.max_duration_ms, duration_ms);

    retained(wrong, expect, seen);

    // These checks apply to every execution, in all cases.
    same(wrong, "metadata.runtime", Some(language.name()), seen.metadata.runtime.as_str());
    let success = kind == "completed" || (kind == "exited" && number(seen, "code") == 0);
    same(wrong, "success", Some(success), seen.success);
    let exit_code = match (kind, field(seen, "resource")) {
        ("completed", _) => 0,
        ("exited", _) => number(seen, "code"),
        ("raised", _) => 1,
        ("exhausted", "time") => 124,
        ("exhausted", _) => 137,
        ("cancelled", _) => 130,
        _ => 134,
    };
    same(wrong, "exit_code for this outcome", Some(exit_code), i64::from(seen.exit_code));
    if seen.duration_ms < 0.0 {
        wrong.push(format!("duration_ms: {} is negative", seen.duration_ms));
    }
}

fn stream(wrong: &mut Vec<String>, name: &str, wanted: Option<&TextMatch>, seen: &str, total: u64, truncated: bool) {
    let Some(wanted) = wanted else { return };
    text(wrong, name, wanted, seen);
    same(wrong, &format!("{name}.total_bytes"), wanted.total_bytes, total);
    if !wanted.any || wanted.truncated {
        same(wrong, &format!("{name}_truncated"), Some(wanted.truncated), truncated);
    }
}

fn text(wrong: &mut Vec<String>, name: &str, wanted: &TextMatch, seen: &str) {
    if let Some(equals) = &wanted.equals
        && equals != seen
    {
        wrong.push(format!("{name} differs (- expected, + got):\n{}", difference(equals, seen)));
    }
    let mut not = |what: &str, part: &str| wrong.push(format!("{name} does not {what} {part:?}:\n{}", shown(seen)));
    for part in &wanted.contains {
        if !seen.contains(part.as_str()) {
            not("contain", part);
        }
    }
    let mut rest = seen;
    for part in &wanted.in_order {
        match rest.split_once(part.as_str()) {
            Some((_, after)) => rest = after,
            None => {
                not("contain, after the parts before it,", part);
                break;
            }
        }
    }
    for part in &wanted.excludes {
        if seen.contains(part.as_str()) {
            not("avoid", part);
        }
    }
    if let Some(part) = &wanted.starts_with
        && !seen.starts_with(part.as_str())
    {
        not("start with", part);
    }
    if let Some(part) = &wanted.ends_with
        && !seen.ends_with(part.as_str())
    {
        not("end with", part);
    }
    same(wrong, &format!("lines of {name}"), wanted.lines, seen.lines().count());
    between(wrong, &format!("bytes of {name}"), wanted.min_bytes, wanted.max_bytes, seen.len() as u64);
}

fn diagnostics(wrong: &mut Vec<String>, wanted: &[DiagnosticMatch], seen: &[DiagnosticSeen]) {
    if wanted.len() != seen.len() {
        wrong.push(format!("expected {} diagnostics, got {}: {seen:#?}", wanted.len(), seen.len()));
    }
    for (index, (wanted, seen)) in wanted.iter().zip(seen).enumerate() {
        let name = |what: &str| format!("diagnostic {index}: {what}");
        same(wrong, &name("line"), Some(wanted.line), seen.line);
        same(wrong, &name("column"), wanted.column, seen.column);
        if let Some(message) = &wanted.message {
            text(wrong, &name("message"), message, &seen.message);
        }
    }
}

fn same<T: PartialEq<U> + std::fmt::Debug, U: std::fmt::Debug>(
    wrong: &mut Vec<String>,
    name: &str,
    wanted: Option<T>,
    seen: U,
) {
    if let Some(wanted) = wanted
        && wanted != seen
    {
        wrong.push(format!("{name}: expected {wanted:?}, got {seen:?}"));
    }
}

fn between(wrong: &mut Vec<String>, name: &str, min: Option<u64>, max: Option<u64>, seen: u64) {
    if let Some(min) = min.filter(|min| seen < *min) {
        wrong.push(format!("{name}: {seen} is less than {min}"));
    }
    if let Some(max) = max.filter(|max| seen > *max) {
        wrong.push(format!("{name}: {seen} is more than {max}"));
    }
}

fn field<'a>(seen: &'a ObservedExecution, key: &str) -> &'a str {
    seen.outcome.get(key).and_then(Value::as_str).unwrap_or("")
}

/// Returns a number from the outcome, or a number that no case expects if the key is absent.
fn number(seen: &ObservedExecution, key: &str) -> i64 {
    seen.outcome.get(key).and_then(Value::as_i64).unwrap_or(i64::MIN)
}

fn difference(wanted: &str, seen: &str) -> String {
    if wanted.len().max(seen.len()) > 64 << 10 {
        return format!("({} bytes against {})", wanted.len(), seen.len());
    }
    let mut out = String::new();
    for change in similar::TextDiff::from_lines(wanted, seen).iter_all_changes() {
        let end = if change.value().ends_with('\n') { "" } else { "␤ missing\n" };
        let _ = write!(out, "  {} {}{end}", change.tag(), change.value());
    }
    out
}

fn shown(seen: &str) -> String {
    let mut out = String::new();
    for line in seen.lines().take(60) {
        let cut: String = line.chars().take(400).collect();
        let _ = writeln!(out, "  | {cut}");
    }
    out
}

fn summary(seen: &ObservedExecution) -> String {
    let outcome = Value::Object(
        seen.outcome.iter().filter(|(key, _)| *key != "traceback").map(|(k, v)| (k.clone(), v.clone())).collect(),
    );
    format!("outcome {outcome}\nstdout\n{}stderr\n{}", shown(&seen.stdout), shown(&seen.stderr))
}
