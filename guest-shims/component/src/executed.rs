//! The result of an execution, with its files.

use std::{rc::Rc, time::Duration};

use glovebox_core::{
    CallResult, Displays, Metadata, Metering, Output as StreamOutput, contract::nanoseconds, files::Snapshot,
    guidance::Guidance, session::Rollback, tools::ToolRecord,
};
use glovebox_vfs::Changes;
use glovebox_wasi::Output;

use crate::{Runtime, bindings::types};

/// The result of one execution.
#[derive(Debug)]
pub struct Executed {
    /// The result of the call into the guest.
    pub ran: CallResult,
    /// The retained output.
    pub output: Output,
    /// Records of the tool calls.
    pub tool_calls: Vec<ToolRecord>,
    /// The created, modified and deleted files.
    pub changes: Changes,
    /// Duration of the execution.
    pub duration: Duration,
    /// A snapshot of the files after the execution.
    pub files: Snapshot,
    /// The runtime of the execution.
    pub runtime: Rc<Runtime>,
    /// The session's id, if the execution was in a session.
    pub session_id: Option<String>,
    /// The checkpoint that the session was rolled back to after this execution.
    pub rolled_back_to: Option<Rollback>,
    /// The fuel analysis, and advice on a failure.
    pub guidance: Guidance,
}

impl Executed {
    /// Converts the execution to the contract's type.
    #[must_use]
    pub fn to_wit(&self) -> types::Execution {
        let Self {
            ran,
            output,
            tool_calls,
            changes,
            duration,
            files: _,
            runtime,
            session_id,
            rolled_back_to,
            guidance,
        } = self;
        let metadata = Metadata {
            runtime: runtime.language,
            runtime_name: runtime.name.clone(),
            version: Some(runtime.version.clone()),
            prepared: true,
            image_sha256: Some(runtime.image_sha256.clone()),
            metering: Metering::Fuel,
            stdout_total_bytes: output.stdout.total_bytes,
            stderr_total_bytes: output.stderr.total_bytes,
        };
        let displays = Displays::from(output.displays.clone());
        types::Execution {
            outcome: ran.outcome.clone().into(),
            interrupted: ran.interrupted.clone().map(Into::into),
            value: ran.value.clone().map(Into::into),
            stdout: StreamOutput::from(output.stdout.clone()).into(),
            stderr: StreamOutput::from(output.stderr.clone()).into(),
            displays: displays.retained.into_iter().map(Into::into).collect(),
            displays_dropped: displays.dropped,
            fuel_consumed: ran.fuel_consumed,
            memory_used_bytes: ran.memory_used_bytes,
            duration_ns: nanoseconds(*duration),
            files_created: changes.created.clone(),
            files_modified: changes.modified.clone(),
            files_deleted: changes.deleted.clone(),
            tool_calls: tool_calls.iter().cloned().map(Into::into).collect(),
            session_id: session_id.clone(),
            rolled_back_to: rolled_back_to.map(Into::into),
            guidance: guidance.clone().into(),
            metadata: metadata.into(),
        }
    }
}
