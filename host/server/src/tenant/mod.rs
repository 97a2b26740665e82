//! Tenants: clients of the service, and the operations on their behalf.
//!
//! * [`execute`], [`type_checking`], [`stepping`], [`answering`], [`suspending`], [`stored_executions`], [`sessions`]: a
//!   tenant's operations, which its [executor](crate::executor) performs.
//! * [`work`]: the scripts and operations that clients request.
//! * [`suspended`]: suspended executions. [`suspended_store`]: their store. [`replies`]: the memory of workers' replies.
//! * [`quotas`], [`stores`]: the limits on a tenant.

mod answering;
mod execute;
mod quotas;
mod replies;
mod sessions;
mod stepping;
mod stored_executions;
mod stores;
mod suspended;
mod suspended_store;
mod suspending;
mod type_checking;
mod work;

use std::{
    collections::HashMap,
    fmt,
    num::NonZeroU32,
    sync::{Arc, Weak},
    time::Duration,
};

use glovebox::{Policy, SessionKey, Tool};
use glovebox_fleet::FleetClient;
use glovebox_sessions::{SessionId, SessionStore, Sessions, StorePolicy};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    Door, Service,
    byte_budget::ByteBudget,
    executor::{AddNetwork, Executor, Fleet, FleetExecutor, InMemory, InProcess},
    metrics::Metrics,
    tools::Callbacks,
    workers::WorkerProcesses,
};
use execute::RunningExecutions;
use replies::WeakReplyRooms;
use suspended::SuspendedExecutions;
use suspended_store::SuspendedStore;

pub(crate) use execute::{CancelOnDrop, RunningExecution};
pub(crate) use replies::ReplyRooms;
pub(crate) use sessions::generation;
pub use sessions::{SessionPage, SessionSummary};
pub use stepping::{DeliveryError, FinishedExecution, NeedsTools, StepOutcome};
pub(crate) use stored_executions::{Claim, NotStored, StoredSummaries, StoredSuspension};
pub use stores::NoStore;
pub(crate) use stores::{BoundedStore, ByteQuota, Reservation};
pub(crate) use suspended_store::{ReadEntry, StoredExecution, SuspendedId, SuspendedRequest};
pub use type_checking::{CheckTypes, TypeCheckError, TypedScript};
pub(crate) use work::NO_CALLBACKS;
pub use work::{ChangeResult, FreshScript, OnOutput, Script, SessionTarget, Watch, Work};

/// A client of the service, with a policy, quotas, and sessions that other tenants cannot access. Cheap to clone.
#[derive(Clone)]
pub struct Tenant {
    inner: Arc<TenantInner>,
    /// The front end through which requests arrive, for the audit log.
    door: Door,
    replies: WeakReplyRooms,
    /// The memory budget of the client that sent the request, for unread results of suspended executions. `None` unless
    /// `charging` has set it.
    unread: Option<ByteBudget>,
}

struct TenantInner {
    service: Service,
    config: TenantConfig,
    executor: Arc<dyn Executor>,
    /// The executor in this process.
    here: Arc<InProcess>,
    /// Locked while a session is created, so that concurrent requests cannot exceed the maximum number of sessions.
    making: Arc<tokio::sync::Mutex<()>>,
    turns: SessionMutexes,
    executions: Arc<Semaphore>,
    rate: Option<(NonZeroU32, DefaultDirectRateLimiter)>,
    running: RunningExecutions,
    suspended: SuspendedExecutions,
    suspended_store: Option<Arc<SuspendedStore>>,
    suspensions: Arc<Semaphore>,
    metrics: Metrics,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.inner.config.name).finish_non_exhaustive()
    }
}

impl Tenant {
    /// Creates a tenant of `service`. Its front end is [`Door::Http`], which [`for_door`](Self::for_door) changes.
    pub fn new(service: &Service, mut config: TenantConfig) -> Self {
        config.separate_approved_tools();
        let store: Arc<dyn SessionStore> = match &config.location {
            SessionLocation::Store(store) => Arc::clone(store),
            SessionLocation::Memory | SessionLocation::Fleet { .. } => Arc::new(NoStore),
        };
        let (store, suspended_store) = match &config.suspended_store {
            Some(suspended) => {
                let [store, suspended] = BoundedStore::pair([store, Arc::clone(suspended)], config.stored_bytes);
                let (max, key, name) = (config.stored_suspended, config.key.clone(), config.name.clone());
                (store, Some(Arc::new(SuspendedStore::new(suspended, max, key, name))))
            }
            None => (BoundedStore::new(store, config.stored_bytes), None),
        };
        let store = Arc::new(store);
        let here = Arc::new(InProcess::new(service, &config, Arc::clone(&store) as Arc<dyn SessionStore>));
        service.0.session_memory.add(&here);
        let local: Arc<dyn Executor> = match service.has_workers() {
            true => Arc::new(WorkerProcesses::new(service, &config, store)),
            false => Arc::clone(&here) as Arc<dyn Executor>,
        };
        let executor: Arc<dyn Executor> = match &config.location {
            SessionLocation::Store(_) => local,
            SessionLocation::Memory => Arc::new(InMemory::new(service, &here)),
            SessionLocation::Fleet { client, scope } => Arc::new(FleetExecutor {
                fleet: Fleet::new(client.clone(), scope.clone()),
                service: service.clone(),
                callbacks: config.callbacks.clone(),
                tenant: config.name.clone(),
                others: local,
            }),
        };
        let rate = config.executions_per_minute.map(|max| (max, RateLimiter::direct(Quota::per_minute(max))));
        let inner = TenantInner {
            service: service.clone(),
            executor,
            here,
            making: Arc::default(),
            turns: SessionMutexes::default(),
            executions: Arc::new(Semaphore::new(config.executions_at_once.clamp(1, Semaphore::MAX_PERMITS))),
            rate,
            running: RunningExecutions::default(),
            suspended: SuspendedExecutions::default(),
            suspended_store,
            suspensions: Arc::new(Semaphore::new(config.suspended.min(Semaphore::MAX_PERMITS))),
            metrics: Metrics::new(),
            config,
        };
        Self { inner: Arc::new(inner), door: Door::Http, replies: WeakReplyRooms::default(), unread: None }
    }

