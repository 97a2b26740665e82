//! Responses with the outcome of an execution, and errors as problem documents (RFC 9457).

use std::{collections::BTreeMap, fmt::Display};

use axum::{
    Extension,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::{Diagnostic, Execution, FileEntry, Output, Untrusted};
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    Shared,
    budget::{AlreadyCharged, ReservedResponse, charged_body},
    idempotency::StoredResponse,
    output::{Responder, ResponseForm},
    parameters::with_etag,
    tools::NeedsToolsAnswer,
};
use crate::{
    DeliveryError, FinishedExecution, NeedsTools, ServiceError, TypeCheckError,
    byte_budget::Room,
    executor::{ExecutionFiles, FinishedJob},
    json::json_len,
    text::{quoted, shown},
};

/// Maximum total size of the files in a response, in bytes before base64 encoding.
pub(crate) const MAX_RETURNED_BYTES: u64 = 32 << 20;
/// The memory that a listed file occupies in addition to its path, in bytes.
const ENTRY_BYTES: usize = 64;

/// A response that is ready to send, in one piece or as the last chunk of a stream.
#[derive(Debug)]
pub(super) struct BuiltResponse {
    status: StatusCode,
    pub(super) body: ReservedResponse,
    /// The session's new generation.
    etag: Option<String>,
}

impl BuiltResponse {
    /// Returns the response to store for the request's idempotency key.
    pub(super) fn answer(&self) -> StoredResponse {
        StoredResponse { status: self.status, body: self.body.bytes.clone(), etag: self.etag.clone() }
    }
}

