//! `glovebox fleet up`: a fleet on one machine.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use anyhow::Context;
use clap::Args;
use glovebox::escaped;
use glovebox_fleet::{
    Node,
    engine::{LocalEngine, find_program},
};

use super::node::{NodeOptions, Shares, serve, threads};
use crate::{
    args::GlobalArgs,
    engine::Host,
    state,
    terminal::{Hinted, note},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox fleet up
  glovebox serve --fleet restate://127.0.0.1:8080?admin=9070        in another shell: serve its sessions over HTTP
  glovebox fleet up --dir /srv/fleet --ingress-port 0 --admin-port 0 --node-port 0

Sessions and the engine's data are stored in the directory, and available again after a restart. The engine listens on this
machine only; everyone who reaches it can run scripts within the policy that the flags set.";

/// Directory of the fleet in the state directory.
const FLEET: &str = "fleet";

/// Start a fleet on this machine: an engine, a store and a node
///
/// The engine, Restate 1.7.12, is downloaded with npm at first use (60 MB; Linux on x86-64). Its licence is the
/// Business Source License 1.1.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct UpArgs {
    /// Directory of the fleet [default: $XDG_STATE_HOME/glovebox/fleet]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Port for requests to sessions; 0 chooses a free one
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    ingress_port: u16,

    /// Port for administration of the engine; 0 chooses a free one
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

pub(super) fn run(global: &GlobalArgs, args: &UpArgs) -> anyhow::Result<i32> {
    let host = Host::open(global, args.node.pooling())?;
    let dir = match &args.dir {
        Some(dir) => std::path::absolute(dir).context("cannot resolve the path of the directory")?,
        None => state::create()?.join(FLEET),
    };
    let program = match &args.restate_server {
        Some(program) => std::path::absolute(program).context("cannot resolve the path of the engine's program")?,
        None => {
            let found = find_program(host.engine.cache_dir(), &*host.steps);
            host.steps.clear();
            found.context("cannot start an engine")?
        }
    };
    let store = format!("file://{}", dir.join("store").display());
    let runtime = threads(args.node.running())?;
    let served = runtime.block_on(async {
        let ports = (args.ingress_port, args.admin_port);
        let engine = LocalEngine::start(&program, &dir.join("engine"), ports).await.map_err(|error| {
            Hinted::new(
                "cannot start an engine",
                "name other ports with --ingress-port and --admin-port, or another directory with --dir",
            )
            .because(error)
        })?;
        let url = engine.url().clone();
        let config = args.node.config(&host, &url, &store)?;
        let node = Node::bind(config, SocketAddr::from((Ipv4Addr::LOCALHOST, args.node_port))).await;
        host.steps.clear();
        let code = serve(node?, None, Shares::Nothing, || {
            note(&format!("the fleet is stored in `{}`", escaped(&dir)));
            note(&format!("the fleet is up: glovebox serve --fleet '{url}'"));
        })
        .await;
        tokio::task::spawn_blocking(move || drop(engine)).await.context("cannot stop the engine")?;
        code
    });
    runtime.shutdown_background();
    served
}
