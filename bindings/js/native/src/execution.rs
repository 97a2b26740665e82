//! The input, cancellation token, result and files of an execution for JavaScript, and the tools that JavaScript
//! implements.
//!
//! Creating a callback for each execution would take as long as a short script. Instead, each JavaScript thread creates
//! one callback, which receives the events of all its executions.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Sender},
    },
    time::Duration,
};

use glovebox::{
    CancelToken, Display, ExecuteError, Execution, FileEntry, Form, JsonText, Request, SourceKind, Stream, Tool,
    ToolCall, ToolError, ToolRequest,
};
use napi::{
    Status,
    bindgen_prelude::{BigInt, Buffer, Either3, FnArgs, Function},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;

use crate::{
    error::{EngineFailure, NativeFailure},
    threads::{self, Callback, WaitGuard, caught, start},
};

/// An entry of a file listing.
#[napi(object, object_from_js = false)]
pub struct NativeEntry {
    /// The path, relative to `/app`.
    pub path: String,
    /// `file`, `directory` or `symlink`.
    pub kind: &'static str,
    /// The size in bytes.
    pub size_bytes: BigInt,
    /// The modification time, in nanoseconds since 1970.
    pub modified_ns: BigInt,
}

impl From<FileEntry> for NativeEntry {
    fn from(entry: FileEntry) -> Self {
        Self {
            path: entry.path,
            kind: entry.kind.name(),
            size_bytes: entry.size_bytes.into(),
            modified_ns: entry.modified_ns.into(),
        }
    }
}

/// A display: its forms by media type.
#[napi(object, object_from_js = false)]
pub struct NativeDisplay {
    /// `true` for the value of the script's last expression, `false` for a call to `display`.
    pub is_result: bool,
    /// The media type and bytes of each form.
    pub forms: Vec<(String, Buffer)>,
}

impl From<&Display> for NativeDisplay {
    fn from(display: &Display) -> Self {
        let form = |form: &Form| (form.media_type.clone(), form.data.to_vec().into());
        Self { is_result: display.is_result, forms: display.forms.iter().map(form).collect() }
    }
}

/// An execution's outcome, output, resource use and changes. Rarely used fields are only in `json`.
#[napi]
pub struct NativeExecution {
    pub(crate) execution: Arc<Execution>,
    displays: Vec<Display>,
}

impl From<Execution> for NativeExecution {
    fn from(mut execution: Execution) -> Self {
        let displays = std::mem::take(&mut execution.displays);
        Self { execution: Arc::new(execution), displays }
    }
}

#[napi]
impl NativeExecution {
    /// True if the script ran to its end, or exited with code 0.
    #[napi(getter)]
    pub fn ok(&self) -> bool {
        self.execution.is_success()
    }

    /// Standard output as text.
    #[napi(getter)]
    pub fn stdout(&self) -> String {
        self.execution.stdout.text()
    }

    /// Standard error as text.
    #[napi(getter)]
    pub fn stderr(&self) -> String {
        self.execution.stderr.text()
    }

    /// Standard output as bytes.
    #[napi(getter)]
    pub fn stdout_bytes(&self) -> Buffer {
        self.execution.stdout.bytes.to_vec().into()
    }

    /// Standard error as bytes.
    #[napi(getter)]
    pub fn stderr_bytes(&self) -> Buffer {
        self.execution.stderr.bytes.to_vec().into()
    }

    /// Fuel used by the execution.
    #[napi(getter)]
    pub fn fuel_consumed(&self) -> BigInt {
        self.execution.fuel_consumed.into()
    }

    /// The value as the interpreter prints it, and as JSON text if it has a JSON form.
    #[napi(getter)]
    pub fn value(&self) -> Option<(String, Option<String>)> {
        self.execution.value.as_ref().map(|value| (value.repr.clone(), value.json.clone()))
    }

    /// The displays of the script, in order.
    #[napi(getter)]
    pub fn displays(&self) -> Vec<NativeDisplay> {
        self.displays.iter().map(NativeDisplay::from).collect()
    }

    /// Returns the whole execution except its displays, as JSON text.
    #[napi]
    pub fn json(&self) -> napi::Result<String> {
        serde_json::to_string(&*self.execution).map_err(|error| napi::Error::from_reason(error.to_string()))
    }
}

#[napi]
impl NativeExecution {
    /// Lists the workspace files that match a pattern.
    #[napi]
    pub fn list_files(&self, pattern: String, callback: Callback<'_, Vec<NativeEntry>>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| {
            let files = execution.files().list(&pattern).map_err(EngineFailure::from)?;
            Ok(files.into_iter().map(Into::into).collect())
        })
    }

    /// Reads a workspace file.
    #[napi]
    pub fn read_file(&self, path: String, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| Ok(execution.files().read(&path).map_err(EngineFailure::from)?.to_vec().into()))
    }
}

