//! Tenants of a server and its workers.

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use glovebox::SessionKey;
use glovebox_fleet::FleetClient;
use glovebox_server::{ServerConfig, TenantConfig, TokenTable};
use glovebox_sessions::SessionId;

use crate::stored::open_store;

/// The name of the tenant whose token is not in the configuration.
pub(crate) const ONLY: &str = "default";
/// The interval between checks for idle sessions.
pub(crate) const IDLE_LOOK: Duration = Duration::from_secs(5);

/// The location of all tenants' sessions.
pub(crate) enum Root {
    /// A directory or URL. Each tenant has a subdirectory or a prefix.
    Store(PathBuf),
    /// A fleet. Each tenant's name is the scope of its sessions.
    Fleet(FleetClient),
}

/// Returns the name of a tenant of the configuration, or [`ONLY`] without `table`.
pub(crate) fn tenant_name(table: Option<&TokenTable>) -> String {
    table.map_or(ONLY, |table| &table.name).to_owned()
}

/// Returns the configuration of a server's tenant.
pub(crate) fn tenant_config(
    config: &ServerConfig,
    table: Option<&TokenTable>,
    root: &Root,
    key: Option<SessionKey>,
) -> anyhow::Result<TenantConfig> {
    let name = tenant_name(table);
    let tenant = match root {
        // Joins a subdirectory to a directory, or a prefix to a URL.
        Root::Store(root) => TenantConfig::new(name.clone(), open_store(&root.join(name))?),
        Root::Fleet(client) => {
            let name = SessionId::new(name).context("the token's name cannot be a scope in a fleet")?;
            TenantConfig::in_fleet(name, client.clone())
        }
    };
    Ok(configure(config, table, tenant, key))
}

/// Adds a tenant's policy and quotas.
pub(crate) fn configure(
    config: &ServerConfig,
    table: Option<&TokenTable>,
    mut tenant: TenantConfig,
    key: Option<SessionKey>,
) -> TenantConfig {
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
    tenant
}
