//! The executor that runs a tenant's scripts and sessions in this process.

use std::{collections::HashMap, fmt, sync::Arc};

use glovebox::{
    BuildError, CancelToken, Execution, IfExists, Policy, Request, Sandbox, SandboxBuilder, Session, SessionKey,
    Stream, Suspended, SuspendedBytesError, Tool,
};
use glovebox_sessions::{
    ActiveSession, NewSession, PageRequest, Save, SessionGuard, SessionId, SessionRecord, SessionStore, Sessions,
    SessionsError,
};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{
    BoxFuture, Completion, Executor, FinishedJob, Job, NOT_STEPPED, SessionAnswer, SessionCall, SessionOperation,
    SessionReply, SteppedExecution, ValidationResult, live::LiveSessions, local_execution::LocalExecution,
};
use crate::{
    ChangeResult, FreshScript, OnOutput, Script, Service, ServiceError, SessionSummary, SessionTarget, TenantConfig,
    Work, grant::narrowed, tenant::generation,
};

type NetworkAdder =
    dyn Fn(SandboxBuilder, &Policy, &Map<String, Value>) -> Result<SandboxBuilder, ServiceError> + Send + Sync;

/// A callback that adds the policy's network to a sandbox in a process without network access. The map argument
/// contains the request's changes to the tenant's policy.
#[derive(Clone)]
pub(crate) struct AddNetwork(pub(crate) Arc<NetworkAdder>);

impl fmt::Debug for AddNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddNetwork").finish_non_exhaustive()
    }
}

/// The executor that runs a tenant's work with the engine in this process.
pub(crate) struct InProcess(Arc<InProcessInner>);

struct InProcessInner {
    service: Service,
    policy: Policy,
    tools: Vec<Tool>,
    add_network: Option<AddNetwork>,
    /// The key that seals suspended executions.
    suspended_key: Option<SessionKey>,
    /// Sandboxes with the unchanged policy of the tenant, keyed by runtime name.
    sandboxes: Mutex<HashMap<String, Sandbox>>,
    sessions: Sessions,
}

