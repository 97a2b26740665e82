//! Creates the tenants of a server and its workers, with their session locations and callbacks. Also starts the threads
//! that servers need.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use glovebox::{SessionKey, UrlPatterns, escaped};
use glovebox_fleet::FleetClient;
use glovebox_server::{
    ServerConfig, Tenant, TenantConfig, TokenTable,
    tools::{Callbacks, CallbacksConfig},
};
use glovebox_sessions::{IdleThread, SessionId};
use tokio::runtime::Runtime;

use crate::{
    session_dir::{self, DIRECTORY_REMEDY, SUSPENDED_REMEDY, is_url, open_store, open_suspended_store},
    terminal::{OrHint as _, note},
};

/// The name of the tenant whose token is not in the configuration.
pub(crate) const ONLY: &str = "default";
/// The interval between checks for idle sessions.
pub(crate) const IDLE_LOOK: Duration = Duration::from_secs(5);
/// The interval between checks for expired suspended executions.
pub(crate) const EXPIRY_LOOK: Duration = Duration::from_secs(60);

/// The name of the session directory within the state directory.
const SESSIONS: &str = "server";
/// The name of the subdirectory or prefix for a tenant's suspended executions, below the location of the tenant's
/// sessions or the tenant's part of `tools.suspended_store`.
const SUSPENDED: &str = "suspended";

/// The location of all tenants' sessions.
pub(crate) enum Root {
    /// A directory or URL. Each tenant has a subdirectory or a prefix.
    Store(PathBuf),
    /// A fleet. Each tenant's name is the scope of its sessions.
    Fleet(FleetClient),
}

/// Creates a runtime with this maximum number of blocking threads.
pub(crate) fn threads(blocking: usize) -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().max_blocking_threads(blocking).build().context("cannot start threads")
}

/// Starts the threads that save the tenants' idle sessions. They end when the result is dropped.
pub(crate) fn save_idle<'a>(
    tenants: impl IntoIterator<Item = &'a Tenant>,
    interval: Duration,
) -> anyhow::Result<Vec<IdleThread>> {
    let started = tenants.into_iter().map(|tenant| tenant.sessions().hibernate_idle_in_background(interval));
    started.collect::<Result<_, _>>().context("cannot start the threads that save idle sessions")
}

/// Saves all sessions, and prints a note for each session that could not be saved.
pub(crate) async fn save_all(tenants: Vec<Tenant>) -> anyhow::Result<()> {
    let save = move || tenants.iter().map(|tenant| tenant.sessions().hibernate_all()).collect::<Vec<_>>();
    let saved = tokio::task::spawn_blocking(save).await.context("cannot save the sessions")?;
    for (id, error) in saved.into_iter().flat_map(|report| report.errors) {
        note(&format!("session `{id}` could not be saved: {}", glovebox::with_causes(&error)));
    }
    Ok(())
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
    // `join` appends a subdirectory to a directory, or a prefix to a URL.
    let chosen = config.tools.suspended_store.as_ref().map(|root| root.join(&name));
    let (mut tenant, suspended) = match root {
        Root::Store(root) => {
            let own = root.join(&name);
            (TenantConfig::new(name, open_store(&own)?), Some(chosen.unwrap_or(own)))
        }
        Root::Fleet(client) => {
            let name = SessionId::new(name).context("the token's name cannot be a scope in a fleet")?;
            (TenantConfig::in_fleet(name, client.clone()), chosen)
        }
    };
    tenant.suspended_store = suspended.map(|at| open_suspended_store(&at.join(SUSPENDED))).transpose()?;
    Ok(configure(config, table, tenant, key))
}

/// Completes a tenant's configuration with its policy, session key, quotas and access to metrics.
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
        tenant.stored_suspended = table.stored_suspended.unwrap_or(tenant.stored_suspended);
        tenant.sees_all_metrics = table.metrics;
    }
    tenant
}

/// Returns the configured location of all tenants' sessions. Creates the directories for sessions and suspended
/// executions with mode 0700, if they do not exist.
pub(crate) fn root(config: &ServerConfig) -> anyhow::Result<Root> {
    if let Some(dir) = config.tools.suspended_store.as_ref().filter(|dir| !is_url(dir)) {
        make_private(dir, SUSPENDED_REMEDY)?;
    }
    if let Some(url) = &config.fleet {
        return Ok(Root::Fleet(FleetClient::new(&url.parse()?).context("cannot connect to the fleet")?));
    }
    let root = match &config.store {
        Some(dir) => dir.clone(),
        None => session_dir::create_state_dir()?.join(SESSIONS),
    };
    if !is_url(&root) {
        make_private(&root, DIRECTORY_REMEDY)?;
    }
    Ok(Root::Store(root))
}

/// Deletes the tenants' expired suspended executions at this interval, until the future is dropped.
pub(crate) async fn delete_expired(tenants: Vec<Tenant>, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        for tenant in &tenants {
            if let Err(error) = tenant.delete_expired().await {
                let error = glovebox::with_causes(&error);
                tracing::warn!(target: "glovebox", error, "cannot delete expired suspended executions");
            }
        }
    }
}

fn make_private(dir: &Path, remedy: &str) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let created = builder.recursive(true).create(dir);
    let message = || format!("cannot create the directory `{}`", escaped(dir));
    Ok(created.or_hint(message, remedy)?)
}

/// Returns the services that may answer the tools of a token's scripts. `None` if no service is allowed or there is no
/// secret.
pub(crate) fn callbacks(
    config: &ServerConfig,
    table: Option<&TokenTable>,
    secret: Option<&str>,
) -> anyhow::Result<Option<Callbacks>> {
    let patterns = table.and_then(|table| table.callbacks.as_ref()).unwrap_or(&config.tools.callbacks);
    let Some(secret) = secret.filter(|_| !patterns.is_empty()) else { return Ok(None) };
    let config = CallbacksConfig { allowed: UrlPatterns::new(patterns)?, secret: secret.to_owned() };
    Ok(Some(Callbacks::new(&config).context("cannot set up callbacks")?))
}
