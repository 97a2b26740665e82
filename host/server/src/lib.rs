//! Glovebox as a service for agents, over a network or over standard input and output.
//!
//! * [`Service`]: the core that all front ends share. It owns the engine, limits concurrent executions, collects
//!   metrics, and writes the audit log.
//! * [`Tenant`]: a client of the service with a policy, sessions and quotas. Front ends perform every operation through
//!   a tenant.
//! * [`http`]: the sandbox API over HTTP and JSON, on a TCP port or a Unix socket of the current user.
//! * [`mcp`]: the Model Context Protocol.
//! * Workers ([`Service::start_workers`]): child processes that run scripts.
//!
//! This crate contains no sandbox logic: it translates requests into calls to [`glovebox`], and results into responses.

mod audit;
mod byte_budget;
mod config;
mod error;
mod error_codes;
mod executor;
mod fair_semaphore;
mod grant;
pub mod http;
mod json;
pub mod mcp;
mod metrics;
mod service;
#[cfg(feature = "otlp")]
mod telemetry;
mod tenant;
mod text;
mod workers;

pub use audit::{Audit, AuditError, AuditTable};
pub use config::{ConfigError, E2bTable, PageTable, ServerConfig, TelemetryTable, TokenTable, ToolsTable};
pub use error::ServiceError;
pub use executor::NotInFleet;
pub use glovebox_fleet::Resumption;
pub use glovebox_requests::callbacks as tools;
pub use grant::GrantError;
pub use service::{Admission, Door, Service, ServiceConfig, SuspensionLimits};
#[cfg(feature = "otlp")]
pub use telemetry::{Telemetry, TelemetryError};
pub(crate) use tenant::NO_CALLBACKS;
pub use tenant::{
    ChangeResult, CheckTypes, DeliveryError, FinishedExecution, FreshScript, NeedsTools, NoStore, OnOutput, Script,
    SessionLocation, SessionPage, SessionSummary, SessionTarget, StepOutcome, Tenant, TenantConfig, TypeCheckError,
    TypedScript, Watch, Work,
};
pub use workers::{
    ConfinedAccess, Confinement, Measure, ParentStore, RelayedError, WorkerCommand, WorkerError, WorkerTenants,
    WorkersConfig, WorkersTable, confine, confine_program, read_config as read_worker_config, serve as serve_as_worker,
};

/// The target of the tracing spans for requests, queueing, executions, store access and requests to a fleet.
pub(crate) const SPANS: &str = "glovebox::trace";
