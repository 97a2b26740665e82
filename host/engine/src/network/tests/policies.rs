//! The table `network`: its limits, and comparing tables.

use super::*;
use crate::{BeyondNetwork, Policy};

#[test]
fn numbers_and_lists_have_bounds() {
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
    assert!(check(&|policy| policy.timeout_ms = 0).unwrap_err().contains("`network.timeout_ms`: it is 0"));
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
fn a_policy_file_says_it_and_a_variable_of_the_same_name_is_refused() {
    let text = "[network]\nallow = [\"https://a.example\"]\n[network.secrets]\nKEY = { env = \"REAL\", host = \"a.example\" }\n";
    let policy = Policy::from_toml(text).unwrap();
    assert!(policy.network.is_on());
    assert_eq!(Policy::from_toml(&policy.to_toml()).unwrap(), policy);
    assert!(!Policy::default().network.is_on());
    let error = Policy::from_toml(&format!("{text}[env]\nKEY = \"a\"\n")).unwrap_err().to_string();
    assert!(error.contains("`network.secrets.KEY`: `env` has a variable of this name"), "{error}");
    for wrong in ["[network]\nallowed = []", "[network]\nallow = [\"x\"]", "[network.secrets]\nA = { value = \"x\" }"] {
        assert!(Policy::from_toml(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_policy_is_within_another_or_says_what_is_not() {
    let mut granted = NetworkPolicy::allowing(["https://api.example.com/v1/*", "https://*.example.org"]);
    granted.allow_private = vec!["10.0.0.0/8".into()];
    granted.methods = vec!["GET".into(), "POST".into()];
    granted.request_count = 10;
    granted.secrets.insert("KEY".into(), SecretPolicy::new("REAL", "api.example.com"));
    let beyond = |edit: &dyn Fn(&mut NetworkPolicy)| {
        let mut asked = granted.clone();
        edit(&mut asked);
        asked.beyond(&granted).unwrap().map(|BeyondNetwork { key, .. }| key)
    };
    assert_eq!(beyond(&|_| ()), None);
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
        assert_eq!(beyond(&|asked| asked.allow = vec![pattern.into()]), key, "{pattern}");
    }
    for (range, key) in [
        ("10.1.0.0/16", None),
        ("10.0.0.1", None),
        ("0.0.0.0/0", Some("allow_private")),
        ("::/0", Some("allow_private")),
    ] {
        assert_eq!(beyond(&|asked| asked.allow_private = vec![range.into()]), key, "{range}");
    }
    assert_eq!(beyond(&|asked| asked.methods = vec!["GET".into()]), None);
    assert_eq!(beyond(&|asked| asked.methods = vec!["PUT".into()]), Some("methods"));
    assert_eq!(beyond(&|asked| asked.request_count = 10), None);
    assert_eq!(beyond(&|asked| asked.request_count = 11), Some("request_count"));
    assert_eq!(beyond(&|asked| asked.response_bytes += 1), Some("response_bytes"));
    assert_eq!(beyond(&|asked| asked.secrets.clear()), None);
    let other = SecretPolicy::new("PATH", "api.example.com");
    assert_eq!(beyond(&|asked| drop(asked.secrets.insert("OTHER".into(), other.clone()))), Some("secrets"));
    assert_eq!(beyond(&|asked| drop(asked.secrets.insert("KEY".into(), other.clone()))), Some("secrets"));
}
