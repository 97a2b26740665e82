//! The core of a service, which all front ends share.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use glovebox::{BuildError, CancelToken, Engine, Language, Limits, Policy, RuntimeInfo, Sandbox};
use glovebox_sessions::{SessionId, Sessions};
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    Audit, CheckTypes, ServiceError, WorkersConfig,
    byte_budget::ByteBudget,
    executor::SessionMemory,
    fair_semaphore::{FairSemaphore, Permit},
    metrics::Metrics,
    workers::{Relays, Workers},
};

/// Maximum time that shutdown waits for cancelled executions, and then for suspended ones.
const END_TIME: Duration = Duration::from_secs(5);

/// Limits on concurrent executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admission {
    /// Maximum number of executions that run simultaneously. Default: four per processor, because some executions wait
    /// for tools.
    pub running: usize,
    /// Maximum number of executions that wait to run. Default 1,024. Further executions are refused immediately
    /// ([`ServiceError::QueueFull`]). A waiting execution needs no memory beyond its request.
    pub waiting: usize,
    /// Maximum number of simultaneous requests to a fleet, for executions and for other session operations. Default
    /// 1,024, because these requests use no processor time on this machine.
    pub in_fleet: usize,
    /// Maximum time in milliseconds that an execution waits to run before it is refused ([`ServiceError::NoTurn`]).
    /// Default 10,000.
    pub wait_ms: u64,
}

impl Default for Admission {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self { running: 4 * processors, waiting: 1_024, in_fleet: 1_024, wait_ms: 10_000 }
    }
}

/// Limits on suspended executions, which wait for the client to answer tool calls. Each can occupy a dedicated thread
/// until it ends, but no blocking thread of the Tokio runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuspensionLimits {
    /// Maximum number of suspended executions, including ended executions whose results are unread. Default 64.
    /// Executions beyond the limit are refused ([`ServiceError::TooManySuspended`]).
    pub count: usize,
    /// Maximum time that a suspended execution waits for an answer before it is cancelled and its result is dropped.
    /// Default 60 s. The execution's own limits still apply.
    pub time: Duration,
}

impl Default for SuspensionLimits {
    fn default() -> Self {
        Self { count: 64, time: Duration::from_secs(60) }
    }
}

/// The configuration of a service. Start from `default()` and change fields.
#[derive(Debug, Default)]
pub struct ServiceConfig {
    /// The names or aliases of the runtimes to serve. The first runtime of a language becomes the language's default.
    /// Default: the default runtime of each language.
    pub runtimes: Vec<String>,
    /// Limits on concurrent executions.
    pub admission: Admission,
    /// Limits on suspended executions.
    pub suspension: SuspensionLimits,
    /// `true` to prepare each runtime on first use instead of in [`Service::new`]. Default `false`.
    pub prepare_later: bool,
    /// The audit log. Default: none.
    pub audit: Option<Audit>,
    /// `true` to run scripts in worker processes, which [`Service::start_workers`] starts. Scripts of tenants whose
    /// sessions are only in memory still run in this process. Default `false`.
    pub workers: bool,
    /// The checker for scripts with [`Script::check_types`](crate::Script::check_types). Default: none.
    pub type_checker: Option<Arc<dyn CheckTypes>>,
}

/// Maximum number of concurrent type checks, each of which can need a processor and a lot of memory.
const MAX_TYPE_CHECKS: usize = 4;

/// Returns the maximum number of concurrent type checks: one per processor, up to [`MAX_TYPE_CHECKS`].
fn type_checks_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_TYPE_CHECKS)
}

/// Returns `true` if `name` selects this runtime, according to
/// [`SandboxBuilder::named`](glovebox::SandboxBuilder::named).
fn selects(name: &str, info: &RuntimeInfo) -> bool {
    match Language::ALL.iter().find(|language| language.name() == name) {
        Some(language) => info.language == *language && info.default,
        None => info.is_named(name),
    }
}

/// The core that all front ends share: the engine, the queue for executions, metrics and the audit log. Cheap to clone.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<ServiceInner>);

