//! The executor that keeps a tenant's sessions only in this process's memory.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{
    CancelToken, Execution, HibernateError, HibernateOptions, HibernatedInfo, ResumeOptions, Session, SessionOptions,
    Suspended, Timestamp,
};
use glovebox_sessions::{SessionId, SessionsError};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{
    BoxFuture, Completion, Executor, FinishedJob, InProcess, Job, NOT_STEPPED, SessionAnswer, SessionCall,
    SessionOperation, SessionReply, SteppedExecution, ValidationResult,
    in_process::{engine_request, stepped_request},
    live::LiveSessions,
    local_execution::{LocalExecution, UndoFn},
};
use crate::{
    ChangeResult, FreshScript, Service, ServiceError, SessionPage, SessionSummary, SessionTarget, Work, json::JsonCost,
    tenant::generation,
};

/// Maximum total size of the policies of all sessions, as parsed values, in bytes.
const MAX_POLICIES_BYTES: usize = 64 << 20;

/// The executor that keeps sessions in memory, and runs everything else with another executor in this process.
///
/// Sessions are never saved. A session that has ended stays until it is closed or has been idle for too long, so that
/// its clients learn the reason.
pub(crate) struct InMemory(Arc<SessionsInMemory>);

struct SessionsInMemory {
    here: Arc<InProcess>,
    /// Cancels code that sessions run outside of requests.
    stop: CancelToken,
    sessions: Mutex<BTreeMap<SessionId, Arc<SessionInMemory>>>,
}

/// A session of an [`InMemory`] executor.
struct SessionInMemory {
    id: SessionId,
    session: Session,
    created_at: Timestamp,
    /// The memory that the session's policy occupies as parsed values, in bytes.
    policy_bytes: usize,
    usage: Mutex<Usage>,
}

struct Usage {
    /// Incremented by every change. A new session has generation 1.
    generation: u64,
    changed_at: Timestamp,
    used_at: Instant,
}

impl InMemory {
    pub(crate) fn new(service: &Service, here: &Arc<InProcess>) -> Self {
        let here = Arc::clone(here);
        Self(Arc::new(SessionsInMemory { here, stop: service.token(), sessions: Mutex::default() }))
    }
}

impl Executor for InMemory {
    fn check_operation(&self, operation: &SessionOperation) -> Result<(), ServiceError> {
        match operation {
            SessionOperation::Hibernate { .. } => Err(ServiceError::Unsupported(
                "this server keeps sessions only in memory, so it cannot hibernate them; export the session's state \
                 instead",
            )),
            _ => Ok(()),
        }
    }

    fn check_work(&self, work: &Work, is_stepped: bool) -> Result<(), ServiceError> {
        match work {
            Work::InSession(_, script) if !is_stepped && script.is_suspendable() => {
                Err(ServiceError::Unsupported(NOT_STEPPED))
            }
            _ => Ok(()),
        }
    }

    fn open_sessions(&self) -> Option<usize> {
        Some(self.0.sessions.lock().len())
    }

    fn end_idle(&self, idle: Duration) {
        let is_used = |session: &Arc<SessionInMemory>| {
            // A session in use has a second reference, which a request or a suspended execution holds.
            Arc::strong_count(session) > 1 || session.usage.lock().used_at.elapsed() < idle
        };
        let mut ended = Vec::new();
        self.0.sessions.lock().retain(|_, session| {
            let is_used = is_used(session);
            if !is_used {
                ended.push(Arc::clone(session));
            }
            is_used
        });
        // Drop the sessions after unlocking the map, because freeing an interpreter takes time.
        drop(ended);
    }