/// The input of one execution.
#[napi(object, object_to_js = false)]
pub struct NativeInput {
    /// The source text.
    pub source: String,
    /// The file name shown in tracebacks. Default: `<sandbox>`.
    pub name: Option<String>,
    /// The kind of JavaScript source: `detect`, `script` or `module`.
    pub kind: Option<String>,
    /// Standard input.
    pub stdin: Option<Buffer>,
    /// The value of the global variable `context`, as JSON text.
    pub context: Option<String>,
    /// Milliseconds after which the execution is cancelled.
    pub timeout_ms: Option<f64>,
    /// True if JavaScript has an output listener.
    pub is_heard: bool,
}

/// The input of an execution on another thread.
pub(crate) struct Input {
    /// The input without its `stdin` buffer: buffers belong to the JavaScript thread, so `stdin` below is a copy.
    input: NativeInput,
    stdin: Vec<u8>,
    token: CancelToken,
}

impl Input {
    pub(crate) fn new(mut input: NativeInput, token: CancelToken) -> Self {
        let stdin = input.stdin.take().map(|stdin| stdin.to_vec()).unwrap_or_default();
        Self { input, stdin, token }
    }

    /// Returns `true` if JavaScript has an output listener.
    pub(crate) fn is_heard(&self) -> bool {
        self.input.is_heard
    }

    pub(crate) fn request(&self) -> Result<Request<'_>, EngineFailure> {
        let NativeInput { source, name, kind, context, timeout_ms, .. } = &self.input;
        let kind = match kind.as_deref() {
            Some("script") => SourceKind::Script,
            Some("module") => SourceKind::Module,
            _ => SourceKind::Detect,
        };
        let mut request = Request::new(source).cancel(&self.token).kind(kind).stdin(&self.stdin);
        if let Some(name) = name {
            request = request.name(name);
        }
        if let Some(context) = context {
            request = request.context_text(JsonText::new(&**context)?);
        }
        if let Some(timeout) = timeout(*timeout_ms) {
            request = request.cancel_after(timeout);
        }
        Ok(request)
    }

    /// Executes the input as a request. Reports output if JavaScript has a listener.
    pub(crate) fn execute(
        &self,
        events: &ExecutionEvents,
        run: impl FnOnce(Request<'_>) -> Result<Execution, ExecuteError>,
    ) -> Result<NativeExecution, EngineFailure> {
        let mut request = self.request()?;
        if self.is_heard() {
            let events = events.clone();
            request = request.on_output(move |stream, bytes| events.output(stream, bytes));
        }
        Ok(run(request)?.into())
    }
}

/// Converts a timeout in milliseconds. Returns `None` (no timeout) for a value out of range.
pub(crate) fn timeout(ms: Option<f64>) -> Option<Duration> {
    ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok())
}

/// A cancellation token for any number of executions.
#[napi]
pub struct NativeToken(CancelToken);

impl NativeToken {
    pub(crate) fn token(&self) -> CancelToken {
        self.0.clone()
    }
}

#[napi]
impl NativeToken {
    /// Creates a token that is not cancelled.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self(CancelToken::new())
    }

    /// Cancels all executions that use the token.
    #[napi]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

/// The third argument of the callback, after the execution's number and the event's number.
type Payload = Either3<NativeExecution, Buffer, NativeFailure>;
type Args = FnArgs<(u32, u32, Payload)>;

/// An event of an execution. The numbers are defined in `src/native/module.ts`.
pub(crate) enum Event {
    Done(NativeExecution),
    Failed(EngineFailure),
    Output(Stream, Vec<u8>),
    /// The calls whose answers the script waits for.
    Waits(Vec<ToolRequest>),
}

impl From<NativeExecution> for Event {
    fn from(execution: NativeExecution) -> Self {
        Self::Done(execution)
    }
}

impl Event {
    fn args(self, execution: u32) -> Args {
        let (number, payload) = match self {
            Self::Done(execution) => (0, Either3::A(execution)),
            Self::Failed(failure) => (1, Either3::C(failure.into())),
            Self::Output(Stream::Stdout, bytes) => (2, Either3::B(bytes.into())),
            Self::Output(Stream::Stderr, bytes) => (3, Either3::B(bytes.into())),
            // The calls are sent as JSON text. Numbers and strings can always be serialized.
            Self::Waits(calls) => (5, Either3::B(serde_json::to_vec(&calls).unwrap_or_default().into())),
        };
        (execution, number, payload).into()
    }
}

/// A weak function reference, which does not keep Node.js alive. `src/native/port.ts` keeps Node.js alive while an
/// execution runs.
type EventFunction = ThreadsafeFunction<(u32, Event), (), Args, Status, false, true>;

/// The JavaScript function that receives the events of all executions that one thread started.
#[napi]
pub struct NativePort(Arc<EventFunction>);

#[napi]
impl NativePort {
    /// Creates a port. `callback` receives the execution's number, the event's number and its payload.
    #[napi(constructor)]
    pub fn new(callback: Function<'_, Args, ()>) -> napi::Result<Self> {
        let function = callback.build_threadsafe_function::<(u32, Event)>().weak::<true>();
        Ok(Self(Arc::new(function.build_callback(|ctx| Ok(ctx.value.1.args(ctx.value.0)))?)))
    }
}

