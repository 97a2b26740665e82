//! URLs that a pattern matches, and URLs that only look like it.

use super::*;
use crate::{
    PolicyError,
    network::pattern::{UrlPatterns, parse},
};

fn patterns(texts: &[&str]) -> UrlPatterns {
    UrlPatterns::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn allows(pattern: &str, url: &str) -> bool {
    parse(url).is_ok_and(|url| patterns(&[pattern]).allow(&url))
}

#[test]
fn a_pattern_means_its_scheme_host_port_and_path() {
    const API: &str = "https://api.example.com/v1/*";
    for (pattern, url, is_allowed) in [
        (API, "https://api.example.com/v1/", true),
        (API, "https://api.example.com/v1/a/b?c=d#e", true),
        (API, "HTTPS://API.Example.COM:443/v1/a", true),
        (API, "https://api.example.com/v1", false),
        (API, "https://api.example.com/v2/", false),
        (API, "http://api.example.com/v1/a", false),
        (API, "https://api.example.com:8443/v1/a", false),
        (API, "https://example.com/v1/a", false),
        (API, "https://x.api.example.com/v1/a", false),
        ("https://api.example.com", "https://api.example.com/any/path", true),
        ("https://api.example.com/", "https://api.example.com/", true),
        ("https://api.example.com/", "https://api.example.com/any", false),
        ("https://api.example.com/one", "https://api.example.com/one?two", true),
        ("https://api.example.com/one", "https://api.example.com/one/two", false),
        ("https://api.example.com:8443", "https://api.example.com:8443/", true),
        ("https://*.example.com", "https://a.example.com/", true),
        ("https://*.example.com", "https://a.b.example.com/", true),
        ("https://*.example.com", "https://example.com/", false),
        ("https://*.example.com", "https://badexample.com/", false),
        ("http://127.0.0.1:80", "http://127.0.0.1/", true),
        ("http://127.0.0.1", "http://0x7f.1/", true),
        ("http://[::1]", "http://[0:0::1]/", true),
        ("https://bücher.example", "https://xn--bcher-kva.example/", true),
    ] {
        assert_eq!(allows(pattern, url), is_allowed, "{pattern} {url}");
    }
}

/// URLs that have confused URL parsers.
#[test]
fn what_only_looks_like_an_allowed_url_is_none() {
    for url in [
        "https://api.example.com@evil.example/v1/",
        "https://api.example.com:443@evil.example/v1/",
        "https://user@api.example.com/v1/",
        "https://user:password@api.example.com/v1/",
        "https://evil.example\\@api.example.com/v1/",
        "https://evil.example/https://api.example.com/v1/",
        "https://evil.example#@api.example.com/v1/",
        "https://evil.example?@api.example.com/v1/",
        "https://api.example.com.evil.example/v1/",
        "https://api.example.com./v1/a",
        "https://api%2eexample.com:444/v1/",
        "https://api.example.com/v1/../admin",
        "https://api.example.com/v1/%2e%2e/admin",
        "https://api.example.com/v1/.%2E/admin",
        "https://api.example.com/v1\\..\\admin",
        "https://api.example.com/v1/..%2fadmin",
        "https://api.example.com/v1/%2e%2e%2fadmin",
        "https://api.example.com/v1/%252e%252e%252fadmin",
        "https://api.example.com/v1/..%5cadmin",
        "https://api.example.com/v1/..;/admin",
        "https://api.example.com/v1/%00",
        "https://аpi.example.com/v1/a", // a Cyrillic letter
        "//api.example.com/v1/",
        "/v1/",
        "ftp://api.example.com/v1/",
        "file:///v1/",
        "data:text/plain,x",
        "javascript:1",
        "",
    ] {
        assert!(!allows("https://api.example.com/v1/*", url), "{url}");
    }
    // Other spellings of the same host.
    for url in [
        "https://api%2Eexample.com/v1/",
        "https:api.example.com/v1/",
        "https:\\\\api.example.com\\v1\\",
        " https://api.example.com/v1/\n",
    ] {
        assert!(allows("https://api.example.com/v1/*", url), "{url}");
    }
    let long = |length: usize| format!("https://api.example.com/v1/{}", "a".repeat(length - 27));
    for (length, fits) in [(8191, true), (8192, true), (8193, false)] {
        assert_eq!(allows("https://api.example.com/v1/*", &long(length)), fits, "{length}");
    }
}

#[test]
fn a_pattern_that_cannot_be_is_refused_with_its_reason() {
    for (pattern, said) in [
        ("api.example.com", "begins with neither"),
        ("ftp://api.example.com", "begins with neither"),
        ("*", "begins with neither"),
        ("https://", "is not a valid URL"),
        ("https://*", "has a `*` in its host"),
        ("https://a.*.com", "has a `*` in its host"),
        ("https://*.127.0.0.1", "before an IP address"),
        ("https://a.example/*/b", "has a `*` within its path"),
        ("https://a.example/a/../b", "is not normalized"),
        ("https://a.example/b?c", "has a query"),
        ("https://a.example/b#c", "has a query"),
        ("https://me@a.example/", "has a query"),
        ("https://a.example\\b", "has a query"),
        ("https://a.example/ b", "has a query"),
        ("https://a.example:99999/", "is not a valid URL"),
    ] {
        let error = UrlPatterns::new(&[pattern.to_owned()]).unwrap_err();
        assert!(error.to_string().contains(said), "{pattern}: {error}");
        assert!(PolicyError::from(error).to_string().starts_with("`network.allow`: "));
    }
}

#[test]
fn the_url_that_was_allowed_is_the_one_that_is_asked() {
    let server = Server::with_body("x");
    let mut policy = policy(&[]);
    policy.allow = vec![server.url("/v1/*")];
    let client = client(&policy);
    get(&client, &server.url("/v1/a/./b/../c?d=%20 e#f")).unwrap();
    assert!(server.heard()[0].starts_with("GET /v1/a/c?d=%20%20e HTTP/1.1\r\n"), "{:?}", server.heard());
    let refused = get(&client, &server.url("/v1/../v2")).unwrap_err();
    let origin = server.url("");
    assert!(refused.starts_with(&format!("refused: requests to `{origin}` are not allowed")), "{refused}");
    assert!(refused.contains(&server.url("/v1/*")), "the list's rule: {refused}");
    assert_eq!(server.heard().len(), 1);
}

#[test]
fn a_host_is_named_where_it_stands_in_a_pattern_that_allows_the_url() {
    let patterns = patterns(&["https://api.example.com/v1/*", "https://*.example.com/*", "http://127.0.0.1:9000/one"]);
    for (url, named) in [
        ("https://api.example.com/v1/a", true),
        ("https://api.example.com/v2", false),
        ("https://other.example.com/", false),
        ("http://2130706433:9000/one", true),
        ("http://127.0.0.1:9001/one", false),
    ] {
        assert_eq!(patterns.name_host_of(&parse(url).unwrap()), named, "{url}");
    }
}
