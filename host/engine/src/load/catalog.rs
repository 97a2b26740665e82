//! The runtimes of an engine: listing, fetching, preparing, verifying and removing them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use glovebox_runtimes::{Artefact, RuntimeEntry, ToolEntry};
use serde::Serialize;

use crate::{
    Engine, Language, Metering, RuntimeError,
    engine::EngineInner,
    load::resolve::{FoundRuntime, language},
};

/// A runtime of the manifest and its state in the cache.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RuntimeInfo {
    /// Name of the runtime.
    pub name: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// Language of its scripts.
    pub language: Language,
    /// `true` if scripts of its language run on it when the caller names no runtime. In order of precedence, this is
    /// the runtime in [`EngineConfig::default_runtimes`](crate::EngineConfig::default_runtimes), the last
    /// [added](Engine::add_runtime) one in this list, or the manifest's default.
    pub default: bool,
    /// `true` if it was added with [`Engine::add_runtime`].
    pub added: bool,
    /// `true` if components may name it. Runtimes that take minutes to fetch and compile are offered only if they are
    /// the default or were added.
    pub offered: bool,
    /// `true` if a provider component can embed it ([`Engine::prepared_module`]): it has a recipe for preparation.
    pub portable: bool,
    /// `true` if it has the data library, a separate file beside the interpreter. Such a runtime takes minutes to
    /// prepare, and its provider component has about 200 MB.
    pub has_library: bool,
    /// Version of the interpreter.
    pub version: String,
    /// Expected SHA-256 of the binary, in hexadecimal.
    pub sha256: String,
    /// Size of the binary in bytes, including its library if that is a separate file.
    pub size_bytes: u64,
    /// Licence, as an SPDX expression.
    pub licence: String,
    /// Project and build that the binary comes from.
    pub origin: String,
    /// Path of the binary, whether or not it is fetched yet.
    pub path: PathBuf,
    /// `true` if the binary is in the cache.
    pub fetched: bool,
    /// `true` if its prepared image is in the cache, for this version of Glovebox and this CPU.
    pub prepared: bool,
}

impl RuntimeInfo {
    /// Returns `true` if `name` is its name or one of its aliases.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// A tool of the manifest and its state in the cache. A tool processes a script before the interpreter runs it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ToolInfo {
    /// Name of the tool.
    pub name: String,
    /// Version of the tool.
    pub version: String,
    /// Expected SHA-256 of the module, in hexadecimal.
    pub sha256: String,
    /// Size of the module in bytes.
    pub size_bytes: u64,
    /// Licence, as an SPDX expression.
    pub licence: String,
    /// Project and build that the module comes from.
    pub origin: String,
    /// Path of the module, whether or not it is fetched yet.
    pub path: PathBuf,
    /// `true` if the module is in the cache.
    pub fetched: bool,
    /// `true` if its compiled code is in the cache, for this version of Glovebox and this CPU.
    pub prepared: bool,
}

/// A prepared image.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PreparedInfo {
    /// The image's identity: the SHA-256 of the prepared module.
    pub image_sha256: String,
    /// Path of the compiled file.
    pub path: PathBuf,
    /// Size of an instance's linear memory, in bytes.
    pub memory_bytes: u64,
    /// Duration of the preparation. Close to zero if the image was prepared already.
    #[serde(skip)]
    pub took: Duration,
}

impl EngineInner {
    /// Prepares a runtime, unless it is prepared already.
    pub(crate) fn prepare(&self, found: &FoundRuntime<'_>) -> Result<PreparedInfo, RuntimeError> {
        prepared(|| self.artefact(found))
    }
}

/// Returns `true` if a source contains a word.
fn names(source: &str, word: &str) -> bool {
    let is_part = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    source.match_indices(word).any(|(at, _)| {
        let (before, after) = (source.get(..at), source.get(at.saturating_add(word.len())..));
        !is_part(before.and_then(|text| text.chars().next_back()))
            && !is_part(after.and_then(|text| text.chars().next()))
    })
}

/// Runs `prepare` and measures its duration.
fn prepared(prepare: impl FnOnce() -> Result<Artefact, RuntimeError>) -> Result<PreparedInfo, RuntimeError> {
    let begun = Instant::now();
    let artefact = prepare()?;
    Ok(PreparedInfo {
        image_sha256: artefact.record.sha256.to_string(),
        path: artefact.aot_path,
        memory_bytes: artefact.record.memory_bytes,
        took: begun.elapsed(),
    })
}

