//! Runs tool calls on threads of their own.
//!
//! `glovebox-core` implements the rules for all calls, on the guest's thread. Tool threads only queue their answers.

use std::sync::Arc;

use glovebox_core::tools::{
    Done, Failure, QueuedCall, ReadyCall, RunningCall, Start, ToolCalls, ToolRecord, ToolRunner, Toolset, Turn,
};

use super::{
    Account, PendingCalls, ToolCall, ToolErrorKind, ToolThreads, Toolbox,
    call_status::CallStatus,
    completions::CompletionQueue,
    pending::Waiting,
    toolbox::Entry,
    wait_tracker::WaitTracker,
    worker::{self, Job},
};
use crate::{
    CancelToken, Limits,
    exec::{events, stopwatch::Stopwatch},
};

/// The calls of one execution.
pub(crate) type Calls = ToolCalls<ThreadRunner>;

/// Runs the tools of one execution.
#[derive(Debug)]
pub(crate) struct ThreadRunner {
    toolbox: Arc<Toolbox>,
    threads: Arc<ToolThreads>,
    completions: Arc<CompletionQueue>,
    waits: WaitTracker,
    session_id: Option<String>,
    watch: Stopwatch,
    /// Account for the memory of this execution's calls.
    account: Arc<Account>,
    /// Number of started calls of tools with their own `max_calls`.
    counted: u64,
}

/// A call whose handler runs.
#[derive(Debug)]
pub(crate) struct ThreadCall {
    status: Arc<CallStatus>,
    cancel: CancelToken,
}

impl ThreadRunner {
    /// Returns the calls of an execution. `wake` is the execution's token, on which its thread waits for answers.
    /// `pending` receives the calls for the caller of a started execution.
    pub(crate) fn calls(
        toolbox: Arc<Toolbox>,
        threads: Arc<ToolThreads>,
        limits: &Limits,
        session_id: Option<String>,
        watch: Stopwatch,
        wake: CancelToken,
        pending: Option<Arc<PendingCalls>>,
    ) -> Calls {
        let account = Arc::new(Account::default());
        let completions = CompletionQueue::new(wake, Arc::clone(&account), watch);
        let waits = WaitTracker::new(pending);
        let held = Arc::clone(&account);
        let runner = Self { toolbox, threads, completions, waits, session_id, watch, account: held, counted: 0 };
        Calls::new(runner, account, limits, watch)
    }
}

impl ToolRunner for ThreadRunner {
    type Watch = Stopwatch;
    type Tool = Arc<Entry>;
    type Running = ThreadCall;
    type Wait = Waiting;

    fn tools(&self) -> &Toolset<Arc<Entry>> {
        self.toolbox.tools()
    }

    fn reserved(&self, name: &str) -> Option<Arc<Entry>> {
        self.toolbox.reserved(name)
    }

    fn max_bytes(&self, tool: &Arc<Entry>) -> Option<u64> {
        tool.max_bytes
    }

    fn start(&mut self, ready: ReadyCall<Arc<Entry>>) -> Result<Start<ThreadCall>, Failure> {
        let ReadyCall { call: QueuedCall { index, name, tool, arguments, text, held, .. }, deadline, max_bytes } =
            ready;
        if let Some(max_calls) = tool.max_calls {
            self.counted += 1;
            if self.counted > max_calls {
                let message = format!("an execution may make at most {max_calls} requests (`network.request_count`)");
                return Err(Failure::new(ToolErrorKind::Limit, message));
            }
        }
        let cancel = CancelToken::new();
        let (session_id, deadline) = (self.session_id.clone(), self.watch.instant(deadline));
        let account = Arc::clone(&self.account);
        let call = ToolCall { name, index, session_id, cancel: cancel.clone(), deadline, account };
        let (abandoned, pending) = (Arc::clone(self.toolbox.abandoned()), self.waits.pending().cloned());
        let job = Job { call, entry: tool, arguments, text, held, max_bytes, abandoned, pending };
        let status = worker::start(&self.threads, &self.completions, job)?;
        Ok(Start::Running(ThreadCall { status, cancel }))
    }

    /// Takes abandoned calls that still run into account.
    fn turn(&self, next: &QueuedCall<Arc<Entry>>, running: &[RunningCall<ThreadCall>]) -> Result<Turn, Failure> {
        next.tool.admit(&next.name)?;
        let running_bytes = running.iter().map(|call| call.running.status.bytes()).sum();
        self.toolbox.abandoned().admit(&self.session_id, next.held.bytes(), running_bytes)
    }

    fn answers(&mut self) -> Vec<Done> {
        self.completions.take()
    }

    fn has_answer(&self) -> bool {
        self.completions.has_answer()
    }

    fn cancel(&self, running: &ThreadCall) {
        running.cancel.cancel();
    }

    fn give_up(&self, index: usize, running: &ThreadCall) {
        running.cancel.cancel();
        running.status.abandon();
        if let Some(pending) = self.waits.pending() {
            pending.withdraw(index);
        }
    }

    /// Reports to the caller of a started execution that the guest waits, and for which of the caller's calls.
    fn begin_wait(&mut self, is_look: bool, running: &[RunningCall<ThreadCall>]) -> Option<Waiting> {
        let calls = running.iter().filter(|call| call.running.status.is_the_callers());
        self.waits.begin_wait(is_look, calls.map(|call| call.index))
    }

    fn end_wait(&mut self) {
        self.waits.stop_looking();
    }

    fn began(&self, name: &str, index: usize) {
        events::tool_start(self.session_id.as_deref(), name, index);
    }

    fn ended(&self, record: &ToolRecord, index: usize) {
        events::tool_complete(self.session_id.as_deref(), record, index);
    }

    fn refused(&self, count: u64) {
        events::tools_refused(self.session_id.as_deref(), count);
    }
}
