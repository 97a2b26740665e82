//! HTTP requests from untrusted scripts, restricted by the `network` table of a [`Policy`](glovebox::Policy).
//!
//! Requests come from the untrusted guest, responses from an untrusted server.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use glovebox::{Engine, EngineConfig, NetworkPolicy, Policy, Sandbox};
//!
//! let mut config = EngineConfig::default();
//! config.network = Some(Arc::new(glovebox_network::Http));
//! let engine = Engine::new(config)?;
//! let mut policy = Policy::default();
//! policy.network = NetworkPolicy::allowing(["https://api.example.com/v1/*"]);
//! let sandbox = Sandbox::builder(&engine).policy(policy).build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `message` | [`Http`] and [`Replay`]; the JSON form of requests and responses, and their headers |
//! | `client` | sends a request and follows its redirects |
//! | `secrets` | placeholders and the secrets that replace them in headers |

mod client;
mod message;
mod secrets;

#[cfg(test)]
mod tests;

pub use client::tls_config;
pub use message::{Http, Replay};

/// Compiles the Rust examples of `docs/network.md` with the doc tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/network.md")]
    mod network {}
}
