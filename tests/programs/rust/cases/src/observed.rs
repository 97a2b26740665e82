//! Results in the format of an output line. An execution has the keys of `glovebox run --json`.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_guest::{
    Advice, Diagnostic, Display, Error, Execution, FileEntry, Files, Form, GuestValue, Guidance, Outcome, Raised,
    ResourceKind, ToolError, ToolOutcome, ToolRecord,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::hex::Hex;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    Executed { observed: Value, files: BTreeMap<String, Hex> },
    Validated(Vec<Value>),
    Variable(Option<Value>),
    Listed(Vec<String>),
    Done { files: BTreeMap<String, Hex> },
    Refused(String),
}

impl StepResult {
    pub fn ran(execution: &Execution, files: BTreeMap<String, Hex>) -> Self {
        Self::Executed { observed: observed(execution), files }
    }

    pub fn validated(diagnostics: &[Diagnostic]) -> Self {
        let diagnostic = |each: &Diagnostic| json!({"line": each.line, "column": each.column, "message": each.message});
        Self::Validated(diagnostics.iter().map(diagnostic).collect())
    }

    pub fn variable(value: Option<&GuestValue>) -> Self {
        Self::Variable(value.map(guest_value))
    }
}

/// Returns the contents of the named files that exist.
pub fn look(files: &Files, names: &[String]) -> BTreeMap<String, Hex> {
    names.iter().filter_map(|name| Some((name.clone(), Hex(files.read(name).ok()?)))).collect()
}

/// Returns the contents of all files. Omits empty directories, and replaces links with their targets.
pub fn all_of(files: &Files) -> Result<BTreeMap<String, Hex>, Error> {
    let bytes = |entry: FileEntry| Some((entry.path.clone(), Hex(files.read(&entry.path).ok()?)));
    Ok(files.list("**")?.into_iter().filter_map(bytes).collect())
}

/// Converts an error to a refusal. The case may expect it; otherwise the case fails. Limits are named as in policy
/// files.
pub fn refused(error: &Error) -> StepResult {
    StepResult::Refused(match error {
        Error::SourceTooLarge { bytes, limit } => {
            format!("{bytes} bytes; the maximum `limits.source_bytes` is {limit}")
        }
        Error::StdinTooLarge { bytes, limit } => format!("{bytes} bytes; the maximum `limits.stdin_bytes` is {limit}"),
        other => other.to_string(),
    })
}

fn observed(execution: &Execution) -> Value {
    let metadata = &execution.metadata;
    json!({
        "success": execution.is_success(),
        "outcome": outcome(&execution.outcome),
        "exit_code": exit_code(&execution.outcome),
        "interrupted": execution.interrupted.as_ref().map(raised),
        "value": execution.value.as_ref().map(guest_value),
        "stdout": execution.stdout.text(),
        "stderr": execution.stderr.text(),
        "stdout_truncated": execution.stdout.is_truncated(),
        "stderr_truncated": execution.stderr.is_truncated(),
        "displays": execution.displays.iter().map(display).collect::<Vec<_>>(),
        "displays_dropped": execution.displays_dropped,
        "fuel_consumed": execution.fuel_consumed,
        "memory_used_bytes": execution.memory_used_bytes,
        "duration_ms": execution.duration().as_secs_f64() * 1000.0,
        "files_created": execution.files_created,
        "files_modified": execution.files_modified,
        "files_deleted": execution.files_deleted,
        "tool_calls": execution.tool_calls.iter().map(tool_call).collect::<Vec<_>>(),
        "workspace_path": null,
        "session_id": execution.session_id,
        "rolled_back_to": execution.rolled_back_to.map(|rollback| {
            json!({"checkpoint": rollback.checkpoint, "executions_lost": rollback.executions_lost})
        }),
        "guidance": guidance(&execution.guidance),
        "metadata": {
            "runtime": metadata.runtime.to_string(),
            "prepared": metadata.prepared,
            "stdout_total_bytes": execution.stdout.total_bytes,
            "stderr_total_bytes": execution.stderr.total_bytes,
        },
    })
}

