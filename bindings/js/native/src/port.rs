//! Executions and the tools that JavaScript implements. Executions are frequent and short, and creating a callback for
//! each would take as long as a short script. Instead each JavaScript thread creates one callback, which receives the
//! events of all its executions.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Sender},
    },
};

use glovebox::{Stream, Tool, ToolCall, ToolError};
use napi::{
    Status,
    bindgen_prelude::{Buffer, Either3, FnArgs, Function},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;

use crate::{
    error::{EngineFailure, NativeFailure},
    execution::NativeExecution,
    threads::{self, Waiting},
};

/// The third argument of the callback, after the execution's number and the event's number.
type Payload = Either3<NativeExecution, Buffer, NativeFailure>;
type Args = FnArgs<(u32, u32, Payload)>;

/// An event of an execution. The numbers are defined in `src/native/module.ts`.
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

/// A weak function reference: it does not keep Node.js alive. `src/native/port.ts` does that while an execution runs.
type Teller = ThreadsafeFunction<(u32, Event), (), Args, Status, false, true>;

/// Receives the events of all executions that one JavaScript thread started.
#[napi]
pub struct NativePort(Arc<Teller>);

#[napi]
impl NativePort {
    /// Creates a port. `callback` receives the execution's number, the event's number and its payload.
    #[napi(constructor)]
    pub fn new(callback: Function<'_, Args, ()>) -> napi::Result<Self> {
        let function = callback.build_threadsafe_function::<(u32, Event)>().weak::<true>();
        Ok(Self(Arc::new(function.build_callback(|ctx| Ok(ctx.value.1.args(ctx.value.0)))?)))
    }
}

/// Reports the events of one execution to its port.
#[derive(Clone)]
pub(crate) struct Heard {
    teller: Arc<Teller>,
    execution: u32,
}

impl Heard {
    fn tell(&self, event: Event) {
        // The call fails while the environment is torn down, when no listener is left.
        let _ = self.teller.call((self.execution, event), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Reports guest output.
    pub(crate) fn output(&self, stream: Stream, bytes: &[u8]) {
        self.tell(Event::Output(stream, bytes.to_vec()));
    }
}

impl NativePort {
    /// Runs an execution on another thread. The last event is the result, or the error that prevented it from
    /// starting.
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

/// The call's number, the tool's index, and the arguments as JSON text; `None` reports that the call was abandoned.
type CallArgs = FnArgs<(u32, u32, Option<String>)>;

/// The JavaScript function that answers tool calls.
pub(crate) type Answer<'a> = Function<'a, CallArgs, ()>;

/// The function that answers calls, callable from any thread. It does not keep Node.js alive; the running execution
/// does.
type Caller = ThreadsafeFunction<(u32, u32, Option<String>), (), CallArgs, Status, false, true>;

/// A tool's JavaScript description.
#[napi(object, object_to_js = false)]
pub struct NativeTool {
    /// The name in scripts.
    pub name: String,
    /// The description that `help` shows.
    pub description: String,
    /// The JSON Schema of the arguments object, as JSON text.
    pub schema: String,
}

/// A result as JSON text, or a failure message; `None` if the answer is no longer needed.
type Reply = Option<Result<String, String>>;

/// The tool calls that JavaScript has not answered yet.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Open>);

#[derive(Default)]
struct Open {
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, Sender<Reply>>>,
}

impl Calls {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, Sender<Reply>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the call `number`. Ignores an answer that is no longer needed.
    pub(crate) fn reply(&self, number: u32, answer: Result<String, String>) {
        if let Some(sender) = self.waiting().remove(&number) {
            let _ = sender.send(Some(answer));
        }
    }

    /// Creates the engine's tools, implemented by `answer`.
    pub(crate) fn tools(&self, tools: Vec<NativeTool>, answer: &Answer<'_>) -> napi::Result<Vec<Unchecked>> {
        let function = answer.build_threadsafe_function::<(u32, u32, Option<String>)>().weak::<true>();
        let caller: Arc<Caller> = Arc::new(function.build_callback(|ctx| Ok(ctx.value.into()))?);
        let made = (0..).zip(tools).map(|(index, tool)| {
            let (calls, caller) = (self.clone(), Arc::clone(&caller));
            Unchecked { tool, handler: Box::new(move |call, arguments| calls.ask(&caller, call, index, arguments)) }
        });
        Ok(made.collect())
    }

    /// Calls JavaScript and waits for the answer or for the end of the call.
    fn ask(&self, caller: &Arc<Caller>, call: &ToolCall, index: u32, arguments: String) -> Result<String, ToolError> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        self.waiting().insert(number, sender.clone());
        let _waiting = Waiting::begin();
        if caller.call((number, index, Some(arguments)), ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            self.waiting().remove(&number);
            return Err(ToolError::new("the process is exiting"));
        }
        let given_up = call.cancel.on_cancel(move || drop(sender.send(None)));
        let reply = receiver.recv().ok().flatten();
        drop(given_up);
        let Some(answer) = reply else {
            self.waiting().remove(&number);
            // Tells JavaScript that the call was abandoned, so that its tool can stop too.
            let _ = caller.call((number, index, None), ThreadsafeFunctionCallMode::NonBlocking);
            return Err(ToolError::new("the caller is no longer waiting for the answer"));
        };
        answer.map_err(ToolError::new)
    }
}

type Handler = Box<dyn Fn(&ToolCall, String) -> Result<String, ToolError> + Send + Sync>;

/// A tool whose schema has not been parsed yet.
pub(crate) struct Unchecked {
    tool: NativeTool,
    handler: Handler,
}

impl Unchecked {
    /// Parses the schema and creates the engine's tool.
    pub(crate) fn tool(self) -> Result<Tool, EngineFailure> {
        let NativeTool { name, description, schema } = self.tool;
        Ok(Tool::new(name, description).schema(serde_json::from_str(&schema)?).text_handler(self.handler))
    }
}
