//! The input of an execution from JavaScript, and its cancellation token.

use std::time::Duration;

use glovebox::{CancelToken, ExecuteError, Execution, JsonText, Request, SourceKind};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

use crate::{error::EngineFailure, execution::NativeExecution, port::Heard};

/// The input of one execution.
#[napi(object, object_to_js = false)]
pub struct NativeInput {
    /// The source text.
    pub source: String,
    /// The file name in tracebacks.
    pub name: Option<String>,
    /// The kind of JavaScript source: `detect`, `script` or `module`.
    pub kind: Option<String>,
    /// Standard input.
    pub stdin: Option<Buffer>,
    /// The value of the variable `context`, as JSON text.
    pub context: Option<String>,
    /// Milliseconds after which the execution is cancelled.
    pub timeout_ms: Option<f64>,
    /// True if JavaScript listens to the output.
    pub is_heard: bool,
}

/// A `NativeInput` in types that can leave JavaScript's thread.
pub(crate) struct Input {
    source: String,
    name: Option<String>,
    kind: SourceKind,
    stdin: Vec<u8>,
    context: Option<String>,
    timeout: Option<Duration>,
    is_heard: bool,
    pub(crate) token: CancelToken,
}

impl Input {
    pub(crate) fn new(input: NativeInput, token: CancelToken) -> Self {
        let kind = match input.kind.as_deref() {
            Some("script") => SourceKind::Script,
            Some("module") => SourceKind::Module,
            _ => SourceKind::Detect,
        };
        Self {
            source: input.source,
            name: input.name,
            kind,
            stdin: input.stdin.map(|stdin| stdin.to_vec()).unwrap_or_default(),
            context: input.context,
            timeout: input.timeout_ms.and_then(|ms| Duration::try_from_secs_f64(ms / 1e3).ok()),
            is_heard: input.is_heard,
            token,
        }
    }

    pub(crate) fn request(&self) -> Result<Request<'_>, EngineFailure> {
        let mut request = Request::new(&self.source).cancel(&self.token).kind(self.kind).stdin(&self.stdin);
        if let Some(name) = &self.name {
            request = request.name(name);
        }
        if let Some(context) = &self.context {
            request = request.context_text(JsonText::new(&**context)?);
        }
        if let Some(timeout) = self.timeout {
            request = request.cancel_after(timeout);
        }
        Ok(request)
    }

    /// Executes the request, and reports its output if JavaScript listens.
    pub(crate) fn execute(
        &self,
        heard: &Heard,
        run: impl FnOnce(Request<'_>) -> Result<Execution, ExecuteError>,
    ) -> Result<NativeExecution, EngineFailure> {
        let mut request = self.request()?;
        if self.is_heard {
            let heard = heard.clone();
            request = request.on_output(move |stream, bytes| heard.output(stream, bytes));
        }
        Ok(run(request)?.into())
    }
}

/// Cancels the executions that use it.
#[napi]
pub struct NativeToken(CancelToken);

impl NativeToken {
    pub(crate) fn token(&self) -> CancelToken {
        self.0.clone()
    }
}

#[napi]
impl NativeToken {
    /// Creates a token that is not cancelled.
    #[napi(constructor)]
    pub fn new() -> Self {
        Self(CancelToken::new())
    }

    /// Cancels all executions of the token.
    #[napi]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}
