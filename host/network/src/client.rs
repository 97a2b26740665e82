//! The HTTP client that sends scripts' requests and follows redirects, with URL checks, filtered name resolution, and
//! the process-wide TLS configuration.
//!
//! The client calls the resolver for each new connection and connects only to the addresses that the resolver returns.
//! Each address is therefore checked when it is used, which prevents DNS rebinding.

use std::{
    error::Error,
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use glovebox::{AddressRules, CallMemory, NetworkPolicy, PolicyError, ReservedMemory, UrlPatterns, escaped};
use reqwest::{
    Method, Response, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderValue, LOCATION},
    redirect,
};
use url::{Host, Url};

use crate::{
    message::{self, Fault, FaultCode, Headers, MAX_RESPONSE_HEADERS, Redirect, RequestMessage, ResponseMessage},
    secrets::{Reflections, Secrets},
};

/// The timeout for establishing a connection. The request's own timeout also applies.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of copies of a response body that are charged to the call's memory. One is the body itself. Two are for the
/// message to the script, because base64 and JSON escapes enlarge the body.
pub(crate) const COPIES_OF_A_BODY: u64 = 3;

/// Maximum length of an HTTP library's error text in a message to the script, in characters.
const MAX_REASON_CHARS: usize = 300;

/// The HTTP client of a sandbox.
pub(crate) struct Client {
    policy: NetworkPolicy,
    patterns: UrlPatterns,
    rules: Arc<AddressRules>,
    secrets: Secrets,
    resolver: Arc<Resolver>,
    /// Created on first use, because most sandboxes with a network never send a request.
    http: OnceLock<Result<reqwest::Client, String>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("policy", &self.policy).field("secrets", &self.secrets).finish_non_exhaustive()
    }
}

/// A request to one URL in a chain of redirects.
struct Hop {
    url: Url,
    method: Method,
    headers: Headers,
    body: Option<Vec<u8>>,
    redirects: u32,
}

impl Client {
    pub(crate) fn new(policy: &NetworkPolicy, secrets: Secrets) -> Result<Self, PolicyError> {
        Self::with_resolver(policy, secrets, Arc::new(resolve_with_system))
    }

    pub(crate) fn with_resolver(
        policy: &NetworkPolicy,
        secrets: Secrets,
        resolver: Arc<Resolver>,
    ) -> Result<Self, PolicyError> {
        Ok(Self {
            patterns: UrlPatterns::new(&policy.allow)?,
            rules: Arc::new(AddressRules::new(&policy.allow_private)?),
            policy: policy.clone(),
            secrets,
            resolver,
            http: OnceLock::new(),
        })
    }

    /// Returns a request's timeout: the shorter of the script's timeout and the policy's.
    pub(crate) fn timeout(&self, request: &RequestMessage) -> Duration {
        Duration::from_millis(request.timeout_ms.unwrap_or(u64::MAX).min(self.policy.timeout_ms))
    }

    fn http(&self) -> Result<&reqwest::Client, Fault> {
        let make = || {
            let resolver = FilteringResolver { resolver: Arc::clone(&self.resolver), rules: Arc::clone(&self.rules) };
            let client = reqwest::Client::builder()
                .tls_backend_preconfigured(tls_config()?)
                .dns_resolver(Arc::new(resolver))
                // `fetch` checks and follows redirects itself.
                .redirect(redirect::Policy::none())
                // A proxy from the environment would receive the request instead of the allowed server.
                .no_proxy()
                .referer(false)
                .http1_only()
                .http1_max_headers(MAX_RESPONSE_HEADERS)
                .connect_timeout(CONNECT_TIMEOUT)
                // Each request opens its own connection, so every host name is resolved and checked again, and
                // executions share no connection state.
                .pool_max_idle_per_host(0)
                .user_agent(concat!("glovebox/", env!("CARGO_PKG_VERSION")));
            client.build().map_err(|error| format!("cannot set up the network: {}", reason(&error)))
        };
        let made = self.http.get_or_init(make);
        made.as_ref().map_err(|message| Fault::new(FaultCode::Broken, message.clone()))
    }

    /// Sends a request, follows its redirects, and reads the final response. Also returns the memory reserved for the
    /// response.
    pub(crate) async fn fetch(
        &self,
        mut request: RequestMessage,
        memory: &CallMemory,
    ) -> Result<(ResponseMessage, Vec<ReservedMemory>), Fault> {
        let invalid = |message| Fault::new(FaultCode::Invalid, message);
        let body = request.take_body(self.policy.request_bytes)?;
        let url = parse(&request.url).map_err(invalid)?;
        let method = self.method(&request.method)?;
        let headers = message::request(request.headers).map_err(invalid)?;
        let mut hop = Hop { url, method, headers, body, redirects: 0 };
        let mut reflections = Reflections::default();
        loop {
            let response = self.send(&hop, &mut reflections).await?;
            let location = response.headers().get(LOCATION).filter(|_| request.redirect == Redirect::Follow);
            let Some(location) = location.filter(|_| is_redirect(response.status())) else {
                return self.answer(hop, response, reflections, memory).await;
            };
            hop = self.next(hop, response.status(), location)?;
        }
    }

