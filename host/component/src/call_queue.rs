//! The queue of a component's calls, which limits the number of calls that run at the same time.
//!
//! A waiting call has no thread. The threads take the calls in order, each thread one call after the other. A call may
//! wait only if the running calls can end without it. Calls that start or suspend an execution, and calls of tools, do
//! not wait: a started script may wait for the component's answer.
//!
//! A running call never waits for a call in the queue. It can wait for an earlier call of its session that the
//! component has dropped. The dropped call is running, so it ends soon: a dropped call in the queue is removed at once.
//!
//! When the deadline of a waiting call passes, the call begins at once, in addition to the running calls. When the
//! component's sandbox is cancelled, all waiting calls begin. These calls run one after the other on one thread. Their
//! scripts are cancelled before they start.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use glovebox::internal::{Job, ThreadPool, run_caught};

/// The waiting calls of one component, and the number of its running calls.
pub(super) struct CallQueue {
    threads: Arc<ThreadPool>,
    /// Maximum number of running calls.
    max: usize,
    state: Mutex<QueueState>,
    /// Wakes the thread that watches the deadlines.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    /// The number of threads that take calls from the queue.
    running: usize,
    last_key: u64,
    /// The waiting calls. Keys increase, so the first call is the oldest one.
    waiting: BTreeMap<u64, WaitingCall>,
    /// The time at which the thread that watches the deadlines checks them. `None` if there is no such thread.
    next_check: Option<Instant>,
    is_cancelled: bool,
}

struct WaitingCall {
    job: Job,
    /// The deadline, or the time of the cancellation.
    due: Option<Instant>,
}

