//! Prepared modules as WebAssembly: what images are compiled of, and what providers are woven of.

use std::{
    collections::BTreeMap,
    io::{Read as _, Seek as _},
};

use glovebox_runtimes::{BuildError, CacheKind, Digest, ImageRecord, NewArtefact, RuntimeEntry};

use crate::{Engine, RuntimeError, engine::Inner, library::files_beside};

/// A runtime's prepared module: an interpreter that was booted and parked, its memory the module's initial data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedModule {
    /// What the manifest says of the runtime.
    pub entry: RuntimeEntry,
    /// The module.
    pub wasm: Vec<u8>,
    /// What is known of the image: its identity is the module's digest.
    pub record: ImageRecord,
    /// The driver that calls it, as recipes name it.
    pub driver: &'static str,
    /// The functions that the driver calls.
    pub exports: Vec<String>,
    /// Its standard library, where that is a file of its own.
    pub library: Option<PreparedLibrary>,
}

/// A runtime's standard library, with all that guests find of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PreparedLibrary {
    /// The archive's path in guests.
    pub guest_path: String,
    /// The archive.
    pub archive: Vec<u8>,
    /// Files beside it, by their paths from its directory on.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The directory that these are all in, from there on; empty if there are none.
    pub files_directory: String,
}

impl Engine {
    /// A runtime's prepared module. It is booted for this if it has not been for the same before: that takes half a minute for
    /// Python, whether or not its image is in the cache, since an image is compiled code only.
    pub fn prepared_module(&self, name: &str) -> Result<PreparedModule, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        let recipe = self.0.runtimes.recipe_of(entry)?;
        let (wasm, record) = match self.0.read_module(entry)? {
            Some(module) => module,
            // A damaged one is made again: nothing else reads it.
            None => {
                self.0.runtimes.modules().remove(&entry.sha256)?;
                self.0.read_module(entry)?.ok_or_else(|| RuntimeError::Load {
                    name: name.to_owned(),
                    reason: "its prepared module is not what was written a moment ago".to_owned(),
                })?
            }
        };
        let exports = recipe.exports.functions.clone();
        let library = self.0.prepared_library(entry)?;
        Ok(PreparedModule { entry: entry.clone(), wasm, record, driver: recipe.driver.as_str(), exports, library })
    }
}

impl Inner {
    /// All of a runtime's library, which is checked as it is opened.
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

    /// The module from the cache, made if it is not there. `None`: its file has other bytes than were written.
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
