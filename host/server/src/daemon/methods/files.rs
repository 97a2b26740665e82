//! The files of a session.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::IfExists;
use serde_json::{json, value::RawValue};

use super::Turn;
use crate::{
    ServiceError,
    daemon::{
        params::{self, ListFiles, OneFile, WriteFile},
        rpc::{self, Answer},
    },
};

/// The largest file that is given at once.
const MAX_FILE_BYTES: u64 = 32 << 20;

pub(super) async fn list(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let ListFiles { pattern, .. } = params::read(params)?;
    let pattern = pattern.unwrap_or_else(|| "**".to_owned());
    let session = turn.worker()?.open().await?;
    rpc::result(&json!({ "files": session.ask(move |session| Ok(session.files().list(&pattern)?)).await? }))
}

pub(super) async fn read(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let OneFile { path, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let bytes = session.ask(move |session| {
        let files = session.files().snapshot()?;
        let bytes = files.stat(&path)?.size_bytes;
        if bytes > MAX_FILE_BYTES {
            return Err(ServiceError::Invalid(format!(
                "the file has {bytes} bytes; at most {MAX_FILE_BYTES} are given at once; have a script split it"
            )));
        }
        Ok(files.read(&path)?)
    });
    rpc::result(&json!({ "contents": { "base64": BASE64_STANDARD.encode(bytes.await?) } }))
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
