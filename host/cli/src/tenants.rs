//! The tenants of a server, and of its workers.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use glovebox::{SessionId, SessionKey};
use glovebox_fleet::FleetClient;
use glovebox_server::{ServerConfig, TenantConfig, TokenTable};

use crate::stored::open_store;

/// The name of the one token of a server that has no configuration.
pub(crate) const ONLY: &str = "default";
/// How often idle sessions are looked for.
pub(crate) const IDLE_LOOK: Duration = Duration::from_secs(5);

/// Where the sessions of all tenants are.
pub(crate) enum Root {
    /// In a directory, or below a URL, each tenant's in a place of its own there.
    Store(PathBuf),
    /// In a fleet, each tenant's in the scope of its name.
    Fleet(FleetClient),
}

/// The configuration of a tenant, or of the one whose token was given besides.
pub(crate) fn tenant_config(
    config: &ServerConfig,
    table: Option<&TokenTable>,
    root: &Root,
    key: Option<SessionKey>,
) -> anyhow::Result<TenantConfig> {
    let name = table.map_or(ONLY, |table| &table.name);
    let mut tenant = match root {
        // A directory inside of it, or a prefix below the URL.
        Root::Store(root) => TenantConfig::new(name, open_store(&root.join(name))?),
        Root::Fleet(client) => {
            let name = SessionId::new(name).context("the token's name cannot be a scope in a fleet")?;
            TenantConfig::in_fleet(name, client.clone())
        }
    };
    tenant.policy = table.and_then(|table| table.policy.clone()).unwrap_or_else(|| config.policy.clone());
    tenant.store_policy = config.sessions.clone();
    tenant.key = key;
    if let Some(table) = table {
        tenant.sessions = table.sessions.unwrap_or(tenant.sessions);
        tenant.stored_bytes = table.stored_bytes.unwrap_or(tenant.stored_bytes);
        tenant.executions_at_once = table.executions_at_once.unwrap_or(tenant.executions_at_once);
        tenant.executions_per_minute = table.executions_per_minute;
        tenant.suspended = table.suspended.unwrap_or(tenant.suspended);
        tenant.sees_all_metrics = table.metrics;
    }
    Ok(tenant)
}