impl Engine {
    /// Returns the runtimes of the manifest.
    pub fn runtimes(&self) -> Result<Vec<RuntimeInfo>, RuntimeError> {
        Ok(self.0.runtimes.manifest().runtimes().iter().map(|entry| self.info(entry)).collect())
    }

    fn info(&self, entry: &RuntimeEntry) -> RuntimeInfo {
        RuntimeInfo {
            name: entry.name.clone(),
            aliases: entry.aliases.clone(),
            language: language(entry.language),
            default: self.0.is_preferred(entry),
            added: self.0.runtimes.is_added(entry).unwrap_or(false),
            offered: self.0.is_offered(entry),
            portable: self.0.runtimes.recipe_of(entry).is_ok(),
            has_library: entry.library.is_some(),
            version: entry.version.clone(),
            sha256: entry.sha256.to_string(),
            size_bytes: entry.total_bytes(),
            licence: entry.licence.clone(),
            origin: entry.origin.clone(),
            path: self.0.runtimes.path(entry),
            // A damaged or untrusted file counts as missing, so that it can be listed and removed. Running it, and
            // `verify`, report the reason.
            fetched: self.0.runtimes.present(entry).unwrap_or(false),
            prepared: self.0.is_prepared(&entry.into()).unwrap_or(false),
        }
    }

    /// Returns the tools of the manifest. [`fetch`](Self::fetch), [`prepare`](Self::prepare), [`verify`](Self::verify)
    /// and [`remove`](Self::remove) accept their names too.
    pub fn tools(&self) -> Result<Vec<ToolInfo>, RuntimeError> {
        Ok(self.0.runtimes.manifest().tools().iter().map(|tool| self.tool_info(tool)).collect())
    }

    fn tool_info(&self, tool: &ToolEntry) -> ToolInfo {
        ToolInfo {
            name: tool.name.clone(),
            version: tool.version.clone(),
            sha256: tool.sha256.to_string(),
            size_bytes: tool.size_bytes,
            licence: tool.licence.clone(),
            origin: tool.origin.clone(),
            path: self.0.runtimes.tool_path(tool),
            // A damaged or untrusted file counts as missing, as for runtimes.
            fetched: self.0.runtimes.tool_present(tool).unwrap_or(false),
            prepared: self.0.is_tool_prepared(tool).unwrap_or(false),
        }
    }

    /// Fetches the binary of a runtime or tool if it is missing, and returns its path.
    pub fn fetch(&self, name: &str) -> Result<PathBuf, RuntimeError> {
        if let Some(tool) = self.0.runtimes.manifest().tool(name) {
            self.0.runtimes.fetch_tool(tool, &*self.0.progress)?;
            return Ok(self.0.runtimes.tool_path(tool));
        }
        let entry = self.0.find(name)?.entry;
        self.0.runtimes.fetch(&entry, &*self.0.progress)?;
        Ok(self.0.runtimes.path(&entry))
    }

    /// Writes the binaries of the named runtimes and tools, and the wheels of the packages, to one zip file. Fetches
    /// missing files first. Returns the size of the zip file in bytes.
    ///
    /// An engine with this file as its [`EngineConfig::bundle`](crate::EngineConfig::bundle) needs no network for these
    /// binaries. Equal contents give equal bytes.
    pub fn write_bundle(&self, names: &[&str], path: &Path) -> Result<u64, RuntimeError> {
        let manifest = self.0.runtimes.manifest();
        let (mut runtimes, mut tools) = (Vec::new(), Vec::new());
        for name in names {
            match manifest.tool(name) {
                Some(tool) => tools.push(tool.clone()),
                None => runtimes.push(manifest.find(name)?.clone()),
            }
        }
        Ok(self.0.runtimes.write_bundle(&runtimes, &tools, path, &*self.0.progress)?)
    }

    /// Returns the name of the runtime that a script with this source starts soonest on: the default of its language, or
    /// the runtime below that if the script names none of the modules that the default has in memory.
    ///
    /// The command uses this for scripts that run on their own. Sandboxes and sessions run on the default of their
    /// language, because the source is not known when they are created.
    ///
    /// # Errors
    /// Fails if the default runtime is unknown.
    pub fn runtime_for(&self, language: Language, source: &str) -> Result<String, RuntimeError> {
        let name = self.0.preferred(language)?;
        let entry = self.0.find(name)?.entry;
        let image = entry.image.as_ref().filter(|image| !image.modules.is_empty());
        let base = image.filter(|image| !image.modules.iter().any(|module| names(source, module)));
        Ok(base.map_or(name, |image| &image.runtime).to_owned())
    }

