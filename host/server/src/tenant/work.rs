//! Work that clients request: scripts, and where to run them. Also the result of a change to a session.

use std::{fmt, time::Duration};

use glovebox::{CancelToken, JsonText, Language, Request, SourceKind, Stream, Tool, ToolAnswer};
use glovebox_fleet::Resumption;
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    ServiceError,
    tools::{Callback, Callbacks},
};

/// The error message for tenants without callbacks.
pub(crate) const NO_CALLBACKS: &str =
    "callbacks are not allowed for this token; remove `callback` and answer the calls yourself";

/// A script with its name, input and tools.
///
/// The serialized form is for worker processes. It omits binary data, which is sent separately, and fields that only
/// the server uses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Script {
    /// The source text.
    pub source: String,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    pub name: Option<String>,
    /// The parsing mode of JavaScript: script or module. Default: detected from the source.
    pub kind: SourceKind,
    /// Standard input.
    #[serde(skip)]
    pub stdin: Vec<u8>,
    /// The value of the global variable `context`.
    pub context: Option<JsonText>,
    /// Cancels the execution after this time. Default: only the limits of the policy apply.
    pub cancel_after: Option<Duration>,
    /// Tools that the script can call in addition to the tenant's tools.
    #[serde(skip)]
    pub tools: Vec<Tool>,
    /// Tools that external services answer, at URLs that the tenant may call.
    #[serde(skip)]
    pub callbacks: Vec<Callback>,
    /// `true` if the caller reads the files that the script left ([`Execution::files`](glovebox::Execution::files)).
    pub wants_files: bool,
    /// `true` to omit the value of the last expression. Only for new interpreters; a session always returns it.
    pub without_value: bool,
    /// `true` if the execution can be turned into bytes while it waits for answers from the client
    /// ([`Tenant::suspend_to_bytes`](crate::Tenant::suspend_to_bytes)).
    pub suspendable: bool,
    /// `true` to check the types of a Python script before it runs
    /// ([`ServiceConfig::type_checker`](crate::ServiceConfig::type_checker)). A script with type errors is not run
    /// ([`TypeCheckError::Found`](crate::TypeCheckError::Found)). Ignored if an execution is resumed.
    #[serde(skip)]
    pub check_types: bool,
    /// A suspended execution to resume instead of starting the script. Its bytes contain the source, the name and the
    /// input, so the script's own values are ignored. The tools must be the same as at the start of the execution. In a
    /// new interpreter, the files and the policy must also be the same. In a session, the state before the execution
    /// replaces the session's state.
    #[serde(skip)]
    pub resumption: Option<Resumption>,
    /// `true` to store the session's state before the execution when `resumption` is resumed in a session. The
    /// session's generation then changes before the script continues, so the same bytes cannot be resumed again, even
    /// if this process is killed. Ignored in a fleet.
    pub saves_restored: bool,
    /// Idempotency key. Within an hour, a fleet executes scripts with the same key once, whichever server sends them.
    /// Ignored without a fleet.
    #[serde(skip)]
    pub key: Option<String>,
}

impl Script {
    /// Returns `true` if the execution can be turned into bytes, which is always the case for a resumed execution.
    pub(crate) fn is_suspendable(&self) -> bool {
        self.suspendable || self.resumption.is_some()
    }

    /// Converts the callbacks to tools. Must be called within a Tokio runtime.
    pub(super) fn offer(&mut self, callbacks: Option<&Callbacks>) -> Result<(), ServiceError> {
        for callback in std::mem::take(&mut self.callbacks) {
            let callbacks = callbacks.ok_or_else(|| ServiceError::Invalid(NO_CALLBACKS.to_owned()))?;
            let tool = callbacks.tool(callback).map_err(|refused| ServiceError::Invalid(refused.to_string()))?;
            self.tools.push(tool);
        }
        Ok(())
    }

