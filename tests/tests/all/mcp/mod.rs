//! Tests the MCP server with the client of rmcp, the library that the server uses, over an in-memory pipe and over
//! HTTP. `tests/mcp/run` uses the official Python and TypeScript clients.

mod answers;
mod apis;
mod approvals;
mod endpoints;
mod files;
mod http;
mod running;
mod sessions;
mod support;
mod tools;
mod type_checks;
mod unread;
mod upstreams;
