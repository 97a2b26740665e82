//! `glovebox serve-worker`: a child process of `glovebox serve` or `glovebox mcp --listen` that runs scripts. Also
//! makes glibc's allocator return freed memory to the system in servers and their workers.

use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use glovebox::escaped;
use glovebox_server::{
    Admission, ConfinedAccess, NoStore, ServerConfig, Service, ServiceConfig, TenantConfig, TokenTable, WorkerCommand,
    WorkerTenants, WorkersConfig, WorkersTable, confine, read_worker_config, serve_as_worker,
};
use glovebox_sessions::SessionStore;
use serde::{Deserialize, Serialize};
use signal_hook::{consts::SIGPIPE, flag};

use super::serve::blocking_threads;
use crate::{
    args::{GlobalArgs, LogFormat},
    engine::{Host, Pooling, custom_images_dir, user_packages_dir},
    own_program,
    session_dir::{is_url, open_store, read_key},
    tenants::{IDLE_LOOK, configure, save_idle, tenant_name, threads},
    terminal::note,
};

/// Options for a server's workers.
#[derive(Args, Debug)]
pub(crate) struct WorkersArgs {
    /// Run scripts in N confined worker processes [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Workers")]
    workers: Option<u16>,

    /// Run scripts in the server's own process, without workers
    #[arg(long, conflicts_with = "workers", help_heading = "Workers")]
    in_process: bool,
}

impl WorkersArgs {
    /// Applies the options to the `workers` table of a configuration.
    pub(crate) fn apply(&self, table: &mut WorkersTable) {
        table.in_process |= self.in_process;
        if let Some(count) = self.workers {
            (table.count, table.in_process) = (count.into(), false);
        }
    }
}

/// Limit on concurrent executions in a worker. It is never reached, because the server itself limits executions.
const EXECUTIONS: usize = 100_000;
/// The name of the directory with file locks, within the cache directory.
const LOCKS: &str = "locks";
/// The environment variables that a worker inherits.
const VARIABLES: [&str; 10] = [
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

/// The configuration that a worker receives.
#[derive(Debug, Deserialize, Serialize)]
struct WorkerConfig {
    config: ServerConfig,
    /// The name of a tenant that is not in the configuration.
    own: Option<String>,
    /// The location of the sessions: a directory or a URL. `None` in a fleet.
    root: Option<PathBuf>,
    /// `true` if each tenant has a separate subdirectory or prefix below the location.
    has_parts: bool,
    /// The cache directory, which contains the interpreters.
    cache: PathBuf,
}

/// The configuration and the number of the workers to start.
pub(super) struct WorkerJob<'a> {
    pub(super) config: ServerConfig,
    /// The name of a tenant that is not in the configuration.
    pub(super) own: Option<String>,
    /// The location of the sessions. `None` in a fleet.
    pub(super) root: Option<&'a Path>,
    /// `true` if each tenant has a separate subdirectory or prefix below the location.
    pub(super) has_parts: bool,
    pub(super) count: usize,
}

