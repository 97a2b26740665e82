//! Downloads, verifies and reads the pinned binaries in the cache. Also records the runtimes that the user has added.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{
    CacheDir, CacheError, CacheKind, Digest, Fetcher, Language, Manifest, PackageList, PreparedStore, Progress, Recipe,
    RuntimeEntry, RuntimeError, ToolEntry,
    entries::PinnedContent,
    fetch::{DoneOnDrop, FatalFetchError},
    manifest::MAX_BINARY_BYTES,
    prepared_bundle::PreparedBundle,
    trusted_dir::TrustedDir,
};

/// The result of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchOutcome {
    /// All files were already present, so the network was not used.
    AlreadyThere,
    /// Files were downloaded and verified.
    Now,
}

/// An interpreter's binary and its metadata.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The contents of the file.
    pub bytes: Vec<u8>,
    /// The digest of `bytes`, computed independently of the manifest.
    pub sha256: Digest,
    /// The path of the file.
    pub path: PathBuf,
    /// The manifest entry with this digest, if it exists.
    pub entry: Option<RuntimeEntry>,
    /// The recipe for preparing the binary. A binary without a recipe runs as a plain command.
    pub recipe: Option<Recipe>,
}

/// The pinned runtimes and their cache.
#[derive(Debug)]
pub struct Runtimes {
    manifest: Manifest,
    cache: CacheDir,
    pub(crate) fetcher: Fetcher,
    pub(crate) packages: PackageList,
    pub(crate) prepared_bundles: Vec<PreparedBundle>,
}

impl Runtimes {
    /// Creates the collection of the manifest's runtimes in `cache`, without packages. Does not read or download any
    /// files.
    pub fn new(manifest: Manifest, cache: CacheDir) -> Self {
        Self {
            manifest,
            cache,
            fetcher: Fetcher::default(),
            packages: PackageList::default(),
            prepared_bundles: Vec::new(),
        }
    }

    /// Sets the list of packages.
    pub fn with_packages(mut self, packages: PackageList) -> Self {
        self.packages = packages;
        self
    }

    /// Sets the downloader. The default downloader runs pip and npm from the environment.
    pub fn with_fetcher(mut self, fetcher: Fetcher) -> Self {
        self.fetcher = fetcher;
        self
    }

    /// Sets the [prepared bundles](Runtimes::write_prepared), which are searched in order before anything is compiled
    /// or booted. This process runs the native code in the bundles, so they must be as trustworthy as this program.
    pub fn with_prepared(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.prepared_bundles = paths.into_iter().map(PreparedBundle).collect();
        self
    }

    /// Returns `true` if [`with_prepared`](Self::with_prepared) has set prepared bundles.
    pub fn has_prepared_bundles(&self) -> bool {
        !self.prepared_bundles.is_empty()
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the cache.
    pub fn cache(&self) -> &CacheDir {
        &self.cache
    }

    /// Returns the prepared images in the cache.
    pub fn prepared(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Images)
    }

