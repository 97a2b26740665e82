//! `glovebox fleet`: sessions on many machines. `up` starts a fleet on one machine, `node` executes requests to the
//! sessions of a fleet, and `status` shows the fleet's nodes and sessions.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use clap::{Args, Subcommand};
use glovebox::{UrlPatterns, escaped};
use glovebox_fleet::{
    FleetClient, FleetUrl, Node, NodeConfig,
    engine::{LocalEngine, find_program},
};
use glovebox_object_stores::BlobStore;
use glovebox_server::tools::{Callbacks, CallbacksConfig};
use serde_json::json;

use crate::{
    args::{GlobalArgs, PolicyArgs, bytes},
    commands::serve::{cancelled, read_secret},
    engine::{Host, Pooling},
    interrupt,
    script_packages::add_allowed,
    session_dir::{self, read_key},
    tenants::threads,
    terminal::{OrHint as _, note, out, out_json},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox fleet up                           start an engine, a store and a node on this machine
  glovebox serve --fleet restate://127.0.0.1  serve its sessions over HTTP
  glovebox fleet status                       show the nodes and sessions

  glovebox fleet node --engine restate://engine.internal --store s3://bucket/sessions \\
    --listen 0.0.0.0:9080 --advertise http://nodes.internal:9080       start a node, on each of several machines

A session in a fleet runs on one machine at a time and survives the failure of that machine: answered requests are stored and \
never repeated. The engine is Restate, an object store contains the session states, and an HTTP/2 load balancer distributes \
requests among the nodes. docs/fleet.md describes the setup.";

/// Serve sessions from many machines
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    Up(Box<UpArgs>),
    Node(Box<NodeArgs>),
    Status(StatusArgs),
}

pub(crate) fn run(global: &GlobalArgs, args: &FleetArgs) -> anyhow::Result<i32> {
    match &args.command {
        FleetCommand::Up(args) => run_up(global, args),
        FleetCommand::Node(args) => run_node(global, args),
        FleetCommand::Status(args) => run_status(args),
    }
}

/// Show the fleet's nodes and sessions
///
/// For each image: the number of its sessions, and the addresses of nodes that have it. Nodes whose images have no
/// sessions can be stopped.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Engine of the fleet: `restate://HOST[:PORT][?admin=PORT]`
    #[arg(long, value_name = "URL", default_value = "restate://127.0.0.1")]
    engine: FleetUrl,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn run_status(args: &StatusArgs) -> anyhow::Result<i32> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let images = runtime.block_on(async {
        let client = FleetClient::new(&args.engine)?;
        client.images().await
    })?;
    if args.json {
        out_json(&json!({ "images": images }))?;
        return Ok(0);
    }
    if images.is_empty() {
        out("no nodes are registered, and there are no sessions\n")?;
    }
    for image in images {
        let short = image.image.get(..16).unwrap_or(&image.image);
        let nodes = if image.nodes.is_empty() { "no nodes".to_owned() } else { image.nodes.join(", ") };
        let sessions = image.sessions;
        out(&format!("{short}  {sessions} session{}  {nodes}\n", if sessions == 1 { "" } else { "s" }))?;
    }
    Ok(0)
}

const UP_AFTER_HELP: &str = "\
Examples:
  glovebox fleet up
  glovebox serve --fleet restate://127.0.0.1:8080?admin=9070        in another shell: serve its sessions over HTTP
  glovebox fleet up --dir /srv/fleet --ingress-port 0 --admin-port 0 --node-port 0

Sessions and the engine's data are stored in the directory and survive a restart. The engine listens on this machine only; \
anyone who can reach it can run scripts within the policy that the flags set.";

/// The name of the fleet's directory in the state directory.
const FLEET: &str = "fleet";

/// Start a fleet on this machine: an engine, a store and a node
///
/// The engine, Restate 1.7.12, is downloaded with npm at first use (60 MB; Linux on x86-64). Its licence is the
/// Business Source License 1.1.
#[derive(Args, Debug)]
#[command(after_help = UP_AFTER_HELP)]
pub(crate) struct UpArgs {
    /// Directory of the fleet [default: $XDG_STATE_HOME/glovebox/fleet]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Port for requests to sessions; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    ingress_port: u16,

    /// Port for the engine's admin API; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 9070)]
    admin_port: u16,

    /// Port for the engine's requests to the node; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 9080)]
    node_port: u16,

    /// Path of the engine's program, instead of downloading it
    #[arg(long, value_name = "FILE")]
    restate_server: Option<PathBuf>,

    #[command(flatten)]
    node: NodeOptions,
}

