//! Values that are read once, on a separate thread, and shared by all checks.
//!
//! A check waits for a value only within its limits. The thread continues after that, so that a later check has the
//! value.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{CheckLimits, ExceededLimit};

/// The interval for checking the limits while a value is read.
const POLL: Duration = Duration::from_millis(20);

/// The values by their keys.
#[derive(Debug)]
pub(super) struct SharedReads<T> {
    reads: Mutex<BTreeMap<String, Arc<Read<T>>>>,
    /// The time after which a failed read is repeated.
    retry_after: Duration,
}

impl<T: Clone + Send + 'static> SharedReads<T> {
    pub(super) fn new(retry_after: Duration) -> Self {
        Self { reads: Mutex::default(), retry_after }
    }

    /// Returns the value with this key. If the value is missing, or `is_valid` returns `false` for it, calls `read` on a
    /// new thread. A `read` that fails returns a substitute, which only checks before the next attempt use.
    ///
    /// # Errors
    /// Fails if the check exceeds its limits before the value is available, or if no thread can be started.
    pub(super) fn get(
        &self,
        key: &str,
        is_valid: impl Fn(&T) -> bool,
        read: impl FnOnce() -> Result<T, T> + Send + 'static,
        limits: &CheckLimits<'_>,
    ) -> Result<T, ReadError> {
        let mut reads = lock(&self.reads);
        let usable = reads.get(key).filter(|read| read.is_usable(&is_valid, self.retry_after));
        let current = if let Some(current) = usable {
            Arc::clone(current)
        } else {
            let started = Arc::new(Read { state: Mutex::new(ReadState::Running), ended: Condvar::new() });
            let end = EndOnDrop(Arc::clone(&started));
            thread::Builder::new().name("glovebox-packages".to_owned()).spawn(move || end.run(read))?;
            reads.insert(key.to_owned(), Arc::clone(&started));
            started
        };
        drop(reads);
        current.wait(limits)
    }
}

fn lock<V>(mutex: &Mutex<V>) -> MutexGuard<'_, V> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reason why a check has no value.
#[derive(Debug)]
pub(super) enum ReadError {
    Limit(ExceededLimit),
    /// The thread cannot be started, or it has panicked.
    Thread(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Thread(error)
    }
}

#[derive(Debug)]
enum ReadState<T> {
    Running,
    Complete(T),
    /// The substitute for a value that cannot be read.
    Failed {
        substitute: T,
        at: Instant,
    },
    Panicked,
}

/// The read of one value.
#[derive(Debug)]
struct Read<T> {
    state: Mutex<ReadState<T>>,
    ended: Condvar,
}

impl<T: Clone> Read<T> {
    fn is_usable(&self, is_valid: impl Fn(&T) -> bool, retry_after: Duration) -> bool {
        match &*lock(&self.state) {
            ReadState::Running => true,
            ReadState::Complete(value) => is_valid(value),
            ReadState::Failed { substitute, at } => at.elapsed() < retry_after && is_valid(substitute),
            ReadState::Panicked => false,
        }
    }

    fn wait(&self, limits: &CheckLimits<'_>) -> Result<T, ReadError> {
        let mut state = lock(&self.state);
        loop {
            match &*state {
                ReadState::Complete(value) | ReadState::Failed { substitute: value, .. } => return Ok(value.clone()),
                ReadState::Panicked => return Err(io::Error::other("the thread that reads packages panicked").into()),
                ReadState::Running => {}
            }
            limits.check().map_err(ReadError::Limit)?;
            (state, _) = self.ended.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self, state: ReadState<T>) {
        *lock(&self.state) = state;
        self.ended.notify_all();
    }
}

/// Ends a read, even if its thread panics.
struct EndOnDrop<T: Clone>(Arc<Read<T>>);

impl<T: Clone> EndOnDrop<T> {
    fn run(self, read: impl FnOnce() -> Result<T, T>) {
        let state = match read() {
            Ok(value) => ReadState::Complete(value),
            Err(substitute) => ReadState::Failed { substitute, at: Instant::now() },
        };
        self.0.end(state);
    }
}

impl<T: Clone> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        if matches!(*lock(&self.0.state), ReadState::Running) {
            self.0.end(ReadState::Panicked);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use glovebox::CancelToken;

    use super::*;

    const LATER: Duration = Duration::from_secs(3600);

    /// Returns the value with the key `a`, and reads it if necessary.
    fn get(reads: &SharedReads<u32>, read: Result<u32, u32>) -> u32 {
        reads.get("a", |_| true, move || read, &CheckLimits::new(&CancelToken::new())).unwrap()
    }

    #[test]
    fn values_are_read_once_and_failures_again() {
        let reads = SharedReads::new(Duration::ZERO);
        assert_eq!(get(&reads, Err(1)), 1);
        assert_eq!(get(&reads, Ok(2)), 2);
        assert_eq!(get(&reads, Ok(3)), 2);
        let cancel = CancelToken::new();
        let limits = CheckLimits::new(&cancel);
        assert_eq!(reads.get("b", |_| true, || Ok(4), &limits).unwrap(), 4);
        assert_eq!(reads.get("a", |value| *value != 2, || Ok(5), &limits).unwrap(), 5);

        // Many checks do not read damaged packages at once.
        let reads = SharedReads::new(LATER);
        assert_eq!([Err(1), Ok(2)].map(|read| get(&reads, read)), [1, 1]);
    }

    #[test]
    fn checks_wait_within_their_limits() {
        let reads = SharedReads::new(LATER);
        let (finish, finished) = mpsc::channel::<()>();
        let cancel = CancelToken::new();
        let expired = CheckLimits { deadline: Instant::now(), cancel: &cancel };
        let read = move || {
            let _ = finished.recv();
            Ok(1)
        };
        let error = reads.get("a", |_| true, read, &expired).unwrap_err();
        assert!(matches!(error, ReadError::Limit(ExceededLimit::Time)), "{error:?}");
        let error = reads.get("a", |_| true, || Ok(2), &expired).unwrap_err();
        assert!(matches!(error, ReadError::Limit(ExceededLimit::Time)), "{error:?}");
        cancel.cancel();
        let error = reads.get("a", |_| true, || Ok(2), &CheckLimits::new(&cancel)).unwrap_err();
        assert!(matches!(error, ReadError::Limit(ExceededLimit::Cancelled)), "{error:?}");
        // The first read has continued.
        finish.send(()).unwrap();
        assert_eq!(get(&reads, Ok(2)), 1);
    }

    #[test]
    fn reads_that_panic_are_repeated() {
        let reads = SharedReads::new(LATER);
        let cancel = CancelToken::new();
        let limits = CheckLimits::new(&cancel);
        let error = reads.get("a", |_| true, || panic!("expected"), &limits).unwrap_err();
        assert!(matches!(error, ReadError::Thread(_)), "{error:?}");
        assert_eq!(get(&reads, Ok(1)), 1);
    }
}
