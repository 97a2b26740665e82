//! Executing.

use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use glovebox::{Execution, SessionId};

use super::{
    Caller, InPath, Problem, ReadBody, Shared,
    budget::Held,
    idempotency::{Answer, Begun},
    output::{Form, Pieces},
    wire::{ExecuteBody, ExecutionAnswer, ValidateAnswer},
};
use crate::{Door, Fresh, Script, ServiceError, Tenant, Watch};

/// What is executed, and where.
enum What {
    Fresh(Box<Fresh>),
    InSession { id: SessionId, script: Box<Script>, expected: Option<String> },
}

/// Runs a script in a new interpreter with new files.
///
/// The script's output comes as it is written where `Accept` is `text/event-stream` or `application/x-ndjson`: pieces of `type` `stdout` and
/// `stderr` with `text`, then one of `type` `result` with the answer in `result`, or of `type` `error` with a `problem`.
#[utoipa::path(post, path = "/v1/execute", tag = "scripts", security(("token" = [])), request_body = ExecuteBody,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key and request again get the same answer, for ten minutes.")),
    responses((status = 200, description = "What the script did, whatever that was.", body = ExecutionAnswer),
        (status = "4XX", description = "The request cannot be carried out.", body = Problem),
        (status = "5XX", description = "It cannot be carried out now.", body = Problem)))]
pub(crate) async fn fresh(
    State(shared): State<Shared>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (known, name) = (shared.clone(), tenant.name().to_owned());
    let asked = read.aside(move |read| {
        let begun = known.answered.begin(&name, &headers, &[b"execute", &read.bytes])?;
        let (mut body, held): (ExecuteBody, Held) = read.json()?;
        let patterns = body.returned()?;
        Ok(Asked { begun, patterns, what: What::Fresh(Box::new(body.fresh()?)), form: Form::of(&headers), held })
    });
    execute(shared, tenant, asked.await?).await
}

/// Runs a script in a session. What is asked of a session at once is done one after another.
#[utoipa::path(post, path = "/v1/sessions/{id}/execute", tag = "sessions", security(("token" = [])), request_body = ExecuteBody,
    params(("id" = String, Path), ("Idempotency-Key" = Option<String>, Header),
        ("If-Match" = Option<String>, Header, description = "The generation that the session must have: its `ETag`.")),
    responses((status = 200, description = "What the script did. The session is saved.", body = ExecutionAnswer),
        (status = 412, description = "The session has another generation. Nothing was run.", body = Problem),
        (status = "4XX", description = "The request cannot be carried out.", body = Problem),
        (status = "5XX", description = "It cannot be carried out now.", body = Problem)))]
pub(crate) async fn in_session(
    State(shared): State<Shared>,
    Caller(tenant): Caller,
    InPath(id): InPath<String>,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (known, name) = (shared.clone(), tenant.name().to_owned());
    let asked = read.aside(move |read| {
        let begun = known.answered.begin(&name, &headers, &[b"session", id.as_bytes(), &read.bytes])?;
        let (mut body, held): (ExecuteBody, Held) = read.json()?;
        let patterns = body.returned()?;
        let script = Box::new(body.in_session()?);
        let what = What::InSession { id: session_id(id)?, script, expected: expected(&headers) };
        Ok(Asked { begun, patterns, what, form: Form::of(&headers), held })
    });
    execute(shared, tenant, asked.await?).await
}

/// The generation that a session must have, if one is named.
fn expected(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::IF_MATCH)?.to_str().unwrap_or_default().trim();
    (text != "*").then(|| text.trim_matches('"').to_owned())
}

/// What the language's own parser says about a source. Nothing of it is executed.
#[utoipa::path(post, path = "/v1/validate", tag = "scripts", security(("token" = [])), request_body = ExecuteBody,
    responses((status = 200, body = ValidateAnswer), (status = "4XX", description = "The request cannot be carried out.", body = Problem),
        (status = "5XX", description = "It cannot be carried out now.", body = Problem)))]
pub(crate) async fn validate(Caller(tenant): Caller, read: ReadBody) -> Result<Json<ValidateAnswer>, Problem> {
    let (fresh, _held) = read
        .aside(|read| {
            let (body, held): (ExecuteBody, Held) = read.json()?;
            Ok((body.fresh()?, held))
        })
        .await?;
    Ok(Json(ValidateAnswer { diagnostics: tenant.validate(fresh).await? }))
}

