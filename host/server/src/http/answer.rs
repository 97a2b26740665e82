//! What an execution did, as it is answered.

use axum::{
    Extension,
    body::Bytes,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use glovebox::Execution;

use super::{
    Problem, Shared, budget::held_body, counted::Counted, if_match::with_etag, output::Pieces, tools::NeedsToolsAnswer,
    wire::ExecutionAnswer,
};
use crate::{NeedsTools, ServiceError};

/// The answer, as JSON.
pub(super) fn bytes(execution: Execution, patterns: &[String]) -> Result<Bytes, ServiceError> {
    let answer = ExecutionAnswer::new(execution, patterns)?;
    serde_json::to_vec(&answer).map(Bytes::from).map_err(|error| ServiceError::Invalid(error.to_string()))
}

/// The same, as the last of several pieces.
pub(super) fn result_piece(pieces: &Pieces, execution: Execution, patterns: &[String]) -> Result<Bytes, ServiceError> {
    let answer = bytes(execution, patterns)?;
    let mut json = Vec::with_capacity(answer.len() + 32);
    json.extend_from_slice(br#"{"type":"result","result":"#);
    json.extend_from_slice(&answer);
    json.push(b'}');
    Ok(pieces.framed("result", &json))
}

pub(super) async fn whole(
    shared: &Shared,
    tenant: &str,
    bytes: Bytes,
    etag: Option<String>,
) -> Result<Response, Problem> {
    let body = shared.bodies.answer(tenant, bytes).await?;
    Ok(with_etag(etag, (Extension(Counted), [(header::CONTENT_TYPE, "application/json")], body)))
}

/// The answer of an execution that waits for its tools.
pub(super) async fn needs_tools(shared: &Shared, tenant: &str, needs: NeedsTools) -> Result<Response, Problem> {
    let (answer, bytes) = NeedsToolsAnswer::new(needs);
    let held = shared.bodies.room(tenant, bytes).await?;
    let json = serde_json::to_vec(&answer).map_err(|error| ServiceError::Invalid(error.to_string()))?;
    let json_type = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::ACCEPTED, Extension(Counted), json_type, held_body(json.into(), held)).into_response())
}