    fn run(self: Arc<Self>, job: Job, done: Completion) {
        let Job { work, cancel, on_output, span } = job;
        let (target, mut script) = match work {
            Work::InSession(target, script) => (target, script),
            work => return Arc::clone(&self.0.here).run(Job { work, cancel, on_output, span }, done),
        };
        let sessions = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            let _entered = span.entered();
            done(sessions.find_expected(&target).and_then(|session| {
                let executed = session.session.run(engine_request(&mut script, &cancel, on_output));
                session.count_execution(executed.map_err(ServiceError::from))
            }));
        });
    }

    fn validate(&self, fresh: FreshScript) -> BoxFuture<'_, Result<ValidationResult, ServiceError>> {
        self.0.here.validate(fresh)
    }

    fn session(&self, call: SessionCall) -> BoxFuture<'_, Result<SessionReply, ServiceError>> {
        self.0.perform_blocking(call)
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Box<dyn SteppedExecution>, ServiceError>> {
        Box::pin(async move {
            let Job { work, cancel, on_output, span } = job;
            let (target, mut script) = match work {
                Work::InSession(target, script) => (target, script),
                work => return self.0.here.start(Job { work, cancel, on_output, span }).await,
            };
            let sessions = Arc::clone(&self.0);
            let start = move || {
                let suspended = sessions.here.take_suspended(&mut script)?;
                let current = sessions.find_expected(&target)?;
                // This reference keeps the session in use until the script has ended.
                let session = match &suspended {
                    Some(suspended) => sessions.restore_suspended(&current, suspended)?,
                    None => Arc::clone(&current),
                };
                let key = sessions.here.suspended_key();
                let request = stepped_request(&mut script, suspended.as_ref(), false).cancel(&cancel);
                let mut undo: Option<UndoFn> = None;
                let execution = LocalExecution::start(request, on_output, key, |request| {
                    let started = session.session.start(request)?;
                    // If the execution cannot be started, or its script differs from the suspended one, the session
                    // keeps its state.
                    if !Arc::ptr_eq(&current, &session) {
                        sessions.replace(&current, Arc::clone(&session))?;
                        let (sessions, restored) = (Arc::clone(&sessions), Arc::clone(&session));
                        // Ignore the error: the session was closed in the meantime.
                        undo = Some(Box::new(move || drop(sessions.replace(&restored, current))));
                    }
                    let finish = move |executed: Result<Execution, ServiceError>, is_undone: bool| {
                        if is_undone {
                            let generation = sessions.find(&target.id).ok().map(|session| session.generation());
                            return Ok(FinishedJob::local(executed?, generation));
                        }
                        session.count_execution(executed)
                    };
                    Ok((started, Box::new(finish)))
                })?;
                Ok::<_, ServiceError>(execution.in_memory(undo))
            };
            Ok(Box::new(Service::blocking(start).await??) as Box<dyn SteppedExecution>)
        })
    }
}

impl SessionsInMemory {
    fn find(&self, id: &SessionId) -> Result<Arc<SessionInMemory>, ServiceError> {
        let found = self.sessions.lock().get(id).cloned();
        let session = found.ok_or_else(|| SessionsError::NotFound { id: id.clone() })?;
        session.usage.lock().used_at = Instant::now();
        Ok(session)
    }

    /// Returns a session. Fails if its generation is not the expected one.
    fn find_expected(&self, target: &SessionTarget) -> Result<Arc<SessionInMemory>, ServiceError> {
        let session = self.find(&target.id)?;
        target.check(session.generation())?;
        Ok(session)
    }

    /// Fails if the session `id` already exists, or if creating it would exceed a limit. The caller must serialize the
    /// creation of sessions.
    fn check_new(&self, id: &SessionId, policy_bytes: usize, max: usize) -> Result<(), ServiceError> {
        let sessions = self.sessions.lock();
        if sessions.contains_key(id) {
            return Err(SessionsError::Exists { id: id.clone() }.into());
        }
        if sessions.len() >= max {
            return Err(ServiceError::TooMany { what: "sessions", max, remedy: "close one first" });
        }
        let all = sessions.values().map(|session| session.policy_bytes).fold(policy_bytes, usize::saturating_add);
        if all > MAX_POLICIES_BYTES {
            let (what, remedy) = ("bytes for the policies of sessions", "close a session, or send a smaller policy");
            return Err(ServiceError::TooMany { what, max: MAX_POLICIES_BYTES, remedy });
        }
        Ok(())
    }

