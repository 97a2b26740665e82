//! Glovebox as a service: what an agent talks to over a network, or over standard input and output.
//!
//! * [`Service`]: what all doors share. It has an engine, admits executions, counts them, and writes them down.
//! * [`Tenant`]: one who may use it, with a policy, sessions and quotas of its own. Everything that a door does, it does through a tenant.
//! * [`http`]: the contract as HTTP and JSON.
//! * [`mcp`]: the Model Context Protocol.
//!
//! No logic of the sandbox is in this crate: it turns requests into calls of [`glovebox`], and results into answers.

mod audit;
mod config;
mod door;
mod error;
mod grant;
pub mod http;
pub mod mcp;
mod metrics;
mod service;
mod tenant;

pub use audit::{Audit, AuditError};
pub use config::{AdmissionTable, AuditTable, ConfigError, HttpTable, PageTable, ServerConfig, TokenTable};
pub use door::Door;
pub use error::ServiceError;
pub use grant::GrantError;
pub use service::{Admission, Service, ServiceConfig};
pub use tenant::{Fresh, OnOutput, Script, Tenant, TenantConfig, Watch, generation};
