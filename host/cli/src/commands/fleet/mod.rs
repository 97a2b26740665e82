//! `glovebox fleet`: sessions on many machines.

mod node;
mod status;
mod up;

use clap::{Args, Subcommand};

use crate::args::GlobalArgs;

const AFTER_HELP: &str = "\
Examples:
  glovebox fleet up                           start an engine, a store and a node on this machine
  glovebox serve --fleet restate://127.0.0.1  serve its sessions over HTTP
  glovebox fleet status                       show the nodes and sessions

  glovebox fleet node --engine restate://engine.internal --store s3://bucket/sessions \\
    --listen 0.0.0.0:9080 --advertise http://nodes.internal:9080       start a node, on each of several machines

A session of a fleet runs on one machine at a time and survives its failure: answered requests are stored and never repeated.
The engine is Restate, session states are in an object store, and an HTTP/2 load balancer is in front of the nodes.
docs/fleet.md describes the setup.";

/// Serve sessions from many machines
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    Up(Box<up::UpArgs>),
    Node(Box<node::NodeArgs>),
    Status(status::StatusArgs),
}

pub(crate) fn run(global: &GlobalArgs, args: &FleetArgs) -> anyhow::Result<i32> {
    match &args.command {
        FleetCommand::Up(args) => up::run(global, args),
        FleetCommand::Node(args) => node::run(global, args),
        FleetCommand::Status(args) => status::run(args),
    }
}
