//! Executions: requests, limits and results.
//!
//! * [`request`] and [`execution`]: the input and the result.
//! * [`run`]: runs one execution. [`stepping`]: executions that the caller steps through. [`suspend`]: suspended and
//!   recorded executions, encoded as bytes. [`transcript`]: the output of a started execution.
//! * [`platform`]: time, output, random numbers and fuel budgets. [`cancel`]: cancellation.
//! * [`thread_pool`]: reused threads. [`timestamp`]: points in time. [`events`]: log events.

pub(crate) mod cancel;
pub(crate) mod events;
pub(crate) mod execution;
pub(crate) mod platform;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod stepping;
pub(crate) mod suspend;
pub(crate) mod thread_pool;
pub(crate) mod timestamp;
mod transcript;