    fn method(&self, text: &str) -> Result<Method, Fault> {
        let name = text.to_ascii_uppercase();
        if !self.policy.methods.contains(&name) {
            let shown: String = name.chars().take(32).collect();
            let message = format!(
                "the method `{shown}` is not allowed; `network.methods` allows {}",
                self.policy.methods.join(", ")
            );
            return Err(Fault::new(FaultCode::Refused, message));
        }
        Method::from_bytes(name.as_bytes())
            .map_err(|_| Fault::new(FaultCode::Invalid, format!("the method `{name}` is not a valid HTTP method")))
    }

    /// Checks a URL against the policy. The resolver additionally checks the addresses of a host name; an IP address in
    /// the URL is checked only here.
    fn check(&self, url: &Url) -> Result<(), Fault> {
        let refuse = |message| Err(Fault::new(FaultCode::Refused, message));
        if !self.patterns.allow(url) {
            let list = self.patterns.describe();
            return refuse(format!(
                "requests to `{}` are not allowed at this path; `network.allow` contains {list}",
                origin(url)
            ));
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            _ => return Ok(()),
        };
        if self.rules.allow(address) {
            return Ok(());
        }
        refuse(format!("`{address}` is not a public address, and `network.allow_private` does not include it"))
    }

    async fn send(&self, hop: &Hop, reflections: &mut Reflections) -> Result<Response, Fault> {
        self.check(&hop.url)?;
        let mut request = reqwest::Request::new(hop.method.clone(), hop.url.clone());
        for (name, value) in &hop.headers {
            let filled = self.secrets.fill(&hop.url, value, reflections);
            let filled = filled.map_err(|message| Fault::new(FaultCode::Refused, message))?;
            let value = HeaderValue::from_str(&filled);
            let mut value = value.map_err(|_| {
                Fault::new(
                    FaultCode::Invalid,
                    format!("the value of the header `{name}` contains an invalid character"),
                )
            })?;
            value.set_sensitive(true);
            request.headers_mut().append(name.clone(), value);
        }
        *request.body_mut() = hop.body.clone().map(Into::into);
        let response = self.http()?.execute(request).await.map_err(|error| unreachable(&hop.url, &error))?;
        // The resolver or `check` has already accepted the address. A mismatch here is a bug in the HTTP library.
        match response.remote_addr() {
            Some(address) if !self.rules.allow(address.ip()) => {
                Err(Fault::new(FaultCode::Refused, format!("`{}` is not a public address", address.ip())))
            }
            _ => Ok(response),
        }
    }

    /// Builds the request to a redirect target. Method, body and headers change as in browsers.
    fn next(&self, hop: Hop, status: StatusCode, location: &HeaderValue) -> Result<Hop, Fault> {
        let Hop { url: from, mut method, mut headers, mut body, redirects } = hop;
        let fault = |message| Fault::new(FaultCode::Redirects, message);
        if redirects >= self.policy.redirects {
            return Err(fault(format!(
                "the request was redirected too often: the maximum `network.redirects` is {}",
                self.policy.redirects
            )));
        }
        let text = location.to_str().map_err(|_| fault("a redirect has an invalid URL".to_owned()))?;
        let url = from.join(text).map_err(|error| fault(format!("a redirect has an invalid URL: {error}")))?;
        let url = check(url).map_err(|message| fault(format!("cannot follow a redirect: {message}")))?;
        let becomes_get = match status {
            StatusCode::SEE_OTHER => method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => method == Method::POST,
            _ => false,
        };
        if becomes_get {
            (method, body) = (self.method("GET")?, None);
            message::without_body(&mut headers);
        }
        if url.origin() != from.origin() {
            message::without_credentials(&mut headers, |value| self.secrets.are_in(value));
        }
        Ok(Hop { url, method, headers, body, redirects: redirects + 1 })
    }

    /// Reads the response within the policy's limits and hides reflected secrets.
    async fn answer(
        &self,
        hop: Hop,
        mut response: Response,
        mut reflections: Reflections,
        memory: &CallMemory,
    ) -> Result<(ResponseMessage, Vec<ReservedMemory>), Fault> {
        self.secrets.reflect(&hop.url, &mut reflections);
        let max_bytes = self.policy.response_bytes;
        let limit = |message| Fault::new(FaultCode::Limit, message);
        let status = response.status();
        let headers = message::response(response.headers()).map_err(limit)?;
        let mut body: Vec<u8> = Vec::new();
        let mut held: Vec<ReservedMemory> = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| broken(&hop.url, &error))? {
            if (body.len() + chunk.len()) as u64 > max_bytes {
                return Err(limit(format!("the response body exceeds {max_bytes} bytes (`network.response_bytes`)")));
            }
            held.push(memory.hold(chunk.len() as u64 * COPIES_OF_A_BODY)?);
            body.extend_from_slice(&chunk);
        }
        let url = reflections.hide_text(hop.url.to_string());
        let mut answered = ResponseMessage::new(url, status.as_u16(), status.canonical_reason().unwrap_or_default());
        answered.headers = headers.into_iter().map(|(name, value)| (name, reflections.hide_text(value))).collect();
        answered.redirects = hop.redirects;
        let read = body.len();
        let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let body = reflections.hide(body, max).ok_or_else(|| {
            limit(format!(
                "the response body exceeds {max_bytes} bytes (`network.response_bytes`) after placeholders replaced the \
                 secrets in it"
            ))
        })?;
        let grown = body.len().saturating_sub(read) as u64;
        held.push(memory.hold(grown * COPIES_OF_A_BODY)?);
        Ok((answered.with_body(body), held))
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    )
}

