//! Black-box tests of the HTTP server, each over new connections.

mod audit;
mod bounds;
mod callbacks;
mod document;
mod e2b;
mod executing;
mod fleet;
mod fleet_suspending;
mod fuzz;
mod hostile_requests;
pub(crate) mod limit_scripts;
mod page;
mod running;
mod sessions;
mod stepping;
mod storing;
pub(crate) mod support;
mod suspending;
mod suspending_sessions;
mod tokens;
pub(crate) mod type_checks;
mod unread;
