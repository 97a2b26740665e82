//! The engine of a process and its sandboxes, for JavaScript.

use std::{sync::Arc, time::Instant};

use glovebox::{Engine, EngineConfig, ExecuteError, Packages, Policy, ResumeOptions, Sandbox};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;

use crate::{
    error::EngineFailure,
    execution::{Input, NativeInput, NativeToken},
    port::{Answer, Calls, NativePort, NativeTool},
    session::{NativeSession, options},
    threads::{Callback, Progress, start, start_long},
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

/// A message of the language's own parser.
#[napi(object, object_from_js = false)]
pub struct NativeDiagnostic {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in code points, counted from 1.
    pub column: u32,
    /// The parser's message.
    pub message: String,
}

/// A runtime and a policy, ready to execute.
#[napi]
pub struct NativeSandbox {
    sandbox: Sandbox,
    calls: Calls,
}

#[napi]
impl NativeSandbox {
    /// Opens a sandbox. `answer` receives the tool calls, `callback` the progress and the sandbox.
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
                builder = builder.tool(tool.tool()?);
            }
            Ok(Self { sandbox: builder.build()?, calls })
        })
    }

    /// Answers a tool call with the result as JSON text, or the text of a failure.
    #[napi]
    pub fn reply(&self, call: u32, is_ok: bool, text: String) {
        self.calls.reply(call, if is_ok { Ok(text) } else { Err(text) });
    }

    /// `python` or `javascript`.
    #[napi(getter)]
    pub fn language(&self) -> &'static str {
        self.sandbox.language().name()
    }

    /// The runtime's name.
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
        port.start(execution, move |heard| input.execute(heard, |request| sandbox.run(request)));
    }

    /// Parses a source and returns the messages of the language's own parser.
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

    /// Measures the duration of `count` executions without JavaScript's part, in microseconds. For benchmarks: blocks
    /// the caller's thread.
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

    /// Opens a session. The context is JSON text.
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

    /// Restores a session from the bytes of a hibernated session.
    #[napi]
    pub fn resume(&self, state: Buffer, id: Option<String>, callback: Callback<'_, NativeSession>) -> napi::Result<()> {
        let (sandbox, state) = (self.sandbox.clone(), state.to_vec());
        start(&callback, move |_| {
            let mut options = ResumeOptions::default();
            options.id = id;
            Ok(sandbox.resume(&state, options)?.into())
        })
    }
}

/// The directories and settings of an engine.
#[napi(object, object_to_js = false)]
pub struct NativeEngineOptions {
    /// The cache directory.
    pub cache_dir: Option<String>,
    /// The archive of interpreters in the package.
    pub bundle: Option<String>,
    /// The directory of custom images.
    pub images: Option<String>,
    /// Makes the bundled packages available to Python.
    pub packages: bool,
}

/// The engine that all sandboxes of a process share.
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
            config.bundle = options.bundle.map(Into::into);
            config.own_images = options.images.map(Into::into);
            config.progress = Arc::new(Progress);
            if !options.packages {
                config.packages = Packages::None;
            }
            Ok(Self(Engine::new(config).map_err(EngineFailure::from)?))
        })
    }
}
