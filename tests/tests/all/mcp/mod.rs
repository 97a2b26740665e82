//! The Model Context Protocol, with the client of the same library over a pipe in memory, and over HTTP.
//! `tests/mcp/run` has the official clients in Python and TypeScript.

mod answers;
mod files;
mod fleet;
mod http;
mod running;
mod sessions;
mod support;
mod tools;
mod upstreams;
