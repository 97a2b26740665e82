//! Access to a sandbox's files through HTTP routes and procedure calls, and conversion of paths.

use std::convert::Infallible;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
};
use glovebox::{FileEntry, FileKind, IfExists, Language, ListLimits};
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    form::unsupported,
    lifecycle::context_name,
    sandboxes::{RequestedSandbox, Sandbox},
};
use crate::{
    ServiceError,
    executor::FileOperation,
    http::{
        InPath, InQuery, Problem, ReadBody, Shared,
        budget::ChargedBytes,
        sessions::{octets, read_with_room},
        wire::{MAX_LISTED, MAX_LISTED_BYTES},
    },
    tenant::ReplyRooms,
};

/// Maximum number of files in a request.
const MAX_FILES: usize = 1_000;

/// The query parameters of a file request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PathQuery {
    path: Option<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct WrittenFile {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
}

impl Sandbox {
    /// Returns the session of the context that has the sandbox's files. The caller must hold the lock `Sandbox::turn`.
    async fn holder_of_files(&self) -> Result<SessionId, ServiceError> {
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
        self.session(&context)
    }
}

/// Converts an error from a file operation. A missing file becomes status 404.
fn failed(error: ServiceError) -> Problem {
    match error.is_missing_file() {
        true => Problem::new(StatusCode::NOT_FOUND, "not-found", error.public()),
        false => error.into(),
    }
}

/// Responds with a file's contents.
pub(super) async fn read(
    State(shared): State<Shared>,
    RequestedSandbox(sandbox): RequestedSandbox,
    InQuery(PathQuery { path }): InQuery<PathQuery>,
) -> Result<Response, Problem> {
    let path = relative(&path.ok_or_else(|| Problem::invalid("missing query parameter `path`; add it"))?)?;
    let _turn = sandbox.turn.lock().await;
    let id = sandbox.holder_of_files().await?;
    let made = read_with_room(&shared, &sandbox.tenant, &id, path).await.map_err(failed)?;
    octets(&shared, sandbox.tenant.name(), made).await
}

/// Writes the file in the request body, or the files in a multipart form.
pub(super) async fn write(
    RequestedSandbox(sandbox): RequestedSandbox,
    InQuery(PathQuery { path }): InQuery<PathQuery>,
    headers: HeaderMap,
    read: ReadBody,
) -> Result<Json<Vec<WrittenFile>>, Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !matches!(text(header::CONTENT_ENCODING), "" | "identity") {
        return Err(unsupported("`Content-Encoding`"));
    }
    let content_type = text(header::CONTENT_TYPE);
    let (bytes, held) = read.into_parts();
    let files = match multer::parse_boundary(content_type) {
        Ok(boundary) => of_form(bytes, boundary, path).await?,
        Err(_) => {
            let path = path.ok_or_else(|| Problem::invalid("missing query parameter `path`; add it"))?;
            vec![(relative(&path)?, bytes)]
        }
    };
    let written =
        files.iter().map(|(path, _)| WrittenFile { name: name(path).to_owned(), kind: "file", path: absolute(path) });
    let written: Vec<WrittenFile> = written.collect();
    let _turn = sandbox.turn.lock().await;
    let id = sandbox.holder_of_files().await?;
    sandbox.tenant.write_files(&id, files, IfExists::Replace, held).await.map_err(failed)?;
    Ok(Json(written))
}

/// Parses the files in a multipart form. `path` is the destination, if the form contains a single file.
async fn of_form(bytes: Vec<u8>, boundary: String, path: Option<String>) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    let wrong = |error: multer::Error| Problem::invalid(format!("invalid form: {error}"));
    let whole = tokio_stream::once(Ok::<_, Infallible>(axum::body::Bytes::from(bytes)));
    let mut form = multer::Multipart::new(whole, boundary);
    let mut files = Vec::new();
    while let Some(field) = form.next_field().await.map_err(wrong)? {
        let Some(named) = field.file_name().map(str::to_owned) else { continue };
        if files.len() == MAX_FILES {
            return Err(Problem::invalid(format!("the form has more than {MAX_FILES} files; send fewer")));
        }
        let to = relative(path.as_deref().unwrap_or(&named))?;
        files.push((to, field.bytes().await.map_err(wrong)?.to_vec()));
    }
    match files.len() {
        0 => Err(Problem::invalid("the form has no file; add one")),
        count if count > 1 && path.is_some() => {
            Err(Problem::invalid("`path` is not supported with several files in the form; remove it"))
        }
        _ => Ok(files),
    }
}

/// The parameters of all procedures.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallParameters {
    path: String,
    depth: u32,
    source: String,
    destination: String,
}

/// The description of a file or directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PathEntry {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
    /// A decimal number in a string, the protocol's encoding of 64-bit numbers.
    size: String,
    mode: u32,
    permissions: &'static str,
    owner: &'static str,
    group: &'static str,
    modified_time: String,
    is_symlink: bool,
}

