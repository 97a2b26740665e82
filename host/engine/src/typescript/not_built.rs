//! Placeholder for loading the stripper in builds without the feature `typescript`.

use glovebox_runtimes::{Artefact, ToolEntry};

use super::Stripper;
use crate::{RuntimeError, engine::Inner};

const NOT_BUILT: RuntimeError = RuntimeError::NotBuilt { feature: "typescript" };

impl Inner {
    pub(crate) fn stripper(&self) -> Result<&Stripper, RuntimeError> {
        Err(NOT_BUILT)
    }

    pub(crate) fn tool_artefact(&self, _: &ToolEntry) -> Result<Artefact, RuntimeError> {
        Err(NOT_BUILT)
    }

    pub(crate) fn is_tool_prepared(&self, _: &ToolEntry) -> Result<bool, RuntimeError> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, EngineConfig};

    #[test]
    fn whoever_has_typescript_is_told_of_the_feature() {
        let dir = tempfile::tempdir().unwrap();
        let config = EngineConfig { cache_dir: Some(dir.path().into()), pool: None, ..EngineConfig::default() };
        let engine = Engine::new(config).unwrap();
        for error in [engine.prepare("typescript").unwrap_err(), engine.0.stripper().err().unwrap()] {
            assert!(error.to_string().contains("its feature `typescript`"), "{error}");
        }
        assert!(engine.tools().unwrap().iter().all(|tool| !tool.prepared));
    }
}
