//! Memory of abandoned calls, whose execution no longer waits for them.
//!
//! While an execution runs, the arguments of its calls count as the guest's memory. A handler that does not return
//! holds them longer. Here they count towards the origin of the call until the handler returns.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use glovebox_core::tools::{Failure, Turn};

use super::ToolErrorKind;

/// Maximum number of abandoned calls of one origin that still run when it makes another call.
const MAX_ORIGIN_CALLS: usize = 16;

/// Maximum size of the arguments of one origin's abandoned calls together with the running calls of one execution, in
/// bytes. A call that runs alone may exceed it, up to the size that its text can reach when parsed.
const MAX_ORIGIN_BYTES: u64 = 16 << 20;

/// Maximum size for all origins together, in bytes. Each origin counts with at most its own maximum, so no single
/// origin can exhaust it.
const MAX_BYTES: u64 = 64 << 20;

/// Origin of calls: a session, or `None` for executions without a session id.
pub(super) type Origin = Option<String>;

/// The abandoned calls of a sandbox that still run.
#[derive(Debug, Default)]
pub(super) struct Abandoned(Mutex<BTreeMap<Origin, Share>>);

/// The abandoned calls of one origin.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    calls: usize,
    bytes: u64,
}

impl Abandoned {
    /// Decides whether a call with arguments of `bytes` may start beside the running calls of its execution, whose
    /// arguments take `running_bytes` (0 if no call runs).
    pub(super) fn admit(&self, origin: &Origin, bytes: u64, running_bytes: u64) -> Result<Turn, Failure> {
        let shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = shares.get(origin).copied().unwrap_or_default();
        if own.calls >= MAX_ORIGIN_CALLS {
            let whose = if origin.is_some() { "this session's" } else { "the host's" };
            return Err(refused(&format!("{} of {whose} calls", own.calls)));
        }
        let sum = own.bytes.saturating_add(running_bytes).saturating_add(bytes);
        let is_alone = sum == bytes;
        let others = shares.iter().filter(|(of, _)| *of != origin).map(|(_, share)| share.bytes.min(MAX_ORIGIN_BYTES));
        let all = others.sum::<u64>().saturating_add(sum.min(MAX_ORIGIN_BYTES));
        if (sum <= MAX_ORIGIN_BYTES || is_alone) && all <= MAX_BYTES {
            return Ok(Turn::Now);
        }
        if running_bytes > 0 {
            return Ok(Turn::Later);
        }
        Err(refused("calls with too many bytes of arguments"))
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

fn refused(what: &str) -> Failure {
    Failure::new(ToolErrorKind::Limit, format!("{what} were abandoned and still run; try again later"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(name: &str) -> Origin {
        Some(name.to_owned())
    }

    /// Returns the message of a refusal.
    fn refusal(answer: Result<Turn, Failure>) -> String {
        let failure = answer.unwrap_err();
        assert_eq!(failure.kind, ToolErrorKind::Limit);
        failure.message
    }

    #[test]
    fn an_origin_has_so_many_calls() {
        let (abandoned, own) = (Abandoned::default(), origin("a"));
        for calls in 0..16 {
            assert_eq!(abandoned.admit(&own, 1, 0), Ok(Turn::Now), "{calls}");
            abandoned.add(&own, 1);
        }
        assert!(refusal(abandoned.admit(&own, 1, 0)).contains("16 of this session's calls were abandoned"));
        assert!(refusal(abandoned.admit(&own, 1, 9)).contains("16 of"), "waiting does not help it");
        for other in [origin("b"), None] {
            assert_eq!(abandoned.admit(&other, 1, 0), Ok(Turn::Now), "others are not shut out");
        }
        abandoned.remove(&own, 1);
        assert_eq!(abandoned.admit(&own, 1, 0), Ok(Turn::Now), "usable after");
    }

    #[test]
    fn an_origin_has_so_many_bytes() {
        let (abandoned, own) = (Abandoned::default(), origin("a"));
        abandoned.add(&own, 6 << 20);
        for (more, fits) in [(-1, true), (0, true), (1, false)] {
            let bytes = (10_u64 << 20).saturating_add_signed(more);
            assert_eq!(abandoned.admit(&own, bytes, 0).is_ok(), fits, "{more}");
            assert_eq!(abandoned.admit(&own, bytes - 9, 9), Ok(if fits { Turn::Now } else { Turn::Later }), "{more}");
        }
        assert!(refusal(abandoned.admit(&own, 11 << 20, 0)).contains("bytes of arguments"));
        assert_eq!(abandoned.admit(&origin("b"), 11 << 20, 0), Ok(Turn::Now), "others are not shut out");
        abandoned.remove(&own, 6 << 20);
        assert_eq!(abandoned.admit(&own, 11 << 20, 0), Ok(Turn::Now), "usable after");
    }

    #[test]
    fn a_call_that_is_alone_may_be_large() {
        let (abandoned, own) = (Abandoned::default(), origin("a"));
        assert_eq!(abandoned.admit(&own, 100 << 20, 0), Ok(Turn::Now));
        assert_eq!(abandoned.admit(&own, 100 << 20, 1), Ok(Turn::Later));
        abandoned.add(&own, 1);
        assert!(abandoned.admit(&own, 100 << 20, 0).is_err());
    }

    #[test]
    fn all_origins_together_have_so_many_bytes_and_one_cannot_take_them() {
        let (abandoned, own) = (Abandoned::default(), origin("z"));
        abandoned.add(&origin("a"), 1 << 40);
        assert_eq!(abandoned.admit(&own, 100 << 20, 0), Ok(Turn::Now), "one has its share");
        for name in ["b", "c"] {
            abandoned.add(&origin(name), 16 << 20);
        }
        abandoned.add(&None, 15 << 20);
        for (more, fits) in [(-1, true), (0, true), (1, false)] {
            assert_eq!(abandoned.admit(&own, (1_u64 << 20).saturating_add_signed(more), 0).is_ok(), fits, "{more}");
        }
        assert!(refusal(abandoned.admit(&own, 2 << 20, 0)).contains("bytes of arguments"));
        assert_eq!(abandoned.admit(&own, 2 << 20, 1), Ok(Turn::Later));
        abandoned.remove(&origin("a"), 1 << 40);
        assert_eq!(abandoned.admit(&own, 16 << 20, 0), Ok(Turn::Now), "usable after");
    }
}
