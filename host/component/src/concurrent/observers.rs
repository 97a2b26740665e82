//! The tasks that wait for a started execution.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Wake, Waker},
};

/// The tasks that wait for the output, the calls or the end of one execution. Each event wakes all of them.
#[derive(Debug, Default)]
pub(super) struct Observers(Mutex<WaitingTasks>);

#[derive(Debug, Default)]
struct WaitingTasks {
    next_key: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// The registration of one task. Dropping the registration removes the task's waker, so that dropped streams and calls
/// leave no wakers behind.
#[derive(Debug)]
pub(super) struct Observer {
    observers: Arc<Observers>,
    key: u64,
}

impl Observers {
    fn tasks(&self) -> MutexGuard<'_, WaitingTasks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn observer(self: &Arc<Self>) -> Observer {
        let mut tasks = self.tasks();
        tasks.next_key += 1;
        Observer { observers: Arc::clone(self), key: tasks.next_key }
    }

    pub(super) fn wake_all(&self) {
        let wakers = mem::take(&mut self.tasks().wakers);
        wakers.into_values().for_each(Waker::wake);
    }
}

impl Wake for Observers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }
}

impl Observer {
    /// Registers the task of `context`, so that the next event wakes it. Call this before reading the execution's
    /// state, so that no event is missed.
    pub(super) fn observe(&self, context: &Context<'_>) {
        let waker = context.waker().clone();
        let earlier = self.observers.tasks().wakers.insert(self.key, waker);
        // The lock is not held here: dropping the last waker of a task can drop the task, which takes the lock to
        // remove its observers.
        drop(earlier);
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        let waker = self.observers.tasks().wakers.remove(&self.key);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn each_observer_is_woken_once_per_observation_and_leaves_nothing_behind() {
        let (observers, wakes) = (Arc::new(Observers::default()), Arc::new(WakeCounter::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let context = Context::from_waker(&waker);
        let (first, second) = (observers.observer(), observers.observer());
        first.observe(&context);
        first.observe(&context);
        second.observe(&context);
        Waker::from(Arc::clone(&observers)).wake_by_ref();
        observers.wake_all();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        first.observe(&context);
        drop(first);
        observers.wake_all();
        assert_eq!(wakes.0.load(Ordering::SeqCst), 2);
        assert!(observers.tasks().wakers.is_empty());
    }
}