    fn resume(&self, id: &SessionId, policy: Map<String, Value>, state: &[u8]) -> Result<Session, ServiceError> {
        let unusable = |source| SessionsError::Resume { id: id.clone(), source: Box::new(source) };
        let HibernatedInfo { language, runtime, .. } =
            HibernatedInfo::read(state).map_err(|error| unusable(error.widened()))?;
        let (language, runtime) = (Some(language), Some(runtime));
        let sandbox = self.here.sandbox(&mut FreshScript { language, runtime, policy, ..FreshScript::default() })?;
        let options = ResumeOptions::default().id(id.as_str()).cancel(&self.stop);
        Ok(sandbox.resume(state, options).map_err(unusable)?)
    }

    /// Restores the state before a suspended execution, as a new generation of the session `old`.
    fn restore_suspended(
        &self,
        old: &SessionInMemory,
        suspended: &Suspended,
    ) -> Result<Arc<SessionInMemory>, ServiceError> {
        let id = &old.id;
        let options = ResumeOptions::default().id(id.as_str()).cancel(&self.stop);
        let restored = old.session.sandbox().resume_suspended_session(suspended, options);
        let session = restored.map_err(|source| SessionsError::Resume { id: id.clone(), source: Box::new(source) })?;
        let (created_at, policy_bytes) = (old.created_at, old.policy_bytes);
        let generation = old.usage.lock().generation + 1;
        let changed_at = Timestamp::now().max(created_at);
        let usage = Mutex::new(Usage { generation, changed_at, used_at: Instant::now() });
        Ok(Arc::new(SessionInMemory { id: id.clone(), session, created_at, policy_bytes, usage }))
    }

    /// Replaces a session. Must be called while no other request uses the session.
    ///
    /// # Errors
    /// Fails if the session was closed in the meantime.
    fn replace(&self, old: &Arc<SessionInMemory>, new: Arc<SessionInMemory>) -> Result<(), ServiceError> {
        match self.sessions.lock().get_mut(&old.id) {
            // The caller drops the old session after unlocking the map, because freeing an interpreter takes time.
            Some(current) if Arc::ptr_eq(current, old) => {
                *current = new;
                Ok(())
            }
            _ => Err(SessionsError::NotFound { id: old.id.clone() }.into()),
        }
    }

    fn add(&self, id: SessionId, policy_bytes: usize, session: Session) -> SessionAnswer {
        let (created_at, used_at) = (Timestamp::now(), Instant::now());
        let usage = Mutex::new(Usage { generation: 1, changed_at: created_at, used_at });
        let session = Arc::new(SessionInMemory { id: id.clone(), session, created_at, policy_bytes, usage });
        let answer = SessionAnswer::from(&*session);
        self.sessions.lock().insert(id, session);
        answer
    }

    fn list(&self, after: Option<&SessionId>, limit: Option<usize>) -> SessionPage {
        let limit = limit.unwrap_or(usize::MAX);
        let mut page = SessionPage::default();
        for session in self.sessions.lock().values().filter(|session| after.is_none_or(|after| session.id > *after)) {
            if page.sessions.len() == limit {
                page.next = page.sessions.last().map(|last: &SessionSummary| last.id.clone());
                break;
            }
            page.sessions.push(session.summary());
        }
        page
    }
}

