//! One who may use the service, and what is done for them.
//!
//! * [`one`]: the tenant itself.
//! * [`executing`], [`sessions`], [`own`]: what it is asked.
//! * [`quotas`], [`turns`]: what holds it back.

mod config;
mod executing;
mod no_store;
mod one;
mod own;
mod quotas;
mod script;
mod sessions;
mod stored;
mod turns;

pub use config::TenantConfig;
pub use no_store::NoStore;
pub use one::Tenant;
pub use own::{NewSandbox, OwnSandbox, OwnSession};
pub use script::{Fresh, OnOutput, Script, Watch};
pub use stored::generation;