impl InProcess {
    /// Creates the executor of a tenant with its sessions in `store`. Other tenants cannot resume the tenant's
    /// suspended executions.
    pub(crate) fn new(service: &Service, config: &TenantConfig, store: Arc<dyn SessionStore>) -> Self {
        let TenantConfig { name, policy, tools, key, add_network, .. } = config;
        // A session must be saved before the response is sent. Each save changes the session's generation.
        let mut store_policy = config.store_policy.clone();
        store_policy.save = Save::AfterEach;
        let (made, granted, offered, network) = (service.clone(), policy.clone(), tools.clone(), add_network.clone());
        let mut sessions = Sessions::builder(store).policy(store_policy).stop(&service.token());
        sessions = sessions.make_sandbox(move |language, runtime| {
            // Use the default if the runtime is not served. `prepare` has already rejected most operations on such a
            // session.
            let runtime = made.runtime(Some(language), runtime).map(|info| info.name.clone());
            let mut builder = Sandbox::builder(&made.0.engine).language(language).policy(granted.clone());
            if let Ok(runtime) = runtime {
                builder = builder.runtime(runtime);
            }
            if let Some(add) = &network {
                builder = (add.0)(builder, &granted, &Map::new()).map_err(build_error)?;
            }
            offered.iter().cloned().fold(builder, SandboxBuilder::tool).build()
        });
        if let Some(key) = key {
            sessions = sessions.key(key.clone());
        }
        Self(Arc::new(InProcessInner {
            service: service.clone(),
            policy: policy.clone(),
            tools: tools.clone(),
            add_network: add_network.clone(),
            suspended_key: key.as_ref().map(|key| key.derived(&format!("suspended executions of {name}"))),
            sandboxes: Mutex::default(),
            sessions: sessions.build(),
        }))
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Returns the sandbox for a new interpreter. Must be called on a blocking thread.
    pub(crate) fn sandbox(&self, fresh: &mut FreshScript) -> Result<Sandbox, ServiceError> {
        self.0.sandbox(fresh)
    }

    /// Takes the suspended execution that a script resumes in a session, and reads its bytes.
    pub(super) fn take_suspended(&self, script: &mut Script) -> Result<Option<Suspended>, ServiceError> {
        self.0.suspended(script, true)
    }

    /// Returns the key that seals the tenant's suspended executions.
    pub(super) fn suspended_key(&self) -> Option<SessionKey> {
        self.0.suspended_key.clone()
    }
}

/// Converts an error from opening a network to a build error.
fn build_error(error: ServiceError) -> BuildError {
    match error {
        ServiceError::Build(error) => error,
        other => glovebox::PolicyError::Network { key: "allow".into(), reason: other.public().to_string() }.into(),
    }
}

impl Executor for InProcess {
    fn run(self: Arc<Self>, job: Job, done: Completion) {
        let local = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let Job { mut work, cancel, on_output, span } = job;
            let _entered = span.entered();
            done(local.run(&mut work, &cancel, on_output));
        });
    }

    fn validate(&self, mut fresh: FreshScript) -> BoxFuture<'_, Result<ValidationResult, ServiceError>> {
        Box::pin(async move {
            let local = Arc::clone(&self.0);
            Service::blocking(move || {
                fresh.files.clear();
                let sandbox = local.sandbox(&mut fresh)?;
                Ok((sandbox.validate_request(fresh.script.request())?, None))
            })
            .await?
        })
    }

    fn session(&self, call: SessionCall) -> BoxFuture<'_, Result<SessionReply, ServiceError>> {
        self.0.perform_blocking(call)
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Box<dyn SteppedExecution>, ServiceError>> {
        Box::pin(async move {
            let local = Arc::clone(&self.0);
            let Job { work, cancel, on_output, span } = job;
            let start = move || span.in_scope(|| local.start(work, &cancel, on_output));
            let started = Service::blocking(start).await??;
            Ok(Box::new(started) as Box<dyn SteppedExecution>)
        })
    }
}

/// Builds the engine's request for a script.
pub(super) fn engine_request<'a>(
    script: &'a mut Script,
    cancel: &'a CancelToken,
    on_output: Option<OnOutput>,
) -> Request<'a> {
    let request = script.request().cancel(cancel);
    match on_output {
        Some(mut on_output) => request.on_output(move |stream: Stream, bytes: &[u8]| on_output(stream, bytes)),
        None => request,
    }
}

/// Builds the engine's request for a stepwise execution, which starts `script` or resumes `suspended` with its tools.
/// `wants_value` has no effect in a session or if an execution is resumed.
pub(super) fn stepped_request<'a>(
    script: &'a mut Script,
    suspended: Option<&'a Suspended>,
    wants_value: bool,
) -> Request<'a> {
    let Some(suspended) = suspended else {
        let is_suspendable = script.suspendable;
        return script.request().suspendable(is_suspendable).value(wants_value);
    };
    let request = suspended.request().approvals(true).tools(std::mem::take(&mut script.tools));
    match script.cancel_after {
        Some(after) => request.cancel_after(after),
        None => request,
    }
}

impl InProcessInner {
    fn run(
        &self,
        work: &mut Work,
        cancel: &CancelToken,
        on_output: Option<OnOutput>,
    ) -> Result<FinishedJob, ServiceError> {
        if work.script().is_suspendable() {
            return Err(ServiceError::Unsupported(NOT_STEPPED));
        }
        match work {
            Work::Fresh(fresh) => {
                let sandbox = self.sandbox(fresh)?;
                let wants_value = !fresh.script.without_value;
                let request = engine_request(&mut fresh.script, cancel, on_output).value(wants_value);
                Ok(FinishedJob::local(sandbox.run(request)?, None))
            }
            Work::InSession(target, script) => {
                self.prepare(target)?;
                let execution = self.sessions.open(&target.id)?.run(engine_request(script, cancel, on_output))?;
                Ok(FinishedJob::local(execution, self.generation(&target.id)))
            }
        }
    }

