//! Routes for sessions, their variables and files.

use axum::{
    Extension, Json,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use glovebox::{CheckpointId, IfExists, JsonText, ListLimits};
use glovebox_sessions::{PageRequest, SessionId};
use serde::Deserialize;
use serde_json::{Map, value::RawValue};
use tracing::Instrument as _;

use super::{
    Caller, InPath, InQuery, Problem, ReadBody, Shared,
    answer::MAX_RETURNED_BYTES,
    budget::{AlreadyCharged, ReservedResponse, charged_body},
    parameters::{Failures, IfMatch, InSession, Octets, changed_response, with_etag},
    wire::{
        CheckpointAnswer, CheckpointsAnswer, FilesAnswer, ForkBody, HibernateAnswer, MAX_LISTED, MAX_LISTED_BYTES,
        OpenBody, UndoBody, VariableAnswer, json_text,
    },
};
use crate::{
    ChangeResult, ServiceError, SessionPage, SessionSummary, SessionTarget, Tenant, byte_budget::Room,
    executor::FileOperation,
};

/// Responds with a session's description. `ETag` contains its generation.
fn session_response(status: StatusCode, session: SessionSummary) -> Response {
    with_etag(Some(session.generation.clone()), (status, Json(session)))
}

/// The query parameters of the session list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Name to start after: `next` of the previous page. Default: start with the first session.
    #[param(value_type = Option<String>)]
    after: Option<SessionId>,
    /// Maximum number of sessions. Default: 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Lists the sessions of this token, ordered by name.
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions", tag = "sessions", security(("token" = [])),
    params(ListQuery), responses((status = 200, description = "A page of sessions.", body = SessionPage), Failures))]
pub(crate) async fn list(
    Caller(tenant): Caller,
    InQuery(ListQuery { after, limit }): InQuery<ListQuery>,
) -> Result<Json<SessionPage>, Problem> {
    let page = PageRequest::new(limit.unwrap_or(PageRequest::MAX_LIMIT));
    let page = page.map_err(|error| Problem::invalid(error.to_string()))?.after(after);
    Ok(Json(tenant.list_page(page).await?))
}

/// Opens a session: an interpreter that persists between executions, and is saved after each.
///
/// With `state`, resumes an exported session.
#[utoipa::path(post, path = "/v1/sessions", operation_id = "open_session", tag = "sessions", security(("token" = [])), request_body = OpenBody,
    responses((status = 201, description = "The session.", body = SessionSummary), (status = 409, description = "A session with this name exists.", body = Problem), Failures))]
pub(crate) async fn open(Caller(tenant): Caller, read: ReadBody) -> Result<Response, Problem> {
    let (mut body, context, policy, state, held) = read
        .parse_with(|read| {
            let (mut body, held) = OpenBody::read(read)?;
            let (policy, state) = (body.policy()?, body.state()?);
            let context = body.context.take().map(json_text).transpose()?;
            Ok((body, context, policy, state, held))
        })
        .await?;
    let id = body.id.take();
    if let Some(state) = state {
        let id = id.unwrap_or_else(SessionId::random);
        return Ok(session_response(StatusCode::CREATED, tenant.import(id, state, policy, held).await?));
    }
    let files = body.files();
    let (language, runtime) = (body.language, body.runtime);
    if files.is_empty() {
        let session = tenant.open(id, language, runtime.as_deref(), context, policy, held).await?;
        return Ok(session_response(StatusCode::CREATED, session));
    }
    // A client must not find a session without its files. The separate task writes the files even if the client
    // disconnects.
    let opened = async move {
        let session = tenant.open(id, language, runtime.as_deref(), context, policy, ()).await?;
        if let Err(error) = tenant.write_files(&session.id, files, IfExists::Replace, held).await {
            let _ = tenant.remove(&session.id).await;
            return Err(error);
        }
        tenant.session(&session.id).await
    };
    let session = tokio::spawn(opened.in_current_span()).await.map_err(|_| ServiceError::Panicked)??;
    Ok(session_response(StatusCode::CREATED, session))
}

