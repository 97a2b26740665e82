//! Execution of a tenant's scripts, in new interpreters and in sessions.

use std::{
    collections::HashMap,
    sync::{MutexGuard, PoisonError},
};

use glovebox::{CancelToken, Diagnostic, Execution, Language, Policy, Request, Sandbox};
use glovebox_sessions::SessionId;
use serde_json::{Map, Value};
use tracing::{Span, field::Empty, info_span};

use super::{Fresh, Script, Target, Tenant, Watch, generation};
use crate::{
    Door, SPANS, Service, ServiceError,
    audit::{AuditSubject, Ended, Executed, Failed},
    error::known_code,
    grant::narrowed,
};

/// Cancels an execution when its caller is gone.
pub(super) struct CancelOnDrop(pub(super) CancelToken);

impl CancelOnDrop {
    /// Does not cancel on drop if `goes_on`.
    pub(super) fn disarm_if(mut self, goes_on: bool) {
        if goes_on {
            self.0 = CancelToken::new();
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Creates the span of an execution, as a child of the caller's span.
pub(crate) fn execution_span(asking: &Span) -> Span {
    info_span!(
        target: SPANS, parent: asking, "execution",
        glovebox.language = Empty, glovebox.runtime = Empty, glovebox.outcome = Empty, glovebox.fuel = Empty,
    )
}

/// Records the result of an execution in its span. Output and error messages of the script are left out.
pub(crate) fn record(span: &Span, ended: &Ended) {
    match ended {
        Ok(executed) => {
            span.record("glovebox.language", executed.language.name());
            span.record("glovebox.runtime", &*executed.runtime);
            span.record("glovebox.outcome", &*executed.outcome);
            span.record("glovebox.fuel", executed.fuel);
        }
        Err(failed) => {
            span.record("glovebox.outcome", &*failed.code);
        }
    }
}

impl Tenant {
    /// Runs a script in a new interpreter.
    ///
    /// # Errors
    /// Fails if the script cannot be run. An error that the script raises is part of the [`Execution`].
    pub async fn execute(&self, door: Door, fresh: Fresh, watch: Watch) -> Result<Execution, ServiceError> {
        self.execute_then(door, fresh, watch, Ok).await
    }

    /// Like [`execute`](Self::execute), but maps the result with `then` on the blocking thread.
    ///
    /// # Errors
    /// Fails like [`execute`](Self::execute), and with the errors of `then`.
    pub async fn execute_then<T: Send + 'static>(
        &self,
        door: Door,
        fresh: Fresh,
        watch: Watch,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let tenant = self.clone();
        let Fresh { script, language, runtime, files, policy } = fresh;
        let wants_value = !script.without_value;
        let run = move |request: Request<'_>| {
            let sandbox = tenant.sandbox(language, runtime.as_deref(), files, &policy)?;
            Ok(sandbox.run(request.value(wants_value))?)
        };
        self.run(door, None, script, watch, run, then).await
    }

    /// Checks a source with the language's own parser, without running it.
    ///
    /// # Errors
    /// Fails like [`execute`](Self::execute). Syntax errors are diagnostics.
    pub async fn validate(&self, fresh: Fresh) -> Result<Vec<Diagnostic>, ServiceError> {
        self.check_rate()?;
        self.work(None, move |tenant| {
            let Fresh { mut script, language, runtime, policy, .. } = fresh;
            let sandbox = tenant.sandbox(language, runtime.as_deref(), Vec::new(), &policy)?;
            Ok(sandbox.validate_request(script.request())?)
        })
        .await
    }

    /// Runs a script in a session.
    ///
    /// # Errors
    /// Fails if the script cannot be run, or if the session is not at the expected generation. An error that the script
    /// raises is part of the [`Execution`].
    pub async fn execute_in(
        &self,
        door: Door,
        target: Target,
        script: Script,
        watch: Watch,
    ) -> Result<Execution, ServiceError> {
        self.execute_in_then(door, target, script, watch, |execution, _| Ok(execution)).await
    }

    /// Like [`execute_in`](Self::execute_in), but maps the result and the session's new generation with `then` on the
    /// blocking thread.
    ///
    /// # Errors
    /// Fails like [`execute_in`](Self::execute_in), and with the errors of `then`.
    pub async fn execute_in_then<T: Send + 'static>(
        &self,
        door: Door,
        target: Target,
        script: Script,
        watch: Watch,
        then: impl FnOnce(Execution, Option<String>) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        if let Some(fleet) = &self.inner.fleet {
            return self.execute_in_fleet(fleet, door, target, script, watch, then).await;
        }
        let (tenant, id) = (self.clone(), target.id.clone());
        let run = move |request: Request<'_>| {
            tenant.check(&target)?;
            Ok(tenant.inner.sessions.open(&target.id)?.run(request)?)
        };
        let (tenant, session) = (self.clone(), id.clone());
        let then = move |execution| then(execution, tenant.record(&session).ok().as_ref().map(generation));
        self.run(door, Some(&id), script, watch, run, then).await
    }

    /// Runs a script, counts it and records it in the audit log.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        door: Door,
        session: Option<&SessionId>,
        mut script: Script,
        watch: Watch,
        execute: impl FnOnce(Request<'_>) -> Result<Execution, ServiceError> + Send + 'static,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let admitted = async {
            self.check_here()?;
            script.offer(self.callbacks())?;
            self.check_rate()?;
            self.admit(session).await
        };
        let held = admitted.await.inspect_err(|error| self.refused(door, error))?;
        let (tenant, session) = (self.clone(), session.cloned());
        let token = self.inner.service.token();
        let _cancel = CancelOnDrop(token.clone());
        let cancelled = token.clone();
        let _hook = watch.cancel.as_ref().map(|cancel| cancel.on_cancel(move || cancelled.cancel()));
        let asking = Span::current();
        Service::blocking(move || {
            let _held = held;
            let span = execution_span(&asking);
            let _entered = span.enter();
            let mut request = script.request().cancel(&token);
            if let Some(on_output) = watch.on_output {
                request = request.on_output(on_output);
            }
            let result = execute(request);
            record(&span, &result.as_ref().map(Executed::from).map_err(Failed::from));
            tenant.note(door, session.as_ref(), &script.source, result.as_ref());
            then(result?)
        })
        .await?
    }

    /// Counts a request that was refused before it was admitted. Such requests are not recorded in the audit log,
    /// because a client can repeat them as often as it likes.
    pub(crate) fn refused(&self, door: Door, error: &ServiceError) {
        for metrics in [&self.inner.service.0.metrics, &self.inner.metrics] {
            metrics.refused(door, error.code());
        }
    }

    /// Counts and records an execution. In a worker, reports it to the parent process instead.
    pub(super) fn note(
        &self,
        door: Door,
        session: Option<&SessionId>,
        source: &str,
        result: Result<&Execution, &ServiceError>,
    ) {
        let ended = result.map(Executed::from).map_err(Failed::from);
        match &self.report {
            Some(report) => report.ended(ended),
            None => self.note_ended(door, session, source, &ended),
        }
    }

    /// Counts and records an execution of this process or of a worker.
    pub(crate) fn note_ended(&self, door: Door, session: Option<&SessionId>, source: &str, ended: &Ended) {
        let service = &self.inner.service.0;
        for metrics in [&service.metrics, &self.inner.metrics] {
            match ended {
                Ok(executed) => metrics.executed(door, executed),
                Err(failed) => metrics.refused(door, known_code(&failed.code)),
            }
        }
        if let Some(audit) = &service.audit {
            let asked = AuditSubject { door, tenant: &self.inner.name, session: session.map(SessionId::as_str) };
            audit.write(&asked, audit.source(source), ended);
        }
    }

    /// Returns the sandbox for a new interpreter. Called on a blocking thread.
    pub(super) fn sandbox(
        &self,
        language: Option<Language>,
        runtime: Option<&str>,
        files: Vec<(String, Vec<u8>)>,
        policy: &Map<String, Value>,
    ) -> Result<Sandbox, ServiceError> {
        let name = &self.inner.service.runtime(language, runtime)?.name;
        if !files.is_empty() || !policy.is_empty() {
            return self.build(name, narrowed(&self.inner.policy, policy)?, files);
        }
        if let Some(sandbox) = self.sandboxes().get(name) {
            return Ok(sandbox.clone());
        }
        let built = self.build(name, self.inner.policy.clone(), files)?;
        // If two were built at once, the first one stays.
        Ok(self.sandboxes().entry(name.clone()).or_insert(built).clone())
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<String, Sandbox>> {
        self.inner.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, runtime: &str, policy: Policy, files: Vec<(String, Vec<u8>)>) -> Result<Sandbox, ServiceError> {
        let mut builder = Sandbox::builder(&self.inner.service.0.engine).runtime(runtime).policy(policy);
        for tool in &self.inner.tools {
            builder = builder.tool(tool.clone());
        }
        for (path, bytes) in files {
            builder = builder.file(path, bytes);
        }
        Ok(builder.build()?)
    }
}
