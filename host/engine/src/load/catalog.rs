//! Lists, fetches, prepares, verifies and removes the runtimes of an engine.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use glovebox_runtimes::{Artefact, CacheKind, RuntimeEntry, ToolEntry};
use serde::Serialize;

use crate::{
    Engine, Language, Metering, RuntimeError,
    engine::EngineInner,
    load::resolve::{FoundRuntime, language},
};

/// A runtime in the manifest and its state in the cache.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RuntimeInfo {
    /// The name of the runtime.
    pub name: String,
    /// The alternative names of the runtime.
    pub aliases: Vec<String>,
    /// The language of the runtime.
    pub language: Language,
    /// `true` if scripts in its language use this runtime by default. In order of precedence, the default is the
    /// runtime in [`EngineConfig::default_runtimes`](crate::EngineConfig::default_runtimes), the last
    /// [added](Engine::add_runtime) runtime in the order of [`Engine::runtimes`], or the manifest's default. If the
    /// engine's bundles lack the manifest's default, another bundled runtime replaces it.
    pub default: bool,
    /// `true` if the runtime was added with [`Engine::add_runtime`].
    pub added: bool,
    /// `true` if components can request the runtime by name. A runtime with [`has_library`](RuntimeInfo::has_library)
    /// takes minutes to prepare, so it is offered only if it is the default or was added.
    pub offered: bool,
    /// `true` if the runtime has a recipe for preparation. A provider component can embed only such a runtime
    /// ([`Engine::prepared_module`]).
    pub portable: bool,
    /// `true` if the runtime has the data library, a file separate from the interpreter. Such a runtime takes minutes
    /// to prepare, and its provider component is about 200 MB in size.
    pub has_library: bool,
    /// The version of the interpreter.
    pub version: String,
    /// The expected SHA-256 of the binary in hexadecimal.
    pub sha256: String,
    /// The size of the binary and of its separate library, if it has one, in bytes.
    pub size_bytes: u64,
    /// The licence, as an SPDX expression.
    pub licence: String,
    /// The source of the binary: the project and the build.
    pub origin: String,
    /// The path of the binary, even if the binary has not been fetched yet.
    pub path: PathBuf,
    /// `true` if the binary is in the cache.
    pub fetched: bool,
    /// `true` if the prepared image and all its code are in the cache, for this version of Glovebox and this CPU.
    pub prepared: bool,
    /// `true` if the engine's bundles contain the binary, or the prepared image for any version and CPU.
    pub bundled: bool,
}

impl RuntimeInfo {
    /// Returns `true` if `name` is the runtime's name or one of its aliases.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// A tool in the manifest and its state in the cache. Tools process scripts before the interpreter runs them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ToolInfo {
    /// The name of the tool.
    pub name: String,
    /// The version of the tool.
    pub version: String,
    /// The expected SHA-256 of the module in hexadecimal.
    pub sha256: String,
    /// The size of the module in bytes.
    pub size_bytes: u64,
    /// The licence, as an SPDX expression.
    pub licence: String,
    /// The source of the module: the project and the build.
    pub origin: String,
    /// The path of the module, even if the module has not been fetched yet.
    pub path: PathBuf,
    /// `true` if the module is in the cache.
    pub fetched: bool,
    /// `true` if the compiled code is in the cache, for this version of Glovebox and this CPU.
    pub prepared: bool,
    /// `true` if the engine's bundles contain the module, or its compiled code for any version and CPU.
    pub bundled: bool,
}

/// A prepared image, or the compiled code of a tool.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PreparedInfo {
    /// The identity of the image: the SHA-256 of the prepared module. For a tool, the SHA-256 of its module.
    pub image_sha256: String,
    /// The path of the compiled file.
    pub path: PathBuf,
    /// The size of an instance's linear memory, in bytes. 0 for a tool.
    pub memory_bytes: u64,
    /// The duration of the preparation. Close to zero if the image or tool was already prepared.
    #[serde(skip)]
    pub took: Duration,
}

impl EngineInner {
    /// Prepares a runtime, unless it is already prepared.
    pub(crate) fn prepare(&self, found: &FoundRuntime<'_>) -> Result<PreparedInfo, RuntimeError> {
        time_preparation(|| self.artefact(found))
    }
}

/// Returns `true` if `word` occurs in `source` as a whole word.
fn contains_word(source: &str, word: &str) -> bool {
    let is_part = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    source.match_indices(word).any(|(at, _)| {
        let (before, after) = (source.get(..at), source.get(at.saturating_add(word.len())..));
        !is_part(before.and_then(|text| text.chars().next_back()))
            && !is_part(after.and_then(|text| text.chars().next()))
    })
}

