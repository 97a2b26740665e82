//! URL checks for scripts' requests, and filtered name resolution.
//!
//! The HTTP client calls the resolver for each new connection and connects only to the addresses that the resolver
//! returns. Each address is therefore checked when it is used, and no second lookup can return an unchecked address.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use glovebox::{AddressRules, UrlPatterns, escaped};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

const MAX_URL_BYTES: usize = UrlPatterns::MAX_URL_BYTES;

/// Parses and checks a script's URL, and removes its fragment.
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    if text.len() > MAX_URL_BYTES {
        return Err(format!("the URL is {} bytes; the limit is {MAX_URL_BYTES}", text.len()));
    }
    let url = Url::parse(text).map_err(|error| format!("the URL is invalid: {error}"))?;
    check(url)
}

/// Checks a parsed URL, for example a redirect target, and removes its fragment.
pub(crate) fn check(mut url: Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "https" | "http") {
        return Err(format!("the URL's scheme is `{}`; use `https` or `http`", clipped(url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the URL contains a user name or password; use the `Authorization` header instead".to_owned());
    }
    if url.as_str().len() > MAX_URL_BYTES {
        return Err(format!("the URL is {} bytes; the limit is {MAX_URL_BYTES}", url.as_str().len()));
    }
    url.set_fragment(None);
    Ok(url)
}

/// Formats scheme, host and port for error messages. The path and the query can contain secrets, so they are left out.
pub(crate) fn origin(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), clipped(url.host_str().unwrap_or_default()))
}

fn clipped(text: &str) -> String {
    text.chars().take(255).collect()
}

/// The future returned by [`Resolver::resolve`].
pub(crate) type Resolved = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Resolves host names. [`Filtered`] checks the results.
pub(crate) trait Resolver: Send + Sync {
    /// Returns all addresses of a host name.
    fn resolve(&self, name: &str) -> Resolved;
}

/// The operating system's resolver.
#[derive(Debug)]
pub(crate) struct System;

impl Resolver for System {
    fn resolve(&self, name: &str) -> Resolved {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver that returns only addresses that the policy allows.
pub(crate) struct Filtered {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) rules: Arc<AddressRules>,
}

impl fmt::Debug for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// The error for a host name that resolves to no allowed address.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` has no public address, and `network.allow_private` includes none of its addresses", name = escaped(.name))]
pub(crate) struct NotPublic {
    name: String,
}

impl Resolve for Filtered {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, rules, name) =
            (self.resolver.resolve(name.as_str()), Arc::clone(&self.rules), name.as_str().to_owned());
        Box::pin(async move {
            let found = found.await?;
            if found.is_empty() {
                return Err(io::Error::other("the name has no address").into());
            }
            // The host sends secrets to `localhost` unencrypted, so `localhost` must be this machine, whatever the
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