impl From<FileEntry> for PathEntry {
    fn from(entry: FileEntry) -> Self {
        let (kind, mode, permissions) = match entry.kind {
            FileKind::Directory => ("FILE_TYPE_DIRECTORY", 0o755, "drwxr-xr-x"),
            FileKind::File => ("FILE_TYPE_FILE", 0o644, "-rw-r--r--"),
            FileKind::Symlink => ("FILE_TYPE_SYMLINK", 0o777, "lrwxrwxrwx"),
        };
        Self {
            name: if entry.path.is_empty() { "app".to_owned() } else { name(&entry.path).to_owned() },
            kind,
            path: absolute(&entry.path),
            size: entry.size_bytes.to_string(),
            mode,
            permissions,
            owner: "user",
            group: "user",
            modified_time: glovebox::Timestamp::from_unix_ms(entry.modified_ns / 1_000_000).to_string(),
            is_symlink: entry.kind == FileKind::Symlink,
        }
    }
}

/// Serves `/filesystem.Filesystem/{method}`, such as `ListDir`.
pub(super) async fn call(
    RequestedSandbox(sandbox): RequestedSandbox,
    Extension(replies): Extension<ReplyRooms>,
    InPath(method): InPath<String>,
    read: ReadBody,
) -> Result<Json<Value>, Problem> {
    let tenant = sandbox.tenant.replying(&replies);
    let known = ["ListDir", "Stat", "Remove", "Move", "MakeDir"];
    if !known.contains(&method.as_str()) {
        return Err(unsupported(&format!("`{}`", glovebox::escaped(&method))));
    }
    let (body, _held): (CallParameters, ChargedBytes) = read.json_or_default()?;
    let _turn = sandbox.turn.lock().await;
    let path = relative(if method == "Move" { &body.source } else { &body.path })?;
    let to = (method == "Move").then(|| relative(&body.destination)).transpose()?;
    let id = sandbox.holder_of_files().await?;
    let changed = async |operation| Ok::<_, ServiceError>(tenant.change_files(&id, operation).await?.value);
    let done = async {
        Ok(match method.as_str() {
            "ListDir" => {
                let max_depth = usize::try_from(body.depth).unwrap_or(usize::MAX).max(1);
                let limits = ListLimits { entries: MAX_LISTED, path_bytes: MAX_LISTED_BYTES };
                let (answer, _) = tenant.files(&id, FileOperation::ListBelow { dir: path, max_depth, limits }).await?;
                let entries: Vec<PathEntry> = answer.page()?.entries.into_iter().map(PathEntry::from).collect();
                json!({ "entries": entries })
            }
            "Stat" => entry_json(tenant.stat_file(&id, path).await?),
            "Remove" => {
                changed(FileOperation::Delete { path, recursive: true }).await?;
                json!({})
            }
            "Move" => {
                entry_json(changed(FileOperation::Rename { from: path, to: to.unwrap_or_default() }).await?.entry()?)
            }
            _ => entry_json(changed(FileOperation::MakeDir { path }).await?.entry()?),
        })
    };
    done.await.map(Json).map_err(failed)
}

fn entry_json(entry: FileEntry) -> Value {
    json!({ "entry": PathEntry::from(entry) })
}

/// The path of the workspace in scripts.
pub(super) const WORKSPACE: &str = "/app";
/// The home directory that E2B clients expect, an alias of the workspace.
const HOME: &str = "/home/user";

/// Converts a client's path to a path relative to the workspace. Accepts relative paths, paths below `~`, and absolute
/// paths below the workspace or the home directory.
pub(super) fn relative(path: &str) -> Result<String, Problem> {
    let below = |top: &str| path.strip_prefix(top).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let rest = below(WORKSPACE).or_else(|| below(HOME)).or_else(|| below("~"));
    let rest = match rest {
        Some(rest) => rest,
        None if path.starts_with('/') => {
            let path = glovebox::escaped(path);
            return Err(Problem::invalid(format!(
                "`{path}` is outside the workspace; use a path below `{WORKSPACE}` or `{HOME}`"
            )));
        }
        None => path,
    };
    // Remove empty and `.` segments, which the file system rejects.
    Ok(rest.split('/').filter(|name| !matches!(*name, "" | ".")).collect::<Vec<_>>().join("/"))
}

/// Converts a path relative to the workspace to an absolute path in scripts.
pub(super) fn absolute(path: &str) -> String {
    if path.is_empty() { WORKSPACE.to_owned() } else { format!("{WORKSPACE}/{path}") }
}

/// Returns the last segment of a path.
pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_outside_the_workspace_is_rejected() {
        for (path, expected) in [
            ("a/b", Some("a/b")),
            ("/home/user/a", Some("a")),
            ("/home/user", Some("")),
            ("/app//a/./b", Some("a/b")),
            ("~/a", Some("a")),
            (".", Some("")),
            ("", Some("")),
            // `relative` leaves `..` in the path. The file system rejects it.
            ("a/../b", Some("a/../b")),
            ("/home/user/../x", Some("../x")),
            ("/home/userx", None),
            ("/etc/passwd", None),
            ("/", None),
        ] {
            assert_eq!(relative(path).ok().as_deref(), expected, "{path}");
        }
        assert_eq!((absolute("").as_str(), absolute("a/b").as_str(), name("a/b")), ("/app", "/app/a/b", "b"));
    }
}
