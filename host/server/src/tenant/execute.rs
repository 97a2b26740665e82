//! Execution of a tenant's scripts, in new interpreters and in sessions. A client can cancel running executions by their
//! IDs.

use std::{collections::HashMap, sync::Arc};

use glovebox::{CancelToken, Execution};
use glovebox_requests::cancelled;
use glovebox_sessions::SessionId;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tracing::{Span, field::Empty, info_span};

use super::{FreshScript, Script, SessionTarget, Tenant, Watch, Work};
use crate::{
    Door, OnOutput, SPANS, Service, ServiceError,
    audit::{AuditSource, AuditSubject, AuditedFailure, AuditedResult, ExecutionEnd},
    executor::{Completion, FinishedJob, Job},
};

/// The cancellation tokens of a tenant's running executions, keyed by ID. Clones share the tokens.
#[derive(Clone, Default)]
pub(super) struct RunningExecutions(Arc<Mutex<HashMap<String, CancelToken>>>);

impl RunningExecutions {
    /// Cancels an execution. Returns `false` if it is not running.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let token = self.0.lock().get(id).cloned();
        // Cancelling runs hooks, which may take time or need the lock, so the lock is not held.
        token.inspect(CancelToken::cancel).is_some()
    }
}

/// The ID of an execution. With this ID, the client can cancel the execution until this value is dropped.
pub(crate) struct RunningExecution {
    pub(crate) id: String,
    pub(crate) cancel: CancelToken,
    executions: RunningExecutions,
}

impl Drop for RunningExecution {
    fn drop(&mut self) {
        self.executions.0.lock().remove(&self.id);
    }
}

impl Tenant {
    /// Creates an ID and a cancellation token for an execution that is about to start.
    pub(crate) fn announce(&self) -> RunningExecution {
        let (id, cancel) = (SessionId::random().to_string(), CancelToken::new());
        let executions = self.inner.running.clone();
        executions.0.lock().insert(id.clone(), cancel.clone());
        RunningExecution { id, cancel, executions }
    }
}

/// A guard that cancels an execution or a call on drop.
pub(crate) struct CancelOnDrop(pub(crate) CancelToken);

impl CancelOnDrop {
    /// Drops the guard. Does not cancel the execution if it is suspended.
    pub(super) fn disarm_if(mut self, is_suspended: bool) {
        if is_suspended {
            self.0 = CancelToken::new();
        }
    }
}