impl LiveSessions for SessionsInMemory {
    fn perform(&self, call: SessionCall) -> Result<SessionReply, ServiceError> {
        let SessionCall { operation, bytes, mut room } = call;
        Ok(match operation {
            SessionOperation::Open { id, language, runtime, context, policy, max } => {
                let policy_bytes = parsed_bytes(&policy)?;
                self.check_new(&id, policy_bytes, max)?;
                let sandbox =
                    self.here.sandbox(&mut FreshScript { language, runtime, policy, ..FreshScript::default() })?;
                let mut options = SessionOptions::default().id(id.as_str()).cancel(&self.stop);
                options.context = context;
                self.add(id, policy_bytes, sandbox.open_session(options)?).into()
            }
            SessionOperation::Import { id, policy, max } => {
                let policy_bytes = parsed_bytes(&policy)?;
                self.check_new(&id, policy_bytes, max)?;
                let session = self.resume(&id, policy, &bytes)?;
                self.add(id, policy_bytes, session).into()
            }
            SessionOperation::Fork { target, fork, max } => {
                let original = self.find_expected(&target)?;
                self.check_new(&fork, original.policy_bytes, max)?;
                let options = SessionOptions::default().id(fork.as_str()).cancel(&self.stop);
                let session = original.session.fork_with(options)?;
                self.add(fork, original.policy_bytes, session).into()
            }
            SessionOperation::List { after, limit } => SessionAnswer::Page(self.list(after.as_ref(), limit)).into(),
            SessionOperation::Describe { id } => SessionAnswer::from(&*self.find(&id)?).into(),
            SessionOperation::Close { target } => {
                let session = self.find_expected(&target)?;
                self.sessions.lock().remove(&target.id);
                // Ignore the error, so that a session that has already ended can be closed.
                let _ = session.session.close();
                SessionAnswer::Done.into()
            }
            SessionOperation::Remove { id } => {
                let removed = self.sessions.lock().remove(&id);
                SessionAnswer::Removed(removed.is_some()).into()
            }
            SessionOperation::Export { id } => {
                let state = self.find(&id)?.session.hibernate(&HibernateOptions::default());
                let bytes = state.map_err(|error| unsaved(id, error))?;
                SessionReply { bytes, ..SessionAnswer::Exported.into() }
            }
            operation => self.perform_live(operation, &bytes, &mut room)?,
        })
    }

    fn read<T>(
        &self,
        id: &SessionId,
        read: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        read(&self.find(id)?.session)
    }

    fn change<T>(
        &self,
        target: &SessionTarget,
        change: impl FnOnce(&Session) -> Result<T, ServiceError>,
    ) -> Result<ChangeResult<T>, ServiceError> {
        let session = self.find_expected(target)?;
        let value = change(&session.session)?;
        Ok(ChangeResult { value, generation: Some(session.count_change()) })
    }
}

/// Returns the memory that a session's policy occupies as parsed values, in bytes.
fn parsed_bytes(policy: &Map<String, Value>) -> Result<usize, ServiceError> {
    if policy.is_empty() {
        return Ok(0);
    }
    let text = serde_json::to_string(policy).map_err(|error| ServiceError::Invalid(error.to_string()))?;
    let cost = JsonCost::of(text.as_bytes()).map_err(|error| ServiceError::Invalid(error.to_string()))?;
    Ok(text.len() + cost)
}

fn unsaved(id: SessionId, error: HibernateError) -> ServiceError {
    match error {
        HibernateError::Session(error) => error.into(),
        error => SessionsError::Save { id, source: Box::new(error) }.into(),
    }
}

impl SessionInMemory {
    /// Counts an execution as a change. A failed commit also changes the generation, because the script has run.
    fn count_execution(&self, executed: Result<Execution, ServiceError>) -> Result<FinishedJob, ServiceError> {
        if executed.as_ref().map_or_else(ServiceError::has_run, |_| true) {
            self.count_change();
        }
        Ok(FinishedJob::local(executed?, Some(self.generation())))
    }

    /// Counts a change and returns the new generation.
    fn count_change(&self) -> String {
        let mut usage = self.usage.lock();
        usage.generation += 1;
        (usage.changed_at, usage.used_at) = (Timestamp::now().max(self.created_at), Instant::now());
        drop(usage);
        self.generation()
    }

    fn generation(&self) -> String {
        generation(self.created_at, self.usage.lock().generation)
    }

    fn summary(&self) -> SessionSummary {
        let (info, sandbox) = (self.session.info(), self.session.sandbox());
        // Read outside the struct literal: a lock taken in the literal would be held until its end, and `generation`
        // would deadlock.
        let updated_at = self.usage.lock().changed_at;
        SessionSummary {
            id: self.id.clone(),
            language: sandbox.language(),
            runtime: sandbox.runtime_name().to_owned(),
            version: sandbox.version().map(str::to_owned),
            created_at: self.created_at,
            updated_at,
            executions: info.executions,
            generation: self.generation(),
            files: None,
            bytes: 0,
            live: Some(info),
        }
    }
}

impl From<&SessionInMemory> for SessionAnswer {
    fn from(session: &SessionInMemory) -> Self {
        Self::Session(Box::new(session.summary()))
    }
}