/// A sender that passes one execution's events to its port.
#[derive(Clone)]
pub(crate) struct ExecutionEvents {
    function: Arc<EventFunction>,
    execution: u32,
}

impl ExecutionEvents {
    fn send(&self, event: Event) {
        // The call fails only while the environment is torn down. No listener is left then.
        let _ = self.function.call((self.execution, event), ThreadsafeFunctionCallMode::NonBlocking);
    }

    /// Reports guest output.
    pub(crate) fn output(&self, stream: Stream, bytes: &[u8]) {
        self.send(Event::Output(stream, bytes.to_vec()));
    }
}

impl NativePort {
    /// Runs an execution, or a step of a started execution, on another thread. The last event contains its result, or
    /// the error that prevented it.
    pub(crate) fn start<T: Into<Event> + 'static>(
        &self,
        execution: u32,
        work: impl FnOnce(&ExecutionEvents) -> Result<T, EngineFailure> + Send + 'static,
    ) {
        let events = ExecutionEvents { function: Arc::clone(&self.0), execution };
        threads::run(Box::new(move || {
            events.send(caught(|| work(&events)).map_or_else(Event::Failed, Into::into));
        }));
    }
}

/// The call's number, the tool's index, and the arguments as JSON text; `None` means that the call was abandoned.
type CallArgs = FnArgs<(u32, u32, Option<String>)>;

/// The JavaScript function that answers tool calls.
pub(crate) type Answer<'a> = Function<'a, CallArgs, ()>;

/// The function that answers calls, callable from any thread. It does not keep Node.js alive: the running execution
/// already does.
type Caller = ThreadsafeFunction<(u32, u32, Option<String>), (), CallArgs, Status, false, true>;

/// The description of a tool from JavaScript.
#[napi(object, object_to_js = false)]
pub struct NativeTool {
    /// The name in scripts.
    pub name: String,
    /// The description that `help` shows.
    pub description: String,
    /// The JSON Schema of the arguments object, as JSON text.
    pub schema: String,
    /// True if the caller of `start`, not a handler, answers the calls.
    pub waits: bool,
}

/// A result as JSON text, or a failure; `None` if the answer is no longer needed.
type Reply = Option<Result<String, ToolError>>;

/// The tool calls that JavaScript has not answered yet.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<OpenCalls>);

#[derive(Default)]
struct OpenCalls {
    next: AtomicU32,
    waiting: Mutex<HashMap<u32, Sender<Reply>>>,
}

impl Calls {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, Sender<Reply>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an answer to the call `number`. Ignores an answer that is no longer needed.
    pub(crate) fn reply(&self, number: u32, answer: Result<String, ToolError>) {
        if let Some(sender) = self.waiting().remove(&number) {
            let _ = sender.send(Some(answer));
        }
    }

    /// Creates the engine's tools, which `answer` implements. The result contains a failure for each invalid schema.
    pub(crate) fn tools(
        &self,
        tools: Vec<NativeTool>,
        answer: &Answer<'_>,
    ) -> napi::Result<Vec<Result<Tool, EngineFailure>>> {
        let function = answer.build_threadsafe_function::<(u32, u32, Option<String>)>().weak::<true>();
        let caller: Arc<Caller> = Arc::new(function.build_callback(|ctx| Ok(ctx.value.into()))?);
        let made = (0..).zip(tools).map(|(index, tool)| -> Result<Tool, EngineFailure> {
            let NativeTool { name, description, schema, waits } = tool;
            let tool = Tool::new(name, description).schema(serde_json::from_str(&schema)?);
            if waits {
                return Ok(tool.stepped());
            }
            let (calls, caller) = (self.clone(), Arc::clone(&caller));
            Ok(tool.text_handler(move |call: &ToolCall, arguments| calls.ask(&caller, call, index, arguments)))
        });
        Ok(made.collect())
    }

    /// Passes a call to JavaScript, and waits until it is answered or abandoned.
    fn ask(&self, caller: &Arc<Caller>, call: &ToolCall, index: u32, arguments: String) -> Result<String, ToolError> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        self.waiting().insert(number, sender.clone());
        let _waiting = WaitGuard::begin();
        if caller.call((number, index, Some(arguments)), ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            self.waiting().remove(&number);
            return Err(ToolError::new("the process is exiting"));
        }
        let given_up = call.cancel.on_cancel(move || drop(sender.send(None)));
        let reply = receiver.recv().ok().flatten();
        drop(given_up);
        let Some(answer) = reply else {
            self.waiting().remove(&number);
            // Tells JavaScript that the call was abandoned, so that the tool can stop.
            let _ = caller.call((number, index, None), ThreadsafeFunctionCallMode::NonBlocking);
            return Err(ToolError::new("the caller is no longer waiting for the answer"));
        };
        answer
    }
}
