//! How a tenant is set up.

use std::{num::NonZeroU32, sync::Arc};

use glovebox::{Policy, SessionId, SessionKey, SessionStore, StorePolicy, Tool};
use glovebox_fleet::FleetClient;

use glovebox_requests::callbacks::Callbacks;

/// Where a tenant's sessions are.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionPlace {
    /// In a store, and executed in this process. No other tenant may have the same.
    Store(Arc<dyn SessionStore>),
    /// In a fleet, and executed by its nodes, with what these grant.
    Fleet {
        /// Asks the fleet.
        client: FleetClient,
        /// The scope of their names. No other tenant may have the same.
        scope: SessionId,
    },
}

/// How a tenant is set up.
#[derive(Debug)]
pub struct TenantConfig {
    /// Its name, in the audit log.
    pub name: String,
    /// What it is granted: what its executions have where they ask for nothing, and the most that they may ask for.
    pub policy: Policy,
    /// Tools that its scripts may call.
    pub tools: Vec<Tool>,
    /// Services that its requests may name to answer tools. Default: none.
    pub callbacks: Option<Callbacks>,
    /// Where its sessions are.
    pub place: SessionPlace,
    /// When sessions are hibernated. They are always saved after each execution, before it is answered, whatever this says.
    pub store_policy: StorePolicy,
    /// Seals its sessions.
    pub key: Option<SessionKey>,
    /// How many sessions it may have, live or not. Default 1,000.
    pub sessions: usize,
    /// The most bytes that its sessions may take in the store. A session that would exceed them is not saved. Default 4 GiB.
    pub stored_bytes: u64,
    /// How many of its executions may run or wait at once. Default 64.
    pub executions_at_once: usize,
    /// How many executions it may ask for in a minute. Default: any number.
    pub executions_per_minute: Option<NonZeroU32>,
    /// How many of its executions may be of those whose tools it answers itself. Default 16.
    pub suspended: usize,
    /// Whether it sees what all tenants have used together, or what it has. Default: all.
    pub sees_all_metrics: bool,
}

impl TenantConfig {
    /// The defaults, over a store.
    pub fn new(name: impl Into<String>, store: Arc<dyn SessionStore>) -> Self {
        Self::with(name.into(), SessionPlace::Store(store))
    }

    /// The defaults, before a fleet: its sessions are in the scope of its name.
    #[must_use]
    pub fn in_fleet(name: SessionId, client: FleetClient) -> Self {
        Self::with(name.to_string(), SessionPlace::Fleet { client, scope: name })
    }

    fn with(name: String, place: SessionPlace) -> Self {
        Self {
            name,
            policy: Policy::default(),
            tools: Vec::new(),
            callbacks: None,
            place,
            store_policy: StorePolicy::default(),
            key: None,
            sessions: 1_000,
            stored_bytes: 4 << 30,
            executions_at_once: 64,
            executions_per_minute: None,
            suspended: 16,
            sees_all_metrics: true,
        }
    }
}