fn display(display: &Display) -> Value {
    let data = display.forms.iter().map(|Form { media_type, data }| {
        let is_text = media_type.starts_with("text/")
            || media_type.ends_with("+json")
            || media_type.ends_with("+xml")
            || ["application/json", "application/javascript", "application/xml"].contains(&media_type.as_str());
        let data = if is_text { String::from_utf8_lossy(data).into_owned() } else { BASE64_STANDARD.encode(data) };
        (media_type.clone(), Value::from(data))
    });
    json!({"is_result": display.is_result, "data": data.collect::<serde_json::Map<_, _>>()})
}

fn guidance(guidance: &Guidance) -> Value {
    let fuel = &guidance.fuel;
    json!({
        "fuel": {
            "used": fuel.used,
            "limit": fuel.limit,
            "utilization_percent": fuel.utilization_percent,
            "status": fuel.status.to_string(),
            "suggested_limit": fuel.suggested_limit,
            "likely_causes": fuel.likely_causes,
        },
        "advice": guidance.advice.iter().map(advice).collect::<Vec<_>>(),
    })
}

fn advice(advice: &Advice) -> Value {
    let correction = advice.correction.as_ref().map(|line| json!({"line": line.line, "text": line.text}));
    json!({
        "kind": advice.kind.to_string(),
        "summary": advice.summary,
        "steps": advice.steps,
        "correction": correction,
    })
}

fn outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Completed => json!({"kind": "completed"}),
        Outcome::Exited(code) => json!({"kind": "exited", "code": code}),
        Outcome::Raised(exception) => {
            let mut exception_json = raised(exception);
            exception_json["kind"] = "raised".into();
            exception_json
        }
        Outcome::Exhausted(exhausted) => json!({
            "kind": "exhausted",
            "resource": exhausted.resource.to_string(),
            "limit": exhausted.limit,
            "used": exhausted.used,
        }),
        Outcome::Cancelled => json!({"kind": "cancelled"}),
        Outcome::Trapped(trap) => json!({"kind": "trapped", "trap": trap.to_string()}),
    }
}

/// Returns the process exit code for an outcome.
fn exit_code(outcome: &Outcome) -> i32 {
    match outcome {
        Outcome::Completed => 0,
        Outcome::Exited(code) => *code,
        Outcome::Raised(_) => 1,
        Outcome::Exhausted(exhausted) if exhausted.resource == ResourceKind::Time => 124,
        Outcome::Exhausted(_) => 137,
        Outcome::Cancelled => 130,
        Outcome::Trapped(_) => 134,
    }
}

fn raised(raised: &Raised) -> Value {
    json!({"type": raised.type_name, "message": raised.message, "traceback": raised.traceback, "line": raised.line})
}

/// Omits `json` if there is no JSON text, because null is a valid value.
fn guest_value(value: &GuestValue) -> Value {
    let mut json_value = json!({"repr": value.repr});
    if let Some(json) = value.json.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        json_value["json"] = json;
    }
    json_value
}

fn tool_call(call: &ToolRecord) -> Value {
    let parsed = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let (result, error) = match &call.outcome {
        ToolOutcome::Returned(result) => (parsed(result), None),
        ToolOutcome::Failed(failure) => (None, Some((error_name(failure.kind), failure.message.as_deref()))),
        ToolOutcome::Unfinished => (None, Some(("Unfinished", Some("the execution ended before the tool returned")))),
    };
    json!({
        "name": call.name,
        "arguments": parsed(&call.arguments),
        "result": result,
        "error": error.map(|(name, message)| json!({"type": name, "message": message})),
        "started_ms": call.started_ns as f64 / 1e6,
        "duration_ms": call.duration_ns as f64 / 1e6,
    })
}

/// Returns the name of the exception that scripts see.
fn error_name(kind: ToolError) -> &'static str {
    match kind {
        ToolError::Failed => "ToolError",
        ToolError::Limit => "ToolLimit",
        ToolError::Timeout => "ToolTimeout",
        ToolError::Unknown => "UnknownTool",
        ToolError::InvalidArguments => "InvalidArguments",
        ToolError::Denied => "ToolDenied",
    }
}
