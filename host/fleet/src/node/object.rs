//! A session as a virtual object.

use std::sync::Arc;

use glovebox::Timestamp;
use glovebox_runtimes::Digest;
use restate_sdk::{
    context::{
        ContextClient as _, ContextReadState as _, ContextSideEffects as _, ContextWriteState as _, ObjectContext,
        RunFuture as _, SharedObjectContext,
    },
    errors::{HandlerError, HandlerResult, TerminalError},
    serde::Json,
};
use serde::{Deserialize, Serialize};

use super::{
    attempt::{BoxFuture, CANCEL, StepError},
    machine::{Machine, SessionOpening},
    services,
};
use crate::{
    ExecuteReply, ExecuteRequest, ExpectedGeneration, FleetName, FleetSession, OpenRequest,
    client::{EXISTS, status},
};

/// The handlers of a session. The engine runs them one at a time, except handlers with a shared context.
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
        if ctx.get::<Json<SessionState>>(STATE_KEY).await?.is_some() {
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
    ) -> Result<Json<ExecuteReply>, HandlerError> {
        let name = name(ctx.key())?;
        let mut state = match (ctx.get::<Json<SessionState>>(STATE_KEY).await?, request.open.take()) {
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
        let done = match services::execute(&ctx, &self.0, state, request).await {
            // The engine starts this handler again, and the new attempt must repeat the recorded steps. Therefore, this
            // attempt must not record anything else.
            Err(error @ StepError::Later(_)) => return Err(error.into_handler_error()),
            done => done,
        };
        ctx.clear(RUNNING_KEY);
        ctx.clear(ID_KEY);
        let done = done.map_err(StepError::into_handler_error)?;
        ctx.set(STATE_KEY, Json(done.state));
        Ok(Json(done.executed))
    }

    #[handler]
    pub(super) async fn undo(
        &self,
        ctx: ObjectContext<'_>,
        Json(expected): Json<Option<ExpectedGeneration>>,
    ) -> Result<Json<FleetSession>, HandlerError> {
        let name = name(ctx.key())?;
        let Json(mut state) = ctx.get::<Json<SessionState>>(STATE_KEY).await?.ok_or_else(|| no_session(&name))?;
        check(&state, expected)?;
        self.0.forget_blobs(std::mem::take(&mut state.stale));
        // An execution that was killed may have left these keys behind.
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
        Json(expected): Json<Option<ExpectedGeneration>>,
    ) -> Result<Json<bool>, HandlerError> {
        let Some(Json(state)) = ctx.get::<Json<SessionState>>(STATE_KEY).await? else { return Ok(Json(false)) };
        check(&state, expected)?;
        // Delete the blobs first: if the store fails, the engine retries this step.
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
        let Json(state) = ctx.get::<Json<SessionState>>(STATE_KEY).await?.ok_or_else(|| no_session(&name))?;
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
    /// Opens a session. The future is boxed because the compiler cannot otherwise resolve the lifetimes of the SDK's
    /// contexts.
    fn make<'a>(
        &'a self,
        ctx: &'a ObjectContext<'_>,
        name: &'a FleetName,
        request: OpenRequest,
    ) -> BoxFuture<'a, Result<SessionState, HandlerError>> {
        Box::pin(async move {
            let Json(opening) = ctx.run(opening).name("opening").await?;
            let (machine, made) = (Arc::clone(&self.0), name.clone());
            let make = move || -> BoxFuture<'static, HandlerResult<Json<SessionState>>> {
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

/// Returns the current time, to be recorded in the journal.
async fn now() -> HandlerResult<Json<Timestamp>> {
    Ok(Json(Timestamp::now()))
}

/// Returns a new opening, to be recorded in the journal.
async fn opening() -> HandlerResult<Json<SessionOpening>> {
    Ok(Json(SessionOpening::new()))
}

fn name(key: &str) -> Result<FleetName, HandlerError> {
    key.parse().map_err(|error: crate::FleetNameError| refused(status::INVALID, glovebox::with_causes(&error)))
}

/// Fails unless the session is in the expected state.
fn check(state: &SessionState, expected: Option<ExpectedGeneration>) -> Result<(), HandlerError> {
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
    refused(status::NOT_FOUND, format!("there is no session `{name}`; open it first"))
}

fn refused(code: u16, message: String) -> HandlerError {
    TerminalError::new_with_code(code, message).into()
}

/// The key under which the fleet's engine stores the session's state.
pub(crate) const STATE_KEY: &str = "session";
/// The key under which the fleet's engine stores the ID of the running invocation.
pub(super) const RUNNING_KEY: &str = "running";
/// The key under which the fleet's engine stores the caller's ID for the running execution.
pub(super) const ID_KEY: &str = "running-id";

/// The state of a session, as the fleet's engine stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SessionState {
    pub(super) session: FleetSession,
    /// The ID of the opening, unique among all sessions that are ever opened under this name.
    pub(super) opening: String,
    /// The name of the current blob.
    pub(super) blob: String,
    /// The state before the last execution, for one undo.
    pub(super) previous: Option<PreviousState>,
    /// Blobs that no state refers to. The next execution or undo deletes them, because by then the engine has stored
    /// this state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) stale: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PreviousState {
    pub(super) blob: String,
    pub(super) bytes: u64,
    pub(super) executions: u64,
}

impl SessionState {
    /// Returns the state with this blob as the next generation.
    pub(super) fn next(&self, bytes: u64, executions: u64, at: Timestamp, blob: String) -> Self {
        let session = FleetSession {
            generation: self.session.generation + 1,
            bytes,
            executions,
            updated_at: at,
            ..self.session.clone()
        };
        let (bytes, executions) = (self.session.bytes, self.session.executions);
        let previous = Some(PreviousState { blob: self.blob.clone(), bytes, executions });
        let stale = self.previous.iter().map(|previous| previous.blob.clone()).collect();
        Self { session, opening: self.opening.clone(), blob, previous, stale }
    }

    /// Returns the next generation of the same state, for an execution that changed nothing.
    pub(super) fn next_generation(&self, at: Timestamp) -> Self {
        let mut unchanged = self.clone();
        unchanged.session.generation += 1;
        unchanged.session.updated_at = at;
        unchanged
    }

    /// Returns the state before the last execution as the next generation. Returns `None` if there is nothing to undo.
    pub(super) fn undone(&self, at: Timestamp) -> Option<Self> {
        let PreviousState { blob, bytes, executions } = self.previous.clone()?;
        let mut undone = self.next(bytes, executions, at, blob);
        undone.previous = None;
        undone.stale = vec![self.blob.clone()];
        Some(undone)
    }

    /// Returns the ID of the next execution, unique even if the session is closed and opened again under the same name.
    pub(super) fn next_execution(&self) -> String {
        format!("{}-{}", self.opening, self.session.generation + 1)
    }
}

/// Returns the directory of a session's blobs. A session that is opened again under the same name uses a different
/// directory. Therefore a late close of the first session deletes no blob of the second.
pub(super) fn blob_dir(name: &FleetName, opening: &str) -> String {
    format!("sessions/{name}/{opening}")
}

/// Returns the name of a state's blob. It contains a digest, so two writers of the same generation do not overwrite
/// each other.
pub(super) fn blob_name(name: &FleetName, opening: &str, generation: u64, state: &[u8]) -> String {
    format!("{}/{generation:010}-{}", blob_dir(name, opening), Digest::of(state))
}

/// Returns the seed of a session's random numbers.
pub(super) fn seed(name: &FleetName, opening: &str) -> u64 {
    let digest = Digest::of(format!("{name} {opening}").as_bytes());
    digest.as_bytes().first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use glovebox::Language;

    use super::*;

    fn state() -> SessionState {
        let at = Timestamp::from_unix_ms(5);
        let session = FleetSession {
            name: "notes".parse().unwrap(),
            language: Language::Python,
            runtime: "python-3.12".into(),
            version: None,
            image_sha256: "ab".into(),
            generation: 1,
            executions: 0,
            bytes: 10,
            created_at: at,
            updated_at: at,
            is_running: false,
        };
        SessionState {
            session,
            opening: "0a".into(),
            blob: "sessions/notes/0a/1".into(),
            previous: None,
            stale: Vec::new(),
        }
    }

    #[test]
    fn each_change_and_undo_increments_the_generation() {
        let first = state();
        let second = first.next(20, 1, Timestamp::from_unix_ms(6), "sessions/notes/0a/2".into());
        assert_eq!((second.session.generation, second.session.bytes, second.session.executions), (2, 20, 1));
        let undone = second.undone(Timestamp::from_unix_ms(7)).unwrap();
        assert_eq!((undone.session.generation, undone.session.bytes, undone.session.executions), (3, 10, 0));
        assert_eq!(undone.blob, first.blob);
        assert_eq!((first.stale.len(), second.stale.len()), (0, 0), "both blobs are still referenced");
        assert_eq!(undone.stale, std::slice::from_ref(&second.blob));
        let third = second.next(30, 2, Timestamp::from_unix_ms(8), "sessions/notes/0a/3".into());
        assert_eq!(third.stale, std::slice::from_ref(&first.blob));
        assert_eq!(undone.undone(Timestamp::from_unix_ms(8)), None, "only one execution can be undone");
        assert_eq!(first.undone(Timestamp::from_unix_ms(8)), None, "nothing was executed");
        assert_ne!(undone.next_execution(), second.next_execution());
    }

    #[test]
    fn reopened_session_shares_nothing_with_the_old_one() {
        let name: FleetName = "team!notes".parse().unwrap();
        assert_ne!(seed(&name, "0a"), seed(&name, "0b"));
        assert_ne!(seed(&name, "0a"), seed(&"team!other".parse().unwrap(), "0a"));
        let mut again = state();
        again.opening = "0b".into();
        assert_ne!(again.next_execution(), state().next_execution());
        assert!(!blob_name(&name, "0b", 1, b"state").starts_with(&blob_dir(&name, "0a")));
    }

    #[test]
    fn blob_name_is_its_digest() {
        let name: FleetName = "team!notes".parse().unwrap();
        let blob = blob_name(&name, "0a", 7, b"state");
        assert!(blob.starts_with("sessions/team!notes/0a/0000000007-"), "{blob}");
        assert_ne!(blob, blob_name(&name, "0a", 7, b"other"));
    }
}
