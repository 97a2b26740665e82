//! Threads that wait for their next job, so that a call of a component does not wait for a new thread.
//!
//! A new thread costs more than a short script: its stack must be mapped and unmapped, and instances and guest stacks
//! are restored faster on the thread that used them last.

use std::{
    io, mem,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// Work for one thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// The stack size of a thread, in bytes. Schemas and arguments of a component's tools can be deeply nested and are
/// checked on this stack. Guests run on other stacks. Only touched pages take memory.
const STACK_BYTES: usize = 8 << 20;

/// The time after which an idle thread ends and frees its stack: long enough for a component that pauses between its
/// calls.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// The time for which an idle thread polls before it sleeps, because waking a sleeping thread takes 5 to 50
/// microseconds. If a component makes one call after another, its own thread wakes up and makes the next call within
/// this time.
const POLL_TIME: Duration = Duration::from_micros(100);

/// A pool of threads. Each job gets the thread that became idle last, or a new thread if no thread is idle. The pool
/// does not limit the number of threads, but its users do. Dropping the pool ends the idle threads, and lets running
/// jobs finish.
pub struct ThreadPool(Arc<PoolShared>);

/// The state that the threads share with the pool.
struct PoolShared {
    state: Mutex<PoolState>,
    idle_time: Duration,
    /// `true` while an idle thread polls. At most one thread polls, so that idle threads use at most one processor.
    is_polling: AtomicBool,
}

#[derive(Default)]
struct PoolState {
    /// The idle threads. The last one became idle last.
    idle: Vec<Arc<Worker>>,
    is_closed: bool,
}

/// A thread of the pool. The caller that removes a worker from the list of idle threads must call
/// [`wake`](Self::wake).
struct Worker {
    /// The next job. `None` ends the thread once it is woken.
    job: Mutex<Option<Job>>,
    is_woken: AtomicBool,
    thread: Thread,
}

impl Default for ThreadPool {
    fn default() -> Self {
        Self::with_idle_time(IDLE_TIME)
    }
}

impl ThreadPool {
    fn with_idle_time(idle_time: Duration) -> Self {
        Self(Arc::new(PoolShared { state: Mutex::default(), idle_time, is_polling: AtomicBool::new(false) }))
    }

    /// Runs a job on an idle or new thread. A panic ends the job, but not the thread.
    ///
    /// # Errors
    /// Fails if no thread is idle and no thread can be started. The job then has not run.
    pub fn run(&self, job: Job) -> io::Result<()> {
        let idle = self.0.state().idle.pop();
        if let Some(worker) = idle {
            worker.wake(Some(job));
            return Ok(());
        }
        let shared = Arc::clone(&self.0);
        let builder = thread::Builder::new().name("glovebox-call".into()).stack_size(STACK_BYTES);
        builder.spawn(move || shared.work(job)).map(drop)
    }

    /// Drops a value that can take a long time to drop on one of the threads. If no thread can be started, drops the
    /// value on the current thread.
    pub fn drop_later(&self, value: impl Send + 'static) {
        // If this fails, the job has been dropped together with the value.
        self.run(Box::new(move || drop(value))).ok();
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_closed = true;
        let idle = mem::take(&mut state.idle);
        drop(state);
        for worker in idle {
            worker.wake(None);
        }
    }
}

impl PoolShared {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the first job, and further jobs until the thread has been idle for too long.
    fn work(&self, first: Job) {
        let (job, is_woken) = (Mutex::default(), AtomicBool::new(false));
        let worker = Arc::new(Worker { job, is_woken, thread: thread::current() });
        let mut next = Some(first);
        while let Some(job) = next {
            run_caught(job);
            next = self.next(&worker);
        }
    }

    /// Waits for the next job of a thread. Returns `None` after the idle time, and after the pool was dropped.
    fn next(&self, worker: &Arc<Worker>) -> Option<Job> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        state.idle.push(Arc::clone(worker));
        drop(state);
        self.poll(worker);
        let begun = Instant::now();
        loop {
            if worker.is_woken.swap(false, Ordering::Acquire) {
                return worker.job().take();
            }
            match self.idle_time.checked_sub(begun.elapsed()) {
                // Parking can end early, so the loop checks again.
                Some(left) => thread::park_timeout(left),
                None if self.leave(worker) => return None,
                // The caller that removed the worker wakes it soon.
                None => thread::park(),
            }
        }
    }

    /// Polls for a job for a short time.
    fn poll(&self, worker: &Worker) {
        if self.is_polling.swap(true, Ordering::Acquire) {
            return;
        }
        let begun = Instant::now();
        while !worker.is_woken.load(Ordering::Relaxed) && begun.elapsed() < POLL_TIME {
            // Other threads of this processor go first.
            thread::yield_now();
        }
        self.is_polling.store(false, Ordering::Release);
    }

    /// Removes a thread from the list of idle threads. Returns `false` if it was already removed.
    fn leave(&self, worker: &Arc<Worker>) -> bool {
        let mut state = self.state();
        let position = state.idle.iter().position(|idle| Arc::ptr_eq(idle, worker));
        position.map(|at| state.idle.remove(at)).is_some()
    }
}

