//! HTTP APIs with an OpenAPI document, whose operations scripts call as tools.
//!
//! Documents, the arguments of scripts and the API's responses are untrusted. The document's size, its schemas and the
//! size of responses are limited. The configured headers are sent only to the configured server. If no server is
//! configured, they are sent to the document's server, which must have the origin of the document's URL.
//!
//! | file | contents |
//! |---|---|
//! | `document` | the document and its references |
//! | `operation`, `schema` | the tool of an operation, with its schemas |
//! | `request` | the request of a call |

mod document;
mod operation;
mod request;
mod schema;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use glovebox::{JsonText, ToolError, ToolErrorKind, escaped, escaped_text, is_hidden};
use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, CONTENT_TYPE},
};
use rmcp::model::Tool;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{
    EndpointConfig, UpstreamConfig, check_url,
    connection::START,
    endpoint::{self, EndpointError, JSON, MAX_REQUESTS, reason},
    listing,
    upstreams::{CallError, StartedUpstream},
};
use crate::json::{JsonCost, json_len};
use document::{MAX_DOCUMENT_BYTES, OpenApiDocument};
use operation::{Operation, OperationTool, is_json};

/// Maximum number of operations that a document contains or, with `tools`, that the configuration names. Operations
/// that are left out also count, because checking them takes time.
const MAX_OPERATIONS: usize = 1_000;

/// Maximum total size of a document's tools in bytes, and separately of the schemas of their results. The engine has
/// the same limit for the tools of a sandbox.
const MAX_TOOLS_BYTES: usize = 1 << 20;

/// Maximum number of notices about operations that are left out.
const MAX_NOTICES: usize = 20;

/// Maximum length of a tool's name in scripts, in bytes. Longer names are cut.
const MAX_NAME_BYTES: usize = 64;

/// Maximum length of a quoted name in characters.
const MAX_SHOWN_CHARS: usize = 64;

/// Maximum length of the quoted body of an unsuccessful response, in characters.
const MAX_EXCERPT_CHARS: usize = 200;

/// The number of bytes of an unsuccessful response that are searched for secrets. Exceeds the quoted part by more than
/// the usual length of a header, to find a secret at the end of that part.
const SEARCHED_BYTES: usize = 16 << 10;

/// Minimum length in bytes of a part of a header's value that is treated as a secret.
const MIN_SECRET_BYTES: usize = 8;

/// An HTTP API with an OpenAPI document.
///
/// `Debug` omits all fields, because they can contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct OpenApiConfig {
    /// The document, in JSON.
    pub document: DocumentSource,
    /// The URL of the server, instead of the document's first server.
    pub server: Option<String>,
    /// Headers of each request, for example `Authorization`.
    pub headers: BTreeMap<String, String>,
}

/// The location of an OpenAPI document.
#[derive(Clone, PartialEq, Eq)]
pub enum DocumentSource {
    /// A file.
    File(PathBuf),
    /// A URL with the scheme `http` or `https`.
    Url(String),
}

impl DocumentSource {
    /// Returns the source for a location in a configuration file. A relative path is resolved against `base`, the
    /// directory of the file.
    pub(super) fn new(location: String, base: &Path) -> Self {
        match location.starts_with("http://") || location.starts_with("https://") {
            true => Self::Url(location),
            false => Self::File(base.join(location)),
        }
    }
}

impl fmt::Debug for OpenApiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenApiConfig").finish_non_exhaustive()
    }
}

impl OpenApiConfig {
    /// Checks the URLs and the headers. The error completes a sentence that begins with the API's name, and contains
    /// neither URLs nor values of headers.
    pub(super) fn check(&self) -> Result<(), String> {
        if let DocumentSource::Url(url) = &self.document {
            check_url("openapi", url)?;
        }
        if let Some(server) = &self.server {
            base_url("server", server)?;
        }
        self.endpoint("").header_map().map(drop)
    }

    fn endpoint(&self, url: &str) -> EndpointConfig {
        EndpointConfig { url: url.to_owned(), headers: self.headers.clone() }
    }

