//! An execution's input, cancellation token, result and files, as JavaScript sees them.

use std::{sync::Arc, time::Duration};

use glovebox::{
    CancelToken, Display, ExecuteError, Execution, FileEntry, FileKind, Form, JsonText, Request, SourceKind,
};
use napi::bindgen_prelude::{BigInt, Buffer};
use napi_derive::napi;

use crate::{
    error::EngineFailure,
    port::Heard,
    threads::{Callback, start},
};

/// A file's path, kind, size in bytes and time in nanoseconds.
#[napi(object, object_from_js = false)]
pub struct NativeEntry {
    /// The path, relative to `/app`.
    pub path: String,
    /// `file`, `directory` or `symlink`.
    pub kind: &'static str,
    /// The size in bytes.
    pub size_bytes: BigInt,
    /// The modification time, in nanoseconds since 1970.
    pub modified_ns: BigInt,
}

impl From<FileEntry> for NativeEntry {
    fn from(entry: FileEntry) -> Self {
        let kind = match entry.kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "symlink",
        };
        Self { path: entry.path, kind, size_bytes: entry.size_bytes.into(), modified_ns: entry.modified_ns.into() }
    }
}

/// A display in all its media types.
#[napi(object, object_from_js = false)]
pub struct NativeShown {
    /// True for the value of the last expression.
    pub is_result: bool,
    /// The media type and bytes of each form.
    pub forms: Vec<(String, Buffer)>,
}

impl From<&Display> for NativeShown {
    fn from(display: &Display) -> Self {
        let form = |form: &Form| (form.media_type.clone(), form.data.to_vec().into());
        Self { is_result: display.is_result, forms: display.forms.iter().map(form).collect() }
    }
}

/// An execution's outcome, output, resource use and changes. Rarely used fields are only in `json`.
#[napi]
pub struct NativeExecution {
    pub(crate) execution: Arc<Execution>,
    displays: Vec<Display>,
}

impl From<Execution> for NativeExecution {
    fn from(mut execution: Execution) -> Self {
        let displays = std::mem::take(&mut execution.displays);
        Self { execution: Arc::new(execution), displays }
    }
}

#[napi]
impl NativeExecution {
    /// True if the script ran to its end, or exited with code 0.
    #[napi(getter)]
    pub fn ok(&self) -> bool {
        self.execution.is_success()
    }

    /// Standard output as text.
    #[napi(getter)]
    pub fn stdout(&self) -> String {
        self.execution.stdout.text()
    }

    /// Standard error as text.
    #[napi(getter)]
    pub fn stderr(&self) -> String {
        self.execution.stderr.text()
    }

    /// Standard output as bytes.
    #[napi(getter)]
    pub fn stdout_bytes(&self) -> Buffer {
        self.execution.stdout.bytes.to_vec().into()
    }

    /// Standard error as bytes.
    #[napi(getter)]
    pub fn stderr_bytes(&self) -> Buffer {
        self.execution.stderr.bytes.to_vec().into()
    }

    /// Fuel used by the execution.
    #[napi(getter)]
    pub fn fuel_consumed(&self) -> BigInt {
        self.execution.fuel_consumed.into()
    }

    /// The value as the interpreter prints it, and as JSON text if it has a JSON form.
    #[napi(getter)]
    pub fn value(&self) -> Option<(String, Option<String>)> {
        self.execution.value.as_ref().map(|value| (value.repr.clone(), value.json.clone()))
    }

    /// The displays of the script, in order.
    #[napi(getter)]
    pub fn displays(&self) -> Vec<NativeShown> {
        self.displays.iter().map(NativeShown::from).collect()
    }

    /// The whole execution except its displays, as JSON text.
    #[napi]
    pub fn json(&self) -> napi::Result<String> {
        serde_json::to_string(&*self.execution).map_err(|error| napi::Error::from_reason(error.to_string()))
    }
}

#[napi]
impl NativeExecution {
    /// Lists the workspace files that match a pattern.
    #[napi]
    pub fn list_files(&self, pattern: String, callback: Callback<'_, Vec<NativeEntry>>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| {
            let files = execution.files().list(&pattern).map_err(EngineFailure::from)?;
            Ok(files.into_iter().map(Into::into).collect())
        })
    }

    /// Reads a workspace file.
    #[napi]
    pub fn read_file(&self, path: String, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        let execution = Arc::clone(&self.execution);
        start(&callback, move |_| Ok(execution.files().read(&path).map_err(EngineFailure::from)?.to_vec().into()))
    }
}

/// The input of one execution.
#[napi(object, object_to_js = false)]
pub struct NativeInput {
    /// The source text.
    pub source: String,
    /// The file name shown in tracebacks. Default: `<sandbox>`.
    pub name: Option<String>,
    /// The kind of JavaScript source: `detect`, `script` or `module`.
    pub kind: Option<String>,
    /// Standard input.
    pub stdin: Option<Buffer>,
    /// The value of the global variable `context`, as JSON text.
    pub context: Option<String>,
    /// Milliseconds after which the execution is cancelled.
    pub timeout_ms: Option<f64>,
    /// True if JavaScript has an output listener.
    pub is_heard: bool,
}

/// A `NativeInput` in types that can be sent to another thread.
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

    /// Executes the input as a request. Reports output if JavaScript has a listener.
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

/// A cancellation token, shared by any number of executions.
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

    /// Cancels all executions that use the token.
    #[napi]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}
