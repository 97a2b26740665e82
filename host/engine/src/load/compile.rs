//! Compiles components ahead of time and caches them. A large component takes half a minute to compile. Also returns
//! prepared modules as WebAssembly, the input for weaving providers.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Seek as _},
    panic::{AssertUnwindSafe, catch_unwind},
};

use glovebox_runtimes::{
    Artefact, ArtefactKey, BuildError, CacheKind, Digest, ImageRecord, NewArtefact, PreparedError, RuntimeEntry,
};
use glovebox_vfs::{escaped, escaped_text};
use wasmtime::component::Component;

use crate::{
    Engine, RuntimeError,
    engine::EngineInner,
    load::{
        aot,
        resolve::artefact_key,
        runtime::{all_files_beside, common_directory, directories},
    },
};

/// The reason why a component could not be compiled or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The cache cannot be used.
    #[error(transparent)]
    Store(#[from] PreparedError),
    /// The bytes are not a component that this Wasmtime engine supports.
    #[error("cannot compile the component: {name}", name = escaped_text(.0))]
    Compile(String),
    /// The compiler exceeded a limit, panicked or could not be started.
    #[error("{0}")]
    Compiler(String),
    /// The operating system could not provide a stack for the compiler.
    #[error("cannot allocate a stack to compile the component; free memory and try again")]
    Stack(#[source] io::Error),
}

/// Compiles a component for the caller's Wasmtime engine, or loads it from the cache of `engine`. Compiled components
/// share the limit [`CacheLimits::component_bytes`](crate::CacheLimits::component_bytes). When the limit is exceeded,
/// the least recently used components are removed first.
///
/// The cache key covers the digest of `wasm` and all settings of the Wasmtime engine that change compiled code. As with
/// prepared images, a cache that other users can write to is rejected.
///
/// The size of a component does not bound the time and memory that compiling takes. For untrusted components, use
/// [`compile_with`] with a compiler that has limits.
///
/// # Errors
/// Fails if the cache cannot be used, if the bytes do not compile, or if there is no memory for the compiler's stack.
pub fn compile(engine: &Engine, wasmtime: &wasmtime::Engine, wasm: &[u8]) -> Result<Component, CompileError> {
    compile_with(engine, wasmtime, wasm, |wasm| {
        // Compiles on a guest stack, because compiling recurses deeply and the caller's thread may have a small stack.
        // Catches panics, because Cranelift panics on some components.
        let compiling = || catch_unwind(AssertUnwindSafe(|| aot::compile_component(wasmtime, wasm)));
        let compiled = engine.0.stacks.run(compiling).map_err(CompileError::Stack)?;
        compiled.map_err(|_| CompileError::Compiler("the compiler panicked".into()))?.map_err(words)
    })
}

/// Like [`compile`], but calls `compiler` for components that are not in the cache. `compiler` can enforce limits or
/// run in a separate process.
///
/// `compiler` must return the output of [`wasmtime::Engine::precompile_component`] from an engine with the same version
/// and settings as `wasmtime`. The output is native code that this process runs, so a compiler must be as trustworthy
/// as this program.
///
/// # Errors
/// Fails like [`compile`], and with any error from `compiler`.
pub fn compile_with(
    engine: &Engine,
    wasmtime: &wasmtime::Engine,
    wasm: &[u8],
    compiler: impl Fn(&[u8]) -> Result<Vec<u8>, CompileError>,
) -> Result<Component, CompileError> {
    let inner = &*engine.0;
    let sha256 = Digest::of(wasm);
    let key = artefact_key(wasmtime, "component".into(), sha256, Digest::of(b"a component"));
    let open = || {
        inner.open_or_build(CacheKind::Components, &key, || {
            inner.progress.message("compiling the component");
            Ok(NewArtefact { aot: compiler(wasm)?, record: ImageRecord::of_code(sha256) })
        })
    };
    let built = match open() {
        // Remove all cached code of the component, including the damaged file, and compile the component again.
        Err(BuildError::Store(PreparedError::Corrupt { path, .. })) => {
            tracing::warn!(path = %escaped(&path), "recompiling a damaged component");
            inner.runtimes.components().remove(&key.parts().runtime)?;
            open()
        }
        other => other,
    };
    let artefact: Artefact = built.map_err(|error| match error {
        BuildError::Build(error) => error,
        BuildError::Store(error) => error.into(),
        other => CompileError::Compile(other.to_string()),
    })?;
    aot::load_component(wasmtime, artefact.aot).map_err(words)
}

/// Statistics about the compiled components in an engine's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentCache {
    /// The number of components, including components for other versions and settings.
    pub count: usize,
    /// The size on disk, in bytes.
    pub bytes: u64,
}

