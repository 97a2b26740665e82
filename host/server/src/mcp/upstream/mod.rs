//! Other servers of the protocol, whose tools scripts may call: code mode.
//!
//! A model that is given a hundred tools reads a hundred descriptions, and every result passes through it. Here it writes a script that
//! calls them, and only what the script prints comes back.
//!
//! What these servers send is not trusted: names, schemas, descriptions and results are bounded, and what does not fit is an error that
//! names the server.

mod bounded;
mod config;
mod names;
mod process;
mod result;
mod signature;
mod upstreams;

pub(super) use bounded::BoundedLines;
pub use config::{UpstreamConfig, UpstreamError};
pub use signature::Listing;
pub use upstreams::Upstreams;
