//! Executions that the caller steps through. [`Started`] runs an execution on its own thread and is the caller's
//! handle. [`PendingToolCalls`] is only a handle to the calls of an execution that runs on a thread of the caller.

use std::{
    cell::Cell,
    collections::BTreeSet,
    fmt,
    future::poll_fn,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, OnceLock, mpsc},
    task::Waker,
    thread,
    time::{Duration, Instant},
};

use glovebox_core::check_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    CancelToken, ExecuteError, Execution, Request, Sandbox, Stream, ToolError,
    exec::{
        suspend::{SuspensionParts, call_bytes},
        transcript::{Transcript, finished_output},
    },
    tools::{PendingCalls, Progress},
};

/// The progress of a started execution.
#[derive(Clone, Debug)]
pub enum Step {
    /// The execution has ended.
    Done(Arc<Execution>),
    /// Unanswered tool calls, in the order in which the script made them. Concurrent calls are returned together.
    ///
    /// Returned if the script can continue only after an answer from the caller, or after a timeout. Also returned if
    /// there are unanswered calls when the time limit of [`Started::advance`](crate::Started::advance) expires.
    NeedsTools(Vec<ToolRequest>),
    /// The time limit of [`Started::advance`](crate::Started::advance) has expired, and the script is running without
    /// unanswered calls.
    Running,
}

/// A call to one of the caller's tools. The script waits for the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolRequest {
    /// The index of the call in [`Execution::tool_calls`], counted from 0. Calls of tools with handlers are counted
    /// too.
    pub id: u64,
    /// The name of the tool.
    pub name: String,
    /// The arguments: text of a JSON object that matches the tool's schema, at most `limits.tool_bytes`.
    pub arguments: String,
    /// `true` if the policy requires an approval for the call ([`ToolPolicy::approve`](crate::ToolPolicy::approve)). If
    /// the tool has a handler, the engine has not called it. Answer with the handler's result
    /// ([`Tool::answer`](crate::Tool::answer)), or refuse the call with
    /// [`ToolErrorKind::Denied`](crate::ToolErrorKind::Denied).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approve: bool,
}

impl ToolRequest {
    /// Returns the arguments as a parsed JSON object.
    #[must_use]
    pub fn values(&self) -> Value {
        serde_json::from_str(&self.arguments).unwrap_or_default()
    }

    /// Returns an upper bound of the call's size in the bytes of a suspended execution.
    #[must_use]
    pub fn suspended_bytes(&self) -> usize {
        call_bytes(&self.name, &self.arguments)
    }
}

/// The caller's answer to a [`ToolRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolAnswer {
    /// The ID of the [`ToolRequest`].
    pub id: u64,
    /// The result as JSON text, or an error. A result larger than `limits.tool_bytes` raises
    /// [`ToolLimit`](crate::ToolErrorKind::Limit) in the script.
    pub answer: Result<String, ToolError>,
}

impl ToolAnswer {
    /// Creates an answer with a result.
    #[must_use]
    pub fn value(id: u64, value: &Value) -> Self {
        Self { id, answer: Ok(value.to_string()) }
    }

    /// Creates an answer with an error.
    #[must_use]
    pub fn error(id: u64, error: impl Into<ToolError>) -> Self {
        Self { id, answer: Err(error.into()) }
    }
}

/// The reason why a started execution could not be continued or carried out.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdvanceError {
    /// An answer is for a call that the execution has not made. All answers were discarded.
    #[error("unknown tool call {id}; answer with the ID of the request")]
    UnknownCall {
        /// The ID of the answer.
        id: u64,
    },
    /// An answer is not JSON, or is nested more than 127 levels deep. All answers were discarded.
    #[error("the answer to call {id} is not JSON: {reason}")]
    NotJson {
        /// The ID of the answer.
        id: u64,
        /// The error from the JSON parser.
        reason: String,
    },
    /// The execution could not be carried out. Advancing again returns the same error.
    #[error(transparent)]
    Execute(Arc<ExecuteError>),
    /// The execution's thread panicked, in a listener of the embedder or in the sandbox itself. A session is left in
    /// the same state as after an unwound execution.
    #[error("the execution's thread panicked; see the log")]
    Panicked,
}

