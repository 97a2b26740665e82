//! `glovebox daemon`: sessions for programs of this machine, over a private Unix socket.

use std::{
    io::{self, BufRead as _, BufReader, ErrorKind, IsTerminal as _, Read as _, Write as _, stdin},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use glovebox::escaped;
use glovebox_server::{
    Admission, NoStore, Service, ServiceConfig, Tenant, TenantConfig,
    daemon::{Daemon, DaemonConfig, Listener, serve, serve_stdio},
};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{GlobalArgs, PolicyArgs, ProgramArgs},
    engine::{Host, Pooling},
    interrupt,
    script_packages::add_allowed,
    terminal::{Hinted, note, out},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox daemon                            listen at ~/.rlm/daemon.sock until Ctrl-C or `glovebox daemon stop`
  glovebox daemon --timeout-ms 60000 &       limit each script to one minute
  glovebox daemon status                     show whether the daemon answers, and how many sessions it has
  glovebox daemon stop                       stop the daemon once running executions have ended
  glovebox daemon --stdio                    serve one client over standard input and output

  printf '%s\\n' '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\", \"params\": {\"context\": [1, 2, 3]}}' \\
    '{\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"execute\", \"params\": {\"code\": \"print(sum(context))\"}}' | glovebox daemon --stdio

A client sends JSON-RPC 2.0, one message per line: initialize opens a session, execute runs code in it, getVariable reads its
variables, cancel stops the running code, destroy closes the session. Calls to llm_query(…), rlm_query(…) and a script's tools
become requests to the client. The packages for Python and JavaScript contain clients: Sandbox(backend=\"daemon\"),
createSandbox({ backend: 'daemon' }).

Only your own programs can connect. Sessions exist in memory only and end with the connection that opened them. The flags set
the policy of all clients; a client may request stricter limits. docs/daemon.md describes the protocol.";

/// Serve programs on this machine over a Unix socket
///
/// Keeps interpreters ready for any number of programs. Speaks JSON-RPC 2.0 over a Unix socket that only you can
/// connect to.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    command: Option<DaemonCommand>,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum DaemonCommand {
    /// Show whether a daemon answers, and its sessions; exit code 1 if none does
    Status(SocketArgs),
    /// Stop a daemon once its running executions have ended
    Stop(SocketArgs),
}

impl DaemonArgs {
    /// Returns `true` if the command serves clients over a socket.
    pub(crate) fn is_server(&self) -> bool {
        self.command.is_none() && !self.server.stdio
    }
}

pub(crate) fn run(global: &GlobalArgs, args: &DaemonArgs) -> anyhow::Result<i32> {
    match &args.command {
        Some(DaemonCommand::Status(socket)) => status(&socket.path()?),
        Some(DaemonCommand::Stop(socket)) => stop(&socket.path()?),
        None => run_server(global, &args.server),
    }
}

/// The timeout for a daemon's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The timeout for stopping a daemon, whose scripts have ten seconds to end.
const STOPPING: Duration = Duration::from_secs(30);
/// Maximum length of an answer in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Sends a request to the daemon. Returns `None` if no daemon listens on the socket.
fn ask(socket: &Path, method: &str) -> anyhow::Result<Option<Value>> {
    let stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) => {
            let text = format!("cannot connect to `{}`", escaped(socket));
            return Err(Hinted::new(text, "choose your daemon's socket with --socket").because(error).into());
        }
    };
    let answer = exchange(stream, method).with_context(|| format!("`{}` does not respond", escaped(socket)))?;
    if let Some(error) = answer.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
        anyhow::bail!("the daemon rejected the request: {}", glovebox::escaped_text(message));
    }
    Ok(Some(answer.get("result").cloned().unwrap_or_default()))
}

fn exchange(mut stream: UnixStream, method: &str) -> io::Result<Value> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    writeln!(stream, "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}")?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_ANSWER_BYTES)).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

