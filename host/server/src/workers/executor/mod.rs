//! The executor that forwards a tenant's work to worker processes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use glovebox::{CancelToken, OnCancel, SessionVariable, Tool, ToolAnswer, ToolDefinition};
use glovebox_sessions::SessionId;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::{
    WorkerChoice, Workers,
    peer::{MAX_SHORT_BYTES, Message, ReplyBudget},
    protocol::{AnswerPart, EntriesReply, RunCall, RunReply, StepReply, ToWorker},
    relay::{TenantRelay, WorkerJobCallbacks},
    slot::LiveWorker,
};
use crate::{
    FreshScript, OnOutput, Service, ServiceError, SessionPage, TenantConfig, Work, byte_budget,
    executor::{
        BoxFuture, Completion, ExecutionFiles, Executor, ExecutorStep, FileAnswer, FileListing, FileOperation,
        FinishedJob, Job, Room, SessionAnswer, SessionCall, SessionOperation, SessionReply, SteppedExecution,
        ValidationResult,
    },
    tenant::BoundedStore,
};

/// Maximum number of attempts to find a random fork name that maps to the original's worker.
const NAMES: usize = 1_000;

/// The executor that forwards a tenant's work to the workers.
pub(crate) struct WorkerProcesses {
    service: Service,
    tenant: String,
    tools: Vec<Tool>,
    memory_bytes: u64,
}

impl WorkerProcesses {
    /// Creates a tenant's executor. Workers access the tenant's network through this process. They also access its
    /// store through this process, or at least reserve the bytes of their writes in this process.
    pub(crate) fn new(service: &Service, config: &TenantConfig, store: Arc<BoundedStore>) -> Self {
        let TenantConfig { name, policy, tools, .. } = config;
        service.relays().add(name, TenantRelay::new(policy.clone(), store));
        let memory_bytes = policy.limits.memory_bytes;
        Self { service: service.clone(), tenant: name.clone(), tools: tools.clone(), memory_bytes }
    }

    fn workers(&self) -> Result<&Workers, ServiceError> {
        self.service.workers().ok_or(ServiceError::NoWorker)
    }

    /// Returns the memory budget for the replies to this tenant's calls.
    fn reply_budget(&self) -> Option<ReplyBudget> {
        ReplyBudget::of(&self.service, &self.tenant)
    }

    fn worker_of(&self, id: &SessionId) -> Result<usize, ServiceError> {
        Ok(self.workers()?.worker_of(&self.tenant, id))
    }

    async fn ready(&self, chosen: WorkerChoice) -> Result<Arc<LiveWorker>, ServiceError> {
        self.workers()?.ready(chosen, self.service.wait()).await
    }

    /// Selects the worker for a script: the session's worker, or any worker.
    fn choose(&self, work: &Work) -> Result<WorkerChoice, ServiceError> {
        Ok(match work.session() {
            Some(id) => WorkerChoice::Number(self.worker_of(id)?),
            None => WorkerChoice::Any,
        })
    }

    /// Registers a script's tools and its output callback. Returns the call to the worker and its binary part.
    fn prepare(
        &self,
        live: &LiveWorker,
        mut work: Work,
        on_output: Option<OnOutput>,
    ) -> Result<(RunCall, Vec<u8>), ServiceError> {
        let mut tools = self.tools.clone();
        tools.append(&mut work.script().tools);
        let definitions: Vec<ToolDefinition> = tools.iter().map(Tool::definition).collect();
        let execution = self.workers()?.next_execution();
        let (mut call, bytes) = RunCall::new(self.tenant.clone(), execution, work, definitions);
        call.wants_output = on_output.is_some();
        if call.wants_output || !tools.is_empty() {
            live.begin(execution, WorkerJobCallbacks::new(tools, on_output, self.memory_bytes, self.reply_budget()));
        }
        Ok((call, bytes))
    }

