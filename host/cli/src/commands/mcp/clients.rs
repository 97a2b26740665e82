//! MCP clients and their configuration files.

use std::{
    env, fmt,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::terminal::Hinted;

/// A client that can be configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
    /// Claude Code: .mcp.json in this directory, for this project
    ClaudeCode,
    /// Claude Desktop: claude_desktop_config.json
    ClaudeDesktop,
    /// Codex: ~/.codex/config.toml
    Codex,
    /// Cursor: ~/.cursor/mcp.json
    Cursor,
    /// Gemini CLI: ~/.gemini/settings.json
    GeminiCli,
    /// Visual Studio Code: .vscode/mcp.json in this directory, for this project
    Vscode,
    /// Windsurf: ~/.codeium/windsurf/mcp_config.json
    Windsurf,
    /// Zed: ~/.config/zed/settings.json
    Zed,
}

/// Format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, with the servers in the object `container`.
    Json { container: &'static str },
    /// TOML, with a table `mcp_servers.NAME` per server.
    Toml,
}

/// The command that a client starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) command: String,
    pub(super) args: Vec<String>,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Codex => "Codex",
            Self::Cursor => "Cursor",
            Self::GeminiCli => "Gemini CLI",
            Self::Vscode => "Visual Studio Code",
            Self::Windsurf => "Windsurf",
            Self::Zed => "Zed",
        })
    }
}

impl Client {
    /// Returns the path of the configuration file.
    pub(super) fn file(self) -> Result<PathBuf, Hinted> {
        Ok(match self {
            Self::ClaudeCode => ".mcp.json".into(),
            Self::ClaudeDesktop => support()?.join("Claude/claude_desktop_config.json"),
            Self::Codex => match directory("CODEX_HOME") {
                Some(codex) => codex.join("config.toml"),
                None => home()?.join(".codex/config.toml"),
            },
            Self::Cursor => home()?.join(".cursor/mcp.json"),
            Self::GeminiCli => home()?.join(".gemini/settings.json"),
            Self::Vscode => ".vscode/mcp.json".into(),
            Self::Windsurf => home()?.join(".codeium/windsurf/mcp_config.json"),
            // The same directory on macOS.
            Self::Zed => match directory("XDG_CONFIG_HOME").filter(|_| !cfg!(target_os = "macos")) {
                Some(config) => config.join("zed/settings.json"),
                None => home()?.join(".config/zed/settings.json"),
            },
        })
    }

    pub(super) fn format(self) -> Format {
        let container = match self {
            Self::Codex => return Format::Toml,
            Self::Vscode => "servers",
            Self::Zed => "context_servers",
            _ => "mcpServers",
        };
        Format::Json { container }
    }

    /// Returns the entry for a server, as JSON.
    pub(super) fn entry(self, Start { command, args }: &Start) -> Value {
        match self {
            Self::ClaudeCode | Self::Vscode => json!({ "type": "stdio", "command": command, "args": args }),
            _ => json!({ "command": command, "args": args }),
        }
    }

    /// Returns the next step for the user.
    pub(super) fn next(self) -> &'static str {
        match self {
            Self::ClaudeCode => "start `claude` in this directory and approve the server",
            Self::Codex | Self::GeminiCli => "restart the client",
            Self::Vscode => "open this directory and start the server from .vscode/mcp.json",
            _ => "restart the client",
        }
    }
}

fn directory(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn home() -> Result<PathBuf, Hinted> {
    directory("HOME")
        .ok_or_else(|| Hinted::new("HOME does not name a directory", "set it, or name the file with --file FILE"))
}

/// Returns the directory for settings of graphical programs.
fn support() -> Result<PathBuf, Hinted> {
    if cfg!(target_os = "macos") {
        return Ok(home()?.join("Library/Application Support"));
    }
    match directory("XDG_CONFIG_HOME") {
        Some(config) => Ok(config),
        None => Ok(home()?.join(Path::new(".config"))),
    }
}
