//! Executions in steps: the client answers the tool calls.

use std::{sync::Arc, time::Duration};

use glovebox::{AdvanceError, CancelToken, ExecuteError, Execution, Started, Step, ToolAnswer, ToolRequest};
use glovebox_sessions::{ActiveSession, SessionId};

use super::{
    NotInFleet, Tenant, Watch, Work,
    executing::CancelOnDrop,
    generation,
    suspended::{Ended, Output, Stepping, Taken},
};
use crate::{Door, Service, ServiceError, service::ExecutionPermit};

/// Timeout for a cancelled execution to end.
const END_TIME: Duration = Duration::from_secs(5);

/// The state of an execution after a step.
#[derive(Debug)]
pub enum Stepped<T> {
    /// The execution has finished.
    Done(T),
    /// The execution is suspended until its tool calls are answered.
    NeedsTools(NeedsTools),
}

/// A suspended execution and the calls it waits for.
#[derive(Clone, Debug)]
pub struct NeedsTools {
    /// The name of the execution, for [`Tenant::go_on_then`].
    pub execution: String,
    /// The tool calls to answer.
    pub calls: Vec<ToolRequest>,
    /// The time after which the execution is cancelled without an answer.
    pub expires_after: Duration,
}

impl Tenant {
    /// Starts a script with tools that the client answers ([`Tool::stepped`](glovebox::Tool::stepped)), and runs it
    /// until it has finished or needs answers. Maps the result of a finished script with `then` on the blocking thread.
    ///
    /// # Errors
    /// Fails if the script cannot be run, and with the errors of `then`. An error that the script raises is part of the
    /// result.
    pub async fn start_then<T: Send + 'static>(
        &self,
        door: Door,
        mut work: Work,
        return_files: Vec<String>,
        watch: Watch,
        then: impl FnOnce(Ended) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<Stepped<T>, ServiceError> {
        let session = work.session().cloned();
        let admitted = async {
            self.check_tools()?;
            if session.is_some() {
                self.check_stored(NotInFleet::Stepping)?;
            }
            work.script().offer(self.callbacks())?;
            self.check_rate()?;
            self.admit_stepped(session.as_ref()).await
        };
        let (suspended, held) = admitted.await.inspect_err(|error| self.refused(door, error))?;
        let (tenant, cancel) = (self.clone(), self.inner.service.token());
        let guard = CancelOnDrop(cancel.clone());
        let cancelled = cancel.clone();
        let _hook = watch.cancel.as_ref().map(|cancel| cancel.on_cancel(move || cancelled.cancel()));
        let stepped = Service::blocking(move || {
            let output = Output::default();
            output.set(watch.on_output);
            let source = work.script().source.clone();
            let begun = tenant.begin(&mut work, &cancel, &output);
            let (started, active) =
                begun.inspect_err(|error| tenant.note(door, session.as_ref(), &source, Err(error)))?;
            let (own, turn, place) = held.into_parts();
            let stepping = Stepping {
                started,
                active,
                output,
                cancel,
                door,
                session,
                source,
                return_files,
                _suspended: suspended,
                _own: own,
                _turn: turn,
            };
            tenant.step(SessionId::random().to_string(), stepping, Vec::new(), place, then)
        })
        .await??;
        guard.disarm_if(matches!(stepped, Stepped::NeedsTools(_)));
        Ok(stepped)
    }

    /// Answers calls of a suspended execution, and runs it until it has finished or needs further answers.
    ///
    /// # Errors
    /// Fails if the execution does not exist, if another request is resuming it, or if an answer is invalid, and with
    /// the errors of `then`. If no answer was taken, the call may be repeated.
    pub async fn go_on_then<T: Send + 'static>(
        &self,
        execution: &str,
        answers: Vec<ToolAnswer>,
        watch: Watch,
        then: impl FnOnce(Ended) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<Stepped<T>, ServiceError> {
        self.check_tools()?;
        if self.inner.service.is_draining() {
            return Err(ServiceError::Draining);
        }
        let back = match self.inner.suspended.take(execution)? {
            Taken::Ended(ended) => return Service::blocking(move || then((*ended)?)).await?.map(Stepped::Done),
            Taken::Waiting(back) => back,
        };
        // If admission fails or the future is dropped, `back` returns the execution to the suspended ones.
        let place = self.inner.service.admit(self.name()).await?;
        let tenant = self.clone();
        let Some((id, stepping)) = back.keep() else { return Err(ServiceError::Panicked) };
        let guard = CancelOnDrop(stepping.cancel.clone());
        let cancelled = stepping.cancel.clone();
        let _hook = watch.cancel.as_ref().map(|cancel| cancel.on_cancel(move || cancelled.cancel()));
        let stepped = Service::blocking(move || {
            stepping.output.set(watch.on_output);
            tenant.step(id, stepping, answers, place, then)
        })
        .await?;
        let goes_on = match &stepped {
            Ok(Stepped::Done(_)) => false,
            Ok(Stepped::NeedsTools(_)) => true,
            Err(error) => error.is_about_an_answer(),
        };
        guard.disarm_if(goes_on);
        stepped
    }

