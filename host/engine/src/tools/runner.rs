//! Runs each tool call on its own thread, except calls that the caller answers and whose arguments are checked quickly.
//!
//! `glovebox-core` applies the rules for calls, on the guest's thread. Tool threads only queue their answers.
//! [`DirectCall`] is a call that no script made, for components that execute scripts themselves.

use std::{
    collections::BTreeMap,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use glovebox_core::{
    Watch as _, check_json,
    tools::{
        Admission, Answer, CallFailure, CallStart, FinishedCall, NextReply, QueuedCall, ReadyCall, ReservedMemory,
        RunningCall, ToolCalls, ToolRecord, ToolRunner, Toolset, hold_answer, json_text, within,
    },
};
use serde_json::{Value, json};

use super::{
    CallMemory, ToolCall, ToolErrorKind, ToolMemory, ToolOutcome, ToolRules, Toolbox,
    abandoned::AbandonedCalls,
    call_status::{CallStatus, WaitTracker},
    pending::{PendingCall, PendingCalls, WaitGuard},
    toolbox::{Answerer, Entry},
};
use crate::{
    CancelToken, Engine, Limits,
    exec::{events, platform::Stopwatch},
};

/// The tool calls of one execution.
pub(crate) type Calls = ToolCalls<ThreadRunner>;

/// The runner of one execution's tool calls.
#[derive(Debug)]
pub(crate) struct ThreadRunner {
    toolbox: Arc<Toolbox>,
    threads: Arc<ToolThreads>,
    completions: Arc<CompletionQueue>,
    waits: WaitTracker,
    session_id: Option<String>,
    watch: Stopwatch,
    /// The memory charged for this execution's calls.
    account: Arc<ToolMemory>,
    /// The number of calls so far to tools that have their own `max_calls`.
    counted: u64,
    /// The number of calls so far to each tool whose calls the policy limits, by name.
    counted_by_name: BTreeMap<String, u64>,
}

/// A call that was started on a thread and has not been answered or abandoned yet.
#[derive(Debug)]
pub(crate) struct ThreadCall {
    status: Arc<CallStatus>,
    cancel: CancelToken,
}

impl ThreadRunner {
    /// Creates the calls of an execution. `wake` is the execution's token, which its thread waits on. `pending`
    /// receives the calls that the caller of a started execution must answer.
    pub(crate) fn calls(
        toolbox: Arc<Toolbox>,
        threads: Arc<ToolThreads>,
        limits: &Limits,
        session_id: Option<String>,
        watch: Stopwatch,
        wake: CancelToken,
        pending: Option<Arc<PendingCalls>>,
    ) -> Calls {
        let account = Arc::new(ToolMemory::default());
        let completions = CompletionQueue::new(wake, Arc::clone(&account), watch);
        let waits = WaitTracker::new(pending);
        let held = Arc::clone(&account);
        let runner = Self {
            toolbox,
            threads,
            completions,
            waits,
            session_id,
            watch,
            account: held,
            counted: 0,
            counted_by_name: BTreeMap::new(),
        };
        Calls::new(runner, account, limits, watch)
    }
}

impl ToolRunner for ThreadRunner {
    type Watch = Stopwatch;
    type Tool = Arc<Entry>;
    type Running = ThreadCall;
    type Wait = WaitGuard;

    fn tools(&self) -> &Toolset<Arc<Entry>> {
        self.toolbox.tools()
    }

    fn reserved(&self, name: &str) -> Option<Arc<Entry>> {
        self.toolbox.reserved(name)
    }

    fn max_bytes(&self, tool: &Arc<Entry>) -> Option<u64> {
        tool.max_bytes
    }

    fn start(&mut self, ready: ReadyCall<Arc<Entry>>) -> Result<CallStart<ThreadCall>, CallFailure> {
        let ReadyCall { call: QueuedCall { index, name, tool, arguments, text, held, .. }, deadline, max_bytes } =
            ready;
        if let Some(max_calls) = tool.max_calls {
            self.counted += 1;
            if self.counted > max_calls {
                let message =
                    format!("the execution has reached `network.request_count` ({max_calls}); raise the limit");
                return Err(CallFailure::new(ToolErrorKind::Limit, message));
            }
        }
        self.toolbox.rules().count(&name, &mut self.counted_by_name)?;
        let cancel = CancelToken::new();
        let (session_id, deadline) = (self.session_id.clone(), self.watch.instant(deadline));
        let memory = CallMemory::new(Arc::clone(&self.account), None);
        let call = ToolCall { name, index, session_id, cancel: cancel.clone(), deadline, memory };
        let (abandoned, pending) = (Arc::clone(self.toolbox.abandoned()), self.waits.pending().cloned());
        let rules = Arc::clone(self.toolbox.rules());
        let job = CallJob { call, entry: tool, rules, arguments, text, held, max_bytes, abandoned, pending };
        let status = start(&self.threads, &self.completions, job)?;
        Ok(CallStart::Running(ThreadCall { status, cancel }))
    }

    /// Decides whether a queued call can start, given the abandoned calls that still run.
    fn turn(
        &self,
        next: &QueuedCall<Arc<Entry>>,
        running: &[RunningCall<ThreadCall>],
    ) -> Result<Admission, CallFailure> {
        next.tool.admit(&next.name)?;
        let running_bytes = running.iter().map(|call| call.running.status.bytes()).sum();
        self.toolbox.abandoned().admit(&self.session_id, next.held.bytes(), running_bytes)
    }

    fn answers(&mut self) -> Vec<FinishedCall> {
        self.completions.take()
    }

    fn has_answer(&self) -> bool {
        self.completions.has_answer()
    }

    fn can_restart(&self, running: &ThreadCall) -> bool {
        running.status.is_pending()
    }

    fn count_repeated(&mut self, name: &str, tool: &Arc<Entry>) {
        self.counted += u64::from(tool.max_calls.is_some());
        // The result is ignored: if the first run refused this call, the journal contains the refusal.
        let _ = self.toolbox.rules().count(name, &mut self.counted_by_name);
    }

    fn cancel(&self, running: &ThreadCall) {
        running.cancel.cancel();
    }

    fn abandon(&self, index: usize, running: &ThreadCall) {
        running.cancel.cancel();
        running.status.abandon();
        if let Some(pending) = self.waits.pending() {
            pending.withdraw(index);
        }
    }

    /// Reports to the caller of a started execution that the guest waits for these calls, if the caller answers them.
    fn begin_wait(&mut self, is_poll: bool, running: &[RunningCall<ThreadCall>]) -> Option<WaitGuard> {
        let calls = running.iter().filter(|call| call.running.status.is_answered_by_caller());
        self.waits.begin_wait(is_poll, calls.map(|call| call.index))
    }

    fn end_wait(&mut self) {
        self.waits.stop_polling();
    }

    fn on_start(&self, name: &str, index: usize) {
        events::tool_start(self.session_id.as_deref(), name, index);
    }

    fn on_end(&self, record: &ToolRecord, index: usize) {
        events::tool_complete(self.session_id.as_deref(), record, index);
    }

    fn on_refused(&self, count: u64) {
        events::tools_refused(self.session_id.as_deref(), count);
    }
}

/// A tool call that no script made.
pub struct DirectCall<'a> {
    /// The name of the tool.
    pub name: &'a str,
    /// The arguments as JSON text.
    pub arguments: &'a str,
    /// The limits of the call.
    pub limits: &'a Limits,
    /// The origin to which the call is charged if it is abandoned.
    pub origin: &'a str,
    /// A token that no other call uses, because each answer wakes the threads that wait on the token.
    pub cancel: CancelToken,
}