/// Describes a session.
#[utoipa::path(get, path = "/v1/sessions/{id}", operation_id = "get_session", tag = "sessions", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 200, description = "The session. `ETag` contains its generation.", body = SessionSummary), Failures))]
pub(crate) async fn describe(Caller(tenant): Caller, InPath(id): InPath<SessionId>) -> Result<Response, Problem> {
    Ok(session_response(StatusCode::OK, tenant.session(&id).await?))
}

/// Closes a session and removes it. Its exit handlers run, within the limits of one execution.
#[utoipa::path(delete, path = "/v1/sessions/{id}", operation_id = "close_session", tag = "sessions", security(("token" = [])), params(("id" = String, Path), IfMatch),
    responses((status = 204, description = "The session was removed."), Failures))]
pub(crate) async fn close(Caller(tenant): Caller, target: SessionTarget) -> Result<StatusCode, Problem> {
    tenant.close(target).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Imports a session under this name, from the bytes of `GET /v1/sessions/{id}/state` of this server or another.
///
/// The first use of the session checks that the bytes match the image and the policy.
#[utoipa::path(put, path = "/v1/sessions/{id}", operation_id = "import_session", tag = "sessions", security(("token" = [])), params(("id" = String, Path)),
    request_body(content_type = "application/octet-stream", content = inline(Octets)),
    responses((status = 201, description = "The session.", body = SessionSummary), (status = 409, description = "A session with this name exists, or the bytes are not a session.", body = Problem), Failures))]
pub(crate) async fn resume(
    Caller(tenant): Caller,
    InPath(id): InPath<SessionId>,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (bytes, held) = read.into_parts();
    Ok(session_response(StatusCode::CREATED, tenant.import(id, bytes, Map::new(), held).await?))
}

/// Exports a session as bytes. They contain everything that its scripts hold in memory, including code that runs when
/// the imported session is used.
#[utoipa::path(get, path = "/v1/sessions/{id}/state", operation_id = "export_session", tag = "sessions", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 200, description = "The session's bytes.", content_type = "application/octet-stream", body = inline(Octets)), Failures))]
pub(crate) async fn state(
    shared: Shared,
    Caller(tenant): Caller,
    InPath(id): InPath<SessionId>,
) -> Result<Response, Problem> {
    let len = usize::try_from(tenant.exported_bytes(&id).await?).unwrap_or(usize::MAX);
    let room = shared.bodies.reserve(tenant.name(), len)?;
    let (bytes, room) = tenant.export(&id, room).await?;
    octets(&shared, tenant.name(), ReservedResponse { bytes: bytes.into(), room }).await
}

/// Forks a session: copies its variables, functions and files to a new session.
#[utoipa::path(post, path = "/v1/sessions/{id}/fork", operation_id = "fork_session", tag = "sessions", security(("token" = [])), params(("id" = String, Path), IfMatch), request_body = ForkBody,
    responses((status = 201, description = "The new session.", body = SessionSummary), Failures))]
pub(crate) async fn fork(Caller(tenant): Caller, target: SessionTarget, read: ReadBody) -> Result<Response, Problem> {
    let (body, _held) = read.json_or_default::<ForkBody>()?;
    Ok(session_response(StatusCode::CREATED, tenant.fork(target, body.id).await?))
}

/// Rolls a session back to a checkpoint: by default, the last one that differs from its current state. Removes later
/// checkpoints.
#[utoipa::path(post, path = "/v1/sessions/{id}/undo", operation_id = "undo_session", tag = "sessions", security(("token" = [])), params(("id" = String, Path), IfMatch), request_body = UndoBody,
    responses((status = 200, description = "The checkpoint that the session was rolled back to.", body = CheckpointAnswer),
        (status = 409, description = "The checkpoint does not exist.", body = Problem), Failures))]
pub(crate) async fn undo(Caller(tenant): Caller, target: SessionTarget, read: ReadBody) -> Result<Response, Problem> {
    let (body, _held) = read.json_or_default::<UndoBody>()?;
    let undone = tenant.undo(target, body.checkpoint.map(CheckpointId)).await?;
    let ChangeResult { value: CheckpointId(checkpoint), generation } = undone;
    Ok(with_etag(generation, Json(CheckpointAnswer { checkpoint })))
}

