//! Routes for suspended executions that the server stores.

use std::collections::BTreeMap;

use axum::{
    Json,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use glovebox::{JsonText, Timestamp, ToolAnswer, ToolRequest};
use glovebox_core::at_most;
use glovebox_sessions::{PageRequest, SessionId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Caller, InPath, InQuery, Problem, ReadBody, Shared,
    answer::{BuiltResponse, ExecutionAnswer, send_stored},
    budget::ChargedBytes,
    execute::{ParsedRequest, StepRequest, respond},
    idempotency::KeyLookup,
    output::{Responder, ResponseForm},
    parameters::{Failures, if_match},
    suspend::{decoded_bytes, reserve_suspended},
    tools::{AnswerBody, CallAnswer, MAX_ANSWERS, max_bytes},
    wire::{ExecuteBody, MAX_PATTERNS, checked_ttl, values_bytes},
};
use crate::{
    NeedsTools, Resumption, Service, ServiceError, SessionTarget, Tenant,
    byte_budget::{BudgetExhausted, Room},
    json::Bytes,
    tenant::{NotStored, ReadEntry, StoredExecution, StoredSummaries, StoredSuspension, SuspendedId, SuspendedRequest},
};

/// The number of copies of a stored execution in memory while it is written or read.
const COPIES: usize = 2;

/// A suspended execution that the server stores, with its calls.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SuspendedAnswer {
    /// Always `suspended`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// ID of the suspended execution. `POST /v1/suspended/{id}` resumes it, once.
    id: String,
    /// Calls without an answer, in the order they were made.
    calls: Vec<CallAnswer>,
    /// Time after which the server deletes the suspended execution (RFC 3339).
    #[schema(value_type = String)]
    expires_at: Timestamp,
    /// Session of the execution; `null` outside sessions.
    #[schema(value_type = Option<String>)]
    session: Option<SessionId>,
}

impl SuspendedAnswer {
    fn new(id: &SuspendedId, calls: Vec<ToolRequest>, session: Option<SessionId>) -> Self {
        let calls = calls.into_iter().map(CallAnswer::from).collect();
        Self { kind: "suspended", id: id.as_str().to_owned(), calls, expires_at: id.expires(), session }
    }
}

/// Answers for a suspended execution that the server stores.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResumeStoredBody {
    /// Answers, at least one and at most one per call. The response lists calls without an answer again.
    #[serde(default, deserialize_with = "at_most::<_, AnswerBody, _, MAX_ANSWERS>")]
    answers: Vec<AnswerBody>,
    /// `false` to keep the execution in memory if it waits again, for `POST /v1/executions/{id}/continue`. Default:
    /// `true`, which stores it under a new ID.
    suspend: Option<bool>,
    /// Milliseconds for which the server stores the execution if it waits again, as in `POST /v1/execute`. Default: as
    /// in the previous request.
    ttl_ms: Option<u64>,
    /// Milliseconds after which the resumed execution is cancelled. Default: no deadline.
    deadline_ms: Option<u64>,
    /// Patterns of files to return, as in `POST /v1/execute`. Default: the patterns of the first request.
    #[serde(default, deserialize_with = "at_most::<_, String, _, MAX_PATTERNS>")]
    return_files: Option<Vec<String>>,
}

impl ResumeStoredBody {
    /// Returns the answers. Fails if the list is empty, or if an answer is not valid JSON.
    fn take_answers(&mut self) -> Result<Vec<ToolAnswer>, Problem> {
        let answers = std::mem::take(&mut self.answers);
        if answers.is_empty() {
            return Err(Problem::invalid(
                "`answers` is empty; answer at least one call; `GET /v1/suspended/{id}` lists the calls",
            ));
        }
        let answers = answers.into_iter().map(AnswerBody::answer).collect::<Result<Vec<ToolAnswer>, _>>()?;
        for ToolAnswer { id, answer } in &answers {
            if let Ok(text) = answer
                && let Err(error) = JsonText::new(text.as_str())
            {
                return Err(Problem::invalid(format!("the answer to call {id} is invalid: {error}")));
            }
        }
        Ok(answers)
    }
}

