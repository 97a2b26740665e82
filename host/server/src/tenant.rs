//! One who may use the service.

use std::{
    collections::HashMap,
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use glovebox::{
    AwakeSession, CancelToken, CheckpointId, CheckpointInfo, Diagnostic, ExecuteError, Execution, FilesError,
    GuestValue, IfExists, JsonText, KeptInfo, Language, NewSession, Policy, Request, Sandbox, SessionFiles,
    SessionGuard, SessionId, SessionKey, SessionRecord, SessionStore, Sessions, SessionsError, SourceKind, StorePolicy,
    Stream, Tool,
};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter, clock::Clock as _};
use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::{Door, Service, ServiceError, grant::narrowed, service::Place};

/// How a tenant is set up.
#[derive(Debug)]
pub struct TenantConfig {
    /// Its name, in the audit log.
    pub name: String,
    /// What it is granted: what its executions have where they ask for nothing, and the most that they may ask for.
    pub policy: Policy,
    /// Tools that its scripts may call.
    pub tools: Vec<Tool>,
    /// Where its sessions are kept. No other tenant may have the same.
    pub store: Arc<dyn SessionStore>,
    /// When sessions are written and put to rest.
    pub store_policy: StorePolicy,
    /// Seals its sessions.
    pub key: Option<SessionKey>,
    /// How many sessions it may have, live or not. Default 1,000.
    pub sessions: usize,
    /// How many of its executions may run or wait at once. Default 64.
    pub executions_at_once: usize,
    /// How many executions it may ask for in a minute. Default: any number.
    pub executions_per_minute: Option<NonZeroU32>,
}

impl TenantConfig {
    /// The defaults, over a store.
    pub fn new(name: impl Into<String>, store: Arc<dyn SessionStore>) -> Self {
        Self {
            name: name.into(),
            policy: Policy::default(),
            tools: Vec::new(),
            store,
            store_policy: StorePolicy::default(),
            key: None,
            sessions: 1_000,
            executions_at_once: 64,
            executions_per_minute: None,
        }
    }
}

/// A script, and what goes with it this once.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The source.
    pub source: String,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    pub name: Option<String>,
    /// How JavaScript is parsed.
    pub kind: SourceKind,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// The global variable `context`.
    pub context: Option<JsonText>,
    /// Cancels it after this time.
    pub cancel_after: Option<Duration>,
}

impl Script {
    fn request(&self) -> Request<'_> {
        let mut request = Request::new(&self.source).kind(self.kind).stdin(&self.stdin);
        if let Some(name) = &self.name {
            request = request.name(name);
        }
        if let Some(context) = &self.context {
            request = request.context_text(context.clone());
        }
        if let Some(time) = self.cancel_after {
            request = request.cancel_after(time);
        }
        request
    }
}

/// A script for a new interpreter with new files.
#[derive(Clone, Debug, Default)]
pub struct Fresh {
    /// The script.
    pub script: Script,
    /// Its language. Default: the runtime's, or that of the first runtime that is served.
    pub language: Option<Language>,
    /// Its runtime, by name or alias.
    pub runtime: Option<String>,
    /// The files in the workspace when it begins.
    pub files: Vec<(String, Vec<u8>)>,
    /// What it asks for of the tenant's policy, by the policy's own names.
    pub policy: Map<String, Value>,
    /// Tools of the caller, which whoever steps through the execution answers.
    pub tools: Vec<Tool>,
}

/// Called with what a guest writes.
pub type OnOutput = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// Who watches an execution. Whoever drops the future of an execution cancels it.
#[derive(Default)]
pub struct Watch {
    /// Called with what the guest writes, as it writes it.
    pub on_output: Option<OnOutput>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("on_output", &self.on_output.is_some()).finish()
    }
}

/// One who may use the service: a policy, sessions that no other tenant sees, and quotas. Cheap to clone.
#[derive(Clone)]
pub struct Tenant(Arc<Inner>);

