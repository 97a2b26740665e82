//! Name lookup.
//!
//! The client calls the resolver for each connection, and connects only to the returned addresses. A name that changes
//! its address later is therefore checked again, and there is no second lookup with a different answer.

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

/// The future of a lookup.
pub(super) type Resolved = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks up the addresses of a host name. The addresses are filtered afterwards.
pub(super) trait Resolver: Send + Sync {
    /// Returns all addresses of a name.
    fn resolve(&self, name: &str) -> Resolved;
}

/// The operating system's resolver.
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

/// A resolver that returns only allowed addresses.
pub(super) struct Filtered {
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) rules: Arc<AddressRules>,
}

impl fmt::Debug for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// A name without allowed addresses.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` has no public address, and `network.allow_private` includes none of its addresses", name = escaped(.name))]
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
            // Secrets are sent to `localhost` unencrypted, so it must be this machine, whatever the resolver returns.
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
