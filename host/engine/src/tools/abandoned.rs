//! Memory of abandoned calls, for which the execution no longer waits.
//!
//! While an execution runs, the arguments of its calls are charged to the guest's memory. A handler that does not
//! return holds its arguments longer. Once the call is abandoned, the arguments are charged to the call's origin until
//! the handler returns.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use glovebox_core::tools::{Admission, CallFailure};

use super::ToolErrorKind;

/// Maximum number of one origin's abandoned calls that still run. An origin that has reached this limit cannot make
/// further calls.
const MAX_ORIGIN_CALLS: usize = 16;

/// Maximum total size of the arguments of one origin's abandoned calls and of one execution's running calls, in bytes.
/// A call may exceed this limit if no other call is counted. In that case, only the limit on its text bounds its size.
const MAX_ORIGIN_BYTES: u64 = 16 << 20;

/// Maximum total size of the arguments for all origins, in bytes. Each origin is charged at most its own maximum, so no
/// single origin can exhaust this limit.
const MAX_BYTES: u64 = 64 << 20;

/// The origin of calls: a session ID, or `None` for executions without one.
pub(super) type Origin = Option<String>;

/// A sandbox's abandoned calls that still run.
#[derive(Debug, Default)]
pub(super) struct AbandonedCalls(Mutex<BTreeMap<Origin, AbandonedShare>>);

/// The number and size of one origin's abandoned calls.
#[derive(Clone, Copy, Debug, Default)]
struct AbandonedShare {
    calls: usize,
    bytes: u64,
}

impl AbandonedCalls {
    /// Decides whether a call with `bytes` of arguments can start now. `running_bytes` is the size of the arguments of
    /// the execution's running calls, or 0 if none runs.
    pub(super) fn admit(&self, origin: &Origin, bytes: u64, running_bytes: u64) -> Result<Admission, CallFailure> {
        let shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = shares.get(origin).copied().unwrap_or_default();
        if own.calls >= MAX_ORIGIN_CALLS {
            let whose = if origin.is_some() { "this session's" } else { "the host's" };
            return Err(refused(&format!("{} of {whose} abandoned calls are still running", own.calls)));
        }
        let sum = own.bytes.saturating_add(running_bytes).saturating_add(bytes);
        let is_alone = sum == bytes;
        let others = shares.iter().filter(|(of, _)| *of != origin).map(|(_, share)| share.bytes.min(MAX_ORIGIN_BYTES));
        let all = others.sum::<u64>().saturating_add(sum.min(MAX_ORIGIN_BYTES));
        if (sum <= MAX_ORIGIN_BYTES || is_alone) && all <= MAX_BYTES {
            return Ok(Admission::Now);
        }
        if running_bytes > 0 {
            return Ok(Admission::Later);
        }
        let max = if all > MAX_BYTES { MAX_BYTES } else { MAX_ORIGIN_BYTES };
        Err(refused(&format!("the arguments of this call and of abandoned calls need more than {max} bytes")))
    }

    pub(super) fn add(&self, origin: &Origin, bytes: u64) {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let share = shares.entry(origin.clone()).or_default();
        share.calls += 1;
        share.bytes = share.bytes.saturating_add(bytes);
    }

    pub(super) fn remove(&self, origin: &Origin, bytes: u64) {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(share) = shares.get_mut(origin) else { return };
        share.calls = share.calls.saturating_sub(1);
        share.bytes = share.bytes.saturating_sub(bytes);
        if share.calls == 0 {
            shares.remove(origin);
        }
    }
}

fn refused(reason: &str) -> CallFailure {
    CallFailure::new(ToolErrorKind::Limit, format!("{reason}; wait for their handlers to return"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str) -> Origin {
        Some(name.to_owned())
    }

    /// Returns the message of a rejection.
    fn refusal(answer: Result<Admission, CallFailure>) -> String {
        let failure = answer.unwrap_err();
        assert_eq!(failure.kind, ToolErrorKind::Limit);
        failure.message
    }

    #[test]
    fn abandoned_calls_of_an_origin_are_limited() {
        let (abandoned, own) = (AbandonedCalls::default(), origin("a"));
        for calls in 0..16 {
            assert_eq!(abandoned.admit(&own, 1, 0), Ok(Admission::Now), "{calls}");
            abandoned.add(&own, 1);
        }
        assert!(
            refusal(abandoned.admit(&own, 1, 0)).contains("16 of this session's abandoned calls are still running")
        );
        assert!(refusal(abandoned.admit(&own, 1, 9)).contains("16 of"), "a running call does not delay the refusal");
        for other in [origin("b"), None] {
            assert_eq!(abandoned.admit(&other, 1, 0), Ok(Admission::Now), "other origins are not affected");
        }
        abandoned.remove(&own, 1);
        assert_eq!(abandoned.admit(&own, 1, 0), Ok(Admission::Now), "usable after");
    }

    #[test]
    fn abandoned_bytes_of_an_origin_are_limited() {
        let (abandoned, own) = (AbandonedCalls::default(), origin("a"));
        abandoned.add(&own, 6 << 20);
        for (more, fits) in [(-1, true), (0, true), (1, false)] {
            let bytes = (10_u64 << 20).saturating_add_signed(more);
            assert_eq!(abandoned.admit(&own, bytes, 0).is_ok(), fits, "{more}");
            assert_eq!(
                abandoned.admit(&own, bytes - 9, 9),
                Ok(if fits { Admission::Now } else { Admission::Later }),
                "{more}"
            );
        }
        assert!(refusal(abandoned.admit(&own, 11 << 20, 0)).contains("of this call and of abandoned calls"));
        assert_eq!(abandoned.admit(&origin("b"), 11 << 20, 0), Ok(Admission::Now), "other origins are not affected");
        abandoned.remove(&own, 6 << 20);
        assert_eq!(abandoned.admit(&own, 11 << 20, 0), Ok(Admission::Now), "usable after");
    }

    #[test]
    fn single_abandoned_call_may_be_large() {
        let (abandoned, own) = (AbandonedCalls::default(), origin("a"));
        assert_eq!(abandoned.admit(&own, 100 << 20, 0), Ok(Admission::Now));
        assert_eq!(abandoned.admit(&own, 100 << 20, 1), Ok(Admission::Later));
        abandoned.add(&own, 1);
        assert!(abandoned.admit(&own, 100 << 20, 0).is_err());
    }

    #[test]
    fn abandoned_bytes_of_all_origins_are_shared_fairly() {
        let (abandoned, own) = (AbandonedCalls::default(), origin("z"));
        abandoned.add(&origin("a"), 1 << 40);
        assert_eq!(
            abandoned.admit(&own, 100 << 20, 0),
            Ok(Admission::Now),
            "one origin cannot use the share of another"
        );
        for name in ["b", "c"] {
            abandoned.add(&origin(name), 16 << 20);
        }
        abandoned.add(&None, 15 << 20);
        for (more, fits) in [(-1, true), (0, true), (1, false)] {
            assert_eq!(abandoned.admit(&own, (1_u64 << 20).saturating_add_signed(more), 0).is_ok(), fits, "{more}");
        }
        assert!(refusal(abandoned.admit(&own, 2 << 20, 0)).contains("of this call and of abandoned calls"));
        assert_eq!(abandoned.admit(&own, 2 << 20, 1), Ok(Admission::Later));
        abandoned.remove(&origin("a"), 1 << 40);
        assert_eq!(abandoned.admit(&own, 16 << 20, 0), Ok(Admission::Now), "usable after");
    }
}
