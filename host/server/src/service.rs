//! What all doors of a service share.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use glovebox::{BuildError, CancelToken, Engine, Language, Policy, RuntimeInfo, Sandbox};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{
    Audit, ServiceError, WorkersConfig,
    metrics::Metrics,
    places::{Permit, Places},
    workers::{Reporter, Workers},
};

/// How long what was cancelled may take to end.
const END_TIME: Duration = Duration::from_secs(5);

/// How many executions there are at once, and what becomes of those that come besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// How many run at once. Default: four for each processor, since some wait for tools. What waits for its turn costs no memory
    /// beyond its request.
    pub running: usize,
    /// How many may wait. Default 1,024. One more is refused at once ([`ServiceError::QueueFull`]).
    pub waiting: usize,
    /// How many executions in sessions of a fleet, and other requests about these, are under way at once. Default 1,024: they take no processor
    /// of this machine.
    pub in_fleet: usize,
    /// For how long one waits. Default 10 s. Then it is refused ([`ServiceError::NoTurn`]); nothing of it was run.
    pub wait: Duration,
}

impl Default for Admission {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self { running: 4 * processors, waiting: 1_024, in_fleet: 1_024, wait: Duration::from_secs(10) }
    }
}

/// How many executions may wait for answers of whoever asked for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// How many there are at once. Default 64. One more is refused ([`ServiceError::TooManySuspended`]).
    pub count: usize,
    /// For how long one waits for its next answer. Default 60 s. Then it is cancelled. Its own limits hold besides.
    pub time: Duration,
}

impl Default for Suspension {
    fn default() -> Self {
        Self { count: 64, time: Duration::from_secs(60) }
    }
}

/// How a service is set up. Make one with `default()` and change what differs.
#[derive(Debug, Default)]
pub struct ServiceConfig {
    /// The runtimes that are served, by name or alias; they are prepared when the service is made. Of several for a language the first is
    /// the default. Default: the default of each language.
    pub runtimes: Vec<String>,
    /// How many executions there are at once.
    pub admission: Admission,
    /// How many executions may wait for answers.
    pub suspension: Suspension,
    /// Whether a runtime is prepared when it is first needed, and not when the service is made. Default: no.
    pub prepare_later: bool,
    /// Where what was done is written down. Default: nowhere.
    pub audit: Option<Audit>,
    /// Whether this is a worker's: then it tells its parent, on its standard output, what it did. Default: no.
    pub worker: bool,
}

/// Whether a name is meant for this runtime, as [`SandboxBuilder::named`](glovebox::SandboxBuilder::named) takes it.
fn means(name: &str, info: &RuntimeInfo) -> bool {
    match Language::ALL.iter().find(|language| language.name() == name) {
        Some(language) => info.language == *language && info.default,
        None => info.answers_to(name),
    }
}

/// What all doors share: the engine, the queue in front of it, metrics and the audit log. Cheap to clone.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) runtimes: Vec<RuntimeInfo>,
    pub(crate) metrics: Metrics,
    pub(crate) audit: Option<Audit>,
    /// In a worker: where it reports to.
    pub(crate) reporter: Option<Arc<Reporter>>,
    workers: OnceLock<Workers>,
    admission: Admission,
    places: Places,
    places_in_fleet: Places,
    suspension: Suspension,
    suspended: Arc<Semaphore>,
    waiting: AtomicUsize,
    draining: CancellationToken,
    ended: CancellationToken,
    /// The parent of every execution's token.
    executions: CancelToken,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("admission", &self.0.admission).finish_non_exhaustive()
    }
}

