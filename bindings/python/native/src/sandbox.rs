//! The Python classes of the engine, its sandboxes and their sessions.

use std::{path::PathBuf, sync::Arc, time::Instant};

use glovebox::{
    CancelToken, CheckpointId, Engine, EngineConfig, ExecuteError, HibernateOptions, IfExists, JsonText, Packages,
    Policy, ResumeOptions, Sandbox, Session, SessionOptions, internal::ThreadProgress,
};
use pyo3::{
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
    types::PyBytes,
};

use crate::{
    error::{IntoException, ProcessOwned},
    execution::{Entry, Input, PyExecution, ToolInput, entry},
    interrupt::{Event, interruptible, run_attended},
    started::{PyStarted, SuspendedInput, WaitingCall, suspended, waiting_calls},
};

/// A diagnostic: line, column and message.
type Message = (u32, u32, String);

/// A runtime with a policy, ready to execute scripts.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Sandbox")]
pub(crate) struct PySandbox(ProcessOwned<Sandbox>);

#[pymethods]
impl PySandbox {
    /// Creates a sandbox. `name` is a language or the name of a runtime, and `policy` is JSON text. `progress` is
    /// called with a description of each slow step.
    #[new]
    fn new(
        py: Python<'_>,
        engine: &PyEngine,
        name: &str,
        policy: &str,
        files: Vec<(String, Vec<u8>)>,
        tools: Vec<ToolInput>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let engine = engine.0.get()?;
        let policy: Policy = serde_json::from_str(policy).map_err(IntoException::exception)?;
        let mut builder = Sandbox::builder(engine).named(name).policy(policy);
        for (path, bytes) in files {
            builder = builder.file(path, bytes);
        }
        for tool in tools {
            builder = builder.tool(tool.tool()?);
        }
        let attend = |event| match (event, &progress) {
            (Event::Progress(text), Some(progress)) => progress.call1(py, (text,)).map(drop),
            _ => Ok(()),
        };
        let built = run_attended(py, &CancelToken::new(), attend, move |_| builder.build())?;
        Ok(Self(ProcessOwned::new(built.map_err(IntoException::exception)?)))
    }

