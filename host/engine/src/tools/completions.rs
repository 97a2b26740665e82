//! Where tools' threads put what their handlers answered.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use glovebox_core::{Watch as _, tools::Done};

use super::Account;
use crate::{CancelToken, stopwatch::Stopwatch};

/// What the threads of one execution share.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    done: Mutex<Vec<Done>>,
    /// Whoever waits for an answer waits for this token as well.
    wake: CancelToken,
    pub(super) account: Arc<Account>,
    watch: Stopwatch,
}

impl CompletionQueue {
    pub(super) fn new(wake: CancelToken, account: Arc<Account>, watch: Stopwatch) -> Arc<Self> {
        Arc::new(Self { done: Mutex::default(), wake, account, watch })
    }

    /// How long the execution has lasted.
    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
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
