//! Components compiled ahead of time and stored in the cache: a large one takes half a minute to compile.

use std::{
    env::consts,
    panic::{AssertUnwindSafe, catch_unwind},
};

use glovebox_vfs::{escaped, escaped_text};

use glovebox_runtimes::{
    Artefact, ArtefactKey, BuildError, CacheKind, Digest, ImageRecord, KeyParts, NewArtefact, PreparedError,
};
use wasmtime::component::Component;

use crate::{
    Engine,
    engine::compile_digest,
    load::{aot, resolve::WASMTIME},
};

/// A component is unavailable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The cache cannot be used.
    #[error(transparent)]
    Store(#[from] PreparedError),
    /// The bytes are not a component that this Wasmtime engine can run.
    #[error("cannot compile the component: {name}", name = escaped_text(.0))]
    Compile(String),
    /// The compiler failed: it exceeded a limit, panicked, or could not be started.
    #[error("{0}")]
    Compiler(String),
    /// The operating system could not provide a stack to compile on.
    #[error("cannot allocate a stack to compile the component")]
    Stack(#[source] std::io::Error),
}

/// Compiles a component for the caller's Wasmtime engine, or loads it from `engine`'s cache. Compiled components in the
/// cache share [`CacheLimits::component_bytes`](crate::CacheLimits::component_bytes): the least recently used ones are
/// removed first.
///
/// The cache key covers the digest of the bytes and all settings of the Wasmtime engine that change compiled code. The
/// trust rules are those of prepared images: a cache that other users can write to is refused.
///
/// The size of a component does not bound the time and memory to compile it. For untrusted components use
/// [`compile_with`].
///
/// # Errors
/// Fails if the cache cannot be used, or if the bytes do not compile.
pub fn compile(engine: &Engine, wasmtime: &wasmtime::Engine, wasm: &[u8]) -> Result<Component, CompileError> {
    compile_with(engine, wasmtime, wasm, |wasm| {
        // Compiling recurses deeply, and the caller may be a thread with a small stack. Cranelift panics on some
        // components before it has produced anything.
        let compiling = || catch_unwind(AssertUnwindSafe(|| aot::compile_component(wasmtime, wasm)));
        let compiled = engine.0.stacks.run(compiling).map_err(CompileError::Stack)?;
        compiled.map_err(|_| CompileError::Compiler("the compiler panicked".into()))?.map_err(words)
    })
}

/// Like [`compile`], but calls `compiler` for components that are missing in the cache. `compiler` may set limits, or
/// use a process of its own.
///
/// `compiler` returns the output of [`wasmtime::Engine::precompile_component`] from an engine with the settings and the
/// version of `wasmtime`. This is native code, which this process then runs: a compiler must be as trustworthy as this
/// program.
pub fn compile_with(
    engine: &Engine,
    wasmtime: &wasmtime::Engine,
    wasm: &[u8],
    compiler: impl Fn(&[u8]) -> Result<Vec<u8>, CompileError>,
) -> Result<Component, CompileError> {
    let inner = &*engine.0;
    let key = key(wasmtime, wasm);
    let open = || {
        inner.open_or_build(CacheKind::Components, &key, || {
            inner.progress.message("compiling the component");
            Ok(artefact(wasm, compiler(wasm)?))
        })
    };
    let built = match open() {
        // A damaged file is removed and the component compiled again: no other file refers to it.
        Err(BuildError::Store(PreparedError::Corrupt { path, .. })) => {
            tracing::warn!(path = %escaped(&path), "compiling a damaged component again");
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

/// Statistics of the compiled components in an engine's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentCache {
    /// Number of components, for any version and settings.
    pub count: usize,
    /// Size on disk, in bytes.
    pub bytes: u64,
}

impl Engine {
    /// Compares the full digests of all compiled components in the cache with the expected ones. Loading a component
    /// skips this comparison, which takes too long.
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

fn key(wasmtime: &wasmtime::Engine, wasm: &[u8]) -> ArtefactKey {
    ArtefactKey::new(KeyParts {
        label: "component".into(),
        runtime: Digest::of(wasm),
        recipe: Digest::of(b"a component"),
        wasmtime: WASMTIME.into(),
        settings: compile_digest(wasmtime).to_string(),
        target: consts::ARCH.into(),
    })
}

fn artefact(wasm: &[u8], aot: Vec<u8>) -> NewArtefact {
    NewArtefact { aot, record: ImageRecord::of_code(Digest::of(wasm)) }
}

fn words(error: wasmtime::Error) -> CompileError {
    CompileError::Compile(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::{CompileError, compile};
    use crate::{CacheLimits, Engine, EngineConfig};

    fn engine(dir: &std::path::Path, component_bytes: u64) -> Engine {
        let cache = CacheLimits { component_bytes, ..CacheLimits::default() };
        let config = EngineConfig { cache_dir: Some(dir.into()), pool: None, cache, ..EngineConfig::default() };
        Engine::new(config).unwrap()
    }

    /// Returns an empty component with a custom section, so that each number gives different bytes.
    fn component(number: u8) -> Vec<u8> {
        let mut wasm = b"\0asm\x0d\0\x01\0".to_vec();
        wasm.extend([0, 3, 1, b'x', number]);
        wasm
    }

    #[test]
    fn a_component_is_compiled_once_and_the_cache_makes_room_for_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let wasmtime = wasmtime::Engine::default();
        let large = engine(dir.path(), 1 << 30);
        let count = || large.0.runtimes.components().list().unwrap().len();
        for number in [1, 2, 1] {
            compile(&large, &wasmtime, &component(number)).unwrap();
        }
        assert_eq!(count(), 2);
        // Loading a component makes no room, however small the limit: only adding one does.
        compile(&engine(dir.path(), 1), &wasmtime, &component(1)).unwrap();
        assert_eq!(count(), 2);
        // The component that was just added stays, though it alone exceeds the limit.
        compile(&engine(dir.path(), 1), &wasmtime, &component(3)).unwrap();
        assert_eq!(count(), 1);
        compile(&engine(dir.path(), 1), &wasmtime, &component(3)).unwrap();
        assert_eq!(count(), 1);
        assert!(large.0.runtimes.prepared().list().unwrap().is_empty(), "images are elsewhere");
    }

    #[test]
    fn a_shortened_one_is_compiled_again_and_a_changed_one_is_found() {
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
    fn settings_that_change_the_code_have_a_place_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path(), 1 << 30);
        let fuel = wasmtime::Engine::new(wasmtime::Config::new().consume_fuel(true)).unwrap();
        for wasmtime in [&wasmtime::Engine::default(), &fuel] {
            compile(&engine, wasmtime, &component(1)).unwrap();
        }
        assert_eq!(engine.0.runtimes.components().list().unwrap().len(), 2);
    }

    #[test]
    fn what_is_no_component_is_refused_and_not_stored() {
        let dir = tempfile::tempdir().unwrap();
        let engine = engine(dir.path(), 1 << 30);
        for wasm in [&b""[..], b"\0asm\x01\0\0\0", b"\0asm\x0d\0\x01\0\xff"] {
            let error = compile(&engine, &wasmtime::Engine::default(), wasm).unwrap_err();
            assert!(matches!(error, CompileError::Compile(_)), "{error}");
        }
        assert_eq!(engine.0.runtimes.components().size_bytes().unwrap(), 0);
    }
}
