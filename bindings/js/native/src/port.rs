//! Executions, which are many and short. One callback per JavaScript thread, made once, receives the events of all of
//! them. A callback for each execution would cost as much as a short script.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use glovebox::Stream;
use napi::{
    Status,
    bindgen_prelude::{Buffer, Either3, FnArgs, Function},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;

use crate::{
    error::{EngineFailure, NativeFailure},
    execution::NativeExecution,
    threads,
};

/// The third argument of the callback, after the execution's number and the number of the event.
type Payload = Either3<NativeExecution, Buffer, NativeFailure>;
type Args = FnArgs<(u32, u32, Payload)>;

/// An event of an execution. The numbers are those of `src/native/module.ts`.
enum Event {
    Done(NativeExecution),
    Failed(EngineFailure),
    Output(Stream, Vec<u8>),
}

impl Event {
    fn args(self, execution: u32) -> Args {
        let (number, payload) = match self {
            Self::Done(execution) => (0, Either3::A(execution)),
            Self::Failed(failure) => (1, Either3::C(failure.into())),
            Self::Output(Stream::Stdout, bytes) => (2, Either3::B(bytes.into())),
            Self::Output(Stream::Stderr, bytes) => (3, Either3::B(bytes.into())),
        };
        (execution, number, payload).into()
    }
}

/// A weak function that does not keep Node.js alive: `src/native/port.ts` does so while an execution runs.
type Teller = ThreadsafeFunction<(u32, Event), (), Args, Status, false, true>;

/// The receiver of the events of a JavaScript thread's executions.
#[napi]
pub struct NativePort(Arc<Teller>);

#[napi]
impl NativePort {
    /// Creates a port. `callback` receives the execution's number, the number of an event, and the event's payload.
    #[napi(constructor)]
    pub fn new(callback: Function<'_, Args, ()>) -> napi::Result<Self> {
        let function = callback.build_threadsafe_function::<(u32, Event)>().weak::<true>();
        Ok(Self(Arc::new(function.build_callback(|ctx| Ok(ctx.value.1.args(ctx.value.0)))?)))
    }
}

/// The port of one execution.
#[derive(Clone)]
pub(crate) struct Heard {
    teller: Arc<Teller>,
    execution: u32,
}

impl Heard {
    fn tell(&self, event: Event) {
        // The call fails when the environment is being torn down. No listener is left then.
        let _ = self.teller.call((self.execution, event), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Reports output of the guest.
    pub(crate) fn output(&self, stream: Stream, bytes: &[u8]) {
        self.tell(Event::Output(stream, bytes.to_vec()));
    }
}

impl NativePort {
    /// Executes on another thread. The last event is the result, or the error that prevented the start.
    pub(crate) fn start(
        &self,
        execution: u32,
        work: impl FnOnce(&Heard) -> Result<NativeExecution, EngineFailure> + Send + 'static,
    ) {
        let heard = Heard { teller: Arc::clone(&self.0), execution };
        threads::run(Box::new(move || {
            let event = match catch_unwind(AssertUnwindSafe(|| work(&heard))) {
                Ok(Ok(value)) => Event::Done(value),
                Ok(Err(failure)) => Event::Failed(failure),
                Err(_) => Event::Failed(EngineFailure::panicked()),
            };
            heard.tell(event);
        }));
    }
}
