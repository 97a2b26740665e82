//! What executions use one after another, each thread rather what it has used before.
//!
//! A thing that another processor has written to comes back into this one's cache line by line: handed from thread to thread, instances
//! made two threads do 1.3 times what one does, and not 1.8 times.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

/// Things to use again.
pub(crate) struct Reuse<T> {
    /// Each with the thread that used it last, in the order in which they were given.
    unused: Mutex<Vec<(ThreadId, T)>>,
    max_count: usize,
}

impl<T> Reuse<T> {
    /// None yet, and never more than so many.
    pub(crate) fn new(max_count: usize) -> Self {
        Self { unused: Mutex::default(), max_count }
    }

    /// The last one that this thread has used, or else that any has.
    pub(crate) fn take(&self) -> Option<T> {
        let mut unused = self.lock();
        let thread = thread::current().id();
        let at = unused.iter().rposition(|(user, _)| *user == thread).or(unused.len().checked_sub(1))?;
        Some(unused.remove(at).1)
    }

    /// Stores it, or drops it where there are enough.
    pub(crate) fn give(&self, used: T) {
        let mut unused = self.lock();
        if unused.len() < self.max_count {
            unused.push((thread::current().id(), used));
        } else {
            // Outside the lock.
            drop(unused);
            drop(used);
        }
    }

    /// Takes them all.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = T> + use<T> {
        mem::take(&mut *self.lock()).into_iter().map(|(_, used)| used)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(ThreadId, T)>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_another_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn a_thread_gets_what_it_used_last_and_else_what_any_did() {
        let reuse = Reuse::new(4);
        assert_eq!(reuse.take(), None);
        reuse.give(1);
        reuse.give(2);
        on_another_thread(|| reuse.give(3));
        assert_eq!(reuse.take(), Some(2));
        assert_eq!(reuse.take(), Some(1));
        assert_eq!(reuse.take(), Some(3));
        assert_eq!(reuse.take(), None);
        (1..=2).for_each(|each| reuse.give(each));
        assert_eq!(on_another_thread(|| [reuse.take(), reuse.take(), reuse.take()]), [Some(2), Some(1), None]);
    }

    #[test]
    fn no_more_are_held_than_allowed() {
        let reuse = Reuse::new(2);
        (1..=3).for_each(|each| reuse.give(each));
        assert_eq!(reuse.take_all().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(reuse.take(), None);
    }
}
