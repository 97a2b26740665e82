//! Callbacks: tools that an external service answers over HTTP.
//!
//! URL patterns define the allowed callback URLs. A host that no pattern names literally must resolve to public
//! addresses only. Each call is signed, so that the service can verify the sender.

use std::{
    error::Error as _,
    fmt, io,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use glovebox::{
    CallMemory, CallMemoryError, CancelToken, Timestamp, Tool, ToolError, ToolErrorKind, UrlPatterns, escaped,
    is_public_address,
};
use glovebox_sessions::SessionId;
use reqwest::{
    Client, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio::runtime::Handle;

use crate::{cancelled, signer::Signer};

/// Maximum size of an answer in bytes. The script's limit, `limits.tool_bytes`, also applies.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Maximum length of a service's error message that a script receives, in characters.
const MAX_ERROR_CHARS: usize = 1_000;
/// The timeout for connecting to the service.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The configuration of callbacks. Start from `default()`, which allows no URL, and change fields.
#[derive(Clone, Debug, Default)]
pub struct CallbacksConfig {
    /// Patterns of the allowed callback URLs. Default: none.
    pub allowed: UrlPatterns,
    /// Signing secret: `whsec_` followed by 24 to 64 bytes in base64, as in Standard Webhooks. Default: empty, which
    /// [`Callbacks::new`] rejects.
    pub secret: String,
}

/// An invalid [`CallbacksConfig`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallbacksError {
    /// The secret is invalid.
    #[error("invalid callback secret; use `whsec_` followed by 24 to 64 bytes in base64")]
    Secret,
    /// The HTTP client could not be created.
    #[error("cannot create the HTTP client for callbacks")]
    Client(#[source] reqwest::Error),
}

/// The error for a tool's callback URL that is not allowed.
#[derive(Debug, thiserror::Error)]
#[error("`callback` of the tool `{tool}`: `{url}` {reason}", tool = escaped(.tool), url = escaped(.url))]
pub struct CallbackRefused {
    tool: String,
    url: String,
    reason: &'static str,
}

/// A checked callback URL, created by [`Callbacks::target`].
#[derive(Clone, Debug)]
pub struct CallbackTarget(AllowedUrl);

/// A tool call to be answered by a service.
#[derive(Clone, Copy, Debug)]
pub struct CallbackRequest<'a> {
    /// The unique key of the call, sent as `idempotency-key` and `webhook-id`. A service that receives a key again has
    /// received the same call again.
    pub key: &'a str,
    /// The tool's name.
    pub tool: &'a str,
    /// The arguments, as the text of a JSON object.
    pub arguments: &'a str,
    /// The call's index in the execution, starting at 0.
    pub call: u64,
    /// ID of the script's session. `None` outside a session.
    pub session: Option<&'a str>,
    /// The time at which the call fails with a timeout.
    pub deadline: Instant,
    /// Cancels the call.
    pub cancel: &'a CancelToken,
    /// Memory account for the answer, charged while the answer is read. With `None`, only the limit of 4 MiB applies.
    pub memory: Option<&'a CallMemory>,
}

/// A tool whose calls are answered by a service.
#[derive(Clone, Debug)]
pub struct Callback {
    /// The name under which scripts call the tool.
    pub name: String,
    /// The description that `help(tools.name)` shows.
    pub description: String,
    /// JSON Schema of the arguments. Default: any object.
    pub schema: Option<Value>,
    /// The service's URL.
    pub url: String,
}

/// A client for callbacks. Clones share the HTTP clients and the secret.
#[derive(Clone, Debug)]
pub struct Callbacks(Arc<CallbackClients>);

#[derive(Debug)]
struct CallbackClients {
    allowed: UrlPatterns,
    signer: Signer,
    /// The client for hosts that match only a wildcard. This client connects only to public addresses.
    public: Client,
    /// The client for hosts that a pattern names literally. This client connects to any address.
    named: Client,
}

/// The body of a request to a service.
#[derive(Serialize)]
struct CallBody<'a> {
    tool: &'a str,
    arguments: &'a RawValue,
    /// The call's index in the execution, starting at 0.
    call: u64,
    session: Option<&'a str>,
}

/// The body with which a service reports a tool's failure.
#[derive(Deserialize)]
struct FailureAnswer {
    error: ToolError,
}

