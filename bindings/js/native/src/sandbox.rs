//! The JavaScript classes of the engine, its sandboxes and their sessions.

use std::{sync::Arc, time::Instant};

use glovebox::{
    CheckpointId, Engine, EngineConfig, ExecuteError, HibernateOptions, IfExists, JsonText, Packages, Policy,
    ResumeOptions, Sandbox, Session, SessionOptions, Suspended,
    internal::{ThreadProgress, tool_answer},
};
use napi::bindgen_prelude::{BigInt, Buffer, ToNapiValue};
use napi_derive::napi;

use crate::{
    error::EngineFailure,
    execution::{Answer, Calls, Input, NativeEntry, NativeInput, NativePort, NativeToken, NativeTool},
    started::{NativeStarted, NativeSuspended, SuspendedInput},
    threads::{Callback, start, start_long},
};

/// The options of a sandbox.
#[napi(object, object_to_js = false)]
pub struct NativeSandboxOptions {
    /// The name of a language or a runtime.
    pub name: String,
    /// The policy, as JSON text.
    pub policy: String,
    /// The initial files of the workspace.
    pub files: Vec<NativeFile>,
    /// The tools that scripts can call.
    pub tools: Vec<NativeTool>,
}

/// An initial file of the workspace.
#[napi(object, object_to_js = false)]
pub struct NativeFile {
    /// The path relative to `/app`.
    pub path: String,
    /// The contents of the file.
    pub contents: Buffer,
}

/// A diagnostic from the language's own parser.
#[napi(object, object_from_js = false)]
pub struct NativeDiagnostic {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in code points, counted from 1.
    pub column: u32,
    /// The parser's message.
    pub message: String,
}

/// A runtime with a policy, ready to execute scripts.
#[napi]
pub struct NativeSandbox {
    sandbox: Sandbox,
    calls: Calls,
}

#[napi]
impl NativeSandbox {
    /// Opens a sandbox. `answer` receives the tool calls; `callback` receives the progress and the sandbox.
    #[napi]
    pub fn open(
        engine: &NativeEngine,
        options: NativeSandboxOptions,
        token: &NativeToken,
        answer: Answer<'_>,
        callback: Callback<'_, NativeSandbox>,
    ) -> napi::Result<()> {
        let (engine, calls) = (engine.engine(), Calls::default());
        let NativeSandboxOptions { name, policy, files, tools } = options;
        let tools = calls.tools(tools, &answer)?;
        let files: Vec<_> = files.into_iter().map(|file| (file.path, file.contents.to_vec())).collect();
        start_long(&callback, token.token(), move || {
            let policy: Policy = serde_json::from_str(&policy)?;
            let mut builder = Sandbox::builder(&engine).named(&name).policy(policy);
            for (path, bytes) in files {
                builder = builder.file(path, bytes);
            }
            for tool in tools {
                builder = builder.tool(tool?);
            }
            Ok(Self { sandbox: builder.build()?, calls })
        })
    }

    /// Answers a tool call. `text` is the result as JSON text if `kind` is `returned`, and the message of the failure
    /// if `kind` is `denied` or `failed`.
    #[napi]
    pub fn reply(&self, call: u32, kind: String, text: String) {
        self.calls.reply(call, tool_answer(&kind, text));
    }

