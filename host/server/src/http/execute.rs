//! Routes for executing and validating scripts, and for answering their tool calls.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use glovebox::ToolAnswer;
use glovebox_sessions::SessionId;
use tracing::Instrument as _;

use super::{
    Caller, InPath, Problem, ReadBody, Shared,
    answer::{BuiltResponse, ExecutionAnswer, send_stored, send_whole},
    budget::ChargedBytes,
    idempotency::{KeyLookup, KeySlot, new_key},
    output::{Pieces, Responder, ResponseForm},
    parameters::{Failures, IfMatch},
    tools::{ContinueBody, NeedsToolsAnswer},
    wire::{ExecuteBody, NO_STEPPED_TOOL, ValidateAnswer},
};
use crate::{
    DeliveryError, Door, FinishedExecution, ServiceError, SessionTarget, StepOutcome, Tenant, Watch, Work,
    tenant::{Claim, NotStored, RunningExecution, SuspendedRequest},
};

/// Runs a script in a new interpreter with new files.
///
/// If `Accept` is `text/event-stream` or `application/x-ndjson`, the response streams output as the script writes it.
/// The first chunk has the `type` `started` and the ID of the `execution`. `DELETE /v1/executions/{id}` cancels it.
/// Chunks of the `type` `stdout` or `stderr` have a `text`. The last chunk has the `type` `result` with the answer in
/// `result`, or the `type` `error` with a `problem`.
///
/// If `check_types` is set, the script does not run if it has type errors: the problem `type-errors`, with status 422,
/// lists them in `diagnostics`.
///
/// `tools` are functions that the script may call in addition to the server's. A service answers the calls to a tool
/// with a `callback`. Calls to other tools suspend the execution: the response has status 202, or the last chunk has
/// the `type` `needs-tools`. `POST /v1/executions/{id}/continue` resumes the execution. If `suspendable` is set,
/// `POST /v1/executions/{id}/suspend` turns it into bytes.
///
/// If `suspend` is set, the server stores the execution instead: the response with status 202, or the last chunk, has
/// the `type` `suspended` and the `id` for `POST /v1/suspended/{id}`. If the execution cannot be stored, the response
/// has the `type` `needs-tools`, and contains the reason in `not_stored`.
#[utoipa::path(post, path = "/v1/execute", operation_id = "execute", tag = "scripts", security(("token" = [])), request_body = ExecuteBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "For ten minutes, a retry with the same key and request returns the same response.")),
    responses((status = 200, description = "Outcome of the script, whether it succeeded or not.", body = ExecutionAnswer),
        (status = 202, description = "The execution is waiting for answers to tool calls. With `suspend`, it is stored, and the body is a `SuspendedAnswer`.", body = NeedsToolsAnswer), Failures))]
pub(crate) async fn fresh(
    shared: Shared,
    Caller(tenant): Caller,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let request = parse(&shared, &tenant, headers, read, None).await?;
    respond(shared, tenant, request).await
}

/// Parses a request to execute a script, and looks up its idempotency key.
async fn parse(
    shared: &Shared,
    tenant: &Tenant,
    headers: HeaderMap,
    read: ReadBody,
    session: Option<SessionTarget>,
) -> Result<ParsedRequest, Problem> {
    let (shared, tenant, checking) = (shared.clone(), tenant.clone(), tenant);
    let parsed = read.parse_with(move |read| {
        let lookup = match &session {
            None => shared.idempotency.begin(tenant.name(), &headers, &[b"execute", &read.bytes]),
            Some(SessionTarget { id, .. }) => {
                let id = id.as_str().as_bytes();
                shared.idempotency.begin(tenant.name(), &headers, &[b"session", id, &read.bytes])
            }
        }?;
        let (body, held) = ExecuteBody::read(read)?;
        let tools_bytes = body.tools_bytes()?;
        let store = body.stored(session.as_ref().map(|target| &target.id))?;
        let (mut work, patterns) = body.work(session, &tenant)?;
        let script = work.script();
        let is_stepped = !script.tools.is_empty();
        if script.suspendable && !is_stepped {
            return Err(Problem::invalid(match store {
                Some(_) => NO_STEPPED_TOOL,
                None => {
                    "`suspendable` requires a tool without a `callback`; add one to `tools`, or remove `suspendable`"
                }
            }));
        }
        let key = new_key(&lookup);
        if is_stepped && store.is_none() && key.is_some() {
            let detail = "`Idempotency-Key` is not supported with tools without a `callback`; remove it, or set \
                          `suspend` to `true`";
            return Err(Problem::invalid(detail));
        }
        script.key = key.map(str::to_owned);
        // A suspendable execution keeps its script and its input in memory.
        let kept_bytes = if script.suspendable { held.bytes() } else { tools_bytes };
        let step = StepRequest::Start { work, patterns, is_stepped, kept_bytes, store, claim: None };
        Ok(ParsedRequest { lookup, step, form: ResponseForm::of(&headers), held })
    });
    let parsed = parsed.await?;
    // Fail before the script runs if the server could not store its execution.
    if parsed.is_stored() {
        checking.check_suspended_store().await?;
    }
    Ok(parsed)
}

