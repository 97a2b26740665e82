//! Routes that turn an execution into bytes while it waits for answers to tool calls, and resume it from the bytes.

use std::collections::BTreeMap;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use glovebox::{Language, Suspended, ToolAnswer};
use glovebox_core::{at_most, entries_at_most};
use glovebox_sessions::SessionId;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    BodyBudget, Caller, InPath, Problem, ReadBody, Shared,
    answer::ExecutionAnswer,
    budget::{ChargedBytes, ReadResumption, ReservedResponse},
    execute::{ParsedRequest, StepRequest, in_task, respond},
    idempotency::{KeyLookup, StoredResponse, new_key},
    output::ResponseForm,
    parameters::{Octets, if_match, with_etag},
    sessions::octets,
    tools::{AnswerBody, MAX_ANSWERS, NeedsToolsAnswer, ToolBody},
    wire::{ExecuteBody, MAX_FILES, MAX_PATTERNS, values_bytes},
};
use crate::{ChangeResult, Resumption, ServiceError, SessionTarget, Tenant, byte_budget::Room, json::Bytes};

/// A suspended execution to resume. The bytes contain the script and its input.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeBody {
    /// Bytes from `POST /v1/executions/{id}/suspend`.
    #[schema(required = true)]
    suspended: Option<Bytes>,
    /// Answers, at most one per call. The response lists calls without an answer again.
    #[serde(default, deserialize_with = "at_most::<_, AnswerBody, _, MAX_ANSWERS>")]
    answers: Vec<AnswerBody>,
    /// Tools of the request that started the execution.
    #[schema(value_type = Vec<ToolBody>, required = true)]
    tools: Option<Box<RawValue>>,
    /// Session to resume the execution in. Required if the execution was suspended in a session. The state before the
    /// execution replaces the session's state. Requires `If-Match`.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Files of the request that started the execution, by path. Omit files that the script has written: it writes
    /// them again.
    #[serde(default, deserialize_with = "entries_at_most::<_, Bytes, _, MAX_FILES>")]
    files: Option<BTreeMap<String, Bytes>>,
    /// Policy of the request that started the execution. Limits can differ, and apply to the whole execution.
    #[schema(value_type = Option<BTreeMap<String, Value>>)]
    policy: Option<Box<RawValue>>,
    /// Language of the request that started the execution. Default: the runtime that the bytes name.
    #[schema(value_type = Option<String>)]
    language: Option<Language>,
    /// Runtime of the request that started the execution. Default: the runtime that the bytes name.
    runtime: Option<String>,
    /// Milliseconds after which the resumed execution is cancelled. Default: no deadline.
    deadline_ms: Option<u64>,
    /// Patterns of files to return, as in `POST /v1/execute`.
    #[serde(default, deserialize_with = "at_most::<_, String, _, MAX_PATTERNS>")]
    return_files: Option<Vec<String>>,
}

impl ResumeBody {
    /// Parses a request body, like [`ExecuteBody::read`]. Also charges the memory of the decoded execution, although it
    /// is decoded later.
    fn read(read: ReadBody) -> Result<(Self, ChargedBytes), Problem> {
        read.json_with(|body: &Self| {
            let values = values_bytes(body.files.as_ref(), body.policy.as_deref(), body.tools.as_deref())?;
            Ok(values.saturating_add(body.suspended.as_ref().map_or(0, |suspended| decoded_bytes(&suspended.0))))
        })
    }

    /// Returns the suspended execution with its answers, and the rest of the request.
    fn into_parts(self) -> Result<(Resumption, ExecuteBody), Problem> {
        let suspended = self
            .suspended
            .ok_or_else(|| Problem::invalid("`suspended` is missing; set it to the bytes of the suspended execution"))?
            .0;
        let answers = self.answers.into_iter().map(AnswerBody::answer).collect::<Result<Vec<ToolAnswer>, _>>()?;
        let rest = ExecuteBody {
            // The bytes contain the source.
            source: Some(String::new()),
            language: self.language,
            runtime: self.runtime,
            deadline_ms: self.deadline_ms,
            files: self.files,
            policy: self.policy,
            tools: self.tools,
            return_files: self.return_files,
            ..ExecuteBody::default()
        };
        Ok((Resumption { suspended, answers }, rest))
    }
}

