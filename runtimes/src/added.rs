//! Runtimes that the user has added, so that scripts in their language use them.

use crate::trusted::TrustedDir;
use crate::{CacheError, Language, RuntimeEntry, RuntimeError, Runtimes};

/// Cache directory with an empty file for each added runtime, by name.
const DIRECTORY: &str = "added";

impl Runtimes {
    /// Marks a runtime as added.
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub fn add(&self, entry: &RuntimeEntry) -> Result<(), RuntimeError> {
        Ok(self.marks()?.create()?.persist(&entry.name).map(drop)?)
    }

    /// Removes the mark. Returns `false` if the runtime was not added.
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub fn withdraw(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        Ok(self.marks()?.remove(&entry.name)?)
    }

    /// Returns `true` if the runtime was added.
    ///
    /// # Errors
    /// If the cache cannot be read.
    pub fn is_added(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        Ok(self.marks()?.open_file(&entry.name)?.is_some())
    }

    /// Returns the runtime for scripts in a language: the last added one in the manifest's order, or else the
    /// manifest's default. If a bundle without the default is configured, the fallback is the last runtime in the
    /// bundle.
    ///
    /// # Errors
    /// If the cache cannot be read.
    pub fn preferred(&self, language: Language) -> Result<Option<&RuntimeEntry>, RuntimeError> {
        let of_language = || self.manifest().runtimes().iter().rev().filter(|entry| entry.language == language);
        let marks = self.marks()?;
        for entry in of_language() {
            if marks.open_file(&entry.name)?.is_some() {
                return Ok(Some(entry));
            }
        }
        let default = self.manifest().default_for(language);
        let (Some(entry), Some(bundle)) = (default, self.fetcher().bundle()) else { return Ok(default) };
        if bundle.has(&entry.files()) {
            return Ok(default);
        }
        Ok(of_language().find(|entry| bundle.has(&entry.files())).or(default))
    }

    fn marks(&self) -> Result<TrustedDir, CacheError> {
        self.cache().subdir(DIRECTORY)
    }
}
