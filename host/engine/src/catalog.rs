//! The runtimes an engine knows: listing, fetching, preparing, checking and removing them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use glovebox_runtimes::{Artefact, RuntimeEntry, ToolEntry};
use serde::Serialize;

use crate::{
    Engine, Language, Metering, RuntimeError,
    engine::Inner,
    load::{Found, language},
};

/// A runtime of the manifest and its state in the cache.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RuntimeInfo {
    /// Its name.
    pub name: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// Its language.
    pub language: Language,
    /// Whether its language's scripts run on it if no runtime is named:
    /// [`EngineConfig::default_runtimes`](crate::EngineConfig::default_runtimes) names it, or else of those that were
    /// [added](Engine::add_runtime) it is the last in this list, or none was and it is the manifest's default.
    pub default: bool,
    /// Whether it was added.
    pub added: bool,
    /// Whether components may name it: those that take minutes to fetch and compile only if they are the default or were added.
    pub offered: bool,
    /// Whether a provider component can hold it ([`Engine::prepared_module`]): where its recipe says how it is prepared.
    pub portable: bool,
    /// Whether it has the library for data, a file of its own beside the interpreter: it takes minutes to prepare, and a provider
    /// component of it has some 200 MB.
    pub has_library: bool,
    /// The interpreter's version.
    pub version: String,
    /// The SHA-256 its binary must have, in hexadecimal.
    pub sha256: String,
    /// The size of its binary, and of its library where that is a file of its own.
    pub size_bytes: u64,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// Where it comes from.
    pub origin: String,
    /// Where its binary is, or goes when it is fetched.
    pub path: PathBuf,
    /// Whether the binary is there.
    pub fetched: bool,
    /// Whether its prepared image is there, for this version of Glovebox and this CPU.
    pub prepared: bool,
}

impl RuntimeInfo {
    /// Whether this is its name, or another name for it.
    #[must_use]
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || self.aliases.iter().any(|alias| alias == name)
    }
}

/// A tool of the manifest and its state in the cache: it processes a script before the interpreter runs it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SHA-256 its module must have, in hexadecimal.
    pub sha256: String,
    /// The size of its module.
    pub size_bytes: u64,
    /// Its licence, as an SPDX expression.
    pub licence: String,
    /// Where it comes from.
    pub origin: String,
    /// Where its module is, or goes when it is fetched.
    pub path: PathBuf,
    /// Whether the module is there.
    pub fetched: bool,
    /// Whether its compiled code is there, for this version of Glovebox and this CPU.
    pub prepared: bool,
}

/// A prepared image.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PreparedInfo {
    /// The image's identity: the SHA-256 of the prepared module.
    pub image_sha256: String,
    /// The compiled file.
    pub path: PathBuf,
    /// The linear memory of an instance.
    pub memory_bytes: u64,
    /// How long preparing took; close to zero if it was prepared already.
    #[serde(skip)]
    pub took: Duration,
}

impl Inner {
    /// Prepares a runtime, unless it is prepared already.
    pub(crate) fn prepare(&self, found: &Found<'_>) -> Result<PreparedInfo, RuntimeError> {
        prepared(|| self.artefact(found))
    }
}

