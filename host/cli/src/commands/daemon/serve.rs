//! Serving.

use std::{
    io::{IsTerminal as _, stdin},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use glovebox_server::{
    Admission, NoStore, Service, ServiceConfig, Tenant, TenantConfig,
    daemon::{Daemon, DaemonConfig, Listener, serve, serve_stdio},
};
use tokio_util::sync::CancellationToken;

use super::place::PlaceArgs;
use crate::{
    args::{GlobalArgs, PolicyArgs, ProgramArgs},
    engine::{Host, Pooling},
    interrupt,
    terminal::note,
};

/// Time for running scripts to end at shutdown.
const DRAIN: Duration = Duration::from_secs(10);
/// Minimum number of concurrent executions: many wait for an answer of their client.
const MIN_RUNNING: usize = 64;

/// Options of the daemon, and the policy of its scripts.
#[derive(Args, Debug)]
pub(super) struct ServerArgs {
    #[command(flatten)]
    place: PlaceArgs,

    /// Serve one client over standard input and output instead of a socket
    #[arg(long, conflicts_with = "socket")]
    stdio: bool,

    /// Maximum number of open sessions
    #[arg(long, value_name = "COUNT", default_value_t = DaemonConfig::default().sessions)]
    sessions: usize,

    /// Maximum number of open connections
    #[arg(long, value_name = "COUNT", default_value_t = DaemonConfig::default().connections)]
    connections: usize,

    /// Number of interpreters to keep ready
    #[arg(long, value_name = "COUNT", default_value_t = DaemonConfig::default().ready)]
    ready: usize,

    /// Close sessions that were not used for this long
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = humantime::parse_duration)]
    idle: Duration,

    /// Runtime to serve; repeatable. The first one of a language is its default [default: the default of each language]
    #[arg(long = "runtime", value_name = "NAME")]
    runtimes: Vec<String>,

    #[command(flatten)]
    programs: ProgramArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

pub(super) fn run(global: &GlobalArgs, args: &ServerArgs) -> anyhow::Result<i32> {
    let policy = args.policy.resolve()?;
    let tools = args.programs.tools(&policy)?;
    let host = Host::open(global, Pooling::Pooled)?;
    let mut admission = Admission::default();
    admission.running = admission.running.max(MIN_RUNNING);
    // With `--stdio`, runtimes are prepared at first use: the client that started this process waits for it, and may
    // never use all of them.
    let config = ServiceConfig {
        runtimes: args.runtimes.clone(),
        admission,
        prepare_later: args.stdio,
        ..ServiceConfig::default()
    };
    let service = host.with_progress(|engine| Service::new(engine.clone(), config)).context("cannot serve")?;
    let mut daemon = DaemonConfig::default();
    (daemon.sessions, daemon.connections) = (args.sessions.max(1), args.connections.max(1));
    (daemon.idle, daemon.ready) = (args.idle, if args.stdio { 0 } else { args.ready.min(args.sessions) });
    let mut tenant = TenantConfig::new("daemon", Arc::new(NoStore));
    (tenant.policy, tenant.tools) = (policy, tools);
    // No further limit is needed: each connection limits its outstanding requests.
    tenant.executions_at_once = daemon.connections.saturating_mul(daemon.outstanding).saturating_add(daemon.ready);
    let tenant = Tenant::new(&service, tenant);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(admission.running.saturating_add(16))
        .build()
        .context("cannot start threads")?;
    let served = runtime.block_on(serve_until_stopped(args, &service, &tenant, daemon));
    // A blocking read of standard input may still be running.
    runtime.shutdown_background();
    served.map(|()| 0)
}

async fn serve_until_stopped(
    args: &ServerArgs,
    service: &Service,
    tenant: &Tenant,
    config: DaemonConfig,
) -> anyhow::Result<()> {
    let listener = match args.stdio {
        true => None,
        false => Some(Listener::bind(args.place.path()?)?),
    };
    let daemon = Daemon::new(tenant, config);
    let (pressed, over) = (interrupt::install_for_server()?, CancellationToken::new());
    let stops = daemon.clone();
    let _hook = pressed.on_cancel(move || stops.stop());
    let drain = async {
        tokio::select! {
            () = daemon.stopped() => service.drain(DRAIN).await,
            () = over.cancelled() => {}
        }
    };
    let served = async {
        let _over = over.clone().drop_guard();
        match listener {
            Some(listener) => {
                note(&format!("listening at {}", listener.path().display()));
                serve(&daemon, listener).await;
            }
            None => {
                if stdin().is_terminal() {
                    note("waiting for a client's messages on standard input, one a line");
                }
                serve_stdio(&daemon).await;
            }
        }
    };
    tokio::join!(served, drain);
    Ok(())
}
