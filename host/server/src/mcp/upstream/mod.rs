//! Upstream MCP servers and HTTP APIs, whose tools scripts can call (code mode).
//!
//! With a hundred tools, a model would have to read a hundred descriptions, and every result would pass through the
//! model. In code mode, the model writes a script that calls the tools, and reads only the script's output.
//!
//! Upstream servers are untrusted: their tool names, schemas, descriptions and results are limited in size. Errors of a
//! server's process or connection name the server. APIs with an OpenAPI document are treated like servers, and their
//! operations like tools.

mod connection;
mod endpoint;
mod listing;
mod openapi;
mod process;
mod upstreams;

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use glovebox::escaped;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

pub use listing::Listing;
pub use openapi::{DocumentSource, OpenApiConfig};
pub use upstreams::Upstreams;

/// The values of `type` for the transport Streamable HTTP.
const HTTP_TYPES: [&str; 3] = ["http", "streamable-http", "streamableHttp"];

/// Maximum number of servers. Each server is a process or a connection.
const MAX_SERVERS: usize = 32;

/// The configuration of an upstream MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// The server's name. It is the prefix of its tools' names in scripts.
    pub name: String,
    /// The process or the URL of the server, or the document of the API.
    pub transport: UpstreamTransport,
    /// The names of the tools that scripts can call. Default: all tools.
    pub tools: Option<Vec<String>>,
    /// The tools whose calls the client's user must approve. Default: none.
    pub approve: Approve,
}

/// The process or the URL of an upstream MCP server, or the document of an API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamTransport {
    /// A child process that communicates over standard input and output.
    Process(ProcessConfig),
    /// A server with the transport Streamable HTTP.
    Http(EndpointConfig),
    /// An HTTP API with an OpenAPI document.
    OpenApi(OpenApiConfig),
}

/// The child process of an upstream MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessConfig {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub command: String,
    /// The program's arguments.
    pub args: Vec<String>,
    /// The environment variables of the server. `PATH` and `HOME` are inherited; other variables of this process are
    /// not.
    pub env: BTreeMap<String, String>,
    /// The working directory. Default: the working directory of this process.
    pub cwd: Option<PathBuf>,
}

/// The address of an upstream MCP server with the transport Streamable HTTP.
///
/// `Debug` omits both fields, because they can contain secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct EndpointConfig {
    /// The URL to which messages are sent, with the scheme `http` or `https`.
    pub url: String,
    /// Headers of each request, for example `Authorization`.
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for EndpointConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointConfig").finish_non_exhaustive()
    }
}

/// The tools of a server whose calls the client's user must approve.
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
    /// Returns `true` if calls to the tool must be approved.
    fn requires_approval(&self, tool: &str) -> bool {
        *self == Self::Always || self.names().iter().any(|name| name == tool)
    }

    /// Returns the names of individual tools.
    fn names(&self) -> &[String] {
        match self {
            Self::Tools(names) => names,
            Self::Never | Self::Always => &[],
        }
    }
}

/// An error that prevents upstream tools from being offered to scripts. Its message names the server or the API.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UpstreamError(String);

/// The file format that MCP clients share: `{"mcpServers": {NAME: {"command": …, "args": […], "env": {…}, "cwd": …}}}`,
/// or `{"url": …, "headers": {…}}`, or `{"openapi": …, "server": …, "headers": {…}}` as the value of a name.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, Server>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Server {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    url: Option<String>,
    openapi: Option<String>,
    server: Option<String>,
    // Not parsed as a map of strings: an error from `serde_json` would quote a value of another type, which can be a
    // secret.
    headers: Option<Value>,
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

/// The value of the `approve` key.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`approve` must be \"always\", \"never\" or a list of tools")]
enum ApproveKey {
    Word(String),
    Tools(Vec<String>),
}

impl UpstreamConfig {
    /// Returns a noun for messages, such as "MCP server `x`".
    fn label(&self) -> String {
        label(&self.name, matches!(self.transport, UpstreamTransport::OpenApi(_)))
    }

