//! Tools that JavaScript answers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc::{self, Sender},
    },
};

use glovebox::{Tool, ToolCall, ToolError};
use napi::{
    Status,
    bindgen_prelude::{FnArgs, Function},
    threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode},
};
use napi_derive::napi;

use crate::{error::EngineFailure, threads::Waiting};

/// The number of a call, the tool's index, and the arguments as JSON text. Without arguments, the call of this number
/// was abandoned.
type Args = FnArgs<(u32, u32, Option<String>)>;

/// JavaScript's function that answers calls.
pub(crate) type Answer<'a> = Function<'a, Args, ()>;

/// The function that answers calls, callable from any thread. It does not keep Node.js alive: the execution does.
type Caller = ThreadsafeFunction<(u32, u32, Option<String>), (), Args, Status, false, true>;

/// A tool as JavaScript describes it.
#[napi(object, object_to_js = false)]
pub struct NativeTool {
    /// The name in scripts.
    pub name: String,
    /// The text that `help` shows.
    pub description: String,
    /// The schema of its arguments, as JSON text.
    pub schema: String,
}

/// A result as JSON text, or the text of a failure; `None` if the answer is no longer needed.
type Reply = Option<Result<String, String>>;

/// The calls that JavaScript has not answered yet.
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

    /// Answers a call. An answer that is no longer needed is dropped.
    pub(crate) fn reply(&self, number: u32, answer: Result<String, String>) {
        if let Some(sender) = self.waiting().remove(&number) {
            let _ = sender.send(Some(answer));
        }
    }

    /// Makes the engine's tools, with `answer` as their implementation.
    pub(crate) fn tools(&self, tools: Vec<NativeTool>, answer: &Answer<'_>) -> napi::Result<Vec<Unchecked>> {
        let function = answer.build_threadsafe_function::<(u32, u32, Option<String>)>().weak::<true>();
        let caller: Arc<Caller> = Arc::new(function.build_callback(|ctx| Ok(ctx.value.into()))?);
        let made = (0..).zip(tools).map(|(index, tool)| {
            let (calls, caller) = (self.clone(), Arc::clone(&caller));
            Unchecked { tool, handler: Box::new(move |call, arguments| calls.ask(&caller, call, index, arguments)) }
        });
        Ok(made.collect())
    }

    /// Calls JavaScript, and waits for the answer or for the end of the call.
    fn ask(&self, caller: &Arc<Caller>, call: &ToolCall, index: u32, arguments: String) -> Result<String, ToolError> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        self.waiting().insert(number, sender.clone());
        let _waiting = Waiting::begin();
        if caller.call((number, index, Some(arguments)), ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            self.waiting().remove(&number);
            return Err(ToolError::new("the program is ending"));
        }
        let given_up = call.cancel.on_cancel(move || drop(sender.send(None)));
        let reply = receiver.recv().ok().flatten();
        drop(given_up);
        let Some(answer) = reply else {
            self.waiting().remove(&number);
            // Tells JavaScript that the call was abandoned, so that it can stop too.
            let _ = caller.call((number, index, None), ThreadsafeFunctionCallMode::NonBlocking);
            return Err(ToolError::new("the caller no longer waits for the answer"));
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
    /// Parses the schema and makes the engine's tool.
    pub(crate) fn tool(self) -> Result<Tool, EngineFailure> {
        let NativeTool { name, description, schema } = self.tool;
        Ok(Tool::new(name, description).schema(serde_json::from_str(&schema)?).text_handler(self.handler))
    }
}
