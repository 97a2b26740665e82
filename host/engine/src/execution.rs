//! The result of one execution.

use std::{path::PathBuf, time::Duration};

use glovebox_core::{from_milliseconds, milliseconds};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeStruct};

use crate::{
    Display, Files, GuestValue, Guidance, Metadata, Outcome, Output, RaisedOutcome, Rollback, ToolRecord,
    displays::{AsJson, FromJson},
};

/// What one execution did and used.
///
/// As JSON it has exactly the names `success outcome exit_code interrupted value stdout stderr stdout_truncated
/// stderr_truncated displays displays_dropped fuel_consumed memory_used_bytes duration_ms files_created files_modified
/// files_deleted tool_calls workspace_path session_id rolled_back_to guidance metadata`. It can be read from that again, by whoever has it from
/// another machine: it is then the same as JSON, and has no [`files`](Self::files).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// What the guest did.
    pub outcome: Outcome,
    /// The exception by which the script ended when it was asked to stop, shortly before it would have been unwound. Then
    /// `outcome` says what for: `Exhausted` or `Cancelled`.
    pub interrupted: Option<RaisedOutcome>,
    /// The value of the script's last expression, in a session or where [`Request::value`](crate::Request::value) asks for it: none where the script ends with something else, or where it is
    /// `None` or `undefined`, and outside sessions.
    pub value: Option<GuestValue>,
    /// What it wrote to standard output.
    pub stdout: Output,
    /// What it wrote to standard error. Where a limit ended it, the last line names that: `OutOfFuel`, `TimedOut` or
    /// `OutOfMemory`. The line counts as the script's; where `limits.stderr_bytes` are used up, it takes the place of what the
    /// script wrote last.
    pub stderr: Output,
    /// What it showed, in order: pictures, tables, and in a session the value of its last expression where that has more than a text.
    /// Never what an earlier execution showed.
    pub displays: Vec<Display>,
    /// How many displays `limits.display_bytes` or their number dropped.
    pub displays_dropped: u64,
    /// Fuel used: equal for equal input under a fixed clock and seeded entropy. When the guest was stopped from outside, by
    /// the time limit or a cancellation, it is a lower bound: Wasmtime keeps the count in a register and saves it at calls.
    pub fuel_consumed: u64,
    /// The most memory in use: linear memory plus what the host held for it.
    pub memory_used_bytes: u64,
    /// Wall-clock time from the start of the guest to its end. Compiling and preparing never count.
    pub duration: Duration,
    /// Files in the workspace that were not there before, relative to `/app`, sorted.
    pub files_created: Vec<String>,
    /// Files in the workspace that were written to, relative to `/app`, sorted.
    pub files_modified: Vec<String>,
    /// Files in the workspace that are gone, relative to `/app`, sorted.
    pub files_deleted: Vec<String>,
    /// The tools it called, in the order of the calls. Those that `limits.tool_calls` refused are not here.
    pub tool_calls: Vec<ToolRecord>,
    /// The host directory that the workspace stands for, where there is one.
    pub workspace_path: Option<PathBuf>,
    /// The session, where there is one or the caller named one.
    pub session_id: Option<String>,
    /// The checkpoint that the session was rolled back to, if the guest was unwound: what the script did to variables and
    /// files is undone.
    pub rolled_back_to: Option<Rollback>,
    /// What it did with its fuel, and what can be done about a failure.
    pub guidance: Guidance,
    /// How it was carried out.
    pub metadata: Metadata,
    /// The files as the execution left them.
    pub(crate) files: Files,
}

impl Execution {
    /// Whether the script succeeded: [`Outcome::is_success`].
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome.is_success()
    }
}

impl Execution {
    /// The duration in milliseconds, to the microsecond: a live JavaScript execution takes a few of them.
    pub(crate) fn duration_ms(&self) -> f64 {
        milliseconds(self.duration)
    }

    /// The workspace as the execution left it.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The same, leaving none behind.
    pub(crate) fn take_files(&mut self) -> Files {
        std::mem::replace(&mut self.files, Files::none())
    }
}