/// Creates a checkpoint of a session, for a later rollback. Checkpoints are in memory: hibernating a session drops
/// them.
#[utoipa::path(post, path = "/v1/sessions/{id}/checkpoint", operation_id = "create_checkpoint", tag = "sessions", security(("token" = [])), params(("id" = String, Path), IfMatch),
    responses((status = 200, description = "The checkpoint.", body = CheckpointAnswer), Failures))]
pub(crate) async fn checkpoint(Caller(tenant): Caller, target: SessionTarget) -> Result<Response, Problem> {
    let ChangeResult { value: CheckpointId(checkpoint), generation } = tenant.checkpoint(target).await?;
    Ok(with_etag(generation, Json(CheckpointAnswer { checkpoint })))
}

/// Lists the checkpoints of a session.
#[utoipa::path(get, path = "/v1/sessions/{id}/checkpoints", operation_id = "list_checkpoints", tag = "sessions", security(("token" = [])), params(("id" = String, Path)),
    responses((status = 200, description = "The checkpoints, oldest first.", body = CheckpointsAnswer), Failures))]
pub(crate) async fn checkpoints(
    Caller(tenant): Caller,
    InPath(id): InPath<SessionId>,
) -> Result<Json<CheckpointsAnswer>, Problem> {
    Ok(Json(CheckpointsAnswer { checkpoints: tenant.checkpoints(&id).await? }))
}

/// Saves a session to the store and evicts it from memory. The next request resumes the session.
#[utoipa::path(post, path = "/v1/sessions/{id}/hibernate", operation_id = "hibernate_session", tag = "sessions", security(("token" = [])), params(("id" = String, Path), IfMatch),
    responses((status = 200, description = "`was_live` is `true` if the session was in memory.", body = HibernateAnswer), Failures))]
pub(crate) async fn hibernate(Caller(tenant): Caller, target: SessionTarget) -> Result<Response, Problem> {
    let ChangeResult { value: was_live, generation } = tenant.hibernate(target).await?;
    Ok(with_etag(generation, Json(HibernateAnswer { was_live })))
}

/// Returns a global variable.
#[utoipa::path(get, path = "/v1/sessions/{id}/variables/{name}", operation_id = "get_variable", tag = "sessions", security(("token" = [])),
    params(("id" = String, Path), ("name" = String, Path)),
    responses((status = 200, description = "The variable's value.", body = VariableAnswer), (status = 404, description = "The session or the variable does not exist.", body = Problem), Failures))]
pub(crate) async fn get_variable(
    Caller(tenant): Caller,
    InPath((id, name)): InPath<(SessionId, String)>,
) -> Result<Json<VariableAnswer>, Problem> {
    let value = tenant.get_variable(&id, name.clone()).await?;
    let value = value.ok_or_else(|| {
        let detail = format!("the session has no variable `{}`; set it first", glovebox::escaped(&name));
        Problem::new(StatusCode::NOT_FOUND, "no-variable", detail)
    })?;
    Ok(Json(VariableAnswer { repr: value.repr, value: value.json.and_then(|json| RawValue::from_string(json).ok()) }))
}

/// Sets a global variable to the JSON in the body.
#[utoipa::path(put, path = "/v1/sessions/{id}/variables/{name}", operation_id = "set_variable", tag = "sessions", security(("token" = [])), request_body = serde_json::Value,
    params(("id" = String, Path), ("name" = String, Path), IfMatch),
    responses((status = 204, description = "The variable is set."), Failures))]
pub(crate) async fn set_variable(
    Caller(tenant): Caller,
    InSession(target, name): InSession,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (json, held) = read
        .parse_with(|read| {
            let (bytes, held) = read.into_parts();
            let text = String::from_utf8(bytes)
                .map_err(|_| Problem::invalid("the request body is not UTF-8; send JSON in UTF-8"))?;
            Ok((JsonText::new(text).map_err(Problem::invalid_body)?, held))
        })
        .await?;
    Ok(changed_response(tenant.set_variable(target, name, json, held).await?.generation))
}