/// A handle to the tool calls of an execution, for a caller that runs the execution on one of its own threads.
///
/// [`Started`] creates a thread for each execution, and [`Started::advance`] blocks. An async program can instead use
/// its own thread pool: it sets [`Request::pending_calls`] and calls [`Sandbox::run`](crate::Sandbox::run) or
/// [`Session::run`](crate::Session::run) on a thread of the pool. Meanwhile, a task answers the calls. The script, its
/// limits and its fuel are the same in both cases.
///
/// Clones refer to the same calls. Use a new handle for each execution.
///
/// ```
/// use glovebox::{AdvanceError, PendingToolCalls, ToolAnswer};
/// use serde_json::json;
///
/// /// Answers all calls. Drop the future when the execution has ended.
/// async fn answer_calls(calls: PendingToolCalls) -> Result<(), AdvanceError> {
///     loop {
///         let requests = calls.wait().await;
///         calls.answer(requests.iter().map(|request| ToolAnswer::value(request.id, &json!("Ada"))).collect())?;
///     }
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct PendingToolCalls(pub(crate) Arc<PendingCalls>);

impl PendingToolCalls {
    /// Creates a handle for one execution.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until the script can continue only after an answer from the caller, or after a timeout. Returns the
    /// unanswered calls, as in [`Step::NeedsTools`].
    ///
    /// The future stays pending after the end of the execution, so wait for the end as well. Dropping the future has no
    /// effect on the execution.
    pub async fn wait(&self) -> Vec<ToolRequest> {
        poll_fn(|context| self.0.poll_calls(context)).await
    }

    /// Passes answers to the script. Does not block. Ignores an answer to a call that timed out or was already answered.
    ///
    /// # Errors
    /// [`AdvanceError::UnknownCall`] or [`AdvanceError::NotJson`] if an answer is invalid. All answers are then
    /// discarded, and the execution continues.
    pub fn answer(&self, answers: Vec<ToolAnswer>) -> Result<(), AdvanceError> {
        answer(&self.0, answers)
    }

    /// Wakes `observer` for each later call and at the end of the execution.
    #[doc(hidden)]
    pub fn observe(&self, observer: Waker) {
        self.0.observe(observer);
    }

    /// Returns at most `max_count` pending calls that are not in `seen`, in ascending order, even if the guest does not
    /// wait for them. Their names and arguments total at most `max_bytes`, but a single call can have more. Adds the
    /// returned calls to `seen`, and removes calls from `seen` that are no longer pending. Returns `None` if there are
    /// no new calls.
    #[doc(hidden)]
    pub fn new_calls(&self, seen: &mut BTreeSet<usize>, max_count: usize, max_bytes: u64) -> Option<Vec<ToolRequest>> {
        self.0.new_calls(seen, max_count, max_bytes)
    }
}

/// The stack size of an execution's thread, in bytes. Only host code uses this stack: guests run on separate stacks.
const STACK_BYTES: usize = 512 << 10;

/// An execution that the caller steps through, to answer tool calls, to stream output, or to do other work while the
/// script runs.
///
/// The execution runs on its own thread, even while the caller does not wait in [`advance`](Self::advance). Its limits
/// apply from its start. Time between two steps is charged like any other wait (`limits.timeout_ms`,
/// `limits.tool_timeout_ms`), but waiting costs no fuel. A script uses the same fuel whether a handler or the caller
/// answers its tool calls.
///
/// Tools with handlers are answered by their handlers. Only calls to [`Tool::stepped`](crate::Tool::stepped) tools are
/// returned to the caller.
///
/// In a session, the execution blocks other requests until it has ended. Dropping the handle cancels the execution. The
/// thread then ends on its own, and the session continues as after any other cancelled execution.
///
/// ```no_run
/// use glovebox::{Engine, EngineConfig, Request, Sandbox, Step, Tool, ToolAnswer};
/// use serde_json::json;
///
/// let engine = Engine::new(EngineConfig::default())?;
/// let ask = Tool::new("ask", "Asks the user.")
///     .schema(json!({ "properties": { "question": { "type": "string" } }, "required": ["question"] }))
///     .stepped();
/// let sandbox = Sandbox::builder(&engine).tool(ask).build()?;
///
/// let started = sandbox.start(Request::new("print('Hello,', tools.ask('What is your name?'))"))?;
/// let mut answers = Vec::new();
/// let execution = loop {
///     match started.advance(answers, None)? {
///         Step::Done(execution) => break execution,
///         Step::NeedsTools(requests) => {
///             answers = requests.iter().map(|request| ToolAnswer::value(request.id, &json!("Ada"))).collect();
///         }
///         // Only if `advance` has a time limit.
///         Step::Running => answers = Vec::new(),
///     }
/// };
/// assert_eq!(execution.stdout.text(), "Hello, Ada\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Started {
    shared: Arc<SteppingState>,
    cancel: CancelToken,
    /// Set if the execution can be suspended.
    pub(in crate::exec) suspendable: Option<SuspensionParts>,
}

