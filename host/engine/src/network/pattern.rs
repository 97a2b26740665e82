//! Patterns for the URLs that scripts may request, address ranges, and the comparison of network policies.
//!
//! Patterns are matched only against parsed URLs, and the request uses the same parsed URL. Parsing has already
//! resolved user information, backslashes, ports, internationalized names and encoded dots.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use glovebox_core::PolicyError;
use glovebox_vfs::escaped;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::{NetworkPolicy, policy::wrong};

/// Maximum number of times that a path is percent-decoded to find a `..`.
const MAX_DECODINGS: usize = 4;

/// A list of URL patterns, such as `https://tools.example.com/box/*`.
///
/// A `*` at the end of a path matches any suffix, and a pattern without a path matches every path. `*.` before a host
/// matches every name below the host. Scheme and port must match exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlPatterns(Vec<Pattern>);

/// An invalid URL pattern.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{reason}")]
pub struct UrlPatternError {
    reason: String,
}

impl From<UrlPatternError> for PolicyError {
    fn from(error: UrlPatternError) -> Self {
        wrong("allow", error.reason)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    /// The source text of the pattern.
    text: String,
    is_https: bool,
    host: HostPattern,
    port: u16,
    path: PathPattern,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Exactly(Host),
    /// A host suffix with a leading dot.
    Below(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathPattern {
    Exactly(String),
    Begins(String),
}

impl UrlPatterns {
    /// Maximum length of a pattern and of a requested URL, in bytes.
    pub const MAX_URL_BYTES: usize = 8 << 10;

    /// Parses patterns.
    ///
    /// # Errors
    /// Returns the error for the first invalid pattern.
    pub fn new(texts: &[String]) -> Result<Self, UrlPatternError> {
        texts.iter().map(|text| Pattern::new(text)).collect::<Result<_, _>>().map(Self)
    }

    /// Returns `true` if there are no patterns, so that nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if a request to the URL is allowed.
    #[must_use]
    pub fn allow(&self, url: &Url) -> bool {
        self.0.iter().any(|pattern| pattern.matches(url))
    }

    /// Returns `true` if a pattern that allows the URL specifies its host exactly, without `*.`.
    #[must_use]
    pub fn name_host_of(&self, url: &Url) -> bool {
        self.0.iter().any(|pattern| matches!(pattern.host, HostPattern::Exactly(_)) && pattern.matches(url))
    }

    /// Returns the first pattern in `other` that none of these patterns covers, or `None`.
    fn first_uncovered<'o>(&self, other: &'o Self) -> Option<&'o str> {
        let uncovered = other.0.iter().find(|requested| !self.0.iter().any(|granted| granted.covers(requested)));
        uncovered.map(|pattern| pattern.text.as_str())
    }

    /// Describes the patterns for messages: the first few patterns, and the number of remaining ones.
    #[must_use]
    pub fn describe(&self) -> String {
        const SHOWN: usize = 5;
        let mut shown: Vec<String> = self.0.iter().take(SHOWN).map(|pattern| format!("`{}`", pattern.text)).collect();
        if let Some(more) = self.0.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            shown.push(format!("{more} more"));
        }
        shown.join(", ")
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Self, UrlPatternError> {
        let refuse = |reason: &str| Err(UrlPatternError { reason: format!("`{}` {reason}", escaped(text)) });
        if text.len() > UrlPatterns::MAX_URL_BYTES {
            return Err(UrlPatternError {
                reason: format!("a pattern is longer than {} bytes; shorten it", UrlPatterns::MAX_URL_BYTES),
            });
        }
        let Some((scheme @ ("https" | "http"), rest)) = text.split_once("://") else {
            return refuse("begins with neither `https://` nor `http://`");
        };
        if rest.contains(['?', '#', '\\', '@']) || rest.chars().any(|char| char.is_whitespace() || char.is_control()) {
            return refuse(
                "has a query, a fragment, a user, a backslash or a space; a pattern is `SCHEME://HOST[:PORT][/PATH]`",
            );
        }
        let (authority, path) = rest
            .find('/')
            .and_then(|at| rest.split_at_checked(at))
            .map_or((rest, None), |(host, path)| (host, Some(path)));
        let (below, authority) = authority.strip_prefix("*.").map_or((false, authority), |rest| (true, rest));
        if authority.contains('*') {
            return refuse("has a `*` in its host; only a leading `*.` is allowed");
        }
        let is_prefix = path.is_none_or(|path| path.ends_with('*'));
        let path = path.unwrap_or("/").trim_end_matches('*');
        if path.contains('*') {
            return refuse("has a `*` within its path; only a trailing `*` is allowed");
        }
        let Ok(url) = Url::parse(&format!("{scheme}://{authority}{path}")) else {
            return refuse("is not a valid URL");
        };
        let (Some(host), Some(port)) = (url.host().map(|host| host.to_owned()), url.port_or_known_default()) else {
            return refuse("has no host");
        };
        if url.path() != path {
            return refuse(&format!("has a path that is not normalized; use `{}`", url.path()));
        }
        let host = match (below, host) {
            (false, host) => HostPattern::Exactly(host),
            (true, Host::Domain(name)) => HostPattern::Below(format!(".{name}")),
            (true, _) => return refuse("has `*.` before an IP address"),
        };
        let path = if is_prefix { PathPattern::Begins(path.to_owned()) } else { PathPattern::Exactly(path.to_owned()) };
        Ok(Self { text: text.to_owned(), is_https: scheme == "https", host, port, path })
    }

    fn matches(&self, url: &Url) -> bool {
        let is_https = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return false,
        };
        let host = match (&self.host, url.host()) {
            (HostPattern::Exactly(mine), Some(host)) => *mine == host.to_owned(),
            (HostPattern::Below(end), Some(Host::Domain(name))) => is_below(name, end),
            _ => false,
        };
        let path = url.path();
        let fits = match &self.path {
            PathPattern::Exactly(mine) => mine == path,
            PathPattern::Begins(start) => path.starts_with(start.as_str()),
        };
        is_https == self.is_https
            && host
            && url.port_or_known_default() == Some(self.port)
            && fits
            // If every path is allowed, no path can escape the pattern.
            && (self.path == PathPattern::Begins("/".to_owned()) || has_fixed_directory(path))
    }