    /// Returns a handle to this tenant for requests through another front end, which the audit log records.
    pub fn for_door(&self, door: Door) -> Self {
        Self { door, ..self.clone() }
    }

    /// Returns a handle to this tenant for requests of a client whose unread results are charged to this memory budget.
    pub(crate) fn charging(&self, budget: &ByteBudget) -> Self {
        Self { unread: Some(budget.clone()), ..self.clone() }
    }

    /// Returns the executor that runs in this process.
    pub(crate) fn in_process(&self) -> &Arc<InProcess> {
        &self.inner.here
    }

    /// Returns the client for callbacks, if requests may define tools that external services answer.
    pub fn callbacks(&self) -> Option<&Callbacks> {
        self.inner.config.callbacks.as_ref()
    }

    /// Returns `true` if the tenant's sessions are in a fleet. A fleet does not support every operation
    /// ([`NotInFleet`](crate::NotInFleet)).
    pub fn is_in_fleet(&self) -> bool {
        self.inner.executor.has_remote_sessions()
    }

    /// Returns metrics in the OpenMetrics text format. Includes all tenants if this tenant is allowed to see their
    /// metrics; otherwise, only this tenant.
    pub fn metrics_text(&self) -> String {
        if self.inner.config.sees_all_metrics { self.inner.service.metrics_text() } else { self.inner.metrics.text() }
    }

    /// Returns the tenant's name.
    pub fn name(&self) -> &str {
        &self.inner.config.name
    }

    /// Returns the service that the tenant belongs to.
    pub fn service(&self) -> &Service {
        &self.inner.service
    }

    /// Returns the tenant's granted policy.
    pub fn policy(&self) -> &Policy {
        &self.inner.config.policy
    }

    /// Returns the maximum number of the tenant's sessions, live or stored.
    pub(crate) fn max_sessions(&self) -> usize {
        self.inner.config.sessions
    }

    /// Returns the tools that the tenant's scripts may call. Tools whose calls need an approval have no handler.
    pub fn tools(&self) -> &[Tool] {
        &self.inner.config.tools
    }

    /// Returns the tools that the tenant's scripts may call over the Model Context Protocol if the client approves each
    /// call.
    pub fn approved_tools(&self) -> &[Tool] {
        &self.inner.config.approved_tools
    }

    /// Returns `true` if the tenant's scripts may call tools over the Model Context Protocol.
    pub(crate) fn has_tools(&self) -> bool {
        !self.inner.config.tools.is_empty() || !self.inner.config.approved_tools.is_empty()
    }

    /// Returns the key that seals the tenant's sessions, if there is one.
    pub(crate) fn key(&self) -> Option<&SessionKey> {
        self.inner.config.key.as_ref()
    }

    /// Returns the number of open sessions, or `None` if the sessions are in a store or in a fleet.
    pub fn open_sessions(&self) -> Option<usize> {
        self.inner.executor.open_sessions()
    }

    /// Ends the sessions in memory ([`SessionLocation::Memory`]) that have not been used for `idle`, without running
    /// their exit handlers.
    pub fn end_idle_sessions(&self, idle: Duration) {
        self.inner.executor.end_idle(idle);
    }

    /// Returns the tenant's stored sessions in this process, for blocking operations such as hibernating idle sessions.
    /// Empty if the sessions are in a fleet or only in memory.
    pub fn sessions(&self) -> &Sessions {
        self.inner.here.sessions()
    }
}

/// The location of a tenant's sessions.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionLocation {
    /// The sessions are in a store, and their scripts run in this process or its workers. Each tenant needs its own
    /// store.
    Store(Arc<dyn SessionStore>),
    /// The sessions are only in this process's memory, and end with it. Their scripts run in this process, even if the
    /// service has workers.
    Memory,
    /// The sessions are in a fleet, whose nodes execute scripts under their own policy.
    Fleet {
        /// The client for the fleet.
        client: FleetClient,
        /// The namespace of the session names. Each tenant needs its own scope.
        scope: SessionId,
    },
}

