//! The worker's side: performs the server's calls.

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, Read as _},
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use glovebox::{CancelToken, Files, OpenNetwork, Policy, SandboxBuilder, Stream, ToolCall, ToolError};
use glovebox_sessions::SessionStore;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tracing::Span;

use super::{
    Confinement,
    confine::die_with_parent,
    parent_store::ParentStore,
    peer::{CallHandler, Message, Peer, Reply},
    protocol::{
        AnswerPart, CallPart, EnvironmentReply, RelayedError, RunCall, RunReply, StepReply, ToServer, ToWorker,
        ToolReply,
    },
};
use crate::{
    OnOutput, Service, ServiceError, Tenant, TenantConfig, Work,
    executor::{
        AddNetwork, ExecutionFiles, Executor, ExecutorStep, FinishedJob, InProcess, Job, SessionCall, SessionReply,
        SteppedExecution,
    },
    tenant::BoundedStore,
};

/// Maximum length of the configuration in bytes.
const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// The interval between reports on session memory.
const COUNT: Duration = Duration::from_secs(1);
/// Maximum time that shutdown waits for running executions before it cancels them.
const END: Duration = Duration::from_secs(5);

/// An error that prevents this process from serving as a worker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The process was not started by a server.
    #[error("a worker can be started only by `glovebox serve` or `glovebox mcp`")]
    NotStarted(#[source] io::Error),
    /// The configuration is malformed or has an unexpected type.
    #[error("cannot parse the configuration from the server")]
    Config(#[source] serde_json::Error),
}

/// Reads the configuration that the parent set in [`WorkersConfig`](super::WorkersConfig), and makes this process end
/// with its parent. Must be the first call in a worker.
///
/// # Errors
/// Fails if this process was not started as a worker, or if the configuration cannot be parsed as `T`.
pub fn read_config<T: DeserializeOwned>() -> Result<T, WorkerError> {
    die_with_parent().map_err(WorkerError::NotStarted)?;
    let socket = socket().map_err(WorkerError::NotStarted)?;
    socket.peer_addr().map_err(WorkerError::NotStarted)?;
    let mut line = Vec::new();
    // The reader cannot buffer later messages: the parent sends nothing until the worker has reported that it is ready.
    let read = BufReader::new(socket).take(MAX_CONFIG_BYTES).read_until(b'\n', &mut line);
    read.map_err(WorkerError::NotStarted)?;
    serde_json::from_slice(&line).map_err(WorkerError::Config)
}

/// Returns the socket to the parent, which is passed as standard input.
fn socket() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// The tenants of a worker. The server runs their tools and sends their network requests.
#[derive(Debug)]
pub struct WorkerTenants {
    service: Service,
    server: ServerLink,
    tenants: Vec<Tenant>,
}

/// The connection to the server. Empty until [`serve`] has connected.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerLink(pub(super) Arc<OnceLock<(Peer, Handle)>>);

impl ServerLink {
    /// Calls the server. Must be called on a blocking thread.
    fn call<T: DeserializeOwned>(
        &self,
        call: &ToServer,
        bytes: Vec<u8>,
        cancel: &CancelToken,
    ) -> Result<(T, Vec<u8>), ServiceError> {
        let (peer, runtime) = self.0.get().ok_or(ServiceError::NoWorker)?;
        runtime.block_on(peer.call_until(call, bytes, None, cancel))?.result()
    }
}

impl WorkerTenants {
    /// Creates an empty set of tenants.
    pub fn new(service: &Service) -> Self {
        Self { service: service.clone(), server: ServerLink::default(), tenants: Vec::new() }
    }

    /// Returns a store for the tenant's configuration. The server accesses the store on behalf of the worker.
    pub fn store(&self, tenant: &str) -> ParentStore {
        ParentStore { server: self.server.clone(), tenant: tenant.to_owned() }
    }

    /// Returns a store for the tenant's configuration that this worker accesses itself. The server reserves the bytes
    /// of each write, so that the tenant's limit applies to all workers together.
    pub fn counting_store(&self, tenant: &str, store: Arc<dyn SessionStore>) -> Arc<dyn SessionStore> {
        Arc::new(BoundedStore::within(store, Arc::new(self.store(tenant))))
    }

    /// Adds a tenant. Its network requests go through the server, which also enforces its `stored_bytes`.
    pub fn add(&mut self, mut config: TenantConfig) {
        config.stored_bytes = u64::MAX;
        let (server, name) = (self.server.clone(), config.name.clone());
        config.add_network = Some(AddNetwork(Arc::new(move |builder, policy: &Policy, changes| {
            add_network(&server, &name, builder, policy, changes)
        })));
        self.tenants.push(Tenant::new(&self.service, config));
    }

    /// Returns all tenants in the order in which they were added.
    pub fn all(&self) -> &[Tenant] {
        &self.tenants
    }
}

/// Makes the server send the network requests of scripts.
fn add_network(
    server: &ServerLink,
    tenant: &str,
    builder: SandboxBuilder,
    policy: &Policy,
    changes: &Map<String, Value>,
) -> Result<SandboxBuilder, ServiceError> {
    if !policy.network.is_on() {
        return Ok(builder);
    }
    let (tenant, changes) = (tenant.to_owned(), changes.clone());
    let open = ToServer::OpenNetwork { tenant: tenant.clone(), changes: changes.clone() };
    let (environment, _) = server.call::<EnvironmentReply>(&open, Vec::new(), &CancelToken::new())?;
    let server = server.clone();
    Ok(builder.network(OpenNetwork::new(environment, move |call, request| {
        let fetch = ToServer::Fetch { tenant: tenant.clone(), changes: changes.clone(), call: CallPart::of(call) };
        relay(&server, &fetch, call, request)
    })))
}

/// Forwards a tool call or a network request to the server.
fn relay(server: &ServerLink, ask: &ToServer, call: &ToolCall, arguments: String) -> Result<String, ToolError> {
    let (answer, bytes) = server
        .call::<ToolReply>(ask, arguments.into_bytes(), &call.cancel)
        .map_err(|error| ToolError::new(error.public()))?;
    match answer {
        ToolReply::Done => String::from_utf8(bytes).map_err(ToolError::new),
        ToolReply::Failed(error) => Err(error),
    }
}

impl CallPart {
    fn of(call: &ToolCall) -> Self {
        let time = call.deadline.saturating_duration_since(Instant::now());
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { index: call.index, session: call.session_id.clone(), time_ms }
    }
}

/// Serves the parent until it closes the socket. Before that, the parent sends a call that saves the sessions.
///
/// # Errors
/// Fails if this process was not started as a worker.
pub async fn serve(tenants: &WorkerTenants, confinement: Confinement) -> Result<(), WorkerError> {
    let socket = socket().map_err(WorkerError::NotStarted)?;
    socket.set_nonblocking(true).map_err(WorkerError::NotStarted)?;
    let socket = tokio::net::UnixStream::from_std(socket).map_err(WorkerError::NotStarted)?;
    let executors =
        tenants.tenants.iter().map(|tenant| (tenant.name().to_owned(), Arc::clone(tenant.in_process()))).collect();
    let side = WorkerSide {
        service: tenants.service.clone(),
        server: tenants.server.clone(),
        executors,
        started: Mutex::default(),
        left: Mutex::default(),
    };
    let peer = Peer::start(socket, Arc::new(side));
    let _ = tenants.server.0.set((peer.clone(), Handle::current()));
    let count = async {
        if peer.call::<()>(&ToServer::Ready { confinement }, Vec::new()).await.is_err() {
            return;
        }
        let mut before = (0, 0);
        loop {
            tokio::time::sleep(COUNT).await;
            let (count, bytes) = tenants.service.session_usage();
            if (count, bytes) != before {
                before = (count, bytes);
                let _ = peer.call::<()>(&ToServer::Sessions { count, bytes }, Vec::new()).await;
            }
        }
    };
    tokio::select! {
        () = peer.wait_gone() => {}
        () = count => {}
    }
    Ok(())
}

/// The worker's side, which answers calls from the server.
struct WorkerSide {
    service: Service,
    server: ServerLink,
    executors: HashMap<String, Arc<InProcess>>,
    /// Stepwise executions, keyed by execution number.
    started: Mutex<HashMap<u64, Arc<StartedExecution>>>,
    /// Workspace files of finished executions, until the server forgets them.
    left: Mutex<HashMap<u64, Files>>,
}

struct StartedExecution {
    run: Box<dyn SteppedExecution>,
    cancel: CancelToken,
    wants_files: bool,
}

/// Returns a reply without a binary part.
fn json_reply(value: &impl Serialize) -> Message {
    Message::reply(value, Vec::new())
}

impl CallHandler for WorkerSide {
    fn answer(self: Arc<Self>, call: Message, cancel: CancelToken, reply: Reply) {
        match serde_json::from_slice::<ToWorker>(&call.json) {
            // Scripts run without an additional task, because most calls are scripts and many are short.
            Ok(ToWorker::Run(run)) => self.run(run, &call.bytes, &cancel, reply),
            Ok(other) => drop(tokio::spawn(async move { reply.send(self.carry_out(other, call.bytes, cancel).await) })),
            Err(error) => reply.send(Err(ServiceError::Invalid(error.to_string()))),
        }
    }
}

impl WorkerSide {
    fn executor(&self, tenant: &str) -> Result<Arc<InProcess>, ServiceError> {
        let found = self.executors.get(tenant).cloned();
        found.ok_or_else(|| ServiceError::Invalid(format!("the worker has no tenant `{}`", glovebox::escaped(tenant))))
    }

    /// Creates the job for a call, with tools and output forwarded to the server.
    fn job(&self, run: RunCall, bytes: &[u8], cancel: CancelToken) -> Job {
        let execution = run.execution;
        let tools = run.tools.clone().into_iter().map(|definition| {
            let (server, name) = (self.server.clone(), definition.name().to_owned());
            definition.tool(move |call, arguments| {
                let ask = ToServer::Tool { execution, name: name.clone(), call: CallPart::of(call) };
                relay(&server, &ask, call, arguments)
            })
        });
        let (tools, wants_output) = (tools.collect(), run.wants_output);
        let mut work = run.work(bytes);
        work.script().tools = tools;
        let server = self.server.clone();
        let on_output = wants_output.then(|| -> OnOutput {
            Box::new(move |stream, bytes| {
                let ask = ToServer::Output { execution, is_stderr: matches!(stream, Stream::Stderr) };
                // Waits until the server's output callback has returned, so a slow client slows the script down. Errors
                // are ignored: the execution is cancelled when the server ends.
                let _ = server.call::<()>(&ask, bytes.to_vec(), &CancelToken::new());
            })
        });
        Job { work, cancel, on_output, span: Span::none() }
    }

    fn run(self: Arc<Self>, run: RunCall, bytes: &[u8], cancel: &CancelToken, reply: Reply) {
        let executor = match self.executor(&run.tenant) {
            Ok(executor) => executor,
            Err(error) => return reply.send(Err(error)),
        };
        let (execution, wants_files) = (run.execution, run.wants_files);
        let token = self.service.token();
        let stopped = token.clone();
        let hook = cancel.on_cancel(move || stopped.cancel());
        let job = self.job(run, bytes, token);
        // A panic in the executor drops `reply`, which then reports the panic.
        let done = move |result: Result<FinishedJob, ServiceError>| {
            drop(hook);
            reply.send(result.map(|finished| json_reply(&self.retain_files(execution, wants_files, finished))));
        };
        executor.run(job, Box::new(done));
    }

    /// Retains the workspace files of an execution if the server wants them.
    fn retain_files(&self, execution: u64, wants_files: bool, finished: FinishedJob) -> RunReply {
        let FinishedJob { execution: result, generation, files, .. } = finished;
        if let (true, ExecutionFiles::Here(files)) = (wants_files, files) {
            self.left.lock().insert(execution, files);
        }
        RunReply { execution: result, generation }
    }

    async fn carry_out(
        self: Arc<Self>,
        request: ToWorker,
        bytes: Vec<u8>,
        cancel: CancelToken,
    ) -> Result<Message, ServiceError> {
        match request {
            // `answer` handles `Run` itself.
            ToWorker::Ping | ToWorker::Run(_) => {}
            ToWorker::End => {
                self.service.drain(END).await;
                let executors = self.executors.clone();
                Service::blocking(move || executors.values().for_each(|executor| save(executor))).await?;
            }
            ToWorker::Validate(run) => return Ok(json_reply(&self.validate(run, &bytes).await?)),
            ToWorker::Session { tenant, operation } => {
                let call = SessionCall { bytes, ..operation.into() };
                let SessionReply { answer, bytes, .. } = self.executor(&tenant)?.session(call).await?;
                return Ok(Message::reply(&answer, bytes));
            }
            ToWorker::AwaitEnd { execution } => {
                let ended = self.started.lock().get(&execution).map(|started| started.run.end_token());
                if let Some(ended) = ended {
                    ended.cancelled().await;
                }
            }
            ToWorker::Cancel { execution } => {
                let started = self.started.lock().get(&execution).cloned();
                if let Some(started) = started {
                    started.cancel.cancel();
                }
            }
            ToWorker::Abandon { execution } => {
                let started = self.started.lock().remove(&execution);
                if let Some(started) = &started {
                    started.cancel.cancel();
                }
                // Freeing the result may take time.
                let _ = Service::blocking(move || drop(started)).await;
            }
            ToWorker::Forget { execution } => drop(self.left.lock().remove(&execution)),
            ToWorker::Start(run) => return Ok(json_reply(&self.start(run, &bytes, &cancel).await?)),
            ToWorker::Advance { execution, answers, is_refused } => {
                if is_refused {
                    self.find(execution)?.run.refuse_resumption();
                }
                let answers = AnswerPart::join(answers, &bytes);
                return Ok(json_reply(&self.advance(execution, answers).await?));
            }
            ToWorker::Suspend { execution } => {
                let suspended = self.find(execution)?.run.suspend(usize::MAX).await?;
                return Ok(Message::reply(&(), suspended));
            }
            ToWorker::ListLeft { execution, pattern } => {
                let work = move || Ok(json_reply(&self.files_of(execution)?.list(&pattern)?));
                return Service::blocking(work).await?;
            }
            ToWorker::ReadLeft { execution, path } => {
                let work = move || Ok(Message::reply(&(), self.files_of(execution)?.read(&path)?));
                return Service::blocking(work).await?;
            }
        }
        Ok(json_reply(&()))
    }

    async fn validate(&self, run: RunCall, bytes: &[u8]) -> Result<Vec<glovebox::Diagnostic>, ServiceError> {
        let executor = self.executor(&run.tenant)?;
        match self.job(run, bytes, CancelToken::new()).work {
            Work::Fresh(fresh) => executor.validate(*fresh).await.map(|(found, _)| found),
            Work::InSession(..) => Err(ServiceError::Invalid("a session has no scripts to validate".to_owned())),
        }
    }

    fn files_of(&self, execution: u64) -> Result<Files, ServiceError> {
        let files = self.left.lock().get(&execution).cloned();
        files.ok_or_else(|| ServiceError::Invalid("the execution's files no longer exist".to_owned()))
    }

    /// Starts a script and performs its first step. `stop` cancels the script during this step.
    async fn start(&self, run: RunCall, bytes: &[u8], stop: &CancelToken) -> Result<StepReply, ServiceError> {
        let executor = self.executor(&run.tenant)?;
        let (execution, wants_files, cancel) = (run.execution, run.wants_files, self.service.token());
        let stopped = cancel.clone();
        let _hook = stop.on_cancel(move || stopped.cancel());
        let run = executor.start(self.job(run, bytes, cancel.clone())).await?;
        self.started.lock().insert(execution, Arc::new(StartedExecution { run, cancel, wants_files }));
        self.advance(execution, Vec::new()).await
    }

    fn find(&self, execution: u64) -> Result<Arc<StartedExecution>, ServiceError> {
        let gone = || ServiceError::NoExecution { execution: execution.to_string() };
        self.started.lock().get(&execution).cloned().ok_or_else(gone)
    }

    async fn advance(&self, execution: u64, answers: Vec<glovebox::ToolAnswer>) -> Result<StepReply, ServiceError> {
        let started = self.find(execution)?;
        let step = started.run.advance(answers).await?;
        Ok(match step {
            ExecutorStep::NeedsTools { calls, .. } => StepReply::NeedsTools(calls),
            ExecutorStep::Done(result) => StepReply::Done {
                result: Box::new(match *result {
                    Ok(finished) => Ok(self.retain_files(execution, started.wants_files, finished)),
                    Err(error) => Err(RelayedError::from(&error)),
                }),
                has_only_repeated: started.run.has_only_repeated(),
            },
        })
    }
}

/// Saves all sessions of a tenant.
fn save(executor: &InProcess) {
    for (id, error) in executor.sessions().hibernate_all().errors {
        let error = glovebox::with_causes(&error);
        tracing::error!(target: "glovebox", session = %id, error, "a session could not be saved");
    }
}