    fn run_on(&self, live: Arc<LiveWorker>, job: Job, done: Completion) {
        let Job { work, cancel, on_output, .. } = job;
        let (call, bytes) = match self.prepare(&live, work, on_output) {
            Ok(prepared) => prepared,
            Err(error) => return done(Err(error)),
        };
        let (execution, wants_files) = (call.execution, call.wants_files);
        let (job, there) = (live.ends(execution), Arc::clone(&live));
        let budget = self.reply_budget();
        live.peer.call_then(&ToWorker::Run(call), bytes, budget.clone(), &cancel, move |reply| {
            drop(job);
            let is_short = reply.as_ref().map_or(0, |reply| reply.json.len()) <= MAX_SHORT_BYTES && !wants_files;
            let left = wants_files.then(|| WorkerFiles::new(&there, execution, budget));
            let finish = move || {
                let reply = reply.and_then(Message::held_result::<RunReply>);
                done(reply.map(|(reply, _, room)| FinishedJob { reply_room: room, ..finished(reply, left) }));
            };
            if is_short {
                finish();
            } else {
                tokio::task::spawn_blocking(finish);
            }
        });
    }

    /// Lists the tenant's sessions. Calls every worker, because each worker reports only its own sessions as live.
    async fn list(&self, operation: SessionOperation) -> Result<SessionReply, ServiceError> {
        let workers = self.workers()?;
        let (mut pages, mut rooms) = (Vec::new(), Vec::new());
        for index in 0..workers.count() {
            let live = self.ready(WorkerChoice::Number(index)).await?;
            let mut reply = self.ask(&live, operation.clone(), Vec::new()).await?;
            rooms.append(&mut reply.rooms);
            pages.push(reply.page()?);
        }
        let page = merged(pages, |id, index| workers.worker_of(&self.tenant, id) == index);
        Ok(SessionReply { rooms, ..SessionAnswer::Page(page).into() })
    }

    async fn ask(
        &self,
        live: &LiveWorker,
        operation: SessionOperation,
        bytes: Vec<u8>,
    ) -> Result<SessionReply, ServiceError> {
        // Callers of `Export` have already reserved memory for the exported session.
        let is_reserved = matches!(operation, SessionOperation::Export { .. });
        let budget = if is_reserved { None } else { self.reply_budget() };
        let call = ToWorker::Session { tenant: self.tenant.clone(), operation };
        session_reply(live, &call, bytes, budget).await
    }

    /// Reads a file or a range of it. Calls `room` with the length of the contents before reading them.
    async fn read_file(
        &self,
        live: &LiveWorker,
        session: SessionId,
        mut operation: FileOperation,
        mut room: Room,
    ) -> Result<SessionReply, ServiceError> {
        let path = operation.subject().to_owned();
        // A read of zero bytes returns the size of the file.
        let nothing = FileOperation::ReadAt { path, offset: 0, length: 0 };
        let nothing = SessionOperation::Files { id: session.clone(), operation: nothing };
        let (FileAnswer::Content { size_bytes }, _) = self.ask(live, nothing, Vec::new()).await?.files()? else {
            return Err(ServiceError::WorkerDied);
        };
        match &mut operation {
            FileOperation::Read { max_bytes, .. } if size_bytes > *max_bytes => {
                return Ok(SessionAnswer::Files(FileAnswer::TooLarge { size_bytes }).into());
            }
            FileOperation::Read { max_bytes, .. } => {
                room.reserve(size_bytes)?;
                *max_bytes = size_bytes;
            }
            FileOperation::ReadAt { offset, length, .. } => {
                *length = size_bytes.saturating_sub(*offset).min(*length);
                room.reserve(*length)?;
            }
            _ => {}
        }
        let operation = SessionOperation::Files { id: session, operation };
        let call = ToWorker::Session { tenant: self.tenant.clone(), operation };
        // `room` has already reserved the memory for the contents.
        session_reply(live, &call, Vec::new(), None).await
    }

