//! Loads the stripper, which is fetched, compiled and cached like interpreters.

use glovebox_runtimes::{
    Artefact, ArtefactKey, BuildError, CacheKind, Digest, ImageRecord, KeyParts, NewArtefact, ToolEntry,
};
use wasmtime::Linker;

use crate::{
    RuntimeError,
    engine::{Inner, compile_digest},
    load::{aot, resolve::WASMTIME},
};

use super::{Stripper, glue};

/// Name of the stripper in the manifest.
const TOOL: &str = "typescript";

impl Inner {
    /// Returns the stripper. Fetches, compiles and loads it first if necessary.
    pub(crate) fn stripper(&self) -> Result<&Stripper, RuntimeError> {
        if let Some(stripper) = self.stripper.get() {
            return Ok(stripper);
        }
        let tool = self.stripper_tool()?;
        let artefact = self.tool_artefact(tool)?;
        let module = aot::load(&self.wasmtime, artefact.aot).map_err(|error| wrong(tool, error))?;
        let mut linker = Linker::new(&self.wasmtime);
        glue::define(&mut linker, &module).map_err(|error| wrong(tool, error))?;
        let pre = linker.instantiate_pre(&module).map_err(|error| wrong(tool, error))?;
        // If two threads load it at once, the first one stays.
        Ok(self.stripper.get_or_init(|| Stripper(pre)))
    }

    /// Returns the stripper's entry in the manifest.
    fn stripper_tool(&self) -> Result<&ToolEntry, RuntimeError> {
        let missing = || RuntimeError::Load { name: TOOL.into(), reason: "the manifest has no such tool".into() };
        self.runtimes.manifest().tool(TOOL).ok_or_else(missing)
    }

    /// Returns a tool's compiled code. Fetches and compiles it first if it is not in the cache.
    pub(crate) fn tool_artefact(&self, tool: &ToolEntry) -> Result<Artefact, RuntimeError> {
        let built = self.open_or_build(CacheKind::Images, &self.tool_key(tool), || self.build_tool(tool));
        built.map_err(|error| match error {
            BuildError::Build(error) => error,
            BuildError::Store(error) => error.into(),
            other => RuntimeError::Load { name: tool.name.clone(), reason: other.to_string() },
        })
    }

    /// Returns `true` if a tool's compiled code is in the cache.
    pub(crate) fn is_tool_prepared(&self, tool: &ToolEntry) -> Result<bool, RuntimeError> {
        Ok(self.runtimes.prepared().open(&self.tool_key(tool))?.is_some())
    }

    /// Returns the cache key of a tool's compiled code.
    fn tool_key(&self, tool: &ToolEntry) -> ArtefactKey {
        ArtefactKey::new(KeyParts {
            label: format!("{}-{}", tool.name, tool.version),
            runtime: tool.sha256,
            recipe: Digest::of(b"a tool"),
            wasmtime: WASMTIME.into(),
            settings: compile_digest(&self.wasmtime).to_string(),
            target: std::env::consts::ARCH.into(),
        })
    }

    fn build_tool(&self, tool: &ToolEntry) -> Result<NewArtefact, RuntimeError> {
        let module = self.runtimes.load_or_fetch_tool(tool, &*self.progress)?;
        self.progress.message(&format!("compiling `{}`", tool.name));
        // Compiling recurses deeply, and the caller may be a thread with a small stack.
        let aot = self.stacks.run(|| aot::compile(&self.wasmtime, &module)).map_err(RuntimeError::Stack)?;
        let aot = aot.map_err(|error| wrong(tool, error))?;
        Ok(NewArtefact { aot, record: ImageRecord::of_code(tool.sha256) })
    }
}

fn wrong(tool: &ToolEntry, error: wasmtime::Error) -> RuntimeError {
    RuntimeError::Load { name: tool.name.clone(), reason: format!("{error:#}") }
}