impl WaitingCall {
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

/// The place of a call in the queue.
pub(super) struct QueueTicket {
    queue: Arc<CallQueue>,
    key: u64,
}

impl CallQueue {
    /// Creates a queue. At most `max` of its calls run at the same time, but at least one.
    pub(super) fn new(threads: &Arc<ThreadPool>, max: u32) -> Arc<Self> {
        let max = usize::try_from(max.max(1)).unwrap_or(usize::MAX);
        Arc::new(Self { threads: Arc::clone(threads), max, state: Mutex::default(), changed: Condvar::new() })
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pool whose threads run the calls.
    pub(super) fn threads(&self) -> &Arc<ThreadPool> {
        &self.threads
    }

    /// Adds a call, which runs as soon as all earlier calls have begun and fewer than the maximum are running, and no
    /// later than at the deadline `due`.
    ///
    /// # Errors
    /// Fails if no call is running and no thread can be started. The call is then dropped.
    pub(super) fn push(self: &Arc<Self>, job: Job, due: Option<Instant>) -> io::Result<QueueTicket> {
        let mut state = self.state();
        state.last_key += 1;
        let key = state.last_key;
        let due = if state.is_cancelled { Some(Instant::now()) } else { due };
        state.waiting.insert(key, WaitingCall { job, due });
        let has_started = if state.running < self.max {
            let queue = Arc::clone(self);
            // Holds the lock while a thread is started. Otherwise a call that is added meanwhile could wait for this
            // thread, even if it cannot be started.
            self.threads.run(Box::new(move || queue.work())).map(|()| true)
        } else {
            Ok(false)
        };
        match has_started {
            Ok(true) => state.running += 1,
            Err(error) if state.running == 0 => {
                let call = state.waiting.remove(&key);
                drop(state);
                drop(call);
                return Err(error);
            }
            // A running call's thread will take the call.
            Ok(false) | Err(_) => {
                if let Some(due) = due {
                    self.check_at(&mut state, due);
                }
            }
        }
        drop(state);
        Ok(QueueTicket { queue: Arc::clone(self), key })
    }

    /// Runs calls until none is waiting.
    fn work(&self) {
        while let Some(call) = self.next() {
            run_caught(call.job);
        }
    }

    /// Takes the oldest call. If none is waiting, the thread leaves the queue.
    fn next(&self) -> Option<WaitingCall> {
        let mut state = self.state();
        let oldest = state.waiting.pop_first();
        if oldest.is_none() {
            state.running -= 1;
        }
        self.release_watch(&state);
        oldest.map(|(_, call)| call)
    }

    /// Lets all waiting and later calls begin, because the component's sandbox was cancelled.
    pub(super) fn cancel(self: &Arc<Self>) {
        let (mut state, now) = (self.state(), Instant::now());
        state.is_cancelled = true;
        state.waiting.values_mut().for_each(|call| call.due = Some(now));
        if !state.waiting.is_empty() {
            self.check_at(&mut state, now);
        }
    }

    /// Makes a thread check the deadlines at a given time, or earlier.
    fn check_at(self: &Arc<Self>, state: &mut QueueState, due: Instant) {
        match state.next_check {
            Some(at) if at <= due => {}
            Some(_) => {
                state.next_check = Some(due);
                self.changed.notify_all();
            }
            None => {
                let queue = Arc::clone(self);
                // If no thread can be started, the calls wait for the running calls.
                let is_watched = self.threads.run(Box::new(move || queue.watch())).is_ok();
                state.next_check = is_watched.then_some(due);
            }
        }
    }

    /// Runs the calls that are due, until no waiting call has a deadline.
    fn watch(&self) {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let due = state.waiting.iter().find(|(_, call)| call.is_due(now)).map(|(key, _)| *key);
            if let Some(call) = due.and_then(|key| state.waiting.remove(&key)) {
                drop(state);
                run_caught(call.job);
                state = self.state();
                continue;
            }
            state.next_check = state.waiting.values().filter_map(|call| call.due).min();
            let Some(at) = state.next_check else { return };
            let left = at.saturating_duration_since(now);
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread that watches the deadlines, if no call is waiting.
    fn release_watch(&self, state: &QueueState) {
        if state.waiting.is_empty() && state.next_check.is_some() {
            self.changed.notify_all();
        }
    }
}

impl QueueTicket {
    /// Removes the call from the queue and drops it. Does nothing if the call has begun.
    pub(super) fn withdraw(&self) {
        let mut state = self.queue.state();
        let call = state.waiting.remove(&self.key);
        self.queue.release_watch(&state);
        drop(state);
        drop(call);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        time::Duration,
    };

    use super::*;

    /// A queue with calls that last until they are allowed to end.
    struct Calls {
        queue: Arc<CallQueue>,
        /// Receives the number of each call that begins.
        begun: mpsc::Receiver<usize>,
        begins: mpsc::Sender<usize>,
    }

    impl Calls {
        fn new(max: u32) -> Self {
            let (begins, begun) = mpsc::channel();
            Self { queue: CallQueue::new(&Arc::default(), max), begun, begins }
        }

        /// Adds a call. The call ends when the returned sender is dropped.
        fn add(&self, number: usize) -> (QueueTicket, mpsc::Sender<()>) {
            self.add_due(number, None)
        }

        /// Adds a call with a deadline.
        fn add_due(&self, number: usize, due: Option<Instant>) -> (QueueTicket, mpsc::Sender<()>) {
            let (end, ended) = mpsc::channel::<()>();
            let begins = self.begins.clone();
            let call = move || {
                begins.send(number).unwrap();
                ended.recv().unwrap_err();
            };
            (self.queue.push(Box::new(call), due).unwrap(), end)
        }

        /// Waits until `count` more calls have begun, and returns their numbers in order.
        fn begun(&self, count: usize) -> Vec<usize> {
            let mut numbers: Vec<_> = (0..count).map(|_| self.begun.recv().unwrap()).collect();
            numbers.sort_unstable();
            numbers
        }

        fn waiting(&self) -> usize {
            self.queue.state().waiting.len()
        }

        /// Waits until no thread watches the deadlines.
        fn wait_for_unwatched(&self) {
            while self.queue.state().next_check.is_some() {
                std::thread::yield_now();
            }
        }

        /// Waits until no call is running.
        fn wait_for_end(&self) {
            while self.queue.state().running > 0 {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn calls_beyond_the_maximum_wait_in_order() {
        for (count, begun) in [(2, 2), (3, 3), (4, 3), (20, 3)] {
            let calls = Calls::new(3);
            let mut added: Vec<_> = (0..count).map(|number| calls.add(number)).collect();
            assert_eq!(calls.begun(begun), (0..begun).collect::<Vec<_>>(), "{count}");
            assert_eq!(calls.waiting(), count - begun);
            for next in begun..count {
                // The oldest call ends, so that the next one begins.
                drop(added.remove(0));
                assert_eq!(calls.begun(1), [next]);
                assert_eq!(calls.waiting(), count - next - 1);
            }
            drop(added);
            calls.wait_for_end();
            drop(calls.add(0));
            assert_eq!(calls.begun(1), [0], "usable after");
        }
    }

    #[test]
    fn maximum_of_zero_is_one() {
        let calls = Calls::new(0);
        let first = calls.add(0);
        let second = calls.add(1);
        assert_eq!((calls.begun(1), calls.waiting()), (vec![0], 1));
        drop(first);
        assert_eq!(calls.begun(1), [1]);
        drop(second);
    }

    #[test]
    fn withdrawn_call_is_dropped_at_once_and_does_not_run() {
        let calls = Calls::new(1);
        let running = calls.add(0);
        assert_eq!(calls.begun(1), [0]);
        let held = Arc::new(());
        let share = Arc::clone(&held);
        let ticket = calls.queue.push(Box::new(move || drop(share)), None).unwrap();
        let last = calls.add(2);
        ticket.withdraw();
        assert_eq!((Arc::strong_count(&held), calls.waiting()), (1, 1));
        running.0.withdraw();
        ticket.withdraw();
        drop(running);
        assert_eq!(calls.begun(1), [2]);
        drop(last);
    }

    #[test]
    fn panic_does_not_occupy_a_place() {
        let calls = Calls::new(1);
        let running = calls.add(0);
        calls.begun(1);
        calls.queue.push(Box::new(|| panic!("expected by a test")), None).unwrap();
        let last = calls.add(1);
        drop(running);
        assert_eq!(calls.begun(1), [1]);
        drop(last);
        calls.wait_for_end();
    }

    #[test]
    fn call_begins_at_its_deadline() {
        let calls = Calls::new(1);
        let hour = Duration::from_secs(3_600);
        let running = calls.add(0);
        assert_eq!(calls.begun(1), [0]);
        let (undated, later) = (calls.add(1), calls.add_due(2, Some(Instant::now() + hour)));
        assert_eq!(calls.waiting(), 2);
        let sooner = calls.add_due(3, Some(Instant::now() + Duration::from_millis(1)));
        assert_eq!((calls.begun(1), calls.waiting()), (vec![3], 2), "the deadline passes while call 0 is running");
        drop((sooner, running));
        assert_eq!(calls.begun(1), [1]);
        drop(undated);
        assert_eq!(calls.begun(1), [2]);
        calls.wait_for_unwatched();
        drop(later);
        calls.wait_for_end();
    }

    #[test]
    fn dropped_calls_leave_no_watching_thread() {
        let calls = Calls::new(1);
        let running = calls.add(0);
        assert_eq!(calls.begun(1), [0]);
        for _ in 0..2 {
            let waiting = calls.add_due(1, Some(Instant::now() + Duration::from_secs(3_600)));
            assert!(calls.queue.state().next_check.is_some());
            waiting.0.withdraw();
            calls.wait_for_unwatched();
        }
        drop(running);
    }

    #[test]
    fn cancellation_begins_all_calls_in_order() {
        let calls = Calls::new(1);
        let running = calls.add(0);
        assert_eq!(calls.begun(1), [0]);
        let mut waiting: Vec<_> = (1..4).map(|number| calls.add(number)).collect();
        calls.queue.cancel();
        waiting.push(calls.add(4));
        for number in 1..5 {
            assert_eq!(calls.begun(1), [number], "although call 0 is running");
            drop(waiting.remove(0));
        }
        calls.wait_for_unwatched();
        drop(running);
        calls.wait_for_end();
        drop(calls.add(5));
        assert_eq!(calls.begun(1), [5], "a later call runs, and its script is cancelled");
    }

    #[test]
    fn no_call_is_lost() {
        let queue = CallQueue::new(&Arc::default(), 4);
        // The numbers of running and ended calls, and the highest number of running calls.
        let counters: Arc<[AtomicUsize; 3]> = Arc::default();
        for _ in 0..10_000 {
            let counters = Arc::clone(&counters);
            let call = move || {
                let [running, ended, peak] = &*counters;
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                running.fetch_sub(1, Ordering::SeqCst);
                ended.fetch_add(1, Ordering::SeqCst);
            };
            queue.push(Box::new(call), None).unwrap();
        }
        let [_, ended, peak] = &*counters;
        while ended.load(Ordering::SeqCst) < 10_000 {
            std::thread::yield_now();
        }
        assert!(peak.load(Ordering::SeqCst) <= 4);
    }
}
