//! A client of the service, and the operations on its behalf.
//!
//! * [`one`]: the tenant itself.
//! * [`executing`], [`stepping`], [`sessions`], [`own`]: its operations.
//! * [`fleet`]: the operations on sessions in a fleet.
//! * [`summary`]: the description of a session.
//! * [`stepped`], [`suspended`], [`suspending`]: suspended executions.
//! * [`quotas`], [`stored_bytes`], [`turns`]: its limits.

mod config;
mod executing;
mod fleet;
mod no_store;
mod one;
mod own;
mod quotas;
mod script;
mod sessions;
mod stepped;
mod stepping;
mod stored;
mod stored_bytes;
mod summary;
mod suspended;
mod suspending;
mod traced_store;
mod turns;

pub use config::{SessionPlace, TenantConfig};
pub(crate) use executing::{execution_span, record};
pub use fleet::NotInFleet;
pub use no_store::NoStore;
pub use one::Tenant;
pub use own::{NewSandbox, OwnSandbox, OwnSession};
pub(crate) use quotas::Held;
pub(crate) use script::NO_CALLBACKS;
pub use script::{Changed, Fresh, OnOutput, Script, Target, Watch, Work};
pub use stepped::Ended;
pub use stepping::{NeedsTools, Stepped};
use summary::generation;
pub use summary::{SessionPage, SessionSummary};
