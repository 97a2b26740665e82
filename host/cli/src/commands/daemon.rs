//! `glovebox daemon`: the HTTP API for programs on this machine, over a private Unix socket, with sessions in memory.

use std::{
    io::{self, ErrorKind, Read as _, Write as _},
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
    Admission, Service, ServiceConfig, SuspensionLimits, Tenant, TenantConfig,
    http::{self, HttpConfig, SocketListener},
};
use glovebox_sessions::SessionStore;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::{
    args::{self, GlobalArgs, PolicyArgs, ProgramArgs},
    commands::serve::{allowed_connections, cancelled},
    engine::{Host, Pooling},
    interrupt,
    script_packages::add_allowed,
    session_dir::{create_state_dir, open_suspended_store},
    tenants::{EXPIRY_LOOK, IDLE_LOOK, delete_expired, threads},
    terminal::{HintedError, note, out},
    typecheck::TypeCheckArgs,
};

const AFTER_HELP: &str = "\
Examples:
  glovebox daemon                            listen at ~/.rlm/daemon.sock until Ctrl-C or `glovebox daemon stop`
  glovebox daemon --timeout-ms 60000 &       limit each script to one minute
  glovebox daemon status                     show whether the daemon is running, and how many sessions it has
  glovebox daemon stop                       stop the daemon once running executions have ended

  curl --unix-socket ~/.rlm/daemon.sock http://localhost/v1/execute -d '{\"source\": \"print(6 * 7)\"}'

The socket serves the same HTTP API as `glovebox serve`, without a token: `GET /v1/openapi.json` describes every route. The \
packages for Python and JavaScript contain clients: Sandbox(backend=\"daemon\"), createSandbox({ backend: 'daemon' }).

Only your own programs can connect. Sessions exist in memory only; executions that a request suspends (`\"suspend\": true`) are \
stored. The flags set the policy of all clients; a client may request \
stricter limits. See docs/daemon.md.";

/// Serve programs on this machine over a Unix socket
///
/// Keeps interpreters and sessions in memory for any number of programs. Serves the HTTP API over a Unix socket that
/// only you can connect to.
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
    /// Show whether a daemon is running, and its sessions; exit code 1 if none is
    Status(SocketArgs),
    /// Stop a daemon once its running executions have ended
    Stop(SocketArgs),
}

impl DaemonArgs {
    /// Returns `true` if the command serves clients.
    pub(crate) fn is_server(&self) -> bool {
        self.command.is_none()
    }
}

pub(crate) fn run(global: &GlobalArgs, args: &DaemonArgs) -> anyhow::Result<i32> {
    match &args.command {
        Some(DaemonCommand::Status(socket)) => status(&socket.path()?),
        Some(DaemonCommand::Stop(socket)) => stop(&socket.path()?),
        None => run_server(global, &args.server),
    }
}

/// The timeout for a daemon's response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for stopping a daemon. A daemon closes its socket before it waits for running scripts.
const STOPPING: Duration = Duration::from_secs(15);
/// Maximum length of a response in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Connects to a daemon. Returns `None` if no daemon listens on the socket.
fn connect(socket: &Path) -> anyhow::Result<Option<UnixStream>> {
    match UnixStream::connect(socket) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => {
            let text = format!("cannot connect to `{}`", escaped(socket));
            Err(HintedError::new(text, "choose your daemon's socket with --socket").caused_by(error).into())
        }
    }
}

/// Requests the description of a daemon.
fn info(mut stream: UnixStream) -> io::Result<Value> {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(b"GET /v1/info HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(serde_json::from_str(body)?),
        _ => Err(io::Error::other(
            "unexpected response, perhaps from a daemon of another version; run `glovebox daemon stop` and start it again",
        )),
    }
}

