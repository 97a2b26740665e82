//! Which runtimes a user has added, so that their language's scripts run on them.

use crate::trusted::TrustedDir;
use crate::{CacheError, Language, RuntimeEntry, RuntimeError, Runtimes};

/// In the cache: an empty file for each, by its name.
const DIRECTORY: &str = "added";

impl Runtimes {
    /// Notes that a runtime was added.
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub fn add(&self, entry: &RuntimeEntry) -> Result<(), RuntimeError> {
        Ok(self.marks()?.create()?.persist(&entry.name).map(drop)?)
    }

    /// Forgets it; `false` if it was not added.
    ///
    /// # Errors
    /// If the cache cannot be written.
    pub fn withdraw(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        Ok(self.marks()?.remove(&entry.name)?)
    }

    /// Whether it was added.
    ///
    /// # Errors
    /// If the cache cannot be read.
    pub fn is_added(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        Ok(self.marks()?.open_file(&entry.name)?.is_some())
    }

    /// The runtime for scripts in a language: of those that were added the last in the manifest's order, or else the manifest's default.
    /// Where there is a bundle without the default, it is the last of those that the bundle has.
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