impl Callbacks {
    /// Creates the HTTP clients and parses the secret.
    ///
    /// # Errors
    /// Fails if the secret is invalid or an HTTP client cannot be created.
    pub fn new(config: &CallbacksConfig) -> Result<Self, CallbacksError> {
        let signer = Signer::new(&config.secret).ok_or(CallbacksError::Secret)?;
        // Ignore the error: it means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = || {
            // A redirect or a proxy from the environment could send the call to an address that no pattern allows.
            Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .connect_timeout(CONNECT_TIME)
                .user_agent(concat!("glovebox/", env!("CARGO_PKG_VERSION")))
        };
        let public = builder().dns_resolver(Arc::new(PublicResolver)).build().map_err(CallbacksError::Client)?;
        let named = builder().build().map_err(CallbacksError::Client)?;
        Ok(Self(Arc::new(CallbackClients { allowed: config.allowed.clone(), signer, public, named })))
    }

    /// Checks the callback URL of a tool.
    ///
    /// # Errors
    /// Fails if the URL is invalid or longer than 2,048 bytes, has credentials or a fragment, or is not allowed by a
    /// pattern. Also fails if its host is a private IP address that no pattern names.
    pub fn target(&self, tool: &str, url: &str) -> Result<CallbackTarget, CallbackRefused> {
        let refused = |reason| CallbackRefused { tool: tool.to_owned(), url: url.to_owned(), reason };
        let target = AllowedUrl::find(&self.0.allowed, url).ok_or_else(|| {
            refused(
                "is not an allowed address; add it to `[tools] callbacks` in the server's configuration, or pass \
                 `--callback` to the fleet's nodes",
            )
        })?;
        if !target.is_named && is_private_literal(&target.url) {
            return Err(refused("is not a public address"));
        }
        Ok(CallbackTarget(target))
    }

    /// Creates a tool whose calls go to the service. Must be called within a Tokio runtime.
    ///
    /// # Errors
    /// Fails if the URL is not allowed, like [`Self::target`].
    pub fn tool(&self, callback: Callback) -> Result<Tool, CallbackRefused> {
        let Callback { name, description, schema, url } = callback;
        let target = self.target(&name, &url)?;
        // The keys of each tool instance start with a random ID, so that calls of different instances never have the
        // same key.
        let (callbacks, handle, run) = (self.clone(), Handle::current(), SessionId::random());
        let mut tool = Tool::new(name, description).untrusted_schema();
        if let Some(schema) = schema {
            tool = tool.schema(schema);
        }
        Ok(tool.text_handler(move |call, arguments| {
            let request = CallbackRequest {
                key: &format!("{run}-{}", call.index),
                tool: &call.name,
                arguments: &arguments,
                call: u64::try_from(call.index).unwrap_or(u64::MAX),
                session: call.session_id.as_deref(),
                deadline: call.deadline,
                cancel: &call.cancel,
                memory: Some(&call.memory),
            };
            handle.block_on(callbacks.ask(&target, request))
        }))
    }

    /// Calls the service and returns the text of its answer, which should be the tool's JSON result.
    ///
    /// # Errors
    /// Fails if the arguments are not JSON, the call is cancelled, or the service cannot be reached. Also fails if the
    /// service answers with a status other than 200, with more than 4 MiB, or not in UTF-8. The kind of the error is
    /// [`ToolErrorKind::Timeout`] after the deadline, and [`ToolErrorKind::Limit`] if the answer does not fit into
    /// memory.
    pub async fn ask(&self, target: &CallbackTarget, request: CallbackRequest<'_>) -> Result<String, ToolError> {
        self.0.ask(&target.0, request).await
    }
}

/// Returns `true` if the URL's host is an IP address outside the public network.
fn is_private_literal(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.parse().is_ok_and(|address| !is_public_address(address))
}

