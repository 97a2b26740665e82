//! Routes for executing and validating scripts, and for answering their tool calls.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
};
use glovebox::ToolAnswer;
use tracing::Instrument as _;

use super::{
    Caller, InPath, Problem, ReadBody, Shared,
    answer::{
        ExecutionAnswer, Whole, again, execution_piece, result_piece, serialize_calls, serialize_execution,
        serialize_result, whole,
    },
    budget::{HeldBytes, Made},
    idempotency::{Begun, KeySlot},
    output::{Form, Pieces},
    parameters::IfMatch,
    tools::{ContinueBody, NeedsToolsAnswer, Offered},
    wire::{ExecuteBody, ValidateAnswer},
};
use crate::{Door, Ended, Script, ServiceError, Stepped, Tenant, Undelivered, Watch, Work, tenant::RunningExecution};

/// Runs a script in a new interpreter with new files.
///
/// If `Accept` is `text/event-stream` or `application/x-ndjson`, the response streams output as the script writes it.
/// The first piece has `type` `started` and the ID of the `execution`, by which `DELETE /v1/executions/{id}` cancels it.
/// Pieces of `type` `stdout` and `stderr` have a `text`. The last piece has `type` `result` with the answer in
/// `result`, or `type` `error` with a `problem`.
///
/// If `check_types` is set, the script does not run if it has type errors: the problem `type-errors`, with status 422,
/// lists them in `diagnostics`.
///
/// `tools` are functions that the script may call in addition to the server's. A service answers the calls to a tool
/// with a `callback`. Calls to other tools suspend the execution: the response has status 202, or the last piece has
/// `type` `needs-tools`. `POST /v1/executions/{id}/continue` resumes the execution. If `suspendable` is set,
/// `POST /v1/executions/{id}/suspend` turns it into bytes.
#[utoipa::path(post, path = "/v1/execute", operation_id = "execute", tag = "scripts", security(("token" = [])), request_body = ExecuteBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "For ten minutes, a retry with the same key and request returns the same response.")),
    responses((status = 200, description = "Outcome of the script, whether it succeeded or not.", body = ExecutionAnswer),
        (status = 202, description = "The execution is waiting for answers to tool calls.", body = NeedsToolsAnswer),
        (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not carry out the request.", body = Problem)))]
pub(crate) async fn fresh(
    shared: Shared,
    Caller(tenant): Caller,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (known, asking) = (shared.clone(), tenant.clone());
    let asked = read.parse_with(move |read| {
        let begun = known.answered.begin(asking.name(), &headers, &[b"execute", &read.bytes])?;
        let (mut body, held) = ExecuteBody::read(read)?;
        let tools_bytes = body.tools_bytes()?;
        let (tools, patterns) = Offered::of(&mut body, &asking)?;
        let (mut fresh, is_stepped) = (body.fresh()?, tools.is_stepped());
        check_suspendable(&fresh.script, is_stepped)?;
        tools.to(&mut fresh.script, &patterns);
        // A suspendable execution keeps its script and its input.
        let kept_bytes = if fresh.script.suspendable { held.bytes() } else { tools_bytes };
        let work = Work::Fresh(Box::new(fresh));
        Ok(ParsedRequest { begun, patterns, work, is_stepped, kept_bytes, form: Form::of(&headers), held })
    });
    execute(shared, tenant, asked.await?).await
}

/// Fails if an execution cannot wait for the client, but is suspendable.
fn check_suspendable(script: &Script, is_stepped: bool) -> Result<(), Problem> {
    if script.suspendable && !is_stepped {
        let detail = "`suspendable` requires a tool without a `callback`; add one to `tools`, or remove `suspendable`";
        return Err(Problem::invalid(detail));
    }
    Ok(())
}

/// Runs a script in a session. Concurrent requests to a session run one after another.
#[utoipa::path(post, path = "/v1/sessions/{id}/execute", operation_id = "execute_in_session", tag = "sessions", security(("token" = [])), request_body = ExecuteBody,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header),
        ("If-Match" = Option<String>, Header, description = "Required generation of the session, from its `ETag`.")),
    responses((status = 200, description = "Outcome of the script. The session is saved.", body = ExecutionAnswer),
        (status = 202, description = "The execution is waiting for answers to tool calls. Other requests to the session wait until it ends.", body = NeedsToolsAnswer),
        (status = 412, description = "The session has another generation. The script did not run.", body = Problem),
        (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not carry out the request.", body = Problem)))]
pub(crate) async fn in_session(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(id): InPath<String>,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (known, asking) = (shared.clone(), tenant.clone());
    let asked = read.parse_with(move |read| {
        let begun = known.answered.begin(asking.name(), &headers, &[b"session", id.as_bytes(), &read.bytes])?;
        let (mut body, held) = ExecuteBody::read(read)?;
        let tools_bytes = body.tools_bytes()?;
        let (tools, patterns) = Offered::of(&mut body, &asking)?;
        let (mut script, is_stepped) = (body.in_session()?, tools.is_stepped());
        check_suspendable(&script, is_stepped)?;
        tools.to(&mut script, &patterns);
        let kept_bytes = if script.suspendable { held.bytes() } else { tools_bytes };
        script.key = begun.key().map(str::to_owned);
        let work = Work::InSession(IfMatch::of(&headers).target(id)?, Box::new(script));
        Ok(ParsedRequest { begun, patterns, work, is_stepped, kept_bytes, form: Form::of(&headers), held })
    });
    execute(shared, tenant, asked.await?).await
}

/// Checks a script with the parser of its language, without executing any of it.
///
/// If `check_types` is set, also checks the types of a Python script without syntax errors, with the request's `tools`.
#[utoipa::path(post, path = "/v1/validate", operation_id = "validate", tag = "scripts", security(("token" = [])), request_body = ExecuteBody,
    responses((status = 200, description = "The diagnostics.", body = ValidateAnswer), (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not carry out the request.", body = Problem)))]
pub(crate) async fn validate(Caller(tenant): Caller, read: ReadBody) -> Result<Json<ValidateAnswer>, Problem> {
    let asking = tenant.clone();
    let (fresh, _held) = read
        .parse_with(move |read| {
            let (mut body, held) = ExecuteBody::read(read)?;
            let (tools, patterns) = match body.check_types {
                Some(true) => Offered::of(&mut body, &asking)?,
                _ => Default::default(),
            };
            let mut fresh = body.fresh()?;
            tools.to(&mut fresh.script, &patterns);
            Ok((fresh, held))
        })
        .await?;
    Ok(Json(ValidateAnswer { diagnostics: tenant.validate(fresh).await? }))
}

struct ParsedRequest {
    begun: Begun,
    work: Work,
    /// `true` if the client answers tool calls, so the execution can be suspended.
    is_stepped: bool,
    /// The memory that stays charged while the execution is suspended, in bytes.
    kept_bytes: usize,
    patterns: Vec<String>,
    form: Form,
    held: HeldBytes,
}

/// The error message for requests with a key that accept a streamed response.
const KEY_WITH_STREAM: &str =
    "`Idempotency-Key` is not supported with streamed responses; remove it, or accept `application/json`";

/// Runs a script and responds in the format that the client accepts.
async fn execute(shared: Shared, tenant: Tenant, asked: ParsedRequest) -> Result<Response, Problem> {
    let ParsedRequest { begun, work, is_stepped, kept_bytes, patterns, form, held } = asked;
    let slot = match begun.into_slot() {
        Ok(slot) => slot,
        Err(answer) => return again(&shared, tenant.name(), answer).await,
    };
    if is_stepped {
        let detail = "`Idempotency-Key` is not supported with tools without a `callback`; remove it";
        return match slot {
            Some(_) => Err(Problem::invalid(detail)),
            None => step(shared, tenant, StepRequest::Start { work, patterns, kept_bytes }, form, held).await,
        };
    }
    match (form, slot) {
        (Form::Whole, None) => {
            let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
            let then = move |finished| serialize_execution(&bodies, &name, finished, &patterns);
            let made = tenant.execute_then(Door::Http, work, Watch::default(), then).await?;
            drop(held);
            whole(&shared, tenant.name(), made).await
        }
        (Form::Whole, Some(slot)) => {
            let name = tenant.name().to_owned();
            let (bodies, asking) = (shared.bodies.clone(), name.clone());
            let done = async move {
                let _held = held;
                let then = move |finished| Ok(serialize_execution(&bodies, &asking, finished, &patterns));
                let done = tenant.execute_then(Door::Http, work, Watch::default(), then).await;
                stored(slot, done)
            };
            whole(&shared, &name, in_task(done).await?).await
        }
        (Form::Events | Form::Lines, Some(_)) => Err(Problem::invalid(KEY_WITH_STREAM)),
        (Form::Events | Form::Lines, None) => {
            Ok(Pieces::answer(form, &shared.bodies, tenant.name().to_owned(), move |pieces| async move {
                let _held = held;
                let running = tenant.announce();
                pieces.started(&running.id).await;
                let watch = running.watch(&pieces);
                let framing = pieces.clone();
                let then = move |finished| execution_piece(&framing, finished, &patterns);
                let end = tenant.execute_then(Door::Http, work, watch, then).await;
                // The tenant's work is done, even if the client still reads the response.
                drop((running, tenant));
                pieces.end(end).await;
            }))
        }
    }
}

/// Stores the response to a request with a key. `done` is the error of a request that failed. Otherwise, it is the
/// response, or the reason why the response could not be built.
fn stored(slot: KeySlot, done: Result<Result<Whole, ServiceError>, ServiceError>) -> Result<Whole, ServiceError> {
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
    /// Streams the output of the execution, and cancels it by its ID.
    fn watch(&self, pieces: &Pieces) -> Watch {
        let (cancel, execution) = (Some(self.cancel.clone()), Some(self.id.clone()));
        Watch { on_output: Some(pieces.on_output()), cancel, execution }
    }
}

/// A step of an execution whose tool calls the client answers.
pub(super) enum StepRequest {
    Start { work: Work, patterns: Vec<String>, kept_bytes: usize },
    Resume { execution: String, answers: Vec<ToolAnswer> },
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
            let (body, held): (ContinueBody, HeldBytes) = read.json_or_default()?;
            Ok((body.answers()?, held))
        })
        .await?;
    step(shared, tenant, StepRequest::Resume { execution, answers }, Form::of(&headers), held).await
}

/// Cancels an execution: one that waits for answers to tool calls, or one with a streamed response.
///
/// The script first receives an exception. If another request is waiting for the execution, that request's response ends
/// with the result, whose outcome is `cancelled`.
#[utoipa::path(delete, path = "/v1/executions/{id}", operation_id = "cancel_execution", tag = "scripts", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 200, description = "Outcome of the script, which was waiting for answers. Its session is in the same state as after any cancelled execution.", body = ExecutionAnswer),
        (status = 204, description = "The execution is cancelled. The response of the request that is running it contains the result."),
        (status = 404, description = "The execution does not exist, or its result was delivered.", body = Problem),
        (status = 409, description = "Another request is suspending the execution. Nothing was cancelled.", body = Problem),
        (status = "4XX", description = "The request was refused.", body = Problem),
        (status = "5XX", description = "The server could not carry out the request.", body = Problem)))]
