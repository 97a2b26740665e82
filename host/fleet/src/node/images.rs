//! Executions in a session's image.
//!
//! A session belongs to the image in which it was opened: its bytes are a difference from that image. Nodes of a newer
//! version have other images, but the engine sends the requests of all sessions to the newest nodes. If these do not
//! have the image of a session, they call the image's service, which only nodes with the image offer. Older nodes are
//! thus needed until the last session of their images is closed.

use std::{
    pin::pin,
    sync::{Arc, PoisonError},
};

use glovebox::CancelToken;
use restate_sdk::{
    context::{
        CallFuture as _, ContextClient as _, ContextSideEffects as _, ContextSignals as _, ContextWriteState as _,
        ObjectContext, RequestTarget, RunFuture as _,
    },
    errors::{HandlerError, HandlerResult, TerminalError},
    serde::Json,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::{
    attempt::Attempt,
    error::StepError,
    machine::Machine,
    state::{RUNNING_KEY, State},
    steps::{BoxFuture, CANCEL, Called, Done, Step},
};
use crate::{ExecuteRequest, client::status, name::image_service};

/// The input of an image's service.
#[derive(Serialize, Deserialize)]
pub(super) struct Question {
    state: State,
    request: ExecuteRequest,
}

/// Runs executions in an image: one object per session, without state.
#[derive(Clone)]
pub(super) struct ImageObject(pub(super) Arc<Machine>);

#[restate_sdk::object]
impl ImageObject {
    #[handler]
    pub(super) async fn execute(
        &self,
        ctx: ObjectContext<'_>,
        Json(asked): Json<Question>,
    ) -> Result<Json<Done>, HandlerError> {
        Ok(Json(execute_here(&ctx, &self.0, asked.state, asked.request).await?))
    }
}

/// Runs an execution on this node, or on a node with the session's image.
pub(super) fn execute<'a>(
    ctx: &'a ObjectContext<'_>,
    machine: &'a Arc<Machine>,
    state: State,
    request: ExecuteRequest,
) -> BoxFuture<'a, Result<Done, TerminalError>> {
    Box::pin(async move {
        if machine.images().any(|image| image == state.session.image_sha256) {
            ctx.set(RUNNING_KEY, ctx.invocation_id().to_owned());
            return execute_here(ctx, machine, state, request).await;
        }
        let service = image_service(&state.session.image_sha256);
        let (admin, sought) = (machine.admin.clone(), service.clone());
        let seek = move || -> BoxFuture<'static, HandlerResult<Json<bool>>> {
            Box::pin(async move { Ok(Json(admin.has_service(&sought).await?)) })
        };
        // A call to a missing service would wait forever.
        let Json(is_there) = ctx.run(seek).name("seek").await?;
        if !is_there {
            let message = format!(
                "no node of the fleet has the image {} of session `{}`; start a node of the version that opened the session",
                state.session.image_sha256, state.session.name
            );
            return Err(TerminalError::new_with_code(status::FAILED, message));
        }
        let target = RequestTarget::object(service, state.session.name.to_string(), "execute");
        let call = ctx.request::<_, Json<Done>>(target, Json(Question { state, request })).call();
        ctx.set(RUNNING_KEY, call.invocation_handle().await?.invocation_id().to_owned());
        let Json(done) = call.await?;
        Ok(done)
    })
}

/// Runs an execution on this node, and records each step.
fn execute_here<'a>(
    ctx: &'a ObjectContext<'_>,
    machine: &'a Arc<Machine>,
    state: State,
    request: ExecuteRequest,
) -> BoxFuture<'a, Result<Done, TerminalError>> {
    let cancel = CancelToken::new();
    let invocation = ctx.invocation_id().to_owned();
    let attempt = Attempt::new(Arc::clone(machine), state, Arc::new(request), cancel.clone(), invocation);
    let attempt = Arc::new(Mutex::new(attempt));
    Box::pin(async move {
        // If this future is dropped, the script is cancelled: another node takes over and restarts it.
        let _cancel = CancelOnDrop(cancel.clone());
        // The calls recorded since the last step that ran here. Steps that are in the journal already are not run.
        let recorded: Arc<std::sync::Mutex<Vec<Called>>> = Arc::default();
        let mut count = 0_usize;
        let mut stop = pin!(ctx.signal::<()>(CANCEL));
        let mut is_stopped = false;
        loop {
            let (attempt, given) = (Arc::clone(&attempt), Arc::clone(&recorded));
            let make = move || -> BoxFuture<'static, HandlerResult<Json<Step>>> {
                Box::pin(async move {
                    let given = std::mem::take(&mut *given.lock().unwrap_or_else(PoisonError::into_inner));
                    attempt.lock().await.step(given).await.map(Json).map_err(StepError::into_handler_error)
                })
            };
            let mut step = pin!(ctx.run(make).name(format!("step:{count}")));
            let Json(made) = loop {
                tokio::select! {
                    biased;
                    made = &mut step => break made?,
                    _ = &mut stop, if !is_stopped => {
                        is_stopped = true;
                        cancel.cancel();
                    }
                }
            };
            match made {
                Step::Done(done) => return Ok(*done),
                Step::Tool(called) => recorded.lock().unwrap_or_else(PoisonError::into_inner).push(called),
            }
            count += 1;
        }
    })
}

/// Cancels a token on drop.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
