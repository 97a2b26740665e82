//! The input of an execution.

use std::{borrow::Cow, sync::Arc, time::Duration};

use glovebox_core::decode_display;
use serde::{Deserialize, Serialize};

use crate::{
    CancelToken, Display, JsonText, PendingToolCalls, Recording, SourceKind, Stream, Suspended, Tool,
    exec::{
        platform::Budget,
        suspend::{self, Suspension},
    },
    tools::PendingCalls,
};

/// The default name of a script in tracebacks.
pub const SANDBOX_NAME: &str = "<sandbox>";

/// A listener that receives a guest's output while the guest runs.
pub(crate) type OnOutput = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// A listener that receives a guest's displays while the guest runs, each as a message for [`decode_display`].
pub(crate) type OnDisplay = Box<dyn FnMut(&[u8]) + Send>;

/// The function that provides standard input. Called at the guest's first read beyond the bytes of [`Request::stdin`].
pub(crate) type StdinSource = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// Selects whether a request waits or fails while its session is busy with another request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfBusy {
    /// Waits for the request's turn, in arrival order, for at most `limits.timeout_ms`.
    #[default]
    Wait,
    /// Fails with [`ExecuteError::SessionBusy`](crate::ExecuteError::SessionBusy), or with
    /// [`ExecuteError::WorkspaceBusy`](crate::ExecuteError::WorkspaceBusy) if only the shared workspace is busy.
    Refuse,
}

/// The input of one execution: a source and the options that apply only to this execution. The
/// [`Policy`](crate::Policy) contains the options of all executions.
///
/// ```
/// # use glovebox::{Request, CancelToken};
/// let cancel = CancelToken::new();
/// let request = Request::new("print(input())").name("ask.py").stdin(b"hello\n").cancel(&cancel);
/// # let _ = request;
/// ```
pub struct Request<'a> {
    pub(crate) parts: RequestParts<'a>,
    pub(crate) options: RequestOptions,
}

/// The parts of a request that are needed to run its script again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RequestParts<'a> {
    pub(crate) source: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) kind: SourceKind,
    pub(crate) stdin: Cow<'a, [u8]>,
    /// `true` if a function provides the standard input after `stdin`.
    pub(crate) has_stdin_source: bool,
    /// The JSON text of the global variable `context`.
    #[serde(deserialize_with = "suspend::checked_context")]
    pub(crate) context: Option<Cow<'a, str>>,
    pub(crate) session_id: Option<Cow<'a, str>>,
    /// `true` to return the value of the last expression. Sessions always return it.
    pub(crate) wants_value: bool,
    pub(crate) session_generation: Option<u64>,
}

/// The parts of a request that apply only to the current run of the script.
#[derive(Default)]
pub(crate) struct RequestOptions {
    pub(crate) stdin_source: Option<StdinSource>,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) cancel_after: Option<Duration>,
    pub(crate) on_output: Option<OnOutput>,
    pub(crate) on_display: Option<OnDisplay>,
    /// Dropped as soon as the caller can see the end of a started execution.
    pub(crate) after_end: Option<Box<dyn Send>>,
    pub(crate) if_busy: IfBusy,
    /// Tools in addition to the sandbox's tools.
    pub(crate) tools: Vec<Tool>,
    /// Set if the caller answers tool calls.
    pub(crate) pending: Option<Arc<PendingCalls>>,
    /// `true` if the caller approves or denies the calls that need approval.
    pub(crate) is_approver: bool,
    pub(crate) budget: Budget,
    pub(crate) is_suspendable: bool,
    /// The execution to resume.
    pub(crate) replay: Option<Arc<Suspended>>,
    /// Set by `start`, if the request is suspendable.
    pub(crate) suspension: Option<Arc<Suspension>>,
    pub(crate) is_recorded: bool,
    /// The recorded execution to repeat.
    pub(crate) repeated: Option<Arc<Recording>>,
}

impl RequestParts<'_> {
    /// Converts borrowed fields to owned fields.
    pub(crate) fn into_owned(self) -> RequestParts<'static> {
        RequestParts {
            source: self.source.into_owned().into(),
            name: self.name.into_owned().into(),
            kind: self.kind,
            stdin: self.stdin.into_owned().into(),
            has_stdin_source: self.has_stdin_source,
            context: self.context.map(|json| json.into_owned().into()),
            session_id: self.session_id.map(|id| id.into_owned().into()),
            wants_value: self.wants_value,
            session_generation: self.session_generation,
        }
    }

    /// Returns a request that runs the script from its start.
    pub(super) fn request(&self) -> Request<'_> {
        let stdin_source = self.has_stdin_source.then(|| Box::new(Vec::new) as StdinSource);
        Request { parts: self.clone(), options: RequestOptions { stdin_source, ..RequestOptions::default() } }
    }
}

