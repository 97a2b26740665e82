//! The JSON form of an execution, as in the responses of `glovebox serve`, and conversions from the contract's results
//! to types of `glovebox-core`.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::{
    GuestValue, Language, Metadata, Metering, Outcome, Output, RaisedOutcome, Resource, TrapKind,
    guidance::{Advice, AdviceKind, Correction, FuelAnalysis, FuelStatus, Guidance},
    is_text, milliseconds,
    session::{CheckpointId, Rollback},
    tools::{ToolErrorKind, ToolOutcome, ToolRecord},
};
use glovebox_guest::{self as wit, Display, Execution, FileKind, Files, Form, OutputStream, Started, Step};
use serde::{Serialize, Serializer};

use crate::http::Problem;

/// Maximum total bytes of returned files in a response.
const MAX_RETURNED_BYTES: u64 = 32 << 20;

/// Maximum number of bytes in one read of a stream.
const READ_BYTES: u64 = 4 << 20;

/// The response body of an execution. A test compares its fields and their formats with the engine's `Execution`.
#[derive(Debug, Serialize)]
pub(crate) struct ExecutionAnswer {
    success: bool,
    outcome: Outcome,
    exit_code: i32,
    interrupted: Option<RaisedOutcome>,
    value: Option<GuestValue>,
    stdout: String,
    stderr: String,
    stdout_truncated: bool,
    stderr_truncated: bool,
    displays: Vec<DisplayAnswer>,
    displays_dropped: u64,
    fuel_consumed: u64,
    memory_used_bytes: u64,
    duration_ms: f64,
    files_created: Vec<String>,
    files_modified: Vec<String>,
    files_deleted: Vec<String>,
    tool_calls: Vec<ToolRecord>,
    /// Always null: the workspace has no host path.
    workspace_path: Option<String>,
    /// Always null: a session has no ID, only its state.
    session_id: Option<String>,
    rolled_back_to: Option<Rollback>,
    guidance: Guidance,
    metadata: Metadata,
    #[serde(flatten)]
    returned: ReturnedFiles,
}

/// The requested files in base64, by path.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ReturnedFiles {
    files: BTreeMap<String, String>,
    /// The number of omitted files: the first file that exceeds the total of 32 MiB, and all later ones.
    files_left_out: usize,
}

impl ReturnedFiles {
    /// Collects the files that match any of the patterns.
    pub(crate) fn of(files: &Files, patterns: &[String]) -> Result<Self, Problem> {
        let (mut returned, mut bytes) = (Self::default(), 0_u64);
        for pattern in patterns {
            for entry in files.list(pattern)? {
                if entry.kind != FileKind::File || returned.files.contains_key(&entry.path) {
                    continue;
                }
                bytes = bytes.saturating_add(entry.size_bytes);
                if bytes > MAX_RETURNED_BYTES {
                    returned.files_left_out += 1;
                    continue;
                }
                let contents = BASE64_STANDARD.encode(files.read(&entry.path)?);
                returned.files.insert(entry.path, contents);
            }
        }
        Ok(returned)
    }
}

/// Waits until an execution ends. The provider answers the execution's tool calls.
pub(crate) fn finish(started: &Started) -> Result<Execution, Problem> {
    loop {
        match started.step(&[])? {
            Step::Done(execution) => return Ok(execution),
            Step::Running => {}
            Step::NeedsTools(_) => {
                return Err(Problem::internal("the script waits for tool calls, but the request has no tools"));
            }
        }
    }
}