/// The state that the execution's thread and the handle share.
#[derive(Default)]
struct SteppingState {
    pending: Arc<PendingCalls>,
    transcript: Arc<Transcript>,
    /// The result of the execution. Set before `pending` reports the end.
    end: OnceLock<Result<Arc<Execution>, AdvanceError>>,
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("has_ended", &self.shared.end.get().is_some()).finish_non_exhaustive()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Started {
    /// Runs `work` on a new thread. Returns when `work` calls its second argument or ends. If `work` fails before that
    /// call, returns its error. `finish` receives a successful execution before `advance` can return it. After a
    /// failure, `finish` is dropped uncalled.
    pub(crate) fn begin(
        sandbox: &Sandbox,
        mut request: Request<'_>,
        finish: impl FnOnce(&mut Execution) + Send + 'static,
        work: impl FnOnce(Request<'static>, &dyn Fn()) -> Result<Execution, ExecuteError> + Send + 'static,
    ) -> Result<Self, ExecuteError> {
        // Use a child token, so that dropping the handle cancels only this execution.
        let cancel = request.cancel_token().map_or_else(CancelToken::new, CancelToken::child);
        let suspendable = request.options.is_suspendable.then(|| SuspensionParts {
            suspension: Arc::default(),
            sandbox: sandbox.clone(),
            request: match &request.options.replay {
                Some(suspended) => suspended.first_request(),
                None => Arc::new(request.parts.clone().into_owned()),
            },
            replay: request.options.replay.clone(),
        });
        request.options.suspension = suspendable.as_ref().map(|suspendable| Arc::clone(&suspendable.suspension));
        let request = request.cancel(&cancel).into_owned();
        let shared = Arc::new(SteppingState::default());
        let (sender, receiver) = mpsc::channel();
        let pending = Arc::clone(&shared.pending);
        let on_cancel = cancel.on_cancel(move || pending.cancel());
        let there = Arc::clone(&shared);
        thread::Builder::new()
            .name("glovebox-started".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _on_cancel = on_cancel;
                there.run(request, &sender, finish, work);
            })
            .map_err(|source| ExecuteError::System { what: "thread", source })?;
        match receiver.recv() {
            Ok(Err(error)) => Err(error),
            // The channel closed without a message: `work` has ended.
            Ok(Ok(())) | Err(mpsc::RecvError) => Ok(Self { shared, cancel, suspendable }),
        }
    }

    /// Passes answers to the script, then waits until the execution has ended or needs more answers. `wait` is the
    /// maximum duration of the wait. `None` means no limit.
    ///
    /// An answer to a call that timed out or was already answered is ignored. Calls that are still unanswered are
    /// returned again immediately. After a cancellation, unanswered calls are not returned: `advance` waits until the
    /// execution has ended, or until the script makes further calls while it handles the cancellation. After the end,
    /// each call to `advance` returns [`Step::Done`] with the same execution.
    ///
    /// # Errors
    /// If an answer is invalid, all answers are discarded and the execution continues. Other errors mean that the
    /// execution could not be carried out.
    pub fn advance(&self, answers: Vec<ToolAnswer>, wait: Option<Duration>) -> Result<Step, AdvanceError> {
        let end = wait.and_then(|wait| Instant::now().checked_add(wait));
        let pending = &self.shared.pending;
        answer(pending, answers)?;
        Ok(match pending.wait(end) {
            Progress::Waits(calls) => Step::NeedsTools(calls),
            Progress::Runs => Step::Running,
            Progress::Ended => Step::Done(self.shared.end.get().cloned().unwrap_or(Err(AdvanceError::Panicked))?),
        })
    }

    /// Returns at most `len_bytes` of the script's output on a stream, starting at byte `offset`. Returns an empty
    /// vector at the end of the current output. Bytes beyond the stream's limit are never included.
    #[must_use]
    pub fn read_output(&self, stream: Stream, offset: u64, len_bytes: u64) -> Vec<u8> {
        let live = self.shared.transcript.read(stream, offset, len_bytes);
        live.or_else(|| self.execution().map(|execution| finished_output(&execution, stream, offset, len_bytes)))
            .unwrap_or_default()
    }

    /// Returns `true` once the execution has ended. [`advance`](Self::advance) then returns its result or its error.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.end.get().is_some()
    }

