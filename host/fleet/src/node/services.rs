//! The session object under 256 names, and an object per image.
//!
//! The SDK's macro gives each type one fixed name. Here the names are computed, so handlers are dispatched by hand.
//!
//! A session belongs to the image in which it was opened: its bytes are a difference from that image. Nodes of a newer
//! version have other images, but the engine sends the requests of all sessions to the newest nodes. If these nodes do
//! not have a session's image, they call the image's service, which only nodes with the image offer. Older nodes are
//! therefore needed until the last session of their images is closed.

use std::{collections::BTreeSet, pin::pin, sync::Arc, time::Duration};

use glovebox::CancelToken;
use restate_sdk::{
    context::{
        CallFuture as _, ContextClient as _, ContextSideEffects as _, ContextSignals as _, ContextWriteState as _,
        ObjectContext, RequestTarget, RunFuture as _,
    },
    discovery::{Service as Description, ServiceName},
    endpoint::{ContextInternal, Endpoint, Error, HandlerOptions, ServiceOptions},
    errors::{HandlerError, HandlerResult},
    serde::Json,
    service::{
        Discoverable, Service, ServiceDefinition,
        macro_support::{ServiceBoxFuture, service_definition},
    },
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use super::{
    attempt::{AnsweredCall, Attempt, BoxFuture, CANCEL, ExecutionEnd, JournalStep, StepError},
    machine::Machine,
    object::{RUNNING_KEY, SessionObject, SessionState},
    serve::NodeError,
};
use crate::{
    ExecuteRequest,
    address::{self, image_service},
    client::status,
};

/// The retention time of journals, and of responses to requests with a key.
const RETENTION: Duration = Duration::from_secs(3_600);
/// Inactivity timeout. It is longer than any execution, so that the engine never suspends a handler. When the input of
/// a handler that listens for a signal ends, the SDK suspends the handler, even while a step runs. After that, only the
/// signal would wake the handler. The engine detects a lost node by its broken connection.
const INACTIVITY_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);
/// The time for a handler to end after the engine has asked it to.
const ABORT_TIMEOUT: Duration = Duration::from_secs(30);
/// Retry backoff: initial and maximum interval.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Maximum number of attempts: an hour of retries, as long as a client waits. The caller then receives an error, and
/// the session is unchanged, because a failed step records nothing.
const MAX_ATTEMPTS: u64 = 1_800;

/// Maximum number of attempts to suspend an execution that are too slow. The caller then receives an error.
const MAX_SLOW_SUSPENSIONS: u32 = 3;

/// Builds the endpoint with all services of this node.
pub(super) fn endpoint(machine: &Arc<Machine>, identity_key: Option<&str>) -> Result<Endpoint, NodeError> {
    let mut builder = Endpoint::builder();
    if let Some(key) = identity_key {
        builder = builder.identity_key(key).map_err(|_| NodeError::IdentityKey)?;
    }
    for number in 0..=u8::MAX {
        let object = SessionObject(Arc::clone(machine));
        let shared = || HandlerOptions::new().journal_retention(Duration::ZERO);
        let options = options().handler("info", shared()).handler("cancel", shared());
        builder = builder.bind(named(object, &address::service(number))?.options(options));
    }
    // Runtimes can share an image.
    let images: BTreeSet<&str> = machine.images().collect();
    for image in images {
        let service = ImageObject(Arc::clone(machine));
        let options = options().ingress_private(true);
        builder = builder.bind(named(service, &image_service(image))?.options(options));
    }
    Ok(builder.build())
}

/// Returns the services' timeouts, retention and retries.
fn options() -> ServiceOptions {
    ServiceOptions::new()
        .inactivity_timeout(INACTIVITY_TIMEOUT)
        .abort_timeout(ABORT_TIMEOUT)
        .idempotency_retention(RETENTION)
        .journal_retention(RETENTION)
        .retry_policy_initial_interval(RETRY.0)
        .retry_policy_exponentiation_factor(2.0)
        .retry_policy_max_interval(RETRY.1)
        .retry_policy_max_attempts(MAX_ATTEMPTS)
        .retry_policy_kill_on_max_attempts()
}

/// Binds a service to `name` instead of its type's name.
fn named<S>(service: S, name: &str) -> Result<ServiceDefinition, NodeError>
where
    S: Discoverable + Service<Future = ServiceBoxFuture> + Send + Sync + 'static,
{
    let named = ServiceName::try_from(name).map_err(|error| NodeError::Refused(error.to_string()))?;
    Ok(service_definition(service, Description { name: named, ..S::discover() }))
}

/// Runs a handler and returns its result.
macro_rules! answer {
    ($ctx:ident, $object:ident.$handler:ident($input:ident)) => {
        answer!(@ $ctx, $input, metadata, $object.$handler((&$ctx, metadata).into(), $input))
    };
    ($ctx:ident, $object:ident.$handler:ident()) => {
        answer!(@ $ctx, (), metadata, $object.$handler((&$ctx, metadata).into()))
    };
    (@ $ctx:ident, $input:pat, $metadata:ident, $answered:expr) => {{
        let ($input, $metadata) = $ctx.input().await;
        let result = $answered.await;
        $ctx.handle_handler_result(result);
        $ctx.end();
        Ok(())
    }};
}

impl Service for SessionObject {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let object = self.clone();
        Box::pin(async move {
            match ctx.handler_name() {
                "open" => answer!(ctx, object.open(input)),
                "execute" => answer!(ctx, object.execute(input)),
                "undo" => answer!(ctx, object.undo(input)),
                "close" => answer!(ctx, object.close(input)),
                "info" => answer!(ctx, object.info()),
                "cancel" => answer!(ctx, object.cancel(input)),
                other => Err(Error::unknown_handler(ctx.service_name(), other)),
            }
        })
    }
}