fn unreachable(url: &Url, error: &reqwest::Error) -> Fault {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(refusal) = inner.downcast_ref::<NotPublic>() {
            return Fault::new(FaultCode::Refused, refusal.to_string());
        }
        cause = inner.source();
    }
    if error.is_connect() {
        let message = format!("cannot connect to `{}`: {}", origin(url), reason(error));
        return Fault::new(FaultCode::Unreachable, message);
    }
    broken(url, error)
}

fn broken(url: &Url, error: &reqwest::Error) -> Fault {
    Fault::new(FaultCode::Broken, format!("`{}` sent an invalid response: {}", origin(url), reason(error)))
}

/// Returns the error text of the innermost cause. The outer errors repeat the URL.
fn reason(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    let text = if error.source().is_none() { "cannot create the request".to_owned() } else { innermost.to_string() };
    text.chars().take(MAX_REASON_CHARS).collect()
}

/// Returns the TLS client configuration of this process. The configuration trusts the machine's certificate store,
/// which is read once, on the first call.
///
/// # Errors
/// Fails with a message if TLS cannot be set up. Later calls return the same error.
pub fn tls_config() -> Result<rustls::ClientConfig, String> {
    static CONFIG: OnceLock<Result<rustls::ClientConfig, String>> = OnceLock::new();
    let make = || {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in rustls_native_certs::load_native_certs().certs {
            // A certificate that cannot be parsed is not trusted.
            let _ = roots.add(certificate);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        config
            .map(|config| config.with_root_certificates(roots).with_no_client_auth())
            .map_err(|error| format!("cannot set up TLS: {error}"))
    };
    CONFIG.get_or_init(make).clone()
}

const MAX_URL_BYTES: usize = UrlPatterns::MAX_URL_BYTES;

/// Parses and checks a script's URL, and removes its fragment.
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    check_length(text)?;
    let url = Url::parse(text).map_err(|error| format!("the URL is invalid: {error}"))?;
    check(url)
}

fn check_length(url: &str) -> Result<(), String> {
    let bytes = url.len();
    if bytes > MAX_URL_BYTES {
        return Err(format!("the URL is {bytes} bytes; the maximum is {MAX_URL_BYTES}; shorten it"));
    }
    Ok(())
}

/// Checks a parsed URL, for example a redirect target, and removes its fragment.
fn check(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "https" | "http") {
        return Err(format!("the URL's scheme is `{}`; use `https` or `http`", clipped(url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL contains a user name or password; use the `Authorization` header instead".to_owned());
    }
    check_length(url.as_str())?;
    url.set_fragment(None);
    Ok(url)
}

/// Formats scheme, host and port for error messages. The path and the query can contain secrets, so they are left out.
fn origin(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), clipped(url.host_str().unwrap_or_default()))
}

fn clipped(text: &str) -> String {
    text.chars().take(255).collect()
}

/// The future returned by a [`Resolver`].
pub(crate) type ResolveFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// A function that returns all addresses of a host name. [`FilteringResolver`] checks the addresses.
pub(crate) type Resolver = dyn Fn(&str) -> ResolveFuture + Send + Sync;

/// Resolves a host name with the operating system's resolver.
fn resolve_with_system(name: &str) -> ResolveFuture {
    let name = name.to_owned();
    Box::pin(async move {
        let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    })
}

/// A resolver that returns only addresses that the policy allows.
struct FilteringResolver {
    resolver: Arc<Resolver>,
    rules: Arc<AddressRules>,
}

/// The error for a host name that resolves to no allowed address.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` has no public address, and `network.allow_private` includes none of its addresses", name = escaped(.name))]
struct NotPublic {
    name: String,
}

impl Resolve for FilteringResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, rules, name) = ((self.resolver)(name.as_str()), Arc::clone(&self.rules), name.as_str().to_owned());
        Box::pin(async move {
            let found = found.await?;
            if found.is_empty() {
                return Err(io::Error::other("the name has no address").into());
            }
            // Secrets may be sent to `localhost` unencrypted, so only its loopback addresses are allowed, whatever the
            // resolver returns.
            let is_meant = |address: &IpAddr| name != "localhost" || address.is_loopback();
            let allowed = |address: &IpAddr| rules.allow(*address) && is_meant(address);
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(allowed).map(|address| SocketAddr::new(address, 0)).collect();
            if allowed.is_empty() {
                return Err(NotPublic { name }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
