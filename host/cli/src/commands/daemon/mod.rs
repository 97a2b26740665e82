//! `glovebox daemon`: sessions for programs of this machine, over a private Unix socket.

mod ask;
mod place;
mod serve;

use clap::{Args, Subcommand};
use place::PlaceArgs;

use crate::args::GlobalArgs;

const AFTER_HELP: &str = "\
Examples:
  glovebox daemon                            listen at ~/.rlm/daemon.sock until Ctrl-C or `glovebox daemon stop`
  glovebox daemon --timeout-ms 60000 &       with a timeout of one minute per script
  glovebox daemon status                     show whether it answers, and its sessions
  glovebox daemon stop                       stop it once running executions have ended
  glovebox daemon --stdio                    serve one client over standard input and output

  printf '%s\\n' '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"initialize\", \"params\": {\"context\": [1, 2, 3]}}' \\
    '{\"jsonrpc\": \"2.0\", \"id\": 2, \"method\": \"execute\", \"params\": {\"code\": \"print(sum(context))\"}}' | glovebox daemon --stdio

A client sends JSON-RPC 2.0, one message per line: initialize opens a session, execute runs code in it, getVariable reads its
variables, cancel stops the running code, destroy closes the session. llm_query(…), rlm_query(…) and the tools of a script are requests to the client.
The packages for Python and JavaScript are such clients: Sandbox(backend=\"daemon\"), createSandbox({ backend: 'daemon' }).

Only your own programs can connect. Sessions are in memory and end with the connection that opened them. The flags set the policy
of all clients; a client may request stricter limits. docs/daemon.md describes the protocol.";

/// Serve programs of this machine over a Unix socket
///
/// Keeps interpreters ready for any number of programs. Speaks JSON-RPC 2.0 over a Unix socket that only you can
/// connect to.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct DaemonArgs {
    #[command(subcommand)]
    command: Option<DaemonCommand>,

    #[command(flatten)]
    server: serve::ServerArgs,
}

#[derive(Debug, Subcommand)]
enum DaemonCommand {
    /// Show whether a daemon answers, and its sessions; exit code 1 if none does
    Status(PlaceArgs),
    /// Stop a daemon once its running executions have ended
    Stop(PlaceArgs),
}

pub(crate) fn run(global: &GlobalArgs, args: &DaemonArgs) -> anyhow::Result<i32> {
    match &args.command {
        Some(DaemonCommand::Status(place)) => ask::status(&place.path()?),
        Some(DaemonCommand::Stop(place)) => ask::stop(&place.path()?),
        None => serve::run(global, &args.server),
    }
}
