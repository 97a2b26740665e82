//! A collection of reusable objects in which each thread prefers the objects that it used last.
//!
//! An object that another processor has written to moves into this processor's cache line by line. When instances were
//! passed between threads, two threads achieved 1.3 times the throughput of one, and not 1.8 times.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
};

pub(crate) struct Reuse<T> {
    /// Each object with the thread that used it last, in the order in which they were given back.
    unused: Mutex<Vec<(ThreadId, T)>>,
    max_count: usize,
}

impl<T> Reuse<T> {
    /// Creates an empty collection with room for `max_count` objects.
    pub(crate) fn new(max_count: usize) -> Self {
        Self { unused: Mutex::default(), max_count }
    }

    /// Takes the object that this thread gave back last, or else the last one of any thread.
    pub(crate) fn take(&self) -> Option<T> {
        let mut unused = self.lock();
        let thread = thread::current().id();
        let at = unused.iter().rposition(|(user, _)| *user == thread).or(unused.len().checked_sub(1))?;
        Some(unused.remove(at).1)
    }

    /// Stores an object, or drops it if the collection is full.
    pub(crate) fn give(&self, used: T) {
        let mut unused = self.lock();
        if unused.len() < self.max_count {
            unused.push((thread::current().id(), used));
        } else {
            // Drops the object outside the lock.
            drop(unused);
            drop(used);
        }
    }

    /// Takes all objects.
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