/// The configuration of a tenant.
#[derive(Debug)]
pub struct TenantConfig {
    /// The tenant's name, as recorded in the audit log.
    pub name: String,
    /// The granted policy: the default for each request, and the maximum that a request can set.
    pub policy: Policy,
    /// Tools that the tenant's scripts may call. If the policy requires an approval for a tool's calls
    /// ([`ToolPolicy::approve`](glovebox::ToolPolicy::approve)), only [`McpServer`](crate::mcp::McpServer) calls it,
    /// after a user of the client has approved the call. Other front ends leave the call to the client or deny it.
    pub tools: Vec<Tool>,
    /// Tools that the tenant's scripts may call if a user of the client approves each call, whatever the policy
    /// requires. Only [`McpServer`](crate::mcp::McpServer) offers them. A call that is not approved raises
    /// `ToolDenied`. Default: none.
    pub approved_tools: Vec<Tool>,
    /// The client for callbacks, which lets requests define tools that external services answer. Default: none.
    pub callbacks: Option<Callbacks>,
    /// The location of the sessions.
    pub location: SessionLocation,
    /// The conditions for hibernating sessions. `save` is ignored: a session is saved after each execution, before the
    /// response is sent.
    pub store_policy: StorePolicy,
    /// The key that seals the tenant's sessions. A key derived from it and from `name` seals suspended executions.
    /// Default: neither is sealed.
    pub key: Option<SessionKey>,
    /// Maximum number of sessions, live or stored. Default 1,000.
    pub sessions: usize,
    /// Maximum total size of the tenant's sessions and suspended executions in its stores, in bytes. A session or a
    /// suspended execution that would exceed the limit is not saved. Default 4 GiB.
    pub stored_bytes: u64,
    /// Maximum number of executions and session operations that run, wait or are suspended simultaneously. Default 64.
    pub executions_at_once: usize,
    /// Maximum number of executions per minute. Syntax checks, reading or setting a variable, and closing a session
    /// count as executions. Default: unlimited.
    pub executions_per_minute: Option<NonZeroU32>,
    /// Maximum number of simultaneous executions whose tool calls the client answers, including unread results of
    /// executions that ended while suspended. Default 16.
    pub suspended: usize,
    /// The store of suspended executions, which only this tenant uses. It can be inside the session store, for example
    /// in a subdirectory, but it must not be the session store itself. Default: none, so clients store suspended
    /// executions.
    pub suspended_store: Option<Arc<dyn SessionStore>>,
    /// Maximum number of suspended executions in `suspended_store`. Default 1,000.
    pub stored_suspended: usize,
    /// `true` to include the metrics of all tenants in [`Tenant::metrics_text`]. Default `true`.
    pub sees_all_metrics: bool,
    /// Adds the network to the tenant's sandboxes in a worker process.
    pub(crate) add_network: Option<AddNetwork>,
}

impl TenantConfig {
    /// Returns the default configuration for a tenant with its sessions in a store.
    pub fn new(name: impl Into<String>, store: Arc<dyn SessionStore>) -> Self {
        Self::with(name.into(), SessionLocation::Store(store))
    }

    /// Returns the default configuration for a tenant whose sessions are only in memory.
    pub fn in_memory(name: impl Into<String>) -> Self {
        Self::with(name.into(), SessionLocation::Memory)
    }

    /// Returns the default configuration for a tenant whose sessions are in a fleet. The tenant's name is also the
    /// scope of its sessions.
    pub fn in_fleet(name: SessionId, client: FleetClient) -> Self {
        Self::with(name.to_string(), SessionLocation::Fleet { client, scope: name })
    }

    /// Adds the tools whose calls need an approval to `approved_tools`, and removes their handlers from `tools`, so
    /// that no executor can call them.
    fn separate_approved_tools(&mut self) {
        for tool in &mut self.tools {
            if self.policy.needs_approval(tool.name()) && !tool.definition().is_stepped() {
                self.approved_tools.push(tool.clone());
                *tool = tool.clone().stepped();
            }
        }
    }

    fn with(name: String, location: SessionLocation) -> Self {
        Self {
            name,
            policy: Policy::default(),
            tools: Vec::new(),
            approved_tools: Vec::new(),
            callbacks: None,
            location,
            store_policy: StorePolicy::default(),
            key: None,
            sessions: 1_000,
            stored_bytes: 4 << 30,
            executions_at_once: 64,
            executions_per_minute: None,
            suspended: 16,
            suspended_store: None,
            stored_suspended: 1_000,
            sees_all_metrics: true,
            add_network: None,
        }
    }
}

/// Per-session async mutexes, so that waiting requests do not occupy a thread.
#[derive(Default)]
struct SessionMutexes(Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>);

impl SessionMutexes {
    fn of(&self, id: &SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock();
        if let Some(turn) = turns.get(id).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(id.clone(), Arc::downgrade(&turn));
        turn
    }
}
