//! The result of one execution.

use std::{borrow::Cow, fmt, path::PathBuf, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox_core::{from_milliseconds, is_text, milliseconds};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, MapAccess, Visitor},
    ser::SerializeStruct,
};

use crate::{
    Display, Files, Form, GuestValue, Guidance, Metadata, Outcome, Output, RaisedOutcome, RecordError, Recording,
    Rollback, ToolRecord,
};

/// The result and resource usage of one execution.
///
/// The JSON form has exactly these keys: `success`, `outcome`, `exit_code`, `interrupted`, `value`, `stdout`, `stderr`,
/// `stdout_truncated`, `stderr_truncated`, `displays`, `displays_dropped`, `fuel_consumed`, `memory_used_bytes`,
/// `duration_ms`, `files_created`, `files_modified`, `files_deleted`, `tool_calls`, `workspace_path`, `session_id`,
/// `rolled_back_to`, `guidance`, `metadata`.
///
/// An execution can be deserialized from this JSON, for example on another machine. A deserialized execution serializes
/// to the same JSON, but has no [`files`](Self::files) and no [`recording`](Self::recording).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// The reason why the script ended.
    pub outcome: Outcome,
    /// The exception that ended the script at a soft limit, shortly before the guest would have been unwound. If set,
    /// `outcome` is the cause: `Exhausted` or `Cancelled`.
    pub interrupted: Option<RaisedOutcome>,
    /// The value of the script's last expression, in a session or if [`Request::value`](crate::Request::value) requests
    /// it. In JavaScript, this is the script's completion value, which a block or a loop can also have. `None` for a
    /// Python script that does not end with an expression, for a JavaScript module, and for the values `None` and
    /// `undefined`.
    pub value: Option<GuestValue>,
    /// Standard output of the script, up to `limits.stdout_bytes`.
    pub stdout: Output,
    /// Standard error of the script, up to `limits.stderr_bytes`. If a limit ended the script, the last line names the
    /// limit: `OutOfFuel`, `TimedOut` or `OutOfMemory`. The line is charged to `limits.stderr_bytes`. If that limit is
    /// used up, the line replaces the end of the script's output.
    pub stderr: Output,
    /// Displays of this execution, in order: pictures, tables, and the last expression's value unless it is plain text.
    /// The conditions of [`value`](Self::value) apply to the display of the last expression.
    pub displays: Vec<Display>,
    /// The number of displays that were dropped because of `limits.display_bytes` or the limit on their number.
    pub displays_dropped: u64,
    /// Fuel used: a lower bound if the time limit or a cancellation stopped the guest. With a fixed clock and seeded
    /// entropy, equal inputs use equal fuel.
    pub fuel_consumed: u64,
    /// Peak memory use in bytes, as counted for `limits.memory_bytes`: linear memory and the host's buffers for the
    /// guest. The interpreter's image counts as at most 2 MiB.
    pub memory_used_bytes: u64,
    /// Wall-clock time from the start to the end of the guest. Includes the translation of a TypeScript source.
    /// Excludes compilation and preparation.
    pub duration: Duration,
    /// The paths of files and links that were created in the workspace, relative to `/app`, sorted.
    pub files_created: Vec<String>,
    /// The paths of existing workspace files and links that were written or replaced, relative to `/app`, sorted.
    pub files_modified: Vec<String>,
    /// The paths of files and links that were deleted from the workspace, relative to `/app`, sorted.
    pub files_deleted: Vec<String>,
    /// Tool calls, in call order. Excludes calls that exceeded `limits.tool_calls`.
    pub tool_calls: Vec<ToolRecord>,
    /// The host directory that is mounted as the workspace, if any.
    pub workspace_path: Option<PathBuf>,
    /// Session ID, if the script ran in a session or the request set an ID.
    pub session_id: Option<String>,
    /// The checkpoint that the session was rolled back to because the guest was unwound. The rollback undid the
    /// script's changes to variables and files.
    pub rolled_back_to: Option<Rollback>,
    /// Analysis of the fuel used, and advice after a failure.
    pub guidance: Guidance,
    /// Runtime, image and metering of the execution, and the total size of its output.
    pub metadata: Metadata,
    /// The workspace files at the end of the execution.
    pub(crate) files: Files,
    pub(crate) recording: Result<Arc<Recording>, RecordError>,
}

