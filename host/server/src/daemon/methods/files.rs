//! Methods on the files of a session.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::IfExists;
use serde_json::{json, value::RawValue};

use crate::daemon::{
    params::{self, ListFiles, OneFile, ReadFile, WriteFile},
    rpc::{self, Answer},
    slot::Turn,
};

/// Maximum number of bytes that one `readFile` returns.
const PIECE_BYTES: u64 = 8 << 20;

pub(super) async fn list(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let ListFiles { pattern, .. } = params::read(params)?;
    let pattern = pattern.unwrap_or_else(|| "**".to_owned());
    let session = turn.worker()?.open().await?;
    rpc::result(&json!({ "files": session.ask(move |session| Ok(session.files().list(&pattern)?)).await? }))
}

pub(super) async fn read(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let ReadFile { path, offset, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let read = session.ask(move |session| {
        let files = session.files().snapshot()?;
        let size_bytes = files.stat(&path)?.size_bytes;
        Ok((size_bytes, files.read_at(&path, offset, PIECE_BYTES)?))
    });
    let (size_bytes, bytes) = read.await?;
    rpc::result(&json!({ "contents": { "base64": BASE64_STANDARD.encode(bytes) }, "size_bytes": size_bytes }))
}

pub(super) async fn write(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let WriteFile { path, contents, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    session.ask(move |session| Ok(session.files().write(&path, contents.0, IfExists::Replace)?)).await?;
    rpc::result(&json!({}))
}

pub(super) async fn delete(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let OneFile { path, recursive, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let deleted = session.ask(move |session| {
        let files = session.files();
        Ok(if recursive { files.delete_all(&path) } else { files.delete(&path) }?)
    });
    deleted.await?;
    rpc::result(&json!({}))
}