impl ExecutionAnswer {
    pub(crate) fn new(started: &Started, execution: Execution, returned: ReturnedFiles) -> Self {
        let outcome = outcome(execution.outcome);
        let stdout = whole(execution.stdout, |from, len| started.read_output(OutputStream::Stdout, from, len));
        let stderr = whole(execution.stderr, |from, len| started.read_output(OutputStream::Stderr, from, len));
        Self {
            success: outcome.is_success(),
            exit_code: outcome.exit_code(),
            outcome,
            interrupted: execution.interrupted.map(raised),
            value: execution.value.map(value),
            stdout: stdout.text(),
            stderr: stderr.text(),
            stdout_truncated: stdout.is_truncated(),
            stderr_truncated: stderr.is_truncated(),
            displays: execution.displays.into_iter().map(DisplayAnswer::from).collect(),
            displays_dropped: execution.displays_dropped,
            fuel_consumed: execution.fuel_consumed,
            memory_used_bytes: execution.memory_used_bytes,
            duration_ms: milliseconds(Duration::from_nanos(execution.duration_ns)),
            files_created: execution.files_created,
            files_modified: execution.files_modified,
            files_deleted: execution.files_deleted,
            tool_calls: execution.tool_calls.into_iter().map(tool_record).collect(),
            workspace_path: None,
            session_id: None,
            rolled_back_to: execution.rolled_back_to.map(rollback),
            guidance: guidance(execution.guidance),
            metadata: metadata(execution.metadata, &stdout, &stderr),
            returned,
        }
    }
}

/// Returns all retained output of a stream. The record of an execution may contain only the output's beginning.
fn whole(output: glovebox_guest::Output, read: impl Fn(u64, u64) -> Vec<u8>) -> Output {
    let glovebox_guest::Output { mut bytes, retained_bytes, total_bytes } = output;
    while (bytes.len() as u64) < retained_bytes {
        let more = read(bytes.len() as u64, READ_BYTES);
        if more.is_empty() {
            break;
        }
        bytes.extend_from_slice(&more);
    }
    Output { bytes, total_bytes }
}

/// A display in the format of Jupyter notebooks.
#[derive(Debug, Serialize)]
struct DisplayAnswer {
    is_result: bool,
    data: Data,
}

/// Data by media type. Text is stored unchanged, and all other data in base64.
#[derive(Debug)]
struct Data(Vec<Form>);

impl From<Display> for DisplayAnswer {
    fn from(Display { forms, is_result }: Display) -> Self {
        Self { is_result, data: Data(forms) }
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|Form { media_type, data }| {
            let text = if is_text(media_type) {
                String::from_utf8_lossy(data).into_owned()
            } else {
                BASE64_STANDARD.encode(data)
            };
            (media_type, text)
        }))
    }
}

/// Defines functions that convert between enumerations with the same cases.
macro_rules! same_cases {
    ($($name:ident: $from:ty => $to:ty { $($case:ident $(($content:ident))?),* $(,)? })*) => {
        $(fn $name(value: $from) -> $to {
            type Source = $from;
            match value {
                $(Source::$case $(($content))? => <$to>::$case $(($content))?),*
            }
        })*
    };
}

pub(crate) use same_cases;

same_cases! {
    resource: wit::ResourceKind => Resource { Fuel, Time, Memory }
    trap: wit::TrapKind => TrapKind { StackOverflow, Unreachable, OutOfBounds, BadCall, Arithmetic, BadReport, Other }
    tool_error: wit::ToolError => ToolErrorKind { Failed, Limit, Timeout, Unknown, InvalidArguments, Denied }
    fuel_status: wit::FuelStatus => FuelStatus { Efficient, Moderate, Warning, Critical, Exhausted }
    advice_kind: wit::AdviceKind => AdviceKind {
        Fuel, Time, Memory, CallDepth, Output, Module, Syntax, TypescriptSyntax, Path, Network, Subprocess, Threads, Input,
        Environment,
    }
}

pub(crate) fn language(language: wit::Language) -> Language {
    match language {
        wit::Language::Python => Language::Python,
        wit::Language::Javascript => Language::JavaScript,
    }
}

pub(crate) fn outcome(outcome: wit::Outcome) -> Outcome {
    match outcome {
        wit::Outcome::Completed => Outcome::Completed,
        wit::Outcome::Exited(code) => Outcome::Exited { code },
        wit::Outcome::Raised(it) => Outcome::Raised(raised(it)),
        wit::Outcome::Exhausted(wit::Exhausted { resource: what, limit, used }) => {
            Outcome::Exhausted { resource: resource(what), limit, used }
        }
        wit::Outcome::Cancelled => Outcome::Cancelled,
        wit::Outcome::Trapped(kind) => Outcome::Trapped { trap: trap(kind) },
    }
}

