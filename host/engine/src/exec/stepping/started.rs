//! A started execution and its thread.

use std::{
    cell::Cell,
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use glovebox_core::check_json;

use super::{
    AdvanceError, Step, ToolAnswer, ToolRequest,
    transcript::{self, Transcript},
};
use crate::{
    CancelToken, ExecuteError, Execution, Request, Stream,
    tools::{CallerAnswer, OpenCall, PendingCalls, Progress},
};

/// Stack size of an execution's thread, for the host's own code. Guests run on stacks of their own.
const STACK_BYTES: usize = 512 << 10;

/// An execution that its caller steps through, to answer tool calls itself, to stream output, or to do other work
/// meanwhile.
///
/// The execution runs on a thread of its own, whether or not the caller waits in [`advance`](Self::advance). Its limits
/// apply from its start. Time between two steps counts like any other wait (`limits.timeout_ms`,
/// `limits.tool_timeout_ms`), but waiting costs no fuel. The fuel of a script does not depend on whether a handler or
/// the caller answers its tool calls.
///
/// The sandbox's handlers answer calls of their tools. Calls of [`Tool::stepped`](crate::Tool::stepped) tools are
/// returned to the caller.
///
/// In a session the execution holds the turn until it has ended. Dropping the handle cancels the execution. The thread
/// then ends by itself, and the session continues as after any other cancelled execution.
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
///         // Only where `advance` is given a time.
///         Step::Running => answers = Vec::new(),
///     }
/// };
/// assert_eq!(execution.stdout.text(), "Hello, Ada\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Started {
    shared: Arc<Shared>,
    cancel: CancelToken,
}

/// State that the execution's thread shares with its caller.
#[derive(Default)]
struct Shared {
    pending: Arc<PendingCalls>,
    transcript: Arc<Transcript>,
    /// Set before `pending` reports the end.
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
    /// Runs `work` on a thread of its own. Returns once `work` has called its argument, or has failed before that.
    /// `finish` is called, or dropped if the execution fails, before the end becomes visible.
    pub(crate) fn begin(
        request: Request<'_>,
        finish: impl FnOnce(&mut Execution) + Send + 'static,
        work: impl FnOnce(Request<'static>, &dyn Fn()) -> Result<Execution, ExecuteError> + Send + 'static,
    ) -> Result<Self, ExecuteError> {
        // A child, so that dropping the handle cancels nothing else.
        let cancel = request.cancel.as_ref().map_or_else(CancelToken::new, CancelToken::child);
        let request = request.cancel(&cancel).into_owned();
        let shared = Arc::new(Shared::default());
        let (tell, told) = mpsc::channel();
        let there = Arc::clone(&shared);
        thread::Builder::new()
            .name("glovebox-started".into())
            .stack_size(STACK_BYTES)
            .spawn(move || there.run(request, &tell, finish, work))
            .map_err(|source| ExecuteError::System { what: "thread", source })?;
        match told.recv() {
            Ok(Err(error)) => Err(error),
            // The channel closed without a message: the execution has finished.
            Ok(Ok(())) | Err(mpsc::RecvError) => Ok(Self { shared, cancel }),
        }
    }

    /// Passes answers to the script, and waits until the execution has ended or needs more answers. `wait` limits the
    /// wait; without it there is no limit.
    ///
    /// An answer to a call that timed out or was answered before is ignored. Unanswered calls are returned again,
    /// without a wait. After the end, each call returns [`Step::Done`] with the same execution.
    ///
    /// # Errors
    /// If an answer is invalid, none of the answers is used, and the execution continues. Other errors mean that the
    /// execution could not be carried out.
    pub fn advance(&self, answers: Vec<ToolAnswer>, wait: Option<Duration>) -> Result<Step, AdvanceError> {
        let end = wait.and_then(|wait| Instant::now().checked_add(wait));
        let pending = &self.shared.pending;
        let answers = answers.into_iter().map(|answer| accepted(pending, answer)).collect::<Result<Vec<_>, _>>()?;
        pending.answer(answers);
        Ok(match pending.wait(end) {
            Progress::Waits(calls) => Step::NeedsTools(calls.into_iter().map(requested).collect()),
            Progress::Runs => Step::Running,
            Progress::Ended => Step::Done(self.shared.end.get().cloned().unwrap_or(Err(AdvanceError::Panicked))?),
        })
    }

    /// Returns the script's output on a stream so far, from the byte `offset` on, at most `len_bytes`. Returns an empty
    /// vector at the end. Bytes beyond the stream's limit are never included.
    #[must_use]
    pub fn read_output(&self, stream: Stream, offset: u64, len_bytes: u64) -> Vec<u8> {
        let live = self.shared.transcript.read(stream, offset, len_bytes);
        live.or_else(|| self.execution().map(|execution| transcript::written(&execution, stream, offset, len_bytes)))
            .unwrap_or_default()
    }

    /// Returns `true` once the execution has ended, with a result or an error. [`advance`](Self::advance) returns
    /// either.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.end.get().is_some()
    }