/// Runs `prepare` and measures its duration.
fn time_preparation(prepare: impl FnOnce() -> Result<Artefact, RuntimeError>) -> Result<PreparedInfo, RuntimeError> {
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
    /// Returns the runtimes in the manifest.
    ///
    /// # Errors
    /// Never fails in this version.
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
            // A damaged or untrusted file is reported as missing, so that it can be listed and removed. Executions and
            // `verify` report the reason.
            fetched: self.0.runtimes.present(entry).unwrap_or(false),
            prepared: self.0.is_prepared(&entry.into()).unwrap_or(false),
            bundled: self.0.runtimes.is_bundled(entry),
        }
    }

    /// Returns the tools in the manifest. [`fetch`](Self::fetch), [`prepare`](Self::prepare), [`verify`](Self::verify)
    /// and [`remove`](Self::remove) accept tool names too.
    ///
    /// # Errors
    /// Never fails in this version.
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
            // A damaged or untrusted file is reported as missing, as for runtimes.
            fetched: self.0.runtimes.tool_present(tool).unwrap_or(false),
            prepared: self.0.is_tool_prepared(tool).unwrap_or(false),
            bundled: self.0.runtimes.is_tool_bundled(tool),
        }
    }

    /// Fetches the files of a runtime or tool if they are missing, and returns the path of the binary.
    ///
    /// # Errors
    /// Fails if the name is unknown, or if a file cannot be fetched.
    pub fn fetch(&self, name: &str) -> Result<PathBuf, RuntimeError> {
        if let Some(tool) = self.0.runtimes.manifest().tool(name) {
            self.0.runtimes.fetch_tool(tool, &*self.0.progress)?;
            return Ok(self.0.runtimes.tool_path(tool));
        }
        let entry = self.0.find(name)?.entry;
        self.0.runtimes.fetch(&entry, &*self.0.progress)?;
        Ok(self.0.runtimes.path(&entry))
    }

    /// Writes the binaries of the named runtimes and tools, and the wheels of the packages, to one zip file. Missing
    /// files are fetched first. Returns the size of the zip file in bytes.
    ///
    /// An engine with this file as its [`EngineConfig::bundles`](crate::EngineConfig::bundles) needs no network for these
    /// files. Equal contents produce equal bytes.
    ///
    /// # Errors
    /// Fails if a name is unknown, if a file cannot be fetched or is damaged, or if the zip file cannot be written.
    pub fn write_bundle(&self, names: &[&str], with_packages: bool, path: &Path) -> Result<u64, RuntimeError> {
        let manifest = self.0.runtimes.manifest();
        let (mut runtimes, mut tools) = (Vec::new(), Vec::new());
        for name in names {
            match manifest.tool(name) {
                Some(tool) => tools.push(tool.clone()),
                None => runtimes.push(manifest.find(name)?.clone()),
            }
        }
        Ok(self.0.runtimes.write_bundle(&runtimes, &tools, with_packages, path, &*self.0.progress)?)
    }

    /// Writes a zip file of prepared images and compiled code, for [`EngineConfig::prepared`](crate::EngineConfig::prepared) on
    /// machines with the same architecture. Prepares runtimes and tools that are missing from the cache. Returns the
    /// file's size in bytes.
    ///
    /// For a runtime, the file contains the code that every script needs. For an image with a setup, such as
    /// `python-3.15-data`, it contains all code. Entries of the prepared bundle `without` are omitted.
    ///
    /// # Errors
    /// Fails if a name is unknown, if a runtime cannot be prepared, or if a file cannot be read or written.
    pub fn write_prepared(&self, names: &[&str], without: Option<&Path>, path: &Path) -> Result<u64, RuntimeError> {
        let mut artefacts = Vec::new();
        for name in names {
            match self.0.runtimes.manifest().tool(name) {
                Some(tool) => {
                    artefacts.push((CacheKind::Images, self.0.tool_key(tool), self.0.tool_artefact(tool)?));
                }
                None => artefacts.extend(self.0.artefacts(&self.0.find(name)?)?),
            }
        }
        Ok(self.0.runtimes.write_prepared(artefacts, without, path)?)
    }

    /// Returns the name of the runtime on which a script with this source starts fastest. Usually, this is the default
    /// runtime of the language. If the default is an image that preloads modules, and the source mentions none of them,
    /// the result is the runtime on which the image is based.
    ///
    /// The command-line tool calls this function for individual scripts. Sandboxes and sessions use the default of
    /// their language, because they are created before the source is known.
    ///
    /// # Errors
    /// Fails if the default runtime is unknown, or if the cache cannot be read.
    pub fn runtime_for(&self, language: Language, source: &str) -> Result<String, RuntimeError> {
        let name = self.0.preferred(language)?;
        let entry = self.0.find(name)?.entry;
        let image = entry.image.as_ref().filter(|image| !image.modules.is_empty());
        let base = image.filter(|image| !image.modules.iter().any(|module| contains_word(source, module)));
        Ok(base.map_or(name, |image| &image.runtime).to_owned())
    }

    /// Prepares a runtime or tool, unless it is already prepared. Fetches a missing binary first.
    ///
    /// # Errors
    /// Fails if the name is unknown, or if the runtime cannot be fetched, booted or compiled.
    pub fn prepare(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        match self.0.runtimes.manifest().tool(name) {
            Some(tool) => time_preparation(|| self.0.tool_artefact(tool)),
            None => self.0.prepare(&self.0.find(name)?),
        }
    }

    /// Like [`prepare`](Self::prepare), but compiles code without fuel metering, for sandboxes whose policy sets
    /// [`Metering::None`].
    ///
    /// # Errors
    /// Fails like [`prepare`](Self::prepare).
    pub fn prepare_unmetered(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        self.unmetered(name)?.prepare(name)
    }

    fn unmetered(&self, name: &str) -> Result<Self, RuntimeError> {
        let wrong = |error| RuntimeError::Load { name: name.to_owned(), reason: format!("{error}") };
        self.with_metering(Metering::None).map_err(wrong)
    }

    /// Compares the full digests of a runtime's or tool's binary and compiled code with the pinned or recorded digests.
    /// Missing files are skipped.
    ///
    /// # Errors
    /// Fails if the name is unknown, if a file cannot be read, or if a digest differs.
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
        self.0.runtimes.verify_present(&found.entry)?;
        self.0.verify_prepared(&found)?;
        self.unmetered(name)?.0.verify_prepared(&found)?;
        Ok(())
    }

    /// Removes the binary of a runtime or tool, and everything prepared from it, from the cache. Returns the number of
    /// bytes freed.
    ///
    /// For an image that belongs to another runtime and for a custom image, only the prepared image is removed. Running
    /// sandboxes are not affected.
    ///
    /// # Errors
    /// Fails if the name is unknown, or if a file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<u64, RuntimeError> {
        if let Some(tool) = self.0.runtimes.manifest().tool(name) {
            let freed = self.0.runtimes.prepared().remove(&tool.sha256)?;
            let was_there = self.0.runtimes.remove_tool(tool)?;
            return Ok(freed + if was_there { tool.size_bytes } else { 0 });
        }
        let runtimes = &self.0.runtimes;
        let found = self.0.find(name)?;
        if found.own.is_some() {
            // The definition of the image remains, so the image is built again at its next use.
            return Ok(runtimes.prepared().remove_labelled(&found.entry.label())?);
        }
        let entry = runtimes.manifest().find(name)?;
        runtimes.withdraw(entry)?;
        if entry.image.is_some() {
            // The binary and its compiled code belong to another runtime.
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

    /// Prepares a runtime and makes it the default for its language, which applies if a caller does not specify a
    /// runtime. The new default applies to all engines that use this cache and are created later. If several runtimes
    /// of a language were added, the last one in the order of [`runtimes`](Self::runtimes) is the default.
    /// [`remove`](Self::remove) reverts the change.
    ///
    /// # Errors
    /// Fails if the name is not in the manifest, if the preparation fails, or if the cache cannot be written.
    pub fn add_runtime(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        let prepared = self.prepare(name)?;
        self.0.runtimes.add(entry)?;
        Ok(prepared)
    }

    /// Removes all compiled code from the cache, including the code of binaries that were run by path and of
    /// components. Returns the number of bytes freed. Running sandboxes and components are not affected.
    ///
    /// # Errors
    /// Fails if the cache cannot be read or changed.
    pub fn clear_prepared(&self) -> Result<u64, RuntimeError> {
        let runtimes = &self.0.runtimes;
        let stores = [runtimes.prepared(), runtimes.modules(), runtimes.code(), runtimes.components()];
        stores.iter().try_fold(0u64, |freed, store| Ok(freed.saturating_add(store.clear()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::contains_word;

    #[test]
    fn only_whole_words_name_a_module() {
        for source in
            ["import numpy", "from numpy.linalg import solve", "x = numpy", "(numpy)", "'numpy'", "a;numpy as np"]
        {
            assert!(contains_word(source, "numpy"), "{source}");
        }
        for source in ["", "num", "numpys", "_numpy", "numpy_like", "numpy2", "énumpy", "numpyé"] {
            assert!(!contains_word(source, "numpy"), "{source}");
        }
    }
}