impl DirectCall<'_> {
    /// Makes the call in an execution without other calls, and waits for its outcome.
    pub fn make(self, toolbox: &Arc<Toolbox>, engine: &Engine) -> ToolOutcome {
        let failed = |kind, message: String| ToolOutcome::Failed { kind, message: Some(message) };
        let (bytes, max) = (self.arguments.len() as u64, self.limits.tool_bytes);
        if bytes > max {
            let message = format!(
                "the arguments are {bytes} bytes; the maximum `limits.tool_bytes` is {max}; send less or raise the limit"
            );
            return failed(ToolErrorKind::Limit, message);
        }
        let invalid = |error| failed(ToolErrorKind::InvalidArguments, format!("the arguments are not JSON: {error}"));
        if let Err(error) = check_json(self.arguments) {
            return invalid(error);
        }
        // The arguments are nested one level deeper in the message, so the message can exceed the maximum depth even if
        // the arguments do not.
        let message = format!("{{\"id\":0,\"name\":{},\"arguments\":{}}}", json!(self.name), self.arguments);
        if let Err(error) = check_json(&message) {
            return invalid(error);
        }
        let mut limits: Limits = self.limits.clone();
        limits.tool_calls = 1;
        limits.tool_record_bytes = u64::MAX;
        limits.timeout_ms = limits.timeout_ms.max(limits.tool_timeout_ms);
        let (toolbox, threads) = (Arc::clone(toolbox), Arc::clone(&engine.0.tool_threads));
        let origin = self.origin.to_owned();
        let watch = Stopwatch(Instant::now());
        let cancel = self.cancel.clone();
        let mut calls = ThreadRunner::calls(toolbox, threads, &limits, Some(origin), watch, cancel, None);
        calls.account().set_room(limits.memory_bytes);
        calls.send(message.as_bytes());
        while let NextReply::Pending(due) = calls.take()
            && !self.cancel.is_cancelled()
        {
            self.cancel.wait(watch.instant(due), true, || calls.has_answer());
        }
        let room = || {
            failed(ToolErrorKind::Limit, "the arguments do not fit into the remaining `limits.memory_bytes`".to_owned())
        };
        calls.end().pop().map_or_else(room, |record| record.outcome)
    }
}

