//! The Model Context Protocol, through which models run code.
//!
//! * [`McpServer`]: tools and resources for a [`Tenant`](crate::Tenant), independent of the transport.
//! * [`serve_stdio`]: serves a single client over standard input and output. [`router`] serves clients over HTTP.
//! * [`Upstreams`]: other MCP servers, whose tools scripts can call.
//!
//! Supports the MCP specification of 2026-07-28 and earlier versions. `rmcp` negotiates the version.

mod answer;
mod arguments;
mod connections;
mod files;
mod http;
mod outputs;
mod resources;
mod server;
mod sessions;
mod tools;
mod upstream;

pub use http::router;
pub use server::{McpServer, serve_stdio};
pub use upstream::{Listing, UpstreamConfig, UpstreamError, Upstreams};
