//! The addresses that may be called back.

use std::fmt;

use glovebox::UrlPatterns;
use reqwest::Url;

/// Maximum length of an address, in bytes.
const MAX_URL_BYTES: usize = 2_048;

/// An address that callbacks may use.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) url: Url,
    /// True if a pattern names the host itself. The host may then have any address, even a private one.
    pub(super) is_named: bool,
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed").field("host", &self.url.host_str()).finish_non_exhaustive()
    }
}

impl Allowed {
    /// Parses an address, and returns it if one of the patterns matches.
    pub(super) fn find(patterns: &UrlPatterns, address: &str) -> Option<Self> {
        let url = (address.len() <= MAX_URL_BYTES).then(|| Url::parse(address).ok()).flatten()?;
        // The address of a service has no credentials and no fragment.
        if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
            return None;
        }
        patterns.allow(&url).then(|| Self { is_named: patterns.name_host_of(&url), url })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_where_a_pattern_has_it_and_nowhere_else() {
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
            assert_eq!(Allowed::find(&patterns, address).map(|found| found.is_named), expected, "{address}");
        }
        let long = format!("https://tools.example.com/box/{}", "a".repeat(MAX_URL_BYTES));
        assert_eq!(Allowed::find(&patterns, &long), None);
        assert!(Allowed::find(&patterns, long.get(..MAX_URL_BYTES).unwrap()).is_some());
    }
}
