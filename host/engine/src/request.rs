//! One execution's input.

use std::{borrow::Cow, sync::Arc, time::Duration};

use crate::{CancelToken, JsonText, SourceKind, Stream, Tool, budget::Budget, tools::PendingCalls};

/// The name that tracebacks show when a script has no file.
pub const SANDBOX_NAME: &str = "<sandbox>";

/// Called with what a guest writes, as it writes it.
pub(crate) type OnOutput = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// Reads standard input, once the guest wants it.
pub(crate) type StdinSource = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// What to do with a request while its session is busy with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfBusy {
    /// It waits for its turn, in the order in which requests came.
    #[default]
    Wait,
    /// It is refused: [`ExecuteError::SessionBusy`](crate::ExecuteError::SessionBusy).
    Refuse,
}

/// One execution's input: a source, and the options of this execution. What holds for every execution is in the
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
    /// Beside those of the sandbox.
    pub(crate) tools: Vec<Tool>,
    /// Where the caller answers its tools' calls, in a started execution.
    pub(crate) pending: Option<Arc<PendingCalls>>,
    /// Whether a new interpreter returns the value of the last expression.
    pub(crate) wants_value: bool,
    pub(crate) budget: Budget,
}

impl<'a> Request<'a> {
    /// A request to run `source`, named `<sandbox>`, without standard input.
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

    /// The same, for another thread to keep.
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

    /// Takes the fuel from a budget, which may hold less than `limits.fuel`.
    pub(crate) fn budget(mut self, budget: &Budget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// The file name that tracebacks show.
    #[must_use]
    pub fn name(mut self, name: &'a str) -> Self {
        self.name = name.into();
        self
    }

    /// How JavaScript source is to be understood. Default: by looking at it. Python ignores it.
    #[must_use]
    pub fn kind(mut self, kind: SourceKind) -> Self {
        self.kind = kind;
        self
    }

    /// What the script reads from standard input. Default: nothing.
    #[must_use]
    pub fn stdin(mut self, bytes: &'a [u8]) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// What the script reads from standard input, read when it first does: a script that reads nothing waits for nobody. `read` is
    /// called at most once, on a thread of its own, on which it stays when the execution ends before it returns; waiting for it is
    /// on the script's time. At most `limits.stdin_bytes` of what it gives are taken. [`stdin`](Self::stdin) comes before it.
    #[must_use]
    pub fn stdin_from(mut self, read: impl FnOnce() -> Vec<u8> + Send + 'static) -> Self {
        self.stdin_source = Some(Box::new(read));
        self
    }

    /// What the script finds in the global variable `context`: at most `limits.stdin_bytes` of JSON text. In a session the variable is
    /// set before the script runs, in the same turn, and stays. Default: no such variable. It needs a prepared runtime.
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

    /// Tools that the script may call besides those of the sandbox, this once. One that has the name of another is an error
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

    /// A session id for the result and the log events of an execution outside a [`Session`](crate::Session).
    #[must_use]
    pub fn session_id(mut self, id: &'a str) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Lets another thread stop the execution.
    #[must_use]
    pub fn cancel(mut self, token: &'a CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Cancels the execution when this time is over, as a [`CancelToken`] would: counted from the call that takes the request,
    /// so that waiting for a session is on it. Default: never. `limits.timeout_ms` holds all the same, and where it is over
    /// first, the outcome says so.
    #[must_use]
    pub fn cancel_after(mut self, duration: Duration) -> Self {
        self.cancel_after = Some(duration);
        self
    }

    /// Returns the value of the script's last expression, as every execution in a session does. Making its text and its JSON takes fuel.
    /// Default in a new interpreter: no value. It needs a prepared runtime.
    #[must_use]
    pub fn value(mut self, wanted: bool) -> Self {
        self.wants_value = wanted;
        self
    }

    /// What to do with it while its session is busy. Default: it waits.
    #[must_use]
    pub fn if_busy(mut self, if_busy: IfBusy) -> Self {
        self.if_busy = if_busy;
        self
    }

    /// Calls `listener` with what the guest writes, as it writes it, up to the stream's limit, and at the end with the
    /// line by which standard error names the limit that ended the script. The listener runs on the thread of the execution, and
    /// the guest waits for it. It gets bytes, not lines: a guest's stream is flushed at line ends, but a long line may come in
    /// pieces.
    #[must_use]
    pub fn on_output(mut self, listener: impl FnMut(Stream, &[u8]) + Send + 'static) -> Self {
        self.on_output = Some(Box::new(listener));
        self
    }
}
