//! Other MCP servers, whose tools scripts may call: code mode.
//!
//! With a hundred tools, a model would read a hundred descriptions, and every result would pass through it. Instead it
//! writes a script that calls the tools, and reads only what the script prints.
//!
//! These servers are not trusted: their names, schemas, descriptions and results are limited, and errors name the
//! server.

mod listing;
mod process;
mod upstreams;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use glovebox::escaped;
use serde::Deserialize;

pub use listing::Listing;
pub(super) use process::BoundedLines;
pub use upstreams::Upstreams;

/// Maximum number of servers. Each is a process.
const MAX_SERVERS: usize = 32;

/// An MCP server that is started as a process, and speaks over its standard input and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// The name of the server.
    pub name: String,
    /// The program: a path, or a name to look up in `PATH`.
    pub command: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// Environment variables in addition to `PATH` and `HOME`, the only inherited ones.
    pub env: BTreeMap<String, String>,
    /// The working directory. Default: that of this process.
    pub cwd: Option<PathBuf>,
    /// The tools that scripts may call. Default: all tools.
    pub tools: Option<Vec<String>>,
}

/// The tools of MCP servers cannot be offered to scripts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// A server could not be started, or does not speak the protocol.
    #[error("MCP server `{server}` {reason}", server = escaped(.server))]
    Server {
        /// The name of the server.
        server: String,
        /// The problem, as a phrase after the name.
        reason: String,
    },
    /// A tool's name for scripts is invalid, or taken by another tool.
    #[error("tool `{tool}` of MCP server `{server}` cannot be `tools.{name}`: {reason}", server = escaped(.server), tool = escaped(.tool), name = escaped(.name))]
    Name {
        /// The name of the server.
        server: String,
        /// The tool's name at the server.
        tool: String,
        /// The tool's name for scripts.
        name: String,
        /// The problem, and the way to solve it.
        reason: String,
    },
}

/// The usual format of clients: `{"mcpServers": {NAME: {"command": …, "args": […], "env": {…}, "cwd": …}}}`.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, Server>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    disabled: bool,
    tools: Option<Vec<String>>,
    // Keys that other clients use in such files.
    #[serde(rename = "description")]
    _description: Option<serde::de::IgnoredAny>,
    #[serde(rename = "timeout")]
    _timeout: Option<serde::de::IgnoredAny>,
    #[serde(rename = "autoApprove")]
    _auto_approve: Option<serde::de::IgnoredAny>,
    #[serde(rename = "alwaysAllow")]
    _always_allow: Option<serde::de::IgnoredAny>,
}

impl UpstreamConfig {
    /// Parses the configuration of servers from JSON. Relative directories are resolved against `base`, the directory
    /// of the file. Servers with `disabled` are skipped.
    ///
    /// # Errors
    /// Fails if the JSON has another format, or if a server is not supported.
    pub fn read(json: &str, base: &Path) -> Result<Vec<Self>, UpstreamError> {
        let file: File = serde_json::from_str(json)
            .map_err(|error| UpstreamError::Config(glovebox::escaped_text(&error.to_string()).to_string()))?;
        if file.servers.len() > MAX_SERVERS {
            let text =
                format!("{} MCP servers are configured; at most {MAX_SERVERS} are supported", file.servers.len());
            return Err(UpstreamError::Config(text));
        }
        let used = file.servers.into_iter().filter(|(_, server)| !server.disabled);
        used.map(|(name, server)| server.checked(name, base)).collect()
    }
}

impl Server {
    fn checked(self, name: String, base: &Path) -> Result<UpstreamConfig, UpstreamError> {
        let wrong = |reason: &str| UpstreamError::Server { server: name.clone(), reason: reason.to_owned() };
        if self.url.is_some() {
            return Err(wrong("has a `url`; only servers with a `command` are supported"));
        }
        if let Some(kind) = self.kind.filter(|kind| kind != "stdio") {
            return Err(wrong(&format!("has the type `{}`; only `stdio` is supported", escaped(&kind))));
        }
        let command = self.command.filter(|command| !command.is_empty()).ok_or_else(|| wrong("has no `command`"))?;
        let nul = |text: &String| text.contains('\0');
        if nul(&command) || self.args.iter().any(nul) || self.env.iter().any(|(name, value)| nul(name) || nul(value)) {
            return Err(wrong("has a NUL in its command, arguments or environment"));
        }
        if let Some(variable) = self.env.keys().find(|variable| variable.is_empty() || variable.contains('=')) {
            return Err(wrong(&format!("has an invalid environment variable `{}`", escaped(variable))));
        }
        let cwd = self.cwd.map(|cwd| base.join(cwd));
        Ok(UpstreamConfig { name, command, args: self.args, env: self.env, cwd, tools: self.tools })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<UpstreamConfig>, String> {
        UpstreamConfig::read(json, Path::new("/base")).map_err(|error| error.to_string())
    }

    #[test]
    fn common_configuration_format_is_parsed() {
        let json = r#"{"mcpServers": {
            "b": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"K": "v"}, "cwd": "sub", "timeout": 5},
            "a": {"command": "/bin/a", "tools": ["one"]},
            "off": {"url": "http://x", "disabled": true}
        }, "other": 1}"#;
        let servers = read(json).unwrap();
        assert_eq!(servers.iter().map(|server| &*server.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(servers[0].tools.as_deref(), Some(&["one".to_owned()][..]));
        assert_eq!((&*servers[1].command, &servers[1].env["K"]), ("npx", &"v".to_owned()));
        assert_eq!(servers[1].cwd.as_deref(), Some(Path::new("/base/sub")));
    }

    #[test]
    fn unusable_configuration_is_rejected_by_name() {
        let many: Vec<String> = (0..33).map(|index| format!(r#""s{index}": {{"command": "x"}}"#)).collect();
        let many = format!(r#"{{"mcpServers": {{{}}}}}"#, many.join(","));
        for (json, said) in [
            ("", "line 1"),
            ("{}", "missing field `mcpServers`"),
            (r#"{"mcpServers": {"a": {}}}"#, "MCP server `a` has no `command`"),
            (
                r#"{"mcpServers": {"a": {"url": "http://x"}}}"#,
                "MCP server `a` has a `url`; only servers with a `command`",
            ),
            (r#"{"mcpServers": {"a": {"command": "x", "type": "sse"}}}"#, "type `sse`"),
            (r#"{"mcpServers": {"a": {"command": "x", "arg": []}}}"#, "unknown field `arg`"),
            (r#"{"mcpServers": {"a": {"command": "x", "env": {"A=B": ""}}}}"#, "`A=B`"),
            (r#"{"mcpServers": {"a\n": {"command": "x\u0000"}}}"#, "MCP server `a\\n` has a NUL"),
            (&*many, "33 MCP servers are configured; at most 32"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(read(&many.replace(r#","s32": {"command": "x"}"#, "")).unwrap().len(), 32);
    }
}