pub(crate) fn raised(raised: wit::Raised) -> RaisedOutcome {
    let wit::Raised { type_name, message, traceback, line } = raised;
    RaisedOutcome { type_name, message, traceback, line }
}

pub(crate) fn value(wit::GuestValue { repr, json }: wit::GuestValue) -> GuestValue {
    GuestValue { repr, json }
}

pub(crate) fn rollback(wit::Rollback { checkpoint, executions_lost }: wit::Rollback) -> Rollback {
    Rollback { checkpoint: CheckpointId(checkpoint), executions_lost }
}

pub(crate) fn tool_record(record: wit::ToolRecord) -> ToolRecord {
    let wit::ToolRecord { name, arguments, outcome, started_ns, duration_ns } = record;
    let outcome = match outcome {
        wit::ToolOutcome::Returned(result) => ToolOutcome::Returned(result),
        wit::ToolOutcome::Failed(wit::ToolFailure { kind, message }) => {
            ToolOutcome::Failed { kind: tool_error(kind), message }
        }
        wit::ToolOutcome::Unfinished => ToolOutcome::Unfinished,
    };
    let (started, duration) = (Duration::from_nanos(started_ns), Duration::from_nanos(duration_ns));
    ToolRecord { name, arguments, outcome, started, duration }
}

pub(crate) fn guidance(wit::Guidance { fuel, advice }: wit::Guidance) -> Guidance {
    let wit::FuelAnalysis { used, limit, utilization_percent, status, suggested_limit, likely_causes } = fuel;
    let status = fuel_status(status);
    let fuel = FuelAnalysis { used, limit, utilization_percent, status, suggested_limit, likely_causes };
    let advice = advice.into_iter().map(|wit::Advice { kind, summary, steps, correction }| {
        let correction = correction.map(|wit::Correction { line, text }| Correction { line, text });
        Advice { kind: advice_kind(kind), summary, steps, correction }
    });
    Guidance { fuel, advice: advice.collect() }
}

/// Converts the metadata. In the contract, the totals are part of the streams.
pub(crate) fn metadata(metadata: wit::Metadata, stdout: &Output, stderr: &Output) -> Metadata {
    let wit::Metadata { runtime, runtime_name, version, prepared, image_sha256 } = metadata;
    Metadata {
        runtime: language(runtime),
        runtime_name,
        version,
        prepared,
        image_sha256,
        // Providers always meter fuel.
        metering: Metering::Fuel,
        stdout_total_bytes: stdout.total_bytes,
        stderr_total_bytes: stderr.total_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_output_is_read_in_chunks() {
        let all: Vec<u8> = (0..=u8::MAX).cycle().take(1_000).collect();
        let first = glovebox_guest::Output { bytes: all[..100].to_vec(), retained_bytes: 1_000, total_bytes: 2_000 };
        let output = whole(first, |from, _| {
            let from = usize::try_from(from).unwrap();
            all[from..(from + 300).min(all.len())].to_vec()
        });
        assert_eq!((output.bytes, output.total_bytes), (all, 2_000));
    }

    #[test]
    fn missing_output_is_not_awaited() {
        let first = glovebox_guest::Output { bytes: vec![1], retained_bytes: 2, total_bytes: 2 };
        assert_eq!(whole(first, |_, _| Vec::new()).bytes, [1]);
    }

    #[test]
    fn display_encodes_binary_forms_in_base64() {
        let form = |media_type: &str, data: &[u8]| Form { media_type: media_type.into(), data: data.to_vec() };
        let forms = vec![form("text/html", b"<b>"), form("image/png", b"\x89PNG")];
        let display = DisplayAnswer::from(Display { forms, is_result: true });
        assert_eq!(
            serde_json::to_value(display).unwrap(),
            serde_json::json!({ "is_result": true, "data": { "text/html": "<b>", "image/png": "iVBORw==" } })
        );
    }
}