    /// Returns the finished execution, or `None` if it is still running or ended with an error.
    #[must_use]
    pub fn execution(&self) -> Option<Arc<Execution>> {
        self.shared.end.get()?.as_ref().ok().cloned()
    }

    /// Returns the result of the execution once it has ended.
    #[doc(hidden)]
    pub fn end(&self) -> Option<Result<Arc<Execution>, AdvanceError>> {
        self.shared.end.get().cloned()
    }

    /// Returns the calls that the caller must answer.
    #[doc(hidden)]
    pub fn pending(&self) -> PendingToolCalls {
        PendingToolCalls(Arc::clone(&self.shared.pending))
    }

    /// Cancels the execution, like its [`CancelToken`]. Has no effect if the execution was already cancelled or has
    /// ended.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Returns the token that cancels the execution. If the request has a token, the returned token is its child.
    #[must_use]
    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel
    }
}

impl SteppingState {
    /// Runs the execution. This is the body of its thread.
    fn run(
        &self,
        mut request: Request<'static>,
        sender: &mpsc::Sender<Result<(), ExecuteError>>,
        finish: impl FnOnce(&mut Execution),
        work: impl FnOnce(Request<'static>, &dyn Fn()) -> Result<Execution, ExecuteError>,
    ) {
        let has_begun = Cell::new(false);
        let begun = || {
            has_begun.set(true);
            // Sending fails only if `begin` has stopped waiting.
            sender.send(Ok(())).ok();
        };
        let (transcript, mut listener) = (Arc::clone(&self.transcript), request.options.on_output.take());
        // The listener has already received the output from before a suspension.
        let [mut old_stdout, mut old_stderr] =
            request.options.replay.as_ref().map_or([0; 2], |suspended| suspended.output_bytes());
        let on_output = move |stream, bytes: &[u8]| {
            transcript.add(stream, bytes);
            let old = match stream {
                Stream::Stdout => &mut old_stdout,
                Stream::Stderr => &mut old_stderr,
            };
            let repeated = usize::try_from(*old).unwrap_or(usize::MAX).min(bytes.len());
            *old -= repeated as u64;
            if let (Some(listener), Some(new @ [_, ..])) = (&mut listener, bytes.get(repeated..)) {
                listener(stream, new);
            }
        };
        let (suspension, after_end) = (request.options.suspension.clone(), request.options.after_end.take());
        let worked = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut request = request.on_output(on_output);
            request.options.pending = Some(Arc::clone(&self.pending));
            // `work` consumes the request, so the request's listener is dropped before the end becomes visible.
            let mut worked = work(request, &begun);
            match &mut worked {
                Ok(execution) => finish(execution),
                Err(_) => drop(finish),
            }
            worked
        }));
        let end = match worked {
            Ok(Ok(execution)) => Ok(Arc::new(execution)),
            Ok(Err(error)) if !has_begun.get() => {
                sender.send(Err(error)).ok();
                return;
            }
            Ok(Err(error)) => Err(AdvanceError::Execute(Arc::new(error))),
            Err(_) => Err(AdvanceError::Panicked),
        };
        let has_output = end.is_ok();
        self.end.set(end).ok();
        drop(after_end);
        if has_output {
            self.transcript.close();
        }
        // Releases the session's saved state before the end becomes visible. Otherwise, session limits would still
        // count that state.
        if let Some(suspension) = &suspension {
            suspension.release_before();
        }
        self.pending.end();
        if let Some(suspension) = suspension {
            suspension.end();
        }
    }
}

/// Validates all answers and passes them to the execution.
pub(crate) fn answer(pending: &PendingCalls, answers: Vec<ToolAnswer>) -> Result<(), AdvanceError> {
    for ToolAnswer { id, answer } in &answers {
        if !pending.can_be_answered(*id) {
            return Err(AdvanceError::UnknownCall { id: *id });
        }
        if let Ok(text) = answer {
            check_json(text).map_err(|reason| AdvanceError::NotJson { id: *id, reason })?;
        }
    }
    pending.answer(answers);
    Ok(())
}