/// Runs a script in a session. Concurrent requests to a session run one after another.
#[utoipa::path(post, path = "/v1/sessions/{id}/execute", operation_id = "execute_in_session", tag = "sessions", security(("token" = [])), request_body = ExecuteBody,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header), IfMatch),
    responses((status = 200, description = "Outcome of the script. The session is saved.", body = ExecutionAnswer),
        (status = 202, description = "The execution is waiting for answers to tool calls. Other requests to the session wait until it ends. With `suspend`, it is stored, the body is a `SuspendedAnswer`, and the session can be used.", body = NeedsToolsAnswer),
        (status = 412, description = "The session's generation does not match `If-Match`. The script did not run.", body = Problem), Failures))]
pub(crate) async fn in_session(
    shared: Shared,
    Caller(tenant): Caller,
    target: SessionTarget,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let request = parse(&shared, &tenant, headers, read, Some(target)).await?;
    respond(shared, tenant, request).await
}

/// Checks a script with the parser of its language, without executing any of it.
///
/// If `check_types` is set, also checks the types of a Python script without syntax errors, with the request's `tools`.
#[utoipa::path(post, path = "/v1/validate", operation_id = "validate", tag = "scripts", security(("token" = [])), request_body = ExecuteBody,
    responses((status = 200, description = "The diagnostics.", body = ValidateAnswer), Failures))]
pub(crate) async fn validate(Caller(tenant): Caller, read: ReadBody) -> Result<Json<ValidateAnswer>, Problem> {
    let (fresh, _held) = parse_checked(&tenant, read, |body, tenant| Ok(body.fresh(tenant)?.0)).await?;
    Ok(Json(ValidateAnswer { diagnostics: tenant.validate(fresh).await? }))
}

/// Checks a script for a session with the parser of its language, without executing any of it.
///
/// If `check_types` is set, also checks the types of a Python script without syntax errors, with the request's `tools`
/// and the session's variables.
#[utoipa::path(post, path = "/v1/sessions/{id}/validate", operation_id = "validate_in_session", tag = "sessions", security(("token" = [])), request_body = ExecuteBody,
    params(("id" = String, Path)),
    responses((status = 200, description = "The diagnostics.", body = ValidateAnswer), Failures))]
pub(crate) async fn validate_in_session(
    Caller(tenant): Caller,
    InPath(id): InPath<SessionId>,
    read: ReadBody,
) -> Result<Json<ValidateAnswer>, Problem> {
    let (script, _held) = parse_checked(&tenant, read, |body, tenant| Ok(body.in_session(tenant)?.0)).await?;
    Ok(Json(ValidateAnswer { diagnostics: tenant.validate_in(id, script).await? }))
}

/// Parses a request to validate a script, and converts it with `convert`.
async fn parse_checked<T: Send + 'static>(
    tenant: &Tenant,
    read: ReadBody,
    convert: impl FnOnce(ExecuteBody, &Tenant) -> Result<T, Problem> + Send + 'static,
) -> Result<(T, ChargedBytes), Problem> {
    let tenant = tenant.clone();
    let parsed = read.parse_with(move |read| {
        let (mut body, held) = ExecuteBody::read(read)?;
        if body.check_types != Some(true) {
            (body.tools, body.return_files) = (None, None);
        }
        Ok((convert(body, &tenant)?, held))
    });
    parsed.await
}

/// A request to execute a script, or to resume an execution.
pub(super) struct ParsedRequest {
    pub(super) lookup: KeyLookup,
    pub(super) step: StepRequest,
    pub(super) form: ResponseForm,
    pub(super) held: ChargedBytes,
}

impl ParsedRequest {
    /// Returns `true` if the request starts an execution that is stored when it is suspended.
    fn is_stored(&self) -> bool {
        self.lookup.is_ok() && matches!(&self.step, StepRequest::Start { store: Some(_), .. })
    }
}