/// The query parameters of the list of suspended executions.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StoredQuery {
    /// ID to start after: `next` of the previous page. Default: start with the execution that expires first.
    #[param(value_type = Option<String>)]
    after: Option<SessionId>,
    /// Maximum number of suspended executions. Default: 1,000. A page may have fewer.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists the suspended executions that the server stores for this token, in the order of their expiry.
#[utoipa::path(get, path = "/v1/suspended", operation_id = "list_suspended", tag = "scripts", security(("token" = [])),
    params(StoredQuery), responses((status = 200, description = "A page of suspended executions.", body = StoredSummaries), Failures))]
pub(crate) async fn list(
    Caller(tenant): Caller,
    InQuery(StoredQuery { after, limit }): InQuery<StoredQuery>,
) -> Result<Json<StoredSummaries>, Problem> {
    let page = PageRequest::new(limit.unwrap_or(PageRequest::MAX_LIMIT));
    let page = page.map_err(|error| Problem::invalid(error.to_string()))?.after(after);
    Ok(Json(tenant.list_suspended(page).await?))
}

/// Describes a suspended execution that the server stores, with the calls that wait for answers.
#[utoipa::path(get, path = "/v1/suspended/{id}", operation_id = "get_suspended", tag = "scripts", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 200, description = "The suspended execution.", body = SuspendedAnswer),
        (status = 404, description = "The suspended execution does not exist: it was resumed or deleted, or has expired.", body = Problem), Failures))]
pub(crate) async fn describe(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(id): InPath<String>,
) -> Result<Json<SuspendedAnswer>, Problem> {
    let (ReadEntry { id, execution, .. }, held) = read(&shared, &tenant, &id).await?;
    // Keep the memory charged: the response uses it until it is written.
    tenant.keep([Room::ChargedBytes(held)]);
    let StoredExecution { request, calls, .. } = execution;
    Ok(Json(SuspendedAnswer::new(&id, calls, request.session)))
}

/// Deletes a suspended execution that the server stores.
#[utoipa::path(delete, path = "/v1/suspended/{id}", operation_id = "delete_suspended", tag = "scripts", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 204, description = "The suspended execution is deleted. Its script does not continue."),
        (status = 404, description = "The suspended execution does not exist: it was resumed or deleted, or has expired.", body = Problem),
        (status = 409, description = "Another request is resuming the suspended execution. Nothing was deleted.", body = Problem), Failures))]
