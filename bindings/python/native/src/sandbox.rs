//! The engine of a process and its sandboxes, for Python.

use std::{path::PathBuf, sync::Arc, time::Instant};

use glovebox::{
    CancelToken, Engine, EngineConfig, ExecuteError, JsonText, Packages, Policy, ResumeOptions, Sandbox, SessionOptions,
};
use pyo3::{
    prelude::*,
    pybacked::{PyBackedBytes, PyBackedStr},
};

use crate::{
    error::{IntoException, forked},
    execution::{Input, PyExecution, ToolInput},
    interrupt::{Event, Progress, attended, interruptible},
    session::PySession,
};

/// A diagnostic: line, column and message.
type Message = (u32, u32, String);

/// A runtime and a policy, ready to execute.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Sandbox")]
pub(crate) struct PySandbox {
    sandbox: Sandbox,
    process: u32,
}

impl PySandbox {
    /// Returns the sandbox. Fails in a forked child, which has none of the sandbox's threads.
    fn here(&self) -> PyResult<&Sandbox> {
        if self.process == std::process::id() { Ok(&self.sandbox) } else { Err(forked()) }
    }
}

#[pymethods]
impl PySandbox {
    /// `name` is a language or the name of a runtime; `policy` is JSON text; `progress` is called at each slow step.
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
        if engine.process != std::process::id() {
            return Err(forked());
        }
        let policy: Policy = serde_json::from_str(policy).map_err(IntoException::exception)?;
        let mut builder = Sandbox::builder(&engine.engine).named(name).policy(policy);
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
        let built = attended(py, &CancelToken::new(), attend, move |_| builder.build())?;
        Ok(Self { sandbox: built.map_err(IntoException::exception)?, process: engine.process })
    }

    #[getter]
    fn language(&self) -> &'static str {
        self.sandbox.language().name()
    }

    #[getter]
    fn runtime_name(&self) -> &str {
        self.sandbox.runtime_name()
    }

    #[getter]
    fn version(&self) -> Option<&str> {
        self.sandbox.version()
    }

    #[getter]
    fn image_sha256(&self) -> Option<&str> {
        self.sandbox.image_sha256()
    }

    fn execute(&self, py: Python<'_>, input: Input) -> PyResult<PyExecution> {
        let sandbox = self.here()?;
        input.execute(py, |request| sandbox.run(request))
    }

    fn validate(&self, py: Python<'_>, input: Input) -> PyResult<Vec<Message>> {
        let sandbox = self.here()?;
        let token = CancelToken::new();
        let request = input.request(&token)?;
        let diagnostics = interruptible(py, &token, move || sandbox.validate_request(request))?;
        let diagnostics = diagnostics.map_err(IntoException::exception)?;
        Ok(diagnostics.into_iter().map(|it| (it.line, it.column, it.message)).collect())
    }

    /// Measures the duration of `count` executions without Python's part, in nanoseconds. For benchmarks.
    fn time(&self, py: Python<'_>, source: &str, count: usize) -> PyResult<Vec<u64>> {
        let sandbox = self.here()?;
        let once = |_| {
            let begun = Instant::now();
            sandbox.execute(source)?;
            Ok(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
        };
        py.detach(|| (0..count).map(once).collect::<Result<_, ExecuteError>>()).map_err(IntoException::exception)
    }

    #[pyo3(signature = (id, context))]
    fn session(&self, py: Python<'_>, id: Option<String>, context: Option<PyBackedStr>) -> PyResult<PySession> {
        let sandbox = self.here()?;
        let mut options = SessionOptions::default();
        options.id = id;
        if let Some(context) = context {
            options.context = Some(JsonText::new(&*context).map_err(IntoException::exception)?);
        }
        let session = py.detach(|| sandbox.open_session(options)).map_err(IntoException::exception)?;
        Ok(PySession::new(session, self.process))
    }

    #[pyo3(signature = (state, id))]
    fn resume(&self, py: Python<'_>, state: PyBackedBytes, id: Option<String>) -> PyResult<PySession> {
        let sandbox = self.here()?;
        let mut options = ResumeOptions::default();
        options.id = id;
        let session = py.detach(|| sandbox.resume(&state, options)).map_err(IntoException::exception)?;
        Ok(PySession::new(session, self.process))
    }
}

/// The engine that all sandboxes of a process share.
#[pyclass(frozen, module = "glovebox_sandbox._native", name = "Engine")]
pub(crate) struct PyEngine {
    pub(crate) engine: Engine,
    pub(crate) process: u32,
}

#[pymethods]
impl PyEngine {
    #[new]
    fn new(
        py: Python<'_>,
        cache_dir: Option<PathBuf>,
        bundle: Option<PathBuf>,
        images: Option<PathBuf>,
        packages: bool,
    ) -> PyResult<Self> {
        let mut config = EngineConfig::default();
        config.cache_dir = cache_dir;
        config.bundle = bundle;
        config.own_images = images;
        config.progress = Arc::new(Progress);
        if !packages {
            config.packages = Packages::None;
        }
        let engine = py.detach(|| Engine::new(config)).map_err(IntoException::exception)?;
        Ok(Self { engine, process: std::process::id() })
    }
}
