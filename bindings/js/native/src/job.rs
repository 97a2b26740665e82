//! Work on another thread, and what JavaScript is told of it.

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
    error::{Failure, NativeFailure},
    threads,
};

/// What the callback is given beside the number of an event.
type Payload<T> = Either3<T, String, NativeFailure>;
type Args<T> = FnArgs<(u32, Payload<T>)>;

/// JavaScript's function for what becomes of some work.
pub(crate) type Callback<'a, T> = Function<'a, Args<T>, ()>;

/// What becomes of it. The numbers are those of `src/native/module.ts`.
enum Event<T> {
    Done(T),
    Failed(Failure),
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

/// Tells JavaScript's thread what becomes of the work: in the order in which it happened. As long as there is one, Node.js goes on.
pub(crate) struct Teller<T: ToNapiValue + 'static>(Arc<ThreadsafeFunction<Event<T>, (), Args<T>, Status, false>>);

impl<T: ToNapiValue> Clone for Teller<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ToNapiValue> Teller<T> {
    fn tell(&self, event: Event<T>) {
        // Nobody is there any longer where the environment is being taken down.
        let _ = self.0.call(event, ThreadsafeFunctionCallMode::NonBlocking);
    }
}

type Told = (Box<dyn Fn(String)>, CancelToken);

thread_local! {
    /// Whom this thread's work tells of its progress, and who ends it.
    static TOLD: RefCell<Option<Told>> = const { RefCell::new(None) };
}

/// What the engine is given for progress: it goes to whoever waits for the work of this thread.
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

/// Does `work` on another thread. `callback` is called with its result, or with why there is none, and that is the last call.
pub(crate) fn start<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    work: impl FnOnce(&Teller<T>) -> Result<T, Failure> + Send + 'static,
) -> napi::Result<()> {
    let function = callback.build_threadsafe_function::<Event<T>>();
    let teller = Teller(Arc::new(function.build_callback(|ctx| Ok(ctx.value.args()))?));
    threads::run(Box::new(move || {
        let event = match catch_unwind(AssertUnwindSafe(|| work(&teller))) {
            Ok(Ok(value)) => Event::Done(value),
            Ok(Err(failure)) => Event::Failed(failure),
            Err(_) => Event::Failed(Failure::panicked()),
        };
        teller.tell(event);
    }));
    Ok(())
}

/// The same for what takes long the first time: it tells of its progress, and `token` ends it.
pub(crate) fn start_long<T: ToNapiValue + Send + 'static>(
    callback: &Callback<'_, T>,
    token: CancelToken,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> napi::Result<()> {
    start(callback, move |teller| {
        let teller = teller.clone();
        TOLD.set(Some((Box::new(move |text| teller.tell(Event::Progress(text))), token)));
        let result = catch_unwind(AssertUnwindSafe(work));
        TOLD.set(None);
        result.unwrap_or_else(|_| Err(Failure::panicked()))
    })
}