    /// Returns the runtimes' compiled code in the cache.
    pub fn code(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Code)
    }

    /// Returns the prepared WebAssembly modules in the cache, which are stored on request.
    pub fn modules(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Modules)
    }

    /// Returns the compiled components in the cache. Components belong to the user and are separate from the images.
    pub fn components(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Components)
    }

    /// Returns the compiled code of one kind in the cache.
    pub fn compiled(&self, kind: CacheKind) -> PreparedStore<'_> {
        PreparedStore::new(&self.cache, kind, &self.prepared_bundles)
    }

    /// Returns the path of a runtime's binary, which might not exist yet.
    pub fn path(&self, entry: &RuntimeEntry) -> PathBuf {
        self.cache.path().join("binaries").join(entry.file_name())
    }

    /// Returns `false` if one of a runtime's files is missing. Does not hash the files.
    ///
    /// # Errors
    /// Fails if an existing file is not trusted or has the wrong length.
    pub fn present(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        self.are_present(&self.binaries()?, entry, &entry.files())
    }

    fn are_present(
        &self,
        binaries: &TrustedDir,
        entry: &RuntimeEntry,
        files: &[PinnedContent],
    ) -> Result<bool, RuntimeError> {
        for pinned in files {
            if self.open(binaries, &entry.name, pinned)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Opens a runtime's library, and downloads it if it is missing. Returns `None` if the runtime has no library. Does
    /// not hash the file.
    ///
    /// # Errors
    /// Fails like [`fetch`](Self::fetch). [`RuntimeError::Corrupt`] if the file does not have its pinned length.
    pub fn library(&self, entry: &RuntimeEntry, progress: &dyn Progress) -> Result<Option<File>, RuntimeError> {
        let Some(pinned) = entry.library() else { return Ok(None) };
        self.fetch_files(entry, std::slice::from_ref(&pinned), progress)?;
        self.open(&self.binaries()?, &entry.name, &pinned)
    }

    /// Downloads a runtime's files if they are missing. Does not use the network otherwise.
    ///
    /// If several processes call this method concurrently, one downloads the files and the others wait.
    ///
    /// # Errors
    /// [`RuntimeError::Unavailable`] if all sources fail. [`RuntimeError::Cancelled`] if `progress` is cancelled. Also
    /// fails if the cache cannot be used.
    pub fn fetch(&self, entry: &RuntimeEntry, progress: &dyn Progress) -> Result<FetchOutcome, RuntimeError> {
        self.fetch_files(entry, &entry.files(), progress)
    }

    /// Fetches these files of a runtime if one of them is missing. A download fetches all files of the runtime.
    fn fetch_files(
        &self,
        entry: &RuntimeEntry,
        files: &[PinnedContent],
        progress: &dyn Progress,
    ) -> Result<FetchOutcome, RuntimeError> {
        let binaries = self.binaries()?;
        if self.are_present(&binaries, entry, files)? {
            return Ok(FetchOutcome::AlreadyThere);
        }
        let _done = DoneOnDrop(progress);
        let lock = self.cache.lock(&entry.file_name(), progress);
        let _lock = lock.map_err(|error| FatalFetchError::from(error).fetching(&entry.name))?;
        if self.are_present(&binaries, entry, files)? {
            return Ok(FetchOutcome::AlreadyThere);
        }
        binaries.remove_leftovers()?;
        self.fetcher.fetch(entry, files, &binaries, progress)?;
        tracing::info!(runtime = %entry.name, version = %entry.version, "fetched and verified");
        Ok(FetchOutcome::Now)
    }

    /// Reads a downloaded runtime and verifies its digest. Rejects a damaged or replaced file.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if the runtime has not been downloaded. [`RuntimeError::Corrupt`] if its length or
    /// digest differs. [`RuntimeError::Read`] if the file cannot be read.
    pub fn load(&self, entry: &RuntimeEntry) -> Result<Binary, RuntimeError> {
        let path = self.path(entry);
        let missing = || RuntimeError::Missing { name: entry.name.clone(), path: path.clone() };
        let bytes = self.read_pinned(&entry.name, &entry.binary())?.ok_or_else(missing)?;
        let recipe = self.recipe_of(entry)?;
        Ok(Binary { bytes, sha256: entry.sha256, path, entry: Some(entry.clone()), recipe: Some(recipe) })
    }

    /// Downloads a runtime's files with [`Self::fetch`], and reads its binary with [`Self::load`].
    ///
    /// # Errors
    /// Fails like [`Self::fetch`] and [`Self::load`].
    pub fn load_or_fetch(&self, entry: &RuntimeEntry, progress: &dyn Progress) -> Result<Binary, RuntimeError> {
        self.fetch(entry, progress)?;
        self.load(entry)
    }

    /// Reads a binary that is not in the cache. A binary with a pinned digest receives the pinned runtime's recipe.
    ///
    /// # Errors
    /// [`RuntimeError::NoSuchFile`] if the file does not exist. [`RuntimeError::NotABinary`] if it is not a regular
    /// file, is too large, or does not begin with a WebAssembly header.
    pub fn load_custom(&self, path: &Path) -> Result<Binary, RuntimeError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RuntimeError::NoSuchFile { path: path.to_owned() },
            _ => RuntimeError::Read { path: path.to_owned(), source },
        };
        let not = |problem: &str| RuntimeError::NotABinary { path: path.to_owned(), problem: problem.to_owned() };
        // Check the type before opening the file, because opening a FIFO would block.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(not("it is not a regular file"));
        }
        let mut file = File::open(path).map_err(failed)?;
        let bytes = read_at_most(&mut file, MAX_BINARY_BYTES).map_err(failed)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BINARY_BYTES {
            return Err(not(&format!("it is larger than {MAX_BINARY_BYTES} bytes")));
        }
        if !bytes.starts_with(b"\0asm") {
            return Err(not("it is not a WebAssembly binary (bad magic number)"));
        }
        let sha256 = Digest::of(&bytes);
        let entry = self.manifest.by_digest(&sha256).cloned();
        let recipe = entry.as_ref().map(|entry| self.recipe_of(entry)).transpose()?;
        Ok(Binary { bytes, sha256, path: path.to_owned(), entry, recipe })
    }

    /// Hashes a downloaded runtime's files and compares the digests with their pins. Does not load the files into
    /// memory.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if a file is missing. [`RuntimeError::Corrupt`] if a length or a digest differs.
    pub fn verify(&self, entry: &RuntimeEntry) -> Result<(), RuntimeError> {
        let binaries = self.binaries()?;
        for pinned in &entry.files() {
            if !self.verify_file(&binaries, &entry.name, pinned)? {
                let path = binaries.path_of(&pinned.file_name);
                return Err(RuntimeError::Missing { name: entry.name.clone(), path });
            }
        }
        Ok(())
    }

    /// Like [`verify`](Self::verify), but skips missing files.
    ///
    /// # Errors
    /// [`RuntimeError::Corrupt`] if a length or a digest differs.
    pub fn verify_present(&self, entry: &RuntimeEntry) -> Result<(), RuntimeError> {
        let binaries = self.binaries()?;
        entry.files().iter().try_for_each(|pinned| self.verify_file(&binaries, &entry.name, pinned).map(drop))
    }

    /// Compares a file's digest with its pin. Returns `false` if the file is missing.
    fn verify_file(&self, binaries: &TrustedDir, name: &str, pinned: &PinnedContent) -> Result<bool, RuntimeError> {
        let Some(mut file) = self.open(binaries, name, pinned)? else { return Ok(false) };
        let (sha256, _) = Digest::of_reader(&mut Read::by_ref(&mut file).take(pinned.size_bytes.saturating_add(1)))
            .map_err(|source| RuntimeError::Read { path: binaries.path_of(&pinned.file_name), source })?;
        if sha256 != pinned.sha256 { Err(self.corrupt(name, pinned, sha256)) } else { Ok(true) }
    }

    /// Removes a downloaded runtime's files, but not its prepared images. Returns the number of freed bytes.
    ///
    /// # Errors
    /// Fails if a file cannot be removed.
    pub fn remove(&self, entry: &RuntimeEntry) -> Result<u64, RuntimeError> {
        let binaries = self.binaries()?;
        let mut freed = 0u64;
        for pinned in entry.files() {
            if binaries.remove(&pinned.file_name)? {
                freed = freed.saturating_add(pinned.size_bytes);
            }
        }
        Ok(freed)
    }

    pub(crate) fn binaries(&self) -> Result<TrustedDir, CacheError> {
        self.cache.subdir("binaries")
    }

    /// Returns a manifest entry's recipe.
    ///
    /// # Errors
    /// [`RuntimeError::NoRecipe`] if the manifest does not contain the recipe that the entry specifies.
    pub fn recipe_of(&self, entry: &RuntimeEntry) -> Result<Recipe, RuntimeError> {
        self.manifest
            .recipe(&entry.recipe)
            .cloned()
            .ok_or_else(|| RuntimeError::NoRecipe { name: entry.name.clone(), recipe: entry.recipe.clone() })
    }

    pub(crate) fn open(
        &self,
        binaries: &TrustedDir,
        name: &str,
        pinned: &PinnedContent,
    ) -> Result<Option<File>, RuntimeError> {
        let Some((file, bytes)) = binaries.open_file(&pinned.file_name)? else {
            return Ok(None);
        };
        if bytes != pinned.size_bytes {
            return Err(RuntimeError::Corrupt {
                name: name.to_owned(),
                path: binaries.path_of(&pinned.file_name),
                expected: format!("{} bytes", pinned.size_bytes),
                got: format!("{bytes} bytes"),
            });
        }
        Ok(Some(file))
    }

    /// Reads a file and verifies its digest. Returns `None` if the file is missing.
    pub(crate) fn read_pinned(&self, name: &str, pinned: &PinnedContent) -> Result<Option<Vec<u8>>, RuntimeError> {
        let binaries = self.binaries()?;
        let Some(mut file) = self.open(&binaries, name, pinned)? else { return Ok(None) };
        let bytes = read_at_most(&mut file, pinned.size_bytes)
            .map_err(|source| RuntimeError::Read { path: binaries.path_of(&pinned.file_name), source })?;
        let sha256 = Digest::of(&bytes);
        if sha256 != pinned.sha256 { Err(self.corrupt(name, pinned, sha256)) } else { Ok(Some(bytes)) }
    }

    fn corrupt(&self, name: &str, pinned: &PinnedContent, sha256: Digest) -> RuntimeError {
        RuntimeError::Corrupt {
            name: name.to_owned(),
            path: self.cache.path().join("binaries").join(&pinned.file_name),
            expected: format!("sha256 {}", pinned.sha256),
            got: format!("sha256 {sha256}"),
        }
    }
}

