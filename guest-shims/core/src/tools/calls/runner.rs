//! The interface between the tool calls of an execution and the platform that runs the tools.

use std::ops::Deref;

use super::{Admission, CallStart, FinishedCall, QueuedCall, ReadyCall, RunningCall};
use crate::{
    Watch,
    tools::{CallFailure, CheckedDefinition, ToolRecord, Toolset},
};

/// The platform's executor for the tools of one execution.
pub trait ToolRunner {
    /// The platform's stopwatch.
    type Watch: Watch;
    /// A registered tool that can be called.
    type Tool: Clone + Deref<Target: AsRef<CheckedDefinition>>;
    /// A handle to a running call.
    type Running;
    /// A guard that exists while the guest waits.
    type Wait;

    /// `true` if starting a tool runs it to completion while the guest waits.
    const RUN_INLINE: bool = false;

    /// Returns the tools that scripts may call.
    fn tools(&self) -> &Toolset<Self::Tool>;

    /// Returns the tool of a reserved name. Scripts call this tool like any other tool.
    fn reserved(&self, _name: &str) -> Option<Self::Tool> {
        None
    }

    /// Returns the maximum size, in bytes, of this tool's arguments and of its result; `None` for `limits.tool_bytes`.
    fn max_bytes(&self, _tool: &Self::Tool) -> Option<u64> {
        None
    }

    /// Starts a call. Fails if the call cannot run; the guest receives the failure.
    fn start(&mut self, call: ReadyCall<Self::Tool>) -> Result<CallStart<Self::Running>, CallFailure>;

    /// Decides whether the next queued call may start while other calls are running.
    fn turn(
        &self,
        _next: &QueuedCall<Self::Tool>,
        _running: &[RunningCall<Self::Running>],
    ) -> Result<Admission, CallFailure> {
        Ok(Admission::Now)
    }

    /// Takes the answers to running calls, in the order in which they arrived.
    fn answers(&mut self) -> Vec<FinishedCall> {
        Vec::new()
    }

    /// Returns `true` if the answer to a running call is available.
    fn has_answer(&self) -> bool {
        false
    }

    /// Returns `true` if the execution can be suspended while this call is unanswered: starting the call again has no
    /// side effects, because the caller of the execution answers it.
    fn can_restart(&self, _running: &Self::Running) -> bool {
        false
    }

    /// Counts a call of an earlier run, which is replayed without running its tool.
    fn count_repeated(&mut self, _name: &str, _tool: &Self::Tool) {}

    /// Asks a call to stop, because its result is no longer needed.
    fn cancel(&self, _running: &Self::Running) {}

    /// Abandons a call. Its tool may continue to run.
    fn abandon(&self, _index: usize, _running: &Self::Running) {}

    /// Called when the guest starts to wait for replies. `is_poll` is `true` if the guest only polls.
    fn begin_wait(&mut self, _is_poll: bool, _running: &[RunningCall<Self::Running>]) -> Option<Self::Wait> {
        None
    }

    /// Called when the guest sends a call or reads a reply.
    fn end_wait(&mut self) {}

    /// Called after a call has been counted and recorded.
    fn on_start(&self, _name: &str, _index: usize) {}

    /// Called when a call has ended. Not called for calls that a suspended execution leaves unanswered.
    fn on_end(&self, _record: &ToolRecord, _index: usize) {}

    /// Called with the number of calls that were refused without a record. Excludes calls refused before a suspension.
    fn on_refused(&self, _count: u64) {}
}
