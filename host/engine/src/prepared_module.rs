//! Prepared modules as WebAssembly: what images are compiled of, and what providers are woven of.

use std::io::Read as _;

use glovebox_runtimes::{BuildError, CacheKind, Digest, ImageRecord, NewArtefact, RuntimeEntry};

use crate::{Engine, RuntimeError, engine::Inner};

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
}

impl Engine {
    /// A runtime's prepared module. It is booted for this if it has not been for the same before: that takes half a minute for
    /// Python, whether or not its image is in the cache, since an image is compiled code only.
    pub fn prepared_module(&self, name: &str) -> Result<PreparedModule, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        if entry.library.is_some() {
            return Err(RuntimeError::NotPortable { name: entry.name.clone() });
        }
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
        Ok(PreparedModule { entry: entry.clone(), wasm, record, driver: recipe.driver.as_str(), exports })
    }
}

impl Inner {
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
