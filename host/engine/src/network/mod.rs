//! What scripts may reach of the network. Off unless a policy names addresses.
//!
//! A script has no socket. It describes a request, which comes to the host as a call of a tool that scripts cannot name otherwise
//! ([`NETWORK_TOOL`](crate::tools::NETWORK_TOOL)): so limits, cancelling, records and calls in parallel are those of tools. Everything in a
//! request is the guest's word, and everything in a response the word of a stranger.
//!
//! | file | what it is |
//! |---|---|
//! | `policy` | [`NetworkPolicy`]: the table `network` of a policy |
//! | `check` | what of it the types cannot say |
//! | `narrow` | whether one such policy is within another |
//! | `pattern` | the addresses that are allowed: matched on parsed URLs only |
//! | `address` | IP addresses that are refused after resolution, and ranges that an operator allows |
//! | `resolver` | names to addresses, filtered and pinned for one connection |
//! | `secrets` | placeholders, and what stands for them in headers |
//! | `headers` | which headers of requests are a script's to set, and what it sees of those of responses |
//! | `message` | requests and responses as scripts write and read them |
//! | `client` | one request with its redirects |
//! | `handler` | the tool |
//! | `replay` | the tool, with the answers of earlier requests |

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
