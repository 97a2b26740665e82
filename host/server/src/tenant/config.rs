//! The configuration of a tenant.

use std::{num::NonZeroU32, sync::Arc};

use glovebox::{Policy, SessionKey, Tool};
use glovebox_fleet::FleetClient;
use glovebox_sessions::{SessionId, SessionStore, StorePolicy};

use glovebox_requests::callbacks::Callbacks;

/// The location of a tenant's sessions.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionPlace {
    /// In a store. This process executes them. A store belongs to one tenant.
    Store(Arc<dyn SessionStore>),
    /// In a fleet. Its nodes execute them, under the policy of the nodes.
    Fleet {
        /// The client of the fleet.
        client: FleetClient,
        /// The scope of the session names. A scope belongs to one tenant.
        scope: SessionId,
    },
}

/// The configuration of a tenant.
#[derive(Debug)]
pub struct TenantConfig {
    /// The tenant's name, in the audit log.
    pub name: String,
    /// The granted policy: the default of each request, and the maximum that a request may ask for.
    pub policy: Policy,
    /// Tools that the tenant's scripts may call.
    pub tools: Vec<Tool>,
    /// Services that the tenant's requests may name to answer tools. Default: none.
    pub callbacks: Option<Callbacks>,
    /// The location of the sessions.
    pub place: SessionPlace,
    /// When sessions are hibernated. `save` is ignored: sessions are always saved after each execution, before it is
    /// answered.
    pub store_policy: StorePolicy,
    /// The key that seals the tenant's sessions. Default: sessions are not sealed.
    pub key: Option<SessionKey>,
    /// Maximum number of sessions, live or stored. Default 1,000.
    pub sessions: usize,
    /// Maximum size of the tenant's sessions in the store, in bytes. A session that would exceed it is not saved.
    /// Default 4 GiB.
    pub stored_bytes: u64,
    /// Maximum number of executions that run or wait at once. Default 64.
    pub executions_at_once: usize,
    /// Maximum number of executions per minute. Default: unlimited.
    pub executions_per_minute: Option<NonZeroU32>,
    /// Maximum number of executions at once whose tool calls the client answers. Default 16.
    pub suspended: usize,
    /// Show the metrics of all tenants to this one, instead of only its own. Default `true`.
    pub sees_all_metrics: bool,
}

impl TenantConfig {
    /// Returns the defaults for a tenant with its sessions in a store.
    pub fn new(name: impl Into<String>, store: Arc<dyn SessionStore>) -> Self {
        Self::with(name.into(), SessionPlace::Store(store))
    }

    /// Returns the defaults for a tenant with its sessions in a fleet, in the scope of its name.
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