impl CallbackClients {
    async fn ask(&self, target: &AllowedUrl, request: CallbackRequest<'_>) -> Result<String, ToolError> {
        let CallbackRequest { key: id, tool, arguments, call, session, deadline, cancel, memory } = request;
        let failed = |reason: &str| ToolError::new(format!("the callback of `{tool}` {reason}"));
        let too_late = || {
            let message = format!("the callback of `{tool}` did not respond within `limits.tool_timeout_ms`");
            ToolError::of(ToolErrorKind::Timeout, message)
        };
        let no_room = |error: CallMemoryError| {
            ToolError::of(ToolErrorKind::Limit, format!("the answer from the callback of `{tool}` {error}"))
        };
        let arguments: &RawValue =
            serde_json::from_str(arguments).map_err(|_| failed("cannot be called: the arguments are not JSON"))?;
        let question = CallBody { tool, arguments, call, session };
        let body = serde_json::to_vec(&question).map_err(|_| failed("cannot be called: the arguments are not JSON"))?;
        let timestamp_s = Timestamp::now().unix_ms() / 1_000;
        let client = if target.is_named { &self.named } else { &self.public };
        let request = client
            .post(target.url.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("idempotency-key", id)
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp_s.to_string())
            .header("webhook-signature", self.signer.sign(id, timestamp_s, &body))
            .body(body);
        let answer = async {
            let mut response = request.send().await.map_err(|error| failed(no_response(&error)))?;
            let status = response.status();
            let (mut bytes, mut held) = (Vec::new(), Vec::new());
            while let Some(piece) = response.chunk().await.map_err(|_| failed("ended its response early"))? {
                if bytes.len() + piece.len() > MAX_ANSWER_BYTES {
                    return Err(failed(&format!("answered with more than {MAX_ANSWER_BYTES} bytes")));
                }
                if let Some(memory) = memory {
                    held.push(memory.hold(piece.len() as u64).map_err(no_room)?);
                }
                bytes.extend_from_slice(&piece);
            }
            Ok((status, bytes, held))
        };
        let time = deadline.saturating_duration_since(Instant::now());
        let (status, bytes, _held) = tokio::select! {
            answer = tokio::time::timeout(time, answer) => answer.map_err(|_| too_late())??,
            () = cancelled(cancel) => return Err(failed("was cancelled")),
        };
        if status != StatusCode::OK {
            let failure_answer: Option<FailureAnswer> = serde_json::from_slice(&bytes).ok();
            return Err(match failure_answer.filter(|_| !status.is_redirection()) {
                Some(FailureAnswer { error }) => {
                    ToolError::of(error.kind(), error.message().chars().take(MAX_ERROR_CHARS).collect::<String>())
                }
                None => failed(&format!("answered with status {}", status.as_u16())),
            });
        }
        String::from_utf8(bytes).map_err(|_| failed("sent an answer that is not UTF-8"))
    }
}

/// Describes why a service sent no response. The text is for the script, so it contains no address and no text from
/// the service or its certificate.
fn no_response(error: &reqwest::Error) -> &'static str {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if inner.is::<NotPublic>() {
            return "cannot be called: the address of its host is not public";
        }
        if let Some(failure) = inner.downcast_ref::<io::Error>() {
            if failure.kind() == io::ErrorKind::ConnectionRefused {
                return "cannot be called: its host refused the connection";
            }
            if is_tls_failure(failure) {
                return "cannot be called: the TLS handshake with its host failed";
            }
        }
        cause = inner.source();
    }
    if error.is_dns() {
        "cannot be called: the name of its host cannot be resolved"
    } else if error.is_connect() && error.is_timeout() {
        "cannot be called: the connection to its host timed out"
    } else if error.is_connect() {
        "cannot be called: the connection to its host failed"
    } else {
        "did not send a valid HTTP response"
    }
}

/// Returns `true` if the error wraps an error of rustls. Does not use `source`, which skips the wrapped error of an
/// I/O error.
fn is_tls_failure(failure: &io::Error) -> bool {
    failure.get_ref().is_some_and(|wrapped| {
        wrapped.is::<rustls::Error>() || wrapped.downcast_ref::<io::Error>().is_some_and(is_tls_failure)
    })
}

/// Maximum length of a callback URL in bytes.
const MAX_URL_BYTES: usize = 2_048;

/// A callback URL that a pattern allows.
#[derive(Clone, PartialEq, Eq)]
struct AllowedUrl {
    url: Url,
    /// `true` if a pattern names the host literally. Such a host may have any address, even a private one.
    is_named: bool,
}