impl Service {
    /// Prepares the runtimes that are served, which takes a minute or more where that was not done before, and loads them; or leaves
    /// that to the first who needs one ([`ServiceConfig::prepare_later`]).
    ///
    /// # Errors
    /// When one of them does not exist, or cannot be had.
    pub fn new(engine: Engine, config: ServiceConfig) -> Result<Self, ServiceError> {
        let known = engine.runtimes().map_err(BuildError::from)?;
        let named: Vec<String> = match config.runtimes.is_empty() {
            true => Language::ALL.iter().map(|language| language.name().to_owned()).collect(),
            false => config.runtimes,
        };
        let mut runtimes: Vec<RuntimeInfo> = Vec::new();
        for name in named {
            let found = match config.prepare_later {
                true => known.iter().find(|info| means(&name, info)).cloned(),
                false => {
                    let sandbox = Sandbox::builder(&engine).named(&name).policy(Policy::default()).build()?;
                    known.iter().find(|info| info.name == sandbox.runtime_name()).cloned()
                }
            };
            let info = found.ok_or_else(|| ServiceError::Invalid(format!("`{name}` is no runtime of the manifest")))?;
            if !runtimes.iter().any(|served| served.name == info.name) {
                runtimes.push(info);
            }
        }
        Ok(Self(Arc::new(Inner {
            engine,
            runtimes,
            metrics: Metrics::new(),
            audit: config.audit,
            reporter: config.worker.then(|| Arc::new(Reporter::new(std::io::stdout()))),
            workers: OnceLock::new(),
            places: Places::new(config.admission.running.max(1)),
            places_in_fleet: Places::new(config.admission.in_fleet.max(1)),
            suspension: config.suspension,
            suspended: Arc::new(Semaphore::new(config.suspension.count.min(Semaphore::MAX_PERMITS))),
            admission: config.admission,
            waiting: AtomicUsize::new(0),
            draining: CancellationToken::new(),
            ended: CancellationToken::new(),
            executions: CancelToken::new(),
        })))
    }

    /// The runtimes that are served, the default of each language first.
    pub fn runtimes(&self) -> impl Iterator<Item = &RuntimeInfo> {
        self.0.runtimes.iter()
    }

    /// Has everything executed in workers from now on, and waits until they serve. Sessions that are open here must have been saved.
    ///
    /// # Errors
    /// When one cannot be started.
    pub async fn start_workers(&self, config: WorkersConfig) -> Result<(), ServiceError> {
        let workers = Workers::start(config).await?;
        self.0.workers.set(workers).map_err(|_| ServiceError::Worker("there are some already".into()))
    }

    /// Ends the workers, once nothing is asked of them any more. They save their sessions.
    pub async fn end_workers(&self) {
        if let Some(workers) = self.workers() {
            workers.end().await;
        }
    }

    /// The workers, where there are some.
    pub(crate) fn workers(&self) -> Option<&Workers> {
        self.0.workers.get()
    }

    /// How long an execution waits for its turn, or for a worker.
    pub(crate) fn wait(&self) -> Duration {
        self.0.admission.wait
    }

    /// What all tenants have used together, in the text format of OpenMetrics.
    #[must_use]
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

    /// The sessions in memory of this process, and the bytes that they hold.
    pub(crate) fn session_usage(&self) -> (u64, u64) {
        let usage = self.0.engine.session_usage();
        (usage.count, usage.bytes)
    }

