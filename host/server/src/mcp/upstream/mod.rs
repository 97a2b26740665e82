//! Upstream MCP servers, whose tools scripts can call (code mode).
//!
//! With a hundred tools, a model would have to read a hundred descriptions, and every result would pass through the
//! model. In code mode, the model writes a script that calls the tools, and reads only the script's output.
//!
//! Upstream servers are untrusted: their tool names, schemas, descriptions and results are limited in size. Errors of a
//! server's process or connection name the server.

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

/// Maximum number of servers. Each server is a process.
const MAX_SERVERS: usize = 32;

/// The configuration of an MCP server that runs as a child process and communicates over standard input and output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// The server's name. It is the prefix of its tools' names in scripts.
    pub name: String,
    /// The program: a path, or a name that is looked up in `PATH`.
    pub command: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The environment variables of the server. `PATH` and `HOME` are inherited; other variables of this process are
    /// not.
    pub env: BTreeMap<String, String>,
    /// The working directory. Default: the working directory of this process.
    pub cwd: Option<PathBuf>,
    /// The names of the tools that scripts can call. Default: all tools.
    pub tools: Option<Vec<String>>,
    /// The tools whose calls a person at the client must approve. Default: none.
    pub approve: Approve,
}

/// The tools of a server whose calls a person at the client must approve.
///
/// In a configuration file, this is `"always"`, `"never"`, or a list of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Approve {
    /// No tool.
    #[default]
    Never,
    /// All tools.
    Always,
    /// The tools with these names on the server.
    Tools(Vec<String>),
}

impl Approve {
    /// Returns `true` if calls of the tool must be approved.
    fn covers(&self, tool: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Tools(names) => names.iter().any(|name| name == tool),
        }
    }

    /// Returns the names of single tools.
    fn names(&self) -> &[String] {
        match self {
            Self::Tools(names) => names,
            Self::Never | Self::Always => &[],
        }
    }
}

/// An error that prevents upstream tools from being offered to scripts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// A server's configuration is not supported, or the server could not be started or does not speak MCP.
    #[error("MCP server `{server}` {reason}", server = escaped(.server))]
    Server {
        /// The server's name.
        server: String,
        /// The problem as a clause whose subject is the server.
        reason: String,
    },
    /// The name of a tool in scripts is invalid or already in use.
    #[error("tool `{tool}` of MCP server `{server}` cannot be offered as `tools.{name}`: {reason}", server = escaped(.server), tool = escaped(.tool), name = escaped(.name))]
    Name {
        /// The server's name.
        server: String,
        /// The tool's name on the server.
        tool: String,
        /// The tool's name in scripts.
        name: String,
        /// The problem, and how to solve it.
        reason: String,
    },
}

/// The file format that MCP clients share: `{"mcpServers": {NAME: {"command": …, "args": […], "env": {…}, "cwd": …}}}`.
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
    approve: Option<ApproveKey>,
    // Keys that other clients use, which are accepted and ignored.
    #[serde(rename = "description")]
    _description: Option<serde::de::IgnoredAny>,
    #[serde(rename = "timeout")]
    _timeout: Option<serde::de::IgnoredAny>,
    #[serde(rename = "autoApprove")]
    _auto_approve: Option<serde::de::IgnoredAny>,
    #[serde(rename = "alwaysAllow")]
    _always_allow: Option<serde::de::IgnoredAny>,
}

/// The value of the key `approve`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`approve` must be \"always\", \"never\" or a list of tools")]
enum ApproveKey {
    Word(String),
    Tools(Vec<String>),
}