/// Returns the configuration with which the server starts its workers.
pub(super) fn workers_config(global: &GlobalArgs, host: &Host, job: WorkerJob<'_>) -> anyhow::Result<WorkersConfig> {
    let WorkerJob { mut config, own, root, has_parts, count } = job;
    prepare_tools(host);
    // Workers receive neither the hashes of tokens nor the callback secret.
    config.tokens.iter_mut().for_each(|token| token.sha256.clear());
    config.tools.secret_file = None;
    config.sessions.live_count = config.sessions.live_count.div_ceil(count);
    let absolute =
        |path: &Path| std::path::absolute(path).with_context(|| format!("cannot make `{}` absolute", escaped(path)));
    let root = root.map(|root| if is_url(root) { Ok(root.to_owned()) } else { absolute(root) }).transpose()?;
    let worker = WorkerConfig { config, own, root, has_parts, cache: absolute(host.engine.cache_dir())? };
    let mut args: Vec<OsString> = vec!["--cache-dir".into(), worker.cache.clone().into()];
    let mut flag = |name: &str, value: OsString| args.extend([name.into(), value]);
    for (name, paths) in [("--bundle", &global.bundle), ("--prepared", &global.prepared)] {
        for path in paths {
            flag(name, absolute(path)?.into());
        }
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
    let env = VARIABLES.into_iter().filter_map(|name| Some((name.into(), env::var_os(name)?)));
    let added = [
        // The worker may write to this directory. Its temporary files have no names and are not visible there.
        ("TMPDIR".into(), worker.temporary().into()),
        mmap_threshold(),
    ];
    let env = env.chain(added).collect();
    let command = WorkerCommand { program: own_program(), args, env };
    WorkersConfig::new(count, command, &worker).context("cannot encode the configuration of workers")
}

/// Prepares the tools that are fetched or bundled, because workers cannot write to the cache. A failure only affects
/// scripts that need the tool.
fn prepare_tools(host: &Host) {
    for tool in host.engine.tools().unwrap_or_default().iter().filter(|tool| tool.fetched || tool.bundled) {
        if let Err(error) = host.with_progress(|engine| engine.prepare(&tool.name)) {
            note(&format!("cannot prepare `{}` for workers: {}", tool.name, glovebox::with_causes(&error)));
        }
    }
}

impl WorkerConfig {
    /// Returns the directory of the sessions, or `None` if they are not in a directory.
    fn dir(&self) -> Option<&Path> {
        self.root.as_deref().filter(|root| !is_url(root))
    }

    /// Returns a directory that a worker may write to.
    fn temporary(&self) -> PathBuf {
        self.dir().map_or_else(|| self.cache.join(LOCKS), Path::to_owned)
    }

    /// Returns a tenant's store. If the store is not a directory, the server opens it, and the worker accesses it
    /// through the server.
    fn store(&self, name: &str, tenants: &WorkerTenants) -> anyhow::Result<Arc<dyn SessionStore>> {
        Ok(match (self.dir(), &self.root) {
            (Some(dir), _) => {
                let store = if self.has_parts { open_store(&dir.join(name))? } else { open_store(dir)? };
                tenants.counting_store(name, store)
            }
            (None, Some(_)) => Arc::new(tenants.store(name)),
            (None, None) => Arc::new(NoStore),
        })
    }
}

pub(crate) fn run(global: &GlobalArgs) -> anyhow::Result<i32> {
    let worker: WorkerConfig = read_worker_config()?;
    let config = &worker.config;
    // Read the key now, because its file is inaccessible after confinement.
    let key = config.key_file.as_deref().map(read_key).transpose()?;
    let confinement = confine(&access(global, &worker));
    let host = Host::open(global, Pooling::Pooled)?;
    let service_config = ServiceConfig {
        runtimes: config.runtimes.clone(),
        // Requests wait in the server's queue, not in the worker.
        admission: Admission { running: EXECUTIONS, waiting: 0, ..Admission::default() },
        ..ServiceConfig::default()
    };
    let service = host.with_progress(|engine| Service::new(engine.clone(), service_config))?;
    let mut tenants = WorkerTenants::new(&service);
    let all: Vec<Option<&TokenTable>> =
        config.tokens.iter().map(Some).chain(worker.own.is_some().then_some(None)).collect();
    for table in all {
        let name = match (table, &worker.own) {
            (None, Some(own)) => own.clone(),
            (table, _) => tenant_name(table),
        };
        let store = worker.store(&name, &tenants)?;
        tenants.add(configure(config, table, TenantConfig::new(name, store), key.clone()));
    }
    let runtime = threads(blocking_threads(config))?;
    let idle = save_idle(tenants.all(), IDLE_LOOK)?;
    let served = runtime.block_on(serve_as_worker(&tenants, confinement));
    drop(idle);
    runtime.shutdown_timeout(Duration::from_secs(1));
    served?;
    Ok(0)
}

/// Returns the host files and system limits that the worker needs.
fn access(global: &GlobalArgs, worker: &WorkerConfig) -> ConfinedAccess {
    let (config, cache) = (&worker.config, &worker.cache);
    let mut access = ConfinedAccess::default();
    // Loading code locks files in this directory. Only the server writes compiled code.
    access.write.push(cache.join(LOCKS));
    access.write.extend(worker.dir().map(Path::to_owned));
    access.read.push(cache.clone());
    // This directory contains the page map, which shows the pages that a guest has written.
    access.read.push("/proc/self".into());
    access.read.extend(global.bundle.iter().chain(&global.prepared).cloned());
    access.read.extend([user_packages_dir(), custom_images_dir()].into_iter().flatten());
    // This directory contains the seals of compiled files.
    let data = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share")));
    access.read.extend(data.map(|data| data.join("glovebox")));
    for policy in std::iter::once(&config.policy).chain(config.tokens.iter().filter_map(|token| token.policy.as_ref()))
    {
        access.write.extend(policy.mounts.iter().map(|mount| mount.host.clone()));
        access.write.extend(policy.workspace.clone());
    }
    (access.memory_bytes, access.open_files) = config.worker_limits();
    access
}

/// glibc returns buffers of at least this size in bytes to the system when they are freed. By default, it raises the
/// threshold up to 32 MiB and retains memory after a burst of large requests.
const MMAP_THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "1048576");
/// The variable that marks a restarted process. Without it, a program with file capabilities would restart forever,
/// because the loader removes `MALLOC_MMAP_THRESHOLD_` from its environment.
const RESTARTED: &str = "GLOVEBOX_RESTARTED";

/// Returns the environment variable that sets the threshold. The operator's own value takes precedence.
fn mmap_threshold() -> (OsString, OsString) {
    let (name, value) = MMAP_THRESHOLD;
    (name.into(), env::var_os(name).unwrap_or_else(|| value.into()))
}

/// Restarts this command with the threshold in its environment, because glibc reads the variable only when a process
/// starts. Does nothing without glibc, if the variable is set, or after a restart. Must precede the first thread and
/// the first open file. If the restart fails, the command continues with glibc's default.
pub(crate) fn restart_with_threshold(args: &[OsString]) {
    let uses_glibc = cfg!(all(target_os = "linux", target_env = "gnu"));
    if !uses_glibc || [MMAP_THRESHOLD.0, RESTARTED].iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
    let Some((name, rest)) = args.split_first() else { return };
    let mut command = Command::new(own_program());
    let error = command.arg0(name).args(rest).envs([MMAP_THRESHOLD, (RESTARTED, "1")]).exec();
    // A failed `exec` has reset SIGPIPE to its default action, which would end the server when a client disconnects.
    let _ = flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)));
    note(&format!("cannot restart to set `{}`, so the server may retain freed memory: {error}", MMAP_THRESHOLD.0));
}
