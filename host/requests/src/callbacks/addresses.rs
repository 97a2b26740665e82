//! Protects private networks from callbacks.

use std::net::SocketAddr;

use glovebox::is_public_address;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves names to public addresses only. The connection uses the addresses checked here, so a name that resolves
/// differently a moment later does no harm.
pub(super) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if found.is_empty() || !found.iter().all(|address| is_public_address(address.ip())) {
                return Err("the host's address is not public".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