    /// The language: `python` or `javascript`.
    #[napi(getter)]
    pub fn language(&self) -> &'static str {
        self.sandbox.language().name()
    }

    /// The name of the runtime that executes the scripts, such as `python-3.15`.
    #[napi(getter)]
    pub fn runtime_name(&self) -> &str {
        self.sandbox.runtime_name()
    }

    /// The interpreter's version.
    #[napi(getter)]
    pub fn version(&self) -> Option<&str> {
        self.sandbox.version()
    }

    /// Runs a script in a new interpreter.
    #[napi]
    pub fn execute(&self, input: NativeInput, token: &NativeToken, port: &NativePort, execution: u32) {
        let (sandbox, input) = (self.sandbox.clone(), Input::new(input, token.token()));
        port.start(execution, move |events| input.execute(events, |request| sandbox.run(request)));
    }

    /// Starts a script in a new interpreter. The last event contains the result, or the calls that the script waits
    /// for.
    #[napi]
    pub fn start(&self, input: NativeInput, token: &NativeToken, port: &NativePort, execution: u32) -> NativeStarted {
        let (sandbox, input) = (self.sandbox.clone(), Input::new(input, token.token()));
        NativeStarted::begin(port, execution, move |stepped, events| {
            let request = input.request()?.suspendable(true);
            stepped.start(request, input.is_heard(), events, |request| sandbox.start(request))
        })
    }

    /// Restarts a suspended script, and repeats it without calling tools. The last event contains the calls that the
    /// script waits for, or the result if the script is cancelled first.
    #[napi]
    pub fn start_suspended(
        &self,
        suspended: NativeSuspended,
        token: &NativeToken,
        port: &NativePort,
        execution: u32,
    ) -> NativeStarted {
        let (sandbox, input) = (self.sandbox.clone(), SuspendedInput::new(suspended, token.token()));
        NativeStarted::begin(port, execution, move |stepped, events| {
            let suspended = input.suspended()?;
            if suspended.is_in_session() {
                return Err(EngineFailure::suspended_in_session());
            }
            stepped.resume(&suspended, &input, events, |request| sandbox.start(request))
        })
    }

    /// Returns the calls that a suspended execution waits for, as JSON text.
    #[napi]
    pub fn suspended_calls(&self, state: Buffer, callback: Callback<'_, String>) -> napi::Result<()> {
        let state = state.to_vec();
        start(&callback, move |_| Ok(serde_json::to_string(&Suspended::from_bytes(&state, None)?.tool_requests())?))
    }

    /// Parses a source with the language's own parser and returns its diagnostics.
    #[napi]
    pub fn validate(
        &self,
        input: NativeInput,
        token: &NativeToken,
        callback: Callback<'_, Vec<NativeDiagnostic>>,
    ) -> napi::Result<()> {
        let (sandbox, input) = (self.sandbox.clone(), Input::new(input, token.token()));
        start(&callback, move |_| {
            let diagnostics = sandbox.validate_request(input.request()?)?;
            let each =
                |it: glovebox::Diagnostic| NativeDiagnostic { line: it.line, column: it.column, message: it.message };
            Ok(diagnostics.into_iter().map(each).collect())
        })
    }

    /// Returns the durations of `count` executions without the JavaScript layer, in microseconds. For benchmarks only,
    /// because it blocks the caller's thread.
    #[napi]
    pub fn time(&self, source: String, count: u32) -> napi::Result<Vec<f64>> {
        let once = |_| {
            let begun = Instant::now();
            self.sandbox.execute(&source)?;
            Ok(begun.elapsed().as_secs_f64() * 1e6)
        };
        let times: Result<_, ExecuteError> = (0..count).map(once).collect();
        times.map_err(|error| napi::Error::from_reason(error.to_string()))
    }

    /// Opens a session. `context` is JSON text.
    #[napi]
    pub fn session(
        &self,
        id: Option<String>,
        context: Option<String>,
        callback: Callback<'_, NativeSession>,
    ) -> napi::Result<()> {
        let sandbox = self.sandbox.clone();
        start(&callback, move |_| Ok(sandbox.open_session(options(id, context)?)?.into()))
    }

    /// Restores a session from its hibernated bytes.
    #[napi]
    pub fn resume(&self, state: Buffer, id: Option<String>, callback: Callback<'_, NativeSession>) -> napi::Result<()> {
        let (sandbox, state) = (self.sandbox.clone(), state.to_vec());
        start(&callback, move |_| Ok(sandbox.resume(&state, resume_options(id))?.into()))
    }

    /// Restores the session of a suspended execution, in its state before the execution.
    #[napi]
    pub fn resume_suspended_session(
        &self,
        state: Buffer,
        id: Option<String>,
        callback: Callback<'_, NativeSession>,
    ) -> napi::Result<()> {
        let (sandbox, state) = (self.sandbox.clone(), state.to_vec());
        start(&callback, move |_| {
            let suspended = Suspended::from_bytes(&state, None)?;
            Ok(sandbox.resume_suspended_session(&suspended, resume_options(id))?.into())
        })
    }
}

/// An engine's directories and settings.
#[napi(object, object_to_js = false)]
pub struct NativeEngineOptions {
    /// The cache directory. By default, the engine chooses it.
    pub cache_dir: Option<String>,
    /// The paths of the packages' bundles of interpreters.
    pub bundles: Vec<String>,
    /// The paths of the packages' prepared bundles.
    pub prepared: Vec<String>,
    /// The directory of custom images.
    pub images: Option<String>,
    /// Makes the bundled packages available to Python.
    pub packages: bool,
}