impl Execution {
    /// Returns `true` if the script completed, or exited with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome.is_success()
    }

    /// Returns the duration in milliseconds, with microsecond precision, because an execution in a live JavaScript
    /// session takes only a few microseconds.
    pub(crate) fn duration_ms(&self) -> f64 {
        milliseconds(self.duration)
    }

    /// Returns the workspace at the end of the execution. Empty if the execution was deserialized.
    #[must_use]
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the recording of the execution, for [`Sandbox::replay`](crate::Sandbox::replay).
    ///
    /// # Errors
    /// Fails if the request was not [`recorded`](crate::Request::recorded), if the script received more input than
    /// `limits.journal_bytes` allows, or if a time limit or a cancellation interrupted the script.
    pub fn recording(&self) -> Result<&Recording, RecordError> {
        self.recording.as_deref().map_err(|error| *error)
    }

    /// Takes the files and leaves an empty workspace.
    #[doc(hidden)]
    pub fn take_files(&mut self) -> Files {
        std::mem::replace(&mut self.files, Files::none())
    }
}

impl Serialize for Execution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let displays = self.displays.iter();
        let displays = displays
            .map(|Display { forms, is_result, .. }| DisplayJson { is_result: *is_result, data: Cow::Borrowed(forms) });
        let displays: Vec<_> = displays.collect();
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
        out.serialize_field("displays", &displays)?;
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
        /// The fields that cannot be derived from other fields.
        #[derive(Deserialize)]
        struct Fields {
            outcome: Outcome,
            interrupted: Option<RaisedOutcome>,
            value: Option<GuestValue>,
            stdout: String,
            stderr: String,
            stdout_truncated: bool,
            stderr_truncated: bool,
            displays: Vec<DisplayJson<'static>>,
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
        let displays = fields.displays.into_iter();
        let displays = displays.map(|DisplayJson { is_result, data }| Display::new(data.into_owned(), is_result));
        Ok(Self {
            outcome: fields.outcome,
            interrupted: fields.interrupted,
            value: fields.value,
            stdout: output(fields.stdout, fields.stdout_truncated, metadata.stdout_total_bytes),
            stderr: output(fields.stderr, fields.stderr_truncated, metadata.stderr_total_bytes),
            displays: displays.collect(),
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
            recording: Err(RecordError::NotRecorded),
        })
    }
}

/// Restores an output stream from its text. If the original bytes were not UTF-8, the text has a different length, so
/// `total_bytes` is used only for truncated output.
fn output(text: String, is_truncated: bool, total_bytes: u64) -> Output {
    let bytes = text.into_bytes();
    let held = bytes.len() as u64;
    Output { total_bytes: if is_truncated { total_bytes.max(held + 1) } else { held }, bytes }
}

/// A display as `{"is_result": …, "data": {MEDIA TYPE: TEXT OR BASE64}}`.
#[derive(Serialize, Deserialize)]
struct DisplayJson<'a> {
    is_result: bool,
    #[serde(serialize_with = "forms_to_json", deserialize_with = "forms_from_json")]
    data: Cow<'a, [Form]>,
}

fn forms_to_json<S: Serializer>(forms: &[Form], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(forms.iter().map(|Form { media_type, data, .. }| match is_text(media_type) {
        true => (media_type, String::from_utf8_lossy(data)),
        false => (media_type, BASE64_STANDARD.encode(data).into()),
    }))
}

fn forms_from_json<'de, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Cow<'a, [Form]>, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<Form>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map from media types to texts")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Form>, A::Error> {
            let mut forms = Vec::new();
            while let Some((media_type, text)) = map.next_entry::<String, String>()? {
                let data = match is_text(&media_type) {
                    true => text.into_bytes(),
                    false => BASE64_STANDARD.decode(text).map_err(A::Error::custom)?,
                };
                forms.push(Form::new(media_type, data));
            }
            Ok(forms)
        }
    }

    deserializer.deserialize_map(Entries).map(Cow::Owned)
}