/// A queue of answers, shared by the tool threads of one execution.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    done: Mutex<Vec<FinishedCall>>,
    /// The token that the execution's thread waits on for answers.
    wake: CancelToken,
    pub(super) account: Arc<ToolMemory>,
    watch: Stopwatch,
}

impl CompletionQueue {
    pub(super) fn new(wake: CancelToken, account: Arc<ToolMemory>, watch: Stopwatch) -> Arc<Self> {
        Arc::new(Self { done: Mutex::default(), wake, account, watch })
    }

    /// Returns the time since the start of the execution.
    pub(super) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Adds all answers at once, and wakes the execution if it waits.
    pub(super) fn put(&self, done: impl IntoIterator<Item = FinishedCall>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).extend(done);
        self.wake.wake();
    }

    /// Takes all answers, in arrival order.
    pub(super) fn take(&self) -> Vec<FinishedCall> {
        std::mem::take(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns `true` if an answer is queued.
    pub(super) fn has_answer(&self) -> bool {
        !self.done.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The stack size of a call's thread, in bytes. Validating the deepest arguments against the deepest schema needs a
/// fraction of this stack. Only touched pages take memory.
const STACK_BYTES: usize = 16 << 20;

/// The number of an engine's tool threads, and its limit.
#[derive(Debug)]
pub(crate) struct ToolThreads {
    running: AtomicUsize,
    max: usize,
}

/// A permit for one running thread.
struct ThreadPermit(Arc<ToolThreads>);

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ToolThreads {
    pub(crate) fn new(max: u32) -> Arc<Self> {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        Arc::new(Self { running: AtomicUsize::new(0), max })
    }

    fn enter(self: &Arc<Self>) -> Option<ThreadPermit> {
        let next = |running| (running < self.max).then_some(running + 1);
        let taken = self.running.try_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok();
        taken.then(|| ThreadPermit(Arc::clone(self)))
    }
}

/// A call to run on a thread.
pub(super) struct CallJob {
    pub(super) call: ToolCall,
    pub(super) entry: Arc<Entry>,
    /// The policy's restrictions on the tools.
    pub(super) rules: Arc<ToolRules>,
    pub(super) arguments: Value,
    /// The arguments as JSON text, with all digits and the original key order.
    pub(super) text: String,
    /// The memory charged for the arguments.
    pub(super) held: ReservedMemory,
    pub(super) max_bytes: u64,
    /// The collection to which the call is added if it is abandoned.
    pub(super) abandoned: Arc<AbandonedCalls>,
    /// The collection to which the call is added if the caller must answer it. `None` if no caller steps through the
    /// execution.
    pub(super) pending: Option<Arc<PendingCalls>>,
}

/// The result of a call's thread.
enum CallWork {
    Answered(Answer),
    /// Validated arguments as JSON text, for the caller to answer.
    Checked(Arc<PendingCalls>, String),
}

/// Starts a call on a new thread. If only the arguments must be checked and the check is quick, this thread checks them
/// instead.
pub(super) fn start(
    threads: &Arc<ToolThreads>,
    completions: &Arc<CompletionQueue>,
    job: CallJob,
) -> Result<Arc<CallStatus>, CallFailure> {
    let busy = |message: &str| CallFailure::new(ToolErrorKind::Limit, message);
    let place =
        threads.enter().ok_or_else(|| busy("the host is running the maximum number of tools; try again later"))?;
    let status = CallStatus::new(&job.entry, &job.abandoned, job.call.session_id.clone(), job.held.bytes());
    let status = Arc::new(status.needs_approval(job.rules.needs_approval(&job.call.name)));
    let rule_size = job.rules.schema_size(&job.call.name);
    if job.pending.is_some() && job.entry.is_checked_at_once(rule_size, job.text.len()) {
        run(completions, &status, job, place);
        return Ok(status);
    }
    let (completions, ticket) = (Arc::clone(completions), Arc::clone(&status));
    thread::Builder::new()
        .name(format!("tool {}", job.call.name))
        .stack_size(STACK_BYTES)
        .spawn(move || run(&completions, &ticket, job, place))
        .map_err(|_| busy("the host cannot start a thread for the tool; try again later"))?;
    Ok(status)
}

fn run(completions: &Arc<CompletionQueue>, status: &Arc<CallStatus>, job: CallJob, place: ThreadPermit) {
    let CallJob { call, entry, rules, arguments, text, held, max_bytes, pending, .. } = job;
    let approve = rules.needs_approval(&call.name);
    // Catch a panic in the handler. The panic hook has already reported the panic. The script receives an error.
    let worked = panic::catch_unwind(AssertUnwindSafe(|| {
        let checked = entry.checked.check(&arguments).and_then(|()| rules.check(&call.name, &arguments));
        match checked {
            Ok(()) if approve => leave_to_approver(&call.name, text, pending),
            Ok(()) => work(&call, &entry, (arguments, text), max_bytes, pending),
            Err(failure) => CallWork::Answered(Err(failure)),
        }
    }));
    let panicked =
        |_| CallWork::Answered(Err(CallFailure::new(ToolErrorKind::Failed, format!("`{}` panicked", call.name))));
    let worked = worked.unwrap_or_else(panicked);
    let ended = completions.elapsed();
    let index = call.index;
    // Releases the slot first: it must be free when the caller sees the answer.
    drop(place);
    match worked {
        CallWork::Answered(answer) => {
            drop(held);
            if status.answer() {
                let (answer, held) = hold_answer(&completions.account, answer);
                completions.put([FinishedCall { index, answer, held, ended }]);
            }
        }
        CallWork::Checked(pending, arguments) => {
            let (status, completions) = (Arc::clone(status), Arc::clone(completions));
            let name = call.name;
            pending.push(index, PendingCall { name, arguments, held, max_bytes, approve, status, completions });
        }
    }
}

/// Leaves a call that needs an approval to the caller of the execution. Denies it if the caller does not approve calls.
fn leave_to_approver(name: &str, text: String, pending: Option<Arc<PendingCalls>>) -> CallWork {
    if let Some(pending) = pending.filter(|pending| pending.is_approver()) {
        return CallWork::Checked(pending, text);
    }
    let message = format!(
        "calls to `{name}` need an approval (`tools.{name}.approve`), and this execution has no approver; use `glovebox \
         run` for a single script, use `glovebox mcp`, or start it with `Request::approvals`"
    );
    CallWork::Answered(Err(CallFailure::new(ToolErrorKind::Denied, message)))
}

/// Calls the handler with valid arguments, or leaves the call to the caller of a started execution.
fn work(
    call: &ToolCall,
    entry: &Entry,
    (arguments, text): (Value, String),
    max_bytes: u64,
    pending: Option<Arc<PendingCalls>>,
) -> CallWork {
    CallWork::Answered(match (&entry.answerer, pending) {
        (Answerer::Handler(handler), _) => {
            handler(call, arguments).map_err(CallFailure::from).and_then(|result| within(result.to_string(), max_bytes))
        }
        (Answerer::TextHandler(handler), _) => {
            handler(call, text).map_err(CallFailure::from).and_then(|text| within(text, max_bytes)).and_then(json_text)
        }
        (Answerer::Caller, Some(pending)) => return CallWork::Checked(pending, text),
        (Answerer::Caller, None) => {
            let message = format!(
                "the caller answers calls to `{}`, but this execution was not begun with `start`; use `start`, or give \
                 the tool a handler",
                call.name
            );
            Err(CallFailure::new(ToolErrorKind::Failed, message))
        }
    })
}
