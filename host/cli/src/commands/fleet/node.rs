//! `glovebox fleet node`: executes what is asked of a fleet's sessions.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::Args;
use glovebox::{BlobStore, UrlPatterns, escaped};
use glovebox_fleet::{FleetUrl, Node, NodeConfig};
use glovebox_server::tools::{Callbacks, CallbacksConfig};

use crate::{
    args::{GlobalArgs, PolicyArgs, quantity::bytes},
    commands::serve::{cancelled, read_secret},
    engine::{Host, Pooling},
    interrupt,
    stored::read_key,
    terminal::{Hinted, note},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox fleet node --engine restate://127.0.0.1 --store file:///srv/sessions
  glovebox fleet node --engine restate://engine.internal:8080?admin=9070 --store s3://bucket/sessions \\
    --listen 0.0.0.0:9080 --advertise http://nodes.internal:9080

All nodes of a fleet have the same store, key and policy, and one address together: the engine sends what is asked to --advertise, where
something balances HTTP/2 among them (docs/fleet.md has a configuration of haproxy). Nodes of another version of Glovebox have other images: give them
another address, and leave the old ones until `glovebox fleet status` shows no sessions of theirs.

Credentials of the store come from the environment, as its own tools have them (AWS_ACCESS_KEY_ID, …). Ctrl-C ends the node once what runs has ended, or
--drain is over: that is then begun anew elsewhere.";

/// Execute what is asked of a fleet's sessions
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct NodeArgs {
    /// The fleet's engine: `restate://HOST[:PORT][?admin=PORT]`
    #[arg(long, value_name = "URL")]
    engine: FleetUrl,

    /// Where the states of sessions are: `s3://BUCKET/PREFIX`, `gs://…`, `az://…` or `file:///DIRECTORY`
    #[arg(long, value_name = "URL")]
    store: String,

    /// Where to listen for the engine; port 0 is any that is free
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9080")]
    listen: SocketAddr,

    /// The address of the nodes, as the engine reaches them [default: where this one listens]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,

    #[command(flatten)]
    node: NodeOptions,
}

/// Places in the pool for instances that wait for another script.
const SPARE_INSTANCES: usize = 64;

/// What nodes have, whoever starts them.
#[derive(Args, Debug)]
pub(super) struct NodeOptions {
    /// A file with a secret of 32 to 64 bytes that seals sessions, the same on all nodes; sessions sealed differently are refused
    #[arg(long, value_name = "FILE", env = "GLOVEBOX_KEY_FILE", hide_env_values = true)]
    key_file: Option<PathBuf>,

    /// The engine's public key, `publickeyv1_…`: requests that it has not signed are refused. Without one, only the engine may reach the node
    #[arg(long, value_name = "KEY")]
    identity_key: Option<String>,

    /// A runtime for new sessions; repeatable. Of several for a language the first is the default [default: the default of each language]
    #[arg(long = "runtime", value_name = "NAME")]
    runtimes: Vec<String>,

    /// How many executions run at once, up to 1,000 [default: four for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    running: Option<u16>,

    /// How many sessions stay in memory for their next execution, up to 4,000
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=4_000), default_value_t = 256)]
    warm: u16,

    /// How much memory these may hold together
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "1GiB")]
    warm_bytes: u64,

    /// How long what runs may go on when the node is to end, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    drain_ms: u64,

    /// An address of a service that may be called to answer a tool, such as `https://tools.example.com/*`; repeatable [default: none]
    #[arg(long = "callback", value_name = "URL", requires = "callback_secret_file")]
    callbacks: Vec<String>,

    /// A file with the secret that signs these calls: `whsec_` and base64
    #[arg(long, value_name = "FILE")]
    callback_secret_file: Option<PathBuf>,

    #[command(flatten)]
    policy: PolicyArgs,
}

impl NodeOptions {
    /// How many executions run at once.
    pub(super) fn running(&self) -> usize {
        self.running.map_or_else(NodeConfig::default_running, usize::from)
    }

