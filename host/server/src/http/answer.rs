//! Responses with the outcome of an execution.

use axum::{
    Extension,
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use glovebox::Execution;

use super::{
    BodyBudget, Problem, Shared,
    budget::{Made, held_body},
    counted::Counted,
    if_match::with_etag,
    output::Pieces,
    tools::NeedsToolsAnswer,
    wire::ExecutionAnswer,
};
use crate::{NeedsTools, ServiceError, json_cost::json_len};

/// Serializes an execution between two texts. Reserves room for the answer before it reads files and builds the JSON.
fn framed(
    bodies: &BodyBudget,
    tenant: &str,
    execution: Execution,
    patterns: &[String],
    [before, after]: [&str; 2],
) -> Result<Made, ServiceError> {
    let invalid = |error: serde_json::Error| ServiceError::Invalid(error.to_string());
    let mut answer = ExecutionAnswer::new(execution, patterns)?;
    let len = before.len() + json_len(&answer).map_err(invalid)? + answer.files_len() + after.len();
    let room = bodies.reserve(tenant, len)?;
    answer.read_files()?;
    let mut json = Vec::with_capacity(len);
    json.extend_from_slice(before.as_bytes());
    serde_json::to_writer(&mut json, &answer).map_err(invalid)?;
    json.extend_from_slice(after.as_bytes());
    Ok(Made { bytes: json.into(), room })
}

/// Serializes an execution as JSON.
pub(super) fn made(
    bodies: &BodyBudget,
    tenant: &str,
    execution: Execution,
    patterns: &[String],
) -> Result<Made, ServiceError> {
    framed(bodies, tenant, execution, patterns, [""; 2])
}

/// Serializes an execution as the last piece of a streamed response.
pub(super) fn result_piece(pieces: &Pieces, execution: Execution, patterns: &[String]) -> Result<Made, ServiceError> {
    let [before, after] = pieces.frame("result");
    let (before, after) = (format!(r#"{before}{{"type":"result","result":"#), format!("}}{after}"));
    framed(pieces.bodies(), pieces.tenant(), execution, patterns, [&before, &after])
}

pub(super) async fn whole(
    shared: &Shared,
    tenant: &str,
    Made { bytes, room }: Made,
    etag: Option<String>,
) -> Result<Response, Problem> {
    let held = shared.bodies.settle(tenant, room, bytes.len()).await?;
    Ok(json(held_body(bytes, held), etag))
}

/// Responds with an answer that is already in memory.
pub(super) async fn again(
    shared: &Shared,
    tenant: &str,
    bytes: Bytes,
    etag: Option<String>,
) -> Result<Response, Problem> {
    Ok(json(shared.bodies.answer(tenant, bytes).await?, etag))
}

fn json(body: Body, etag: Option<String>) -> Response {
    with_etag(etag, (Extension(Counted), [(header::CONTENT_TYPE, "application/json")], body))
}

/// Responds with the pending calls of a suspended execution.
pub(super) async fn needs_tools(shared: &Shared, tenant: &str, needs: NeedsTools) -> Result<Response, Problem> {
    let (answer, bytes) = NeedsToolsAnswer::new(needs);
    let held = shared.bodies.room(tenant, bytes).await?;
    let json = serde_json::to_vec(&answer).map_err(|error| ServiceError::Invalid(error.to_string()))?;
    let json_type = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::ACCEPTED, Extension(Counted), json_type, held_body(json.into(), held)).into_response())
}
