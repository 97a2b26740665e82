//! Methods on variables and checkpoints, and on a session as a whole.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use glovebox::CheckpointId;
use serde_json::{json, value::RawValue};

use crate::daemon::{
    params::{self, GetVariable, Only, SetVariable, Undo},
    rpc::{self, Answer, RpcError},
    slot::{State, Turn},
};

/// Maximum size of a returned session state, in bytes. In base64 a larger one would exceed the default message limit
/// when the client sends it back.
const MAX_STATE_BYTES: usize = 23 << 20;

pub(super) async fn get_variable(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let GetVariable { name, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let Some(value) = session.ask(move |session| Ok(session.get_variable(&name)?)).await? else {
        return rpc::result(&json!({ "found": false }));
    };
    let json = value.json.map(|json| format!(",\"value\":{json}")).unwrap_or_default();
    Ok(format!("{{\"found\":true,\"repr\":{}{json}}}", json!(value.repr)))
}

pub(super) async fn set_variable(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let SetVariable { name, value, .. } = params::read(params)?;
    let value = params::json_text(value)?;
    let session = turn.worker()?.open().await?;
    session.ask(move |session| Ok(session.set_variable_text(&name, &value)?)).await?;
    rpc::result(&json!({}))
}

pub(super) async fn checkpoint(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let CheckpointId(checkpoint) = session.ask(|session| Ok(session.checkpoint()?)).await?;
    rpc::result(&json!({ "checkpoint": checkpoint }))
}

pub(super) async fn checkpoints(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    rpc::result(&json!({ "checkpoints": session.ask(|session| Ok(session.checkpoints()?)).await? }))
}

pub(super) async fn undo(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Undo { checkpoint, .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    let undone = session.ask(move |session| match checkpoint.map(CheckpointId) {
        Some(checkpoint) => Ok(session.undo_to(checkpoint).map(|()| checkpoint)?),
        None => Ok(session.undo()?),
    });
    let CheckpointId(checkpoint) = undone.await?;
    rpc::result(&json!({ "checkpoint": checkpoint }))
}

pub(super) async fn hibernate(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let state = turn.worker()?.open().await?.hibernate().await?;
    if state.len() > MAX_STATE_BYTES {
        let message = format!("the session state has {} bytes; at most {MAX_STATE_BYTES} are allowed", state.len());
        return Err(RpcError::named(rpc::REFUSED, "too-large", message));
    }
    rpc::result(&json!({ "state": { "base64": BASE64_STANDARD.encode(state) } }))
}

pub(super) async fn info(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.open().await?;
    rpc::result(&session.ask(|session| Ok(session.info())).await?)
}

/// Closes the session, which runs its exit handlers.
pub(super) async fn destroy(mut turn: Turn, params: Option<&RawValue>) -> Answer {
    let Only { .. } = params::read(params)?;
    let session = turn.worker()?.session.take();
    *turn = State::Ended("it was destroyed".to_owned());
    if let Some(session) = session {
        // Errors are ignored: a session that ended by itself is gone as well.
        let _ = session.ask(|session| Ok(session.close()?)).await;
    }
    rpc::result(&json!({}))
}