    #[getter]
    fn language(&self) -> &'static str {
        self.0.value.language().name()
    }

    #[getter]
    fn runtime_name(&self) -> &str {
        self.0.value.runtime_name()
    }

    #[getter]
    fn version(&self) -> Option<&str> {
        self.0.value.version()
    }

    #[getter]
    fn image_sha256(&self) -> Option<&str> {
        self.0.value.image_sha256()
    }

    fn execute(&self, py: Python<'_>, input: Input) -> PyResult<PyExecution> {
        let sandbox = self.0.get()?;
        input.execute(py, |request| sandbox.run(request))
    }

    fn start(&self, py: Python<'_>, input: Input) -> PyResult<PyStarted> {
        let sandbox = self.0.get()?;
        input.start(py, |request| sandbox.start(request))
    }

    fn start_suspended(&self, py: Python<'_>, input: SuspendedInput) -> PyResult<PyStarted> {
        let sandbox = self.0.get()?;
        input.start(py, |request| sandbox.start(request))
    }

    /// Returns the calls that a suspended execution waits for, without running anything.
    fn suspended_calls(&self, py: Python<'_>, state: PyBackedBytes) -> PyResult<Vec<WaitingCall>> {
        self.0.get()?;
        Ok(waiting_calls(&suspended(py, &state)?))
    }

    fn validate(&self, py: Python<'_>, input: Input) -> PyResult<Vec<Message>> {
        let sandbox = self.0.get()?;
        let token = CancelToken::new();
        let request = input.request(&token)?;
        let diagnostics = interruptible(py, &token, move || sandbox.validate_request(request))?;
        let diagnostics = diagnostics.map_err(IntoException::exception)?;
        Ok(diagnostics.into_iter().map(|it| (it.line, it.column, it.message)).collect())
    }

    /// Returns the durations of `count` executions without the Python layer, in nanoseconds. For benchmarks only.
    fn time(&self, py: Python<'_>, source: &str, count: usize) -> PyResult<Vec<u64>> {
        let sandbox = self.0.get()?;
        let once = |_| {
            let begun = Instant::now();
            sandbox.execute(source)?;
            Ok(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
        };
        py.detach(|| (0..count).map(once).collect::<Result<_, ExecuteError>>()).map_err(IntoException::exception)
    }

    #[pyo3(signature = (id, context))]
    fn session(&self, py: Python<'_>, id: Option<String>, context: Option<PyBackedStr>) -> PyResult<PySession> {
        let sandbox = self.0.get()?;
        let options = session_options(id, context)?;
        let session = py.detach(|| sandbox.open_session(options)).map_err(IntoException::exception)?;
        Ok(PySession::new(session))
    }

    #[pyo3(signature = (state, id))]
    fn resume(&self, py: Python<'_>, state: PyBackedBytes, id: Option<String>) -> PyResult<PySession> {
        let sandbox = self.0.get()?;
        let options = resume_options(id);
        let session = py.detach(|| sandbox.resume(&state, options)).map_err(IntoException::exception)?;
        Ok(PySession::new(session))
    }

    /// Restores the session of a suspended execution, in its state before the execution.
    #[pyo3(signature = (state, id))]
    fn resume_suspended_session(
        &self,
        py: Python<'_>,
        state: PyBackedBytes,
        id: Option<String>,
    ) -> PyResult<PySession> {
        let sandbox = self.0.get()?;
        let options = resume_options(id);
        let suspended = suspended(py, &state)?;
        let session = py.detach(|| sandbox.resume_suspended_session(&suspended, options));
        Ok(PySession::new(session.map_err(IntoException::exception)?))
    }
}

/// An engine, shared by all sandboxes of a process with the same `packages` option.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Engine")]
pub(crate) struct PyEngine(ProcessOwned<Engine>);

#[pymethods]
impl PyEngine {
    #[new]
    fn new(
        py: Python<'_>,
        cache_dir: Option<PathBuf>,
        bundles: Vec<PathBuf>,
        prepared: Vec<PathBuf>,
        images: Option<PathBuf>,
        packages: bool,
    ) -> PyResult<Self> {
        let mut config = EngineConfig::default();
        config.cache_dir = cache_dir;
        (config.bundles, config.prepared) = (bundles, prepared);
        config.custom_images = images;
        config.network = Some(Arc::new(glovebox_network::Http));
        config.progress = Arc::new(ThreadProgress);
        if !packages {
            config.packages = Packages::None;
        }
        let engine = py.detach(|| Engine::new(config)).map_err(IntoException::exception)?;
        Ok(Self(ProcessOwned::new(engine)))
    }
}

/// An interpreter that persists between executions.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Session")]
pub(crate) struct PySession(ProcessOwned<Session>);

impl PySession {
    fn new(session: Session) -> Self {
        Self(ProcessOwned::new(session))
    }

    /// Runs an operation of the session without the GIL.
    fn ask<T: Send, E: IntoException + Send>(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&Session) -> Result<T, E> + Send,
    ) -> PyResult<T> {
        let session = self.0.get()?;
        py.detach(|| ask(session)).map_err(IntoException::exception)
    }
}

#[pymethods]
impl PySession {
    #[getter]
    fn id(&self) -> &str {
        self.0.value.id()
    }

    #[getter]
    fn ended(&self) -> PyResult<Option<String>> {
        Ok(self.0.get()?.ended())
    }

    fn execute(&self, py: Python<'_>, input: Input) -> PyResult<PyExecution> {
        let session = self.0.get()?;
        input.execute(py, |request| session.run(request))
    }

    fn start(&self, py: Python<'_>, input: Input) -> PyResult<PyStarted> {
        let session = self.0.get()?;
        input.start(py, |request| session.start(request))
    }