impl Service for ImageObject {
    type Future = ServiceBoxFuture;

    fn handle(&self, ctx: ContextInternal) -> ServiceBoxFuture {
        let service = self.clone();
        Box::pin(async move {
            match ctx.handler_name() {
                "execute" => answer!(ctx, service.execute(input)),
                other => Err(Error::unknown_handler(ctx.service_name(), other)),
            }
        })
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct ImageServiceInput {
    state: SessionState,
    request: ExecuteRequest,
}

/// The handler of an image's service. The engine has one object per session, which stores no state.
#[derive(Clone)]
pub(super) struct ImageObject(pub(super) Arc<Machine>);

#[restate_sdk::object]
impl ImageObject {
    #[handler]
    pub(super) async fn execute(
        &self,
        ctx: ObjectContext<'_>,
        Json(question): Json<ImageServiceInput>,
    ) -> Result<Json<ExecutionEnd>, HandlerError> {
        let done = execute_here(&ctx, &self.0, question.state, question.request).await;
        done.map(Json).map_err(StepError::into_handler_error)
    }
}

/// Runs an execution on this node, or on a node with the session's image. After [`StepError::Later`], the handler must
/// end without recording anything.
pub(super) fn execute<'a>(
    ctx: &'a ObjectContext<'_>,
    machine: &'a Arc<Machine>,
    state: SessionState,
    request: ExecuteRequest,
) -> BoxFuture<'a, Result<ExecutionEnd, StepError>> {
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
                "no fleet node has the image {} of session `{}`; start a node of the version that opened the session",
                state.session.image_sha256, state.session.name
            );
            return Err(StepError::Never(status::FAILED, message));
        }
        let target = RequestTarget::object(service, state.session.name.to_string(), "execute");
        let call = ctx.request::<_, Json<ExecutionEnd>>(target, Json(ImageServiceInput { state, request })).call();
        ctx.set(RUNNING_KEY, call.invocation_handle().await?.invocation_id().to_owned());
        let Json(done) = call.await?;
        Ok(done)
    })
}

/// Runs an execution on this node, and records each step.
fn execute_here<'a>(
    ctx: &'a ObjectContext<'_>,
    machine: &'a Arc<Machine>,
    state: SessionState,
    request: ExecuteRequest,
) -> BoxFuture<'a, Result<ExecutionEnd, StepError>> {
    let cancel = CancelToken::new();
    let invocation = ctx.invocation_id().to_owned();
    let attempt = Attempt::new(Arc::clone(machine), state, Arc::new(request), cancel.clone(), invocation);
    let attempt = Arc::new(Mutex::new(attempt));
    Box::pin(async move {
        // If this future is dropped, the script is cancelled, because another node takes over and restarts it.
        let _cancel = CancelOnDrop(cancel.clone());
        // Steps that are already in the journal do not run.
        let recorded: Arc<parking_lot::Mutex<RecordedSteps>> = Arc::default();
        let mut count = 0_usize;
        let mut stop = pin!(ctx.signal::<()>(CANCEL));
        let mut is_stopped = false;
        loop {
            let (attempt, given) = (Arc::clone(&attempt), Arc::clone(&recorded));
            let make = move || -> BoxFuture<'static, HandlerResult<Json<JournalStep>>> {
                Box::pin(async move {
                    let given = given.lock().begin_step();
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
            if let Some(done) = recorded.lock().add(made)? {
                return Ok(done);
            }
            count += 1;
        }
    })
}

/// The steps of an execution in its journal.
#[derive(Default)]
pub(super) struct RecordedSteps {
    /// The calls recorded since the last step that ran here.
    calls: Vec<AnsweredCall>,
    /// `true` while a step runs here.
    is_running: bool,
    slow_suspensions: u32,
}

impl RecordedSteps {
    /// Begins a step here, and returns the calls for [`Attempt::step`].
    pub(super) fn begin_step(&mut self) -> Vec<AnsweredCall> {
        self.is_running = true;
        std::mem::take(&mut self.calls)
    }

    /// Adds a step that has been recorded, here or by an earlier attempt. Returns the end of the execution after the
    /// last step.
    ///
    /// # Errors
    /// [`StepError::Later`] if this attempt was too slow to suspend the script. The engine then starts another attempt,
    /// perhaps on another node. Fails permanently after [`MAX_SLOW_SUSPENSIONS`] slow attempts. The count is part of the
    /// journal, so all nodes together make no more attempts.
    pub(super) fn add(&mut self, step: JournalStep) -> Result<Option<ExecutionEnd>, StepError> {
        let ran_here = std::mem::take(&mut self.is_running);
        match step {
            JournalStep::Done(done) => return Ok(Some(*done)),
            JournalStep::Tool(called) => self.calls.push(called),
            JournalStep::SlowSuspension(reason) => {
                self.slow_suspensions += 1;
                if self.slow_suspensions >= MAX_SLOW_SUSPENSIONS {
                    return Err(StepError::Never(
                        status::FAILED,
                        format!(
                            "{reason} in {MAX_SLOW_SUSPENSIONS} attempts; the session keeps its state; store less in \
                             the session, or raise `limits.timeout_ms` of the nodes"
                        ),
                    ));
                }
                if ran_here {
                    return Err(StepError::Later(reason));
                }
            }
        }
        Ok(None)
    }
}

struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