struct Inner {
    service: Service,
    name: String,
    policy: Policy,
    tools: Vec<Tool>,
    /// By the runtime's name, with the tenant's own policy.
    sandboxes: Mutex<HashMap<String, Sandbox>>,
    sessions: Sessions,
    max_sessions: usize,
    /// Held while a session is made, so that their number is what was counted.
    making: Mutex<()>,
    turns: Turns,
    max_executions: usize,
    executions: Arc<Semaphore>,
    rate: Option<(NonZeroU32, DefaultDirectRateLimiter)>,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// Whose turn it is in a session. They wait here, where that holds up no thread, and not in the session.
#[derive(Default)]
struct Turns(Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    fn of(&self, id: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(id).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(id.clone(), Arc::downgrade(&turn));
        turn
    }
}

/// What is held while something is done for a tenant. It goes with the work, and not with whoever asked: a client that leaves has not ended
/// what it asked for.
struct Held {
    _own: OwnedSemaphorePermit,
    _turn: Option<OwnedMutexGuard<()>>,
    _place: Place,
}

/// Cancels what nobody waits for any more.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Tenant {
    /// A tenant of this service.
    #[must_use]
    pub fn new(service: &Service, config: TenantConfig) -> Self {
        let TenantConfig { name, policy, tools, store, store_policy, key, sessions: max_sessions, .. } = config;
        let (made, granted, offered) = (service.clone(), policy.clone(), tools.clone());
        let mut sessions = Sessions::builder(store).policy(store_policy).make_sandbox(move |language, runtime| {
            // A session of a runtime that is not served is refused before.
            let runtime = made.runtime(Some(language), runtime).map(|info| info.name.clone());
            let mut builder = Sandbox::builder(&made.0.engine).language(language).policy(granted.clone());
            if let Ok(runtime) = runtime {
                builder = builder.runtime(runtime);
            }
            offered.iter().cloned().fold(builder, glovebox::SandboxBuilder::tool).build()
        });
        if let Some(key) = key {
            sessions = sessions.key(key);
        }
        let rate = config.executions_per_minute.map(|most| (most, RateLimiter::direct(Quota::per_minute(most))));
        Self(Arc::new(Inner {
            service: service.clone(),
            name,
            policy,
            tools,
            sandboxes: Mutex::default(),
            sessions: sessions.build(),
            max_sessions,
            making: Mutex::default(),
            turns: Turns::default(),
            max_executions: config.executions_at_once,
            executions: Arc::new(Semaphore::new(config.executions_at_once.clamp(1, Semaphore::MAX_PERMITS))),
            rate,
        }))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.0.service
    }

    /// What it is granted.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The tools that its scripts may call.
    pub fn tools(&self) -> &[Tool] {
        &self.0.tools
    }

    /// Its sessions, for what blocks: hibernating those that are idle, or all of them at the end.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Runs a script in a new interpreter.
    ///
    /// # Errors
    /// When it could not be carried out. What the script does is never an error.
    pub async fn execute(&self, door: Door, fresh: Fresh, watch: Watch) -> Result<Execution, ServiceError> {
        self.execute_then(door, fresh, watch, Ok).await
    }

