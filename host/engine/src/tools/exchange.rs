//! Where tools' threads put what their handlers answered.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use glovebox_core::tools::{Answer, Held};

use super::Account;
use crate::CancelToken;

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
