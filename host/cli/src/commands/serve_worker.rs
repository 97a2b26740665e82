//! `glovebox serve-worker`: a child process of `glovebox serve --workers` that runs scripts.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use glovebox::with_causes;
use glovebox_server::{
    Admission, Reach, ServerConfig, Service, ServiceConfig, Tenant, TokenTable, WorkerCommand, WorkersConfig, confine,
    http::{Tenants, TokenHash},
    orders, serve_as_worker,
};
use serde::{Deserialize, Serialize};

use crate::{
    args::{GlobalArgs, LogFormat},
    engine::{Host, Pooling, own_images_dir, own_packages_dir},
    own_program,
    stored::read_key,
    tenants::{IDLE_LOOK, Root, tenant_config},
    terminal::note,
};

/// Limit of concurrent executions, more than the server ever forwards.
const EXECUTIONS: usize = 100_000;
/// Environment variables of a worker: locations and logging.
const VARIABLES: [&str; 11] = [
    "GLOVEBOX_BUNDLE",
    "GLOVEBOX_CACHE_AGE",
    "GLOVEBOX_CACHE_BYTES",
    "GLOVEBOX_DEFAULT_RUNTIME",
    "GLOVEBOX_LOG",
    "HOME",
    "NO_COLOR",
    "RUST_BACKTRACE",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Configuration that a worker receives.
#[derive(Debug, Deserialize, Serialize)]
struct Orders {
    config: ServerConfig,
    /// There is a tenant in addition to those of the configuration.
    has_own: bool,
    /// Directory of the sessions.
    root: PathBuf,
    /// Directory of the interpreters.
    cache: PathBuf,
}

/// Returns the configuration with which the server starts its workers.
pub(super) fn started_by(
    global: &GlobalArgs,
    host: &Host,
    config: &ServerConfig,
    root: &Path,
    count: usize,
    has_own: bool,
) -> anyhow::Result<WorkersConfig> {
    let mut config = config.clone();
    // Only the server knows tokens.
    config.tokens.iter_mut().for_each(|token| token.sha256.clear());
    config.tools.secret_file = None;
    config.sessions.live_count = config.sessions.live_count.div_ceil(count);
    let absolute = |path: &Path| std::path::absolute(path).context("a path cannot be made absolute");
    let orders = Orders { config, has_own, root: absolute(root)?, cache: absolute(host.engine.cache_dir())? };
    let mut args: Vec<OsString> = vec!["--cache-dir".into(), orders.cache.clone().into()];
    let mut flag = |name: &str, value: OsString| args.extend([name.into(), value]);
    if let Some(bundle) = &global.bundle {
        flag("--bundle", absolute(bundle)?.into());
    }
    if !global.default_runtime.is_empty() {
        flag("--default-runtime", global.default_runtime.join(",").into());
    }
    if let Some(log) = &global.log {
        flag("--log", log.into());
    }
    if global.log_format == LogFormat::Json {
        flag("--log-format", "json".into());
    }
    args.extend((0..global.verbose).map(|_| "--verbose".into()));
    if global.no_packages {
        args.push("--no-packages".into());
    }
    args.push("serve-worker".into());
    let env = VARIABLES.into_iter().filter_map(|name| Some((name.into(), std::env::var_os(name)?))).collect();
    let command = WorkerCommand { program: own_program(), args, env };
    WorkersConfig::new(count, command, &orders).context("cannot encode the configuration of workers")
}

pub(crate) fn run(global: &GlobalArgs) -> anyhow::Result<i32> {
    let Orders { config, has_own, root, cache } = orders()?;
    // Reads the files that are not accessible after confinement.
    let key = config.key_file.as_deref().map(read_key).transpose()?;
    let confinement = confine(&reach(global, &config, &root, cache));
    let host = Host::open(global, Pooling::Pooled)?;
    let service_config = ServiceConfig {
        runtimes: config.runtimes.clone(),
        // The server has the queue.
        admission: Admission { running: EXECUTIONS, waiting: 0, ..Admission::default() },
        worker: true,
        ..ServiceConfig::default()
    };
    let service = host.with_progress(|engine| Service::new(engine.clone(), service_config))?;
    let home = Root::Store(root);
    let mut tenants = Tenants::default();
    let all: Vec<Option<&TokenTable>> = config.tokens.iter().map(Some).chain(has_own.then_some(None)).collect();
    for table in all {
        let mut tenant = tenant_config(&config, table, &home, key.clone())?;
        tenant.executions_at_once = EXECUTIONS;
        tenant.executions_per_minute = None;
        // Requests to a worker carry no token.
        tenants.add(TokenHash::of(&tenant.name), Tenant::new(&service, tenant));
    }
    let tenants_of_all: Vec<Tenant> = tenants.all().cloned().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(config.admission().running.saturating_add(64))
        .build()
        .context("cannot start the worker's threads")?;
    let idle = tenants_of_all
        .iter()
        .map(|tenant| tenant.sessions().hibernate_idle_in_background(IDLE_LOOK))
        .collect::<Result<Vec<_>, _>>()
        .context("cannot start the threads that save idle sessions")?;
    let served = runtime.block_on(serve_as_worker(&service, tenants, &config.http(), confinement));
    drop(idle);
    for tenant in tenants_of_all {
        for (id, error) in tenant.sessions().hibernate_all().errors {
            note(&format!("session `{id}` could not be saved: {}", with_causes(&error)));
        }
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    Ok(0)
}

/// Returns the host files and system limits that the worker needs.
fn reach(global: &GlobalArgs, config: &ServerConfig, root: &Path, cache: PathBuf) -> Reach {
    let mut reach = Reach::default();
    // Loading takes file locks. Only the server writes compiled code.
    reach.write.extend([root.to_owned(), cache.join("locks")]);
    reach.read.push(cache);
    // The page map, which tells the pages that a guest has written.
    reach.read.push("/proc/self".into());
    reach.read.extend(global.bundle.clone());
    reach.read.extend([own_packages_dir(), own_images_dir()].into_iter().flatten());
    // Seals of compiled files.
    let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")));
    reach.read.extend(data.map(|data| data.join("glovebox")));
    for policy in std::iter::once(&config.policy).chain(config.tokens.iter().filter_map(|token| token.policy.as_ref()))
    {
        reach.write.extend(policy.mounts.iter().map(|mount| mount.host.clone()));
        reach.write.extend(policy.workspace.clone());
    }
    (reach.memory_bytes, reach.open_files) = (config.workers.memory_bytes, config.workers.open_files);
    reach
}