/// Reads at most `limit_bytes` + 1 bytes of a file, so that the caller can detect a longer file.
fn read_at_most(file: &mut File, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let expected = file.metadata()?.len().min(limit_bytes);
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The cache directory for the added runtimes. The directory contains an empty file for each added runtime, named
/// after the runtime.
const DIRECTORY: &str = "added";

impl Runtimes {
    /// Marks a runtime as added.
    ///
    /// # Errors
    /// Fails if the cache cannot be written.
    pub fn add(&self, entry: &RuntimeEntry) -> Result<(), RuntimeError> {
        Ok(self.marks()?.create()?.persist(&entry.name).map(drop)?)
    }

    /// Removes the mark that [`add`](Self::add) created. Returns `false` if the runtime was not marked.
    ///
    /// # Errors
    /// Fails if the cache cannot be written.
    pub fn withdraw(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        Ok(self.marks()?.remove(&entry.name)?)
    }

    /// Returns `true` if the runtime was added.
    ///
    /// # Errors
    /// Fails if the cache cannot be read.
    pub fn is_added(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        Ok(self.marks()?.open_file(&entry.name)?.is_some())
    }

    /// Returns the preferred runtime for a language, which is the first existing runtime in this list:
    ///
    /// 1. The added runtime that is last in the manifest.
    /// 2. A runtime whose image is in a prepared bundle.
    /// 3. A runtime whose files are in a bundle.
    /// 4. The manifest's default.
    ///
    /// If several runtimes are in bundles, the default takes precedence, and then the last runtime in the manifest.
    ///
    /// # Errors
    /// Fails if the cache cannot be read.
    pub fn preferred(&self, language: Language) -> Result<Option<&RuntimeEntry>, RuntimeError> {
        let of_language = || self.manifest().runtimes().iter().rev().filter(|entry| entry.language == language);
        let marks = self.marks()?;
        for entry in of_language() {
            if marks.open_file(&entry.name)?.is_some() {
                return Ok(Some(entry));
            }
        }
        let default = self.manifest().default_for(language);
        let candidates = || default.into_iter().chain(of_language());
        let prepared = candidates().find(|entry| self.has_prepared(&entry.label()));
        let bundled = || candidates().find(|entry| self.fetcher.has_bundled(&entry.files()));
        Ok(prepared.or_else(bundled).or(default))
    }

    /// Returns `true` if a prepared bundle contains the runtime's image, or another bundle contains its files.
    pub fn is_bundled(&self, entry: &RuntimeEntry) -> bool {
        self.has_prepared(&entry.label()) || self.fetcher.has_bundled(&entry.files())
    }

    /// Returns `true` if a prepared bundle contains the tool's code, or another bundle contains its module.
    pub fn is_tool_bundled(&self, tool: &ToolEntry) -> bool {
        self.has_prepared(&tool.label()) || self.fetcher.has_bundled(&[tool.module()])
    }

    fn has_prepared(&self, label: &str) -> bool {
        self.prepared_bundles.iter().any(|bundle| bundle.has_image(label))
    }

    fn marks(&self) -> Result<TrustedDir, CacheError> {
        self.cache().subdir(DIRECTORY)
    }
}
