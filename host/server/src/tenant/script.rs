//! What a tenant has executed.

use std::{fmt, time::Duration};

use glovebox::{CancelToken, JsonText, Language, Request, SessionId, SourceKind, Stream, Tool};
use serde_json::{Map, Value};

use crate::{
    ServiceError,
    tools::{Callback, Callbacks},
};

/// What is said to whoever may have no service called.
pub(crate) const NO_CALLBACKS: &str =
    "this token may have no `callback` called; leave it out and answer the calls yourself";

/// A script, and what goes with it this once.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The source.
    pub source: String,
    /// The file name that tracebacks show. Default: `<sandbox>`.
    pub name: Option<String>,
    /// How JavaScript is parsed.
    pub kind: SourceKind,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// The global variable `context`.
    pub context: Option<JsonText>,
    /// Cancels it after this time.
    pub cancel_after: Option<Duration>,
    /// Tools that it may call besides the tenant's.
    pub tools: Vec<Tool>,
    /// Tools that services answer, at addresses that the tenant may have called.
    pub callbacks: Vec<Callback>,
    /// Whether whoever asks looks at the files that it leaves ([`Execution::files`](glovebox::Execution::files)).
    pub wants_files: bool,
    /// Whether a new interpreter returns no value of the last expression. A session always returns it.
    pub without_value: bool,
    /// With the same key the same is executed once, by whatever server it is asked of. A fleet sees to that; elsewhere this says nothing.
    pub key: Option<String>,
}

impl Script {
    /// Makes tools of its callbacks. Called where a runtime of tokio is.
    pub(super) fn offer(&mut self, callbacks: Option<&Callbacks>) -> Result<(), ServiceError> {
        for callback in std::mem::take(&mut self.callbacks) {
            let callbacks = callbacks.ok_or_else(|| ServiceError::Invalid(NO_CALLBACKS.to_owned()))?;
            let tool = callbacks.tool(callback).map_err(|refused| ServiceError::Invalid(refused.to_string()))?;
            self.tools.push(tool);
        }
        Ok(())
    }

    /// The request that it is. It takes the context along, which may be long.
    pub(super) fn request(&mut self) -> Request<'_> {
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

/// A script for a new interpreter with new files.
#[derive(Clone, Debug, Default)]
pub struct Fresh {
    /// The script.
    pub script: Script,
    /// Its language. Default: the runtime's, or that of the first runtime that is served.
    pub language: Option<Language>,
    /// Its runtime, by name or alias.
    pub runtime: Option<String>,
    /// The files in the workspace when it begins.
    pub files: Vec<(String, Vec<u8>)>,
    /// What it asks for of the tenant's policy, by the policy's own names.
    pub policy: Map<String, Value>,
}

/// What is executed, and where.
#[derive(Clone, Debug)]
pub enum Work {
    /// In a new interpreter.
    Fresh(Box<Fresh>),
    /// In a session.
    InSession(Target, Box<Script>),
}

impl Work {
    pub(super) fn script(&mut self) -> &mut Script {
        match self {
            Self::Fresh(fresh) => &mut fresh.script,
            Self::InSession(_, script) => script,
        }
    }

    pub(super) fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Fresh(_) => None,
            Self::InSession(target, _) => Some(&target.id),
        }
    }
}

/// A session, and the state that it must be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The session.
    pub id: SessionId,
    /// The generation that it is to have, as answers say it; none: any.
    pub expected: Option<String>,
}

impl From<&SessionId> for Target {
    fn from(id: &SessionId) -> Self {
        Self { id: id.clone(), expected: None }
    }
}

/// What became of a change of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed<T> {
    /// What the change gave.
    pub value: T,
    /// The session's generation now.
    pub generation: Option<String>,
}

/// Called with what a guest writes.
pub type OnOutput = Box<dyn FnMut(Stream, &[u8]) + Send>;

/// Who watches an execution. Whoever drops the future of an execution cancels it.
#[derive(Default)]
pub struct Watch {
    /// Called with what the guest writes, as it writes it.
    pub on_output: Option<OnOutput>,
    /// Cancels it: its outcome says so, and has what it did until then.
    pub cancel: Option<CancelToken>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("on_output", &self.on_output.is_some()).field("cancel", &self.cancel).finish()
    }
}