/// The query parameters of the file list.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FilesQuery {
    /// Pattern such as `*.csv` or `out/**`. Default: all files.
    pattern: Option<String>,
    /// Maximum number of files, 1 to 10,000. Default: 10,000. A page may have fewer files if paths are long.
    limit: Option<usize>,
    /// `next` of the previous page. Default: start with the first file.
    cursor: Option<String>,
}

/// Lists the files of a session.
#[utoipa::path(get, path = "/v1/sessions/{id}/files", operation_id = "list_files", tag = "files", security(("token" = [])), params(("id" = String, Path), FilesQuery),
    responses((status = 200, description = "The files.", body = FilesAnswer), Failures))]
pub(crate) async fn list_files(
    Caller(tenant): Caller,
    InPath(id): InPath<SessionId>,
    InQuery(query): InQuery<FilesQuery>,
) -> Result<Json<FilesAnswer>, Problem> {
    let pattern = query.pattern.unwrap_or_else(|| "**".to_owned());
    let limit = query.limit.unwrap_or(MAX_LISTED);
    if !(1..=MAX_LISTED).contains(&limit) {
        return Err(Problem::invalid(format!("`limit` is {limit}; it must be between 1 and {MAX_LISTED}")));
    }
    let limits = ListLimits { entries: limit, path_bytes: MAX_LISTED_BYTES };
    Ok(Json(FilesAnswer::new(tenant.list_files(&id, pattern, query.cursor, limits).await?)))
}

/// Returns a file from a session, or a range of its bytes.
#[utoipa::path(get, path = "/v1/sessions/{id}/files/{path}", operation_id = "read_file", tag = "files", security(("token" = [])),
    params(("id" = String, Path), ("path" = String, Path, description = "Path relative to the workspace, with unescaped slashes."),
        ("Range" = Option<String>, Header, description = "`bytes=FIRST-LAST` or `bytes=FIRST-`. The response contains at most 8 MiB of the range. Other forms are ignored.")),
    responses((status = 200, description = "The file's bytes.", content_type = "application/octet-stream", body = inline(Octets)),
        (status = 206, description = "The bytes that `Content-Range` names.", content_type = "application/octet-stream", body = inline(Octets)),
        (status = 416, description = "The file has no bytes in this range.", body = Problem), Failures))]
pub(crate) async fn read_file(
    shared: Shared,
    Caller(tenant): Caller,
    InPath((id, path)): InPath<(SessionId, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Some(range) = ByteRange::of(&headers) {
        return read_range(&shared, &tenant, &id, path, range).await;
    }
    let response = read_with_room(&shared, &tenant, &id, path).await?;
    octets(&shared, tenant.name(), response).await
}

/// Maximum length of the range in a response, in bytes.
const MAX_RANGE_BYTES: u64 = 8 << 20;

/// A range of a file's bytes, from `Range`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRange {
    offset: u64,
    length: u64,
}

impl ByteRange {
    /// Parses `bytes=FIRST-LAST` or `bytes=FIRST-`, and shortens the range to `MAX_RANGE_BYTES`. Returns `None` for
    /// other forms, which a server may ignore.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let (first, last) = headers.get(header::RANGE)?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
        let offset: u64 = first.parse().ok()?;
        let last = if last.is_empty() { u64::MAX } else { last.parse().ok()? };
        let length = last.checked_sub(offset)?.saturating_add(1).min(MAX_RANGE_BYTES);
        Some(Self { offset, length })
    }
}

async fn read_range(
    shared: &Shared,
    tenant: &Tenant,
    id: &SessionId,
    path: String,
    ByteRange { offset, length }: ByteRange,
) -> Result<Response, Problem> {
    let reserve = reserve_contents(shared, tenant);
    let (bytes, size_bytes, room) = tenant.read_range(id, path, offset, length, reserve).await?;
    let Some(last) = u64::try_from(bytes.len()).ok().and_then(|len| len.checked_sub(1)) else {
        let detail =
            format!("the range starts at or after the end of the file ({size_bytes} bytes); request an earlier range");
        return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "range", detail));
    };
    let range = format!("bytes {offset}-{}/{size_bytes}", offset.saturating_add(last));
    let mut response = octets(shared, tenant.name(), ReservedResponse { bytes: bytes.into(), room }).await?;
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    if let Ok(range) = HeaderValue::from_str(&range) {
        response.headers_mut().insert(header::CONTENT_RANGE, range);
    }
    Ok(response)
}