impl fmt::Debug for AllowedUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllowedUrl").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl AllowedUrl {
    /// Parses a URL. Returns `None` if the URL is invalid or too long, or if no pattern matches.
    fn find(patterns: &UrlPatterns, address: &str) -> Option<Self> {
        let url = (address.len() <= MAX_URL_BYTES).then(|| Url::parse(address).ok()).flatten()?;
        // A service's URL contains neither credentials nor a fragment.
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return None;
        }
        patterns.allow(&url).then(|| Self { is_named: patterns.name_host_of(&url), url })
    }
}

/// A resolver that accepts only host names whose addresses are all public. The connection uses exactly these addresses,
/// which prevents DNS rebinding.
struct PublicResolver;

/// The error for a host that has a non-public address or no address.
#[derive(Debug, thiserror::Error)]
#[error("the host's address is not public")]
struct NotPublic;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if found.is_empty() || !found.iter().all(|address| is_public_address(address.ip())) {
                return Err(NotPublic.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::{Shutdown, TcpListener},
        thread,
    };

    use super::*;

    /// Returns the address of a server that answers one connection with a line that is not HTTP.
    fn start_without_http() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut connection = listener.accept().unwrap().0;
            assert!(connection.read(&mut [0; 4_096]).unwrap() > 0);
            connection.write_all(b"220 mail.example.com\r\n").unwrap();
            // Closing the socket with unread input would reset the connection, and the client could lose the answer.
            connection.shutdown(Shutdown::Write).unwrap();
            let _ = io::copy(&mut connection, &mut io::sink());
        });
        address
    }

    #[tokio::test]
    async fn missing_responses_have_distinct_errors() {
        let (first, second) = (start_without_http(), start_without_http());
        // Choose the unused address last, so that no server receives its port.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let cases = [
            (format!("http://{closed}/"), "cannot be called: its host refused the connection"),
            (format!("https://{first}/"), "cannot be called: the TLS handshake with its host failed"),
            (format!("http://{second}/"), "did not send a valid HTTP response"),
        ];
        let allowed = UrlPatterns::new(&cases.clone().map(|(url, _)| url)).unwrap();
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned();
        let callbacks = Callbacks::new(&CallbacksConfig { allowed, secret }).unwrap();
        for (url, expected) in cases {
            let (cancel, deadline) = (&CancelToken::new(), Instant::now() + Duration::from_secs(60));
            let (key, tool, arguments) = ("key", "add", "{}");
            let request =
                CallbackRequest { key, tool, arguments, call: 0, session: None, deadline, cancel, memory: None };
            let target = callbacks.target("add", &url).unwrap();
            let error = callbacks.ask(&target, request).await.unwrap_err();
            assert_eq!(error.to_string(), format!("the callback of `add` {expected}"), "{url}");
        }
    }

    #[test]
    fn callback_address_must_match_a_pattern() {
        let patterns = ["https://tools.example.com/box/*", "http://127.0.0.1:9000/one", "https://*.example.org/*"];
        let patterns = UrlPatterns::new(&patterns.map(str::to_owned)).unwrap();
        for (address, expected) in [
            ("https://tools.example.com/box/", Some(true)),
            ("https://TOOLS.example.com:443/box/a?b=c", Some(true)),
            ("http://127.0.0.1:9000/one", Some(true)),
            ("https://a.b.example.org/", Some(false)),
            ("https://tools.example.com/box", None),
            ("https://tools.example.com/box/../other", None),
            ("https://tools.example.com/box/%2e%2e/other", None),
            ("https://tools.example.com:444/box/", None),
            ("http://tools.example.com/box/", None),
            ("https://tools.example.com.evil.example/box/", None),
            ("https://tools.example.com@evil.example/box/", None),
            ("https://user:secret@tools.example.com/box/", None),
            ("https://tools.example.com/box/#a", None),
            ("https://evilexample.org/", None),
            ("http://127.0.0.1:9000/one/two", None),
            ("http://2130706433:9000/one", Some(true)),
            ("file:///etc/passwd", None),
            ("nothing", None),
        ] {
            assert_eq!(AllowedUrl::find(&patterns, address).map(|found| found.is_named), expected, "{address}");
        }
        let long = format!("https://tools.example.com/box/{}", "a".repeat(MAX_URL_BYTES));
        assert_eq!(AllowedUrl::find(&patterns, &long), None);
        assert!(AllowedUrl::find(&patterns, long.get(..MAX_URL_BYTES).unwrap()).is_some());
    }
}
