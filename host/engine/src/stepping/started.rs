//! A started execution.

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

/// What the host's own code may use of an execution's thread; guests run on stacks of their own.
const STACK_BYTES: usize = 512 << 10;

/// An execution that its caller steps through: to answer calls of tools itself, to read output as it comes, or to do something else
/// meanwhile.
///
/// It runs by itself on a thread of its own, whether or not somebody waits in [`advance`](Self::advance). Its limits hold from its
/// beginning, and time between two steps is on its bill as all waiting is (`limits.timeout_ms`, `limits.tool_timeout_ms`); waiting
/// costs no fuel. A script costs the same fuel whether a handler answers its tools or the caller.
///
/// Calls of tools that the sandbox has handlers for are answered by these. Those of [`Tool::stepped`](crate::Tool::stepped) come out.
///
/// In a session it has the turn until it has ended. Dropping it cancels it; its thread ends by itself then, and the session goes on from
/// there as after any other execution that was cancelled.
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

/// What the execution's thread has in common with its caller.
#[derive(Default)]
struct Shared {
    pending: Arc<PendingCalls>,
    transcript: Arc<Transcript>,
    /// Set before `pending` says that it has ended.
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
    /// Runs `work` on a thread of its own, and returns when it has called what it is given, or has failed before. Nobody hears of
    /// the end before `finish` was called, or dropped where there is no execution.
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
            // Without a word it has come to its end.
            Ok(Ok(())) | Err(mpsc::RecvError) => Ok(Self { shared, cancel }),
        }
    }

    /// Gives answers, and waits until the execution has ended or needs others, at most for `wait` where that is given.
    ///
    /// An answer to a call that has none outstanding, because its time was over or it was answered before, goes nowhere. Calls that were
    /// left unanswered are told again, at once. Once [`Step::Done`], it is that with the same execution each time.
    ///
    /// # Errors
    /// [`AdvanceError`]; for one that is about an answer no answer was taken, and the execution goes on.
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

    /// What the script has written to a stream so far, from the byte `offset` on, at most `len_bytes`: nothing at the end of what is
    /// there. Bytes over the stream's limit are never there.
    #[must_use]
    pub fn read_output(&self, stream: Stream, offset: u64, len_bytes: u64) -> Vec<u8> {
        let live = self.shared.transcript.read(stream, offset, len_bytes);
        live.or_else(|| self.execution().map(|execution| transcript::written(&execution, stream, offset, len_bytes)))
            .unwrap_or_default()
    }

    /// Whether it has ended, with an execution or an error: [`advance`](Self::advance) says which.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.end.get().is_some()
    }

    /// The execution, once it has ended: what [`Step::Done`] has.
    #[must_use]
    pub fn execution(&self) -> Option<Arc<Execution>> {
        self.shared.end.get()?.as_ref().ok().cloned()
    }

    /// Stops it, as its [`CancelToken`] does. Cancelling again, or after its end, does nothing.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// What stops it from elsewhere: a child of the request's token, where that had one.
    #[must_use]
    pub fn cancel_token(&self) -> &CancelToken {
        &self.cancel
    }
}

impl Shared {
    /// What the thread does.
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
            // Whoever asked waits for this, and for nothing before it.
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
            // Whatever comes of it, the request is gone afterwards, with its listener.
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

/// An answer that the execution can take.
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
