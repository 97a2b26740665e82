//! `glovebox mcp`: a server for the Model Context Protocol, through which models run code.

mod client_file;
mod install;

use std::{
    fs::File,
    io::{IsTerminal as _, Read as _, stdin},
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use glovebox::{Approve, CancelToken, Policy, Sandbox, Tool, escaped};
use glovebox_fleet::{FleetClient, FleetUrl};
use glovebox_server::{
    ServerConfig, Service, ServiceConfig, Tenant, TenantConfig, WorkersTable,
    http::{self, BoundServer, HttpConfig, Tenants, TokenHash},
    mcp::{self, Listing, McpServer, UpstreamConfig, Upstreams, serve_stdio},
};
use glovebox_sessions::SessionId;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{GlobalArgs, PolicyArgs, ProgramArgs, StoreArgs},
    commands::{
        serve::{given_token, probe},
        serve_worker::{self, WorkerJob, WorkersArgs},
    },
    engine::{Host, Pooling},
    interrupt,
    script_packages::add_allowed,
    session_dir::SessionDir,
    tenants::{save_all, save_idle},
    terminal::{HintedError, OrHint as _, note},
    typecheck::TypeCheckArgs,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox mcp install claude-code           write .mcp.json, so that Claude Code starts the server in this project
  glovebox mcp install cursor -- --timeout-ms 60000
  glovebox mcp install vscode --print        show what would be written
  glovebox mcp                               serve one client over standard input and output, which is how clients start it
  glovebox mcp --tools-from mcp.json         let scripts call the tools of other MCP servers
  glovebox mcp --listen 127.0.0.1:8900       serve any number of clients at http://127.0.0.1:8900/mcp
  GLOVEBOX_TOKEN=secret-of-16-letters glovebox mcp --listen 0.0.0.0:8900 --allow-host box.example.com

A client finds the tools run_code, session_open, session_list, session_fork, session_undo, session_close, files_list, \
files_read and files_write. A script runs in a new interpreter, or in a session that keeps its state. Sessions are saved \
after each script, by default in $XDG_STATE_HOME/glovebox/mcp-sessions, where the next server finds them.

With --tools-from, scripts may call the tools of other servers as tools.SERVER_TOOL(…). FILE lists them in the usual format:
{\"mcpServers\": {\"weather\": {\"command\": \"npx\", \"args\": [\"-y\", \"weather-server\"], \"env\": {\"KEY\": \"…\"}}}}. A server runs with \
your permissions; its environment contains PATH, HOME and the variables in FILE. A server over HTTP has the keys \"url\" and \
\"headers\" instead: {\"url\": \"https://…\", \"headers\": {\"Authorization\": \"…\"}}. {\"openapi\": \"FILE or URL\"} offers the \
operations of an HTTP API with an OpenAPI document. \"tools\": [\"NAME\"] offers only these tools. \
With \"approve\": \"always\" or [\"NAME\"], with --approve, or with `approve = \"always\"` in the policy's table `tools.NAME`, the \
client asks a person before a script calls a tool.

Standard output contains only protocol messages; notes, errors and logs (-v) go to standard error. The server exits at the end \
of standard input or on Ctrl-C.";

/// Serve the Model Context Protocol, so that a model can run code
///
/// Without a subcommand, serves one client over standard input and output, which is how clients start it. With
/// --listen, serves any number of clients over HTTP. `glovebox mcp install CLIENT` configures a client to start this
/// server.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Install(install::InstallArgs),
}

impl McpArgs {
    /// Returns `true` if the command serves clients over HTTP.
    pub(crate) fn is_server(&self) -> bool {
        self.command.is_none() && self.server.listen.is_some()
    }
}

pub(crate) fn run(global: &GlobalArgs, args: &McpArgs) -> anyhow::Result<i32> {
    match &args.command {
        Some(McpCommand::Install(install)) => install::run(global, install),
        None => run_server(global, &args.server),
    }
}

/// The name of the session directory within the state directory.
const SESSIONS: &str = "mcp-sessions";

/// The name of the only tenant, which is also the scope of its sessions in a fleet.
const TENANT: &str = "mcp";

/// The interval between checks for idle sessions. Idle sessions are saved to the store, where other servers find them.
const IDLE_LOOK: Duration = Duration::from_secs(60);

/// Grace period for running scripts at shutdown. Scripts that run longer are cancelled.
const DRAIN: Duration = Duration::from_secs(2);

/// The maximum time for a client to disconnect at shutdown.
const CLOSE: Duration = Duration::from_secs(5);

/// Maximum length in bytes of the file that lists MCP servers.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of tool names in an error's hint.
const MAX_SHOWN_NAMES: usize = 8;

/// Options of the server, and the policy of its scripts.
#[derive(Args, Debug)]
struct ServerArgs {
    /// Serve over HTTP at this address, path /mcp; a token is required unless this is a loopback address
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,

    /// File with the token that clients must send as `Authorization: Bearer TOKEN` [default: GLOVEBOX_TOKEN]
    #[arg(long, value_name = "FILE", requires = "listen")]
    token_file: Option<PathBuf>,

    /// Host name, optionally with a port, to accept in the `Host` header in addition to localhost and the address;
    /// repeatable
    #[arg(long = "allow-host", value_name = "HOST", requires = "listen")]
    hosts: Vec<String>,

    /// Origin whose pages may send requests, such as https://app.example.com:443; repeatable [default: none]
    #[arg(long = "allow-origin", value_name = "ORIGIN", requires = "listen")]
    origins: Vec<String>,

    /// Give scripts the tools of the MCP servers and the OpenAPI documents in this JSON file
    #[arg(long, value_name = "FILE", help_heading = "Tools")]
    tools_from: Option<PathBuf>,

    #[command(flatten)]
    programs: ProgramArgs,

    /// Ask the client's user to approve each call to the tool with this name in scripts; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Tools")]
    approve: Vec<String>,

    #[command(flatten)]
    types: TypeCheckArgs,

    #[command(flatten)]
    workers: WorkersArgs,

    /// Fleet that stores and runs the sessions, instead of a store: `restate://HOST`; its nodes cannot call this
    /// host's functions
    #[arg(long, value_name = "URL", help_heading = "Sessions")]
    #[arg(conflicts_with_all = ["store", "key_file", "tools_from", "tools", "approve"])]
    fleet: Option<FleetUrl>,

    /// Interpreters to serve, by name (see `glovebox runtimes list`), separated by commas; the first one of a language
    /// is its default [default: each language's default]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    runtime: Vec<String>,

    #[command(flatten)]
    store: StoreArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

fn run_server(global: &GlobalArgs, args: &ServerArgs) -> anyhow::Result<i32> {
    args.store.check(None)?;
    let mut policy = args.policy.resolve()?;
    add_allowed(&policy)?;
    let servers = args.tools_from.as_deref().map(servers).transpose()?.unwrap_or_default();
    let programs = args.programs.tools(&policy)?;
    let token = args.listen.map(|address| token(args, address)).transpose()?.flatten();
    let fleet = args.fleet.as_ref().map(FleetClient::new).transpose().context("cannot connect to the fleet")?;
    let (config, root) = tenant_config(args, fleet.as_ref())?;
    let mut table = WorkersTable::default();
    args.workers.apply(&mut table);
    // Use workers only with HTTP. Over standard input and output, the client is one of the current user's own programs,
    // and starting workers would delay the first answer.
    let workers = if args.listen.is_some() { table.processes() } else { 0 };
    let pooling = if workers == 0 { Pooling::Pooled } else { Pooling::Single };
    let host = Arc::new(Host::open(global, pooling)?);
    let service_config = ServiceConfig {
        runtimes: args.runtime.clone(),
        prepare_later: true,
        workers: workers > 0,
        type_checker: args.types.checker(&host)?,
        ..ServiceConfig::default()
    };
    let service = Service::new(host.engine.clone(), service_config).context("cannot start the MCP server")?;
    if workers == 0 {
        prepare(&host, &service)?;
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let served = runtime.block_on(async {
        let upstreams = start(servers, &policy).await?;
        let mut config = config;
        config.tools = programs;
        config.tools.extend(upstreams.iter().flat_map(Upstreams::tools));
        config.approved_tools.extend(upstreams.iter().flat_map(Upstreams::approved_tools));
        if let Err(error) = require_approval(&config, &mut policy, &args.approve) {
            if let Some(upstreams) = &upstreams {
                upstreams.close().await;
            }
            return Err(error);
        }
        if let Some(fleet) = &fleet {
            probe(fleet).await;
        }
        if workers > 0 {
            let mut worker_config = ServerConfig::default();
            worker_config.runtimes.clone_from(&args.runtime);
            worker_config.policy.clone_from(&policy);
            worker_config.sessions.clone_from(&config.store_policy);
            (worker_config.workers, worker_config.key_file) = (table, args.store.key_file());
            let own = Some(TENANT.to_owned());
            let root = root.as_deref();
            let job = WorkerJob { config: worker_config, own, root, has_parts: false, count: workers };
            // Compile and prepare the code that the workers load.
            prepare_now(&host, &service).await?;
            service.start_workers(serve_worker::workers_config(global, &host, job)?).await?;
        }
        config.policy = policy;
        let mut listing = Listing::default();
        for name in args.programs.names() {
            let about = "A program on the host. It accepts any named arguments.";
            listing.add(name, about, &serde_json::Value::Null, None);
        }
        upstreams.iter().for_each(|upstreams| listing.extend(upstreams.listing()));
        let tenant = Tenant::new(&service, config);
        let served = serve(args, &service, &tenant, &listing.text(), token.as_deref()).await;
        let saved = save_all(vec![tenant]).await;
        service.end_workers().await;
        if let Some(upstreams) = upstreams {
            upstreams.close().await;
        }
        served.and(saved)
    });
    // Do not wait for a blocking read of standard input, which may still be in progress.
    runtime.shutdown_background();
    served.map(|()| 0)
}

/// Returns the tenant's configuration, with its sessions in a store or fleet, and the location of the store.
fn tenant_config(args: &ServerArgs, fleet: Option<&FleetClient>) -> anyhow::Result<(TenantConfig, Option<PathBuf>)> {
    if let Some(client) = fleet {
        return Ok((TenantConfig::in_fleet(SessionId::new(TENANT)?, client.clone()), None));
    }
    let sessions = SessionDir::open_or(&args.store, SESSIONS, &CancelToken::new())?;
    let mut config = TenantConfig::new(TENANT, sessions.shared_store());
    config.key = sessions.key().cloned();
    Ok((config, Some(sessions.location().to_owned())))
}

/// Makes the policy require approval for calls to these tools.
fn require_approval(config: &TenantConfig, policy: &mut Policy, names: &[String]) -> anyhow::Result<()> {
    for name in names {
        if config.approved_tools.iter().any(|tool| tool.name() == name) {
            continue;
        }
        if config.tools.iter().all(|tool| tool.name() != name) {
            let known: Vec<&str> = config.tools.iter().map(Tool::name).take(MAX_SHOWN_NAMES).collect();
            let hint = match known.is_empty() {
                true => "add tools with --tool or --tools-from".to_owned(),
                false => format!("use a name as in scripts, such as {}", known.join(", ")),
            };
            return Err(HintedError::new(format!("there is no tool `{}` to approve", escaped(name)), hint).into());
        }
        policy.tools.entry(name.clone()).or_default().approve = Approve::Always;
    }
    Ok(policy.check()?)
}

/// Starts the MCP servers and reads the OpenAPI documents whose tools scripts can call.
pub(crate) async fn start(servers: Vec<UpstreamConfig>, policy: &Policy) -> anyhow::Result<Option<Upstreams>> {
    if servers.is_empty() {
        return Ok(None);
    }
    let upstreams = Upstreams::start(servers, policy.limits.tool_bytes).await?;
    upstreams.notices().iter().for_each(|notice| note(notice));
    Ok(Some(upstreams))
}

/// Prepares the runtimes and waits for the result.
async fn prepare_now(host: &Arc<Host>, service: &Service) -> anyhow::Result<()> {
    let (host, names) = (Arc::clone(host), service.runtimes().map(|info| info.name.clone()).collect::<Vec<_>>());
    let work = move || {
        names
            .iter()
            .try_for_each(|name| host.with_progress(|engine| Sandbox::builder(engine).runtime(name).build()).map(drop))
    };
    Ok(tokio::task::spawn_blocking(work).await.context("cannot prepare the runtimes")??)
}

/// Prepares the runtimes on a separate thread: a client waits only seconds for an answer, and preparation can take
/// minutes. Executions wait for the preparation.
fn prepare(host: &Arc<Host>, service: &Service) -> anyhow::Result<()> {
    let (host, names) = (Arc::clone(host), service.runtimes().map(|info| info.name.clone()).collect::<Vec<_>>());
    let work = move || {
        for name in names {
            if let Err(error) = host.with_progress(|engine| Sandbox::builder(engine).runtime(&name).build()) {
                note(&format!("`{name}` could not be prepared: {}", glovebox::with_causes(&error)));
            }
        }
    };
    thread::Builder::new().name("prepare".into()).spawn(work).context("cannot start a thread")?;
    Ok(())
}

/// Serves until Ctrl-C is pressed or, over standard input and output, until the client disconnects.
async fn serve(
    args: &ServerArgs,
    service: &Service,
    tenant: &Tenant,
    listing: &str,
    token: Option<&str>,
) -> anyhow::Result<()> {
    let _idle = save_idle([tenant], IDLE_LOOK)?;
    let (pressed, stop) = (interrupt::install_for_server()?, CancellationToken::new());
    let stops = stop.clone();
    let _hook = pressed.on_cancel(move || stops.cancel());
    match args.listen {
        Some(address) => over_http(args, service, tenant, listing, address, token, stop).await,
        None => {
            if stdin().is_terminal() {
                note(
                    "waiting for an MCP client on standard input; `glovebox mcp install CLIENT` configures a client to start \
                     this server",
                );
            }
            let late = async {
                stop.cancelled().await;
                tokio::time::sleep(CLOSE).await;
            };
            let served = tokio::select! {
                served = serve_stdio(McpServer::new(tenant.clone(), listing), stop.clone()) => served,
                () = late => Ok(()),
            };
            service.drain(DRAIN).await;
            served.context("cannot serve the client")
        }
    }
}

async fn over_http(
    args: &ServerArgs,
    service: &Service,
    tenant: &Tenant,
    listing: &str,
    address: SocketAddr,
    token: Option<&str>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let bound = BoundServer::new(address).await.or_hint(
        || format!("cannot listen on {address}"),
        "choose another address with --listen; port 0 picks a free port",
    )?;
    let config = HttpConfig { hosts: args.hosts.clone(), origins: args.origins.clone(), ..HttpConfig::default() };
    let tenants = match token {
        None => Tenants::open(tenant.clone()),
        Some(token) => {
            let mut tenants = Tenants::default();
            tenants.add(TokenHash::of(token), tenant.clone());
            tenants
        }
    };
    note(&format!("serving MCP at http://{}/mcp", bound.address));
    let routes = mcp::router(tenants, listing, &config, bound.address, stop.clone());
    let drain = async {
        stop.cancelled().await;
        service.drain(DRAIN).await;
    };
    tokio::join!(http::serve(bound, service, routes, &config), drain);
    Ok(())
}

/// Returns the token that clients must send. A loopback address needs no token.
fn token(args: &ServerArgs, address: SocketAddr) -> anyhow::Result<Option<String>> {
    let given = given_token(args.token_file.as_deref())?;
    if given.is_none() && !address.ip().is_loopback() {
        let text = format!("{address} is reachable from other machines, but no token is set");
        return Err(
            HintedError::new(text, "set one with --token-file or GLOVEBOX_TOKEN, or listen on 127.0.0.1").into()
        );
    }
    Ok(given)
}

/// Reads the MCP servers from a file.
pub(crate) fn servers(path: &Path) -> anyhow::Result<Vec<UpstreamConfig>> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text));
    let what = format!("MCP servers from `{}`", escaped(path));
    let hint = "write {\"mcpServers\": {\"NAME\": {\"command\": \"PROGRAM\", \"args\": [\"…\"]}}}";
    let read = read.or_hint(|| format!("cannot read {what}"), hint)?;
    if u64::try_from(read).is_ok_and(|read| read > MAX_FILE_BYTES) {
        anyhow::bail!("cannot read {what}: it is longer than {MAX_FILE_BYTES} bytes; list fewer servers");
    }
    let base = path.parent().unwrap_or(Path::new(""));
    Ok(UpstreamConfig::read(&text, base).or_hint(|| format!("cannot use {what}"), hint)?)
}
