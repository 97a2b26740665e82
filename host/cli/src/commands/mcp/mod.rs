//! `glovebox mcp`: a Model Context Protocol server with which models run code.

mod clients;
mod edit;
mod install;
mod serve;

use clap::{Args, Subcommand};

use crate::args::GlobalArgs;

const AFTER_HELP: &str = "\
Examples:
  glovebox mcp install claude-code           write .mcp.json, so that Claude Code starts it in this project
  glovebox mcp install cursor -- --timeout-ms 60000
  glovebox mcp install vscode --print        show what would be written
  glovebox mcp                               serve one client over standard input and output, as clients start it
  glovebox mcp --tools-from mcp.json         let scripts call the tools of other MCP servers
  glovebox mcp --listen 127.0.0.1:8900       serve any number of clients at http://127.0.0.1:8900/mcp
  GLOVEBOX_TOKEN=secret-of-16-letters glovebox mcp --listen 0.0.0.0:8900 --allow-host box.example.com

A client finds the tools run_code, session_open, session_list, session_fork, session_undo, session_close, files_list,
files_read and files_write. A script runs in a new interpreter, or in a session that keeps its state. Sessions are saved
after each script, by default in $XDG_STATE_HOME/glovebox/mcp-sessions; the next server finds them.

With --tools-from, scripts may call the tools of other servers as tools.SERVER_TOOL(…). FILE lists them in the usual format:
{\"mcpServers\": {\"weather\": {\"command\": \"npx\", \"args\": [\"-y\", \"weather-server\"], \"env\": {\"KEY\": \"…\"}}}}. A server runs with
your rights; its environment contains PATH, HOME and the variables in FILE. \"tools\": [\"NAME\"] offers only these tools.

Standard output contains only protocol messages; notes, errors and logs (-v) go to standard error. The server ends at the end
of its standard input, and at Ctrl-C.";

/// Serve the Model Context Protocol, so that a model can run code
///
/// Without a subcommand it serves one client over standard input and output, as clients start it, or with --listen any
/// number of clients over HTTP. `glovebox mcp install CLIENT` configures a client to start it.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,

    #[command(flatten)]
    server: serve::ServerArgs,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    Install(install::InstallArgs),
}

pub(crate) fn run(global: &GlobalArgs, args: &McpArgs) -> anyhow::Result<i32> {
    match &args.command {
        Some(McpCommand::Install(install)) => install::run(global, install),
        None => serve::run(global, &args.server),
    }
}
