//! Filesystem procedures of a sandbox: the Connect protocol with JSON.

use axum::{
    Json,
    response::{IntoResponse as _, Response},
};
use glovebox::{FileEntry, FileKind, FilesError, IfExists, ListLimits, SessionFiles};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    super::{
        InPath, Problem, ReadBody,
        budget::Held,
        wire::{MAX_LISTED, MAX_LISTED_BYTES},
    },
    caller::Asked,
    failure::Failure,
    files::failed,
    place::{absolute, name, relative},
    sandboxes::Sandbox,
};

/// Parameters of the procedures.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Question {
    path: String,
    depth: u32,
    source: String,
    destination: String,
}

/// A file or directory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    path: String,
    /// Decimal number in a string, as the protocol encodes 64-bit numbers.
    size: String,
    mode: u32,
    permissions: &'static str,
    owner: &'static str,
    group: &'static str,
    modified_time: String,
    is_symlink: bool,
}

impl From<FileEntry> for Entry {
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

/// Calls the procedure that the path names.
pub(super) async fn call(
    Asked(sandbox): Asked,
    method: Result<InPath<String>, Problem>,
    read: Result<ReadBody, Problem>,
) -> Response {
    match answer(&sandbox, method, read).await {
        Ok(answer) => Json(answer).into_response(),
        Err(failure) => failure.of_call(),
    }
}

async fn answer(
    sandbox: &Sandbox,
    method: Result<InPath<String>, Problem>,
    read: Result<ReadBody, Problem>,
) -> Result<Value, Failure> {
    let InPath(method) = method?;
    let known = ["ListDir", "Stat", "Remove", "Move", "MakeDir"];
    if !known.contains(&method.as_str()) {
        return Err(Failure::unsupported(&format!("`{}`", glovebox::escaped(&method))));
    }
    let (asked, _held): (Question, Held) = read?.json_or_default()?;
    let _turn = sandbox.turn.lock().await;
    let path = relative(if method == "Move" { &asked.source } else { &asked.path })?;
    let of = path.clone();
    let done = match method.as_str() {
        "ListDir" => {
            let depth = usize::try_from(asked.depth).unwrap_or(usize::MAX);
            sandbox.with_files(&of, false, move |files| list(files, &path, depth)).await
        }
        "Stat" => sandbox.with_files(&of, false, move |files| Ok(one(files.stat(&path)?))).await,
        "Remove" => sandbox.with_files(&of, true, move |files| files.delete_all(&path).map(|()| json!({}))).await,
        "Move" => {
            let to = relative(&asked.destination)?;
            let rename = move |files: &SessionFiles| {
                files.rename(&path, &to, IfExists::Replace)?;
                Ok(one(files.stat(&to)?))
            };
            sandbox.with_files(&of, true, rename).await
        }
        _ => {
            let make = move |files: &SessionFiles| {
                files.make_dir(&path)?;
                Ok(one(files.stat(&path)?))
            };
            sandbox.with_files(&of, true, make).await
        }
    };
    done.map_err(failed)
}

fn one(entry: FileEntry) -> Value {
    json!({ "entry": Entry::from(entry) })
}

/// Lists a directory down to `depth` levels. A depth of 0 counts as 1.
fn list(files: &SessionFiles, path: &str, depth: usize) -> Result<Value, FilesError> {
    let limits = ListLimits { entries: MAX_LISTED, path_bytes: MAX_LISTED_BYTES };
    let entries = files.list_below(path, depth.max(1), limits)?.entries;
    Ok(json!({ "entries": entries.into_iter().map(Entry::from).collect::<Vec<_>>() }))
}