/// Waits for admission, unless the execution is cancelled first.
pub(super) async fn unless_cancelled<T>(
    cancel: Option<&CancelToken>,
    admitted: impl Future<Output = Result<T, ServiceError>>,
) -> Result<T, ServiceError> {
    let Some(cancel) = cancel else { return admitted.await };
    tokio::select! {
        biased;
        () = cancelled(cancel) => Err(ServiceError::Cancelled),
        admitted = admitted => admitted,
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Creates the span of an execution, as a child of the caller's span.
fn execution_span() -> Span {
    info_span!(
        target: SPANS, "execution",
        glovebox.language = Empty, glovebox.runtime = Empty, glovebox.outcome = Empty, glovebox.fuel = Empty,
    )
}

/// Records the result of an execution in its span. Excludes output and error messages, which come from the script.
fn record(span: &Span, ended: &ExecutionEnd) {
    match ended {
        Ok(executed) => {
            span.record("glovebox.language", executed.language.name());
            span.record("glovebox.runtime", &*executed.runtime);
            span.record("glovebox.outcome", executed.outcome);
            span.record("glovebox.fuel", executed.fuel);
        }
        Err(failed) => {
            span.record("glovebox.outcome", failed.code);
        }
    }
}

/// Data for the audit log and metrics. Copied from the request, because the executor consumes the script.
pub(super) struct AuditedRequest {
    pub(super) door: Door,
    pub(super) session: Option<SessionId>,
    pub(super) source: Option<AuditSource>,
}

impl Tenant {
    /// Runs a script in a new interpreter.
    ///
    /// # Errors
    /// Fails if the script cannot be run. An exception raised by the script is part of the [`Execution`].
    pub async fn execute(&self, door: Door, fresh: FreshScript, watch: Watch) -> Result<Execution, ServiceError> {
        self.execute_then(door, Work::Fresh(Box::new(fresh)), watch, |finished| Ok(finished.execution)).await
    }

    /// Runs a script in a session.
    ///
    /// # Errors
    /// Fails if the script cannot be run, or if the session's generation differs from the expected one. An exception
    /// raised by the script is part of the [`Execution`].
    pub async fn execute_in(
        &self,
        door: Door,
        target: SessionTarget,
        script: Script,
        watch: Watch,
    ) -> Result<Execution, ServiceError> {
        let work = Work::InSession(target, Box::new(script));
        self.execute_then(door, work, watch, |finished| Ok(finished.execution)).await
    }

    /// Runs a script, and records it in metrics and the audit log. Maps the result with `then`, on the thread that
    /// [`Executor::run`](crate::executor::Executor::run) describes.
    ///
    /// # Errors
    /// Fails if the script cannot be run or `then` fails.
    pub(crate) async fn execute_then<T: Send + 'static>(
        &self,
        door: Door,
        mut work: Work,
        watch: Watch,
        then: impl FnOnce(FinishedJob) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let session = work.session().cloned();
        let permits = self.admit(session.as_ref());
        let held = self.admit_work(door, &mut work, watch.cancel.as_ref(), false, permits).await?;
        let request = self.audited_request(door, &mut work);
        let executor = Arc::clone(&self.inner.executor);
        let begin = move |cancel, on_output, span, done| executor.run(Job { work, cancel, on_output, span }, done);
        self.run(request, held, watch, begin, then).await
    }

    /// Waits for `permits` unless the script is cancelled first, and checks the script's types. Counts a refusal in the
    /// metrics.
    pub(super) async fn admit_work<H: Send + 'static>(
        &self,
        door: Door,
        work: &mut Work,
        cancel: Option<&CancelToken>,
        is_stepped: bool,
        permits: impl Future<Output = Result<H, ServiceError>>,
    ) -> Result<H, ServiceError> {
        let admitted = async {
            self.inner.executor.check_work(work, is_stepped)?;
            // The fleet's nodes send callbacks themselves.
            if !self.is_remote(work) {
                work.script().offer(self.callbacks())?;
            }
            self.check_rate()?;
            let held = permits.await?;
            self.check_types(work, held).await
        };
        unless_cancelled(cancel, admitted).await.inspect_err(|error| self.refused(door, error))
    }

    /// Returns `true` if a script runs on other machines.
    pub(super) fn is_remote(&self, work: &Work) -> bool {
        work.session().is_some() && self.inner.executor.has_remote_sessions()
    }

    /// Starts an execution with `begin` and waits until it ends. Records it even if the caller drops the future.
    async fn run<T: Send + 'static>(
        &self,
        request: AuditedRequest,
        held: impl Send + 'static,
        watch: Watch,
        begin: impl FnOnce(CancelToken, Option<OnOutput>, Span, Completion),
        then: impl FnOnce(FinishedJob) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let token = self.inner.service.token();
        let _cancel = CancelOnDrop(token.clone());
        let cancelled = token.clone();
        let _hook = watch.cancel.as_ref().map(|cancel| cancel.on_cancel(move || cancelled.cancel()));
        let (sender, receiver) = oneshot::channel();
        let (tenant, span) = (self.clone(), execution_span());
        let recorded = span.clone();
        let done = move |result: Result<FinishedJob, ServiceError>| {
            tenant.record_result(&recorded, request, result.as_ref().map(|finished| &finished.execution));
            let result = result.and_then(then);
            // Release the permits before responding: the client can send its next request as soon as it has the
            // response.
            drop(held);
            let _ = sender.send(result);
        };
        begin(token, watch.on_output, span, Box::new(done));
        receiver.await.map_err(|_| ServiceError::Panicked)?
    }

    /// Copies the parts of a request that the audit log and the metrics need, before the executor consumes the script.
    pub(super) fn audited_request(&self, door: Door, work: &mut Work) -> AuditedRequest {
        let source = self.inner.service.0.audit.as_ref().map(|audit| {
            let resumed = work.resumption().map(|resumption| audit.resumed(&resumption.suspended));
            resumed.unwrap_or_else(|| audit.source(&work.script().source))
        });
        AuditedRequest { door, session: work.session().cloned(), source }
    }

    /// Like [`audited_request`](Self::audited_request). Hashes a suspended execution on a blocking thread, because it
    /// can be long.
    pub(super) async fn audited_work(
        &self,
        door: Door,
        mut work: Work,
    ) -> Result<(AuditedRequest, Work), ServiceError> {
        if work.resumption().is_none() {
            return Ok((self.audited_request(door, &mut work), work));
        }
        let tenant = self.clone();
        Service::blocking(move || (tenant.audited_request(door, &mut work), work)).await
    }

    /// Counts a request that was not admitted. The audit log omits such a request, because a client could fill the log
    /// with refused requests.
    pub(crate) fn refused(&self, door: Door, error: &ServiceError) {
        for metrics in [&self.inner.service.0.metrics, &self.inner.metrics] {
            metrics.refused(door, error.code());
        }
    }

    /// Records the result of an execution in metrics, the audit log and its span.
    pub(super) fn record_result(
        &self,
        span: &Span,
        request: AuditedRequest,
        result: Result<&Execution, &ServiceError>,
    ) {
        self.record_end(span, request, &result.map(AuditedResult::from).map_err(AuditedFailure::from));
    }

    /// Like [`record_result`](Self::record_result), for an execution that was turned into bytes. `execution` is `None`
    /// if its result was lost: its fuel and duration are then unknown. Hashing the bytes may take a tenth of a second.
    pub(super) fn record_suspension(
        &self,
        span: &Span,
        request: AuditedRequest,
        execution: Option<&Execution>,
        bytes: &[u8],
    ) {
        let ended = match execution {
            Some(execution) => Ok(AuditedResult::from(execution).suspended(bytes)),
            None => Err(AuditedFailure::suspended(bytes)),
        };
        self.record_end(span, request, &ended);
    }

    fn record_end(&self, span: &Span, request: AuditedRequest, ended: &ExecutionEnd) {
        record(span, ended);
        let service = &self.inner.service.0;
        for metrics in [&service.metrics, &self.inner.metrics] {
            match ended {
                Ok(executed) => metrics.executed(request.door, executed),
                // The execution counts neither as refused, because it ran, nor as executed, because its duration is
                // unknown.
                Err(failed) if failed.is_suspended() => {}
                Err(failed) => metrics.refused(request.door, failed.code),
            }
        }
        if let (Some(audit), Some(source)) = (&service.audit, request.source) {
            let session = request.session.as_ref().map(SessionId::as_str);
            audit.write(&AuditSubject { door: request.door, tenant: &self.inner.config.name, session }, &source, ended);
        }
    }
}
