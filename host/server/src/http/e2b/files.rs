//! HTTP routes of a sandbox's files.

use std::convert::Infallible;

use axum::{
    Json,
    extract::{Query, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use glovebox::{FilesError, IfExists, Language, SessionFiles, VfsError};
use serde::{Deserialize, Serialize};

use super::{
    super::{
        Problem, ReadBody, Shared,
        sessions::{octets, read_with_room},
    },
    caller::Asked,
    failure::Failure,
    lifecycle::context_name,
    place::{absolute, name, relative},
    sandboxes::Sandbox,
};
use crate::{Changed, ServiceError};

/// Maximum number of files in one request.
const MAX_FILES: usize = 1_000;

/// Query parameters of a file request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    path: Option<String>,
}

type InQuery = Result<Query<Which>, axum::extract::rejection::QueryRejection>;

/// Description of a file that was written.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
}

impl Sandbox {
    /// Runs `work` on the sandbox's files, in the context that holds them. `changes` must be `true` if `work` modifies
    /// files. The caller must hold the sandbox's turn.
    pub(super) async fn with_files<T: Send + 'static>(
        &self,
        path: &str,
        changes: bool,
        work: impl FnOnce(&SessionFiles) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let context = match self.last() {
            Some(context) => context,
            None => {
                let own = context_name(Language::Python);
                let exists = self.tenant.session(&self.session(own)?).await.is_ok();
                let context = if exists { own } else { context_name(Language::JavaScript) };
                self.set_last(Some(context));
                context.to_owned()
            }
        };
        let id = self.session(&context)?;
        match changes {
            true => self.tenant.change_files(&id, path, work).await.map(|Changed { value, .. }| value),
            false => self.tenant.files(&id, path, work).await,
        }
    }
}

/// Converts an error of a file operation. A missing file becomes status 404.
pub(super) fn failed(error: ServiceError) -> Failure {
    match &error {
        ServiceError::Files(FilesError::Refused { source: VfsError::NotFound, .. }) => {
            Failure::new(StatusCode::NOT_FOUND, "not-found", error.public())
        }
        _ => error.into(),
    }
}

/// Returns a file.
pub(super) async fn read(
    State(shared): State<Shared>,
    Asked(sandbox): Asked,
    query: InQuery,
) -> Result<Response, Failure> {
    let Query(Which { path }) = query.map_err(|error| Failure::invalid(error.body_text()))?;
    let path = relative(&path.ok_or_else(|| Failure::invalid("missing query parameter `path`"))?)?;
    let _turn = sandbox.turn.lock().await;
    let (asked, bodies, name) = (path.clone(), shared.bodies.clone(), sandbox.tenant.name().to_owned());
    let read = sandbox.with_files(&path, false, move |files| read_with_room(&bodies, &name, files, &asked));
    let read = read.await.map_err(failed)?;
    Ok(octets(&shared, sandbox.tenant.name(), read?).await?)
}

/// Writes the file in the body, or the files of a multipart form.
pub(super) async fn write(
    Asked(sandbox): Asked,
    query: InQuery,
    headers: HeaderMap,
    read: Result<ReadBody, Problem>,
) -> Result<Json<Vec<Written>>, Failure> {
    let Query(Which { path }) = query.map_err(|error| Failure::invalid(error.body_text()))?;
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !matches!(text(header::CONTENT_ENCODING), "" | "identity") {
        return Err(Failure::unsupported("`Content-Encoding`"));
    }
    let content_type = text(header::CONTENT_TYPE);
    let (bytes, _held) = read?.into_parts();
    let files = match multer::parse_boundary(content_type) {
        Ok(boundary) => of_form(bytes, boundary, path).await?,
        Err(_) => {
            let path = path.ok_or_else(|| Failure::invalid("missing query parameter `path`"))?;
            vec![(relative(&path)?, bytes)]
        }
    };
    let written =
        files.iter().map(|(path, _)| Written { name: name(path).to_owned(), kind: "file", path: absolute(path) });
    let written: Vec<Written> = written.collect();
    let of = files.first().map(|(path, _)| path.clone()).unwrap_or_default();
    let _turn = sandbox.turn.lock().await;
    let write =
        move |to: &SessionFiles| files.iter().try_for_each(|(path, bytes)| to.write(path, bytes, IfExists::Replace));
    sandbox.with_files(&of, true, write).await.map_err(failed)?;
    Ok(Json(written))
}

/// Parses the files of a multipart form. `path` is the destination of a single file.
async fn of_form(bytes: Vec<u8>, boundary: String, path: Option<String>) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let wrong = |error: multer::Error| Failure::invalid(format!("invalid form: {error}"));
    let whole = tokio_stream::once(Ok::<_, Infallible>(axum::body::Bytes::from(bytes)));
    let mut form = multer::Multipart::new(whole, boundary);
    let mut files = Vec::new();
    while let Some(field) = form.next_field().await.map_err(wrong)? {
        let Some(named) = field.file_name().map(str::to_owned) else { continue };
        if files.len() == MAX_FILES {
            return Err(Failure::invalid(format!("the form has more than {MAX_FILES} files")));
        }
        let to = relative(path.as_deref().unwrap_or(&named))?;
        files.push((to, field.bytes().await.map_err(wrong)?.to_vec()));
    }
    match files.len() {
        0 => Err(Failure::invalid("the form has no file")),
        count if count > 1 && path.is_some() => {
            Err(Failure::invalid("`path` is not supported with several files in the form; leave it out"))
        }
        _ => Ok(files),
    }
}
