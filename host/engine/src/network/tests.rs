//! Tests of URL patterns and of the `network` table in policies.

use url::Url;

use super::*;

fn patterns(texts: &[&str]) -> UrlPatterns {
    UrlPatterns::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn allows(pattern: &str, url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| patterns(&[pattern]).allow(&url))
}

#[test]
fn pattern_matches_scheme_host_port_and_path() {
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

#[test]
fn invalid_pattern_is_rejected_with_a_reason() {
    for (pattern, expected) in [
        ("api.example.com", "begins with neither"),
        ("ftp://api.example.com", "begins with neither"),
        ("*", "begins with neither"),
        ("https://", "is not a valid URL"),
        ("https://*", "has a `*` in its host"),
        ("https://a.*.com", "has a `*` in its host"),
        ("https://*.127.0.0.1", "before an IP address"),
        ("https://a.example/*/b", "has a `*` within its path"),
        ("https://a.example/a/../b", "has a path that is not normalized"),
        ("https://a.example/b?c", "has a query"),
        ("https://a.example/b#c", "has a query"),
        ("https://me@a.example/", "has a query"),
        ("https://a.example\\b", "has a query"),
        ("https://a.example/ b", "has a query"),
        ("https://a.example:99999/", "is not a valid URL"),
    ] {
        let error = UrlPatterns::new(&[pattern.to_owned()]).unwrap_err();
        assert!(error.to_string().contains(expected), "{pattern}: {error}");
        assert!(PolicyError::from(error).to_string().starts_with("`network.allow`: "));
    }
}

#[test]
fn url_host_must_be_named_in_its_matching_pattern() {
    let patterns = patterns(&["https://api.example.com/v1/*", "https://*.example.com/*", "http://127.0.0.1:9000/one"]);
    for (url, named) in [
        ("https://api.example.com/v1/a", true),
        ("https://api.example.com/v2", false),
        ("https://other.example.com/", false),
        ("http://2130706433:9000/one", true),
        ("http://127.0.0.1:9001/one", false),
    ] {
        assert_eq!(patterns.name_host_of(&Url::parse(url).unwrap()), named, "{url}");
    }
}

#[test]
fn network_policy_numbers_and_lists_are_limited() {
    let check = |edit: &dyn Fn(&mut NetworkPolicy)| {
        let mut policy = NetworkPolicy::default();
        edit(&mut policy);
        policy.check().map_err(|error| error.to_string())
    };
    for (number, fits) in [(0, true), (64 << 20, true), ((64 << 20) + 1, false)] {
        assert_eq!(check(&|policy| policy.response_bytes = number).is_ok(), fits, "{number}");
        assert_eq!(check(&|policy| policy.request_bytes = number).is_ok(), fits, "{number}");
    }
    for (number, fits) in [(0, true), (5, true), (6, false)] {
        assert_eq!(check(&|policy| policy.redirects = number).is_ok(), fits, "{number}");
    }
    assert!(check(&|policy| policy.timeout_ms = 0).unwrap_err().contains("`network.timeout_ms`: the value is 0"));
    assert!(
        check(&|policy| policy.methods.push("CONNECT".into())).unwrap_err().contains("`CONNECT` is not one of GET")
    );
    for (count, fits) in [(256, true), (257, false)] {
        let allow = vec!["https://a.example".to_owned(); count];
        assert_eq!(check(&|policy| policy.allow.clone_from(&allow)).is_ok(), fits, "{count}");
    }
    for (host, fits) in [
        ("a.example", true),
        ("a.example:8443", true),
        ("[::1]", true),
        ("", false),
        ("*.a.example", false),
        ("https://a.example", false),
        ("a.example/b", false),
        ("a b", false),
    ] {
        let edit = |policy: &mut NetworkPolicy| drop(policy.secrets.insert("A".into(), SecretPolicy::new("B", host)));
        assert_eq!(check(&edit).is_ok(), fits, "{host}");
    }
}

#[test]
fn network_policy_file_round_trips_and_is_checked() {
    let text = "[network]\nallow = [\"https://a.example\"]\n[network.secrets]\nKEY = { env = \"REAL\", host = \"a.example\" }\n";
    let policy = Policy::from_toml(text).unwrap();
    assert!(policy.network.is_on());
    assert_eq!(Policy::from_toml(&policy.to_toml().unwrap()).unwrap(), policy);
    assert!(!Policy::default().network.is_on());
    let error = Policy::from_toml(&format!("{text}[env]\nKEY = \"a\"\n")).unwrap_err().to_string();
    assert!(error.contains("`network.secrets.KEY`: `env` has a variable with the same name"), "{error}");
    for wrong in ["[network]\nallowed = []", "[network]\nallow = [\"x\"]", "[network.secrets]\nA = { value = \"x\" }"] {
        assert!(Policy::from_toml(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn policy_exceeding_another_names_the_excess() {
    let mut granted = NetworkPolicy::allowing(["https://api.example.com/v1/*", "https://*.example.org"]);
    granted.allow_private = vec!["10.0.0.0/8".into()];
    granted.methods = vec!["GET".into(), "POST".into()];
    granted.request_count = 10;
    granted.secrets.insert("KEY".into(), SecretPolicy::new("REAL", "api.example.com"));
    let excess = |edit: &dyn Fn(&mut NetworkPolicy)| {
        let mut requested = granted.clone();
        edit(&mut requested);
        requested.first_excess(&granted).unwrap().map(|NetworkExcess { key, .. }| key)
    };
    assert_eq!(excess(&|_| ()), None);
    for (pattern, key) in [
        ("https://api.example.com/v1/a", None),
        ("https://api.example.com/v1/a/*", None),
        ("https://a.example.org/any", None),
        ("https://*.a.example.org", None),
        ("https://api.example.com/v1*", Some("allow")),
        ("https://api.example.com", Some("allow")),
        ("http://api.example.com/v1/a", Some("allow")),
        ("https://api.example.com:444/v1/a", Some("allow")),
        ("https://example.org", Some("allow")),
        ("https://*.org", Some("allow")),
    ] {
        assert_eq!(excess(&|requested| requested.allow = vec![pattern.into()]), key, "{pattern}");
    }
    for (range, key) in [
        ("10.1.0.0/16", None),
        ("10.0.0.1", None),
        ("0.0.0.0/0", Some("allow_private")),
        ("::/0", Some("allow_private")),
    ] {
        assert_eq!(excess(&|requested| requested.allow_private = vec![range.into()]), key, "{range}");
    }
    assert_eq!(excess(&|requested| requested.methods = vec!["GET".into()]), None);
    assert_eq!(excess(&|requested| requested.methods = vec!["PUT".into()]), Some("methods"));
    assert_eq!(excess(&|requested| requested.request_count = 10), None);
    assert_eq!(excess(&|requested| requested.request_count = 11), Some("request_count"));
    assert_eq!(excess(&|requested| requested.response_bytes += 1), Some("response_bytes"));
    assert_eq!(excess(&|requested| requested.secrets.clear()), None);
    let other = SecretPolicy::new("PATH", "api.example.com");
    assert_eq!(excess(&|requested| drop(requested.secrets.insert("OTHER".into(), other.clone()))), Some("secrets"));
    assert_eq!(excess(&|requested| drop(requested.secrets.insert("KEY".into(), other.clone()))), Some("secrets"));
}

#[test]
fn address_ranges_are_parsed_or_rejected() {
    for (range, fits) in
        [("127.0.0.0/8", true), ("::1", true), ("fd00::/8", true), ("10.0.0.0/33", false), ("localhost", false)]
    {
        let policy = NetworkPolicy { allow_private: vec![range.to_owned()], ..NetworkPolicy::default() };
        assert_eq!(policy.check().is_ok(), fits, "{range}");
    }
}