    fn start_suspended(&self, py: Python<'_>, input: SuspendedInput) -> PyResult<PyStarted> {
        let session = self.0.get()?;
        input.start(py, |request| session.start(request))
    }

    fn get_variable(&self, py: Python<'_>, name: &str) -> PyResult<Option<(String, Option<String>)>> {
        let value = self.ask(py, |session| session.get_variable(name))?;
        Ok(value.map(|value| (value.repr, value.json)))
    }

    fn set_variable(&self, py: Python<'_>, name: &str, json: &str) -> PyResult<()> {
        let json = JsonText::new(json).map_err(IntoException::exception)?;
        self.ask(py, |session| session.set_variable_text(name, &json))
    }

    /// Describes the session's global variables for a type checker, as JSON text. Returns `None` if they cannot be
    /// determined.
    fn described_variables(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let session = self.0.get()?;
        let variables = py.detach(|| session.variables());
        variables.map(|variables| serde_json::to_string(&variables)).transpose().map_err(IntoException::exception)
    }

    fn list_files(&self, py: Python<'_>, pattern: &str) -> PyResult<Vec<Entry>> {
        let files = self.ask(py, |session| session.files().list(pattern))?;
        Ok(files.into_iter().map(entry).collect())
    }

    fn read_file<'py>(&self, py: Python<'py>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.ask(py, |session| session.files().read(path))?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn write_file(&self, py: Python<'_>, path: &str, contents: PyBackedBytes) -> PyResult<()> {
        self.ask(py, |session| session.files().write(path, &contents, IfExists::Replace))
    }

    fn delete_file(&self, py: Python<'_>, path: &str, recursive: bool) -> PyResult<()> {
        self.ask(py, |session| if recursive { session.files().delete_all(path) } else { session.files().delete(path) })
    }

    #[pyo3(signature = (id, context))]
    fn fork(&self, py: Python<'_>, id: Option<String>, context: Option<PyBackedStr>) -> PyResult<Self> {
        let options = session_options(id, context)?;
        let session = self.ask(py, |session| session.fork_with(options))?;
        Ok(Self::new(session))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.ask(py, Session::checkpoint)?.0)
    }

    /// Lists the checkpoints, as JSON text.
    fn checkpoints(&self, py: Python<'_>) -> PyResult<String> {
        let checkpoints = self.ask(py, Session::checkpoints)?;
        serde_json::to_string(&checkpoints).map_err(IntoException::exception)
    }

    #[pyo3(signature = (checkpoint))]
    fn undo(&self, py: Python<'_>, checkpoint: Option<u64>) -> PyResult<u64> {
        let undone = self.ask(py, |session| match checkpoint {
            None => session.undo(),
            Some(id) => session.undo_to(CheckpointId(id)).map(|()| CheckpointId(id)),
        })?;
        Ok(undone.0)
    }

    fn hibernate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.ask(py, |session| session.hibernate(&HibernateOptions::default()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Describes the session, as JSON text.
    fn info(&self) -> PyResult<String> {
        serde_json::to_string(&self.0.get()?.info()).map_err(IntoException::exception)
    }

    /// Ends the session. Does nothing if the session has already ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, |session| match session.close() {
            Err(ExecuteError::SessionEnded { .. }) => Ok(()),
            closed => closed,
        })
    }
}

/// Converts the options of a new session. `context` is JSON text.
fn session_options(id: Option<String>, context: Option<PyBackedStr>) -> PyResult<SessionOptions> {
    let mut options = SessionOptions::default();
    options.id = id;
    if let Some(context) = context {
        options.context = Some(JsonText::new(&*context).map_err(IntoException::exception)?);
    }
    Ok(options)
}

fn resume_options(id: Option<String>) -> ResumeOptions {
    let mut options = ResumeOptions::default();
    options.id = id;
    options
}