pub(crate) async fn delete(Caller(tenant): Caller, InPath(id): InPath<String>) -> Result<StatusCode, Problem> {
    tenant.delete_suspended(id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Resumes a suspended execution that the server stores.
///
/// The script starts again and repeats what it did before, without calling tools, until it waits for the same calls.
/// The server then deletes the suspended execution, and passes the answers to the script. Until then, a failed request
/// can be retried. Of several requests with the same ID, only one continues the script. The response has the same forms
/// as that of `POST /v1/execute`. If the execution waits again, it is stored under a new ID.
///
/// In a session, the server first replaces the session's state with the state before the execution. The session's
/// generation must match `If-Match`. Default: the generation after the suspension.
#[utoipa::path(post, path = "/v1/suspended/{id}", operation_id = "resume_suspended", tag = "scripts", security(("token" = [])), request_body = ResumeStoredBody,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "For ten minutes, a retry with the same key and request returns the same response."),
        ("If-Match" = Option<String>, Header, description = "Required generation of the session, from its `ETag`, or `*` for any generation. Default: the generation after the suspension.")),
    responses((status = 200, description = "Outcome of the script, whether it succeeded or not.", body = ExecutionAnswer),
        (status = 202, description = "The execution is waiting for further answers. If it is not stored, the body is a `NeedsToolsAnswer`.", body = SuspendedAnswer),
        (status = 400, description = "The answers are invalid. The suspended execution is still stored.", body = Problem),
        (status = 404, description = "The suspended execution does not exist: it was resumed or deleted, or has expired.", body = Problem),
        (status = 409, description = "Another request is resuming the execution, or it needs another image, or the script behaved differently than before.", body = Problem),
        (status = 412, description = "The session's generation differs. The session keeps its state.", body = Problem),
        (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not resume the execution.", body = Problem)))]
pub(crate) async fn resume(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(id): InPath<String>,
    headers: HeaderMap,
    read_body: ReadBody,
) -> Result<Response, Problem> {
    let (known, name, keyed) = (shared.clone(), tenant.name().to_owned(), headers.clone());
    let named = id.clone();
    let parsed = read_body.parse_with(move |read| {
        let lookup = known.idempotency.begin(&name, &keyed, &[b"suspended", named.as_bytes(), &read.bytes])?;
        let (mut body, held): (ResumeStoredBody, ChargedBytes) = read.json()?;
        let answers = body.take_answers()?;
        body.ttl_ms.map(checked_ttl).transpose()?;
        Ok((lookup, body, answers, held))
    });
    let (lookup, body, answers, mut held) = parsed.await?;
    let lookup = match lookup {
        Ok(slot) => Ok(slot),
        Err(answer) => return send_stored(&shared, tenant.name(), answer).await,
    };
    let (entry, stored) = read(&shared, &tenant, &id).await?;
    held.join(stored);
    let (bodies, parsing) = (shared.bodies.clone(), tenant.clone());
    // Parsing the policy and the tools of the first request can take some time.
    let parse = move || {
        let stored = StoredRequest { entry, body, answers };
        let values_bytes = stored.values_bytes()?;
        let more = bodies.bytes().try_room(Some(parsing.name()), values_bytes);
        held.join(more.map_err(|BudgetExhausted| ServiceError::NoRoomToSuspend)?);
        stored.parse(lookup, &headers, &parsing, held)
    };
    let request = Service::blocking(parse).await??;
    respond(shared, tenant, request).await
}

/// Reads a suspended execution, and charges memory for it.
async fn read(shared: &Shared, tenant: &Tenant, id: &str) -> Result<(ReadEntry, ChargedBytes), ServiceError> {
    let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
    let reserve = move |bytes: usize| {
        let held = bodies.bytes().try_room(Some(&name), bytes.saturating_mul(COPIES));
        held.map_err(|BudgetExhausted| ServiceError::NoRoomToSuspend)
    };
    tenant.read_suspended(id, reserve).await
}

/// A stored execution, and the request to resume it.
struct StoredRequest {
    entry: ReadEntry,
    body: ResumeStoredBody,
    answers: Vec<ToolAnswer>,
}

impl StoredRequest {
    /// Returns the memory that the execution and its request occupy when they are decoded, in bytes.
    fn values_bytes(&self) -> Result<usize, Problem> {
        let StoredExecution { request, suspended, .. } = &self.entry.execution;
        let values = values_bytes(None, request.policy.as_deref(), Some(&request.tools))?;
        // The request is copied, because it is stored again if the execution waits again.
        Ok(values.saturating_add(decoded_bytes(suspended)).saturating_add(request.max_bytes()))
    }

    /// Builds the request to the tenant. `lookup` is the result for its idempotency key.
    fn parse(
        self,
        lookup: KeyLookup,
        headers: &HeaderMap,
        tenant: &Tenant,
        held: ChargedBytes,
    ) -> Result<ParsedRequest, Problem> {
        let Self { entry, body, answers } = self;
        let ReadEntry { id, version, execution } = entry;
        let StoredExecution { request, calls, generation, in_fleet, suspended } = execution;
        for ToolAnswer { id: answered, .. } in &answers {
            if !calls.iter().any(|call| call.id == *answered) {
                let waiting: Vec<String> = calls.iter().map(|call| call.id.to_string()).collect();
                return Err(Problem::invalid(format!(
                    "call {answered} is not waiting for an answer; waiting calls: {}",
                    waiting.join(", ")
                )));
            }
        }
        let claim = tenant.claim(id, version, request.session.is_some(), in_fleet)?;
        let session = match request.session.clone() {
            Some(session) => Some(target(session, generation, headers)?),
            None if headers.contains_key(header::IF_MATCH) => {
                return Err(Problem::invalid("the execution is not in a session; remove `If-Match`"));
            }
            None => None,
        };
        let (mut work, patterns) = execute_body(&request, &body).work(session, tenant)?;
        let script = work.script();
        script.resumption = Some(Resumption { suspended, answers });
        let store = (body.suspend != Some(false)).then(|| SuspendedRequest {
            ttl_ms: body.ttl_ms.unwrap_or(request.ttl_ms),
            return_files: patterns.clone(),
            ..request
        });
        let (kept_bytes, claim) = (held.bytes(), Some(Box::new(claim)));
        let step = StepRequest::Start { work, patterns, is_stepped: true, kept_bytes, store, claim };
        Ok(ParsedRequest { lookup, step, form: ResponseForm::of(headers), held })
    }
}

/// Returns the session to resume an execution in, with the generation that it must have.
fn target(id: SessionId, generation: Option<String>, headers: &HeaderMap) -> Result<SessionTarget, Problem> {
    let expected = match headers.contains_key(header::IF_MATCH) {
        true => if_match(headers),
        false => Some(generation.ok_or_else(|| {
            Problem::invalid(
                "the session's generation after the suspension is unknown; send the session's `ETag` in `If-Match`",
            )
        })?),
    };
    Ok(SessionTarget { id, expected })
}

/// Returns the request from which the work is built. It has no source, because the suspended execution contains the
/// source.
fn execute_body(request: &SuspendedRequest, body: &ResumeStoredBody) -> ExecuteBody {
    let files: BTreeMap<_, _> =
        request.files.iter().map(|(path, bytes)| (path.clone(), Bytes(bytes.clone()))).collect();
    ExecuteBody {
        source: Some(String::new()),
        deadline_ms: body.deadline_ms,
        // A session has its own files.
        files: request.session.is_none().then_some(files),
        policy: request.policy.clone(),
        tools: Some(request.tools.clone()),
        return_files: Some(body.return_files.clone().unwrap_or_else(|| request.return_files.clone())),
        ..ExecuteBody::default()
    }
}

impl Responder {
    /// Suspends an execution and stores it with the parts of its request. Serializes the response for its client.
    pub(super) async fn store(
        &self,
        tenant: &Tenant,
        needs: &NeedsTools,
        request: SuspendedRequest,
    ) -> Result<BuiltResponse, NotStored> {
        let room = self.reserve(max_bytes(&needs.calls)).map_err(NotStored::waits)?;
        let (bodies, name, session) = (self.bodies.clone(), self.tenant.clone(), request.session.clone());
        let reserve = move |bytes: usize, stored_bytes: usize| {
            // Reserve memory for the bytes, and for the stored form, which contains a copy of the bytes.
            let held = reserve_suspended(&bodies, &name, bytes)?;
            let stored = bodies.bytes().try_room(Some(&name), stored_bytes);
            Ok::<_, ServiceError>((held, stored.map_err(|BudgetExhausted| ServiceError::NoRoomToSuspend)?))
        };
        let (execution, calls) = (needs.execution.clone(), needs.calls.clone());
        let StoredSuspension { id, calls, generation } =
            tenant.store_suspended(execution, request, calls, reserve).await?;
        let answer = SuspendedAnswer::new(&id, calls, session);
        self.accepted("suspended", &answer, room, generation).map_err(NotStored::ended)
    }
}
