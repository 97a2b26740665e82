//! What JavaScript gives for one execution.

use std::time::Duration;

use glovebox::{CancelToken, ExecuteError, Execution, JsonText, Request, SourceKind};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

use crate::{error::Failure, execution::NativeExecution, port::Heard};

/// One execution's input.
#[napi(object, object_to_js = false)]
pub struct NativeInput {
    /// The source.
    pub source: String,
    /// What tracebacks show.
    pub name: Option<String>,
    /// `detect`, `script` or `module`.
    pub kind: Option<String>,
    /// Standard input.
    pub stdin: Option<Buffer>,
    /// The context, as JSON text.
    pub context: Option<String>,
    /// Milliseconds until it is cancelled.
    pub timeout_ms: Option<f64>,
    /// Whether somebody listens to its output.
    pub is_heard: bool,
}

/// The same, away from JavaScript's thread.
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

    /// The request that it is.
    pub(crate) fn request(&self) -> Result<Request<'_>, Failure> {
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

    /// Has it executed, and tells of its output where somebody listens.
    pub(crate) fn execute(
        &self,
        heard: &Heard,
        run: impl FnOnce(Request<'_>) -> Result<Execution, ExecuteError>,
    ) -> Result<NativeExecution, Failure> {
        let mut request = self.request()?;
        if self.is_heard {
            let heard = heard.clone();
            request = request.on_output(move |stream, bytes| heard.output(stream, bytes));
        }
        Ok(run(request)?.into())
    }
}
