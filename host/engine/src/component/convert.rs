//! Conversions between the engine's types and the contract's.

use std::time::Duration;

use glovebox_core::contract::nanoseconds;

use super::wit::{sandbox::OutputStream, types};
use crate::{Execution, Request, Stream};

glovebox_core::contract_conversions!(crate::component::wit::types);

/// Converts a request without checking it. `files` are left out, because they belong to the sandbox.
pub(super) fn request(request: &types::Request) -> Request<'_> {
    let types::Request { source, name, kind, stdin, context, files: _, deadline_ms } = request;
    let mut converted = Request::new(source);
    if let Some(name) = name {
        converted = converted.name(name);
    }
    if let Some(kind) = kind {
        converted = converted.kind((*kind).into());
    }
    if let Some(stdin) = stdin {
        converted = converted.stdin(stdin);
    }
    if let Some(json) = context {
        converted = converted.context_json(json);
    }
    if let Some(deadline_ms) = deadline_ms {
        converted = converted.cancel_after(Duration::from_millis(*deadline_ms));
    }
    converted
}

impl From<Execution> for types::Execution {
    fn from(execution: Execution) -> Self {
        let Execution {
            outcome,
            interrupted,
            value,
            displays,
            displays_dropped,
            stdout,
            stderr,
            fuel_consumed,
            memory_used_bytes,
            duration,
            files_created,
            files_modified,
            files_deleted,
            tool_calls,
            workspace_path: _,
            session_id,
            rolled_back_to,
            guidance,
            metadata,
            files: _,
        } = execution;
        Self {
            outcome: outcome.into(),
            interrupted: interrupted.map(Into::into),
            value: value.map(Into::into),
            displays: displays.into_iter().map(Into::into).collect(),
            displays_dropped,
            stdout: stdout.into(),
            stderr: stderr.into(),
            fuel_consumed,
            memory_used_bytes,
            duration_ns: nanoseconds(duration),
            files_created,
            files_modified,
            files_deleted,
            tool_calls: tool_calls.into_iter().map(Into::into).collect(),
            session_id,
            rolled_back_to: rolled_back_to.map(Into::into),
            guidance: guidance.into(),
            metadata: metadata.into(),
        }
    }
}

impl From<OutputStream> for Stream {
    fn from(stream: OutputStream) -> Self {
        match stream {
            OutputStream::Stdout => Self::Stdout,
            OutputStream::Stderr => Self::Stderr,
        }
    }
}
