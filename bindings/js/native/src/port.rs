//! Executions: many, and short. What becomes of them comes on one callback of a JavaScript thread, made once. To make one for each execution
//! costs as much as a short script.

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
    error::{Failure, NativeFailure},
    execution::NativeExecution,
    threads,
};

/// What the callback is given beside the execution's number and the number of an event.
type Payload = Either3<NativeExecution, Buffer, NativeFailure>;
type Args = FnArgs<(u32, u32, Payload)>;

/// What becomes of an execution. The numbers are those of `src/native/module.ts`.
enum Event {
    Done(NativeExecution),
    Failed(Failure),
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

/// It does not keep Node.js going: `src/native/port.ts` does, as long as something is executed.
type Teller = ThreadsafeFunction<(u32, Event), (), Args, Status, false, true>;

/// Where the executions of a JavaScript thread tell what becomes of them.
#[napi]
pub struct NativePort(Arc<Teller>);

#[napi]
impl NativePort {
    /// `callback` is given the execution's number, the number of an event, and what belongs to it.
    #[napi(constructor)]
    pub fn new(callback: Function<'_, Args, ()>) -> napi::Result<Self> {
        let function = callback.build_threadsafe_function::<(u32, Event)>().weak::<true>();
        Ok(Self(Arc::new(function.build_callback(|ctx| Ok(ctx.value.1.args(ctx.value.0)))?)))
    }
}

/// One execution's part of a port.
#[derive(Clone)]
pub(crate) struct Heard {
    teller: Arc<Teller>,
    execution: u32,
}

impl Heard {
    fn tell(&self, event: Event) {
        // Nobody is there any longer where the environment is being taken down.
        let _ = self.teller.call((self.execution, event), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// The guest wrote something.
    pub(crate) fn output(&self, stream: Stream, bytes: &[u8]) {
        self.tell(Event::Output(stream, bytes.to_vec()));
    }
}

impl NativePort {
    /// Executes on another thread. That it has ended, or why it did not begin, is the last that is told of it.
    pub(crate) fn start(
        &self,
        execution: u32,
        work: impl FnOnce(&Heard) -> Result<NativeExecution, Failure> + Send + 'static,
    ) {
        let heard = Heard { teller: Arc::clone(&self.0), execution };
        threads::run(Box::new(move || {
            let event = match catch_unwind(AssertUnwindSafe(|| work(&heard))) {
                Ok(Ok(value)) => Event::Done(value),
                Ok(Err(failure)) => Event::Failed(failure),
                Err(_) => Event::Failed(Failure::panicked()),
            };
            heard.tell(event);
        }));
    }
}