/// Executes a script, and responds in the format that the client accepts.
pub(super) async fn respond(shared: Shared, tenant: Tenant, request: ParsedRequest) -> Result<Response, Problem> {
    let ParsedRequest { lookup, step, form, held } = request;
    let slot = match lookup {
        Ok(slot) => slot,
        Err(answer) => return send_stored(&shared, tenant.name(), answer).await,
    };
    let (responder, name) = (Responder::new(&shared, &tenant, form), tenant.name().to_owned());
    match (form, slot) {
        // The request consumes a stored execution. If the client disconnects, the execution still continues, and
        // `GET /v1/suspended` lists it when it is stored again.
        (ResponseForm::Whole, None) if step.is_claimed() => {
            let done = async move { step.respond(&tenant, Watch::default(), responder, held).await.flatten() };
            send_whole(&shared, &name, in_task(done).await?).await
        }
        (ResponseForm::Whole, None) => {
            let response = step.respond(&tenant, Watch::default(), responder, held).await??;
            send_whole(&shared, &name, response).await
        }
        (ResponseForm::Whole, Some(slot)) => {
            let done = async move { stored(slot, step.respond(&tenant, Watch::default(), responder, held).await) };
            send_whole(&shared, &name, in_task(done).await?).await
        }
        (ResponseForm::Events | ResponseForm::Lines, Some(_)) => Err(Problem::invalid(
            "`Idempotency-Key` is not supported with streamed responses; remove it, or accept `application/json`",
        )),
        (ResponseForm::Events | ResponseForm::Lines, None) => Ok(Pieces::answer(responder, move |pieces| async move {
            let running = matches!(step, StepRequest::Start { .. }).then(|| tenant.announce());
            let watch = match &running {
                Some(running) => {
                    pieces.started(&running.id).await;
                    running.watch(&pieces)
                }
                None => Watch { on_output: Some(pieces.on_output()), ..Watch::default() },
            };
            let end = step.respond(&tenant, watch, pieces.responder.clone(), held).await;
            // The tenant's work is done, even if the client still reads the response.
            drop((running, tenant));
            pieces.end(end.flatten().map(|whole| whole.body)).await;
        })),
    }
}

/// Stores the response to a request with a key. The outer error of `done` is the error of a failed request. The inner
/// error is the reason why the response could not be built.
fn stored(
    slot: KeySlot,
    done: Result<Result<BuiltResponse, ServiceError>, ServiceError>,
) -> Result<BuiltResponse, ServiceError> {
    match done {
        Ok(Ok(whole)) => {
            slot.done(whole.answer());
            Ok(whole)
        }
        // The script has run. A retry must not run it again just because there is no response.
        Ok(Err(error)) => {
            slot.forget();
            Err(error)
        }
        Err(error) => {
            if error.has_run() {
                slot.forget();
            }
            Err(error)
        }
    }
}

/// Completes a request in a separate task, even if the client disconnects. A retry with the same key then finds the
/// response.
pub(super) async fn in_task<T: Send + 'static>(
    done: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ServiceError> {
    tokio::spawn(done.in_current_span()).await.map_err(|_| ServiceError::Panicked)?
}

impl RunningExecution {
    /// Returns a watch that streams the output of the execution to `pieces`, and cancels the execution by its ID.
    fn watch(&self, pieces: &Pieces) -> Watch {
        let (cancel, execution) = (Some(self.cancel.clone()), Some(self.id.clone()));
        Watch { on_output: Some(pieces.on_output()), cancel, execution }
    }
}

pub(super) enum StepRequest {
    Start {
        work: Work,
        patterns: Vec<String>,
        /// `true` if the client answers tool calls, so the execution can be suspended.
        is_stepped: bool,
        /// The memory that stays charged while the execution is suspended, in bytes. Covers the data that the execution
        /// keeps.
        kept_bytes: usize,
        /// The parts of the request to store with the execution if it waits. `None` to keep it in memory.
        store: Option<SuspendedRequest>,
        /// The claim on the stored execution that the step resumes.
        claim: Option<Box<Claim>>,
    },
    Resume {
        execution: String,
        answers: Vec<ToolAnswer>,
    },
}

impl StepRequest {
    /// Returns `true` if the step consumes a stored execution.
    fn is_claimed(&self) -> bool {
        matches!(self, Self::Start { claim: Some(_), .. })
    }

