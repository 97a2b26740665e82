//! Structured log events, emitted through `tracing` with the target `glovebox`.
//!
//! | message | fields |
//! |---|---|
//! | `execution.start` | `runtime`, `session_id`, `fuel`, `timeout_ms`, `memory_bytes` |
//! | `execution.complete` | `runtime`, `session_id`, `success`, `outcome`, `duration_ms`, `fuel_consumed`, `memory_used_bytes` |
//! | `tool.start` | `session_id`, `tool`, `index` |
//! | `tool.complete` | `session_id`, `tool`, `index`, `outcome`, `duration_ms`; outcome: `returned`, `unfinished`, or the name of the error |
//! | `session.rolled_back` | `session_id`, `executions_lost`, `reason` |
//! | `session.checkpoint.skipped` | `session_id`, `reason`: a checkpoint that was due would have exceeded `limits.session_total_bytes` |
//! | `session.file.<operation>` | `session_id`, `path`; operation: `list`, `read`, `write`, `make`, `delete`, `rename` |
//! | `security.<kind>` | `session_id`, `kind`, `detail`; kind: `fuel_exhaustion`, `time_exhaustion`, `memory_exhaustion`, `path_escape`, `quota_exceeded`, `open_file_limit`, `output_truncated`, `tools_refused`, `trap` |
//!
//! A resumed execution logs `execution.start` and `execution.complete` again, but not the tool calls and the security
//! events from before its suspension. Calls that are pending at a suspension complete in the resumed execution.

use glovebox_core::{CallResult, clipped, milliseconds, session::TooMany};
use glovebox_wasi::SecurityEvent;

use crate::{Execution, Language, Limits, Outcome, Resource, ToolRecord};

pub(crate) fn start(runtime: Language, session_id: Option<&str>, limits: &Limits) {
    tracing::info!(
        target: "glovebox",
        runtime = runtime.name(),
        session_id,
        fuel = limits.fuel,
        timeout_ms = limits.timeout_ms,
        memory_bytes = limits.memory_bytes,
        "execution.start"
    );
}

pub(crate) fn complete(execution: &Execution) {
    tracing::info!(
        target: "glovebox",
        runtime = execution.metadata.runtime.name(),
        session_id = execution.session_id.as_deref(),
        success = execution.is_success(),
        outcome = execution.outcome.describe(),
        duration_ms = execution.duration_ms(),
        fuel_consumed = execution.fuel_consumed,
        memory_used_bytes = execution.memory_used_bytes,
        "execution.complete"
    );
}

/// Logs a file operation that the embedder requested in a session. Called before the operation is carried out.
pub(crate) fn file(session_id: Option<&str>, operation: &str, path: &str) {
    tracing::info!(target: "glovebox", session_id, path, "session.file.{operation}");
}

/// Logs a tool call without its arguments, which come from the script and can be long or secret.
pub(crate) fn tool_start(session_id: Option<&str>, tool: &str, index: usize) {
    tracing::info!(target: "glovebox", session_id, tool = clipped(tool), index, "tool.start");
}

pub(crate) fn tool_complete(session_id: Option<&str>, record: &ToolRecord, index: usize) {
    tracing::info!(
        target: "glovebox",
        session_id,
        tool = record.name,
        index,
        outcome = record.outcome.word(),
        duration_ms = milliseconds(record.duration),
        "tool.complete"
    );
}

pub(crate) fn tools_refused(session_id: Option<&str>, count: u64) {
    let detail = format!("refused tool calls: {count}");
    tracing::warn!(target: "glovebox", session_id, kind = "tools_refused", detail, "security.tools_refused");
}

/// Logs the rollback of a session whose guest was unwound.
pub(crate) fn rolled_back(session_id: &str, executions_lost: u64, reason: &str) {
    tracing::info!(target: "glovebox", session_id, executions_lost, reason, "session.rolled_back");
}

/// Logs that a checkpoint was due but skipped.
pub(crate) fn checkpoint_skipped(session_id: &str, reason: &TooMany) {
    tracing::warn!(target: "glovebox", session_id, %reason, "session.checkpoint.skipped");
}

/// Logs security events for the operator: exceeded limits, traps, and operations that the sandbox refused.
pub(crate) fn security(session_id: Option<&str>, ran: &CallResult, events: &[SecurityEvent]) {
    let warn = |kind: &str, detail: &str| {
        tracing::warn!(target: "glovebox", session_id, kind, detail, "security.{kind}");
    };
    match &ran.outcome {
        Outcome::Exhausted { resource: Resource::Fuel, .. } => warn("fuel_exhaustion", &ran.outcome.describe()),
        Outcome::Exhausted { resource: Resource::Time, .. } => warn("time_exhaustion", &ran.outcome.describe()),
        Outcome::Trapped { .. } => warn("trap", &ran.outcome.describe()),
        _ => {}
    }
    if let Some(bytes) = ran.memory_refused_bytes {
        warn("memory_exhaustion", &format!("refused to grow the memory to {bytes} bytes"));
    }
    for event in events {
        warn(event.name(), &event.to_string());
    }
}