    /// Reads the document.
    async fn load(&self) -> Result<Vec<u8>, String> {
        match &self.document {
            DocumentSource::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path)).await.map_err(io::Error::other);
                read.flatten().map_err(|error| format!("has a document that cannot be read: {error}"))
            }
            DocumentSource::Url(url) => self.fetch(url).await,
        }
    }

    /// Fetches the document. Sends the headers if the API's server has the same origin.
    async fn fetch(&self, url: &str) -> Result<Vec<u8>, String> {
        let mut endpoint = self.endpoint(url);
        let origin = check_url("openapi", url)?.origin();
        if let Some(server) = &self.server
            && check_url("server", server)?.origin() != origin
        {
            endpoint.headers.clear();
        }
        let request = endpoint.client()?.get(url).header(ACCEPT, JSON).timeout(START);
        let sent = request.send().await;
        let response = sent.map_err(|error| format!("has a document that cannot be fetched: {}", reason(&error)))?;
        let status = response.status();
        if !status.is_success() {
            return Err(format!("has a document that cannot be fetched: the response is HTTP {}", status.as_u16()));
        }
        match endpoint::body(response, MAX_DOCUMENT_BYTES).await {
            Ok(body) => Ok(body.to_vec()),
            Err(EndpointError::TooLarge) => {
                Err(format!("has a document of more than {MAX_DOCUMENT_BYTES} bytes; remove operations from it"))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the URL of the server.
    fn base(&self, document: &OpenApiDocument) -> Result<Url, String> {
        if let Some(server) = &self.server {
            return base_url("server", server);
        }
        let server = document.server()?;
        let DocumentSource::Url(url) = &self.document else {
            return base_url("servers", &server).map_err(|reason| format!("{reason}; set its `server`"));
        };
        let url = check_url("openapi", url)?;
        let joined = url.join(&server).map_err(|error| format!("has invalid `servers`: {error}; set its `server`"))?;
        let base = base_url("servers", joined.as_str())?;
        if base.origin() != url.origin() {
            // Otherwise, the document could choose who receives the headers, and which private addresses are called.
            return Err(
                "has a document with `servers` of another origin than its `openapi` URL; set its `server`".to_owned()
            );
        }
        Ok(base)
    }
}

/// Parses the URL of a server. Paths of operations are appended to it.
fn base_url(key: &str, url: &str) -> Result<Url, String> {
    let url = check_url(key, url)?;
    match url.query().is_some() || url.fragment().is_some() {
        true => Err(format!("has a query or a fragment in its `{key}`; remove it")),
        false => Ok(url),
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let max_bytes = u64::try_from(MAX_DOCUMENT_BYTES).unwrap_or(u64::MAX);
    File::open(path)?.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An API whose document was read.
pub(super) struct Api {
    client: Client,
    /// The server's URL without a slash at the end.
    base: String,
    operations: BTreeMap<String, Operation>,
    /// Parts of the headers' values, as returned by [`secrets`].
    secrets: Vec<String>,
    /// Limits the number of simultaneous requests. Closed with the API.
    permits: Semaphore,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// Reads the document, and converts the operations that the configuration names, or all of them. The error
    /// completes a sentence that begins with the API's name.
    pub(super) async fn start(config: &UpstreamConfig, api: &OpenApiConfig) -> Result<StartedUpstream<Self>, String> {
        let bytes = api.load().await?;
        let (config, api) = (config.clone(), api.clone());
        // The conversion of a large document takes more than a second.
        let converted = tokio::task::spawn_blocking(move || Self::convert(&config, &api, &bytes)).await;
        converted.map_err(|_| "has a document whose conversion failed".to_owned()).flatten()
    }

    fn convert(config: &UpstreamConfig, api: &OpenApiConfig, bytes: &[u8]) -> Result<StartedUpstream<Self>, String> {
        let document = OpenApiDocument::parse(bytes)?;
        let base = api.base(&document)?;
        let endpoint = api.endpoint(base.as_str());
        let preset = endpoint.header_map()?;
        let mut offer = ToolCollector::default();
        for entry in document.operations() {
            let name = operation::name(entry);
            if !config.names(&name) {
                continue;
            }
            if offer.tools.len() + offer.left_out_count == MAX_OPERATIONS {
                return Err(format!(
                    "has more than {MAX_OPERATIONS} operations; list the operations to use in its `tools`"
                ));
            }
            let read = match offer.names.contains(&script_name(&config.name, &name)) {
                true => Err("has the same name in scripts as another operation".to_owned()),
                false => OperationTool::read(&document, entry, &preset),
            };
            match read {
                Ok(tool) => offer.add(&config.name, name, tool)?,
                Err(reason) if config.has_tool(&name) => {
                    return Err(format!("has the operation `{}`, which {reason}", shown(&name)));
                }
                Err(reason) => offer.leave_out(&config.name, &name, &reason),
            }
        }
        if offer.left_out_count > MAX_NOTICES {
            let count = offer.left_out_count - MAX_NOTICES;
            offer.notices.push(format!("API `{}` leaves out {count} more operations", escaped(&config.name)));
        }
        let backend = Self {
            client: endpoint.client()?,
            base: base.as_str().trim_end_matches('/').to_owned(),
            operations: offer.operations,
            secrets: api.headers.values().flat_map(|value| secrets(value)).collect(),
            permits: Semaphore::new(MAX_REQUESTS),
        };
        Ok(StartedUpstream { backend, tools: offer.tools, notices: offer.notices })
    }

    /// Calls an operation. Dropping the future ends the request.
    pub(super) async fn call(&self, name: &str, arguments: &str, max_bytes: usize) -> Result<String, CallError> {
        let failed = |reason: &str| CallError::Server(reason.to_owned());
        let _permit = self.permits.acquire().await.map_err(|_| failed("is closed"))?;
        let operation = self.operations.get(name).ok_or_else(|| failed("does not have the operation"))?;
        let parts = operation.request(&self.base, arguments);
        let parts = parts.map_err(|text| CallError::Tool(ToolError::of(ToolErrorKind::InvalidArguments, text)))?;
        let mut request =
            self.client.request(operation.method.clone(), parts.url).header(ACCEPT, "application/json, */*;q=0.5");
        for (name, value) in parts.headers {
            request = request.header(name, value);
        }
        if let (Some(body), Some(text)) = (&operation.body, parts.body) {
            request = request.header(CONTENT_TYPE, body.media_type.clone()).body(text);
        }
        let response =
            request.send().await.map_err(|error| failed(&format!("cannot be reached: {}", reason(&error))))?;
        let status = response.status();
        if status.is_redirection() {
            let status = status.as_u16();
            return Err(failed(&format!("answered with a redirect (HTTP {status}), which is not followed")));
        }
        if !status.is_success() {
            let excerpt = self.excerpt(response).await;
            return Err(failed(&format!("answered with HTTP {}{excerpt}", status.as_u16())));
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        match endpoint::body(response, max_bytes).await {
            Ok(body) => result(&kind, &body).map_err(CallError::Server),
            Err(EndpointError::TooLarge) => {
                let text = format!(
                    "the result is more than {max_bytes} bytes of JSON; the maximum `limits.tool_bytes` is {max_bytes}; \
                     request less from the tool, or raise the limit"
                );
                Err(CallError::Tool(ToolError::of(ToolErrorKind::Limit, text)))
            }
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Makes all later calls fail.
    pub(super) fn close(&self) {
        self.permits.close();
    }

    /// Quotes the beginning of an unsuccessful response, for the end of an error message.
    async fn excerpt(&self, mut response: Response) -> String {
        let mut bytes = Vec::new();
        while bytes.len() < SEARCHED_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            bytes.extend_from_slice(&chunk);
        }
        let text = String::from_utf8_lossy(&bytes);
        // JSON can escape the slashes of a token as `\/`.
        let with_slashes = text.replace("\\/", "/");
        if self.secrets.iter().any(|secret| text.contains(&**secret) || with_slashes.contains(&**secret)) {
            return "; the body is not shown, because it repeats a configured header".to_owned();
        }
        let short: String = text.chars().take(MAX_EXCERPT_CHARS).collect();
        match short.trim() {
            "" => String::new(),
            short => format!(": {}", escaped_text(short)),
        }
    }
}

/// Returns the parts of a header's value that errors must not contain: its words, and for the scheme `Basic` the
/// decoded credentials and the password alone. Leaves out parts shorter than [`MIN_SECRET_BYTES`].
fn secrets(value: &str) -> Vec<String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let mut secrets: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    if let [scheme, credentials] = *words
        && scheme.eq_ignore_ascii_case("basic")
        && let Ok(decoded) = BASE64_STANDARD_NO_PAD.decode(credentials.trim_end_matches('='))
        && let Ok(decoded) = String::from_utf8(decoded)
    {
        secrets.extend(decoded.split_once(':').map(|(_, password)| password.to_owned()));
        secrets.push(decoded);
    }
    secrets.retain(|secret| secret.len() >= MIN_SECRET_BYTES);
    secrets
}

/// The tools collected while a document is read.
#[derive(Default)]
struct ToolCollector {
    operations: BTreeMap<String, Operation>,
    tools: Vec<Tool>,
    /// The tools' names in scripts.
    names: BTreeSet<String>,
    tools_bytes: usize,
    results_bytes: usize,
    notices: Vec<String>,
    left_out_count: usize,
}

impl ToolCollector {
    fn add(&mut self, api: &str, name: String, tool: OperationTool) -> Result<(), String> {
        let definition = Tool::new(name.clone(), tool.description, tool.input);
        self.tools_bytes += json_len(&definition).unwrap_or(MAX_TOOLS_BYTES);
        if self.tools_bytes > MAX_TOOLS_BYTES {
            return Err(format!(
                "describes its operations in more than {MAX_TOOLS_BYTES} bytes; list the operations to use in its `tools`"
            ));
        }
        let output = tool.output.filter(|output| {
            self.results_bytes += json_len(output).unwrap_or(MAX_TOOLS_BYTES);
            self.results_bytes <= MAX_TOOLS_BYTES
        });
        self.tools.push(match output {
            Some(output) => definition.with_raw_output_schema(output.into()),
            None => definition,
        });
        self.names.insert(script_name(api, &name));
        self.operations.insert(name, tool.operation);
        Ok(())
    }

    fn leave_out(&mut self, api: &str, name: &str, reason: &str) {
        self.left_out_count += 1;
        if self.left_out_count <= MAX_NOTICES {
            let text = format!("API `{}` leaves out the operation `{}`: it {reason}", escaped(api), shown(name));
            self.notices.push(text);
        }
    }
}

/// Returns the name of an operation in scripts.
pub(super) fn script_name(api: &str, operation: &str) -> String {
    let mut name = listing::script_name(api, operation);
    // All characters are ASCII, so every length is a character boundary.
    name.truncate(MAX_NAME_BYTES);
    name
}

/// Returns the body of a successful response as JSON: JSON unchanged, text as a string, and no body as `null`. The
/// error completes a sentence that begins with the API's name.
fn result(kind: &str, body: &[u8]) -> Result<String, String> {
    if body.is_empty() {
        return Ok("null".to_owned());
    }
    let text = std::str::from_utf8(body).map_err(|_| {
        let kind = shown(kind);
        format!("answered with binary data of type `{kind}`; only JSON and text are supported")
    })?;
    if !is_json(kind) {
        return Ok(Value::from(text).to_string());
    }
    JsonCost::of(body).map_err(|_| EndpointError::TooLarge.to_string())?;
    JsonText::new(text).map(String::from).map_err(|_| "answered with invalid JSON".to_owned())
}

/// Returns text of a document or script for an error message, escaped and shortened.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    let rest = if short.len() < text.len() { "…" } else { "" };
    format!("{}{rest}", escaped(&short))
}

/// Returns the text on one line, shortened, without invisible characters.
fn summary(text: &str, max_chars: usize) -> String {
    let mut short = String::new();
    let mut left = max_chars;
    // Bounds the time spent on text that consists only of spaces.
    for c in text.chars().take(max_chars.saturating_mul(8)) {
        let c = if c.is_whitespace() { ' ' } else { c };
        let is_dropped = c == ' ' && (left == 0 || short.is_empty() || short.ends_with(' '));
        if is_dropped || is_hidden(c) {
            continue;
        }
        if left == 0 {
            short.push('…');
            break;
        }
        left -= 1;
        short.push(c);
    }
    short.truncate(short.trim_end().len());
    short
}

#[cfg(test)]
mod tests;