    /// Starts or resumes a stepwise execution. Must be called on a blocking thread.
    fn start(
        self: &Arc<Self>,
        work: Work,
        cancel: &CancelToken,
        on_output: Option<OnOutput>,
    ) -> Result<LocalExecution, ServiceError> {
        let key = self.suspended_key.clone();
        match work {
            Work::Fresh(mut fresh) => {
                let suspended = self.suspended(&mut fresh.script, false)?;
                if let Some(suspended) = &suspended
                    && fresh.language.is_none()
                    && fresh.runtime.is_none()
                {
                    fresh.runtime = Some(suspended.runtime_name().to_owned());
                }
                let sandbox = self.sandbox(&mut fresh)?;
                let wants_value = !fresh.script.without_value;
                let request = stepped_request(&mut fresh.script, suspended.as_ref(), wants_value).cancel(cancel);
                LocalExecution::start(request, on_output, key, |request| {
                    Ok((sandbox.start(request)?, Box::new(|executed, _| Ok(FinishedJob::local(executed?, None)))))
                })
            }
            Work::InSession(target, mut script) => {
                let suspended = self.suspended(&mut script, true)?;
                let active = match &suspended {
                    Some(suspended) => self.load_restored_session(&target, suspended)?,
                    None => self.load_session(&target, Some(cancel))?,
                };
                let has_saved = suspended.is_some() && script.saves_restored;
                if has_saved {
                    active.save()?;
                }
                let request = stepped_request(&mut script, suspended.as_ref(), false).cancel(cancel);
                let local = Arc::clone(self);
                LocalExecution::start(request, on_output, key, |request| {
                    // If the execution cannot be started, the session keeps its stored state.
                    let started = active.start(request)?;
                    let finish = move |executed: Result<Execution, ServiceError>, is_undone: bool| {
                        if is_undone && !has_saved {
                            // Dropping the unsaved session restores the stored state.
                            return Ok(FinishedJob::local(executed?, local.generation(&target.id)));
                        }
                        local.save_session(&active, &target.id, executed)
                    };
                    Ok((started, Box::new(finish)))
                })
            }
        }
    }

    fn save_session(
        &self,
        active: &ActiveSession,
        id: &SessionId,
        executed: Result<Execution, ServiceError>,
    ) -> Result<FinishedJob, ServiceError> {
        let execution = executed.inspect_err(|_| {
            // The script may have run, for example if its files could not be written to a host directory. Ignore
            // errors, because the result is already an error.
            let _ = active.save();
        })?;
        Ok(FinishedJob::local(active.save_after(Ok(execution))?, self.generation(id)))
    }

    /// Takes the suspended execution that a script resumes, and reads its bytes. Fails if it was suspended in a session
    /// but is resumed outside one, or vice versa.
    fn suspended(&self, script: &mut Script, in_session: bool) -> Result<Option<Suspended>, ServiceError> {
        let Some(resumption) = script.resumption.take() else { return Ok(None) };
        let suspended = match Suspended::from_bytes(&resumption.suspended, self.suspended_key.as_ref()) {
            Ok(suspended) => suspended,
            Err(SuspendedBytesError::KeyMissing) => {
                return Err(ServiceError::Invalid(
                    "the suspended execution was sealed with a key; resume it on a server with the same `key_file`"
                        .to_owned(),
                ));
            }
            Err(error) => return Err(error.into()),
        };
        match (suspended.is_in_session() || suspended.session_id().is_some(), in_session) {
            (true, false) => Err(ServiceError::Invalid(
                "the execution was suspended in a session; set `session` to the session to resume it in".to_owned(),
            )),
            (false, true) => {
                Err(ServiceError::Invalid("the execution was suspended outside a session; remove `session`".to_owned()))
            }
            _ => Ok(Some(suspended)),
        }
    }