impl Responder {
    /// Serializes the result of an execution. If the result was unread until now, the response uses the memory that is
    /// already charged for it. If the budget still has no room for the response, the error contains the result, so that
    /// it can be read later.
    pub(super) fn result(&self, ended: FinishedExecution) -> Result<BuiltResponse, DeliveryError> {
        let FinishedExecution { finished, return_files, mut charged } = ended;
        let mut answer = ExecutionAnswer::new(finished);
        let reserve = |len| match &mut charged {
            Some(held) => {
                self.bodies.grow(&self.tenant, held, len)?;
                Ok(Room::ChargedBytes(std::mem::take(held)))
            }
            None => self.reserve(len),
        };
        match self.build_response(&mut answer, &return_files, reserve) {
            Ok(body) => Ok(BuiltResponse { status: StatusCode::OK, body, etag: answer.generation }),
            Err(ServiceError::NoRoom) if charged.is_some() => {
                let finished = answer.into_finished();
                Err(DeliveryError::NoRoom(Box::new(FinishedExecution { finished, return_files, charged })))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Serializes an execution. Calls `reserve` with the length before reading files and building the JSON.
    fn build_response(
        &self,
        answer: &mut ExecutionAnswer,
        patterns: &[String],
        reserve: impl FnOnce(usize) -> Result<Room, ServiceError>,
    ) -> Result<ReservedResponse, ServiceError> {
        let [mut before, mut after] = self.form.frame("result");
        if self.form != ResponseForm::Whole {
            before.push_str(r#"{"type":"result","result":"#);
            after.insert(0, '}');
        }
        answer.list_files(patterns)?;
        let len = before.len() + json_len(&*answer).map_err(invalid)? + answer.files_len() + after.len();
        let room = reserve(len)?;
        answer.read_files()?;
        let mut json = Vec::with_capacity(len);
        json.extend_from_slice(before.as_bytes());
        serde_json::to_writer(&mut json, &*answer).map_err(invalid)?;
        json.extend_from_slice(after.as_bytes());
        Ok(ReservedResponse { bytes: json.into(), room })
    }

    /// Serializes the unanswered calls of a suspended execution. `not_stored` is the reason why the execution was not
    /// stored although the request set `suspend`.
    pub(super) fn calls(&self, needs: NeedsTools, not_stored: Option<Problem>) -> Result<BuiltResponse, ServiceError> {
        let (answer, bytes, _reply_room) = NeedsToolsAnswer::new(needs, not_stored);
        let room = self.reserve(bytes)?;
        self.accepted("needs-tools", &answer, room, None)
    }

    /// Serializes the response for a waiting execution, with its `type`. `room` is the memory reserved for it.
    pub(super) fn accepted(
        &self,
        kind: &str,
        answer: &impl Serialize,
        room: Room,
        etag: Option<String>,
    ) -> Result<BuiltResponse, ServiceError> {
        let [before, after] = self.form.frame(kind);
        let mut json = before.into_bytes();
        serde_json::to_writer(&mut json, answer).map_err(invalid)?;
        json.extend_from_slice(after.as_bytes());
        let body = ReservedResponse { bytes: json.into(), room };
        Ok(BuiltResponse { status: StatusCode::ACCEPTED, body, etag })
    }
}

fn invalid(error: serde_json::Error) -> ServiceError {
    ServiceError::Invalid(error.to_string())
}

/// Sends a response in one piece.
pub(super) async fn send_whole(
    shared: &Shared,
    tenant: &str,
    BuiltResponse { status, body: ReservedResponse { bytes, room }, etag }: BuiltResponse,
) -> Result<Response, Problem> {
    let held = shared.bodies.settle(tenant, room, bytes.len()).await?;
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok(with_etag(etag, (status, Extension(AlreadyCharged), json, charged_body(bytes, held))))
}

pub(super) async fn send_stored(
    shared: &Shared,
    tenant: &str,
    StoredResponse { status, body: bytes, etag }: StoredResponse,
) -> Result<Response, Problem> {
    let room = shared.bodies.reserve(tenant, bytes.len())?;
    send_whole(shared, tenant, BuiltResponse { status, body: ReservedResponse { bytes, room }, etag }).await
}

/// An error response: a problem document, `application/problem+json`. The outcome of a script is never a problem.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Machine-readable kind of the problem: the name of the error in the contract, if there is one. A URI reference
    /// relative to this document.
    #[serde(rename = "type")]
    #[schema(example = "invalid-policy")]
    pub kind: String,
    /// HTTP status code.
    #[schema(example = 400)]
    pub status: u16,
    /// The status code's reason phrase, such as `Bad Request`.
    pub title: String,
    /// Explanation of the problem, and how to solve it.
    #[serde(serialize_with = "shown")]
    #[schema(value_type = String)]
    pub detail: Untrusted,
    /// Seconds to wait before a retry. Also in the `Retry-After` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Type errors of a script that was not run (`type-errors`). Each has `line`, `column` and `message`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Value>>)]
    pub diagnostics: Option<Vec<Diagnostic>>,
}

impl Problem {
    /// Creates a problem whose title is the standard phrase of the status.
    pub(crate) fn new(status: StatusCode, kind: &str, detail: impl Into<Untrusted>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        let (kind, detail) = (kind.to_owned(), detail.into());
        Self { kind, status: status.as_u16(), title, detail, retry_after: None, diagnostics: None }
    }

    /// Creates a problem for an invalid request, with status 400.
    pub(crate) fn invalid(detail: impl Into<Untrusted>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-argument", detail)
    }

    /// Creates a problem for a request body that cannot be parsed.
    pub(crate) fn invalid_body(error: impl Display) -> Self {
        Self::invalid(format!("the request body is invalid: {}", quoted(error)))
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let retry_after = error.retry_after().map(|after| after.as_secs().max(1));
        let problem = Self { retry_after, ..Self::new(status, error.code(), error.public()) };
        match error {
            ServiceError::Types(TypeCheckError::Found(diagnostics)) => {
                Self { diagnostics: Some(diagnostics), ..problem }
            }
            _ => problem,
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // The routes for E2B clients read the problem to add fields to the body.
        response.extensions_mut().insert(self);
        response
    }
}

/// The outcome and usage of an execution, and the returned files. The fields are those of `glovebox run --json`, without
/// the workspace's host path, and the fields below.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExecutionAnswer {
    /// `success`, `outcome`, `exit_code`, `interrupted`, `value`, `stdout`, `stderr`, `stdout_truncated`,
    /// `stderr_truncated`, `displays`, `displays_dropped`, `fuel_consumed`, `memory_used_bytes`, `duration_ms`,
    /// `files_created`, `files_modified`, `files_deleted`, `tool_calls`, `session_id`, `rolled_back_to`, `guidance`,
    /// `metadata`.
    #[serde(flatten)]
    #[schema(value_type = ExecutionForm)]
    execution: Box<Execution>,
    /// Standard output in base64; `null` if it is UTF-8.
    stdout_base64: Option<String>,
    /// Standard error in base64; `null` if it is UTF-8.
    stderr_base64: Option<String>,
    #[serde(skip)]
    left: ExecutionFiles,
    /// The session's new generation, for the `ETag`.
    #[serde(skip)]
    generation: Option<String>,
    /// The memory reserved for a worker's reply. Held until the answer is serialized.
    #[serde(skip)]
    reply_room: Option<Room>,
    /// The sizes of the files whose contents are not read yet.
    #[serde(skip)]
    sizes: BTreeMap<String, u64>,
    /// The memory reserved for the listed entries if a worker sent them.
    #[serde(skip)]
    rooms: Vec<Room>,
    /// Contents of the files that match `return_files`, in base64, by path.
    files: BTreeMap<String, String>,
    /// Files, directories and links that match `return_files`, sorted by path. Each has `path`, `kind`, `size_bytes` and
    /// `modified_ns`.
    #[serde(serialize_with = "values")]
    #[schema(value_type = Vec<Value>)]
    file_entries: BTreeMap<String, FileEntry>,
    /// Number of matching files that are left out because the total size would exceed 32 MiB.
    files_left_out: usize,
}

fn values<S: Serializer>(entries: &BTreeMap<String, FileEntry>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(entries.values())
}

/// Returns the output in base64 if it is not UTF-8.
fn base64(output: &Output) -> Option<String> {
    std::str::from_utf8(&output.bytes).is_err().then(|| BASE64_STANDARD.encode(&output.bytes))
}

impl ExecutionAnswer {
    pub(crate) fn new(finished: FinishedJob) -> Self {
        let FinishedJob { mut execution, generation, files: left, reply_room } = finished;
        // Network clients must not see host paths.
        execution.workspace_path = None;
        Self {
            stdout_base64: base64(&execution.stdout),
            stderr_base64: base64(&execution.stderr),
            execution: Box::new(execution),
            left,
            generation,
            reply_room,
            sizes: BTreeMap::new(),
            rooms: Vec::new(),
            files: BTreeMap::new(),
            file_entries: BTreeMap::new(),
            files_left_out: 0,
        }
    }

    fn into_finished(self) -> FinishedJob {
        let Self { execution, left, generation, reply_room, .. } = self;
        FinishedJob { execution: *execution, generation, files: left, reply_room }
    }

    /// Lists the entries that match one of `patterns`. [`read_files`](Self::read_files) reads the files' contents.
    fn list_files(&mut self, patterns: &[String]) -> Result<(), ServiceError> {
        let mut bytes = 0_u64;
        for pattern in patterns {
            let (entries, mut room) = self.left.list(pattern)?;
            let mut stored_bytes = 0;
            for entry in entries {
                if self.file_entries.contains_key(&entry.path) {
                    continue;
                }
                stored_bytes += 2 * (entry.path.len() + ENTRY_BYTES);
                if entry.kind == glovebox::FileKind::File {
                    bytes = bytes.saturating_add(entry.size_bytes);
                    if bytes > MAX_RETURNED_BYTES {
                        self.files_left_out += 1;
                    } else {
                        stored_bytes += entry.path.len() + ENTRY_BYTES;
                        self.sizes.insert(entry.path.clone(), entry.size_bytes);
                    }
                }
                self.file_entries.insert(entry.path.clone(), entry);
            }
            if let Some(room) = &mut room {
                room.shrink(stored_bytes);
            }
            self.rooms.extend(room);
        }
        Ok(())
    }

    /// Returns the maximum number of bytes that [`read_files`](Self::read_files) adds to the JSON.
    pub(crate) fn files_len(&self) -> usize {
        let file = |(path, size): (&String, &u64)| {
            let content = usize::try_from(size.div_ceil(3).saturating_mul(4)).unwrap_or(usize::MAX);
            // Each file is serialized as `"path":"content",`.
            json_len(path).unwrap_or_default().saturating_add(content).saturating_add(4)
        };
        self.sizes.iter().map(file).fold(0, usize::saturating_add)
    }

    /// Adds the contents of the files. Must be called on a blocking thread, because it reads files from mounted host
    /// directories.
    pub(crate) fn read_files(&mut self) -> Result<(), ServiceError> {
        for (path, size_bytes) in std::mem::take(&mut self.sizes) {
            let content = BASE64_STANDARD.encode(self.left.read(&path, size_bytes)?);
            self.files.insert(path, content);
        }
        Ok(())
    }
}

/// Outcome and usage of an execution.
// A test compares this schema with real responses.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct ExecutionForm {
    /// `true` if the script succeeded.
    success: bool,
    /// Outcome of the script: `kind` is `completed`, `exited`, `raised`, `exhausted`, `cancelled` or `trapped`.
    #[schema(value_type = Value)]
    outcome: Value,
    /// Exit code that a process would have had.
    exit_code: i32,
    /// Exception that ended the script when it was asked to stop.
    #[schema(value_type = Option<Value>)]
    interrupted: Value,
    /// Value of the last expression: `repr`, and `json` as text.
    #[schema(value_type = Option<Value>)]
    value: Value,
    /// Standard output. Bytes that are not UTF-8 are replaced.
    stdout: String,
    /// Text that the script wrote to standard error.
    stderr: String,
    /// `true` if the script wrote more than `limits.stdout_bytes`.
    stdout_truncated: bool,
    /// `true` if the script wrote more than `limits.stderr_bytes`.
    stderr_truncated: bool,
    /// Displays of the script: MIME bundles, each with `is_result` and `data` by media type. Text is a string, other
    /// data is in base64.
    displays: Vec<Value>,
    /// Number of displays that were dropped.
    displays_dropped: u64,
    /// Fuel that the script used.
    fuel_consumed: u64,
    /// Maximum memory in use, in bytes.
    memory_used_bytes: u64,
    /// Milliseconds from the start of the guest to its end.
    duration_ms: f64,
    /// Files that did not exist before.
    files_created: Vec<String>,
    /// Files that were written to.
    files_modified: Vec<String>,
    /// Files that were deleted.
    files_deleted: Vec<String>,
    /// Tool calls.
    tool_calls: Vec<Value>,
    /// Always `null`: clients do not see host paths.
    #[schema(value_type = Option<String>)]
    workspace_path: Option<String>,
    /// Name of the session, if any.
    session_id: Option<String>,
    /// Checkpoint that the session was rolled back to, if any.
    #[schema(value_type = Option<Value>)]
    rolled_back_to: Value,
    /// Fuel usage, and advice on a failure.
    guidance: Value,
    /// Details of how the script was executed.
    metadata: Value,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::Problem;
    use crate::ServiceError;

    /// Parser errors quote their input.
    #[test]
    fn problem_quotes_client_input_escaped_and_truncated() {
        let key = format!("a\nerror: forged\u{202e}\u{7f}{}", "x".repeat(10 << 20));
        let error = serde_json::from_value::<glovebox::Limits>(serde_json::json!({ key: 1 })).unwrap_err();
        for problem in [Problem::invalid(error.to_string()), ServiceError::Invalid(error.to_string()).into()] {
            let text = serde_json::to_string(&problem).unwrap();
            let detail = serde_json::from_str::<Value>(&text).unwrap()["detail"].as_str().unwrap().to_owned();
            assert!(!detail.chars().any(glovebox::is_hidden), "{detail}");
            assert!(detail.contains(r"a\nerror: forged\u{202e}\u{7f}x") && text.len() < 2_000, "{text}");
        }
    }
}