/// Returns a callback that reserves memory for the contents of a file.
fn reserve_contents(shared: &Shared, tenant: &Tenant) -> impl FnOnce(u64) -> Result<Room, ServiceError> + use<> {
    let (bodies, name) = (shared.bodies.clone(), tenant.name().to_owned());
    move |bytes| bodies.reserve(&name, usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Reads a file after reserving memory for its contents.
pub(super) async fn read_with_room(
    shared: &Shared,
    tenant: &Tenant,
    id: &SessionId,
    path: String,
) -> Result<ReservedResponse, ServiceError> {
    let reserve = reserve_contents(shared, tenant);
    let read = tenant.read_file(id, path, MAX_RETURNED_BYTES, reserve).await?;
    let (bytes, room) = read.map_err(|bytes| ServiceError::FileTooLarge { bytes, max: MAX_RETURNED_BYTES })?;
    Ok(ReservedResponse { bytes: bytes.into(), room })
}

/// Writes a file to a session, replacing an existing file.
#[utoipa::path(put, path = "/v1/sessions/{id}/files/{path}", operation_id = "write_file", tag = "files", security(("token" = [])),
    request_body(content_type = "application/octet-stream", content = inline(Octets)), params(("id" = String, Path), ("path" = String, Path), IfMatch),
    responses((status = 204, description = "The file is written and the session saved."), Failures))]
pub(crate) async fn write_file(
    Caller(tenant): Caller,
    InSession(target, path): InSession,
    read: ReadBody,
) -> Result<Response, Problem> {
    let (bytes, held) = read.into_parts();
    let written = tenant.write_files(target, vec![(path, bytes)], IfExists::Replace, held).await?;
    Ok(changed_response(written.generation))
}

/// The query parameters of a deletion.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeleteQuery {
    /// Deletes a directory with everything below it. Default: `false`.
    #[serde(default)]
    recursive: bool,
}

/// Deletes a file or an empty directory in a session.
#[utoipa::path(delete, path = "/v1/sessions/{id}/files/{path}", operation_id = "delete_file", tag = "files", security(("token" = [])),
    params(("id" = String, Path), ("path" = String, Path), DeleteQuery, IfMatch),
    responses((status = 204, description = "The file is deleted and the session saved."), Failures))]
pub(crate) async fn delete_file(
    Caller(tenant): Caller,
    InSession(target, path): InSession,
    InQuery(DeleteQuery { recursive }): InQuery<DeleteQuery>,
) -> Result<Response, Problem> {
    let delete = FileOperation::Delete { path, recursive };
    Ok(changed_response(tenant.change_files(target, delete).await?.generation))
}

pub(super) async fn octets(
    shared: &Shared,
    tenant: &str,
    ReservedResponse { bytes, room }: ReservedResponse,
) -> Result<Response, Problem> {
    let held = shared.bodies.settle(tenant, room, bytes.len()).await?;
    let body = charged_body(bytes, held);
    // Browsers must never interpret a guest's bytes as a page of this server.
    let headers = [(header::CONTENT_TYPE, "application/octet-stream"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Ok((Extension(AlreadyCharged), headers, body).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_shortened_and_other_forms_are_ignored() {
        let range =
            |text: &str| ByteRange::of(&HeaderMap::from_iter([(header::RANGE, text.parse::<HeaderValue>().unwrap())]));
        let some = |offset, length| Some(ByteRange { offset, length });
        assert_eq!(range("bytes=0-9"), some(0, 10));
        assert_eq!(range("bytes=7-7"), some(7, 1));
        assert_eq!(range("bytes=5-"), some(5, MAX_RANGE_BYTES));
        assert_eq!(range("bytes=0-18446744073709551615"), some(0, MAX_RANGE_BYTES));
        for other in ["bytes=-5", "bytes=9-8", "bytes=0-1,3-4", "lines=0-1", "bytes=", "bytes=a-b"] {
            assert_eq!(range(other), None, "{other}");
        }
        assert_eq!(ByteRange::of(&HeaderMap::new()), None);
    }
}
