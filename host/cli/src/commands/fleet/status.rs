//! `glovebox fleet status`: the fleet's nodes and sessions.

use anyhow::Context;
use clap::Args;
use glovebox_fleet::{FleetClient, FleetUrl};
use serde_json::json;

use crate::terminal::{out, out_json};

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

pub(super) fn run(args: &StatusArgs) -> anyhow::Result<i32> {
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
