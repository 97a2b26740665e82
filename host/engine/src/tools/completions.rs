//! The queue of answers from tool threads.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use glovebox_core::{Watch as _, tools::Done};

use super::Account;
use crate::{CancelToken, exec::stopwatch::Stopwatch};

/// State that the threads of one execution share.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    done: Mutex<Vec<Done>>,
    /// Token that the execution waits on together with the answers.
    wake: CancelToken,
    pub(super) account: Arc<Account>,
    watch: Stopwatch,
}

impl CompletionQueue {
    pub(super) fn new(wake: CancelToken, account: Arc<Account>, watch: Stopwatch) -> Arc<Self> {
        Arc::new(Self { done: Mutex::default(), wake, account, watch })
    }

    /// Returns the time since the start of the execution.
    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Adds an answer, and wakes the execution if it waits for it.
    pub(super) fn put(&self, done: Done) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
        self.wake.wake();
    }

    /// Takes all answers, in the order of their arrival.
    pub(super) fn take(&self) -> Vec<Done> {
        std::mem::take(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns `true` if there is an answer.
    pub(super) fn has_answer(&self) -> bool {
        !self.done.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