impl Engine {
    /// Compares the full digests of all compiled components in the cache with the recorded digests. Loading a component
    /// skips this slow comparison if the file has not changed since the last comparison.
    ///
    /// # Errors
    /// Fails if the cache cannot be read, or if a digest differs.
    pub fn verify_components(&self) -> Result<ComponentCache, CompileError> {
        let store = self.0.runtimes.components();
        let listed = store.list()?;
        for listed in &listed {
            if let Some(artefact) = store.open(&ArtefactKey::new(listed.parts.clone()))? {
                store.verify(&artefact)?;
            }
        }
        Ok(ComponentCache { count: listed.len(), bytes: store.size_bytes()? })
    }
}

fn words(error: wasmtime::Error) -> CompileError {
    CompileError::Compile(format!("{error:#}"))
}

/// The prepared module of a runtime: an interpreter that was booted and parked, with its memory as the module's initial
/// data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedModule {
    /// The manifest entry of the runtime.
    pub entry: RuntimeEntry,
    /// The module in WebAssembly's binary format.
    pub wasm: Vec<u8>,
    /// The record of the image, including its identity, which is the digest of `wasm`.
    pub record: ImageRecord,
    /// The name of the driver that calls into the module, as used in recipes.
    pub driver: &'static str,
    /// The names of the exported functions that the driver calls.
    pub exports: Vec<String>,
    /// The standard library, if it is a separate file.
    pub library: Option<PreparedLibrary>,
}

/// The standard library of a runtime, including all its files that guests see.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedLibrary {
    /// The guest path of the archive.
    pub guest_path: String,
    /// The content of the archive.
    pub archive: Vec<u8>,
    /// The contents of the files next to the archive, by path relative to the archive's directory.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The innermost directory that contains all of `files`, relative to the archive's directory. Empty if there are no
    /// files, or if no directory contains all of them.
    pub files_directory: String,
}

impl Engine {
    /// Returns a runtime's prepared module. If the module is not in the cache, boots the interpreter, which takes half
    /// a minute for Python. A cached image cannot replace the module, because the image contains only compiled code.
    ///
    /// # Errors
    /// Fails if the runtime is unknown or has no recipe, if it cannot be fetched, compiled or booted, or if the cache
    /// cannot be used.
    pub fn prepared_module(&self, name: &str) -> Result<PreparedModule, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        let recipe = self.0.runtimes.recipe_of(entry)?;
        let (wasm, record) = match self.0.read_module(entry)? {
            Some(module) => module,
            // Remove all cached modules of the binary, including the damaged module, and build the module again.
            None => {
                self.0.runtimes.modules().remove(&entry.sha256)?;
                self.0.read_module(entry)?.ok_or_else(|| RuntimeError::Load {
                    name: name.to_owned(),
                    reason: "its prepared module changed right after it was written".to_owned(),
                })?
            }
        };
        let exports = recipe.exports.functions.iter().chain(recipe.exports.indices.keys()).cloned().collect();
        let library = self.0.prepared_library(entry)?;
        Ok(PreparedModule { entry: entry.clone(), wasm, record, driver: recipe.driver.as_str(), exports, library })
    }
}