impl<'a> Request<'a> {
    /// Creates a request to run `source` under the name `<sandbox>`, without standard input.
    #[must_use]
    pub fn new(source: &'a str) -> Self {
        let parts = RequestParts { source: source.into(), name: SANDBOX_NAME.into(), ..RequestParts::default() };
        Self { parts, options: RequestOptions::default() }
    }

    /// Converts borrowed fields to owned fields, so that the request can move to another thread.
    pub(crate) fn into_owned(self) -> Request<'static> {
        Request { parts: self.parts.into_owned(), options: self.options }
    }

    /// Sets a fuel budget, which limits the execution in addition to `limits.fuel`.
    #[doc(hidden)]
    pub fn budget(mut self, budget: &Budget) -> Self {
        self.options.budget = budget.clone();
        self
    }

    /// Sets the script's file name in tracebacks. Default: `<sandbox>`.
    #[must_use]
    pub fn name(mut self, name: &'a str) -> Self {
        self.parts.name = name.into();
        self
    }

    /// Sets the kind of a JavaScript source. Default: detected from the source. Ignored for Python.
    #[must_use]
    pub fn kind(mut self, kind: SourceKind) -> Self {
        self.parts.kind = kind;
        self
    }

    /// Sets the standard input. Default: empty.
    #[must_use]
    pub fn stdin(mut self, bytes: &'a [u8]) -> Self {
        self.parts.stdin = bytes.into();
        self
    }

    /// Sets a function that provides the standard input. A script that never reads does not wait for the function. The
    /// result is truncated to `limits.stdin_bytes`. If [`stdin`](Self::stdin) is also set, the script reads those bytes
    /// first, and `read` is called at the first read beyond them.
    ///
    /// `read` is called at most once, on a separate thread. The time that `read` takes is included in the script's
    /// time. If the execution ends before `read` returns, the thread keeps running.
    #[must_use]
    pub fn stdin_from(mut self, read: impl FnOnce() -> Vec<u8> + Send + 'static) -> Self {
        self.options.stdin_source = Some(Box::new(read));
        self.parts.has_stdin_source = true;
        self
    }

    /// Sets the global variable `context` from JSON of at most `limits.stdin_bytes`. In a session, the variable is set
    /// immediately before the script runs, and persists. Default: the variable does not exist. Requires a prepared
    /// runtime. A request that is [`suspendable`](Self::suspendable) or [`recorded`](Self::recorded) accepts at most
    /// 127 levels of nesting.
    #[must_use]
    pub fn context(mut self, value: &serde_json::Value) -> Self {
        self.parts.context = Some(value.to_string().into());
        self
    }

    /// Like [`context`](Self::context), but from JSON text.
    #[must_use]
    pub fn context_text(mut self, json: JsonText) -> Self {
        self.parts.context = Some(String::from(json).into());
        self
    }

    /// Adds tools for this execution to the sandbox's tools. A duplicate name is an error
    /// ([`ExecuteError::Tool`](crate::ExecuteError::Tool)). Default: none.
    #[must_use]
    pub fn tools(mut self, tools: Vec<Tool>) -> Self {
        self.options.tools = tools;
        self
    }

    /// Like [`context`](Self::context), but from text that was already validated as JSON.
    #[doc(hidden)]
    pub fn context_json(mut self, json: &'a str) -> Self {
        self.parts.context = Some(json.into());
        self
    }

    /// Sets the session ID in the result and in log events, for an execution outside a [`Session`](crate::Session).
    #[must_use]
    pub fn session_id(mut self, id: &'a str) -> Self {
        self.parts.session_id = Some(id.into());
        self
    }

    /// Sets a token that cancels the execution.
    #[must_use]
    pub fn cancel(mut self, token: &'a CancelToken) -> Self {
        self.options.cancel = Some(token.clone());
        self
    }

    /// Returns the token set by [`cancel`](Self::cancel).
    #[must_use]
    pub fn cancel_token(&self) -> Option<&CancelToken> {
        self.options.cancel.as_ref()
    }

    /// Cancels the execution after `duration`, like a [`CancelToken`]. The duration starts when the request is
    /// submitted, so it includes the wait for a busy session. Default: never. `limits.timeout_ms` still applies, and is
    /// the reported cause if it expires first.
    #[must_use]
    pub fn cancel_after(mut self, duration: Duration) -> Self {
        self.options.cancel_after = Some(duration);
        self
    }

    /// Requests the value of the script's last expression. Sessions always return it. Converting the value to text and
    /// JSON costs fuel. Default outside sessions: `false`. Requires a prepared runtime.
    #[must_use]
    pub fn value(mut self, wanted: bool) -> Self {
        self.parts.wants_value = wanted;
        self
    }

    /// Sets whether [`Started::suspend`](crate::Started::suspend) can suspend the execution while it waits for the
    /// caller's answers. Default: `false`. Requires `start` and a prepared runtime. In a session, the session's state
    /// is saved first, which takes a few hundred microseconds. The saved state counts towards
    /// `limits.session_total_bytes` until the execution has ended.
    ///
    /// A suspendable execution keeps a journal of the script's inputs: tool answers, times, random numbers and streamed
    /// standard input. If the journal exceeds `limits.journal_bytes` (1 MiB by default), the execution continues, but
    /// can no longer be suspended.
    #[must_use]
    pub fn suspendable(mut self, suspendable: bool) -> Self {
        self.options.is_suspendable = suspendable;
        self
    }

    /// Sets the generation of the stored session before the execution, for
    /// [`Suspended::session_generation`](crate::Suspended::session_generation). Default: none.
    #[must_use]
    pub fn session_generation(mut self, generation: u64) -> Self {
        self.parts.session_generation = Some(generation);
        self
    }

    /// Sets whether the execution is recorded: [`Execution::recording`](crate::Execution::recording) then returns
    /// everything that is needed to repeat it. Default: `false`. Requires a prepared runtime. Not supported in
    /// sessions.
    ///
    /// A recording holds at most `limits.journal_bytes` of inputs: tool answers, times, random numbers and streamed
    /// standard input. Beyond this limit, the execution continues without a recording. `limits.fuel_reserve` does not
    /// apply, because its exception would occur at a different point in a replay.
    #[must_use]
    pub fn recorded(mut self, recorded: bool) -> Self {
        self.options.is_recorded = recorded;
        self
    }

    /// Sets how the request is handled while its session is busy. Default: [`IfBusy::Wait`].
    #[must_use]
    pub fn if_busy(mut self, if_busy: IfBusy) -> Self {
        self.options.if_busy = if_busy;
        self
    }

    /// Passes calls of [`Tool::stepped`] tools to `calls` while the request runs. Default: calls of these tools fail.
    /// Ignored by `start`, whose [`Started`](crate::Started) returns the calls.
    #[must_use]
    pub fn pending_calls(mut self, calls: &PendingToolCalls) -> Self {
        self.options.pending = Some(Arc::clone(&calls.0));
        self
    }

    /// Sets whether the caller of a started execution approves or denies the calls that need approval
    /// ([`ToolPolicy::approve`](crate::ToolPolicy::approve)). Default: `false`, so that such calls fail with
    /// [`ToolErrorKind::Denied`](crate::ToolErrorKind::Denied).
    ///
    /// Set this option only if the caller checks [`ToolRequest::approve`](crate::ToolRequest::approve) before it
    /// answers. Requires `start` or [`pending_calls`](Self::pending_calls). Set the option again for a
    /// [resumed](Suspended::request) execution.
    #[must_use]
    pub fn approvals(mut self, approvals: bool) -> Self {
        self.options.is_approver = approvals;
        self
    }

    /// Calls `listener` with the guest's output while the guest runs, up to the stream's limit. If a limit ends the
    /// script, the listener also receives the final line on standard error that names the limit.
    ///
    /// The listener runs on the execution's thread, and the guest waits for it. The listener receives bytes, not lines:
    /// the guest flushes its stream at line ends, but a long line can arrive in several chunks.
    #[must_use]
    pub fn on_output(mut self, listener: impl FnMut(Stream, &[u8]) + Send + 'static) -> Self {
        self.options.on_output = Some(Box::new(listener));
        self
    }

    /// Calls `listener` with each display, such as a table or a picture, while the guest runs. The listener receives
    /// the displays of [`Execution::displays`](crate::Execution::displays), in the same order.
    ///
    /// The listener runs on the execution's thread, and the guest waits for it. When a [`Suspended`] execution is
    /// resumed, the listener receives the displays from before the suspension again.
    #[must_use]
    pub fn on_display(self, mut listener: impl FnMut(Display) + Send + 'static) -> Self {
        self.on_display_message(move |message| {
            if let Some(display) = decode_display(message) {
                listener(display);
            }
        })
    }

    /// Keeps `guard` until the caller can see the end of the started execution. Without `start`, drops it earlier.
    #[doc(hidden)]
    pub fn after_end(mut self, guard: impl Send + 'static) -> Self {
        self.options.after_end = Some(Box::new(guard));
        self
    }

    /// Like [`on_display`](Self::on_display), but with messages for [`decode_display`], which can be invalid.
    #[doc(hidden)]
    pub fn on_display_message(mut self, listener: impl FnMut(&[u8]) + Send + 'static) -> Self {
        self.options.on_display = Some(Box::new(listener));
        self
    }
}
