//! Executing.

use axum::{
    Json,
    body::{Body, Bytes},
    extract::{Path, State},
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use glovebox::{Execution, SessionId};

use super::{
    Caller, Problem, Shared,
    body::Held,
    idempotency::{Answer, Begun},
    output::{Form, Pieces},
    wire::{ExecuteBody, ExecutionAnswer, ValidateAnswer},
};
use crate::{Door, Fresh, Script, ServiceError, Tenant, Watch, generation};

/// The most patterns of files to give back.
const MAX_PATTERNS: usize = 64;

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
    body: Body,
) -> Result<Response, Problem> {
    let read = shared.bodies.read(&headers, body).await?;
    let begun = shared.answered.begin(tenant.name(), &headers, &[b"execute", &read.bytes])?;
    let (mut body, held): (ExecuteBody, Held) = read.json()?;
    let patterns = patterns(&mut body)?;
    let what = What::Fresh(Box::new(body.fresh()?));
    execute(shared, tenant, &headers, begun, what, patterns, held).await
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
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let read = shared.bodies.read(&headers, body).await?;
    let begun = shared.answered.begin(tenant.name(), &headers, &[b"session", id.as_bytes(), &read.bytes])?;
    let (mut body, held): (ExecuteBody, Held) = read.json()?;
    let patterns = patterns(&mut body)?;
    let expected = headers.get(header::IF_MATCH).map(|value| {
        let text = value.to_str().unwrap_or_default().trim();
        text.strip_prefix("W/").unwrap_or(text).trim_matches('"').to_owned()
    });
    let script = Box::new(body.in_session()?);
    let what = What::InSession { id: session_id(id)?, script, expected: expected.filter(|expected| expected != "*") };
    execute(shared, tenant, &headers, begun, what, patterns, held).await
}

/// What the language's own parser says about a source. Nothing of it is executed.
#[utoipa::path(post, path = "/v1/validate", tag = "scripts", security(("token" = [])), request_body = ExecuteBody,
    responses((status = 200, body = ValidateAnswer), (status = "4XX", description = "The request cannot be carried out.", body = Problem),
        (status = "5XX", description = "It cannot be carried out now.", body = Problem)))]
pub(crate) async fn validate(
    State(shared): State<Shared>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ValidateAnswer>, Problem> {
    let (body, _held): (ExecuteBody, Held) = shared.bodies.read(&headers, body).await?.json()?;
    Ok(Json(ValidateAnswer { diagnostics: tenant.validate(body.fresh()?).await? }))
}

/// A session's name, from a path.
pub(crate) fn session_id(id: String) -> Result<SessionId, Problem> {
    SessionId::new(id).map_err(|error| ServiceError::from(error).into())
}

fn patterns(body: &mut ExecuteBody) -> Result<Vec<String>, Problem> {
    let patterns = body.returned();
    match patterns.len() {
        0..=MAX_PATTERNS => Ok(patterns),
        many => Err(Problem::invalid(format!("`return_files` has {many} patterns; at most {MAX_PATTERNS} are taken"))),
    }
}

/// Carries it out, in the form that the client wants.
async fn execute(
    shared: Shared,
    tenant: Tenant,
    headers: &HeaderMap,
    begun: Begun,
    what: What,
    patterns: Vec<String>,
    held: Held,
) -> Result<Response, Problem> {
    let slot = match begun {
        Begun::Again(answer) => return whole(&shared, answer.body.to_vec(), answer.etag).await,
        Begun::Unkeyed => None,
        Begun::First(slot) => Some(slot),
    };
    let form = Form::of(headers);
    match (form, slot) {
        (Form::Whole, None) => {
            let (bytes, etag) =
                carry_out(&tenant, what, Watch::default(), move |execution| bytes(execution, &patterns)).await?;
            drop(held);
            whole(&shared, bytes, etag).await
        }
        (Form::Whole, Some(slot)) => {
            // It goes on even if the client has gone: whoever asks again is to find the answer.
            let task = tokio::spawn(async move {
                let _held = held;
                let carried =
                    carry_out(&tenant, what, Watch::default(), move |execution| bytes(execution, &patterns)).await;
                let (body, etag) = carried?;
                slot.done(Answer { body: body.as_slice().into(), etag: etag.clone() });
                Ok::<_, ServiceError>((body, etag))
            });
            let (bytes, etag) = task.await.map_err(|_| ServiceError::Panicked)??;
            whole(&shared, bytes, etag).await
        }
        (Form::Events | Form::Lines, Some(_)) => Err(Problem::invalid(
            "an answer in pieces cannot be given twice; leave `Idempotency-Key` out, or accept `application/json`",
        )),
        (Form::Events | Form::Lines, None) => Ok(Pieces::answer(form, move |pieces| async move {
            let _held = held;
            let watch = Watch { on_output: Some(pieces.on_output()) };
            let framing = pieces.clone();
            let end =
                carry_out(&tenant, what, watch, move |execution| result_piece(&framing, execution, &patterns)).await;
            pieces.end(end.map(|(piece, _)| piece)).await;
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
            let done = tenant.execute_in_then(Door::Http, &id, *script, expected.as_deref(), watch, then).await?;
            // A session that ended with its script has none.
            let record = tenant.session(&id).await.ok();
            Ok((done, record.as_ref().map(generation)))
        }
    }
}

/// The answer, as JSON.
fn bytes(execution: Execution, patterns: &[String]) -> Result<Vec<u8>, ServiceError> {
    let answer = ExecutionAnswer::new(execution, patterns)?;
    serde_json::to_vec(&answer).map_err(|error| ServiceError::Invalid(error.to_string()))
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

async fn whole(shared: &Shared, bytes: Vec<u8>, etag: Option<String>) -> Result<Response, Problem> {
    let body = shared.bodies.answer(bytes).await?;
    let mut response = ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    if let Some(etag) = etag.and_then(|etag| format!("\"{etag}\"").parse().ok()) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}