    async fn perform(&self, call: SessionCall) -> Result<SessionReply, ServiceError> {
        let SessionCall { operation, bytes, room } = call;
        let Some(id) = operation.worker_session().cloned() else { return self.list(operation).await };
        let worker = self.worker_of(&id)?;
        if let SessionOperation::ChangeFiles { operation: FileOperation::TakeFrom { session }, .. } = &operation
            && self.worker_of(session)? != worker
        {
            return Err(ServiceError::Invalid(format!(
                "cannot replace the files of `{id}` with those of `{session}`: the sessions belong to different workers"
            )));
        }
        let live = self.ready(WorkerChoice::Number(worker)).await?;
        let operation = match operation {
            SessionOperation::Files { id, operation } if room.0.is_some() => {
                return self.read_file(&live, id, operation, room).await;
            }
            operation => operation,
        };
        let fork = if let SessionOperation::Fork { fork, .. } = &operation { Some(fork.clone()) } else { None };
        let reply = self.ask(&live, operation, bytes).await?;
        if let Some(fork) = fork.filter(|fork| self.worker_of(fork).is_ok_and(|other| other != worker)) {
            // Release the fork, so that the worker that owns the fork's name can load it from the store.
            self.ask(&live, SessionOperation::Hibernate { target: (&fork).into() }, Vec::new()).await?;
        }
        Ok(reply)
    }
}

impl Executor for WorkerProcesses {
    fn name_of_fork(&self, of: &SessionId) -> SessionId {
        // Prefer a name that maps to the original's worker, which has the fork in memory.
        let worker = self.worker_of(of).ok();
        let names = std::iter::repeat_with(SessionId::random).take(NAMES);
        names.into_iter().find(|name| self.worker_of(name).ok() == worker).unwrap_or_else(SessionId::random)
    }

    fn run(self: Arc<Self>, job: Job, done: Completion) {
        let chosen = match self.choose(&job.work) {
            Ok(chosen) => chosen,
            Err(error) => return done(Err(error)),
        };
        if let Some(live) = self.service.workers().and_then(|workers| workers.choose(chosen)) {
            return self.run_on(live, job, done);
        }
        tokio::spawn(async move {
            match self.ready(chosen).await {
                Ok(live) => self.run_on(live, job, done),
                Err(error) => done(Err(error)),
            }
        });
    }

    fn validate(&self, fresh: FreshScript) -> BoxFuture<'_, Result<ValidationResult, ServiceError>> {
        Box::pin(async move {
            let live = self.ready(WorkerChoice::Any).await?;
            let (call, bytes) = self.prepare(&live, Work::Fresh(Box::new(fresh)), None)?;
            let _job = live.ends(call.execution);
            let (found, _, room) = live.peer.call_within(&ToWorker::Validate(call), bytes, self.reply_budget()).await?;
            Ok((found, room))
        })
    }

    fn session(&self, call: SessionCall) -> BoxFuture<'_, Result<SessionReply, ServiceError>> {
        Box::pin(self.perform(call))
    }

    fn start(&self, job: Job) -> BoxFuture<'_, Result<Box<dyn SteppedExecution>, ServiceError>> {
        Box::pin(async move {
            let Job { work, cancel, on_output, .. } = job;
            let live = self.ready(self.choose(&work)?).await?;
            let (call, bytes) = self.prepare(&live, work, on_output)?;
            let started: Box<dyn SteppedExecution> = Box::new(WorkerExecution {
                execution: call.execution,
                wants_files: call.wants_files,
                reply_budget: self.reply_budget(),
                ended: CancellationToken::new(),
                runtime: Handle::current(),
                _hook: cancel.on_cancel({
                    let (live, execution, runtime) = (Arc::clone(&live), call.execution, Handle::current());
                    move || live.notify(&runtime, ToWorker::Cancel { execution })
                }),
                cancel,
                script: Mutex::new(Some((call, bytes))),
                is_refused: AtomicBool::default(),
                has_only_repeated: AtomicBool::default(),
                live,
            });
            Ok(started)
        })
    }
}

