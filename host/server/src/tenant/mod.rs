//! One who may use the service, and what is done for them.
//!
//! * [`one`]: the tenant itself.
//! * [`executing`], [`stepping`], [`sessions`], [`own`]: what it is asked.
//! * [`stepped`], [`suspended`], [`suspending`]: executions that wait for answers.
//! * [`quotas`], [`turns`]: what holds it back.

mod config;
mod executing;
mod no_store;
mod one;
mod own;
mod quotas;
mod script;
mod sessions;
mod stepped;
mod stepping;
mod stored;
mod suspended;
mod suspending;
mod traced_store;
mod turns;

pub use config::TenantConfig;
pub(crate) use executing::{execution_span, record};
pub use no_store::NoStore;
pub use one::Tenant;
pub use own::{NewSandbox, OwnSandbox, OwnSession};
pub(crate) use quotas::Held;
pub use script::{Changed, Fresh, OnOutput, Script, Target, Watch, Work};
pub use stepped::Ended;
pub use stepping::{NeedsTools, Stepped};
pub use stored::generation;