    /// Returns an error. `reason` completes a sentence that begins with the server's name.
    fn error(&self, reason: &str) -> UpstreamError {
        UpstreamError(format!("{} {reason}", self.label()))
    }

    /// Returns `true` if `tools` or `approve` contains the tool, or if scripts can call all tools.
    fn names(&self, tool: &str) -> bool {
        self.tools.is_none() || self.has_tool(tool)
    }

    /// Returns `true` if `tools` or `approve` contains the tool.
    fn has_tool(&self, tool: &str) -> bool {
        let contains = |names: &[String]| names.iter().any(|name| name == tool);
        self.tools.as_deref().is_some_and(contains) || contains(self.approve.names())
    }

    /// Parses server configurations from JSON. Relative paths are resolved against `base`, the directory of the
    /// configuration file. Servers with `disabled` are skipped.
    ///
    /// # Errors
    /// Fails if the JSON does not have the expected format, if there are more than 32 servers, or if a server's
    /// configuration is not supported.
    pub fn read(json: &str, base: &Path) -> Result<Vec<Self>, UpstreamError> {
        let file: File = serde_json::from_str(json)
            .map_err(|error| UpstreamError(glovebox::escaped_text(&error.to_string()).to_string()))?;
        if file.servers.len() > MAX_SERVERS {
            let text =
                format!("{} MCP servers are configured; the maximum is {MAX_SERVERS}; list fewer", file.servers.len());
            return Err(UpstreamError(text));
        }
        let used = file.servers.into_iter().filter(|(_, server)| !server.disabled);
        used.map(|(name, server)| {
            let is_api = server.openapi.is_some();
            let checked = server.into_config(name.clone(), base);
            checked.map_err(|reason| UpstreamError(format!("{} {reason}", label(&name, is_api))))
        })
        .collect()
    }
}

fn label(name: &str, is_api: bool) -> String {
    format!("{} `{}`", if is_api { "API" } else { "MCP server" }, escaped(name))
}

impl Server {
    /// Checks the keys. The error completes a sentence that begins with the server's name.
    fn into_config(mut self, name: String, base: &Path) -> Result<UpstreamConfig, String> {
        let (tools, approve) = (self.tools.take(), self.approve.take());
        let transport = self.transport(base)?;
        let approve = match approve {
            None => Approve::Never,
            Some(ApproveKey::Tools(names)) => Approve::Tools(names),
            Some(ApproveKey::Word(word)) => match &*word {
                "always" => Approve::Always,
                "never" => Approve::Never,
                other => {
                    let other = escaped(other);
                    return Err(format!(
                        "has the `approve` value `{other}`; use \"always\", \"never\" or a list of tools"
                    ));
                }
            },
        };
        Ok(UpstreamConfig { name, transport, tools, approve })
    }

    /// Checks the keys of the transport. The error completes a sentence that begins with the server's name.
    fn transport(self, base: &Path) -> Result<UpstreamTransport, String> {
        let has_process = self.command.is_some() || !self.args.is_empty() || !self.env.is_empty() || self.cwd.is_some();
        if let Some(document) = self.openapi {
            if has_process || self.url.is_some() || self.kind.is_some() {
                return Err("has an `openapi` document and also `url`, `type`, `command`, `args`, `env` or `cwd`; \
                            remove one of them"
                    .to_owned());
            }
            let document = DocumentSource::new(document, base);
            let config = OpenApiConfig { document, server: self.server, headers: headers(self.headers)? };
            config.check()?;
            return Ok(UpstreamTransport::OpenApi(config));
        }
        if self.server.is_some() {
            return Err("has a `server` without an `openapi` document; remove it".to_owned());
        }
        let Some(url) = self.url else {
            if let Some(kind) = self.kind.filter(|kind| kind != "stdio") {
                return Err(format!("has type `{}` but no `url`; only `stdio` needs none", escaped(&kind)));
            }
            let command = self.command.filter(|command| !command.is_empty());
            let command = command.ok_or("has no `command`, `url` or `openapi`; add one")?;
            if self.headers.is_some() {
                return Err("has `headers` without a `url`; remove them".to_owned());
            }
            let cwd = self.cwd.map(|cwd| base.join(cwd));
            let config = ProcessConfig { command, args: self.args, env: self.env, cwd };
            config.check()?;
            return Ok(UpstreamTransport::Process(config));
        };
        if let Some(kind) = self.kind.filter(|kind| !HTTP_TYPES.contains(&&**kind)) {
            return Err(format!("has a `url` and type `{}`; only `http` is supported", escaped(&kind)));
        }
        if has_process {
            return Err("has a `url` and also `command`, `args`, `env` or `cwd`; remove one of them".to_owned());
        }
        let config = EndpointConfig { url, headers: headers(self.headers)? };
        config.check()?;
        Ok(UpstreamTransport::Http(config))
    }
}

