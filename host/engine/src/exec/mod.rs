//! Executions: a request, its limits, and its result.
//!
//! * [`request`], [`execution`], [`displays`], [`timestamp`]: input and result.
//! * [`run`]: one execution from start to end; [`stepping`]: one that the caller steps through.
//! * [`platform`], [`ticker`], [`stopwatch`], [`entropy`]: time, cancellation, output and random numbers.
//! * [`budget`], [`cancel`], [`session_scope`]: limits over several executions.
//! * [`events`]: the log.

pub(crate) mod budget;
pub(crate) mod cancel;
pub(crate) mod displays;
pub(crate) mod entropy;
pub(crate) mod events;
pub(crate) mod execution;
pub(crate) mod platform;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod session_scope;
pub(crate) mod stepping;
pub(crate) mod stopwatch;
pub(crate) mod ticker;
pub(crate) mod timestamp;
