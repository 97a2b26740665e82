//! The Model Context Protocol: what a model runs code with.
//!
//! * [`McpServer`]: tools and resources over a [`Tenant`](crate::Tenant). It knows nothing of how messages come and go.
//! * [`serve_stdio`]: serves one client over standard input and output. [`router`] has the routes for any number
//!   of clients over HTTP.
//! * [`Upstreams`]: other servers of the protocol, whose tools scripts may call.
//!
//! It speaks the specification of 2026-07-28 and the earlier ones; `rmcp` negotiates which.

mod account;
mod answer;
mod arguments;
mod display;
mod files;
mod http;
mod outputs;
mod progress;
mod resources;
mod said;
mod schema;
mod server;
mod sessions;
mod shorten;
mod stdio;
mod tools;
mod upstream;

pub use http::router;
pub use server::McpServer;
pub use stdio::serve_stdio;
pub use upstream::{Listing, UpstreamConfig, UpstreamError, Upstreams};
