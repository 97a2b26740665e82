//! The engine of a process, for Python.

use std::{path::PathBuf, sync::Arc};

use glovebox::{Engine, EngineConfig, Packages};
use pyo3::prelude::*;

use crate::{attended::Progress, error::IntoException};

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
