//! Where tools' threads put what their handlers answered.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use glovebox_core::tools::Held;

use super::{Account, ToolErrorKind, error::Failure, reply::Answer};
use crate::CancelToken;

/// What an unread reply takes beside its text.
const REPLY_BYTES: u64 = 256;

/// What the threads of one execution share.
#[derive(Debug)]
pub(super) struct Exchange {
    done: Mutex<Vec<Done>>,
    /// Whoever waits for an answer waits for this token as well.
    wake: CancelToken,
    pub(super) account: Arc<Account>,
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

impl Exchange {
    pub(super) fn new(wake: CancelToken) -> Arc<Self> {
        Arc::new(Self { done: Mutex::default(), wake, account: Arc::default() })
    }

    /// Takes room for an answer; one that there is no room for becomes a failure that says so. A failure's own few bytes
    /// are held whatever there is: it must be told.
    pub(super) fn hold_answer(&self, answer: Answer) -> (Answer, Held) {
        let length =
            |answer: &Answer| REPLY_BYTES + answer.as_ref().map_or_else(|no| no.message.len(), String::len) as u64;
        if let Some(held) = self.account.hold(length(&answer)) {
            return (answer, held);
        }
        let answer = answer.and_then(|_| {
            let what = "the host has no room for the result: `limits.memory_bytes` counts it until it is read";
            Err(Failure::new(ToolErrorKind::Limit, what))
        });
        let held = self.account.hold_anyway(length(&answer));
        (answer, held)
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
