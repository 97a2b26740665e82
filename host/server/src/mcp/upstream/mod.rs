//! Other MCP servers, whose tools scripts may call: code mode.
//!
//! With a hundred tools, a model would read a hundred descriptions, and every result would pass through it. Instead it
//! writes a script that calls the tools, and reads only what the script prints.
//!
//! These servers are not trusted: their names, schemas, descriptions and results are limited, and errors name the
//! server.

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
