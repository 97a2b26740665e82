//! Names to addresses.
//!
//! The client asks here for each connection that it makes, and connects to what it is given and nothing else: a name that means another
//! address a moment later has been looked at again by then. There is no second look-up that could be told something else.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use glovebox_vfs::escaped;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::AddressRules;

/// What a resolver comes to.
pub(super) type Resolved = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Finds the addresses of a host's name. Which of them a connection may be made to is decided afterwards.
pub(super) trait Resolver: Send + Sync {
    /// The addresses of a name.
    fn resolve(&self, name: &str) -> Resolved;
}

/// What the operating system says.
#[derive(Debug)]
pub(super) struct System;

impl Resolver for System {
    fn resolve(&self, name: &str) -> Resolved {
        let name = name.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Lets through what may be reached.
pub(super) struct Filtered {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) rules: Arc<AddressRules>,
}

impl fmt::Debug for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A name has no address that may be reached.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` has no public address, and `network.allow_private` has none of those that it has", name = escaped(.name))]
pub(super) struct NotPublic {
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
            // Secrets are sent to it in the clear: it is this machine, whatever a resolver says.
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
