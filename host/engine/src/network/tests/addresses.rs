//! Public addresses, and names that resolve to other addresses.

use super::*;
use crate::network::pattern::is_public;

#[test]
fn addresses_of_special_purposes_are_not_public() {
    for (address, public) in [
        ("1.1.1.1", true),
        ("0.0.0.0", false),
        ("0.255.255.255", false),
        ("1.0.0.0", true),
        ("9.255.255.255", true),
        ("10.0.0.0", false),
        ("10.255.255.255", false),
        ("11.0.0.0", true),
        ("100.63.255.255", true),
        ("100.64.0.0", false),
        ("100.127.255.255", false),
        ("100.128.0.0", true),
        ("127.0.0.1", false),
        ("127.255.255.255", false),
        ("128.0.0.0", true),
        ("169.253.255.255", true),
        ("169.254.169.254", false),
        ("172.15.255.255", true),
        ("172.16.0.0", false),
        ("172.31.255.255", false),
        ("172.32.0.0", true),
        ("192.0.0.1", false),
        ("192.0.1.0", true),
        ("192.0.2.1", false),
        ("192.88.99.1", false),
        ("192.167.255.255", true),
        ("192.168.0.1", false),
        ("192.169.0.0", true),
        ("198.17.255.255", true),
        ("198.18.0.0", false),
        ("198.19.255.255", false),
        ("198.20.0.0", true),
        ("198.51.100.7", false),
        ("203.0.113.7", false),
        ("223.255.255.255", true),
        ("224.0.0.1", false),
        ("240.0.0.1", false),
        ("255.255.255.255", false),
        ("::", false),
        ("::1", false),
        ("::7f00:1", false),       // IPv4-compatible
        ("::ffff:1.1.1.1", false), // IPv4-mapped, whatever it is mapped to
        ("::ffff:127.0.0.1", false),
        ("64:ff9b::7f00:1", false), // NAT64
        ("64:ff9b::101:101", false),
        ("64:ff9b:1::7f00:1", false),
        ("100::1", false),
        ("1fff::1", false),
        ("2000::1", true),
        ("2001::1", false), // Teredo
        ("2001:1ff::1", false),
        ("2001:200::1", true),
        ("2001:db8::1", false),
        ("2001:4860:4860::8888", true),
        ("2002:7f00:1::", false), // 6to4
        ("2606:4700::1111", true),
        ("2620:4f:8000::1", false),
        ("3fff::1", false),
        ("3fff:1000::1", true),
        ("4000::1", false),
        ("5f00::1", false),
        ("fc00::1", false),
        ("fd12:3456::1", false),
        ("fe80::1", false),
        ("fec0::1", false),
        ("ff02::1", false),
    ] {
        assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
    }
}

fn client_of(allow: &str, ranges: &[&str], names: &[(&str, &[&[&str]])]) -> Client {
    let mut policy = NetworkPolicy::allowing([allow]);
    policy.allow_private = ranges.iter().map(|range| (*range).to_owned()).collect();
    Client::with_resolver(&policy, secrets(&policy), Names::new(names)).unwrap()
}

#[test]
fn a_name_that_means_what_is_not_public_is_refused_after_it_was_looked_up() {
    let server = Server::with_body("inside");
    let url = format!("http://inside.example:{}/", server.port);
    for address in ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "10.0.0.1", "0.0.0.0"]
    {
        let client = client_of(&url, &[], &[("inside.example", &[&[address]])]);
        let refused = get(&client, &url).unwrap_err();
        assert!(refused.starts_with("refused: `inside.example` has no public address"), "{address}: {refused}");
    }
    assert!(server.heard().is_empty());
    // The IPv4-mapped form is not the allowed address.
    let client = client_of(&url, &["127.0.0.0/8"], &[("inside.example", &[&["::ffff:127.0.0.1"]])]);
    assert!(get(&client, &url).unwrap_err().starts_with("refused: "));
    let client = client_of(&url, &["127.0.0.0/8"], &[("inside.example", &[&["127.0.0.1"]])]);
    assert_eq!(get(&client, &url).unwrap()["text"], "inside");
}

#[test]
fn a_connection_goes_to_what_was_looked_at_and_each_look_counts() {
    let server = Server::with_body("inside");
    let url = format!("http://rebinding.example:{}/", server.port);
    // The first lookup returns an allowed address, the second one does not.
    let client = client_of(&url, &["127.0.0.1"], &[("rebinding.example", &[&["127.0.0.1"], &["127.0.0.2"]])]);
    assert!(get(&client, &url).is_ok());
    assert!(get(&client, &url).unwrap_err().starts_with("refused: "), "it was looked up, and looked at, again");
    // Only the allowed addresses of a name are tried.
    let client = client_of(&url, &["127.0.0.1"], &[("rebinding.example", &[&["127.0.0.2", "127.0.0.1"]])]);
    assert!(get(&client, &url).is_ok());
    assert_eq!(server.heard().len(), 2);
}

#[test]
fn an_address_in_the_url_is_held_to_the_same() {
    let server = Server::with_body("inside");
    let forms = ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "[::1]"];
    for form in forms {
        let url = format!("http://{form}:{}/", server.port);
        let policy = NetworkPolicy::allowing([format!("http://127.0.0.1:{}", server.port), url.clone()]);
        let refused = get(&client(&policy), &url).unwrap_err();
        assert!(refused.contains("is no public address"), "{form}: {refused}");
    }
    assert!(server.heard().is_empty());
}

#[test]
fn localhost_is_this_machine_whatever_a_resolver_says() {
    let client = client_of("http://localhost", &[], &[("localhost", &[&["1.1.1.1"]])]);
    assert!(get(&client, "http://localhost/").unwrap_err().starts_with("refused: `localhost`"));
}

#[test]
fn ranges_are_read_or_refused() {
    for (range, fits) in
        [("127.0.0.0/8", true), ("::1", true), ("fd00::/8", true), ("10.0.0.0/33", false), ("localhost", false)]
    {
        let policy = NetworkPolicy { allow_private: vec![range.to_owned()], ..NetworkPolicy::default() };
        assert_eq!(policy.check().is_ok(), fits, "{range}");
    }
}
