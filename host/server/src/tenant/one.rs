//! A client of the service.

use std::{
    collections::HashMap,
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex},
};

use glovebox::{Policy, Sandbox, Tool};
use glovebox_sessions::{Save, SessionStore, Sessions};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::Semaphore;

use super::{
    NoStore, SessionPlace, TenantConfig, fleet::Fleet, stored_bytes::BoundedStore, suspended::SuspendedExecutions,
    traced_store::TracedStore, turns::Turns,
};
use crate::{Door, Service, metrics::Metrics, tools::Callbacks, workers::Told};

/// A client of the service, with a policy, quotas, and sessions that no other tenant sees. Cheap to clone.
#[derive(Clone)]
pub struct Tenant(pub(super) Arc<Inner>, pub(super) Door, pub(super) Option<Arc<Told>>);

pub(super) struct Inner {
    pub(super) service: Service,
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) tools: Vec<Tool>,
    pub(super) callbacks: Option<Callbacks>,
    /// Sandboxes with the tenant's own policy, keyed by the runtime's name.
    pub(super) sandboxes: Mutex<HashMap<String, Sandbox>>,
    /// The sessions of the store. Empty if the sessions are in a fleet.
    pub(super) sessions: Sessions,
    pub(super) fleet: Option<Fleet>,
    pub(super) max_sessions: usize,
    /// Held while a session is created, so that the number of sessions does not change after it was checked.
    pub(super) making: Arc<tokio::sync::Mutex<()>>,
    pub(super) turns: Turns,
    pub(super) max_executions: usize,
    pub(super) executions: Arc<Semaphore>,
    pub(super) rate: Option<(NonZeroU32, DefaultDirectRateLimiter)>,
    pub(super) suspended: SuspendedExecutions,
    pub(super) max_suspended: usize,
    pub(super) suspensions: Arc<Semaphore>,
    pub(super) metrics: Metrics,
    pub(super) sees_all_metrics: bool,
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Tenant {
    /// Creates a tenant of `service`.
    #[must_use]
    pub fn new(service: &Service, config: TenantConfig) -> Self {
        let TenantConfig {
            name, policy, tools, callbacks, place, mut store_policy, key, sessions: max_sessions, ..
        } = config;
        let (store, fleet): (Arc<dyn SessionStore>, _) = match place {
            SessionPlace::Store(store) => (store, None),
            SessionPlace::Fleet { client, scope } => (Arc::new(NoStore), Some(Fleet::new(client, scope))),
        };
        // A session is saved before its answer is sent, and each save changes its generation.
        store_policy.save = Save::AfterEach;
        let (made, granted, offered) = (service.clone(), policy.clone(), tools.clone());
        let store: Arc<dyn SessionStore> = Arc::new(BoundedStore::new(store, config.stored_bytes));
        let builder = Sessions::builder(Arc::new(TracedStore(store))).policy(store_policy).stop(&service.token());
        let mut sessions = builder.make_sandbox(move |language, runtime| {
            // A session of a runtime that is not served is refused earlier.
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
        let inner = Inner {
            service: service.clone(),
            name,
            policy,
            tools,
            callbacks,
            sandboxes: Mutex::default(),
            sessions: sessions.build(),
            fleet,
            max_sessions,
            making: Arc::default(),
            turns: Turns::default(),
            max_executions: config.executions_at_once,
            executions: Arc::new(Semaphore::new(config.executions_at_once.clamp(1, Semaphore::MAX_PERMITS))),
            rate,
            suspended: SuspendedExecutions::default(),
            max_suspended: config.suspended,
            suspensions: Arc::new(Semaphore::new(config.suspended.min(Semaphore::MAX_PERMITS))),
            metrics: Metrics::new(),
            sees_all_metrics: config.sees_all_metrics,
        };
        Self(Arc::new(inner), Door::Http, None)
    }

    /// Returns the same tenant for requests through another door, which the audit log names.
    #[must_use]
    pub fn through(&self, door: Door) -> Self {
        Self(Arc::clone(&self.0), door, self.2.clone())
    }

    /// Returns the same tenant in a worker, for one request of the parent process.
    pub(crate) fn in_worker(&self, told: Arc<Told>) -> Self {
        Self(Arc::clone(&self.0), self.1, Some(told))
    }

    /// Services that the tenant's requests may name to answer tools.
    #[must_use]
    pub fn callbacks(&self) -> Option<&Callbacks> {
        self.0.callbacks.as_ref()
    }

    /// Returns `true` if the tenant's sessions are in a fleet, which does not support every operation
    /// ([`NotInFleet`](crate::NotInFleet)).
    #[must_use]
    pub fn is_in_fleet(&self) -> bool {
        self.0.fleet.is_some()
    }

    /// The metrics in the text format of OpenMetrics: of all tenants, or only of this one if it may not see all.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        if self.0.sees_all_metrics { self.0.service.metrics_text() } else { self.0.metrics.text() }
    }

    /// The tenant's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The service that the tenant belongs to.
    #[must_use]
    pub fn service(&self) -> &Service {
        &self.0.service
    }

    /// The granted policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    /// The maximum number of sessions, live or stored.
    #[must_use]
    pub(crate) fn max_sessions(&self) -> usize {
        self.0.max_sessions
    }

    /// The tools that the tenant's scripts may call.
    pub fn tools(&self) -> &[Tool] {
        &self.0.tools
    }

    /// The tenant's sessions in this process, for blocking operations such as hibernating the idle ones. Empty if the
    /// sessions are in a fleet.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }
}