    /// Returns the sandbox for a new interpreter, with its initial files.
    fn sandbox(&self, fresh: &mut FreshScript) -> Result<Sandbox, ServiceError> {
        let name = &self.service.runtime(fresh.language, fresh.runtime.as_deref())?.name;
        let files = std::mem::take(&mut fresh.files);
        if !files.is_empty() || !fresh.policy.is_empty() {
            return self.build(name, narrowed(&self.policy, &fresh.policy)?, &fresh.policy, files);
        }
        if let Some(sandbox) = self.sandboxes.lock().get(name) {
            return Ok(sandbox.clone());
        }
        let built = self.build(name, self.policy.clone(), &fresh.policy, files)?;
        // If two threads build the same sandbox simultaneously, both use the sandbox that was stored first.
        Ok(self.sandboxes.lock().entry(name.clone()).or_insert(built).clone())
    }

    fn build(
        &self,
        runtime: &str,
        policy: Policy,
        changes: &Map<String, Value>,
        files: Vec<(String, Vec<u8>)>,
    ) -> Result<Sandbox, ServiceError> {
        let mut builder = Sandbox::builder(&self.service.0.engine).runtime(runtime);
        if let Some(add) = &self.add_network {
            builder = (add.0)(builder, &policy, changes)?;
        }
        builder = self.tools.iter().cloned().fold(builder.policy(policy), SandboxBuilder::tool);
        Ok(files.into_iter().fold(builder, |builder, (path, bytes)| builder.file(path, bytes)).build()?)
    }
}

impl InProcessInner {
    /// Creates a session unless `max` sessions exist. The caller must serialize calls.
    fn make(
        &self,
        id: SessionId,
        max: usize,
        make: impl FnOnce(SessionId) -> Result<SessionGuard, SessionsError>,
    ) -> Result<SessionSummary, ServiceError> {
        if self.sessions.count(max)? >= max {
            return Err(ServiceError::TooMany { what: "sessions", max, remedy: "close one first" });
        }
        self.service.make_room(&self.policy.limits, &self.sessions, &id);
        make(id.clone())?;
        self.summary(&id)
    }

    fn close(&self, target: &SessionTarget) -> Result<SessionAnswer, ServiceError> {
        self.check_generation(target)?;
        match self.sessions.close(&target.id) {
            Ok(()) => {}
            Err(error @ (SessionsError::NotFound { .. } | SessionsError::InUse { .. })) => return Err(error.into()),
            // A session that cannot be resumed can still be removed.
            Err(_) => drop(self.sessions.delete(&target.id)?),
        }
        Ok(SessionAnswer::Done)
    }

    /// Loads a session. Fails if its generation is not the expected one.
    fn load_session(
        &self,
        target: &SessionTarget,
        cancel: Option<&CancelToken>,
    ) -> Result<ActiveSession, ServiceError> {
        self.prepare(target)?;
        Ok(self.sessions.open(&target.id)?.activate_unless(cancel)?)
    }

    /// Loads a session in the state before a suspended execution. Fails if its generation is not the expected one.
    fn load_restored_session(
        &self,
        target: &SessionTarget,
        suspended: &Suspended,
    ) -> Result<ActiveSession, ServiceError> {
        self.prepare(target)?;
        // Check the generation again under the session's lock, because another process can change the session before
        // that.
        self.sessions.open(&target.id)?.restore_suspended(suspended, |record| target.check(generation_of(record)))
    }

    /// Returns a session's description.
    fn summary(&self, id: &SessionId) -> Result<SessionSummary, ServiceError> {
        Ok(SessionSummary { live: self.sessions.live_info(id), ..self.record(id)?.into() })
    }

