//! A session as a virtual object.

use std::sync::Arc;

use glovebox::Timestamp;
use restate_sdk::{
    context::{
        ContextClient as _, ContextReadState as _, ContextSideEffects as _, ContextWriteState as _, ObjectContext,
        RunFuture as _, SharedObjectContext,
    },
    errors::{HandlerError, HandlerResult, TerminalError},
    serde::Json,
};

use super::{
    error::StepError,
    images,
    machine::{Machine, Opening},
    state::{ID_KEY, RUNNING_KEY, STATE_KEY, State},
    steps::{BoxFuture, CANCEL},
};
use crate::{
    ExecuteRequest, Executed, Expected, FleetName, FleetSession, OpenRequest,
    client::{EXISTS, status},
};

/// The handlers of a session. The engine runs them one at a time, except those with a shared context.
#[derive(Clone)]
pub(super) struct SessionObject(pub(super) Arc<Machine>);

#[restate_sdk::object]
impl SessionObject {
    #[handler]
    pub(super) async fn open(
        &self,
        ctx: ObjectContext<'_>,
        Json(request): Json<OpenRequest>,
    ) -> Result<Json<FleetSession>, HandlerError> {
        let name = name(ctx.key())?;
        if ctx.get::<Json<State>>(STATE_KEY).await?.is_some() {
            return Err(refused(status::EXISTS, format!("{EXISTS} `{name}`")));
        }
        let state = self.make(&ctx, &name, request).await?;
        Ok(Json(state.session))
    }

    #[handler]
    pub(super) async fn execute(
        &self,
        ctx: ObjectContext<'_>,
        Json(mut request): Json<ExecuteRequest>,
    ) -> Result<Json<Executed>, HandlerError> {
        let name = name(ctx.key())?;
        let mut state = match (ctx.get::<Json<State>>(STATE_KEY).await?, request.open.take()) {
            (Some(Json(state)), _) => state,
            (None, Some(open)) => self.make(&ctx, &name, open).await?,
            (None, None) => return Err(no_session(&name)),
        };
        check(&state, request.expected)?;
        match request.id.take() {
            Some(id) => ctx.set(ID_KEY, id),
            None => ctx.clear(ID_KEY),
        }
        self.0.forget_blobs(std::mem::take(&mut state.stale));
        let done = images::execute(&ctx, &self.0, state, request).await;
        ctx.clear(RUNNING_KEY);
        ctx.clear(ID_KEY);
        let done = done?;
        ctx.set(STATE_KEY, Json(done.state));
        Ok(Json(done.executed))
    }

    #[handler]
    pub(super) async fn undo(
        &self,
        ctx: ObjectContext<'_>,
        Json(expected): Json<Option<Expected>>,
    ) -> Result<Json<FleetSession>, HandlerError> {
        let name = name(ctx.key())?;
        let Json(mut state) = ctx.get::<Json<State>>(STATE_KEY).await?.ok_or_else(|| no_session(&name))?;
        check(&state, expected)?;
        self.0.forget_blobs(std::mem::take(&mut state.stale));
        // An execution that was killed may have left these.
        ctx.clear(RUNNING_KEY);
        ctx.clear(ID_KEY);
        let Json(at) = ctx.run(now).name("now").await?;
        let undone = state
            .undone(at)
            .ok_or_else(|| refused(status::NO_UNDO, format!("session `{name}` has nothing to undo")))?;
        let session = undone.session.clone();
        ctx.set(STATE_KEY, Json(undone));
        Ok(Json(session))
    }

    #[handler]
    pub(super) async fn close(
        &self,
        ctx: ObjectContext<'_>,
        Json(expected): Json<Option<Expected>>,
    ) -> Result<Json<bool>, HandlerError> {
        let Some(Json(state)) = ctx.get::<Json<State>>(STATE_KEY).await? else { return Ok(Json(false)) };
        check(&state, expected)?;
        // Blobs first: if the store fails, the engine retries this step.
        let machine = Arc::clone(&self.0);
        let forget = move || -> BoxFuture<'static, HandlerResult<()>> {
            Box::pin(async move { machine.forget(&state).await.map_err(StepError::into_handler_error) })
        };
        ctx.run(forget).name("forget").await?;
        ctx.clear_all();
        Ok(Json(true))
    }

    #[handler]
    pub(super) async fn info(&self, ctx: SharedObjectContext<'_>) -> Result<Json<FleetSession>, HandlerError> {
        let name = name(ctx.key())?;
        let Json(state) = ctx.get::<Json<State>>(STATE_KEY).await?.ok_or_else(|| no_session(&name))?;
        let is_running = ctx.get::<String>(RUNNING_KEY).await?.is_some();
        Ok(Json(FleetSession { is_running, ..state.session }))
    }

    #[handler]
    pub(super) async fn cancel(
        &self,
        ctx: SharedObjectContext<'_>,
        Json(id): Json<Option<String>>,
    ) -> Result<Json<bool>, HandlerError> {
        if id.is_some() && ctx.get::<String>(ID_KEY).await? != id {
            return Ok(Json(false));
        }
        let running = ctx.get::<String>(RUNNING_KEY).await?;
        if let Some(invocation) = &running {
            ctx.invocation_handle(invocation.clone()).signal(CANCEL).resolve(());
        }
        Ok(Json(running.is_some()))
    }
}

impl SessionObject {
    /// Opens a session. The future is boxed, because the compiler cannot resolve the lifetimes of the SDK's contexts
    /// otherwise.
    fn make<'a>(
        &'a self,
        ctx: &'a ObjectContext<'_>,
        name: &'a FleetName,
        request: OpenRequest,
    ) -> BoxFuture<'a, Result<State, HandlerError>> {
        Box::pin(async move {
            let Json(opening) = ctx.run(opening).name("opening").await?;
            let (machine, made) = (Arc::clone(&self.0), name.clone());
            let make = move || -> BoxFuture<'static, HandlerResult<Json<State>>> {
                Box::pin(async move {
                    machine.open(&made, request, opening).await.map(Json).map_err(StepError::into_handler_error)
                })
            };
            let Json(state) = ctx.run(make).name("open").await?;
            ctx.set(STATE_KEY, Json(state.clone()));
            Ok(state)
        })
    }
}

/// The current time, for the journal.
async fn now() -> HandlerResult<Json<Timestamp>> {
    Ok(Json(Timestamp::now()))
}

/// A new opening, for the journal.
async fn opening() -> HandlerResult<Json<Opening>> {
    Ok(Json(Opening::new()))
}

fn name(key: &str) -> Result<FleetName, HandlerError> {
    key.parse().map_err(|error: crate::FleetNameError| refused(status::INVALID, glovebox::with_causes(&error)))
}

/// Fails unless the session is in the expected state.
fn check(state: &State, expected: Option<Expected>) -> Result<(), HandlerError> {
    let session = &state.session;
    match expected.is_none_or(|expected| session.is(expected)) {
        true => Ok(()),
        false => {
            let FleetSession { name, generation, .. } = session;
            Err(refused(status::CHANGED, format!("session `{name}` has generation {generation}")))
        }
    }
}

fn no_session(name: &FleetName) -> HandlerError {
    refused(status::NOT_FOUND, format!("there is no session `{name}`; open one first"))
}

fn refused(code: u16, message: String) -> HandlerError {
    TerminalError::new_with_code(code, message).into()
}