    /// Whether it takes executions: it does not shut down, and a worker serves where there are workers.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining() && self.workers().is_none_or(|workers| workers.ready_and_restarts().0 > 0)
    }

    /// Whether it is shutting down.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.0.draining.is_cancelled()
    }

    /// Returns once it is shutting down.
    pub async fn draining(&self) {
        self.0.draining.cancelled().await;
    }

    /// Returns once it has shut down, and nothing runs any more.
    pub async fn ended(&self) {
        self.0.ended.cancelled().await;
    }

    /// Refuses new executions, waits until those that run have ended, for at most `wait`, and cancels those that have not.
    pub async fn drain(&self, wait: Duration) {
        let _ended = self.0.ended.clone().drop_guard();
        self.0.draining.cancel();
        let idle = async || {
            self.0.places.idle().await;
            self.0.places_in_fleet.idle().await;
        };
        if tokio::time::timeout(wait, idle()).await.is_err() {
            self.0.executions.cancel();
            // A cancelled script has its reserve to clean up; then it is unwound.
            let _ = tokio::time::timeout(END_TIME, idle()).await;
        }
        // Those that wait for answers have been told, too.
        let all = u32::try_from(self.0.suspension.count.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(END_TIME, self.0.suspended.acquire_many(all)).await;
    }

    /// The runtime that is meant.
    pub(crate) fn runtime(&self, language: Option<Language>, name: Option<&str>) -> Result<&RuntimeInfo, ServiceError> {
        let fits = |served: &&RuntimeInfo| {
            language.is_none_or(|wanted| served.language == wanted) && name.is_none_or(|name| served.answers_to(name))
        };
        self.0.runtimes.iter().find(fits).ok_or_else(|| {
            let names: Vec<_> = self.0.runtimes.iter().map(|served| format!("`{}`", served.name)).collect();
            let wanted = name.or(language.map(Language::name)).unwrap_or_default();
            ServiceError::UnknownRuntime { wanted: wanted.to_owned(), served: names.join(", ") }
        })
    }

    /// A token for one execution.
    pub(crate) fn token(&self) -> CancelToken {
        self.0.executions.child()
    }

    /// How many executions may wait for answers.
    pub(crate) fn suspension(&self) -> Suspension {
        self.0.suspension
    }

    /// A place among those that may wait for answers.
    pub(crate) fn suspension_place(&self) -> Result<OwnedSemaphorePermit, ServiceError> {
        let most = self.0.suspension.count;
        Arc::clone(&self.0.suspended).try_acquire_owned().map_err(|_| ServiceError::TooManySuspended { most })
    }

    /// A place among the executions that run, once there is one, and it is this tenant's turn. Whoever drops the future no longer waits.
    pub(crate) async fn admit(&self, tenant: &str) -> Result<Place, ServiceError> {
        self.admit_to(&self.0.places, tenant).await
    }

    /// The same for what a fleet does: what waits for its nodes takes no place from what runs here.
    pub(crate) async fn admit_to_fleet(&self, tenant: &str) -> Result<Place, ServiceError> {
        self.admit_to(&self.0.places_in_fleet, tenant).await
    }

    async fn admit_to(&self, places: &Places, tenant: &str) -> Result<Place, ServiceError> {
        if self.is_draining() {
            return Err(ServiceError::Draining);
        }
        if let Some(permit) = places.try_take(tenant) {
            return Ok(self.place(permit));
        }
        let waiting = Waiting::enter(&self.0)?;
        let permit = tokio::select! {
            permit = tokio::time::timeout(self.0.admission.wait, places.take(tenant)) => permit,
            () = self.draining() => return Err(ServiceError::Draining),
        };
        drop(waiting);
        match permit {
            Ok(permit) => Ok(self.place(permit)),
            Err(_) => Err(ServiceError::NoTurn { waited: self.0.admission.wait }),
        }
    }

    fn place(&self, permit: Permit) -> Place {
        self.0.metrics.running(1);
        Place { service: self.clone(), _permit: permit }
    }

    /// Does what blocks on a thread that may.
    pub(crate) async fn blocking<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ServiceError> {
        tokio::task::spawn_blocking(work).await.map_err(|_| ServiceError::Panicked)
    }
}

/// A place among the executions that run, given back when dropped.
pub(crate) struct Place {
    service: Service,
    _permit: Permit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.service.0.metrics.running(-1);
    }
}

/// One that waits for a place.
struct Waiting<'a>(&'a Inner);

impl<'a> Waiting<'a> {
    fn enter(inner: &'a Inner) -> Result<Self, ServiceError> {
        let most = inner.admission.waiting;
        let entered = inner
            .waiting
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |waiting| (waiting < most).then_some(waiting + 1));
        match entered {
            Ok(_) => {
                inner.metrics.waiting(1);
                Ok(Self(inner))
            }
            Err(waiting) => Err(ServiceError::QueueFull { waiting, retry_after: Duration::from_secs(1) }),
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.metrics.waiting(-1);
    }
}
