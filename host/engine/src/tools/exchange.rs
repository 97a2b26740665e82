//! Where tools' threads put what their handlers answered, and what the host holds for a guest's calls.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use super::{ToolErrorKind, error::Failure, reply::Answer};
use crate::CancelToken;

/// What an unread reply takes beside its text.
const REPLY_BYTES: u64 = 256;

/// What the threads of one execution share.
#[derive(Debug)]
pub(super) struct Exchange {
    done: Mutex<Vec<Done>>,
    /// Whoever waits for an answer waits for this token as well.
    wake: CancelToken,
    held_bytes: AtomicU64,
    room_bytes: AtomicU64,
}

/// A call whose handler has answered.
#[derive(Debug)]
pub(super) struct Done {
    /// Which call of the execution.
    pub(super) index: usize,
    pub(super) answer: Answer,
    /// What is held for the answer.
    pub(super) held: Held,
    pub(super) ended: Instant,
}

/// Bytes that are held for a guest, for as long as this lives.
#[derive(Debug)]
pub(super) struct Held {
    exchange: Arc<Exchange>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.exchange.held_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Exchange {
    pub(super) fn new(wake: CancelToken) -> Arc<Self> {
        Arc::new(Self { done: Mutex::default(), wake, held_bytes: AtomicU64::new(0), room_bytes: AtomicU64::new(0) })
    }

    /// What is held now.
    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::SeqCst)
    }

    /// How much may be held: what the guest's memory limit leaves beside everything else of the guest.
    pub(super) fn set_room(&self, bytes: u64) {
        self.room_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Takes room for `bytes`; none where there is no room.
    pub(super) fn hold(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        let room = self.room_bytes.load(Ordering::SeqCst);
        let fits = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= room);
        let taken = self.held_bytes.try_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok();
        taken.then(|| Held { exchange: Arc::clone(self), bytes })
    }

    /// Takes room for an answer; one that there is no room for becomes a failure that says so. A failure's own few bytes
    /// are held whatever there is: it must be told.
    pub(super) fn hold_answer(self: &Arc<Self>, answer: Answer) -> (Answer, Held) {
        let length =
            |answer: &Answer| REPLY_BYTES + answer.as_ref().map_or_else(|no| no.message.len(), String::len) as u64;
        if let Some(held) = self.hold(length(&answer)) {
            return (answer, held);
        }
        let answer = answer.and_then(|_| {
            let what = "the host has no room for the result: `limits.memory_bytes` counts it until it is read";
            Err(Failure::new(ToolErrorKind::Limit, what))
        });
        let bytes = length(&answer);
        self.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        (answer, Held { exchange: Arc::clone(self), bytes })
    }

    /// Puts an answer down and wakes who waits for it.
    pub(super) fn put(&self, done: Done) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        self.wake.wake();
    }

    /// Takes all answers, in the order in which they came.
    pub(super) fn take(&self) -> Vec<Done> {
        std::mem::take(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether an answer is there.
    pub(super) fn has_answer(&self) -> bool {
        !self.done.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_has_a_bound() {
        let exchange = Exchange::new(CancelToken::new());
        exchange.set_room(100);
        let first = exchange.hold(99).unwrap();
        assert!(exchange.hold(2).is_none(), "over");
        let second = exchange.hold(1).expect("at");
        assert!(exchange.hold(u64::MAX).is_none(), "a sum that wraps fits nowhere");
        drop(first);
        assert_eq!(exchange.held_bytes(), 1);
        assert!(exchange.hold(99).is_some(), "usable after");
        drop(second);
        assert_eq!(exchange.held_bytes(), 0);
    }
}