impl Worker {
    fn job(&self) -> MutexGuard<'_, Option<Job>> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the next job to the thread, or ends the thread.
    fn wake(&self, job: Option<Job>) {
        *self.job() = job;
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs a job and discards its panic.
pub fn run_caught(job: Job) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(job)) {
        // Dropping a payload can panic again, and would then end the thread.
        mem::forget(payload);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::{Barrier, mpsc},
        thread::ThreadId,
    };

    use super::*;

    /// An idle time that no test reaches.
    const LONG: Duration = Duration::from_secs(3_600);

    /// Returns the number of threads of the pool.
    fn threads(pool: &Arc<PoolShared>, references: usize) -> usize {
        Arc::strong_count(pool) - references
    }

    /// Waits until the pool has `count` idle threads.
    fn wait_for_idle(pool: &ThreadPool, count: usize) {
        while pool.0.state().idle.len() != count {
            thread::yield_now();
        }
    }

    /// Runs a job on the pool, and returns its result.
    fn result_of<R: Send + 'static>(pool: &ThreadPool, work: impl FnOnce() -> R + Send + 'static) -> R {
        let (sender, receiver) = mpsc::channel();
        pool.run(Box::new(move || sender.send(work()).unwrap())).unwrap();
        receiver.recv().unwrap()
    }

    #[test]
    fn idle_thread_is_reused() {
        let pool = ThreadPool::with_idle_time(LONG);
        let ids: BTreeSet<String> = (0..100)
            .map(|_| {
                let id = result_of(&pool, || format!("{:?}", thread::current().id()));
                wait_for_idle(&pool, 1);
                id
            })
            .collect();
        assert_eq!(ids.len(), 1);
        assert_eq!(threads(&pool.0, 1), 1);
    }

    #[test]
    fn last_idle_thread_is_reused_first() {
        let pool = ThreadPool::with_idle_time(LONG);
        let (both, (sender, ids)) = (Arc::new(Barrier::new(2)), mpsc::channel::<ThreadId>());
        for _ in 0..2 {
            let (both, sender) = (Arc::clone(&both), sender.clone());
            let work = move || {
                both.wait();
                sender.send(thread::current().id()).unwrap();
            };
            pool.run(Box::new(work)).unwrap();
        }
        assert_ne!(ids.recv().unwrap(), ids.recv().unwrap(), "two jobs ran at the same time");
        wait_for_idle(&pool, 2);
        let last = pool.0.state().idle.last().map(|worker| worker.thread.id());
        assert_eq!(Some(result_of(&pool, || thread::current().id())), last);
    }

    #[test]
    fn thread_survives_a_panic() {
        let pool = ThreadPool::with_idle_time(LONG);
        let id = result_of(&pool, || thread::current().id());
        wait_for_idle(&pool, 1);
        pool.run(Box::new(|| panic!("expected by a test"))).unwrap();
        wait_for_idle(&pool, 1);
        assert_eq!(result_of(&pool, || thread::current().id()), id);
    }

    #[test]
    fn idle_threads_end() {
        for idle_time in [Duration::ZERO, Duration::from_millis(2)] {
            let pool = ThreadPool::with_idle_time(idle_time);
            for number in 0..200 {
                assert_eq!(result_of(&pool, move || number), number, "a job is not lost when threads end");
            }
            while threads(&pool.0, 1) > 0 {
                thread::yield_now();
            }
            assert!(pool.0.state().idle.is_empty());
            assert_eq!(result_of(&pool, || 1), 1, "usable after");
        }
    }

    #[test]
    fn dropped_pool_ends_idle_threads_and_finishes_jobs() {
        let pool = ThreadPool::with_idle_time(LONG);
        let shared = Arc::clone(&pool.0);
        result_of(&pool, || ());
        wait_for_idle(&pool, 1);
        let (begin, begun) = mpsc::channel::<()>();
        let (done, ended) = mpsc::channel();
        let work = move || {
            begun.recv().unwrap();
            done.send(1).unwrap();
        };
        // The second job leaves one idle thread, which has no job when the pool is dropped.
        let (enter, entered) = mpsc::channel();
        pool.run(Box::new(work)).unwrap();
        pool.run(Box::new(move || enter.send(()).unwrap())).unwrap();
        entered.recv().unwrap();
        wait_for_idle(&pool, 1);
        drop(pool);
        begin.send(()).unwrap();
        assert_eq!(ended.recv(), Ok(1));
        while threads(&shared, 1) > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn value_is_dropped_on_another_thread() {
        struct Reporter(mpsc::Sender<ThreadId>);
        impl Drop for Reporter {
            fn drop(&mut self) {
                self.0.send(thread::current().id()).unwrap();
            }
        }
        let pool = ThreadPool::with_idle_time(LONG);
        let (sender, receiver) = mpsc::channel();
        pool.drop_later(Reporter(sender));
        assert_ne!(receiver.recv().unwrap(), thread::current().id());
    }
}
