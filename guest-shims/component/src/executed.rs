//! An execution, and the state that it left.

use std::{rc::Rc, time::Duration};

use glovebox_core::{
    CallResult, Displays, Metadata, Metering, Output as StreamOutput, contract::nanoseconds, files::Snapshot,
    guidance::Guidance, session::Rollback, tools::ToolRecord,
};
use glovebox_vfs::Changes;
use glovebox_wasi::Output;

use crate::{Runtime, bindings::types};

/// What one execution did, used, wrote and left.
#[derive(Debug)]
pub struct Executed {
    /// What the guest did.
    pub ran: CallResult,
    /// What it wrote to its streams, as far as it was retained.
    pub output: Output,
    /// The tools it called.
    pub tool_calls: Vec<ToolRecord>,
    /// Which files it created, modified and deleted.
    pub changes: Changes,
    /// How long it took.
    pub duration: Duration,
    /// The files as they are now.
    pub files: Snapshot,
    /// What it ran in.
    pub runtime: Rc<Runtime>,
    /// The session, if there is one.
    pub session_id: Option<String>,
    /// The checkpoint that the session was rolled back to for it.
    pub rolled_back_to: Option<Rollback>,
    /// What it did with its fuel, and advice on its failure.
    pub guidance: Guidance,
}

impl Executed {
    /// The execution as the contract has it.
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