fn status(socket: &Path) -> anyhow::Result<i32> {
    let Some(stream) = connect(socket)? else {
        note(&format!("no daemon is listening at `{}`; `glovebox daemon` starts one", escaped(socket)));
        return Ok(1);
    };
    let info = info(stream).with_context(|| format!("cannot get the status from `{}`", escaped(socket)))?;
    let number = |name: &str| info.get(name).and_then(Value::as_u64);
    let version = info.get("version").and_then(Value::as_str).unwrap_or_default();
    let up = humantime::format_duration(Duration::from_secs(number("uptime_ms").unwrap_or_default() / 1_000));
    let sessions = match number("sessions") {
        Some(1) => "1 session".to_owned(),
        Some(count) => format!("{count} sessions"),
        None => "sessions in a store".to_owned(),
    };
    out(&format!(
        "glovebox {} listens at {} (process {}, up {up})\n{sessions}\n",
        glovebox::escaped_text(version),
        escaped(socket),
        number("pid").unwrap_or_default(),
    ))?;
    Ok(0)
}

fn stop(socket: &Path) -> anyhow::Result<i32> {
    let Some(stream) = connect(socket)? else {
        note(&format!("no daemon is listening at `{}`", escaped(socket)));
        return Ok(1);
    };
    let process = listening_process(stream).context("cannot find the daemon's process")?;
    kill_process(process, Signal::TERM).with_context(|| format!("cannot stop process {}", process.as_raw_nonzero()))?;
    let begun = Instant::now();
    while UnixStream::connect(socket).is_ok() {
        if begun.elapsed() > STOPPING {
            anyhow::bail!(
                "the daemon at `{}` has not stopped after {} s; end process {}",
                escaped(socket),
                STOPPING.as_secs(),
                process.as_raw_nonzero(),
            );
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(0)
}

/// Returns the process at the other end of a connection. Fails if the process belongs to another user.
fn listening_process(stream: UnixStream) -> anyhow::Result<Pid> {
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    let peer = tokio::net::UnixStream::from_std(stream)?.peer_cred()?;
    anyhow::ensure!(peer.uid() == geteuid().as_raw(), "the socket belongs to another user");
    // The PID is 0 if the process is in another PID namespace.
    peer.pid()
        .and_then(Pid::from_raw)
        .context("the system does not report the daemon's process ID; stop the daemon manually")
}

/// The socket of a daemon.
#[derive(Args, Debug)]
struct SocketArgs {
    /// Path of the socket [default: ~/.rlm/daemon.sock]
    #[arg(long, value_name = "PATH", env = "GLOVEBOX_DAEMON_SOCKET")]
    socket: Option<PathBuf>,
}

impl SocketArgs {
    /// Returns the path of the socket. The default is the path where clients look for a daemon.
    fn path(&self) -> anyhow::Result<PathBuf> {
        if let Some(path) = &self.socket {
            return Ok(path.clone());
        }
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let hint = "set HOME, or choose the socket with --socket";
        let home = home.ok_or_else(|| HintedError::new("HOME is not set to an absolute path", hint))?;
        Ok(home.join(".rlm").join("daemon.sock"))
    }
}

/// Grace period for running scripts at shutdown. Scripts that run longer are cancelled.
const DRAIN: Duration = Duration::from_secs(10);
/// Minimum of the limit on concurrent executions. It is high, because many executions only wait, for example for a
/// `--tool` program.
const MIN_RUNNING: usize = 64;
/// The name of the directory for suspended executions within the state directory.
const SUSPENDED: &str = "daemon";
/// Maximum number of executions whose tool calls the clients answer.
const MAX_SUSPENDED: usize = 256;

/// Options of the daemon, and the policy of its scripts.
#[derive(Args, Debug)]
struct ServerArgs {
    #[command(flatten)]
    socket: SocketArgs,

    /// Maximum number of open sessions
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    sessions: usize,

    /// Maximum number of open connections; a connection carries one request at a time
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    connections: usize,

    /// Close sessions that have not been used for this long
    ///
    /// This also closes the sessions of clients that were killed, and cancels scripts whose client does not answer their
    /// tool calls. A client can use several connections, so a session does not end with a connection.
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = args::duration)]
    idle: Duration,

    /// Store of suspended executions, for requests with `suspend`: a directory, or a URL as for `glovebox serve`
    /// [default: `daemon` in $XDG_STATE_HOME/glovebox]
    #[arg(long, value_name = "DIR|URL")]
    suspended_store: Option<PathBuf>,

    /// Runtime to serve; repeatable. The first one of a language is its default [default: the default of each language]
    #[arg(long = "runtime", value_name = "NAME")]
    runtimes: Vec<String>,

    #[command(flatten)]
    types: TypeCheckArgs,

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
    // A client that was killed cannot answer. Its executions end at their own limits or, like its sessions, after
    // `--idle`. This time is longer than the default of `glovebox serve`, because a local program can be suspended or
    // busy for minutes.
    let suspension = SuspensionLimits { count: MAX_SUSPENDED, time: args.idle };
    let config = ServiceConfig {
        runtimes: args.runtimes.clone(),
        admission,
        suspension,
        type_checker: args.types.checker(&host)?,
        ..ServiceConfig::default()
    };
    let service =
        host.with_progress(|engine| Service::new(engine.clone(), config)).context("cannot start the daemon")?;
    let connections = allowed_connections(args.connections.max(1), admission.running);
    let http = HttpConfig { connections, page: false, ..HttpConfig::default() };
    let mut tenant = TenantConfig::in_memory("daemon");
    (tenant.policy, tenant.tools, tenant.sessions) = (policy, tools, args.sessions.max(1));
    tenant.suspended = MAX_SUSPENDED;
    tenant.suspended_store = suspended_store(args)?;
    // No further limit is needed, because each connection carries one request at a time.
    tenant.executions_at_once = connections.saturating_add(MAX_SUSPENDED);
    let tenant = Tenant::new(&service, tenant);
    let runtime = threads(admission.running.saturating_add(MAX_SUSPENDED).saturating_add(64))?;
    let served = runtime.block_on(serve_until_stopped(args, &service, &tenant, &http));
    // Wait at most a second for executions that are still being cancelled.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served.map(|()| 0)
}

