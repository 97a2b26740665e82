//! Network access of scripts. Off unless a policy allows addresses.
//!
//! Scripts have no sockets. A script describes a request, which reaches the host as a call of a reserved tool
//! ([`NETWORK_TOOL`](crate::tools::NETWORK_TOOL)). Limits, cancellation, records and parallel calls are therefore those
//! of tools. Requests are untrusted input from the guest, and responses are untrusted input from a server.
//!
//! | file | contents |
//! |---|---|
//! | `policy` | [`NetworkPolicy`]: the table `network` of a policy |
//! | `check` | checks of the table beyond its types |
//! | `narrow` | comparison: does one policy exceed another? |
//! | `pattern` | allowed URLs, matched on parsed URLs only |
//! | `address` | IP addresses that are refused after resolution, and ranges that an operator allows |
//! | `resolver` | name lookup, filtered and pinned for one connection |
//! | `secrets` | placeholders, and the secrets that replace them in headers |
//! | `headers` | request headers that a script may set, and response headers that it receives |
//! | `message` | the JSON form of requests and responses |
//! | `client` | one request and its redirects |
//! | `handler` | the tool |
//! | `replay` | the tool, with recorded answers |

#[cfg(feature = "network")]
mod address;
mod check;
#[cfg(feature = "network")]
mod client;
#[cfg(feature = "network")]
mod handler;
#[cfg(feature = "network")]
mod headers;
#[cfg(feature = "network")]
mod message;
#[cfg(feature = "network")]
mod narrow;
#[cfg(not(feature = "network"))]
mod not_built;
#[cfg(feature = "network")]
mod pattern;
mod policy;
#[cfg(feature = "network")]
mod replay;
#[cfg(feature = "network")]
mod resolver;
#[cfg(feature = "network")]
mod secrets;
#[cfg(feature = "network")]
pub(crate) mod tls;

#[cfg(test)]
#[cfg(feature = "network")]
mod tests;

#[cfg(feature = "network")]
pub use address::is_public as is_public_address;
#[cfg(feature = "network")]
pub(crate) use handler::open;
#[cfg(feature = "network")]
pub use narrow::BeyondNetwork;
#[cfg(not(feature = "network"))]
pub(crate) use not_built::open;
#[cfg(feature = "network")]
pub use pattern::{UrlPatternError, UrlPatterns};
pub use policy::{NetworkPolicy, SecretPolicy};
#[cfg(feature = "network")]
pub(crate) use replay::replay;