    /// Returns `true` if this pattern matches every URL that `other` matches.
    fn covers(&self, other: &Self) -> bool {
        let host = match (&self.host, &other.host) {
            (mine, theirs) if mine == theirs => true,
            (HostPattern::Below(end), HostPattern::Exactly(Host::Domain(name))) => is_below(name, end),
            (HostPattern::Below(end), HostPattern::Below(theirs)) => theirs.ends_with(end.as_str()),
            _ => false,
        };
        let path = match (&self.path, &other.path) {
            (PathPattern::Exactly(mine), PathPattern::Exactly(theirs)) => mine == theirs,
            (PathPattern::Begins(mine), PathPattern::Exactly(theirs) | PathPattern::Begins(theirs)) => {
                theirs.starts_with(mine.as_str())
            }
            (PathPattern::Exactly(_), PathPattern::Begins(_)) => false,
        };
        self.is_https == other.is_https && self.port == other.port && host && path
    }
}

/// Returns `true` if the name consists of non-empty labels followed by the suffix `end`, such as `.example.com`.
fn is_below(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|labels| !labels.is_empty() && labels.split('.').all(|label| !label.is_empty()))
}

/// Returns `true` if no server can resolve the path to another directory, even by decoding it repeatedly.
fn has_fixed_directory(path: &str) -> bool {
    let mut path = path.to_owned();
    for _ in 0..MAX_DECODINGS {
        let decoded = percent_decode_str(&path).decode_utf8_lossy().into_owned();
        let leads_out = |part: &str| matches!(part.split(';').next(), Some("." | ".."));
        if decoded.contains(['\\', '\0']) || decoded.split('/').any(leads_out) {
            return false;
        }
        if decoded == path {
            return true;
        }
        path = decoded;
    }
    false
}

/// A network setting that exceeds what another policy allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkExcess {
    /// The key of the setting in the `network` table.
    pub key: &'static str,
    /// The requested value.
    pub requested: String,
    /// The granted value.
    pub granted: String,
}

