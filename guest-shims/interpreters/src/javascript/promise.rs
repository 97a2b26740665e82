//! The states of a promise.

/// States of a promise (`JSPromiseStateEnum`).
pub(super) const PROMISE_PENDING: u32 = 0;
pub(super) const PROMISE_FULFILLED: u32 = 1;
pub(super) const PROMISE_REJECTED: u32 = 2;