fn run_up(global: &GlobalArgs, args: &UpArgs) -> anyhow::Result<i32> {
    let host = args.node.host(global)?;
    let dir = match &args.dir {
        Some(dir) => std::path::absolute(dir).context("cannot resolve the directory's path")?,
        None => session_dir::create_state_dir()?.join(FLEET),
    };
    let program = match &args.restate_server {
        Some(program) => std::path::absolute(program).context("cannot resolve the engine program's path")?,
        None => find_program(host.engine.cache_dir(), &*host.steps).context("cannot start the engine")?,
    };
    let store = format!("file://{}", dir.join("store").display());
    let runtime = threads(args.node.blocking_threads())?;
    let served = runtime.block_on(async {
        let ports = (args.ingress_port, args.admin_port);
        let engine = LocalEngine::start(&program, &dir.join("engine"), ports).await.or_hint(
            || "cannot start the engine".into(),
            "choose other ports with --ingress-port and --admin-port, or another directory with --dir",
        )?;
        let url = engine.url().clone();
        let config = args.node.config(&host, &url, &store)?;
        let node = Node::bind(config, SocketAddr::from((Ipv4Addr::LOCALHOST, args.node_port))).await;
        host.steps.clear();
        let code = serve(node?, None, Shares::Nothing, || {
            note(&format!("the fleet is stored in `{}`", escaped(&dir)));
            note(&format!("the fleet is up; to serve its sessions over HTTP, run: glovebox serve --fleet '{url}'"));
        })
        .await;
        tokio::task::spawn_blocking(move || drop(engine)).await.context("cannot stop the engine")?;
        code
    });
    runtime.shutdown_background();
    served
}

const NODE_AFTER_HELP: &str = "\
Examples:
  glovebox fleet node --engine restate://127.0.0.1 --store file:///srv/sessions
  glovebox fleet node --engine restate://engine.internal:8080?admin=9070 --store s3://bucket/sessions \\
    --listen 0.0.0.0:9080 --advertise http://nodes.internal:9080

All nodes of a fleet use the same store, key and policy, and share one address: the engine sends requests to --advertise, where \
a load balancer distributes HTTP/2 among the nodes (docs/fleet.md contains an HAProxy configuration). Nodes of a different \
Glovebox version have different images: give them a separate address, and keep the old nodes until `glovebox fleet status` shows \
no sessions for them.

The store's credentials are read from the environment, under the names that the store's own tools use (AWS_ACCESS_KEY_ID, …). \
Ctrl-C stops the node when all executions have ended, or after --drain-ms. Other nodes then repeat the unfinished executions.";

/// Execute requests to a fleet's sessions
#[derive(Args, Debug)]
#[command(after_help = NODE_AFTER_HELP)]
pub(crate) struct NodeArgs {
    /// Engine of the fleet: `restate://HOST[:PORT][?admin=PORT]`
    #[arg(long, value_name = "URL")]
    engine: FleetUrl,

    /// Store of session states: `s3://BUCKET/PREFIX`, `gs://…`, `az://…` or `file:///DIRECTORY`
    #[arg(long, value_name = "URL")]
    store: String,

    /// Address on which the node accepts the engine's connections; port 0 chooses a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9080")]
    listen: SocketAddr,

    /// Address at which the engine reaches the nodes [default: the listen address]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,

    #[command(flatten)]
    node: NodeOptions,
}

/// Pool slots for idle instances that wait for the next script.
const SPARE_INSTANCES: usize = 64;

/// Options of nodes, for all commands that start one.
#[derive(Args, Debug)]
struct NodeOptions {
    /// File with a secret of 32 to 64 bytes that seals sessions, the same on all nodes; sessions with another seal are
    /// rejected
    #[arg(long, value_name = "FILE", env = "GLOVEBOX_KEY_FILE", hide_env_values = true)]
    key_file: Option<PathBuf>,

    /// Public key of the engine, `publickeyv1_…`; requests without its signature are rejected. Without this option,
    /// make sure that only the engine can reach the node
    #[arg(long, value_name = "KEY")]
    identity_key: Option<String>,

    /// Runtime for new sessions; repeatable. The first one of a language is its default [default: the default of each
    /// language]
    #[arg(long = "runtime", value_name = "NAME")]
    runtimes: Vec<String>,

    /// Maximum number of concurrent executions, up to 1,000 [default: four per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    running: Option<u16>,

    /// Maximum number of idle sessions in memory, up to 4,000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=4_000), default_value_t = 256)]
    warm: u16,

