//! The addresses that may be called back.

use std::fmt;

use glovebox::escaped;
use reqwest::Url;

/// The longest address.
const MAX_URL_BYTES: usize = 2_048;

/// Patterns of addresses, such as `https://tools.example.com/glovebox/*`. A `*` at the end of a path is any rest of it, and `*.` in front of a host any
/// name below it. Scheme and port are always the pattern's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedUrls(Vec<Pattern>);

/// A pattern cannot be one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{pattern}` cannot be a pattern of addresses: {reason}", pattern = escaped(.pattern))]
pub struct UrlPatternError {
    pattern: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern {
    scheme: String,
    host: Host,
    port: Option<u16>,
    path: String,
    /// Whether any rest of the path is taken.
    is_open: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// This one.
    Named(String),
    /// Every one that ends so, with its dot.
    Below(String),
}

/// An address that may be called.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) url: Url,
    /// Whether a pattern names the host itself: then its address may be any, a private one too.
    pub(super) is_named: bool,
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl AllowedUrls {
    /// Reads patterns.
    ///
    /// # Errors
    /// The first that cannot be one.
    pub fn new(patterns: &[String]) -> Result<Self, UrlPatternError> {
        patterns.iter().map(|pattern| Pattern::new(pattern)).collect::<Result<_, _>>().map(Self)
    }

    /// Whether nothing is allowed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The address, if one of the patterns has it.
    pub(super) fn find(&self, address: &str) -> Option<Allowed> {
        let url = (address.len() <= MAX_URL_BYTES).then(|| Url::parse(address).ok()).flatten()?;
        // What names a user or a place in a page is no address of a service.
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return None;
        }
        let fitting = || self.0.iter().filter(|pattern| pattern.fits(&url));
        let is_named = fitting().any(|pattern| matches!(pattern.host, Host::Named(_)));
        fitting().next().is_some().then_some(Allowed { is_named, url })
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Self, UrlPatternError> {
        let wrong = |reason| UrlPatternError { pattern: text.to_owned(), reason };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it begins with `https://`, or `http://`"))?;
        if !matches!(scheme, "https" | "http") {
            return Err(wrong("it begins with `https://`, or `http://`"));
        }
        let (authority, path) = rest.split_once('/').ok_or_else(|| wrong("it has a path; `/*` is every path"))?;
        let (is_below, authority) = match authority.strip_prefix("*.") {
            Some(authority) => (true, authority),
            None => (false, authority),
        };
        let (path, is_open) = match path.strip_suffix('*') {
            Some(path) => (path, true),
            None => (path, false),
        };
        if authority.contains('*') || path.contains('*') {
            return Err(wrong("a `*` stands at the end of the path, or as `*.` in front of the host"));
        }
        // Read as an address is, so that both are written the same.
        let url = Url::parse(&format!("{scheme}://{authority}/{path}")).map_err(|_| wrong("it is no address"))?;
        let is_plain = url.username().is_empty() && url.password().is_none() && url.query().is_none();
        let host = url.host_str().filter(|_| is_plain && url.fragment().is_none());
        let host = host.ok_or_else(|| wrong("it has a scheme, a host, a path, and nothing else"))?;
        if is_below && !url.domain().is_some_and(|domain| domain.contains('.')) {
            return Err(wrong("after `*.` comes a name with a dot in it"));
        }
        let host = if is_below { Host::Below(format!(".{host}")) } else { Host::Named(host.to_owned()) };
        let (port, path) = (url.port_or_known_default(), url.path().to_owned());
        Ok(Self { scheme: scheme.to_owned(), host, port, path, is_open })
    }

    fn fits(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let fits_host = match &self.host {
            Host::Named(name) => name == host,
            Host::Below(end) => url.domain().is_some_and(|domain| domain.ends_with(end.as_str())),
        };
        let fits_path = if self.is_open { url.path().starts_with(&self.path) } else { url.path() == self.path };
        url.scheme() == self.scheme && url.port_or_known_default() == self.port && fits_host && fits_path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(patterns: &[&str]) -> AllowedUrls {
        AllowedUrls::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn an_address_is_taken_where_a_pattern_has_it_and_nowhere_else() {
        let patterns =
            allowed(&["https://tools.example.com/box/*", "http://127.0.0.1:9000/one", "https://*.example.org/*"]);
        for (address, expected) in [
            ("https://tools.example.com/box/", Some(true)),
            ("https://TOOLS.example.com:443/box/a?b=c", Some(true)),
            ("http://127.0.0.1:9000/one", Some(true)),
            ("https://a.b.example.org/", Some(false)),
            ("https://tools.example.com/box", None),
            ("https://tools.example.com/box/../other", None),
            ("https://tools.example.com/box/%2e%2e/other", None),
            ("https://tools.example.com/other", None),
            ("https://tools.example.com:444/box/", None),
            ("http://tools.example.com/box/", None),
            ("https://tools.example.com.evil.example/box/", None),
            ("https://tools.example.com@evil.example/box/", None),
            ("https://user:secret@tools.example.com/box/", None),
            ("https://tools.example.com/box/#a", None),
            ("https://example.org/", None),
            ("https://evilexample.org/", None),
            ("http://127.0.0.1:9000/one/two", None),
            ("http://127.0.0.1:9001/one", None),
            ("http://2130706433:9000/one", Some(true)),
            ("file:///etc/passwd", None),
            ("nothing", None),
        ] {
            assert_eq!(patterns.find(address).map(|found| found.is_named), expected, "{address}");
        }
        let long = format!("https://tools.example.com/box/{}", "a".repeat(MAX_URL_BYTES));
        assert_eq!(patterns.find(&long), None);
        assert!(patterns.find(long.get(..MAX_URL_BYTES).unwrap()).is_some());
    }

    #[test]
    fn a_pattern_that_cannot_be_is_refused() {
        for pattern in [
            "tools.example.com/*",
            "ftp://a.example/*",
            "https://a.example",
            "https://*/*",
            "https://*.com/*",
            "https://a.*.example/*",
            "https://a.example/*/b",
            "https://a@b.example/*",
            "https://a.example/?b*",
            "https:///*",
        ] {
            assert!(AllowedUrls::new(&[pattern.to_owned()]).is_err(), "{pattern}");
        }
    }
}
