//! Requests of tenants: scripts, the interpreters or sessions to run them in, and changes to sessions.

use std::{fmt, time::Duration};

use glovebox::{CancelToken, JsonText, Language, Request, SourceKind, Stream, Tool};
use glovebox_sessions::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    ServiceError,
    tools::{Callback, Callbacks},
};

/// The message for tenants without callbacks.
pub(crate) const NO_CALLBACKS: &str =
    "callbacks are not allowed for this token; remove `callback` and answer the calls yourself";

/// A script with its name, arguments and tools.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The source text.
    pub source: String,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    pub name: Option<String>,
    /// The way to parse JavaScript: as a script or as a module. Default: detected from the source.
    pub kind: SourceKind,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// The value of the global variable `context`.
    pub context: Option<JsonText>,
    /// Cancels the execution after this time. Default: only the limits of the policy apply.
    pub cancel_after: Option<Duration>,
    /// Tools in addition to the tenant's.
    pub tools: Vec<Tool>,
    /// Tools that services answer, at addresses that the tenant may call.
    pub callbacks: Vec<Callback>,
    /// True if the caller reads the files that the script leaves ([`Execution::files`](glovebox::Execution::files)).
    pub wants_files: bool,
    /// Do not return the value of the last expression from a new interpreter. A session always returns it.
    pub without_value: bool,
    /// Idempotency key: scripts with the same key are executed once, no matter which server they are sent to. Only
    /// fleets support this; otherwise the key is ignored.
    pub key: Option<String>,
}

impl Script {
    /// Turns the callbacks into tools. Called in the context of a Tokio runtime.
    pub(super) fn offer(&mut self, callbacks: Option<&Callbacks>) -> Result<(), ServiceError> {
        for callback in std::mem::take(&mut self.callbacks) {
            let callbacks = callbacks.ok_or_else(|| ServiceError::Invalid(NO_CALLBACKS.to_owned()))?;
            let tool = callbacks.tool(callback).map_err(|refused| ServiceError::Invalid(refused.to_string()))?;
            self.tools.push(tool);
        }
        Ok(())
    }

    /// Builds the request. Takes the context out of `self`, because it may be long.
    pub(crate) fn request(&mut self) -> Request<'_> {
        let (context, tools) = (self.context.take(), std::mem::take(&mut self.tools));
        let mut request = Request::new(&self.source).kind(self.kind).stdin(&self.stdin).tools(tools);
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

/// A script for a new interpreter with an empty workspace.
#[derive(Clone, Debug, Default)]
pub struct Fresh {
    /// The script, with its arguments and tools.
    pub script: Script,
    /// The language. Default: the runtime's language, or that of the first served runtime.
    pub language: Option<Language>,
    /// The runtime, by name or alias. Default: the default runtime of the language.
    pub runtime: Option<String>,
    /// The initial files in the workspace, as paths and contents.
    pub files: Vec<(String, Vec<u8>)>,
    /// Changes to the tenant's policy, with the keys of a policy.
    pub policy: Map<String, Value>,
}

/// A script and the interpreter to run it in.
#[derive(Clone, Debug)]
pub enum Work {
    /// In a new interpreter.
    Fresh(Box<Fresh>),
    /// In a session.
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
}

/// A session and its expected generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTarget {
    /// The name of the session.
    pub id: SessionId,
    /// The expected generation, as reported in answers. `None` matches every generation.
    pub expected: Option<String>,
}

impl From<&SessionId> for SessionTarget {
    fn from(id: &SessionId) -> Self {
        Self { id: id.clone(), expected: None }
    }
}

/// The result of a change to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed<T> {
    /// The value that the operation returned.
    pub value: T,
    /// The session's generation after the change.
    pub generation: Option<String>,
}

/// A callback for the output of a guest.
pub type OnOutput = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// The output and cancellation of an execution. Dropping the execution's future cancels it, too.
#[derive(Default)]
pub struct Watch {
    /// Called with each piece of output as soon as the guest writes it.
    pub on_output: Option<OnOutput>,
    /// Cancels the execution. It returns the outcome `cancelled`, with its output and files so far.
    pub cancel: Option<CancelToken>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("on_output", &self.on_output.is_some()).field("cancel", &self.cancel).finish()
    }
}