    /// Prepares a runtime or tool, unless it is prepared already. Fetches a missing binary first.
    pub fn prepare(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        match self.0.runtimes.manifest().tool(name) {
            Some(tool) => prepared(|| self.0.tool_artefact(tool)),
            None => self.0.prepare(&self.0.find(name)?),
        }
    }

    /// Like [`prepare`](Self::prepare), but for code without fuel metering, which sandboxes with [`Metering::None`] in
    /// their policy use.
    pub fn prepare_unmetered(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        self.unmetered(name)?.prepare(name)
    }

    fn unmetered(&self, name: &str) -> Result<Self, RuntimeError> {
        let wrong = |error| RuntimeError::Load { name: name.to_owned(), reason: format!("{error}") };
        self.with_metering(Metering::None).map_err(wrong)
    }

    /// Compares the full digests of the binary and of the compiled images of a runtime or tool with the expected ones.
    /// Missing files are skipped.
    pub fn verify(&self, name: &str) -> Result<(), RuntimeError> {
        if let Some(tool) = self.0.runtimes.manifest().tool(name) {
            if self.0.runtimes.tool_present(tool)? {
                self.0.runtimes.verify_tool(tool)?;
            }
            if self.0.is_tool_prepared(tool)? {
                self.0.runtimes.prepared().verify(&self.0.tool_artefact(tool)?)?;
            }
            return Ok(());
        }
        let found = self.0.find(name)?;
        if self.0.runtimes.present(&found.entry)? {
            self.0.runtimes.verify(&found.entry)?;
        }
        self.0.verify_prepared(&found)?;
        self.unmetered(name)?.0.verify_prepared(&found)?;
        Ok(())
    }

    /// Removes the binary of a runtime and all its prepared images from the cache. Returns the number of bytes freed.
    ///
    /// For an image of another runtime, and for the user's own images, only that image is removed. Running sandboxes
    /// are not affected.
    pub fn remove(&self, name: &str) -> Result<u64, RuntimeError> {
        if let Some(tool) = self.0.runtimes.manifest().tool(name) {
            let freed = self.0.runtimes.prepared().remove(&tool.sha256)?;
            let was_there = self.0.runtimes.remove_tool(tool)?;
            return Ok(freed + if was_there { tool.size_bytes } else { 0 });
        }
        let runtimes = &self.0.runtimes;
        let found = self.0.find(name)?;
        if found.own.is_some() {
            // The description stays, so the image is built again at its next use.
            return Ok(runtimes.prepared().remove_labelled(&found.entry.label())?);
        }
        let entry = runtimes.manifest().find(name)?;
        runtimes.withdraw(entry)?;
        if entry.image.is_some() {
            // The binary and its code belong to another runtime.
            return Ok(runtimes.prepared().remove_labelled(&entry.label())?);
        }
        for image in runtimes.manifest().images_of(entry) {
            runtimes.withdraw(image)?;
        }
        let stores = [runtimes.prepared(), runtimes.modules(), runtimes.code()];
        let removed = stores.iter().map(|store| store.remove(&entry.sha256));
        let freed = removed.sum::<Result<u64, _>>()?;
        Ok(freed.saturating_add(runtimes.remove(entry)?))
    }

    /// Prepares a runtime and makes it the default for scripts of its language. Applies to every engine with this cache
    /// that is created from now on, if the caller names no runtime. Of several added runtimes, the last one that
    /// [`runtimes`](Self::runtimes) lists is the default. [`remove`](Self::remove) reverts this.
    pub fn add_runtime(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        let prepared = self.prepare(name)?;
        self.0.runtimes.add(entry)?;
        Ok(prepared)
    }

    /// Removes every prepared image, including the images of binaries that were run by path, and every compiled
    /// component. Returns the number of bytes freed. Running sandboxes and components are not affected.
    pub fn clear_prepared(&self) -> Result<u64, RuntimeError> {
        let runtimes = &self.0.runtimes;
        let stores = [runtimes.prepared(), runtimes.modules(), runtimes.code(), runtimes.components()];
        stores.iter().try_fold(0u64, |freed, store| Ok(freed.saturating_add(store.clear()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn only_whole_words_name_a_module() {
        for source in
            ["import numpy", "from numpy.linalg import solve", "x = numpy", "(numpy)", "'numpy'", "a;numpy as np"]
        {
            assert!(names(source, "numpy"), "{source}");
        }
        for source in ["", "num", "numpys", "_numpy", "numpy_like", "numpy2", "énumpy", "numpyé"] {
            assert!(!names(source, "numpy"), "{source}");
        }
    }
}