/// An engine, shared by all sandboxes of a process with the same `packages` option.
#[napi]
pub struct NativeEngine(Engine);

impl NativeEngine {
    pub(crate) fn engine(&self) -> Engine {
        self.0.clone()
    }
}

#[napi]
impl NativeEngine {
    /// Opens an engine.
    #[napi]
    pub fn open(options: NativeEngineOptions, callback: Callback<'_, NativeEngine>) -> napi::Result<()> {
        start(&callback, move |_| {
            let mut config = EngineConfig::default();
            config.cache_dir = options.cache_dir.map(Into::into);
            config.bundles = options.bundles.into_iter().map(Into::into).collect();
            config.prepared = options.prepared.into_iter().map(Into::into).collect();
            config.custom_images = options.images.map(Into::into);
            config.network = Some(Arc::new(glovebox_network::Http));
            config.progress = Arc::new(ThreadProgress);
            if !options.packages {
                config.packages = Packages::None;
            }
            Ok(Self(Engine::new(config).map_err(EngineFailure::from)?))
        })
    }
}

/// A value as the interpreter prints it, and as JSON text if it has a JSON form.
#[napi(object, object_from_js = false)]
pub struct NativeValue {
    /// The value as the interpreter prints it.
    pub repr: String,
    /// The value as JSON text.
    pub json: Option<String>,
}

/// An interpreter that persists between executions.
#[napi]
pub struct NativeSession(Arc<Session>);

impl From<Session> for NativeSession {
    fn from(session: Session) -> Self {
        Self(Arc::new(session))
    }
}

impl NativeSession {
    /// Runs an operation of the session on another thread.
    fn ask<T: ToNapiValue + Send + 'static, E: Into<EngineFailure>>(
        &self,
        callback: &Callback<'_, T>,
        ask: impl FnOnce(&Session) -> Result<T, E> + Send + 'static,
    ) -> napi::Result<()> {
        let session = Arc::clone(&self.0);
        start(callback, move |_| ask(&session).map_err(Into::into))
    }
}

#[napi]
impl NativeSession {
    /// The session's ID.
    #[napi(getter)]
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// The reason for the end of the session, or `None` while it is open.
    #[napi(getter)]
    pub fn ended(&self) -> Option<String> {
        self.0.ended()
    }

    /// Runs a script in the session's interpreter.
    #[napi]
    pub fn execute(&self, input: NativeInput, token: &NativeToken, port: &NativePort, execution: u32) {
        let (session, input) = (Arc::clone(&self.0), Input::new(input, token.token()));
        port.start(execution, move |events| input.execute(events, |request| session.run(request)));
    }

    /// Starts a script in the session's interpreter. The last event contains the result, or the calls that the script
    /// waits for.
    #[napi]
    pub fn start(&self, input: NativeInput, token: &NativeToken, port: &NativePort, execution: u32) -> NativeStarted {
        let (session, input) = (Arc::clone(&self.0), Input::new(input, token.token()));
        NativeStarted::begin(port, execution, move |stepped, events| {
            let request = input.request()?.suspendable(true);
            stepped.start(request, input.is_heard(), events, |request| session.start(request))
        })
    }

    /// Restarts a suspended script in its restored session, like [`NativeSandbox::start_suspended`].
    #[napi]
    pub fn start_suspended(
        &self,
        suspended: NativeSuspended,
        token: &NativeToken,
        port: &NativePort,
        execution: u32,
    ) -> NativeStarted {
        let (session, input) = (Arc::clone(&self.0), SuspendedInput::new(suspended, token.token()));
        NativeStarted::begin(port, execution, move |stepped, events| {
            let suspended = input.suspended()?;
            stepped.resume(&suspended, &input, events, |request| session.start(request))
        })
    }

