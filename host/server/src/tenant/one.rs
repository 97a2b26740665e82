//! One who may use the service.

use std::{
    collections::HashMap,
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex},
};

use glovebox::{Policy, Sandbox, Save, SessionStore, Sessions, Tool};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::Semaphore;

use super::{
    NoStore, SessionPlace, TenantConfig, fleet::Fleet, stored_bytes::BoundedStore, suspended::SuspendedExecutions,
    traced_store::TracedStore, turns::Turns,
};
use crate::{Door, Service, metrics::Metrics, tools::Callbacks, workers::Told};

/// One who may use the service: a policy, sessions that no other tenant sees, and quotas. Cheap to clone.
#[derive(Clone)]
pub struct Tenant(pub(super) Arc<Inner>, pub(super) Door, pub(super) Option<Arc<Told>>);

pub(super) struct Inner {
    pub(super) service: Service,
    pub(super) name: String,
    pub(super) policy: Policy,
    pub(super) tools: Vec<Tool>,
    pub(super) callbacks: Option<Callbacks>,
    /// By the runtime's name, with the tenant's own policy.
    pub(super) sandboxes: Mutex<HashMap<String, Sandbox>>,
    /// Those of the store; none where they are in a fleet.
    pub(super) sessions: Sessions,
    pub(super) fleet: Option<Fleet>,
    pub(super) max_sessions: usize,
    /// Held while a session is made, so that their number is what was counted.
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
    /// A tenant of this service.
    #[must_use]
    pub fn new(service: &Service, config: TenantConfig) -> Self {
        let TenantConfig {
            name, policy, tools, callbacks, place, mut store_policy, key, sessions: max_sessions, ..
        } = config;
        let (store, fleet): (Arc<dyn SessionStore>, _) = match place {
            SessionPlace::Store(store) => (store, None),
            SessionPlace::Fleet { client, scope } => (Arc::new(NoStore), Some(Fleet::new(client, scope))),
        };
        // What was answered is in the store, and has another generation.
        store_policy.save = Save::AfterEach;
        let (made, granted, offered) = (service.clone(), policy.clone(), tools.clone());
        let store: Arc<dyn SessionStore> = Arc::new(BoundedStore::new(store, config.stored_bytes));
        let builder = Sessions::builder(Arc::new(TracedStore(store))).policy(store_policy).stop(&service.token());
        let mut sessions = builder.make_sandbox(move |language, runtime| {
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

    /// The same tenant, as it comes through another door: that is what the audit log says of what is done with sessions.
    #[must_use]
    pub fn through(&self, door: Door) -> Self {
        Self(Arc::clone(&self.0), door, self.2.clone())
    }

    /// The same tenant in a worker, for one request of its parent.
    pub(crate) fn in_worker(&self, told: Arc<Told>) -> Self {
        Self(Arc::clone(&self.0), self.1, Some(told))
    }

    /// Services that its requests may name to answer tools.
    #[must_use]
    pub fn callbacks(&self) -> Option<&Callbacks> {
        self.0.callbacks.as_ref()
    }

    /// Whether its sessions are in a fleet: some things are not done with those ([`NotInFleet`](crate::NotInFleet)).
    #[must_use]
    pub fn is_in_fleet(&self) -> bool {
        self.0.fleet.is_some()
    }

    /// What was counted, in the text format of OpenMetrics: of all tenants together, or where it may not see that, of its own executions.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        if self.0.sees_all_metrics { self.0.service.metrics_text() } else { self.0.metrics.text() }
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

    /// The most sessions that it may have, live or not.
    #[must_use]
    pub(crate) fn max_sessions(&self) -> usize {
        self.0.max_sessions
    }

    /// The tools that its scripts may call.
    pub fn tools(&self) -> &[Tool] {
        &self.0.tools
    }

    /// Its sessions in this process, for what blocks: hibernating those that are idle, or all of them at the end. Of a tenant in a fleet there are
    /// none.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }
}
