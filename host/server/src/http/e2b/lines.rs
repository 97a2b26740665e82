//! Results of executions as JSON lines.

use std::time::SystemTime;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{Display, Execution, Form, Outcome};
use serde_json::{Map, Value, json};

use crate::{
    ServiceError,
    http::{
        budget::ReservedResponse,
        output::{OUTPUT_BYTES, Pieces},
    },
    json::{JsonCost, json_len},
    text::Utf8Pieces,
};

/// Returns the current Unix time in nanoseconds.
fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Formats a chunk of output. `name` is the output stream.
pub(super) fn output(name: &str, text: &str) -> Value {
    json!({ "type": name, "text": text, "timestamp": now_ns() })
}

/// Returns the output that was not streamed because the client read too slowly.
fn unstreamed(pieces: &Pieces, execution: &Execution) -> impl Iterator<Item = Value> {
    let rest = pieces.stopped_at().map(|streamed| {
        [
            ("stdout", execution.stdout.bytes.get(streamed.stdout..)),
            ("stderr", execution.stderr.bytes.get(streamed.stderr..)),
        ]
    });
    rest.into_iter().flatten().flat_map(|(name, bytes)| {
        let mut decoder = Utf8Pieces::default();
        bytes.unwrap_or_default().chunks(OUTPUT_BYTES).map(move |part| output(name, &decoder.next(part)))
    })
}

/// Returns the lines that follow the streamed output of an execution, beginning with the rest of the output. Reserves
/// memory before building the lines. `count` is the execution's number within its context.
pub(super) fn end(pieces: &Pieces, execution: &Execution, count: u64) -> Result<ReservedResponse, ServiceError> {
    let invalid = |error: serde_json::Error| ServiceError::Invalid(error.to_string());
    // The lines are built twice, once to measure them, so that they are never all in memory as values.
    let lines = || unstreamed(pieces, execution).chain(results(execution)).chain(failure(execution)).chain(last(count));
    let mut len = 0;
    for line in lines() {
        len += json_len(&line).map_err(invalid)? + 1;
    }
    let room = pieces.responder.reserve(len)?;
    let mut bytes = Vec::with_capacity(len);
    for line in lines() {
        serde_json::to_writer(&mut bytes, &line).map_err(invalid)?;
        bytes.push(b'\n');
    }
    Ok(ReservedResponse { bytes: bytes.into(), room })
}

/// Returns the lines for a request that failed.
pub(super) fn failure_lines(
    pieces: &Pieces,
    error: &ServiceError,
    count: u64,
) -> Result<ReservedResponse, ServiceError> {
    let line = json!({
        "type": "error", "name": error.code(), "value": error.public().to_string(), "traceback": "",
    });
    let lines = [line].into_iter().chain(last(count));
    let bytes: Vec<u8> = lines.flat_map(|line| (line.to_string() + "\n").into_bytes()).collect();
    Ok(ReservedResponse { room: pieces.responder.reserve(bytes.len())?, bytes: bytes.into() })
}

/// Returns the last lines of every response.
fn last(count: u64) -> [Value; 2] {
    [json!({ "type": "number_of_executions", "execution_count": count }), json!({ "type": "end_of_execution" })]
}

/// Returns the displays of an execution, and the value of its last expression unless a display shows that value.
fn results(execution: &Execution) -> impl Iterator<Item = Value> {
    let has_result = execution.displays.iter().any(|display| display.is_result);
    let value = execution.value.iter().filter(move |_| !has_result);
    let value = value.map(|value| json!({ "type": "result", "is_main_result": true, "text": unquoted(&value.repr) }));
    execution.displays.iter().map(of_display).chain(value)
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
            // Parsed values can occupy many times the memory of text such as `[[],[],…]`. Text whose parsed value would
            // be too large stays a string.
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
