//! The threads that run store operations.

use std::{
    fmt, io,
    panic::resume_unwind,
    sync::{Arc, OnceLock, Weak},
};

use tokio::runtime::{Builder, Handle, Runtime};

/// Two threads, because one may be busy with a large state.
const THREADS: usize = 2;

/// A small runtime shared by all stores of the process, so that their futures can be polled from any thread, inside or
/// outside a runtime. It ends with the last store.
#[derive(Clone)]
pub(super) struct Background(Arc<Threads>);

struct Threads(Option<Runtime>);

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // An ordinary drop would block, which panics inside another runtime.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Background")
    }
}

impl Background {
    /// Returns the runtime, and starts it if necessary.
    pub(super) fn get() -> io::Result<Self> {
        static SHARED: OnceLock<std::sync::Mutex<Weak<Threads>>> = OnceLock::new();
        let shared = SHARED.get_or_init(std::sync::Mutex::default);
        let mut shared = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(threads) = shared.upgrade() {
            return Ok(Self(threads));
        }
        let mut builder = Builder::new_multi_thread();
        let runtime =
            builder.worker_threads(THREADS).thread_name("glovebox-store").enable_io().enable_time().build()?;
        let threads = Arc::new(Threads(Some(runtime)));
        *shared = Arc::downgrade(&threads);
        Ok(Self(threads))
    }

    /// Returns the handle for spawning tasks.
    pub(super) fn handle(&self) -> Option<&Handle> {
        self.0.0.as_ref().map(Runtime::handle)
    }

    /// Runs a future on the runtime. Dropping the returned future does not cancel the work.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Option<T> {
        match self.handle()?.spawn(work).await {
            Ok(done) => Some(done),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => None,
            },
        }
    }
}
