//! Executions: a request, its limits, and its result.
//!
//! * [`request`], [`execution`]: input and result.
//! * [`run`]: one execution from start to end; [`stepping`]: one that the caller steps through.
//! * [`platform`]: time, output, random numbers, and limits over several executions; [`cancel`]: cancellation.
//! * [`events`]: the log.

pub(crate) mod cancel;
pub(crate) mod events;
pub(crate) mod execution;
pub(crate) mod platform;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod stepping;