fn status(socket: &Path) -> anyhow::Result<i32> {
    let Some(pong) = ask(socket, "ping")? else {
        note(&format!("no daemon is listening at `{}`; `glovebox daemon` starts one", escaped(socket)));
        return Ok(1);
    };
    let number = |name: &str| pong.get(name).and_then(Value::as_u64).unwrap_or_default();
    let version = pong.get("version").and_then(Value::as_str).unwrap_or_default();
    let up = humantime::format_duration(Duration::from_secs(number("uptime_ms") / 1_000));
    out(&format!(
        "glovebox {} listens at {} (process {}, up {up})\n{} sessions, {} connections, {} interpreters ready\n",
        glovebox::escaped_text(version),
        escaped(socket),
        number("pid"),
        number("sessions"),
        // Does not count the connection of this request.
        number("connections").saturating_sub(1),
        number("ready"),
    ))?;
    Ok(0)
}

fn stop(socket: &Path) -> anyhow::Result<i32> {
    if ask(socket, "shutdown")?.is_none() {
        note(&format!("no daemon is listening at `{}`", escaped(socket)));
        return Ok(1);
    }
    let begun = Instant::now();
    while UnixStream::connect(socket).is_ok() {
        if begun.elapsed() > STOPPING {
            anyhow::bail!(
                "the daemon at `{}` has not stopped after {} s; check its running requests, or end its process",
                escaped(socket),
                STOPPING.as_secs()
            );
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(0)
}

/// The socket of a daemon.
#[derive(Args, Debug)]
struct SocketArgs {
    /// Path of the socket [default: ~/.rlm/daemon.sock]
    #[arg(long, value_name = "PATH", env = "GLOVEBOX_DAEMON_SOCKET")]
    socket: Option<PathBuf>,
}

impl SocketArgs {
    fn path(&self) -> anyhow::Result<PathBuf> {
        match &self.socket {
            Some(path) => Ok(path.clone()),
            None => default_socket(),
        }
    }
}

/// Returns the default path of the socket, where clients look for a daemon.
fn default_socket() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let home = home
        .ok_or_else(|| Hinted::new("HOME is not set to a directory", "set HOME, or choose the socket with --socket"))?;
    Ok(home.join(".rlm").join("daemon.sock"))
}

/// The maximum time for running scripts to end at shutdown.
const DRAIN: Duration = Duration::from_secs(10);
/// The limit on concurrent executions is never below this value, because many executions wait for an answer from their
/// client.
const MIN_RUNNING: usize = 64;

/// Options of the daemon, and the policy of its scripts.
#[derive(Args, Debug)]
struct ServerArgs {
    #[command(flatten)]
    socket: SocketArgs,

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

fn run_server(global: &GlobalArgs, args: &ServerArgs) -> anyhow::Result<i32> {
    let policy = args.policy.resolve()?;
    add_allowed(&policy)?;
    let tools = args.programs.tools(&policy)?;
    let host = Host::open(global, Pooling::Pooled)?;
    let mut admission = Admission::default();
    admission.running = admission.running.max(MIN_RUNNING);
    // With `--stdio`, runtimes are prepared at first use: the client that started this process waits for its first
    // answer, and might not use every runtime.
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
    // Does not wait for a blocking read of standard input, which may still be running.
    runtime.shutdown_background();
    served.map(|()| 0)
}

async fn serve_until_stopped(
    args: &ServerArgs,
    service: &Service,
    tenant: &Tenant,
    config: DaemonConfig,
) -> anyhow::Result<()> {
    // Ctrl-C can arrive as soon as a client sees the socket, so install the handler first.
    let (pressed, over) = (interrupt::install_for_server()?, CancellationToken::new());
    let listener = match args.stdio {
        true => None,
        false => Some(Listener::bind(args.socket.path()?)?),
    };
    let daemon = Daemon::new(tenant, config);
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
                    note("waiting for a client's messages on standard input, one per line");
                }
                serve_stdio(&daemon).await;
            }
        }
    };
    tokio::join!(served, drain);
    Ok(())
}