    /// The same, and makes something of it on the execution's thread, where that holds nobody up.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), and those of `then`.
    pub async fn execute_then<T: Send + 'static>(
        &self,
        door: Door,
        fresh: Fresh,
        watch: Watch,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let tenant = self.clone();
        let Fresh { script, language, runtime, files, policy, tools } = fresh;
        let run = move |request: Request<'_>| {
            let sandbox = tenant.sandbox(language, runtime.as_deref(), files, &policy, &tools)?;
            Ok(sandbox.run(request)?)
        };
        self.run(door, None, script, watch, run, then).await
    }

    /// What the language's own parser says about a source.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub async fn validate(&self, fresh: Fresh) -> Result<Vec<Diagnostic>, ServiceError> {
        self.check_rate()?;
        self.work(None, move |tenant| {
            let Fresh { script, language, runtime, policy, .. } = fresh;
            let sandbox = tenant.sandbox(language, runtime.as_deref(), Vec::new(), &policy, &[])?;
            Ok(sandbox.validate_request(script.request())?)
        })
        .await
    }

    /// Opens a session; without an id it has one of 128 random bits. `None` as language and runtime means the first that is served.
    ///
    /// # Errors
    /// When there is one of this name, or one more may not be.
    pub async fn open(
        &self,
        id: Option<SessionId>,
        language: Option<Language>,
        runtime: Option<&str>,
        context: Option<JsonText>,
    ) -> Result<SessionRecord, ServiceError> {
        let runtime = self.0.service.runtime(language, runtime)?;
        let mut new = NewSession::default().language(runtime.language).runtime(&runtime.name);
        new.context = context;
        let id = id.map_or_else(random_id, Ok)?;
        self.work(None, move |tenant| tenant.make(&id, |sessions, id| sessions.create(id, new))).await
    }

    /// A second session of one.
    ///
    /// # Errors
    /// As [`open`](Self::open), and when there is no such session.
    pub async fn fork(&self, id: &SessionId, fork: Option<SessionId>) -> Result<SessionRecord, ServiceError> {
        let (original, fork) = (id.clone(), fork.map_or_else(random_id, Ok)?);
        self.work(Some(id), move |tenant| tenant.make(&fork, |sessions, fork| sessions.fork(&original, fork))).await
    }

    /// Makes a session where one more may be. Called on a thread that may block.
    fn make(
        &self,
        id: &SessionId,
        make: impl FnOnce(&Sessions, SessionId) -> Result<SessionGuard, SessionsError>,
    ) -> Result<SessionRecord, ServiceError> {
        let _making = self.0.making.lock().unwrap_or_else(PoisonError::into_inner);
        let (sessions, most) = (&self.0.sessions, self.0.max_sessions);
        if sessions.store().list().map_err(SessionsError::from)?.len() >= most {
            return Err(ServiceError::TooMany { what: "sessions", most });
        }
        make(sessions, id.clone())?;
        self.record(id)
    }

    /// Every session, in the order of their names.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self) -> Result<Vec<KeptInfo>, ServiceError> {
        self.work(None, |tenant| Ok(tenant.0.sessions.list()?)).await
    }

    /// A session's record.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn session(&self, id: &SessionId) -> Result<SessionRecord, ServiceError> {
        let id = id.clone();
        self.work(None, move |tenant| tenant.record(&id)).await
    }

    /// Runs a script in a session. `expected` is what the session's [`generation`] must be; none: any.
    ///
    /// # Errors
    /// When it could not be carried out, or the session is another than was expected. What the script does is never an error.
    pub async fn execute_in(
        &self,
        door: Door,
        id: &SessionId,
        script: Script,
        expected: Option<&str>,
        watch: Watch,
    ) -> Result<Execution, ServiceError> {
        self.execute_in_then(door, id, script, expected, watch, |execution, _| Ok(execution)).await
    }

    /// The same, and makes something of it, and of the session's generation then, on the execution's thread, where that holds nobody up.
    ///
    /// # Errors
    /// As [`execute_in`](Self::execute_in), and those of `then`.
    pub async fn execute_in_then<T: Send + 'static>(
        &self,
        door: Door,
        id: &SessionId,
        script: Script,
        expected: Option<&str>,
        watch: Watch,
        then: impl FnOnce(Execution, Option<String>) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (tenant, session, expected) = (self.clone(), id.clone(), expected.map(str::to_owned));
        let run = move |request: Request<'_>| {
            tenant.check_generation(&session, expected.as_deref())?;
            tenant.check_runtime(&session)?;
            Ok(tenant.0.sessions.open(&session)?.run(request)?)
        };
        let (tenant, session) = (self.clone(), id.clone());
        let then = move |execution| then(execution, tenant.record(&session).ok().as_ref().map(generation));
        self.run(door, Some(id), script, watch, run, then).await
    }

    /// Saves the state of a session, to come back to it.
    ///
    /// # Errors
    /// When there is no such session, or no room.
    pub async fn checkpoint(&self, id: &SessionId) -> Result<CheckpointId, ServiceError> {
        self.change(id, |session| session.checkpoint()).await
    }

    /// Sets a session back: to a checkpoint, or to before its last execution.
    ///
    /// # Errors
    /// When there is no such session or state.
    pub async fn undo(&self, id: &SessionId, to: Option<CheckpointId>) -> Result<CheckpointId, ServiceError> {
        self.change(id, move |session| match to {
            Some(checkpoint) => session.undo_to(checkpoint).map(|()| checkpoint),
            None => session.undo(),
        })
        .await
    }

    /// Writes a session to the store and gives up its memory. Whether it was in memory.
    ///
    /// # Errors
    /// When there is no such session, or it cannot be written.
    pub async fn hibernate(&self, id: &SessionId) -> Result<bool, ServiceError> {
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            tenant.record(&session)?;
            Ok(tenant.0.sessions.hibernate(&session)?)
        })
        .await
    }

    /// Ends a session and removes it. Exit handlers of one that can be resumed run.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn close(&self, id: &SessionId) -> Result<(), ServiceError> {
        self.check_rate()?;
        let session = id.clone();
        self.work(Some(id), move |tenant| match tenant.0.sessions.close(&session) {
            Ok(()) => Ok(()),
            Err(error @ (SessionsError::NotFound { .. } | SessionsError::InUse { .. })) => Err(error.into()),
            // One that cannot be resumed can still be removed.
            Err(_) => Ok(tenant.0.sessions.delete(&session).map(drop)?),
        })
        .await
    }

    /// The states that a session can be set back to, oldest first.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn checkpoints(&self, id: &SessionId) -> Result<Vec<CheckpointInfo>, ServiceError> {
        self.with_session(id, |session| Ok(session.checkpoints()?)).await
    }

    /// A global variable of a session.
    ///
    /// # Errors
    /// When there is no such session, or the value cannot be had.
    pub async fn get_variable(&self, id: &SessionId, name: String) -> Result<Option<GuestValue>, ServiceError> {
        self.check_rate()?;
        self.with_session(id, move |session| Ok(session.get_variable(&name)?)).await
    }

    /// Sets a global variable of a session, and saves it.
    ///
    /// # Errors
    /// When there is no such session, or the guest refuses the value.
    pub async fn set_variable(&self, id: &SessionId, name: String, json: JsonText) -> Result<(), ServiceError> {
        self.check_rate()?;
        self.change(id, move |session| session.set_variable_text(&name, &json)).await
    }

    /// Looks at the files of a session.
    ///
    /// # Errors
    /// When there is no such session, or what was asked was refused.
    pub async fn files<T: Send + 'static>(
        &self,
        id: &SessionId,
        ask: impl FnOnce(&SessionFiles) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        self.with_session(id, move |session| Ok(ask(&session.files())?)).await
    }

    /// Changes the files of a session, and saves it.
    ///
    /// # Errors
    /// When there is no such session, or what was asked was refused.
    pub async fn change_files<T: Send + 'static>(
        &self,
        id: &SessionId,
        change: impl FnOnce(&SessionFiles) -> Result<T, FilesError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        self.change(id, move |session| change(&session.files())).await
    }

    /// A session as bytes.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn export(&self, id: &SessionId) -> Result<Vec<u8>, ServiceError> {
        let session = id.clone();
        self.work(Some(id), move |tenant| Ok(tenant.0.sessions.export(&session)?)).await
    }

    /// A session of bytes that [`export`](Self::export) gave.
    ///
    /// # Errors
    /// When there is one of this name, one more may not be, or the bytes are not a session's.
    pub async fn import(&self, id: SessionId, bytes: Vec<u8>) -> Result<SessionRecord, ServiceError> {
        self.work(Some(&id.clone()), move |tenant| {
            tenant.make(&id, |sessions, id| sessions.import(id, &bytes, IfExists::Fail))
        })
        .await
    }

    /// Changes a session outside of any script, and saves it.
    async fn change<T: Send + 'static, E: 'static>(
        &self,
        id: &SessionId,
        change: impl FnOnce(&AwakeSession) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ServiceError>
    where
        ServiceError: From<E>,
    {
        self.with_session(id, move |session| {
            let changed = change(session)?;
            session.save()?;
            Ok(changed)
        })
        .await
    }

    async fn with_session<T: Send + 'static>(
        &self,
        id: &SessionId,
        work: impl FnOnce(&AwakeSession) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let session = id.clone();
        self.work(Some(id), move |tenant| {
            tenant.check_runtime(&session)?;
            work(&tenant.0.sessions.open(&session)?.awake()?)
        })
        .await
    }

    /// Does something on a thread that may block, once it is the tenant's turn, the session's where one is named, and the service's.
    async fn work<T: Send + 'static>(
        &self,
        id: Option<&SessionId>,
        work: impl FnOnce(&Self) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let held = self.admit(id).await?;
        let tenant = self.clone();
        Service::blocking(move || {
            let _held = held;
            work(&tenant)
        })
        .await?
    }

    async fn admit(&self, id: Option<&SessionId>) -> Result<Held, ServiceError> {
        let own = self.own_turn()?;
        let turn = match id {
            Some(id) => Some(self.turn(id).await?),
            None => None,
        };
        Ok(Held { _own: own, _turn: turn, _place: self.0.service.admit().await? })
    }

    /// Runs a script, counts it and writes it down.
    async fn run<T: Send + 'static>(
        &self,
        door: Door,
        session: Option<&SessionId>,
        script: Script,
        watch: Watch,
        execute: impl FnOnce(Request<'_>) -> Result<Execution, ServiceError> + Send + 'static,
        then: impl FnOnce(Execution) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let admitted = match self.check_rate() {
            Ok(()) => self.admit(session).await,
            Err(error) => Err(error),
        };
        let held = match admitted {
            Ok(held) => held,
            Err(error) => {
                // Counted, and not written down: whoever is refused can ask as often as they like.
                self.0.service.0.metrics.refused(door, &error);
                return Err(error);
            }
        };
        let (tenant, session) = (self.clone(), session.cloned());
        let token = self.0.service.token();
        let _cancel = CancelOnDrop(token.clone());
        Service::blocking(move || {
            let _held = held;
            let mut request = script.request().cancel(&token);
            if let Some(on_output) = watch.on_output {
                request = request.on_output(on_output);
            }
            let result = execute(request);
            tenant.note(door, session.as_ref(), &script.source, result.as_ref());
            then(result?)
        })
        .await?
    }

    /// Counts an execution and writes it down.
    fn note(&self, door: Door, session: Option<&SessionId>, source: &str, result: Result<&Execution, &ServiceError>) {
        let service = &self.0.service.0;
        match result {
            Ok(execution) => service.metrics.executed(door, execution),
            Err(error) => service.metrics.refused(door, error),
        }
        if let Some(audit) = &service.audit {
            audit.write(door, &self.0.name, session.map(SessionId::as_str), source, result);
        }
    }

    /// One of the executions that the tenant may have at once.
    fn own_turn(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        let most = self.0.max_executions;
        Arc::clone(&self.0.executions)
            .try_acquire_owned()
            .map_err(|_| ServiceError::TooMany { what: "executions of this token", most })
    }

    fn check_rate(&self) -> Result<(), ServiceError> {
        let Some((per_minute, limiter)) = &self.0.rate else { return Ok(()) };
        limiter.check().map_err(|not_until| ServiceError::Rate {
            per_minute: per_minute.get(),
            retry_after: not_until.wait_time_from(governor::clock::DefaultClock::default().now()),
        })
    }

    /// The session's turn: what is asked of it comes one after another.
    async fn turn(&self, id: &SessionId) -> Result<OwnedMutexGuard<()>, ServiceError> {
        let turn = self.0.turns.of(id);
        let most = self.0.policy.limits.timeout();
        let busy = |_| ServiceError::from(ExecuteError::SessionBusy { id: id.to_string() });
        tokio::time::timeout(most, turn.lock_owned()).await.map_err(busy)
    }

    /// Called on a thread that may block, in the session's turn.
    fn check_generation(&self, id: &SessionId, expected: Option<&str>) -> Result<(), ServiceError> {
        let Some(expected) = expected else { return Ok(()) };
        let has = generation(&self.record(id)?);
        if has == expected {
            return Ok(());
        }
        Err(ServiceError::Generation { expected: expected.to_owned(), has })
    }

    /// Called on a thread that may block.
    fn record(&self, id: &SessionId) -> Result<SessionRecord, ServiceError> {
        let record = self.0.sessions.store().record(id).map_err(SessionsError::from)?;
        Ok(record.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?)
    }

    /// Refuses a session whose runtime is not served. Called on a thread that may block.
    fn check_runtime(&self, id: &SessionId) -> Result<(), ServiceError> {
        let record = self.record(id)?;
        self.0.service.runtime(Some(record.language), Some(&record.runtime)).map(drop)
    }

    /// A sandbox for a new interpreter. Called on a thread that may block.
    fn sandbox(
        &self,
        language: Option<Language>,
        runtime: Option<&str>,
        files: Vec<(String, Vec<u8>)>,
        policy: &Map<String, Value>,
        tools: &[Tool],
    ) -> Result<Sandbox, ServiceError> {
        let name = &self.0.service.runtime(language, runtime)?.name;
        if files.is_empty() && policy.is_empty() {
            let known = self.0.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
            let sandbox = match known {
                Some(sandbox) => sandbox,
                None => {
                    let built = self.build(name, self.0.policy.clone(), files)?;
                    let mut sandboxes = self.0.sandboxes.lock().unwrap_or_else(PoisonError::into_inner);
                    sandboxes.entry(name.clone()).or_insert(built).clone()
                }
            };
            return Ok(if tools.is_empty() { sandbox } else { sandbox.with_tools(tools)? });
        }
        let sandbox = self.build(name, narrowed(&self.0.policy, policy)?, files)?;
        Ok(if tools.is_empty() { sandbox } else { sandbox.with_tools(tools)? })
    }

    fn build(&self, runtime: &str, policy: Policy, files: Vec<(String, Vec<u8>)>) -> Result<Sandbox, ServiceError> {
        let mut builder = Sandbox::builder(&self.0.service.0.engine).runtime(runtime).policy(policy);
        for tool in &self.0.tools {
            builder = builder.tool(tool.clone());
        }
        for (path, bytes) in files {
            builder = builder.file(path, bytes);
        }
        Ok(builder.build()?)
    }
}

/// Which state of a session it is: another one after each change, and for another session of the same name.
#[must_use]
pub fn generation(record: &SessionRecord) -> String {
    format!("{}-{}", record.created_at.unix_ms(), record.generation)
}

fn random_id() -> Result<SessionId, ServiceError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| ServiceError::Invalid(format!("no random numbers: {error}")))?;
    Ok(SessionId::new(format!("{:032x}", u128::from_le_bytes(random)))?)
}