impl UpstreamConfig {
    /// Parses server configurations from JSON. Relative directories are resolved against `base`, the directory of the
    /// configuration file. Servers with `disabled` are skipped.
    ///
    /// # Errors
    /// Fails if the JSON does not have the expected format, if there are more than 32 servers, or if a server's
    /// configuration is not supported.
    pub fn read(json: &str, base: &Path) -> Result<Vec<Self>, UpstreamError> {
        let file: File = serde_json::from_str(json)
            .map_err(|error| UpstreamError::Config(glovebox::escaped_text(&error.to_string()).to_string()))?;
        if file.servers.len() > MAX_SERVERS {
            let text =
                format!("{} MCP servers are configured; the maximum is {MAX_SERVERS}; list fewer", file.servers.len());
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
        let command =
            self.command.filter(|command| !command.is_empty()).ok_or_else(|| wrong("has no `command`; add one"))?;
        let nul = |text: &String| text.contains('\0');
        if nul(&command) || self.args.iter().any(nul) || self.env.iter().any(|(name, value)| nul(name) || nul(value)) {
            return Err(wrong("contains a NUL byte in its command, arguments or environment"));
        }
        if let Some(variable) = self.env.keys().find(|variable| variable.is_empty() || variable.contains('=')) {
            return Err(wrong(&format!(
                "has an invalid environment variable name `{}`: it must not be empty or contain `=`",
                escaped(variable)
            )));
        }
        let approve = match self.approve {
            None => Approve::Never,
            Some(ApproveKey::Tools(names)) => Approve::Tools(names),
            Some(ApproveKey::Word(word)) => match &*word {
                "always" => Approve::Always,
                "never" => Approve::Never,
                other => {
                    let other = escaped(other);
                    return Err(wrong(&format!(
                        "has the `approve` value `{other}`; use \"always\", \"never\" or a list of tools"
                    )));
                }
            },
        };
        let cwd = self.cwd.map(|cwd| base.join(cwd));
        Ok(UpstreamConfig { name, command, args: self.args, env: self.env, cwd, tools: self.tools, approve })
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
    fn approval_is_configured_for_all_no_or_some_tools() {
        let approve = |value: &str| {
            let json = format!(r#"{{"mcpServers": {{"a": {{"command": "x", "approve": {value}}}}}}}"#);
            read(&json).map(|mut servers| servers.remove(0).approve)
        };
        assert_eq!(read(r#"{"mcpServers": {"a": {"command": "x"}}}"#).unwrap()[0].approve, Approve::Never);
        for (value, expected, covers) in [
            (r#""never""#, Approve::Never, [false, false]),
            (r#""always""#, Approve::Always, [true, true]),
            (r#"["pay"]"#, Approve::Tools(vec!["pay".into()]), [true, false]),
            ("[]", Approve::Tools(vec![]), [false, false]),
        ] {
            let approve = approve(value).unwrap();
            assert_eq!((&approve, ["pay", "pay2"].map(|tool| approve.covers(tool))), (&expected, covers), "{value}");
        }
        let error = approve(r#""sometimes\n""#).unwrap_err();
        assert!(error.contains("MCP server `a` has the `approve` value `sometimes\\n`; use \"always\""), "{error}");
        for value in ["true", "{}", "[1]"] {
            assert!(approve(value).unwrap_err().contains("`approve` must be \"always\""), "{value}");
        }
    }

    #[test]
    fn unusable_configuration_is_rejected_by_name() {
        let many: Vec<String> = (0..33).map(|index| format!(r#""s{index}": {{"command": "x"}}"#)).collect();
        let many = format!(r#"{{"mcpServers": {{{}}}}}"#, many.join(","));
        for (json, said) in [
            ("", "line 1"),
            ("{}", "missing field `mcpServers`"),
            (r#"{"mcpServers": {"a": {}}}"#, "MCP server `a` has no `command`; add one"),
            (
                r#"{"mcpServers": {"a": {"url": "http://x"}}}"#,
                "MCP server `a` has a `url`; only servers with a `command`",
            ),
            (r#"{"mcpServers": {"a": {"command": "x", "type": "sse"}}}"#, "type `sse`"),
            (r#"{"mcpServers": {"a": {"command": "x", "arg": []}}}"#, "unknown field `arg`"),
            (r#"{"mcpServers": {"a": {"command": "x", "env": {"A=B": ""}}}}"#, "`A=B`"),
            (r#"{"mcpServers": {"a\n": {"command": "x\u0000"}}}"#, "MCP server `a\\n` contains a NUL"),
            (&*many, "33 MCP servers are configured; the maximum is 32; list fewer"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert_eq!(read(&many.replace(r#","s32": {"command": "x"}"#, "")).unwrap().len(), 32);
    }
}