/// The result of preparing something.
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
    /// The runtimes of the manifest.
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
            // A damaged or untrusted file counts as missing, so that it can be listed and removed.
            // Running it, and `verify`, report what is wrong with it.
            fetched: self.0.runtimes.present(entry).unwrap_or(false),
            prepared: self.0.is_prepared(&entry.into()).unwrap_or(false),
        }
    }

    /// The tools of the manifest. [`fetch`](Self::fetch), [`prepare`](Self::prepare), [`verify`](Self::verify) and
    /// [`remove`](Self::remove) take their names as well.
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
            // As with runtimes.
            fetched: self.0.runtimes.tool_present(tool).unwrap_or(false),
            prepared: self.0.is_tool_prepared(tool).unwrap_or(false),
        }
    }

    /// Fetches a runtime's binary if it is missing, and returns its path.
    pub fn fetch(&self, name: &str) -> Result<PathBuf, RuntimeError> {
        if let Some(tool) = self.0.runtimes.manifest().tool(name) {
            self.0.runtimes.fetch_tool(tool, &*self.0.progress)?;
            return Ok(self.0.runtimes.tool_path(tool));
        }
        let entry = self.0.find(name)?.entry;
        self.0.runtimes.fetch(&entry, &*self.0.progress)?;
        Ok(self.0.runtimes.path(&entry))
    }

    /// Writes the binaries of these runtimes and tools, and the wheels of the packages, to one zip file, fetching what is missing. An
    /// engine with that file as its [`EngineConfig::bundle`](crate::EngineConfig::bundle) needs no network for them. Returns its size in bytes.
    ///
    /// Equal files give equal bytes.
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

    /// Prepares a runtime, unless it is prepared already, and fetches it first if it is missing.
    pub fn prepare(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        match self.0.runtimes.manifest().tool(name) {
            Some(tool) => prepared(|| self.0.tool_artefact(tool)),
            None => self.0.prepare(&self.0.find(name)?),
        }
    }

    /// As [`prepare`](Self::prepare), with code that counts no fuel: what sandboxes use whose policy has [`Metering::None`].
    pub fn prepare_unmetered(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        self.unmetered(name)?.prepare(name)
    }

    fn unmetered(&self, name: &str) -> Result<Self, RuntimeError> {
        let wrong = |error| RuntimeError::Load { name: name.to_owned(), reason: format!("{error}") };
        self.with_metering(Metering::None).map_err(wrong)
    }

    /// Compares the full digests of a runtime's binary and of its compiled images, if present, with the expected ones.
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

    /// Removes a runtime's binary and all its prepared images from the cache; if it is an image of another runtime, or one of
    /// the user's own, only that image. Returns the number of bytes freed.
    /// Running sandboxes are not affected.
    pub fn remove(&self, name: &str) -> Result<u64, RuntimeError> {
        if let Some(tool) = self.0.runtimes.manifest().tool(name) {
            let freed = self.0.runtimes.prepared().remove(&tool.sha256)?;
            let was_there = self.0.runtimes.remove_tool(tool)?;
            return Ok(freed + if was_there { tool.size_bytes } else { 0 });
        }
        let runtimes = &self.0.runtimes;
        let found = self.0.find(name)?;
        if found.own.is_some() {
            // Its description stays: the image is built again when it is next used.
            return Ok(runtimes.prepared().remove_labelled(&found.entry.label())?);
        }
        let entry = runtimes.manifest().find(name)?;
        runtimes.withdraw(entry)?;
        if entry.image.is_some() {
            // Its binary and code are another runtime's.
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

    /// Prepares a runtime and makes it the one for its language's scripts, in every engine with this cache that is made from now on,
    /// wherever nobody names a runtime. Of several that were added it is the last that [`runtimes`](Self::runtimes) lists.
    /// [`remove`](Self::remove) takes it back.
    pub fn add_runtime(&self, name: &str) -> Result<PreparedInfo, RuntimeError> {
        let entry = self.0.runtimes.manifest().find(name)?;
        let prepared = self.prepare(name)?;
        self.0.runtimes.add(entry)?;
        Ok(prepared)
    }

    /// Removes every prepared image, including those of binaries that were run by path, and every compiled component. Returns the number of
    /// bytes freed. Running sandboxes and applications are not affected.
    pub fn clear_prepared(&self) -> Result<u64, RuntimeError> {
        let runtimes = &self.0.runtimes;
        let stores = [runtimes.prepared(), runtimes.modules(), runtimes.code(), runtimes.components()];
        stores.iter().try_fold(0u64, |freed, store| Ok(freed.saturating_add(store.clear()?)))
    }
}