    /// Reads a global variable.
    #[napi]
    pub fn get_variable(&self, name: String, callback: Callback<'_, Option<NativeValue>>) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            let value = session.get_variable(&name)?;
            Ok::<_, ExecuteError>(value.map(|value| NativeValue { repr: value.repr, json: value.json }))
        })
    }

    /// Sets a global variable to a value. `json` is the value as JSON text.
    #[napi]
    pub fn set_variable(&self, name: String, json: String, callback: Callback<'_, ()>) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            Ok::<_, EngineFailure>(session.set_variable_text(&name, &JsonText::new(json)?)?)
        })
    }

    /// Lists the files that match a pattern.
    #[napi]
    pub fn list_files(&self, pattern: String, callback: Callback<'_, Vec<NativeEntry>>) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            let files = session.files().list(&pattern).map_err(EngineFailure::from)?;
            Ok::<_, EngineFailure>(files.into_iter().map(Into::into).collect())
        })
    }

    /// Reads a file.
    #[napi]
    pub fn read_file(&self, path: String, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        self.ask(&callback, move |session| session.files().read(&path).map(|bytes| Buffer::from(bytes.to_vec())))
    }

    /// Writes or replaces a file.
    #[napi]
    pub fn write_file(&self, path: String, contents: Buffer, callback: Callback<'_, ()>) -> napi::Result<()> {
        let contents = contents.to_vec();
        self.ask(&callback, move |session| session.files().write(&path, &contents, IfExists::Replace))
    }

    /// Deletes a file, a link or a directory; with `recursive`, also everything below a directory.
    #[napi]
    pub fn delete_file(&self, path: String, recursive: bool, callback: Callback<'_, ()>) -> napi::Result<()> {
        self.ask(
            &callback,
            move |session| {
                if recursive { session.files().delete_all(&path) } else { session.files().delete(&path) }
            },
        )
    }

    /// Creates a second session with the same state.
    #[napi]
    pub fn fork(
        &self,
        id: Option<String>,
        context: Option<String>,
        callback: Callback<'_, NativeSession>,
    ) -> napi::Result<()> {
        self.ask(&callback, move |session| {
            Ok::<_, EngineFailure>(Self::from(session.fork_with(options(id, context)?)?))
        })
    }

    /// Takes a checkpoint, and returns its ID.
    #[napi]
    pub fn checkpoint(&self, callback: Callback<'_, BigInt>) -> napi::Result<()> {
        self.ask(&callback, |session| session.checkpoint().map(|checkpoint| checkpoint.0.into()))
    }

    /// Lists the checkpoints, as JSON text.
    #[napi]
    pub fn checkpoints(&self, callback: Callback<'_, String>) -> napi::Result<()> {
        self.ask(&callback, |session| Ok::<_, EngineFailure>(serde_json::to_string(&session.checkpoints()?)?))
    }

    /// Restores a checkpoint; by default, undoes the last change. Returns the ID of the restored checkpoint.
    #[napi]
    pub fn undo(&self, checkpoint: Option<BigInt>, callback: Callback<'_, BigInt>) -> napi::Result<()> {
        let checkpoint = checkpoint.map(|checkpoint| CheckpointId(checkpoint.get_u64().1));
        self.ask(&callback, move |session| {
            let undone = match checkpoint {
                None => session.undo(),
                Some(id) => session.undo_to(id).map(|()| id),
            };
            undone.map(|id| BigInt::from(id.0))
        })
    }

    /// Serializes the session.
    #[napi]
    pub fn hibernate(&self, callback: Callback<'_, Buffer>) -> napi::Result<()> {
        self.ask(&callback, |session| {
            session.hibernate(&HibernateOptions::default()).map(|bytes| bytes.to_vec().into())
        })
    }

    /// Describes the session, as JSON text.
    #[napi]
    pub fn info(&self, callback: Callback<'_, String>) -> napi::Result<()> {
        self.ask(&callback, |session| serde_json::to_string(&session.info()))
    }

    /// Ends the session. Does nothing if the session has already ended.
    #[napi]
    pub fn close(&self, callback: Callback<'_, ()>) -> napi::Result<()> {
        self.ask(&callback, |session| match session.close() {
            Err(ExecuteError::SessionEnded { .. }) => Ok(()),
            closed => closed,
        })
    }
}

/// Converts the options of a session.
pub(crate) fn options(id: Option<String>, context: Option<String>) -> Result<SessionOptions, EngineFailure> {
    let mut options = SessionOptions::default();
    options.id = id;
    if let Some(context) = context {
        options.context = Some(JsonText::new(context)?);
    }
    Ok(options)
}

/// Converts the options of a restored session.
fn resume_options(id: Option<String>) -> ResumeOptions {
    let mut options = ResumeOptions::default();
    options.id = id;
    options
}
