//! Input of one execution.

use std::{borrow::Cow, sync::Arc, time::Duration};

use crate::{CancelToken, JsonText, SourceKind, Stream, Tool, exec::platform::Budget, tools::PendingCalls};

/// Default name of a script in tracebacks.
pub const SANDBOX_NAME: &str = "<sandbox>";

/// Listener for a guest's output, called while the guest runs.
pub(crate) type OnOutput = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// Reads standard input when the guest first reads it.
pub(crate) type StdinSource = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// Handling of a request while its session is busy with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfBusy {
    /// Waits for its turn, in the order of arrival.
    #[default]
    Wait,
    /// Fails with [`ExecuteError::SessionBusy`](crate::ExecuteError::SessionBusy).
    Refuse,
}

/// Input of one execution: a source and the options of this execution. Options for all executions are in the
/// [`Policy`](crate::Policy).
///
/// ```
/// # use glovebox::{Request, CancelToken};
/// let cancel = CancelToken::new();
/// let request = Request::new("print(input())").name("ask.py").stdin(b"hello\n").cancel(&cancel);
/// # let _ = request;
/// ```
pub struct Request<'a> {
    pub(crate) source: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) kind: SourceKind,
    pub(crate) stdin: Cow<'a, [u8]>,
    pub(crate) stdin_source: Option<StdinSource>,
    /// JSON text.
    pub(crate) context: Option<Cow<'a, str>>,
    pub(crate) session_id: Option<Cow<'a, str>>,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) cancel_after: Option<Duration>,
    pub(crate) on_output: Option<OnOutput>,
    pub(crate) if_busy: IfBusy,
    /// Tools in addition to the sandbox's.
    pub(crate) tools: Vec<Tool>,
    /// Set if the caller answers the tool calls of a started execution.
    pub(crate) pending: Option<Arc<PendingCalls>>,
    /// Asks for the value of the last expression in a new interpreter too.
    pub(crate) wants_value: bool,
    pub(crate) budget: Budget,
}

impl<'a> Request<'a> {
    /// Creates a request to run `source`, named `<sandbox>`, without standard input.
    #[must_use]
    pub fn new(source: &'a str) -> Self {
        Self {
            source: source.into(),
            name: SANDBOX_NAME.into(),
            kind: SourceKind::Detect,
            stdin: Cow::default(),
            stdin_source: None,
            context: None,
            session_id: None,
            cancel: None,
            cancel_after: None,
            on_output: None,
            if_busy: IfBusy::default(),
            tools: Vec::new(),
            pending: None,
            wants_value: false,
            budget: Budget::default(),
        }
    }

    /// Converts borrowed fields to owned ones, to move the request to another thread.
    pub(crate) fn into_owned(self) -> Request<'static> {
        Request {
            source: self.source.into_owned().into(),
            name: self.name.into_owned().into(),
            stdin: self.stdin.into_owned().into(),
            context: self.context.map(|json| json.into_owned().into()),
            session_id: self.session_id.map(|id| id.into_owned().into()),
            kind: self.kind,
            stdin_source: self.stdin_source,
            cancel: self.cancel,
            cancel_after: self.cancel_after,
            on_output: self.on_output,
            if_busy: self.if_busy,
            tools: self.tools,
            pending: self.pending,
            wants_value: self.wants_value,
            budget: self.budget,
        }
    }

    /// Sets a fuel budget, which may contain less than `limits.fuel`.
    pub(crate) fn budget(mut self, budget: &Budget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// Sets the file name in tracebacks. Default: `<sandbox>`.
    #[must_use]
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the kind of JavaScript source. Default: detected from the source. Ignored for Python.
    #[must_use]
    pub fn kind(mut self, kind: SourceKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the standard input. Default: empty.
    #[must_use]
    pub fn stdin(mut self, bytes: &'a [u8]) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Sets a function that provides the standard input. It is called when the script first reads, so a script that
    /// reads nothing never waits for it. At most `limits.stdin_bytes` of its result are used. [`stdin`](Self::stdin)
    /// takes precedence.
    ///
    /// `read` is called at most once, on a thread of its own. The wait for it counts towards the script's time. If the
    /// execution ends before `read` returns, the thread is left behind.
    #[must_use]
    pub fn stdin_from(mut self, read: impl FnOnce() -> Vec<u8> + Send + 'static) -> Self {
        self.stdin_source = Some(Box::new(read));
        self
    }

    /// Sets the global variable `context`: at most `limits.stdin_bytes` of JSON text. In a session the variable is set
    /// before the script runs, in the same turn, and persists. Default: no such variable. Needs a prepared runtime.
    #[must_use]
    pub fn context(mut self, value: &serde_json::Value) -> Self {
        self.context = Some(value.to_string().into());
        self
    }

    /// Like [`context`](Self::context), for text.
    #[must_use]
    pub fn context_text(mut self, json: JsonText) -> Self {
        self.context = Some(String::from(json).into());
        self
    }

    /// Adds tools for this execution to those of the sandbox. A duplicate name is an error
    /// ([`ExecuteError::Tool`](crate::ExecuteError::Tool)). Default: none.
    #[must_use]
    pub fn tools(mut self, tools: Vec<Tool>) -> Self {
        self.tools = tools;
        self
    }

    /// Like [`context`](Self::context), for text already validated as JSON.
    pub(crate) fn context_json(mut self, json: &'a str) -> Self {
        self.context = Some(json.into());
        self
    }

    /// Sets a session id for the result and the log events of an execution outside a [`Session`](crate::Session).
    #[must_use]
    pub fn session_id(mut self, id: &'a str) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Sets a token that cancels the execution from another thread.
    #[must_use]
    pub fn cancel(mut self, token: &'a CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Returns the token that [`cancel`](Self::cancel) set.
    #[must_use]
    pub fn cancel_token(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    /// Cancels the execution after `duration`, like a [`CancelToken`]. The duration starts with the call that takes the
    /// request, so it includes the wait for a session. Default: never. `limits.timeout_ms` still applies, and is the
    /// reported cause if it expires first.
    #[must_use]
    pub fn cancel_after(mut self, duration: Duration) -> Self {
        self.cancel_after = Some(duration);
        self
    }

    /// Asks for the value of the script's last expression, which every execution in a session returns anyway.
    /// Converting it to text and JSON costs fuel. Default in a new interpreter: `false`. Needs a prepared runtime.
    #[must_use]
    pub fn value(mut self, wanted: bool) -> Self {
        self.wants_value = wanted;
        self
    }

    /// Sets the handling of the request while its session is busy. Default: [`IfBusy::Wait`].
    #[must_use]
    pub fn if_busy(mut self, if_busy: IfBusy) -> Self {
        self.if_busy = if_busy;
        self
    }

    /// Calls `listener` with the guest's output while the guest runs, up to the stream's limit. At the end it also
    /// receives the line on standard error that names the limit that ended the script.
    ///
    /// The listener runs on the thread of the execution, and the guest waits for it. It receives bytes, not lines: the
    /// guest's stream is flushed at line ends, but a long line may arrive in pieces.
    #[must_use]
    pub fn on_output(mut self, listener: impl FnMut(Stream, &[u8]) + Send + 'static) -> Self {
        self.on_output = Some(Box::new(listener));
        self
    }
}
