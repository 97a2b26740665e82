//! `glovebox serve`: the sandbox over HTTP.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use clap::Args;
use glovebox::{Engine, escaped};
use glovebox_fleet::FleetClient;
use glovebox_server::{
    Audit, ServerConfig, Service, ServiceConfig, Telemetry, Tenant, TokenTable,
    http::{self, BoundServer, HttpConfig, SocketListener, Tenants, TokenHash},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{
    args::{GlobalArgs, PolicyArgs, StoreArgs},
    commands::serve_worker::{self, WorkerJob, WorkersArgs},
    engine::{Host, Pooling},
    interrupt, logging,
    script_packages::add_allowed,
    session_dir::read_key,
    source::read_text,
    tenants::{
        EXPIRY_LOOK, IDLE_LOOK, ONLY, Root, callbacks, delete_expired, root, save_all, save_idle, tenant_config,
        threads,
    },
    terminal::{HintedError, OrHint as _, note, out},
    typecheck::TypeCheckArgs,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox serve                                   listen on 127.0.0.1:8700 with a generated token, which is printed
  GLOVEBOX_TOKEN=… glovebox serve                  with your own token
  glovebox serve --config server.toml              with tokens, policies and limits from a file
  glovebox serve --config server.toml --check-config
  glovebox serve --new-token ci                    generate a token and its configuration entry
  glovebox serve --fleet restate://engine          store the sessions in a fleet (docs/fleet.md)
  glovebox serve --socket /run/user/1000/glovebox/http.sock
                                                   listen on a Unix socket; only your user can connect, and no token is needed

  curl -H \"Authorization: Bearer $GLOVEBOX_TOKEN\" http://127.0.0.1:8700/v1/execute \\
    -d '{\"language\": \"python\", \"source\": \"print(6 * 7)\"}'

`GET /v1/openapi.json` describes every route. Sessions are saved after each execution, and survive a restart of the server. \
Ctrl-C stops the server when all executions have ended; a second Ctrl-C stops it immediately.

A client with a token can run scripts within the token's policy, which is set by flags and `[policy]`. Behind a proxy, add the \
server's public name to `[http] hosts`: requests for other hosts are rejected.

Scripts run in worker processes that the operating system confines, one for each processor. With --in-process, they run in the \
server's own process.";

/// Maximum length of the configuration file in bytes.
const MAX_CONFIG_BYTES: u64 = 4 << 20;
/// Allowed length of a token in bytes. A shorter token could be guessed.
const TOKEN_BYTES: std::ops::RangeInclusive<usize> = 16..=1024;
/// Maximum length of the file with the token in bytes: a token and a line break.
const MAX_TOKEN_FILE_BYTES: u64 = 1026;
/// Maximum length of the callback secret in bytes.
const MAX_SECRET_BYTES: u64 = 1_024;
/// Number of open files reserved for sessions and other purposes, in addition to connections and executions.
const OWN_FILES: usize = 256;

/// Serve the sandbox over HTTP
///
/// Each token has its own policy, sessions and quotas. No configuration is needed: without a token, the server
/// generates and prints one, and only this machine can reach the server.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ServeArgs {
    /// Address to listen on; port 0 chooses a free one [default: 127.0.0.1:8700]
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,

    /// Unix socket to listen on instead of an address; only your user can connect, and no token is needed
    #[arg(long, value_name = "PATH", conflicts_with_all = ["listen", "token_file", "no_token", "e2b"])]
    socket: Option<PathBuf>,

    /// Configuration file in TOML; flags override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the configuration and exit
    #[arg(long, requires = "config")]
    check_config: bool,

    /// Generate a token, print it and its configuration entry, and exit
    #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "listen", "socket"])]
    new_token: Option<String>,

    /// File with the token [default: GLOVEBOX_TOKEN, the configuration's tokens, or a generated token that is printed]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Require no token; allowed for loopback addresses only
    #[arg(long, conflicts_with = "token_file")]
    no_token: bool,

    /// Do not serve the page at `/`
    #[arg(long)]
    no_page: bool,

    /// Also serve clients of E2B; docs/e2b.md describes their settings
    #[arg(long)]
    e2b: bool,

    #[command(flatten)]
    types: TypeCheckArgs,

    #[command(flatten)]
    workers: WorkersArgs,

    /// OpenTelemetry collector that receives traces over OTLP: `http://HOST:PORT`
    #[arg(long, value_name = "ENDPOINT")]
    otlp: Option<String>,

    /// Fleet that stores and runs the sessions, instead of a store: `restate://HOST`; this server runs all other
    /// scripts
    #[arg(long, value_name = "URL")]
    fleet: Option<String>,

    /// Store of suspended executions, for requests with `suspend`: a directory or a URL, as for --store. Servers of a
    /// fleet share one [default: in the store of sessions; with --fleet, none]
    #[arg(long, value_name = "DIR|URL")]
    suspended_store: Option<PathBuf>,

    /// Runtime to serve; repeatable. The first one of a language is its default [default: the default of each language]
    #[arg(long = "runtime", value_name = "NAME")]
    runtimes: Vec<String>,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

impl ServeArgs {
    /// Returns `false` if the flags only check a configuration or generate a token.
    pub(crate) fn is_server(&self) -> bool {
        !self.check_config && self.new_token.is_none()
    }
}

pub(crate) fn run(global: &GlobalArgs, args: &ServeArgs) -> anyhow::Result<i32> {
    if let Some(name) = &args.new_token {
        return new_token(name);
    }
    let mut config = match &args.config {
        Some(path) => read_config(path)?,
        None => ServerConfig::default(),
    };
    config.policy = args.policy.resolve_over(config.policy)?;
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    if !args.runtimes.is_empty() {
        config.runtimes.clone_from(&args.runtimes);
    }
    config.page.enabled &= !args.no_page;
    config.e2b.enabled |= args.e2b;
    config.telemetry.otlp = args.otlp.clone().or(config.telemetry.otlp);
    args.workers.apply(&mut config.workers);
    config.store = args.store.store.clone().or(config.store);
    config.fleet = args.fleet.clone().or(config.fleet);
    config.key_file = args.store.key_file.clone().or(config.key_file);
    config.tools.suspended_store = args.suspended_store.clone().or(config.tools.suspended_store);
    // In a fleet, the nodes seal the sessions, and this server seals only the suspended executions that it stores.
    let has_store = config.fleet.is_none() || config.tools.suspended_store.is_some();
    if has_store && config.key_file.is_none() {
        config.key_file = args.store.key_file();
    }
    if args.socket.is_some() {
        // Only the current user can connect, so no token is needed. Neither browsers nor E2B clients can reach the
        // socket.
        config.tokens.clear();
        (config.page.enabled, config.e2b.enabled) = (false, false);
    }
    config.check().or_hint(|| "invalid server configuration".into(), "see docs/server.md")?;
    let token = token(args, &config)?;
    if args.check_config {
        let tokens = config.tokens.len();
        out(&format!("the configuration is valid: {tokens} token{}\n", if tokens == 1 { "" } else { "s" }))?;
        return Ok(0);
    }
    let runtime = threads(blocking_threads(&config))?;
    let endpoint = config.telemetry.otlp.as_deref();
    let telemetry = endpoint.map(|endpoint| Telemetry::start(endpoint, runtime.handle())).transpose()?;
    logging::start_with(global, telemetry.as_ref().map(Telemetry::layer))?;
    let workers = config.workers.processes();
    // With workers, this process runs no scripts, but prepares the runtimes that the workers load.
    let pooling = if workers == 0 { Pooling::Pooled } else { Pooling::Single };
    for policy in config.tokens.iter().filter_map(|token| token.policy.as_ref()).chain([&config.policy]) {
        add_allowed(policy)?;
    }
    let host = Host::open(global, pooling)?;
    let runtimes = config.runtimes.clone();
    let audit = config.audit.as_ref().map(|audit| Audit::file(audit.file.clone(), audit.source)).transpose()?;
    let service_config = ServiceConfig {
        runtimes,
        admission: config.admission,
        suspension: config.suspension(),
        audit,
        workers: workers > 0,
        type_checker: args.types.checker(&host)?,
        ..ServiceConfig::default()
    };
    let service = host.with_progress(|engine: &Engine| Service::new(engine.clone(), service_config))?;
    let root = root(&config)?;
    let tenants = tenants(&service, &config, &token, &root)?;
    let workers = match workers {
        0 => None,
        count => {
            let own = (!matches!(token, Token::Configured)).then(|| ONLY.to_owned());
            let root = if let Root::Store(root) = &root { Some(root.as_path()) } else { None };
            let job = WorkerJob { config: config.clone(), own, root, has_parts: true, count };
            Some(serve_worker::workers_config(global, &host, job)?)
        }
    };
    let code = runtime.block_on(async {
        if let Root::Fleet(fleet) = &root {
            probe(fleet).await;
        }
        if let Some(workers) = workers {
            service.start_workers(workers).await?;
        }
        let code = serve(&service, tenants, &config, &token, args.socket.as_deref()).await;
        service.end_workers().await;
        code
    });
    if let Some(telemetry) = telemetry {
        telemetry.end();
    }
    // Wait at most a second for executions that are still being cancelled.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

/// Raises the limit on open files to its maximum. Returns the smaller of `wanted` and the number of connections that
/// the limit allows.
pub(super) fn allowed_connections(wanted: usize, running: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let allowed = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let Some(allowed) = allowed.and_then(|allowed| usize::try_from(allowed).ok()) else { return wanted };
    let left = allowed.saturating_sub(OWN_FILES + 2 * running).max(1);
    if left < wanted {
        note(&format!(
            "accepting at most {left} connections instead of {wanted}: the system allows {allowed} open files \
             (`ulimit -n`)"
        ));
    }
    wanted.min(left)
}

/// Returns a number of blocking threads that suffices for all running and suspended executions and for operations on
/// the store.
pub(super) fn blocking_threads(config: &ServerConfig) -> usize {
    config.admission.running.saturating_add(config.suspension().count).saturating_add(64)
}

/// The address or the socket of a server.
enum ServerListener {
    Address(BoundServer),
    Socket(SocketListener),
}

impl ServerListener {
    async fn new(config: &ServerConfig, socket: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = socket {
            return Ok(Self::Socket(SocketListener::bind(path)?));
        }
        let message = || format!("cannot listen on {}", config.listen);
        let bound = BoundServer::new(config.listen).await.or_hint(message, "choose another address with --listen")?;
        Ok(Self::Address(bound))
    }

    /// Prints the address of the server, a generated token and the URL of the page.
    fn announce(&self, config: &ServerConfig, token: &Token) {
        let bound = match self {
            Self::Address(bound) => bound,
            Self::Socket(listener) => return note(&format!("listening at {}", escaped(listener.path()))),
        };
        note(&format!("listening on http://{}", bound.address));
        if let Token::Generated(text) = token {
            note(&format!("the token for this run: {text}"));
        }
        if config.page.enabled {
            note(&format!("the page: {}", page_url(bound.address, token)));
        }
    }

    async fn serve(self, service: &Service, tenants: Tenants, http: &HttpConfig) -> anyhow::Result<()> {
        match self {
            Self::Address(bound) => {
                let routes = http::router(service, tenants, http, bound.address);
                http::serve(bound, service, routes, http).await;
            }
            Self::Socket(listener) => {
                let tenant = tenants.all().next().context("no tenant for the socket")?.clone();
                http::serve_socket(listener, service, http::socket_router(service, tenant, http), http).await;
            }
        }
        Ok(())
    }
}

async fn serve(
    service: &Service,
    tenants: Tenants,
    config: &ServerConfig,
    token: &Token,
    socket: Option<&Path>,
) -> anyhow::Result<i32> {
    let listener = ServerListener::new(config, socket).await?;
    let idle = save_idle(tenants.all(), IDLE_LOOK)?;
    let all: Vec<Tenant> = tenants.all().cloned().collect();
    listener.announce(config, token);
    let cancel = interrupt::install_for_server()?;
    let drain = async {
        cancelled(&cancel).await;
        note("shutting down: waiting for running executions; press Ctrl-C again to stop immediately");
        service.drain(Duration::from_millis(config.drain_ms)).await;
    };
    let mut http = config.http();
    http.connections = allowed_connections(http.connections, config.admission.running);
    let expiry = tokio::spawn(delete_expired(all.clone(), EXPIRY_LOOK));
    let (served, ()) = tokio::join!(listener.serve(service, tenants, &http), drain);
    expiry.abort();
    served?;
    drop(idle);
    save_all(all).await?;
    Ok(0)
}

/// Returns the URL of the page for a browser on this machine. A generated token, which is always printed, is included
/// after `#`: browsers do not send that part of a URL.
fn page_url(mut address: SocketAddr, token: &Token) -> String {
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
        address.set_ip(loopback);
    }
    match token {
        Token::Generated(text) => format!("http://{address}/#token={text}"),
        _ => format!("http://{address}/"),
    }
}

/// Waits until `cancel` is cancelled.
pub(super) async fn cancelled(cancel: &glovebox::CancelToken) {
    let stopped = Arc::new(tokio::sync::Notify::new());
    let notifier = Arc::clone(&stopped);
    let _hook = cancel.on_cancel(move || notifier.notify_one());
    stopped.notified().await;
}

/// The token of the tenant [`ONLY`]. The tokens in the configuration are also accepted.
enum Token {
    /// A token from a flag or the environment.
    Provided(String),
    /// A token that was generated for this run.
    Generated(String),
    /// The tenant [`ONLY`] does not exist: only the tokens in the configuration are accepted.
    Configured,
    /// No token is required.
    Open,
}

fn token(args: &ServeArgs, config: &ServerConfig) -> anyhow::Result<Token> {
    if args.socket.is_some() {
        return Ok(Token::Open);
    }
    if args.no_token {
        if !config.listen.ip().is_loopback() {
            return Err(HintedError::new(
                format!("{} is reachable from other machines, but no token is set", config.listen),
                "remove --no-token, or listen on 127.0.0.1",
            )
            .into());
        }
        return Ok(Token::Open);
    }
    match given_token(args.token_file.as_deref())? {
        Some(token) => Ok(Token::Provided(token)),
        None if !config.tokens.is_empty() => Ok(Token::Configured),
        None => {
            Ok(Token::Generated(TokenHash::new_token().context("cannot get random numbers from the operating system")?))
        }
    }
}

/// Reads the token from a file or from GLOVEBOX_TOKEN, and checks its length.
pub(super) fn given_token(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let given = match file {
        Some(path) => {
            let what = format!("token file `{}`", escaped(path));
            Some(
                read_text(path, &what, MAX_TOKEN_FILE_BYTES, "check the path given to --token-file")?.trim_end().into(),
            )
        }
        None => std::env::var("GLOVEBOX_TOKEN").ok().filter(|token| !token.is_empty()),
    };
    let Some(token) = given.as_ref().filter(|token| !TOKEN_BYTES.contains(&token.len())) else { return Ok(given) };
    let (min, max) = (TOKEN_BYTES.start(), TOKEN_BYTES.end());
    let text = format!("the token is {} bytes; it must be between {min} and {max} bytes", token.len());
    Err(HintedError::new(text, "`glovebox serve --new-token NAME` creates one").into())
}

fn read_config(path: &Path) -> anyhow::Result<ServerConfig> {
    let what = format!("configuration `{}`", escaped(path));
    let text = read_text(path, &what, MAX_CONFIG_BYTES, "check the path given to --config")?;
    Ok(ServerConfig::from_toml(&text).or_hint(|| format!("invalid {what}"), "see docs/server.md")?)
}

/// Prints a note if a fleet does not answer. This is not an error: the fleet may start later than this server.
pub(super) async fn probe(fleet: &FleetClient) {
    if let Err(error) = fleet.count(None).await {
        note(&format!("the fleet does not respond yet: {}", glovebox::with_causes(&error)));
    }
}

/// Returns the tenants of the configuration, and the tenant [`ONLY`] unless `token` is [`Token::Configured`].
fn tenants(service: &Service, config: &ServerConfig, token: &Token, root: &Root) -> anyhow::Result<Tenants> {
    let key = config.key_file.as_deref().map(read_key).transpose()?;
    let secret = config.tools.secret_file.as_deref().map(read_secret).transpose()?;
    let tenant = |table: Option<&TokenTable>| {
        let mut tenant = tenant_config(config, table, root, key.clone())?;
        tenant.callbacks = callbacks(config, table, secret.as_deref())?;
        Ok::<_, anyhow::Error>(Tenant::new(service, tenant))
    };
    let is_given = !matches!(token, Token::Configured);
    if is_given && config.tokens.iter().any(|table| table.name.eq_ignore_ascii_case(ONLY)) {
        return Err(HintedError::new(
            format!("the token name `{ONLY}` is reserved for the token from a flag or the environment"),
            "rename the token in the configuration, or remove GLOVEBOX_TOKEN, --token-file and --no-token",
        )
        .into());
    }
    let mut tenants = match token {
        Token::Open => Tenants::open(tenant(None)?),
        Token::Configured => Tenants::default(),
        Token::Provided(text) | Token::Generated(text) => {
            let mut tenants = Tenants::default();
            tenants.add(TokenHash::of(text), tenant(None)?);
            tenants
        }
    };
    for table in &config.tokens {
        let hash = TokenHash::from_hex(&table.sha256).context("invalid token hash in the configuration")?;
        tenants.add(hash, tenant(Some(table))?);
    }
    Ok(tenants)
}

pub(super) fn read_secret(path: &Path) -> anyhow::Result<String> {
    let what = format!("callback secret `{}`", escaped(path));
    Ok(read_text(path, &what, MAX_SECRET_BYTES, "check `tools.secret_file`")?.trim_end().to_owned())
}

fn new_token(name: &str) -> anyhow::Result<i32> {
    let token = TokenHash::new_token().context("cannot get random numbers from the operating system")?;
    let entry = format!("[[tokens]]\nname = \"{name}\"\nsha256 = \"{}\"\n", TokenHash::of(&token));
    // Check the name against the rules for configuration files.
    ServerConfig::from_toml(&entry)?;
    note(&format!("the token, shown only once: {token}"));
    out(&entry)?;
    Ok(0)
}
