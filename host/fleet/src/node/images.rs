//! Executions, in the image that the session has.
//!
//! A session belongs to the image in which it was opened: its bytes are differences from that. Nodes of a newer version have other images. They still get
//! what is asked of all sessions, since the engine gives it to the newest; for a session whose image they do not have they call the service of that
//! image, which only nodes have that have the image. So older nodes are needed until the last session of their images is closed.

use std::{pin::pin, sync::Arc};

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
use crate::{ExecuteRequest, client::status};

/// What the services of images are called, before the beginning of their identity.
pub(crate) const IMAGE_PREFIX: &str = "glovebox-image-";

/// The service of an image, whose identity this is.
pub(crate) fn service_of(image_sha256: &str) -> String {
    format!("{IMAGE_PREFIX}{}", image_sha256.get(..32).unwrap_or(image_sha256))
}

/// What the service of an image is asked.
#[derive(Serialize, Deserialize)]
pub(super) struct Question {
    state: State,
    request: ExecuteRequest,
}

/// Executes in an image. It is an object for each session, which stores nothing.
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

/// Executes, here or where the session's image is.
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
        let service = service_of(&state.session.image_sha256);
        let (admin, sought) = (machine.admin.clone(), service.clone());
        let seek = move || -> BoxFuture<'static, HandlerResult<Json<bool>>> {
            Box::pin(async move { Ok(Json(admin.has_service(&sought).await?)) })
        };
        // What nobody has would be waited for without end.
        let Json(is_there) = ctx.run(seek).name("seek").await?;
        if !is_there {
            let message = format!(
                "no node of the fleet has the image {} of session `{}`; start one of the version that opened it",
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

/// Executes step by step, each of them recorded.
fn execute_here<'a>(
    ctx: &'a ObjectContext<'_>,
    machine: &'a Arc<Machine>,
    state: State,
    request: ExecuteRequest,
) -> BoxFuture<'a, Result<Done, TerminalError>> {
    let cancel = CancelToken::new();
    let attempt = Attempt::new(Arc::clone(machine), state, Arc::new(request), cancel.clone());
    let attempt = Arc::new(Mutex::new(attempt));
    Box::pin(async move {
        let mut recorded: Vec<Called> = Vec::new();
        let mut stop = pin!(ctx.signal::<()>(CANCEL));
        let mut is_stopped = false;
        loop {
            let (attempt, given) = (Arc::clone(&attempt), recorded.clone());
            let make = move || -> BoxFuture<'static, HandlerResult<Json<Step>>> {
                Box::pin(async move {
                    attempt.lock().await.step(&given).await.map(Json).map_err(StepError::into_handler_error)
                })
            };
            let mut step = pin!(ctx.run(make).name(format!("step:{}", recorded.len())));
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
                Step::Tool(called) => recorded.push(called),
            }
        }
    })
}
