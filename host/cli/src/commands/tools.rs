//! `glovebox tools`: declarations of the tools that scripts can call.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use glovebox::{Policy, Tool, escaped, tool_stubs};
use glovebox_server::mcp::UpstreamConfig;
use serde::Deserialize;
use serde_json::Value;

use super::mcp;
use crate::{
    args::{LanguageArg, ProgramArgs},
    source::bounded_with_hint,
    terminal::{OrHint as _, out},
};

const AFTER_HELP: &str = "\
Examples:
  glovebox tools stubs -l python --tools-from mcp.json > __builtins__.pyi
  glovebox tools stubs -l javascript --definitions tools.json > tools.d.ts
  glovebox tools stubs -l python --tool weather='python3 weather.py'

Pyright and editors that use it read __builtins__.pyi in the project's directory. TypeScript reads all .d.ts files of a \
project. Programs of --tool have no schema, so their arguments and results have the type Any.

--definitions names a file with a JSON array of tools, as in a request to `glovebox serve` or in an answer from an MCP \
server: [{\"name\": \"add\", \"description\": \"…\", \"schema\": {…}, \"result_schema\": {…}}]. Only the name is required; \
inputSchema and outputSchema are accepted as well.";

/// Describe the tools of scripts
#[derive(Args, Debug)]
pub(crate) struct ToolsCommandArgs {
    #[command(subcommand)]
    command: ToolsCommand,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    Stubs(StubsArgs),
}

/// Print declarations of the tools with types, for editors, type checkers and models
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
struct StubsArgs {
    /// Language: python for a stub (.pyi), javascript or typescript for TypeScript declarations (.d.ts)
    #[arg(short, long, value_name = "LANGUAGE")]
    language: LanguageArg,

    #[command(flatten)]
    tools: DefinedToolsArgs,
}

/// Tools whose definitions a command uses without calling them.
#[derive(Args, Debug)]
pub(crate) struct DefinedToolsArgs {
    /// JSON file with definitions of tools: names, descriptions and schemas
    #[arg(long, value_name = "FILE", help_heading = "Tools")]
    definitions: Option<PathBuf>,

    /// Start the MCP servers in this JSON file, and list their tools and the operations of its OpenAPI documents
    #[arg(long, value_name = "FILE", help_heading = "Tools")]
    tools_from: Option<PathBuf>,

    #[command(flatten)]
    programs: ProgramArgs,
}

impl DefinedToolsArgs {
    /// Returns `true` if no flag defines a tool.
    pub(crate) fn is_empty(&self) -> bool {
        self.definitions.is_none() && self.tools_from.is_none() && self.programs.names().next().is_none()
    }

    /// Returns the tools. Starts the MCP servers of `--tools-from`, and stops them afterwards.
    pub(crate) fn tools(&self, policy: &Policy) -> anyhow::Result<Vec<Tool>> {
        let mut tools = self.programs.all_tools(policy)?;
        if let Some(path) = &self.definitions {
            tools.extend(read_definitions(path)?);
        }
        if let Some(path) = &self.tools_from {
            tools.extend(list_tools(mcp::servers(path)?, policy)?);
        }
        Ok(tools)
    }
}

/// Maximum length in bytes of the file with definitions.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The definition of a tool in a file. Unknown keys are ignored.
#[derive(Debug, Deserialize)]
struct Definition {
    name: String,
    description: Option<String>,
    #[serde(alias = "inputSchema")]
    schema: Option<Value>,
    #[serde(alias = "outputSchema")]
    result_schema: Option<Value>,
}

pub(crate) fn run(args: &ToolsCommandArgs) -> anyhow::Result<i32> {
    let ToolsCommand::Stubs(args) = &args.command;
    let tools = args.tools.tools(&Policy::default())?;
    let stub = tool_stubs(&tools, args.language.language()).context("cannot declare the tools")?;
    out(&stub)?;
    Ok(0)
}

/// Reads the tools that a file defines.
fn read_definitions(path: &Path) -> anyhow::Result<Vec<Tool>> {
    let what = format!("file `{}`", escaped(path));
    let hint = "write [{\"name\": \"add\", \"description\": \"…\", \"schema\": {…}}]";
    let file = File::open(path).or_hint(|| format!("cannot read {what}"), hint)?;
    let bytes = bounded_with_hint(&what, file, MAX_FILE_BYTES, "define fewer tools")?;
    let definitions = serde_json::from_slice::<Vec<Definition>>(&bytes);
    let definitions = definitions.map_err(|error| glovebox::escaped_text(&error.to_string()).to_string());
    let definitions = definitions.or_hint(|| format!("cannot use {what}"), hint)?;
    Ok(definitions.into_iter().map(Definition::tool).collect())
}

impl Definition {
    fn tool(self) -> Tool {
        let mut tool = Tool::new(self.name, self.description.unwrap_or_default()).untrusted_schema().stepped();
        if let Some(schema) = self.schema {
            tool = tool.schema(schema);
        }
        match self.result_schema {
            Some(schema) => tool.result_schema(schema),
            None => tool,
        }
    }
}

/// Starts MCP servers, lists their tools, and stops the servers.
fn list_tools(servers: Vec<UpstreamConfig>, policy: &Policy) -> anyhow::Result<Vec<Tool>> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    runtime.block_on(async {
        let Some(upstreams) = mcp::start(servers, policy).await? else { return Ok(Vec::new()) };
        let mut tools = upstreams.tools();
        tools.extend(upstreams.approved_tools());
        upstreams.close().await;
        Ok(tools)
    })
}