    /// Returns the execution of [`Step::Done`] once it has ended, and `None` after an error.
    #[must_use]
    pub fn execution(&self) -> Option<Arc<Execution>> {
        self.shared.end.get()?.as_ref().ok().cloned()
    }

    /// Cancels the execution, like its [`CancelToken`]. Has no effect if it was cancelled already or has ended.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Returns the token that cancels the execution: a child of the request's token, if it had one.
    #[must_use]
    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel
    }
}

impl Shared {
    /// Runs the execution. This is the body of the thread.
    fn run(
        &self,
        mut request: Request<'static>,
        tell: &mpsc::Sender<Result<(), ExecuteError>>,
        finish: impl FnOnce(&mut Execution),
        work: impl FnOnce(Request<'static>, &dyn Fn()) -> Result<Execution, ExecuteError>,
    ) {
        let has_begun = Cell::new(false);
        let begun = || {
            has_begun.set(true);
            // `begin` waits only for this message.
            tell.send(Ok(())).ok();
        };
        let (transcript, mut listener) = (Arc::clone(&self.transcript), request.on_output.take());
        let on_output = move |stream, bytes: &[u8]| {
            transcript.add(stream, bytes);
            if let Some(listener) = &mut listener {
                listener(stream, bytes);
            }
        };
        let worked = panic::catch_unwind(AssertUnwindSafe(|| {
            let mut asked = request.on_output(on_output);
            asked.pending = Some(Arc::clone(&self.pending));
            // In any case the request is dropped here, with its listener.
            let mut worked = work(asked, &begun);
            match &mut worked {
                Ok(execution) => finish(execution),
                Err(_) => drop(finish),
            }
            worked
        }));
        let end = match worked {
            Ok(Ok(execution)) => Ok(Arc::new(execution)),
            Ok(Err(error)) if !has_begun.get() => {
                tell.send(Err(error)).ok();
                return;
            }
            Ok(Err(error)) => Err(AdvanceError::Execute(Arc::new(error))),
            Err(_) => Err(AdvanceError::Panicked),
        };
        let has_output = end.is_ok();
        self.end.set(end).ok();
        if has_output {
            self.transcript.close();
        }
        self.pending.end();
    }
}

/// Validates an answer, and finds its call.
fn accepted(pending: &PendingCalls, ToolAnswer { id, answer }: ToolAnswer) -> Result<CallerAnswer, AdvanceError> {
    let index = usize::try_from(id).ok().filter(|index| pending.knows(*index));
    let index = index.ok_or(AdvanceError::UnknownCall { id })?;
    match answer {
        Ok(text) => {
            check_json(&text).map_err(|reason| AdvanceError::NotJson { id, reason })?;
            Ok(CallerAnswer { index, answer: Ok(text) })
        }
        Err(error) => Ok(CallerAnswer { index, answer: Err((error.kind(), error.message().to_owned())) }),
    }
}

fn requested(OpenCall { index, name, arguments }: OpenCall) -> ToolRequest {
    ToolRequest { id: index as u64, name, arguments }
}