    /// Builds the engine's request. Moves the context and the tools out of `self`, because copying a long context is
    /// slow.
    pub(crate) fn request(&mut self) -> Request<'_> {
        let (context, tools) = (self.context.take(), std::mem::take(&mut self.tools));
        let mut request = Request::new(&self.source).kind(self.kind).stdin(&self.stdin).tools(tools);
        // Clients see which calls need an approval (`ToolRequest::approve`).
        request = request.approvals(true);
        if let Some(name) = &self.name {
            request = request.name(name);
        }
        if let Some(context) = context {
            request = request.context_text(context);
        }
        if let Some(time) = self.cancel_after {
            request = request.cancel_after(time);
        }
        request
    }
}

/// A script to run in a new interpreter with a new workspace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FreshScript {
    /// The script to run.
    pub script: Script,
    /// The language. Default: the language of the runtime, or of the first served runtime.
    pub language: Option<Language>,
    /// The runtime's name or alias. Default: the default runtime of the language.
    pub runtime: Option<String>,
    /// Initial files of the workspace, as paths and contents.
    #[serde(skip)]
    pub files: Vec<(String, Vec<u8>)>,
    /// Changes to the tenant's policy. The keys are policy keys.
    pub policy: Map<String, Value>,
}

/// A script, and the place where it runs: a new interpreter or a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Runs in a new interpreter.
    Fresh(Box<FreshScript>),
    /// Runs in a session.
    InSession(SessionTarget, Box<Script>),
}

impl Work {
    pub(crate) fn script(&mut self) -> &mut Script {
        match self {
            Self::Fresh(fresh) => &mut fresh.script,
            Self::InSession(_, script) => script,
        }
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Fresh(_) => None,
            Self::InSession(target, _) => Some(&target.id),
        }
    }

    /// Returns the suspended execution that the work resumes.
    pub(super) fn resumption(&mut self) -> Option<&mut Resumption> {
        self.script().resumption.as_mut()
    }

    /// Takes the answers for the suspended execution that the work resumes.
    pub(super) fn take_answers(&mut self) -> Vec<ToolAnswer> {
        self.resumption().map(|resumption| std::mem::take(&mut resumption.answers)).unwrap_or_default()
    }

    /// Returns the total size of the script, its input, and the suspended execution to resume, in bytes.
    pub(super) fn bytes(&mut self) -> usize {
        let suspended = self.resumption().map_or(0, |resumption| resumption.suspended.len());
        let context = self.context_bytes();
        let Script { source, name, stdin, .. } = self.script();
        suspended + source.len() + name.as_ref().map_or(0, String::len) + stdin.len() + context
    }

    /// Returns the size of the value of `context` in bytes.
    pub(super) fn context_bytes(&mut self) -> usize {
        self.script().context.as_ref().map_or(0, |context| context.as_str().len())
    }
}

/// A session, optionally with the generation that it must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTarget {
    /// The session's name.
    pub id: SessionId,
    /// The expected generation, as reported in earlier responses. `None` accepts every generation.
    pub expected: Option<String>,
}

impl SessionTarget {
    /// Fails if the session's generation `has` is not the expected one.
    pub(crate) fn check(&self, has: String) -> Result<(), ServiceError> {
        match &self.expected {
            Some(expected) if *expected != has => Err(ServiceError::Generation { expected: expected.clone(), has }),
            _ => Ok(()),
        }
    }
}

impl From<&SessionId> for SessionTarget {
    fn from(id: &SessionId) -> Self {
        Self { id: id.clone(), expected: None }
    }
}

/// The result of a change to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeResult<T> {
    /// The result of the operation.
    pub value: T,
    /// The session's generation after the change, if known.
    pub generation: Option<String>,
}

/// A callback that receives a guest's output.
pub type OnOutput = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// An output callback and a cancellation token for an execution. Dropping the execution's future also cancels the
/// execution.
#[derive(Default)]
pub struct Watch {
    /// Receives each chunk of output as soon as the guest writes it.
    pub on_output: Option<OnOutput>,
    /// Cancels the execution, which then returns the outcome `cancelled` with its output and files so far. An execution
    /// that has not started yet fails with [`ServiceError::Cancelled`].
    pub cancel: Option<CancelToken>,
    /// The ID of the execution if it is suspended. Default: random.
    pub execution: Option<String>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("on_output", &self.on_output.is_some())
            .field("cancel", &self.cancel)
            .field("execution", &self.execution)
            .finish()
    }
}