/// Opens the store of suspended executions. If the default directory cannot be used, prints a note and returns `None`:
/// the daemon then refuses only requests with `suspend`.
fn suspended_store(args: &ServerArgs) -> anyhow::Result<Option<Arc<dyn SessionStore>>> {
    if let Some(at) = &args.suspended_store {
        return open_suspended_store(at).map(Some);
    }
    let opened = create_state_dir().and_then(|dir| open_suspended_store(&dir.join(SUSPENDED)));
    Ok(opened.inspect_err(|error| note(&format!("requests with `suspend` will be refused: {error:#}"))).ok())
}

async fn serve_until_stopped(
    args: &ServerArgs,
    service: &Service,
    tenant: &Tenant,
    http: &HttpConfig,
) -> anyhow::Result<()> {
    // Ctrl-C can arrive as soon as a client sees the socket, so install the handler first.
    let cancel = interrupt::install_for_server()?;
    let listener = SocketListener::bind(args.socket.path()?)?;
    note(&format!("listening at {}", escaped(listener.path())));
    let routes = http::socket_router(service, tenant.clone(), http);
    let drain = async {
        cancelled(&cancel).await;
        service.drain(DRAIN).await;
    };
    let serving = async {
        tokio::join!(http::serve_socket(listener, service, routes, http), drain);
    };
    tokio::select! {
        () = serving => {}
        () = end_idle_sessions(tenant, args.idle) => {}
        () = delete_expired(vec![tenant.clone()], EXPIRY_LOOK) => {}
    }
    Ok(())
}

/// Ends idle sessions periodically. Never returns.
async fn end_idle_sessions(tenant: &Tenant, idle: Duration) {
    let mut look = tokio::time::interval(IDLE_LOOK.min(idle).max(Duration::from_millis(100)));
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        look.tick().await;
        let tenant = tenant.clone();
        // Freeing interpreters takes too long for an async thread.
        let _ = tokio::task::spawn_blocking(move || tenant.end_idle_sessions(idle)).await;
    }
}