    /// Returns a session's stored record.
    fn record(&self, id: &SessionId) -> Result<SessionRecord, ServiceError> {
        let record = self.sessions.record(id)?;
        Ok(record.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?)
    }

    /// Returns the session's current generation.
    fn generation(&self, id: &SessionId) -> Option<String> {
        self.record(id).ok().as_ref().map(generation_of)
    }

    /// Makes room in memory for a session. Fails if its generation is not the expected one, or if its runtime is not
    /// served.
    fn prepare(&self, target: &SessionTarget) -> Result<(), ServiceError> {
        let record = self.check_generation(target)?;
        self.service.make_room(&self.policy.limits, &self.sessions, &target.id);
        self.service.runtime(Some(record.language), Some(&record.runtime)).map(drop)
    }

    /// Checks only the generation, for operations that need no runtime. Returns the session's record.
    fn check_generation(&self, target: &SessionTarget) -> Result<SessionRecord, ServiceError> {
        let record = self.record(&target.id)?;
        target.check(generation_of(&record))?;
        Ok(record)
    }
}

fn generation_of(record: &SessionRecord) -> String {
    generation(record.created_at, record.generation)
}

impl LiveSessions for InProcessInner {
    fn perform(&self, call: SessionCall) -> Result<SessionReply, ServiceError> {
        let SessionCall { operation, bytes, mut room } = call;
        let sessions = &self.sessions;
        Ok(match operation {
            SessionOperation::Open { id, language, runtime, context, max, .. } => {
                let runtime = self.service.runtime(language, runtime.as_deref())?;
                let mut new = NewSession::default().language(runtime.language).runtime(&runtime.name);
                new.context = context;
                SessionAnswer::Session(Box::new(self.make(id, max, |id| sessions.create(id, new))?)).into()
            }
            SessionOperation::Fork { target, fork, max } => {
                self.check_generation(&target)?;
                SessionAnswer::Session(Box::new(self.make(fork, max, |fork| sessions.fork(&target.id, fork))?)).into()
            }
            SessionOperation::Import { id, max, .. } => {
                let made = self.make(id, max, |id| sessions.import(id, &bytes, IfExists::Fail))?;
                SessionAnswer::Session(Box::new(made)).into()
            }
            SessionOperation::List { after, limit } => {
                let Some(limit) = limit else { return Ok(SessionAnswer::Page(sessions.list_all()?.into()).into()) };
                let page = PageRequest::new(limit).map_err(|error| ServiceError::Invalid(error.to_string()))?;
                SessionAnswer::Page(sessions.list(&page.after(after))?.into()).into()
            }
            SessionOperation::Describe { id } => SessionAnswer::Session(Box::new(self.summary(&id)?)).into(),
            SessionOperation::Hibernate { target } => {
                self.check_generation(&target)?;
                let value = sessions.hibernate(&target.id)?;
                SessionAnswer::Hibernated(ChangeResult { value, generation: self.generation(&target.id) }).into()
            }
            SessionOperation::Close { target } => self.close(&target)?.into(),
            SessionOperation::Remove { id } => SessionAnswer::Removed(sessions.delete(&id)?).into(),
            SessionOperation::Export { id } => {
                SessionReply { bytes: sessions.export(&id)?, ..SessionAnswer::Exported.into() }
            }
            operation => self.perform_live(operation, &bytes, &mut room)?,
        })
    }

    fn read<T>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let active = self.load_session(&id.into(), None)?;
        read(&active)
    }

    fn inspect<T>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let active = self.load_session(&id.into(), None)?;
        read(active.unchanged())
    }

    /// Changes a session outside an execution, and saves the session.
    fn change<T>(
        &self,
        target: &SessionTarget,
        change: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<ChangeResult<T>, ServiceError> {
        let active = self.load_session(target, None)?;
        let value = change(&active)?;
        active.save()?;
        Ok(ChangeResult { value, generation: self.generation(&target.id) })
    }
}
