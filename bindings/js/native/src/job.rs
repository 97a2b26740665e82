//! Work on other threads, with callbacks to JavaScript.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use glovebox::CancelToken;
use napi::{
    Status,
    bindgen_prelude::{Either3, FnArgs, Function, ToNapiValue},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};

use crate::{
    error::{EngineFailure, NativeFailure},
    threads,
};

/// The second argument of the callback, after the number of the event.
type Payload<T> = Either3<T, String, NativeFailure>;
type Args<T> = FnArgs<(u32, Payload<T>)>;

/// JavaScript's callback for the events of a job.
pub(crate) type Callback<'a, T> = Function<'a, Args<T>, ()>;

/// An event of a job. The numbers are those of `src/native/module.ts`.
enum Event<T> {
    Done(T),
    Failed(EngineFailure),
    Progress(String),
}

impl<T: ToNapiValue> Event<T> {
    fn args(self) -> Args<T> {
        let (number, payload) = match self {
            Self::Done(value) => (0, Either3::A(value)),
            Self::Failed(failure) => (1, Either3::C(failure.into())),
            Self::Progress(text) => (4, Either3::B(text)),
        };
        (number, payload).into()
    }
}

/// Reports a job's events to JavaScript's thread, in order. Node.js stays alive while a teller exists.
pub(crate) struct Teller<T: ToNapiValue + 'static>(Arc<ThreadsafeFunction<Event<T>, (), Args<T>, Status, false>>);

impl<T: ToNapiValue> Clone for Teller<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ToNapiValue> Teller<T> {
    fn tell(&self, event: Event<T>) {
        // The call fails when the environment is being torn down. No listener is left then.
        let _ = self.0.call(event, ThreadsafeFunctionCallMode::NonBlocking);
    }
}

type ProgressListener = (Box<dyn Fn(String)>, CancelToken);

thread_local! {
    /// The callback and the cancellation token of this thread's job.
    static TOLD: RefCell<Option<ProgressListener>> = const { RefCell::new(None) };
}

/// The engine's progress reporter: it reports to the callback of this thread's job.
pub(crate) struct Progress;

impl glovebox::Progress for Progress {
    fn message(&self, text: &str) {
        TOLD.with_borrow(|told| {
            if let Some((tell, _)) = told {
                tell(text.to_owned());
            }
        });
    }

    fn cancelled(&self) -> bool {
        TOLD.with_borrow(|told| told.as_ref().is_some_and(|(_, token)| token.is_cancelled()))
    }
}

/// Runs `work` on another thread. The last call of `callback` has the result or the error.
pub(crate) fn start<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    work: impl FnOnce(&Teller<T>) -> Result<T, EngineFailure> + Send + 'static,
) -> napi::Result<()> {
    let function = callback.build_threadsafe_function::<Event<T>>();
    let teller = Teller(Arc::new(function.build_callback(|ctx| Ok(ctx.value.args()))?));
    threads::run(Box::new(move || {
        let event = match catch_unwind(AssertUnwindSafe(|| work(&teller))) {
            Ok(Ok(value)) => Event::Done(value),
            Ok(Err(failure)) => Event::Failed(failure),
            Err(_) => Event::Failed(EngineFailure::panicked()),
        };
        teller.tell(event);
    }));
    Ok(())
}

/// Like `start`, for work that is slow the first time: it reports its progress, and `token` cancels it.
pub(crate) fn start_long<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    token: CancelToken,
    work: impl FnOnce() -> Result<T, EngineFailure> + Send + 'static,
) -> napi::Result<()> {
    start(callback, move |teller| {
        let teller = teller.clone();
        TOLD.set(Some((Box::new(move |text| teller.tell(Event::Progress(text))), token)));
        let result = catch_unwind(AssertUnwindSafe(work));
        TOLD.set(None);
        result.unwrap_or_else(|_| Err(EngineFailure::panicked()))
    })
}