/// Turns an execution into bytes while it waits for answers to tool calls, and ends it.
///
/// The request that started the execution must have set `suspendable`. The client stores the bytes, for example for as
/// long as a person takes to approve a call. `POST /v1/executions/resume` resumes the execution, even after a restart
/// of the server, or on another server with the same interpreters and key. The bytes contain the source and everything
/// that the script has received. Protect them accordingly.
///
/// In a session, they also contain the session's state before the execution. The session returns to its last
/// checkpoint, as after a cancelled execution, and can be used again. `ETag` then contains its generation.
#[utoipa::path(post, path = "/v1/executions/{id}/suspend", operation_id = "suspend_execution", tag = "scripts", security(("token" = [])),
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "For ten minutes, a retry with the same key returns the same bytes.")),
    responses((status = 200, description = "The suspended execution. The server no longer holds it.", content_type = "application/octet-stream", body = inline(Octets)),
        (status = 404, description = "The execution does not exist: it has ended, was cancelled, or has expired.", body = Problem),
        (status = 409, description = "The execution is not suspendable, has ended, or is being resumed or suspended by another request. It continues.", body = Problem),
        (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not suspend the execution. If the status is 503, the execution still waits.", body = Problem)))]
pub(crate) async fn suspend(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(execution): InPath<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lookup = shared.idempotency.begin(tenant.name(), &headers, &[b"suspend", execution.as_bytes()])?;
    let mut slot = match lookup {
        Ok(slot) => slot,
        Err(StoredResponse { body: bytes, etag, .. }) => {
            let room = shared.bodies.reserve(tenant.name(), bytes.len())?;
            return Ok(with_etag(etag, octets(&shared, tenant.name(), ReservedResponse { bytes, room }).await?));
        }
    };
    let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
    let suspended = async move {
        let reserve = |bytes| {
            let room = reserve_suspended(&bodies, tenant.name(), bytes)?;
            // The server forgets the execution, so the response must be stored for a retry.
            slot.as_mut().map_or(Ok(()), |slot| slot.reserve(bytes))?;
            Ok::<_, ServiceError>(room)
        };
        let (ChangeResult { value, generation }, room) = tenant.suspend_to_bytes(&execution, reserve).await?;
        let bytes: axum::body::Bytes = value.into();
        if let Some(slot) = slot {
            slot.done(StoredResponse { status: StatusCode::OK, body: bytes.clone(), etag: generation.clone() });
        }
        Ok::<_, ServiceError>((ReservedResponse { bytes, room }, generation))
    };
    let (response, generation) = in_task(suspended).await?;
    Ok(with_etag(generation, octets(&shared, &name, response).await?))
}

/// Reserves memory for a suspended execution of at most `bytes`. Fails if no request could resume it.
pub(super) fn reserve_suspended(bodies: &BodyBudget, tenant: &str, bytes: usize) -> Result<Room, ServiceError> {
    let max = bodies.max_suspended_bytes();
    if bytes > max {
        return Err(ServiceError::NotSuspendable(format!(
            "its script, input, calls and session can take {bytes} bytes; the maximum is {max} (`http.body_bytes`); \
             let it finish"
        )));
    }
    bodies.reserve(tenant, bytes).map_err(|error| match error {
        ServiceError::NoRoom => ServiceError::NoRoomToSuspend,
        error => error,
    })
}

/// Resumes a suspended execution.
///
/// The script starts again and repeats what it did before, without calling tools, until it waits for the same calls.
/// Then it receives the answers. `tools`, `files` and `policy` must be those of the request that started it. The
/// response has the same forms as for that request. Streamed output contains only new output; the result contains all
/// of it. The same bytes can be resumed several times, with different answers. The body can exceed the server's limit
/// for requests by the size of the suspended execution.
///
/// In a session, the server first replaces the session's state with the state before the execution. The session's
/// generation must match `If-Match`. If the execution cannot be resumed, the session keeps the state before the
/// execution.
#[utoipa::path(post, path = "/v1/executions/resume", operation_id = "resume_execution", tag = "scripts", security(("token" = [])), request_body = ResumeBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "For ten minutes, a retry with the same key and request returns the same response."),
        ("If-Match" = Option<String>, Header, description = "Required with `session`: the session's generation, from its `ETag`, or `*` for any generation.")),
    responses((status = 200, description = "Outcome of the script, whether it succeeded or not.", body = ExecutionAnswer),
        (status = 202, description = "The execution is waiting for further answers.", body = NeedsToolsAnswer),
        (status = 400, description = "The bytes are not a suspended execution of this token, or the answers are invalid.", body = Problem),
        (status = 409, description = "The bytes need another image, or the script behaved differently than before.", body = Problem),
        (status = 412, description = "The session's generation does not match `If-Match`. The session keeps its state.", body = Problem),
        (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not resume the execution.", body = Problem)))]
pub(crate) async fn resume(
    shared: Shared,
    Caller(tenant): Caller,
    headers: HeaderMap,
    ReadResumption(read): ReadResumption,
) -> Result<Response, Problem> {
    let (known, asking) = (shared.clone(), tenant.clone());
    let request = read.parse_with(move |read| {
        let lookup = known.idempotency.begin(asking.name(), &headers, &[b"resume", &read.bytes])?;
        parse_resume_request(read, &headers, &asking, lookup)
    });
    respond(shared, tenant, request.await?).await
}

/// Returns the memory that a suspended execution occupies when it is decoded and resumed, in bytes.
pub(super) fn decoded_bytes(suspended: &[u8]) -> usize {
    // Bytes that cannot be decoded are rejected, and occupy no additional memory.
    Suspended::peek(suspended).map_or(suspended.len(), |peek| peek.memory_bytes)
}

/// Parses a request to resume an execution. `lookup` is the result for its idempotency key.
fn parse_resume_request(
    read: ReadBody,
    headers: &HeaderMap,
    tenant: &Tenant,
    lookup: KeyLookup,
) -> Result<ParsedRequest, Problem> {
    let (mut body, held) = ResumeBody::read(read)?;
    let session = body.session.take();
    let (resumption, body) = body.into_parts()?;
    if session.is_some() && !headers.contains_key(header::IF_MATCH) {
        return Err(Problem::invalid(
            "`session` requires `If-Match`, because the session's state is replaced; send the session's `ETag`",
        ));
    }
    let session = session.map(|id| SessionTarget { id, expected: if_match(headers) });
    let (mut work, patterns) = body.work(session, tenant)?;
    let script = work.script();
    if script.tools.is_empty() {
        return Err(Problem::invalid("`tools` must contain the tools of the request that started the execution"));
    }
    script.resumption = Some(resumption);
    script.key = new_key(&lookup).map(str::to_owned);
    let kept_bytes = held.bytes();
    let step = StepRequest::Start { work, patterns, is_stepped: true, kept_bytes, store: None, claim: None };
    Ok(ParsedRequest { lookup, step, form: ResponseForm::of(headers), held })
}
