//! Advice on network requests that were not performed.
//!
//! The messages of the exceptions are the same in both languages: see `fetch.js` and `network.py`.

use super::advice::{Advice, AdviceKind, quoted};

/// Advice for a sandbox without a network.
pub(super) const STEPS: [&str; 3] = [
    "Put the data into the workspace, and read it from `/app`.",
    "Have the host offer a tool that fetches, and call that.",
    "Have the operator allow the address: `[network] allow = [\"https://api.example.com/*\"]` in the policy, or `--allow-net`. Scripts then reach it with `fetch`, `urllib.request` and `requests`.",
];

const OFF: &str = "the network is off in this sandbox";
const BEFORE_ORIGIN: &str = "requests to `";
const AFTER_ORIGIN: &str = "` are not allowed at this path";
const NOT_PUBLIC: [&str; 2] = ["is no public address", "has no public address"];

/// Returns advice for the message of an exception about the network.
pub(super) fn advice(message: &str) -> Option<Advice> {
    let of = |summary: String, steps: &[&str]| Some(Advice::new(AdviceKind::Network, summary, steps));
    if message.contains(OFF) {
        return of("The network is off in the sandbox.".to_owned(), &STEPS);
    }
    if let Some((_, rest)) = message.split_once(BEFORE_ORIGIN)
        && let Some((origin, _)) = rest.split_once(AFTER_ORIGIN)
    {
        return of(
            format!("The sandbox's policy does not allow this request to {}.", quoted(origin)),
            &[
                "Ask one of the addresses that the message names: scheme, host, port and path all count.",
                "Have the operator add the address to `network.allow` of the policy, or with `--allow-net`.",
            ],
        );
    }
    if NOT_PUBLIC.iter().any(|text| message.contains(text)) && message.contains("network.allow_private") {
        return of(
            "The address is not a public one, which the sandbox's policy does not allow.".to_owned(),
            &[
                "Have the operator add its range to `network.allow_private` of the policy, or with `--allow-private-net`, if scripts are meant to reach it.",
            ],
        );
    }
    None
}

/// Returns whether the message is about a request that the policy allowed.
pub(super) fn was_tried(message: &str) -> bool {
    ["no connection to `", "did not answer as it should", "there was no whole response"]
        .iter()
        .any(|text| message.contains(text))
}