impl ProcessConfig {
    fn check(&self) -> Result<(), String> {
        let Self { command, args, env, .. } = self;
        let nul = |text: &String| text.contains('\0');
        if nul(command) || args.iter().any(nul) || env.iter().any(|(name, value)| nul(name) || nul(value)) {
            return Err("contains a NUL byte in its command, arguments or environment".to_owned());
        }
        if let Some(variable) = env.keys().find(|variable| variable.is_empty() || variable.contains('=')) {
            return Err(format!(
                "has an invalid environment variable name `{}`: it must not be empty or contain `=`",
                escaped(variable)
            ));
        }
        Ok(())
    }
}

/// Converts the value of `headers`. An error contains no value, because values can be secrets.
fn headers(value: Option<Value>) -> Result<BTreeMap<String, String>, String> {
    let headers = value.map(serde_json::from_value).transpose();
    headers.map(Option::unwrap_or_default).map_err(|_| "has `headers` that are not an object with strings".to_owned())
}

impl EndpointConfig {
    /// Checks the URL and the headers. The error completes a sentence that begins with the server's name, and contains
    /// neither the URL nor the value of a header.
    fn check(&self) -> Result<(), String> {
        check_url("url", &self.url)?;
        self.header_map().map(drop)
    }
}

/// Parses the value of a key. The error completes a sentence that begins with the server's name, and does not contain
/// the URL.
fn check_url(key: &str, url: &str) -> Result<Url, String> {
    let url = Url::parse(url).map_err(|error| format!("has an invalid `{key}`: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("has a `{key}` that does not begin with `http://` or `https://`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("has credentials in its `{key}`; use `headers` instead"));
    }
    Ok(url)
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
        let UpstreamTransport::Process(process) = &servers[1].transport else { panic!("{servers:?}") };
        assert_eq!((&*process.command, &process.env["K"]), ("npx", &"v".to_owned()));
        assert_eq!(process.cwd.as_deref(), Some(Path::new("/base/sub")));
    }

    #[test]
    fn url_and_headers_are_parsed_and_not_shown() {
        let json = r#"{"mcpServers": {
            "a": {"type": "http", "url": "https://x.test/mcp?key=secret", "headers": {"Authorization": "secret"}},
            "b": {"url": "http://127.0.0.1:1/"}
        }}"#;
        let servers = read(json).unwrap();
        let UpstreamTransport::Http(endpoint) = &servers[0].transport else { panic!("{servers:?}") };
        assert_eq!(endpoint.url, "https://x.test/mcp?key=secret");
        assert_eq!(endpoint.headers["Authorization"], "secret");
        assert!(!format!("{servers:?}").contains("secret"));
        for (entry, expected) in [
            (r#"{"url": "secret"}"#, "has an invalid `url`: "),
            (r#"{"url": "ftp://secret"}"#, "does not begin with `http://`"),
            (r#"{"url": "http://u:secret@x"}"#, "has credentials in its `url`"),
            (r#"{"url": "http://x", "type": "sse"}"#, "has a `url` and type `sse`; only `http` is supported"),
            (r#"{"url": "http://x", "command": "secret"}"#, "has a `url` and also `command`"),
            (r#"{"url": "http://x", "headers": "secret"}"#, "has `headers` that are not an object with strings"),
            (r#"{"url": "http://x", "headers": {"A": ["secret"]}}"#, "has `headers` that are not an object"),
            (r#"{"url": "http://x", "headers": {"A b": "secret"}}"#, "has the invalid header `A b`"),
            (r#"{"url": "http://x", "headers": {"A": "secret\n"}}"#, "has the invalid header `A`"),
            (r#"{"url": "http://x", "headers": {"MCP-Session-Id": "secret"}}"#, "sets the header `MCP-Session-Id`"),
            (r#"{"command": "x", "headers": {"A": "secret"}}"#, "has `headers` without a `url`"),
        ] {
            let error = read(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)).unwrap_err();
            assert!(error.starts_with("MCP server `a` ") && error.contains(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn openapi_document_is_parsed_and_not_shown() {
        let json = r#"{"mcpServers": {
            "a": {"openapi": "sub/api.json"},
            "b": {"openapi": "https://x.test/secret", "server": "https://y.test/secret", "headers": {"X": "secret"}}
        }}"#;
        let servers = read(json).unwrap();
        let UpstreamTransport::OpenApi(api) = &servers[0].transport else { panic!("{servers:?}") };
        assert!(api.document == DocumentSource::File("/base/sub/api.json".into()) && api.server.is_none());
        let UpstreamTransport::OpenApi(api) = &servers[1].transport else { panic!("{servers:?}") };
        assert!(
            api.document == DocumentSource::Url("https://x.test/secret".to_owned()) && api.headers["X"] == "secret"
        );
        assert!(!format!("{servers:?}").contains("secret"));
        for (entry, expected) in [
            (r#"{"openapi": "x", "url": "secret"}"#, "API `a` has an `openapi` document and also `url`"),
            (r#"{"openapi": "x", "command": "secret"}"#, "API `a` has an `openapi` document and also `url`"),
            (r#"{"openapi": "x", "server": "secret"}"#, "API `a` has an invalid `server`: "),
            (r#"{"openapi": "x", "server": "http://x/?secret"}"#, "has a query or a fragment in its `server`"),
            (r#"{"openapi": "http://u:secret@x"}"#, "has credentials in its `openapi`"),
            (r#"{"openapi": "x", "headers": {"Host": "secret"}}"#, "sets the header `Host`, which is reserved"),
            (r#"{"openapi": "x", "approve": "secret"}"#, "API `a` has the `approve` value"),
            (r#"{"command": "x", "server": "secret"}"#, "MCP server `a` has a `server` without an `openapi` document"),
        ] {
            let error = read(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#)).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.replace("value `secret`", "").contains("secret"), "{error}");
        }
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
            assert_eq!(
                (&approve, ["pay", "pay2"].map(|tool| approve.requires_approval(tool))),
                (&expected, covers),
                "{value}"
            );
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
        for (json, expected) in [
            ("", "line 1"),
            ("{}", "missing field `mcpServers`"),
            (r#"{"mcpServers": {"a": {}}}"#, "MCP server `a` has no `command`, `url` or `openapi`; add one"),
            (r#"{"mcpServers": {"a": {"command": "x", "type": "sse"}}}"#, "has type `sse` but no `url`"),
            (r#"{"mcpServers": {"a": {"command": "x", "arg": []}}}"#, "unknown field `arg`"),
            (r#"{"mcpServers": {"a": {"command": "x", "env": {"A=B": ""}}}}"#, "`A=B`"),
            (r#"{"mcpServers": {"a\n": {"command": "x\u0000"}}}"#, "MCP server `a\\n` contains a NUL"),
            (&*many, "33 MCP servers are configured; the maximum is 32; list fewer"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(read(&many.replace(r#","s32": {"command": "x"}"#, "")).unwrap().len(), 32);
    }
}
