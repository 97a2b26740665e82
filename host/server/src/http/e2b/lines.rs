//! Results of executions as JSON lines.

use std::time::SystemTime;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{Display, Execution, Form, Outcome};
use serde_json::{Map, Value, json};

use crate::{ServiceError, json::JsonCost};

/// Returns the current Unix time in nanoseconds.
fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Formats a chunk of output. `name` is the output stream.
pub(super) fn output(name: &str, text: &str) -> Value {
    json!({ "type": name, "text": text, "timestamp": now_ns() })
}

/// Returns the lines that follow the output of an execution. `count` is the execution's number within its context.
pub(super) fn end(executed: Result<Execution, ServiceError>, count: u64) -> Vec<u8> {
    let mut lines = Vec::new();
    match executed {
        Ok(execution) => {
            lines.extend(results(&execution));
            lines.extend(failure(&execution));
        }
        Err(error) => lines.push(json!({
            "type": "error", "name": error.code(), "value": error.public().to_string(), "traceback": "",
        })),
    }
    lines.push(json!({ "type": "number_of_executions", "execution_count": count }));
    lines.push(json!({ "type": "end_of_execution" }));
    lines.iter().flat_map(|line| (line.to_string() + "\n").into_bytes()).collect()
}

/// Returns the displays of an execution and the value of its last expression.
fn results(execution: &Execution) -> Vec<Value> {
    let mut results: Vec<Value> = execution.displays.iter().map(of_display).collect();
    let has_result = execution.displays.iter().any(|display| display.is_result);
    if let Some(value) = execution.value.as_ref().filter(|_| !has_result) {
        results.push(json!({ "type": "result", "is_main_result": true, "text": unquoted(&value.repr) }));
    }
    results
}

fn of_display(display: &Display) -> Value {
    let (mut result, mut extra) = (Map::new(), Map::new());
    for form in &display.forms {
        let name = match form.media_type.as_str() {
            "text/plain" => "text",
            "text/html" => "html",
            "text/markdown" => "markdown",
            "text/latex" => "latex",
            "image/svg+xml" => "svg",
            "image/png" => "png",
            "image/jpeg" => "jpeg",
            "application/pdf" => "pdf",
            "application/json" => "json",
            "application/javascript" | "text/javascript" => "javascript",
            other => {
                extra.insert(other.to_owned(), text_of(form));
                continue;
            }
        };
        let value = match (name, form.text()) {
            // Parsed values occupy many times the memory of a text such as `[[],[],…]`. Such a text stays a string.
            ("json", Some(text)) if JsonCost::of(text.as_bytes()).is_ok() => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
            }
            ("text", Some(text)) => Value::from(unquoted(text)),
            _ => text_of(form),
        };
        result.insert(name.to_owned(), value);
    }
    result.insert("type".to_owned(), "result".into());
    result.insert("is_main_result".to_owned(), display.is_result.into());
    if !extra.is_empty() {
        result.insert("extra".to_owned(), extra.into());
    }
    result.into()
}

/// Returns text as a string and other data in base64.
fn text_of(form: &Form) -> Value {
    form.text().map_or_else(|| BASE64_STANDARD.encode(&form.data).into(), Value::from)
}

/// Removes the quotes from a string's representation, as E2B does.
fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}

/// Returns the error line of an execution, or `None` if the script succeeded.
fn failure(execution: &Execution) -> Option<Value> {
    let error = |name: &str, value: String, traceback: &str| {
        Some(json!({ "type": "error", "name": name, "value": value, "traceback": traceback }))
    };
    match &execution.outcome {
        Outcome::Completed | Outcome::Exited { code: 0 } => None,
        Outcome::Raised(raised) => error(&raised.type_name, raised.message.clone(), &raised.traceback),
        Outcome::Exited { code } => error("SystemExit", code.to_string(), ""),
        Outcome::Exhausted { .. } => error("LimitExceeded", execution.outcome.describe(), ""),
        Outcome::Cancelled => error("Cancelled", execution.outcome.describe(), ""),
        Outcome::Trapped { .. } => error("Crashed", execution.outcome.describe(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_matching_outer_quotes_are_removed() {
        for (text, expected) in [
            ("'a'", "a"),
            ("\"a'b\"", "a'b"),
            ("'", "'"),
            ("''", ""),
            ("1", "1"),
            ("'a' + 'b'", "a' + 'b"),
            ("'a\"", "'a\""),
        ] {
            assert_eq!(unquoted(text), expected, "{text}");
        }
    }
}