pub(crate) async fn cancel(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(execution): InPath<String>,
) -> Result<Response, Problem> {
    let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
    let then = move |ended| serialize_result(&bodies, &name, ended);
    match tenant.cancel_then(&execution, then).await? {
        Some(made) => whole(&shared, tenant.name(), made).await,
        None => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Performs a step and responds in the format that the client accepts.
pub(super) async fn step(
    shared: Shared,
    tenant: Tenant,
    asking: StepRequest,
    form: Form,
    held: HeldBytes,
) -> Result<Response, Problem> {
    let kept_bytes = asking.kept_bytes();
    if form == Form::Whole {
        let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
        let then = move |ended| serialize_result(&bodies, &name, ended);
        let stepped = asking.step(&tenant, Watch::default(), then).await?;
        release(&tenant, Some(&stepped), held, kept_bytes);
        let made = match stepped {
            Stepped::Done(made) => made,
            Stepped::NeedsTools(needs) => serialize_calls(&shared.bodies, tenant.name(), needs)?,
        };
        return whole(&shared, tenant.name(), made).await;
    }
    let bodies = shared.bodies.clone();
    Ok(Pieces::answer(form, &bodies, tenant.name().to_owned(), move |pieces| async move {
        let running = matches!(asking, StepRequest::Start { .. }).then(|| tenant.announce());
        let watch = match &running {
            Some(running) => {
                pieces.started(&running.id).await;
                running.watch(&pieces)
            }
            None => Watch { on_output: Some(pieces.on_output()), ..Watch::default() },
        };
        let framing = pieces.clone();
        let then = move |ended| result_piece(&framing, ended);
        let stepped = asking.step(&tenant, watch, then).await;
        drop(running);
        release(&tenant, stepped.as_ref().ok(), held, kept_bytes);
        pieces.end(stepped.and_then(|stepped| last(&pieces, stepped))).await;
    }))
}

/// Like [`step`], for a request with a key: stores the response, and completes the step even if the client disconnects.
pub(super) async fn step_with_key(
    shared: Shared,
    tenant: Tenant,
    asking: StepRequest,
    ResponseForKey { form, held, slot }: ResponseForKey,
) -> Result<Response, Problem> {
    if form != Form::Whole {
        return Err(Problem::invalid(KEY_WITH_STREAM));
    }
    let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
    let done = async move {
        let (kept_bytes, result_bodies, owner) = (asking.kept_bytes(), bodies.clone(), tenant.name().to_owned());
        let then = move |ended| Ok(serialize_result(&result_bodies, &owner, ended).map_err(ServiceError::from));
        let stepped = asking.step(&tenant, Watch::default(), then).await;
        release(&tenant, stepped.as_ref().ok(), held, kept_bytes);
        let done = stepped.map(|stepped| match stepped {
            Stepped::Done(made) => made,
            Stepped::NeedsTools(needs) => serialize_calls(&bodies, tenant.name(), needs),
        });
        stored(slot, done)
    };
    whole(&shared, &name, in_task(done).await?).await
}

/// The key of a request and the form of its response.
pub(super) struct ResponseForKey {
    pub(super) form: Form,
    pub(super) held: HeldBytes,
    pub(super) slot: KeySlot,
}

/// Releases the memory charged for a request. If its execution is suspended, `kept_bytes` remain charged until the
/// execution ends, because it keeps its tools.
fn release<T>(tenant: &Tenant, stepped: Option<&Stepped<T>>, mut held: HeldBytes, kept_bytes: usize) {
    if let Some(Stepped::NeedsTools(needs)) = stepped {
        held.shrink(kept_bytes);
        tenant.charge_suspended(&needs.execution, held);
    }
}

fn last(pieces: &Pieces, stepped: Stepped<Made>) -> Result<Made, ServiceError> {
    match stepped {
        Stepped::Done(piece) => Ok(piece),
        Stepped::NeedsTools(needs) => {
            let (answer, len, _reply_room) = NeedsToolsAnswer::new(needs);
            let room = pieces.bodies().reserve(pieces.tenant(), len)?;
            let json = serde_json::to_vec(&answer).map_err(|error| ServiceError::Invalid(error.to_string()))?;
            Ok(Made { bytes: pieces.framed("needs-tools", &json), room })
        }
    }
}

impl StepRequest {
    /// Returns the memory that stays charged while a new execution is suspended, in bytes.
    fn kept_bytes(&self) -> usize {
        match self {
            Self::Start { kept_bytes, .. } => *kept_bytes,
            Self::Resume { .. } => 0,
        }
    }

    async fn step<T: Send + 'static>(
        self,
        tenant: &Tenant,
        watch: Watch,
        then: impl FnOnce(Ended) -> Result<T, Undelivered> + Send + 'static,
    ) -> Result<Stepped<T>, ServiceError> {
        match self {
            Self::Start { work, patterns, .. } => tenant.start_then(Door::Http, work, patterns, watch, then).await,
            Self::Resume { execution, answers } => tenant.resume_then(&execution, answers, watch, then).await,
        }
    }
}
