//! The sandbox over HTTP, from outside: through connections of its own.

mod bounds;
mod document;
mod executing;
mod hostile_requests;
mod page;
mod sessions;
mod support;
mod tokens;