    /// Performs the step and builds the response. Releases `held`, the memory charged for the request. The outer error
    /// is the error of a failed step. The inner error is the reason why the response could not be built.
    async fn respond(
        self,
        tenant: &Tenant,
        watch: Watch,
        responder: Responder,
        mut held: ChargedBytes,
    ) -> Result<Result<BuiltResponse, ServiceError>, ServiceError> {
        let results = responder.clone();
        let then = move |ended| match results.result(ended) {
            Err(unread @ DeliveryError::NoRoom(_)) => Err(unread),
            response => Ok(response.map_err(ServiceError::from)),
        };
        let (stepped, kept_bytes, store) = match self {
            Self::Start { work, patterns, is_stepped: false, .. } => {
                let then = move |finished| {
                    then(FinishedExecution { finished, return_files: patterns, charged: None })
                        .map_err(ServiceError::from)
                };
                (tenant.execute_then(Door::Http, work, watch, then).await.map(StepOutcome::Done), 0, None)
            }
            Self::Start { work, patterns, kept_bytes, store, claim, .. } => {
                let started =
                    tenant.start_claimed(Door::Http, work, patterns, watch, claim.map(|claim| *claim), then).await;
                (started, kept_bytes, store)
            }
            Self::Resume { execution, answers } => {
                (tenant.resume_then(&execution, answers, watch, then).await, 0, None)
            }
        };
        let needs = match stepped? {
            StepOutcome::Done(response) => return Ok(response),
            StepOutcome::NeedsTools(needs) => needs,
        };
        let (execution, mut not_stored) = (needs.execution.clone(), None);
        if let Some(request) = store {
            match responder.store(tenant, &needs, request).await {
                Ok(response) => return Ok(Ok(response)),
                // The script has run, even though there is no response.
                Err(NotStored::Ended(error)) => return Ok(Err(*error)),
                Err(NotStored::Waits(error)) => not_stored = Some(Problem::from(*error)),
            }
        }
        held.shrink(kept_bytes);
        tenant.charge_suspended(&execution, held);
        Ok(responder.calls(needs, not_stored))
    }
}

/// Resumes an execution that is waiting for answers to tool calls.
///
/// The response has the same forms as for the request that started the execution: `Accept` selects streaming.
#[utoipa::path(post, path = "/v1/executions/{id}/continue", operation_id = "continue_execution", tag = "scripts", security(("token" = [])), request_body = ContinueBody, params(("id" = String, Path)),
    responses((status = 200, description = "Outcome of the script, whether it succeeded or not.", body = ExecutionAnswer),
        (status = 202, description = "The execution is waiting for further answers.", body = NeedsToolsAnswer),
        (status = 404, description = "The execution does not exist: it has ended, was cancelled, or has expired.", body = Problem),
        (status = "4XX", description = "The answers were refused.", body = Problem),
        (status = "5XX", description = "The server could not resume the execution.", body = Problem)))]
pub(crate) async fn continue_execution(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(execution): InPath<String>,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (answers, held) = read
        .parse_with(|read| {
            let (body, held): (ContinueBody, ChargedBytes) = read.json_or_default()?;
            Ok((body.answers()?, held))
        })
        .await?;
    let step = StepRequest::Resume { execution, answers };
    respond(shared, tenant, ParsedRequest { lookup: Ok(None), step, form: ResponseForm::of(&headers), held }).await
}

/// Cancels an execution: one that waits for answers to tool calls, or one with a streamed response.
///
/// The script first receives an exception. If another request is waiting for the execution, that request's response ends
/// with the result, whose outcome is `cancelled`.
#[utoipa::path(delete, path = "/v1/executions/{id}", operation_id = "cancel_execution", tag = "scripts", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 200, description = "Outcome of the script, which was waiting for answers. Its session is in the same state as after any cancelled execution.", body = ExecutionAnswer),
        (status = 204, description = "The execution is cancelled. The response of the request that is running it contains the result."),
        (status = 404, description = "The execution does not exist, or its result was delivered.", body = Problem),
        (status = 409, description = "Another request is suspending the execution. Nothing was cancelled.", body = Problem), Failures))]
pub(crate) async fn cancel(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(execution): InPath<String>,
) -> Result<Response, Problem> {
    let responder = Responder::new(&shared, &tenant, ResponseForm::Whole);
    match tenant.cancel_then(&execution, move |ended| responder.result(ended)).await? {
        Some(response) => send_whole(&shared, tenant.name(), response).await,
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}
