//! Structured log events, through `tracing`: target `glovebox`.
//!
//! | message | fields |
//! |---|---|
//! | `execution.start` | `runtime`, `session_id`, `fuel`, `timeout_ms`, `memory_bytes` |
//! | `execution.complete` | `runtime`, `session_id`, `success`, `outcome`, `duration_ms`, `fuel_consumed`, `memory_used_bytes` |
//! | `session.file.<operation>` | `session_id`, `path`; operation: `list`, `read`, `write`, `delete`, `rename` |
//! | `security.<kind>` | `session_id`, `detail`; kind: `fuel_exhaustion`, `time_exhaustion`, `memory_exhaustion`, `path_escape`, `quota_exceeded`, `open_file_limit`, `output_truncated`, `trap` |

use glovebox_wasi::SecurityEvent;

use crate::{Execution, Limits, Outcome, Resource, guest::Ran, runtime::Runtime};

pub(crate) fn start(runtime: &Runtime, session_id: Option<&str>, limits: &Limits) {
    tracing::info!(
        target: "glovebox",
        runtime = runtime.language.name(),
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

/// What the embedder asks of a session's files, before it is done.
pub(crate) fn file(session_id: &str, operation: &str, path: &str) {
    tracing::info!(target: "glovebox", session_id, path, "session.file.{operation}");
}

/// Everything an operator may want to hear of: what limits were met, and what was tried.
pub(crate) fn security(session_id: Option<&str>, ran: &Ran, events: &[SecurityEvent]) {
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
        warn("memory_exhaustion", &format!("memory was refused that would have come to {bytes} bytes"));
    }
    for event in events {
        warn(event.name(), &event.to_string());
    }
}