    /// Cancels a suspended execution, or discards a result that no client has fetched.
    ///
    /// # Errors
    /// Fails if the execution does not exist.
    pub async fn cancel(&self, execution: &str) -> Result<(), ServiceError> {
        self.check_tools()?;
        let Some(stepping) = self.inner.suspended.remove(execution)? else { return Ok(()) };
        let tenant = self.clone();
        Service::blocking(move || drop(tenant.end(stepping))).await
    }

    /// Starts the work. Called on a blocking thread.
    fn begin(
        &self,
        work: &mut Work,
        cancel: &CancelToken,
        output: &Output,
    ) -> Result<(Started, Option<ActiveSession>), ServiceError> {
        match work {
            Work::Fresh(fresh) => {
                let files = std::mem::take(&mut fresh.files);
                let sandbox = self.sandbox(fresh.language, fresh.runtime.as_deref(), files, &fresh.policy)?;
                let wants_value = !fresh.script.without_value;
                let request = fresh.script.request().value(wants_value).cancel(cancel).on_output(output.listener());
                Ok((sandbox.start(request)?, None))
            }
            Work::InSession(target, script) => {
                self.check(target)?;
                let active = self.inner.sessions.open(&target.id)?.activate()?;
                let request = script.request().cancel(cancel).on_output(output.listener());
                let started = active.start(request)?;
                Ok((started, Some(active)))
            }
        }
    }

    /// Runs the execution until it has finished or needs answers. Called on a blocking thread.
    fn step<T>(
        &self,
        id: String,
        stepping: Stepping,
        answers: Vec<ToolAnswer>,
        place: ExecutionPermit,
        then: impl FnOnce(Ended) -> Result<T, ServiceError>,
    ) -> Result<Stepped<T>, ServiceError> {
        let result = stepping.started.advance(answers, None);
        stepping.output.set(None);
        // A suspended execution does not occupy a place.
        drop(place);
        match result {
            Ok(Step::Done(execution)) => {
                self.inner.suspended.forget(&id);
                then(self.finish(stepping, Ok(execution))?).map(Stepped::Done)
            }
            Ok(Step::NeedsTools(calls)) => {
                let expires_after = self.suspend(id.clone(), stepping, true);
                Ok(Stepped::NeedsTools(NeedsTools { execution: id, calls, expires_after }))
            }
            // `advance` returns `Running` only with a timeout.
            Ok(Step::Running) => Err(ServiceError::Panicked),
            Err(error @ (AdvanceError::UnknownCall { .. } | AdvanceError::NotJson { .. })) => {
                self.suspend(id, stepping, false);
                Err(error.into())
            }
            Err(error) => {
                self.inner.suspended.forget(&id);
                then(self.finish(stepping, Err(error))?).map(Stepped::Done)
            }
        }
    }
}

impl Tenant {
    /// Cancels an execution and waits for its end. Called on a blocking thread.
    pub(super) fn end(&self, stepping: Stepping) -> Result<Ended, ServiceError> {
        stepping.cancel.cancel();
        self.result(stepping, END_TIME)
    }

    /// Waits up to `wait` for the end of an execution that has ended or is about to.
    pub(super) fn result(&self, stepping: Stepping, wait: Duration) -> Result<Ended, ServiceError> {
        let end = std::time::Instant::now() + wait;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            match stepping.started.advance(Vec::new(), Some(left)) {
                Ok(Step::Done(execution)) => return self.finish(stepping, Ok(execution)),
                Err(error) => return self.finish(stepping, Err(error)),
                Ok(_) if left.is_zero() => return Err(ServiceError::Panicked),
                // Unanswered calls are returned again immediately.
                Ok(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Saves the session, and records the execution in the audit log.
    fn finish(&self, stepping: Stepping, result: Result<Arc<Execution>, AdvanceError>) -> Result<Ended, ServiceError> {
        let executed = match (&stepping.active, result) {
            (_, Err(error)) => {
                if let (Some(active), AdvanceError::Execute(error)) = (&stepping.active, &error)
                    && matches!(**error, ExecuteError::Commit { .. })
                {
                    // The script has run. The error about its files matters more than a second one about the session.
                    let _ = active.save();
                }
                Err(ServiceError::from(error))
            }
            (None, Ok(execution)) => Ok(Arc::unwrap_or_clone(execution)),
            (Some(active), Ok(execution)) => {
                active.save_after(Ok(Arc::unwrap_or_clone(execution))).map_err(ServiceError::from)
            }
        };
        let session = stepping.session.as_ref();
        self.note(stepping.door, session, &stepping.source, executed.as_ref());
        let generation = session.and_then(|id| self.record(id).ok()).as_ref().map(generation);
        Ok(Ended { execution: executed?, generation, return_files: stepping.return_files })
    }
}
