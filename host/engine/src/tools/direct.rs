//! Tool calls without a script of the engine, for components that execute scripts themselves.

use std::{sync::Arc, time::Instant};

use glovebox_core::{check_json, tools::Received};
use serde_json::json;

use super::{ThreadRunner, ToolErrorKind, ToolOutcome, ToolThreads, Toolbox};
use crate::{CancelToken, Limits, exec::stopwatch::Stopwatch};

/// A tool call that no script makes.
pub(crate) struct DirectCall<'a> {
    pub(crate) name: &'a str,
    /// JSON text.
    pub(crate) arguments: &'a str,
    pub(crate) limits: &'a Limits,
    /// Origin of the call, for which it is counted if it is abandoned.
    pub(crate) origin: &'a str,
    /// Token of this call only: waking the token wakes the waiting thread.
    pub(crate) cancel: CancelToken,
}

impl DirectCall<'_> {
    /// Makes the call as the only one of an execution, and waits for its outcome.
    pub(crate) fn make(self, toolbox: &Arc<Toolbox>, threads: &Arc<ToolThreads>) -> ToolOutcome {
        let failed = |kind, message: String| ToolOutcome::Failed { kind, message: Some(message) };
        let (bytes, most) = (self.arguments.len() as u64, self.limits.tool_bytes);
        if bytes > most {
            let message = format!("the arguments are {bytes} bytes; `limits.tool_bytes` is {most}");
            return failed(ToolErrorKind::Limit, message);
        }
        let invalid = |error| failed(ToolErrorKind::InvalidArguments, format!("the arguments are not JSON: {error}"));
        if let Err(error) = check_json(self.arguments) {
            return invalid(error);
        }
        // The arguments are valid JSON text, so they can be embedded in other JSON, one level deeper.
        let message = format!("{{\"id\":0,\"name\":{},\"arguments\":{}}}", json!(self.name), self.arguments);
        if let Err(error) = check_json(&message) {
            return invalid(error);
        }
        let mut limits: Limits = self.limits.clone();
        limits.tool_calls = 1;
        limits.tool_record_bytes = u64::MAX;
        limits.timeout_ms = limits.timeout_ms.max(limits.tool_timeout_ms);
        let (toolbox, threads, origin) = (Arc::clone(toolbox), Arc::clone(threads), self.origin.to_owned());
        let watch = Stopwatch(Instant::now());
        let cancel = self.cancel.clone();
        let mut calls = ThreadRunner::calls(toolbox, threads, &limits, Some(origin), watch, cancel, None);
        calls.account().set_room(limits.memory_bytes);
        calls.send(message.as_bytes());
        while let Received::Pending(due) = calls.take()
            && !self.cancel.is_cancelled()
        {
            self.cancel.wait(watch.instant(due), true, || calls.has_answer());
        }
        let room = || failed(ToolErrorKind::Limit, "the host has no room for the arguments".to_owned());
        calls.end().pop().map_or_else(room, |record| record.outcome)
    }
}
