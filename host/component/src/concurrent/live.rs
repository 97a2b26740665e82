//! The state of a running execution that its streams read, and the tasks that wait for the execution.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Wake, Waker},
};

use glovebox::{Display, Request, Started};
use glovebox_core::{decode_display, is_display};

/// The observers of a started execution, and its displays while it runs.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveExecution {
    observers: Arc<Observers>,
    displays: Arc<LiveDisplays>,
}

/// The displays of a running execution, as the guest's messages. Their total size is at most `limits.display_bytes`,
/// which the execution's share of the byte quota includes.
#[derive(Debug)]
struct LiveDisplays(Mutex<Option<Vec<Arc<[u8]>>>>);

/// A guard that frees the live displays when it is dropped: when the caller can see the result, which contains them.
struct FreeGuard(Arc<LiveDisplays>);

impl Drop for FreeGuard {
    fn drop(&mut self) {
        let displays = self.0.messages().take();
        drop(displays);
    }
}

impl Default for LiveDisplays {
    fn default() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }
}

impl LiveDisplays {
    fn messages(&self) -> MutexGuard<'_, Option<Vec<Arc<[u8]>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveExecution {
    pub(super) fn observers(&self) -> &Arc<Observers> {
        &self.observers
    }

    /// Sets the listeners of a request, so that output and displays wake the observers.
    pub(super) fn listen<'a>(&self, request: Request<'a>) -> Request<'a> {
        let (observers, live) = (Arc::clone(&self.observers), self.clone());
        let request = request.on_output(move |_, _| observers.wake_all());
        let request = request.on_display_message(move |message| live.add(message));
        request.after_end(FreeGuard(Arc::clone(&self.displays)))
    }

    /// Makes the calls to the component's tools and the end of the execution wake the observers.
    pub(super) fn observe(&self, started: &Started) {
        started.pending().observe(Waker::from(Arc::clone(&self.observers)));
    }

    /// Adds a display. Ignores an invalid message, so that the indices are those of the result.
    fn add(&self, message: &[u8]) {
        if !is_display(message) {
            return;
        }
        if let Some(messages) = &mut *self.displays.messages() {
            messages.push(message.into());
        }
        self.observers.wake_all();
    }

    /// Returns the number of displays so far, or `None` once the execution has ended.
    pub(super) fn display_count(&self) -> Option<usize> {
        self.displays.messages().as_ref().map(Vec::len)
    }

    /// Returns a display, or `None` if it does not exist yet or the execution has ended.
    pub(super) fn display(&self, index: usize) -> Option<Display> {
        let message = Arc::clone(self.displays.messages().as_ref()?.get(index)?);
        decode_display(&message)
    }
}

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

    /// Returns the message of a display with one form.
    fn message(text: &str) -> Vec<u8> {
        let mut message = vec![b'D'];
        for field in ["text/plain", text] {
            message.extend(u32::try_from(field.len()).unwrap().to_le_bytes());
            message.extend(field.as_bytes());
        }
        message
    }

    #[test]
    fn displays_keep_their_indices_and_are_freed_at_the_end() {
        let live = LiveExecution::default();
        live.add(&message("one"));
        live.add(b"invalid");
        live.add(&message("two"));
        assert_eq!(live.display_count(), Some(2));
        let text = |index| Some(live.display(index)?.data("text/plain")?.to_vec());
        assert_eq!((text(0), text(1), text(2)), (Some(b"one".to_vec()), Some(b"two".to_vec()), None));
        drop(FreeGuard(Arc::clone(&live.displays)));
        live.add(&message("late"));
        assert_eq!((live.display_count(), text(0)), (None, None));
    }

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
