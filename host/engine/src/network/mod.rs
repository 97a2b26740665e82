//! Network access of scripts. Off unless a policy allows addresses.
//!
//! Scripts have no sockets. A script describes a request, which reaches the host as a call of a reserved tool
//! ([`NETWORK_TOOL`](crate::tools::NETWORK_TOOL)). Limits, cancellation, records and parallel calls are therefore those
//! of tools. Requests are untrusted input from the guest, and responses are untrusted input from a server.
//!
//! | file | contents |
//! |---|---|
//! | `policy` | [`NetworkPolicy`]: the table `network` of a policy, and its checks |
//! | `pattern` | allowed URLs, matched on parsed URLs only; does one policy exceed another? Name lookup, pinned for one connection; IP addresses that are refused, and ranges that an operator allows |
//! | `secrets` | placeholders, and the secrets that replace them in headers |
//! | `message` | the tool; the JSON form of requests and responses, the headers of both, and recorded answers |
//! | `client` | one request and its redirects |

#[cfg(feature = "network")]
pub(crate) mod client;
#[cfg(feature = "network")]
mod message;
#[cfg(feature = "network")]
mod pattern;
mod policy;
#[cfg(feature = "network")]
mod secrets;

#[cfg(test)]
#[cfg(feature = "network")]
mod tests;

#[cfg(feature = "network")]
pub(crate) use message::{open, replay};
#[cfg(feature = "network")]
pub use pattern::{BeyondNetwork, UrlPatternError, UrlPatterns, is_public as is_public_address};
pub use policy::{NetworkPolicy, SecretPolicy};

/// Returns the error for a policy with a network, in a build without the feature `network`.
#[cfg(not(feature = "network"))]
fn refusal() -> glovebox_core::PolicyError {
    policy::wrong("allow", "`glovebox` was built without its feature `network`; enable it in `Cargo.toml`")
}

/// Fails, because the feature `network` is missing.
#[cfg(not(feature = "network"))]
pub(crate) fn open(
    _policy: &NetworkPolicy,
    _entropy: glovebox_core::Entropy,
) -> Result<(crate::tools::ReservedTool, std::collections::BTreeMap<String, String>), glovebox_core::PolicyError> {
    Err(refusal())
}