pub(crate) struct ServiceInner {
    pub(crate) engine: Engine,
    pub(crate) runtimes: Vec<RuntimeInfo>,
    pub(crate) metrics: Metrics,
    pub(crate) audit: Option<Audit>,
    type_checker: Option<Arc<dyn CheckTypes>>,
    type_checks: FairSemaphore,
    has_workers: bool,
    workers: OnceLock<Workers>,
    /// The memory budget for the replies of workers.
    reply_budget: OnceLock<ByteBudget>,
    /// Networks and stores that workers access through this process.
    relays: Relays,
    pub(crate) session_memory: SessionMemory,
    admission: Admission,
    places: FairSemaphore,
    places_in_fleet: FairSemaphore,
    suspension: SuspensionLimits,
    suspended: Arc<Semaphore>,
    waiting: AtomicUsize,
    draining: CancellationToken,
    ended: CancellationToken,
    /// The parent of all execution tokens. Cancelling it cancels every execution.
    executions: CancelToken,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("admission", &self.0.admission).finish_non_exhaustive()
    }
}

impl Service {
    /// Creates a service, and prepares and loads its runtimes. The first preparation on a machine takes a minute or
    /// more. With [`ServiceConfig::prepare_later`], each runtime is prepared during the first execution instead.
    ///
    /// # Errors
    /// Fails if a runtime is not in the manifest or cannot be prepared.
    pub fn new(engine: Engine, config: ServiceConfig) -> Result<Self, ServiceError> {
        let known = engine.runtimes().map_err(BuildError::from)?;
        let named: Vec<String> = match config.runtimes.is_empty() {
            true => Language::ALL.iter().map(|language| language.name().to_owned()).collect(),
            false => config.runtimes,
        };
        let mut runtimes: Vec<RuntimeInfo> = Vec::new();
        for name in named {
            let found = match config.prepare_later {
                true => known.iter().find(|info| selects(&name, info)).cloned(),
                false => {
                    let sandbox = Sandbox::builder(&engine).named(&name).policy(Policy::default()).build()?;
                    sandbox.load_all_code().map_err(BuildError::from)?;
                    known.iter().find(|info| info.name == sandbox.runtime_name()).cloned()
                }
            };
            let info = found.ok_or_else(|| {
                ServiceError::Invalid(format!(
                    "runtime `{name}` is not in the manifest; use one from `glovebox runtimes list`"
                ))
            })?;
            if !runtimes.iter().any(|served| served.name == info.name) {
                runtimes.push(info);
            }
        }
        Ok(Self(Arc::new(ServiceInner {
            engine,
            runtimes,
            metrics: Metrics::new(),
            audit: config.audit,
            type_checker: config.type_checker,
            type_checks: FairSemaphore::new(type_checks_at_once()),
            has_workers: config.workers,
            workers: OnceLock::new(),
            reply_budget: OnceLock::new(),
            relays: Relays::default(),
            session_memory: SessionMemory::default(),
            places: FairSemaphore::new(config.admission.running.max(1)),
            places_in_fleet: FairSemaphore::new(config.admission.in_fleet.max(1)),
            suspension: config.suspension,
            suspended: Arc::new(Semaphore::new(config.suspension.count.min(Semaphore::MAX_PERMITS))),
            admission: config.admission,
            waiting: AtomicUsize::new(0),
            draining: CancellationToken::new(),
            ended: CancellationToken::new(),
            executions: CancelToken::new(),
        })))
    }

    /// Returns the served runtimes in the configured order. The first runtime of a language is its default.
    pub fn runtimes(&self) -> impl Iterator<Item = &RuntimeInfo> {
        self.0.runtimes.iter()
    }

    /// Starts the workers and waits until they are ready. Requires [`ServiceConfig::workers`].
    ///
    /// # Errors
    /// Fails if a worker cannot be started or if the workers were already started.
    pub async fn start_workers(&self, config: WorkersConfig) -> Result<(), ServiceError> {
        let workers = Workers::start(config, self).await?;
        self.0.workers.set(workers).map_err(|_| ServiceError::Worker("they are already running".into()))
    }