impl Serialize for Execution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Execution", 23)?;
        out.serialize_field("success", &self.is_success())?;
        out.serialize_field("outcome", &self.outcome)?;
        out.serialize_field("exit_code", &self.outcome.exit_code())?;
        out.serialize_field("interrupted", &self.interrupted)?;
        out.serialize_field("value", &self.value)?;
        out.serialize_field("stdout", &self.stdout.text())?;
        out.serialize_field("stderr", &self.stderr.text())?;
        out.serialize_field("stdout_truncated", &self.stdout.is_truncated())?;
        out.serialize_field("stderr_truncated", &self.stderr.is_truncated())?;
        out.serialize_field("displays", &AsJson(&self.displays))?;
        out.serialize_field("displays_dropped", &self.displays_dropped)?;
        out.serialize_field("fuel_consumed", &self.fuel_consumed)?;
        out.serialize_field("memory_used_bytes", &self.memory_used_bytes)?;
        out.serialize_field("duration_ms", &self.duration_ms())?;
        out.serialize_field("files_created", &self.files_created)?;
        out.serialize_field("files_modified", &self.files_modified)?;
        out.serialize_field("files_deleted", &self.files_deleted)?;
        out.serialize_field("tool_calls", &self.tool_calls)?;
        out.serialize_field("workspace_path", &self.workspace_path)?;
        out.serialize_field("session_id", &self.session_id)?;
        out.serialize_field("rolled_back_to", &self.rolled_back_to)?;
        out.serialize_field("guidance", &self.guidance)?;
        out.serialize_field("metadata", &self.metadata)?;
        out.end()
    }
}

impl<'de> Deserialize<'de> for Execution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Those that the others do not follow from.
        #[derive(Deserialize)]
        struct Fields {
            outcome: Outcome,
            interrupted: Option<RaisedOutcome>,
            value: Option<GuestValue>,
            stdout: String,
            stderr: String,
            stdout_truncated: bool,
            stderr_truncated: bool,
            displays: Vec<FromJson>,
            displays_dropped: u64,
            fuel_consumed: u64,
            memory_used_bytes: u64,
            duration_ms: f64,
            files_created: Vec<String>,
            files_modified: Vec<String>,
            files_deleted: Vec<String>,
            tool_calls: Vec<ToolRecord>,
            workspace_path: Option<PathBuf>,
            session_id: Option<String>,
            rolled_back_to: Option<Rollback>,
            guidance: Guidance,
            metadata: Metadata,
        }
        let fields = Fields::deserialize(deserializer)?;
        let metadata = fields.metadata;
        Ok(Self {
            outcome: fields.outcome,
            interrupted: fields.interrupted,
            value: fields.value,
            stdout: output(fields.stdout, fields.stdout_truncated, metadata.stdout_total_bytes),
            stderr: output(fields.stderr, fields.stderr_truncated, metadata.stderr_total_bytes),
            displays: fields.displays.into_iter().map(Display::from).collect(),
            displays_dropped: fields.displays_dropped,
            fuel_consumed: fields.fuel_consumed,
            memory_used_bytes: fields.memory_used_bytes,
            duration: from_milliseconds(fields.duration_ms),
            files_created: fields.files_created,
            files_modified: fields.files_modified,
            files_deleted: fields.files_deleted,
            tool_calls: fields.tool_calls,
            workspace_path: fields.workspace_path,
            session_id: fields.session_id,
            rolled_back_to: fields.rolled_back_to,
            guidance: fields.guidance,
            metadata,
            files: Files::none(),
        })
    }
}

/// A stream of which this text was shown. Its bytes may have been others, where they were not UTF-8: their number then does not say whether
/// some are missing.
fn output(text: String, is_truncated: bool, total_bytes: u64) -> Output {
    let bytes = text.into_bytes();
    let held = bytes.len() as u64;
    Output { total_bytes: if is_truncated { total_bytes.max(held + 1) } else { held }, bytes }
}
