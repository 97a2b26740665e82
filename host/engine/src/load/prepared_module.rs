//! Prepared modules as WebAssembly: the input for compiling images and for weaving providers.

use std::{
    collections::BTreeMap,
    io::{Read as _, Seek as _},
};

use glovebox_runtimes::{BuildError, CacheKind, Digest, ImageRecord, NewArtefact, RuntimeEntry};

use crate::{Engine, RuntimeError, engine::Inner, load::library::files_beside};

/// A runtime's prepared module: an interpreter that was booted and parked, with its memory as the module's initial
/// data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedModule {
    /// The runtime's entry in the manifest.
    pub entry: RuntimeEntry,
    /// The module in binary format.
    pub wasm: Vec<u8>,
    /// The image's record. The identity in it is the module's digest.
    pub record: ImageRecord,
    /// Name of the driver that calls the module, as in recipes.
    pub driver: &'static str,
    /// Names of the exported functions that the driver calls.
    pub exports: Vec<String>,
    /// The standard library, if it is a separate file.
    pub library: Option<PreparedLibrary>,
}

/// A runtime's standard library, with all files that guests see of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedLibrary {
    /// Path of the archive in guests.
    pub guest_path: String,
    /// Content of the archive.
    pub archive: Vec<u8>,
    /// Contents of the files beside the archive, by path relative to the archive's directory.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Common directory of `files`, relative to the archive's directory. Empty if there are none.
    pub files_directory: String,
}

impl Engine {
    /// Returns a runtime's prepared module. Boots the interpreter if the module is not in the cache, which takes half a
    /// minute for Python. A prepared image in the cache does not help, because it contains only compiled code.
    ///
    /// # Errors
    /// Fails if the runtime is unknown, has no recipe, or cannot be fetched or booted.
    pub fn prepared_module(&self, name: &str) -> Result<PreparedModule, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        let recipe = self.0.runtimes.recipe_of(entry)?;
        let (wasm, record) = match self.0.read_module(entry)? {
            Some(module) => module,
            // A damaged module is built again: no other file refers to it.
            None => {
                self.0.runtimes.modules().remove(&entry.sha256)?;
                self.0.read_module(entry)?.ok_or_else(|| RuntimeError::Load {
                    name: name.to_owned(),
                    reason: "its prepared module changed right after it was written".to_owned(),
                })?
            }
        };
        let exports = recipe.exports.functions.clone();
        let library = self.0.prepared_library(entry)?;
        Ok(PreparedModule { entry: entry.clone(), wasm, record, driver: recipe.driver.as_str(), exports, library })
    }
}

impl Inner {
    /// Reads a runtime's whole library. Opening it verifies it.
    fn prepared_library(&self, runtime: &RuntimeEntry) -> Result<Option<PreparedLibrary>, RuntimeError> {
        let Some((entry, mut file)) = runtime.library.as_ref().zip(self.runtimes.library(runtime, &*self.progress)?)
        else {
            return Ok(None);
        };
        let loading =
            |error: std::io::Error| RuntimeError::Load { name: runtime.name.clone(), reason: error.to_string() };
        let files = files_beside(entry, &file).map_err(loading)?;
        let mut archive = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut archive)).map_err(loading)?;
        let files_directory = entry.unpacked.as_ref().map(|unpacked| unpacked.directory.clone()).unwrap_or_default();
        Ok(Some(PreparedLibrary { guest_path: entry.guest_path.clone(), archive, files, files_directory }))
    }

    /// Returns the module from the cache, and builds it if it is missing. Returns `None` if its bytes differ from the
    /// recorded digest.
    fn read_module(&self, entry: &RuntimeEntry) -> Result<Option<(Vec<u8>, ImageRecord)>, RuntimeError> {
        let loading = |reason: String| RuntimeError::Load { name: entry.name.clone(), reason };
        let built = self.open_or_build(CacheKind::Modules, &self.image_key(&entry.into()), || {
            let booted = self.boot_named(entry)?;
            Ok(NewArtefact { aot: booted.module, record: booted.record })
        });
        let mut artefact = built.map_err(|error| match error {
            BuildError::Build(error) => error,
            BuildError::Store(error) => error.into(),
            other => loading(other.to_string()),
        })?;
        let mut wasm = Vec::new();
        artefact.aot.read_to_end(&mut wasm).map_err(|error| loading(error.to_string()))?;
        Ok((Digest::of(&wasm) == artefact.record.sha256).then_some((wasm, artefact.record)))
    }
}
