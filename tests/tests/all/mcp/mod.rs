//! Tests the Model Context Protocol with the client of the same library, over an in-memory pipe and over HTTP.
//! `tests/mcp/run` uses the official Python and TypeScript clients.

mod answers;
mod apis;
mod approvals;
mod endpoints;
mod files;
mod fleet;
mod http;
mod running;
mod sessions;
mod support;
mod tools;
mod type_checks;
mod unread;
mod upstreams;