/// A session's name, from a path.
pub(crate) fn session_id(id: String) -> Result<SessionId, Problem> {
    SessionId::new(id).map_err(|error| ServiceError::from(error).into())
}

/// A request that was read.
struct Asked {
    begun: Begun,
    what: What,
    patterns: Vec<String>,
    form: Form,
    held: Held,
}

/// Carries it out, in the form that the client wants.
async fn execute(shared: Shared, tenant: Tenant, asked: Asked) -> Result<Response, Problem> {
    let Asked { begun, what, patterns, form, held } = asked;
    let slot = match begun {
        Begun::Again(answer) => return whole(&shared, answer.body, answer.etag).await,
        Begun::Unkeyed => None,
        Begun::First(slot) => Some(slot),
    };
    match (form, slot) {
        (Form::Whole, None) => {
            let done = carry_out(&tenant, what, Watch::default(), move |execution| bytes(execution, &patterns)).await?;
            drop(held);
            whole(&shared, done.0, done.1).await
        }
        (Form::Whole, Some(slot)) => {
            // It goes on even if the client has gone: whoever asks again is to find the answer.
            let task = tokio::spawn(async move {
                let _held = held;
                let made = move |execution| Ok(bytes(execution, &patterns));
                match carry_out(&tenant, what, Watch::default(), made).await {
                    Ok((Ok(body), etag)) => {
                        slot.done(Answer { body: body.clone(), etag: etag.clone() });
                        Ok((body, etag))
                    }
                    // It was run, and is not to be run again for want of an answer.
                    Ok((Err(error), _)) => {
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
            });
            let (bytes, etag) = task.await.map_err(|_| ServiceError::Panicked)??;
            whole(&shared, bytes, etag).await
        }
        (Form::Events | Form::Lines, Some(_)) => Err(Problem::invalid(
            "an answer in pieces cannot be given twice; leave `Idempotency-Key` out, or accept `application/json`",
        )),
        (Form::Events | Form::Lines, None) => Ok(Pieces::answer(form, move |pieces| async move {
            let _held = held;
            let watch = Watch { on_output: Some(pieces.on_output()), ..Watch::default() };
            let framing = pieces.clone();
            let end =
                carry_out(&tenant, what, watch, move |execution| result_piece(&framing, execution, &patterns)).await;
            pieces.end(&shared.bodies, end.map(|(piece, _)| piece)).await;
        })),
    }
}

async fn carry_out<T: Send + 'static>(
    tenant: &Tenant,
    what: What,
    watch: Watch,
    then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
) -> Result<(T, Option<String>), ServiceError> {
    match what {
        What::Fresh(fresh) => Ok((tenant.execute_then(Door::Http, *fresh, watch, then).await?, None)),
        What::InSession { id, script, expected } => {
            let then = move |execution, generation| Ok((then(execution)?, generation));
            tenant.execute_in_then(Door::Http, &id, *script, expected.as_deref(), watch, then).await
        }
    }
}

/// The answer, as JSON.
fn bytes(execution: Execution, patterns: &[String]) -> Result<Bytes, ServiceError> {
    let answer = ExecutionAnswer::new(execution, patterns)?;
    serde_json::to_vec(&answer).map(Bytes::from).map_err(|error| ServiceError::Invalid(error.to_string()))
}

/// The same, as the last of several pieces.
fn result_piece(pieces: &Pieces, execution: Execution, patterns: &[String]) -> Result<Bytes, ServiceError> {
    let answer = bytes(execution, patterns)?;
    let mut json = Vec::with_capacity(answer.len() + 32);
    json.extend_from_slice(br#"{"type":"result","result":"#);
    json.extend_from_slice(&answer);
    json.push(b'}');
    Ok(pieces.framed("result", &json))
}

async fn whole(shared: &Shared, bytes: Bytes, etag: Option<String>) -> Result<Response, Problem> {
    let body = shared.bodies.answer(bytes).await?;
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    if let Some(etag) = etag.and_then(|etag| format!("\"{etag}\"").parse().ok()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}