    /// A pool with room for what is in memory and what runs, and for what takes its place.
    pub(super) fn pooling(&self) -> Pooling {
        let count = usize::from(self.warm) + 2 * self.running() + SPARE_INSTANCES;
        Pooling::Holding(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// A node as the flags say, with its states there.
    pub(super) fn config(&self, host: &Host, fleet: &FleetUrl, store: &str) -> anyhow::Result<NodeConfig> {
        let blobs = BlobStore::open(store).map_err(|error| {
            Hinted::new("the states of sessions cannot be there", "name a store with --store").because(error)
        })?;
        let mut config = NodeConfig::new(fleet.clone(), host.engine.clone(), blobs);
        config.policy = self.policy.resolve()?;
        NodeConfig::check_policy(&config.policy).map_err(|error| {
            Hinted::new("nodes of a fleet cannot have this policy", "leave out what it names").because(error)
        })?;
        config.key = self.key_file.as_deref().map(read_key).transpose()?;
        config.runtimes.clone_from(&self.runtimes);
        config.identity_key.clone_from(&self.identity_key);
        config.running = self.running();
        (config.warm_count, config.warm_bytes) = (usize::from(self.warm), self.warm_bytes);
        config.drain = Duration::from_millis(self.drain_ms);
        if let Some(file) = &self.callback_secret_file {
            let callbacks = CallbacksConfig { allowed: UrlPatterns::new(&self.callbacks)?, secret: read_secret(file)? };
            config.callbacks = Some(Callbacks::new(&callbacks).context("callbacks cannot be made")?);
        }
        Ok(config)
    }
}

pub(super) fn run(global: &GlobalArgs, args: &NodeArgs) -> anyhow::Result<i32> {
    let host = Host::open(global, args.node.pooling())?;
    let config = args.node.config(&host, &args.engine, &args.store)?;
    let runtime = threads(config.running)?;
    let served = runtime.block_on(async {
        let node = Node::bind(config, args.listen).await;
        host.steps.clear();
        let advertise = args.advertise.as_deref();
        serve(node?, advertise, Shares::Address, || {}).await
    });
    // What has not ended by then is begun anew elsewhere, and nobody waits for it here.
    runtime.shutdown_background();
    served
}

/// Threads for a node: one that may block for each execution, and for what only looks at the store.
pub(super) fn threads(running: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(running.saturating_mul(2).saturating_add(64))
        .build()
        .context("cannot start the node's threads")
}

/// Whether other nodes have the address, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shares {
    /// Others may have it, of this version.
    Address,
    /// It is this node's, whatever version had it before.
    Nothing,
}

/// Registers a node and serves until Ctrl-C. `begun` is called once the fleet has it.
pub(super) async fn serve(
    node: Node,
    advertise: Option<&str>,
    shares: Shares,
    begun: impl FnOnce(),
) -> anyhow::Result<i32> {
    let cancel = interrupt::install_for_server()?;
    let address = node.address();
    let advertise = advertise.map_or_else(|| format!("http://{address}"), str::to_owned);
    note(&format!("the node listens on {address}"));
    for image in node.images() {
        note(&format!("it has the image {}", image.get(..16).unwrap_or(image)));
    }
    let end = async {
        cancelled(&cancel).await;
        note("shutting down: waiting for what runs; Ctrl-C again ends it at once");
    };
    let registering = node.register(advertise.clone(), shares == Shares::Nothing);
    let mut serving = std::pin::pin!(node.serve(end));
    tokio::select! {
        registered = registering => {
            let registered = registered.with_context(|| format!("cannot register the nodes at `{}`", escaped(&advertise)))?;
            note(&format!("registered as {} at {}", registered.deployment, escaped(&advertise)));
            begun();
        }
        () = &mut serving => return Ok(0),
    }
    serving.await;
    Ok(0)
}
