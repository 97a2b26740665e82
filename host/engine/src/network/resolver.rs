//! Name lookup, and the IP addresses that requests must not reach.
//!
//! The client calls the resolver for each connection, and connects only to the returned addresses. A name that changes
//! its address later is therefore checked again, and there is no second lookup with a different answer.
//! Addresses are checked after name resolution, separately for each address that a connection may use.

use std::{
    fmt,
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
};

use glovebox_core::PolicyError;
use glovebox_vfs::escaped;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::wrong;

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

/// Non-public address ranges that requests may reach, from `network.allow_private`.
#[derive(Clone, Debug, Default)]
pub(super) struct AddressRules(Vec<IpNet>);

impl AddressRules {
    /// Parses ranges such as `10.0.0.0/8` or `fd00::/8`, or single addresses.
    pub(super) fn of(texts: &[String]) -> Result<Self, PolicyError> {
        let net = |text: &String| {
            let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            net.map_err(|_| wrong("allow_private", format!("`{text}` is not an address range such as `10.0.0.0/8`")))
        };
        texts.iter().map(net).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether a connection to the address is allowed.
    pub(super) fn allow(&self, address: IpAddr) -> bool {
        is_public(address) || self.0.iter().any(|net| net.contains(&address))
    }

    /// Returns the first of `other`'s ranges that is not inside one of these ranges.
    pub(super) fn first_beyond(&self, other: &Self) -> Option<String> {
        let beyond = other.0.iter().find(|asked| !self.0.iter().any(|granted| granted.contains(*asked)));
        beyond.map(ToString::to_string)
    }
}

/// Returns whether an address is public according to IANA's special-purpose registries. IPv6 forms that embed an IPv4
/// address are never public, whatever that address is: their translation elsewhere decides where they lead.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Special-purpose ranges of RFC 6890 and its successors: first address, prefix length.
const SPECIAL_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // shared by carriers
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local; the metadata of clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocols
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 3),     // multicast, reserved, broadcast
];

/// Special-purpose ranges within 2000::/3, the only allocated range: first address, prefix length.
const SPECIAL_V6: [(Ipv6Addr, u32); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocols, Teredo and ORCHID among them
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: stands for an IPv4 address
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let within = |(first, bits): &(Ipv4Addr, u32)| (address.to_bits() ^ first.to_bits()) >> (32 - bits) == 0;
    !SPECIAL_V4.iter().any(within)
}

/// All addresses outside 2000::/3 are special: unspecified, loopback, IPv4-mapped and IPv4-compatible, NAT64, unique
/// local, link-local, multicast and unallocated ones.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(first, bits): &(Ipv6Addr, u32)| (address.to_bits() ^ first.to_bits()) >> (128 - bits) == 0;
    address.to_bits() >> 125 == 1 && !SPECIAL_V6.iter().any(within)
}