/// Performs a session operation in a worker. Checks the variables in the reply, because a type checker uses them as
/// source text.
async fn session_reply(
    live: &LiveWorker,
    call: &ToWorker,
    bytes: Vec<u8>,
    budget: Option<ReplyBudget>,
) -> Result<SessionReply, ServiceError> {
    let (mut answer, bytes, room): (SessionAnswer, _, _) = live.peer.call_within(call, bytes, budget).await?;
    if let SessionAnswer::Variables(variables) = &mut answer {
        *variables = variables.take().and_then(SessionVariable::checked);
    }
    Ok(SessionReply { answer, bytes, rooms: room.into_iter().collect() })
}

fn finished(reply: RunReply, there: Option<WorkerFiles>) -> FinishedJob {
    let mut finished = FinishedJob::local(reply.execution, reply.generation);
    if let Some(there) = there {
        finished.files = ExecutionFiles::There(there);
    }
    finished
}

/// Merges the session pages of workers that share a store. Each session's description comes from the worker for which
/// `is_home` returns `true`. The pages were read at different times, and sessions may have changed in between. The
/// result therefore ends at the smallest `next` of all pages.
fn merged(pages: Vec<SessionPage>, is_home: impl Fn(&SessionId, usize) -> bool) -> SessionPage {
    let mut all = SessionPage::default();
    for (index, page) in pages.into_iter().enumerate() {
        all.sessions.extend(page.sessions.into_iter().filter(|session| is_home(&session.id, index)));
        // All workers see the same damaged sessions.
        all.damaged = page.damaged;
        all.next = all.next.into_iter().chain(page.next).min();
    }
    all.sessions.sort_by(|one, other| one.id.cmp(&other.id));
    if let Some(next) = &all.next {
        all.sessions.retain(|session| session.id <= *next);
        all.damaged.retain(|id| id <= next);
    }
    all
}

/// Workspace files of an execution, retained by a worker until this value is dropped.
pub(crate) struct WorkerFiles {
    live: Arc<LiveWorker>,
    execution: u64,
    reply_budget: Option<ReplyBudget>,
    runtime: Handle,
}

impl fmt::Debug for WorkerFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerFiles").field("execution", &self.execution).finish_non_exhaustive()
    }
}

impl WorkerFiles {
    fn new(live: &Arc<LiveWorker>, execution: u64, reply_budget: Option<ReplyBudget>) -> Self {
        Self { live: Arc::clone(live), execution, reply_budget, runtime: Handle::current() }
    }

    pub(crate) fn list(&self, pattern: &str) -> Result<FileListing, ServiceError> {
        let ask = ToWorker::ListLeft { execution: self.execution, pattern: pattern.to_owned() };
        let call = self.live.peer.call_within::<EntriesReply>(&ask, Vec::new(), self.reply_budget.clone());
        let (entries, _, room) = self.runtime.block_on(call)?;
        Ok((entries, room))
    }

    pub(crate) fn read(&self, path: &str, size_bytes: u64) -> Result<Vec<u8>, ServiceError> {
        // The caller has reserved memory for the contents.
        let ask = ToWorker::ReadLeft { execution: self.execution, path: path.to_owned() };
        let max_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        let ((), bytes) = self.runtime.block_on(self.live.peer.call_reserved(&ask, Vec::new(), max_bytes))?;
        // The files of a finished execution do not change, so a different length means that the worker is faulty.
        if u64::try_from(bytes.len()) == Ok(size_bytes) { Ok(bytes) } else { Err(ServiceError::WorkerDied) }
    }
}

impl Drop for WorkerFiles {
    fn drop(&mut self) {
        self.live.notify(&self.runtime, ToWorker::Forget { execution: self.execution });
    }
}