impl NetworkPolicy {
    /// Returns the first setting of this policy that exceeds `granted`: an address, a range, a method, a secret or a
    /// limit. Returns `None` if no setting exceeds `granted`.
    ///
    /// # Errors
    /// Fails if the patterns or ranges of either policy are invalid.
    pub fn first_excess(&self, granted: &Self) -> Result<Option<NetworkExcess>, PolicyError> {
        let excess = |key, requested: String, granted: String| Ok(Some(NetworkExcess { key, requested, granted }));
        let (mine, theirs) = (UrlPatterns::new(&self.allow)?, UrlPatterns::new(&granted.allow)?);
        if let Some(pattern) = theirs.first_uncovered(&mine) {
            return excess("allow", format!("`{pattern}`"), theirs.describe());
        }
        let (mine, theirs) = (AddressRules::new(&self.allow_private)?, AddressRules::new(&granted.allow_private)?);
        if let Some(range) = theirs.first_uncovered(&mine) {
            return excess("allow_private", format!("`{range}`"), granted.allow_private.join(", "));
        }
        if let Some(method) = self.methods.iter().find(|method| !granted.methods.contains(method)) {
            return excess("methods", format!("`{method}`"), granted.methods.join(", "));
        }
        if let Some((name, _)) = self.secrets.iter().find(|(name, secret)| granted.secrets.get(*name) != Some(*secret))
        {
            let names: Vec<&str> = granted.secrets.keys().map(String::as_str).collect();
            return excess("secrets", format!("`{name}`"), names.join(", "));
        }
        for (key, requested, max) in [
            ("request_count", self.request_count, granted.request_count),
            ("request_bytes", self.request_bytes, granted.request_bytes),
            ("response_bytes", self.response_bytes, granted.response_bytes),
            ("timeout_ms", self.timeout_ms, granted.timeout_ms),
            ("redirects", self.redirects.into(), granted.redirects.into()),
        ] {
            if requested > max {
                return excess(key, requested.to_string(), max.to_string());
            }
        }
        Ok(None)
    }
}

/// Non-public address ranges that requests may reach, from `network.allow_private`.
#[derive(Clone, Debug, Default)]
pub struct AddressRules(Vec<IpNet>);

impl AddressRules {
    /// Parses ranges such as `10.0.0.0/8` or `fd00::/8`, or single addresses.
    ///
    /// # Errors
    /// Returns the error for the first invalid range.
    pub fn new(texts: &[String]) -> Result<Self, PolicyError> {
        let net = |text: &String| {
            let net = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            net.map_err(|_| wrong("allow_private", format!("`{text}` is not an address range such as `10.0.0.0/8`")))
        };
        texts.iter().map(net).collect::<Result<_, _>>().map(Self)
    }

    /// Returns `true` if connections to the address are allowed: it is public, or in one of the ranges.
    #[must_use]
    pub fn allow(&self, address: IpAddr) -> bool {
        is_public(address) || self.0.iter().any(|net| net.contains(&address))
    }

    /// Returns the first range in `other` that is not inside one of these ranges.
    fn first_uncovered(&self, other: &Self) -> Option<String> {
        let uncovered = other.0.iter().find(|requested| !self.0.iter().any(|granted| granted.contains(*requested)));
        uncovered.map(ToString::to_string)
    }
}

/// Returns `true` if an address is public according to IANA's special-purpose registries. IPv6 addresses that embed an
/// IPv4 address are never public, because a remote translator decides which host they reach.
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
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // carrier-grade NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local, including cloud metadata
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 31, 196, 0), 24), // AS112
    (Ipv4Addr::new(192, 52, 193, 0), 24), // AMT
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // 6to4 relays
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 3),     // multicast, reserved, broadcast
];

/// Special-purpose ranges within 2000::/3, the only range for global unicast: first address, prefix length.
const SPECIAL_V6: [(Ipv6Addr, u32); 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocol assignments, including Teredo and ORCHID
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4: embeds an IPv4 address
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48), // AS112
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let within = |(first, bits): &(Ipv4Addr, u32)| (address.to_bits() ^ first.to_bits()) >> (32 - bits) == 0;
    !SPECIAL_V4.iter().any(within)
}

/// Treats all addresses outside 2000::/3 as special: unspecified, loopback, IPv4-mapped, IPv4-compatible, NAT64, unique
/// local, link-local, multicast and unallocated addresses.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let within = |(first, bits): &(Ipv6Addr, u32)| (address.to_bits() ^ first.to_bits()) >> (128 - bits) == 0;
    address.to_bits() >> 125 == 1 && !SPECIAL_V6.iter().any(within)
}