    /// Stops the workers. Each worker first waits up to 5 s for its executions, cancels those still running, and saves
    /// its sessions.
    pub async fn end_workers(&self) {
        if let Some(workers) = self.workers() {
            workers.end().await;
        }
    }

    /// Returns `true` if the service was configured with [`ServiceConfig::workers`].
    pub fn has_workers(&self) -> bool {
        self.0.has_workers
    }

    /// Charges the replies of workers to `budget`, in addition to the clients' requests and responses. Does nothing if
    /// a budget is already set.
    pub(crate) fn set_reply_budget(&self, budget: &ByteBudget) {
        let _ = self.0.reply_budget.set(budget.clone());
    }

    pub(crate) fn reply_budget(&self) -> Option<&ByteBudget> {
        self.0.reply_budget.get()
    }

    pub(crate) fn relays(&self) -> &Relays {
        &self.0.relays
    }

    pub(crate) fn workers(&self) -> Option<&Workers> {
        self.0.workers.get()
    }

    pub(crate) fn type_checker(&self) -> Option<&Arc<dyn CheckTypes>> {
        self.0.type_checker.as_ref()
    }

    /// Returns the maximum time to wait for a permit to run or for a worker.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_millis(self.0.admission.wait_ms)
    }

    /// Returns the metrics of all tenants in the OpenMetrics text format.
    pub fn metrics_text(&self) -> String {
        let (mut count, mut bytes) = self.session_usage();
        if let Some(workers) = self.workers() {
            (count, bytes) = workers.session_usage();
            let (ready, restarts) = workers.ready_and_restarts();
            self.0.metrics.workers(ready, restarts);
        }
        self.0.metrics.sessions(count, bytes);
        self.0.metrics.text()
    }

    /// Returns the number of sessions in this process's memory and the bytes that they occupy.
    pub(crate) fn session_usage(&self) -> (u64, u64) {
        let usage = self.0.engine.session_usage();
        (usage.count, usage.bytes)
    }

    /// Makes room for a session in this process ([`SessionMemory::make_room`]).
    pub(crate) fn make_room(&self, limits: &Limits, own: &Sessions, id: &SessionId) {
        self.0.session_memory.make_room(&self.0.engine, limits, own, id);
    }

    /// Returns `true` if the service accepts executions: it is not shutting down, and if it has workers, at least one
    /// is ready.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining()
            && (!self.has_workers() || self.workers().is_some_and(|workers| workers.ready_and_restarts().0 > 0))
    }

    /// Returns `true` if the service is shutting down.
    pub fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    /// Waits until the service starts to shut down.
    pub async fn draining(&self) {
        self.0.draining.cancelled().await;
    }

    /// Waits until [`drain`](Self::drain) has returned. An execution that ignores its cancellation may still be
    /// running.
    pub async fn drained(&self) {
        self.0.ended.cancelled().await;
    }

    /// Shuts down: refuses new executions, waits up to `wait` for running executions, and cancels those still running.
    pub async fn drain(&self, wait: Duration) {
        let _ended = self.0.ended.clone().drop_guard();
        self.0.draining.cancel();
        let idle = async || {
            self.0.places.wait_until_idle().await;
            self.0.places_in_fleet.wait_until_idle().await;
        };
        if tokio::time::timeout(wait, idle()).await.is_err() {
            self.0.executions.cancel();
            // A cancelled script can use its reserve to clean up before it is unwound.
            let _ = tokio::time::timeout(END_TIME, idle()).await;
        }
        // Suspended executions end as well. Each execution releases its permit when it has ended.
        let all = u32::try_from(self.0.suspension.count.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(END_TIME, self.0.suspended.acquire_many(all)).await;
    }

    /// Returns the served runtime that matches a language, a name, or both.
    pub(crate) fn runtime(&self, language: Option<Language>, name: Option<&str>) -> Result<&RuntimeInfo, ServiceError> {
        let fits = |served: &&RuntimeInfo| {
            language.is_none_or(|wanted| served.language == wanted) && name.is_none_or(|name| served.is_named(name))
        };
        self.0.runtimes.iter().find(fits).ok_or_else(|| {
            let names: Vec<_> = self.0.runtimes.iter().map(|served| format!("`{}`", served.name)).collect();
            let wanted = name.or(language.map(Language::name)).unwrap_or_default();
            ServiceError::UnknownRuntime { wanted: wanted.to_owned(), served: names.join(", ") }
        })
    }

    /// Creates the cancellation token for an execution.
    pub(crate) fn token(&self) -> CancelToken {
        self.0.executions.child()
    }

    pub(crate) fn suspension(&self) -> SuspensionLimits {
        self.0.suspension
    }

    /// Acquires a permit for a suspended execution. Fails if the limit is reached.
    pub(crate) fn suspension_place(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        let max = self.0.suspension.count;
        Arc::clone(&self.0.suspended).try_acquire_owned().map_err(|_| ServiceError::TooManySuspended { max })
    }

    /// Waits for this tenant's turn and acquires a permit to run. Dropping the future leaves the queue.
    pub(crate) async fn admit(&self, tenant: &str) -> Result<ExecutionPermit, ServiceError> {
        self.admit_to(&self.0.places, tenant).await
    }

    /// Like [`admit`](Self::admit), but for requests to a fleet, which do not use the permits for executions on this
    /// machine.
    pub(crate) async fn admit_to_fleet(&self, tenant: &str) -> Result<ExecutionPermit, ServiceError> {
        self.admit_to(&self.0.places_in_fleet, tenant).await
    }

    /// Waits for this tenant's turn and acquires a permit for a type check. Dropping the future leaves the queue.
    pub(crate) async fn admit_type_check(&self, tenant: &str) -> Result<Permit, ServiceError> {
        let waited = self.wait();
        let permit = tokio::time::timeout(waited, self.0.type_checks.take(tenant)).await;
        permit.map_err(|_| ServiceError::NoTurn { waited })
    }

    async fn admit_to(&self, places: &FairSemaphore, tenant: &str) -> Result<ExecutionPermit, ServiceError> {
        if self.is_draining() {
            return Err(ServiceError::Draining);
        }
        if let Some(permit) = places.try_take(tenant) {
            return Ok(self.place(permit));
        }
        let waiting = QueuedExecution::enter(&self.0)?;
        let permit = tokio::select! {
            permit = tokio::time::timeout(self.wait(), places.take(tenant)) => permit,
            () = self.draining() => return Err(ServiceError::Draining),
        };
        drop(waiting);
        permit.map(|permit| self.place(permit)).map_err(|_| ServiceError::NoTurn { waited: self.wait() })
    }

    fn place(&self, permit: Permit) -> ExecutionPermit {
        self.0.metrics.running(1);
        ExecutionPermit { service: self.clone(), _permit: permit }
    }

    /// Runs `work` on a blocking thread. Fails with [`ServiceError::Panicked`] if `work` panics.
    pub(crate) async fn blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        tokio::task::spawn_blocking(work).await.map_err(|_| ServiceError::Panicked)
    }
}

/// A permit to run an execution, released on drop.
pub(crate) struct ExecutionPermit {
    service: Service,
    _permit: Permit,
}

impl Drop for ExecutionPermit {
    fn drop(&mut self) {
        self.service.0.metrics.running(-1);
    }
}

/// An execution in the queue, counted until this value is dropped.
struct QueuedExecution<'a>(&'a ServiceInner);

impl<'a> QueuedExecution<'a> {
    fn enter(inner: &'a ServiceInner) -> Result<Self, ServiceError> {
        let max = inner.admission.waiting;
        let entered = inner
            .waiting
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |waiting| (waiting < max).then_some(waiting + 1));
        match entered {
            Ok(_) => {
                inner.metrics.waiting(1);
                Ok(Self(inner))
            }
            Err(waiting) => Err(ServiceError::QueueFull { waiting, retry_after: Duration::from_secs(1) }),
        }
    }
}

impl Drop for QueuedExecution<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.metrics.waiting(-1);
    }
}

/// The front end through which a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Door {
    /// HTTP and JSON.
    Http,
    /// The Model Context Protocol.
    Mcp,
    /// The E2B routes.
    E2b,
}

impl Door {
    /// Returns the front end's name in metrics and in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::E2b => "e2b",
        }
    }
}