    /// Maximum total memory of idle sessions
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "1GiB")]
    warm_bytes: u64,

    /// Milliseconds for running executions to end at shutdown
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    drain_ms: u64,

    /// URL of a service that may be called to answer a tool, such as `https://tools.example.com/*`; repeatable
    /// [default: none]
    #[arg(long = "callback", value_name = "URL", requires = "callback_secret_file")]
    callbacks: Vec<String>,

    /// File with the secret that signs these calls: `whsec_` and base64
    #[arg(long, value_name = "FILE")]
    callback_secret_file: Option<PathBuf>,

    #[command(flatten)]
    policy: PolicyArgs,
}

impl NodeOptions {
    /// Returns the maximum number of concurrent executions.
    fn running(&self) -> usize {
        self.running.map_or_else(NodeConfig::default_running, usize::from)
    }

    /// Returns a number of blocking threads that suffices for all executions and for operations on the store.
    fn blocking_threads(&self) -> usize {
        self.running().saturating_mul(2).saturating_add(64)
    }

    /// Returns a pool with room for idle sessions, idle instances, and running executions with one replacement each.
    fn pooling(&self) -> Pooling {
        let count = usize::from(self.warm) + 2 * self.running() + SPARE_INSTANCES;
        Pooling::Holding(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Adds the packages that the policy allows, and opens the engine.
    fn host(&self, global: &GlobalArgs) -> anyhow::Result<Host> {
        add_allowed(&self.policy.resolve()?)?;
        Host::open(global, self.pooling())
    }

    /// Returns a node's configuration from the flags, with session states in `store`.
    fn config(&self, host: &Host, fleet: &FleetUrl, store: &str) -> anyhow::Result<NodeConfig> {
        let blobs = BlobStore::open(store)
            .or_hint(|| "cannot use the session store".into(), "check its URL and its permissions")?;
        let mut config = NodeConfig::new(fleet.clone(), host.engine.clone(), blobs);
        config.policy = self.policy.resolve()?;
        NodeConfig::check_policy(&config.policy)
            .or_hint(|| "this policy is not supported on fleet nodes".into(), "remove the named settings")?;
        config.key = self.key_file.as_deref().map(read_key).transpose()?;
        config.runtimes.clone_from(&self.runtimes);
        config.identity_key.clone_from(&self.identity_key);
        config.running = self.running();
        (config.warm_count, config.warm_bytes) = (usize::from(self.warm), self.warm_bytes);
        config.drain = Duration::from_millis(self.drain_ms);
        if let Some(file) = &self.callback_secret_file {
            let callbacks = CallbacksConfig { allowed: UrlPatterns::new(&self.callbacks)?, secret: read_secret(file)? };
            config.callbacks = Some(Callbacks::new(&callbacks).context("cannot set up callbacks")?);
        }
        Ok(config)
    }
}

fn run_node(global: &GlobalArgs, args: &NodeArgs) -> anyhow::Result<i32> {
    let host = args.node.host(global)?;
    let config = args.node.config(&host, &args.engine, &args.store)?;
    let runtime = threads(args.node.blocking_threads())?;
    let served = runtime.block_on(async {
        let node = Node::bind(config, args.listen).await;
        host.steps.clear();
        let advertise = args.advertise.as_deref();
        serve(node?, advertise, Shares::Address, || {}).await
    });
    // Other nodes restart the executions that are still running, so this process does not wait for them.
    runtime.shutdown_background();
    served
}

/// Sharing of a node's address with other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shares {
    /// Other nodes of this version can use the same address.
    Address,
    /// Only this node uses the address. It replaces any earlier version that was registered there.
    Nothing,
}

/// Registers a node and serves until Ctrl-C. Calls `begun` once the node is registered.
async fn serve(node: Node, advertise: Option<&str>, shares: Shares, begun: impl FnOnce()) -> anyhow::Result<i32> {
    let cancel = interrupt::install_for_server()?;
    let address = node.address();
    let advertise = advertise.map_or_else(|| format!("http://{address}"), str::to_owned);
    note(&format!("node listening on {address}"));
    for image in node.images() {
        note(&format!("node image: {}", image.get(..16).unwrap_or(image)));
    }
    let end = async {
        cancelled(&cancel).await;
        note("shutting down: waiting for running executions; press Ctrl-C again to stop immediately");
    };
    let registering = node.register(advertise.clone(), shares == Shares::Nothing);
    let mut serving = std::pin::pin!(node.serve(end));
    tokio::select! {
        registered = registering => {
            let registered = registered.with_context(|| format!("cannot register the nodes' address `{}` with the engine", escaped(&advertise)))?;
            note(&format!("registered as {} at {}", registered.deployment, escaped(&advertise)));
            begun();
        }
        () = &mut serving => return Ok(0),
    }
    serving.await;
    Ok(0)
}