impl EngineInner {
    /// Reads a runtime's library into memory. Only the file's length is checked, because the file's digest was compared
    /// when the file was fetched.
    fn prepared_library(&self, runtime: &RuntimeEntry) -> Result<Option<PreparedLibrary>, RuntimeError> {
        let Some((entry, mut file)) = runtime.library.as_ref().zip(self.runtimes.library(runtime, &*self.progress)?)
        else {
            return Ok(None);
        };
        let loading = |error: io::Error| RuntimeError::Load { name: runtime.name.clone(), reason: error.to_string() };
        let files = all_files_beside(entry, &file).map_err(loading)?;
        let mut archive = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut archive)).map_err(loading)?;
        let files_directory = common_directory(&directories(entry)).to_owned();
        Ok(Some(PreparedLibrary { guest_path: entry.guest_path.clone(), archive, files, files_directory }))
    }

    /// Returns the module from the cache, and builds it first if it is missing. Returns `None` if its bytes do not
    /// match the recorded digest.
    fn read_module(&self, entry: &RuntimeEntry) -> Result<Option<(Vec<u8>, ImageRecord)>, RuntimeError> {
        let loading = |error: io::Error| RuntimeError::Load { name: entry.name.clone(), reason: error.to_string() };
        let key = self.image_key(&entry.into());
        let mut artefact = self.open_or_prepare(&entry.name, CacheKind::Modules, &key, || {
            let booted = self.boot_named(entry)?;
            Ok(NewArtefact { aot: booted.module, record: booted.record })
        })?;
        let mut wasm = Vec::new();
        artefact.aot.read_to_end(&mut wasm).map_err(loading)?;
        Ok((Digest::of(&wasm) == artefact.record.sha256).then_some((wasm, artefact.record)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CacheLimits, EngineConfig};

    fn engine(dir: &std::path::Path, component_bytes: u64) -> Engine {
        let cache = CacheLimits { component_bytes, ..CacheLimits::default() };
        let config = EngineConfig { cache_dir: Some(dir.into()), pool: None, cache, ..EngineConfig::default() };
        Engine::new(config).unwrap()
    }

    /// Returns an empty component with a custom section that contains `number`. Each number gives a component with
    /// different bytes.
    fn component(number: u8) -> Vec<u8> {
        let mut wasm = b"\0asm\x0d\0\x01\0".to_vec();
        wasm.extend([0, 3, 1, b'x', number]);
        wasm
    }

    #[test]
    fn component_is_compiled_once_and_evicted_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let wasmtime = wasmtime::Engine::default();
        let large = engine(dir.path(), 1 << 30);
        let count = || large.0.runtimes.components().list().unwrap().len();
        for number in [1, 2, 1] {
            compile(&large, &wasmtime, &component(number)).unwrap();
        }
        assert_eq!(count(), 2);
        // Loading a component evicts nothing, even if the cache exceeds its limit. Only adding a component evicts
        // components.
        compile(&engine(dir.path(), 1), &wasmtime, &component(1)).unwrap();
        assert_eq!(count(), 2);
        // The component that was just added remains, even though it alone exceeds the limit.
        compile(&engine(dir.path(), 1), &wasmtime, &component(3)).unwrap();
        assert_eq!(count(), 1);
        compile(&engine(dir.path(), 1), &wasmtime, &component(3)).unwrap();
        assert_eq!(count(), 1);
        assert!(large.0.runtimes.prepared().list().unwrap().is_empty(), "components are not stored with images");
    }

    #[test]
    fn truncated_code_is_recompiled_and_changes_detected() {
        let dir = tempfile::tempdir().unwrap();
        let (engine, wasmtime) = (engine(dir.path(), 1 << 30), wasmtime::Engine::default());
        compile(&engine, &wasmtime, &component(1)).unwrap();
        let path = engine.0.runtimes.components().list().unwrap()[0].aot_path.clone();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[1..]).unwrap();
        compile(&engine, &wasmtime, &component(1)).unwrap();
        assert_eq!(engine.verify_components().unwrap().count, 1);
        let mut changed = whole;
        *changed.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &changed).unwrap();
        let error = engine.verify_components().unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn code_settings_have_separate_cache_entries() {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path(), 1 << 30);
        let fuel = wasmtime::Engine::new(wasmtime::Config::new().consume_fuel(true)).unwrap();
        for wasmtime in [&wasmtime::Engine::default(), &fuel] {
            compile(&engine, wasmtime, &component(1)).unwrap();
        }
        assert_eq!(engine.0.runtimes.components().list().unwrap().len(), 2);
    }

    #[test]
    fn non_component_is_rejected_and_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path(), 1 << 30);
        for wasm in [&b""[..], b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0\xff"] {
            let error = compile(&engine, &wasmtime::Engine::default(), wasm).unwrap_err();
            assert!(matches!(error, CompileError::Compile(_)), "{error}");
        }
        assert_eq!(engine.0.runtimes.components().size_bytes().unwrap(), 0);
    }
}