/// A stepwise execution in a worker.
struct WorkerExecution {
    live: Arc<LiveWorker>,
    execution: u64,
    wants_files: bool,
    reply_budget: Option<ReplyBudget>,
    cancel: CancelToken,
    /// The script and its data, until the first step sends them.
    script: Mutex<Option<(RunCall, Vec<u8>)>>,
    /// `true` once the resumption was refused. The next step passes it to the worker, before the worker saves the
    /// session.
    is_refused: AtomicBool,
    /// `true` if the execution was resumed, and has ended before it had repeated its earlier steps.
    has_only_repeated: AtomicBool,
    /// Cancelled when the execution has ended, if it has waited for answers.
    ended: CancellationToken,
    runtime: Handle,
    _hook: OnCancel,
}

impl WorkerExecution {
    fn files(&self) -> WorkerFiles {
        WorkerFiles::new(&self.live, self.execution, self.reply_budget.clone())
    }

    /// Performs the first step, which starts the script.
    async fn begin(&self, call: RunCall, bytes: Vec<u8>) -> StepResult {
        let start = ToWorker::Start(call);
        let started = self.live.peer.call_until(&start, bytes, self.reply_budget.clone(), &self.cancel).await?;
        let started = started.parse().await;
        if let Ok((StepReply::NeedsTools(_), ..)) = &started {
            self.watch();
        }
        started
    }

    /// Cancels `ended` when the execution has ended.
    fn watch(&self) {
        let (live, execution, ended) = (Arc::clone(&self.live), self.execution, self.ended.clone().drop_guard());
        self.runtime.spawn(async move {
            let _ended = ended;
            // An error means that the worker has ended, and with it the execution.
            let _ = live.peer.call::<()>(&ToWorker::AwaitEnd { execution }, Vec::new()).await;
        });
    }
}

/// The reply to a step, and the memory reserved for it.
type StepResult = Result<(StepReply, Vec<u8>, Option<byte_budget::Room>), ServiceError>;

impl SteppedExecution for WorkerExecution {
    fn advance(&self, answers: Vec<ToolAnswer>) -> BoxFuture<'_, Result<ExecutorStep, ServiceError>> {
        Box::pin(async move {
            let script = self.script.lock().take();
            let stepped: StepResult = match script {
                Some((call, bytes)) => self.begin(call, bytes).await,
                None => {
                    let (answers, bytes) = AnswerPart::split(answers);
                    let is_refused = self.is_refused.load(Ordering::Relaxed);
                    let ask = ToWorker::Advance { execution: self.execution, answers, is_refused };
                    self.live.peer.call_within(&ask, bytes, self.reply_budget.clone()).await
                }
            };
            let (step, _, room) = stepped.inspect_err(|error| {
                // The discarded reply may have been the last one. In that case, the worker retains files that must be
                // released.
                if matches!(error, ServiceError::NoRoom) && self.wants_files {
                    drop(self.files());
                }
            })?;
            Ok(match step {
                StepReply::NeedsTools(calls) => ExecutorStep::NeedsTools { calls, reply_room: room },
                StepReply::Done { result, has_only_repeated } => {
                    self.has_only_repeated.store(has_only_repeated, Ordering::Relaxed);
                    let there = self.wants_files.then(|| self.files());
                    let result = result.map(|reply| FinishedJob { reply_room: room, ..finished(reply, there) });
                    let result = result.map_err(ServiceError::from);
                    ExecutorStep::Done(Box::new(result))
                }
            })
        })
    }

    fn refuse_resumption(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    fn has_only_repeated(&self) -> bool {
        self.has_only_repeated.load(Ordering::Relaxed)
    }

    fn suspend(&self, max_bytes: usize) -> BoxFuture<'_, Result<Vec<u8>, ServiceError>> {
        Box::pin(async move {
            let ask = ToWorker::Suspend { execution: self.execution };
            let ((), bytes) = self.live.peer.call_reserved(&ask, Vec::new(), max_bytes).await?;
            Ok(bytes)
        })
    }

    fn end_token(&self) -> CancellationToken {
        self.ended.clone()
    }
}

impl Drop for WorkerExecution {
    fn drop(&mut self) {
        self.live.end(self.execution);
        self.live.notify(&self.runtime, ToWorker::Abandon { execution: self.execution });
    }
}

#[cfg(test)]
mod tests;
