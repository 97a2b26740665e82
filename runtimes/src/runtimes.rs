//! The pinned binaries in the cache: fetching once, verifying, reading.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::entries::Pinned;
use crate::manifest::MAX_BINARY_BYTES;
use crate::trusted::TrustedDir;
use crate::{
    CacheDir, CacheError, CacheKind, Digest, Fetcher, Manifest, PackageList, PreparedStore, Progress, Recipe,
    RuntimeEntry, RuntimeError,
};

/// The result of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The file was present; the network was not used.
    AlreadyThere,
    /// It has been fetched and verified.
    Now,
}

/// An interpreter's bytes, and what is known about it.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The file's content.
    pub bytes: Vec<u8>,
    /// Its digest, computed from `bytes`, whatever the manifest says.
    pub sha256: Digest,
    /// The path it was read from.
    pub path: PathBuf,
    /// The manifest's entry with this checksum, if there is one.
    pub entry: Option<RuntimeEntry>,
    /// Its recipe. Without one it runs as a plain command.
    pub recipe: Option<Recipe>,
}

/// The pinned runtimes and their cache.
#[derive(Debug)]
pub struct Runtimes {
    manifest: Manifest,
    cache: CacheDir,
    pub(crate) fetcher: Fetcher,
    pub(crate) packages: PackageList,
}

impl Runtimes {
    /// The manifest's runtimes, stored in `cache`, without packages. Nothing is read or fetched yet.
    pub fn new(manifest: Manifest, cache: CacheDir) -> Self {
        Self { manifest, cache, fetcher: Fetcher::default(), packages: PackageList::default() }
    }

    /// Adds these packages.
    pub fn with_packages(mut self, packages: PackageList) -> Self {
        self.packages = packages;
        self
    }

    /// Fetches with something other than the pip of the environment.
    pub fn with_fetcher(mut self, fetcher: Fetcher) -> Self {
        self.fetcher = fetcher;
        self
    }

    pub(crate) fn fetcher(&self) -> &Fetcher {
        &self.fetcher
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The cache.
    pub fn cache(&self) -> &CacheDir {
        &self.cache
    }

    /// The prepared images in the same cache.
    pub fn prepared(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Images)
    }

    /// The compiled code of runtimes in the same cache.
    pub fn code(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Code)
    }

    /// Prepared modules in the same cache, as WebAssembly: stored on request.
    pub fn modules(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Modules)
    }

    /// Compiled components in the same cache, separate from the images because they are the users' own.
    pub fn components(&self) -> PreparedStore<'_> {
        self.compiled(CacheKind::Components)
    }

    /// The compiled code of one kind in the same cache.
    pub fn compiled(&self, kind: CacheKind) -> PreparedStore<'_> {
        PreparedStore::new(&self.cache, kind)
    }

    /// The path of a runtime's file, fetched or not.
    pub fn path(&self, entry: &RuntimeEntry) -> PathBuf {
        self.cache.path().join("binaries").join(entry.file_name())
    }

    /// Whether a runtime's file is present, trusted and of the right length. It is not hashed.
    pub fn present(&self, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        self.is_present(&self.binaries()?, entry)
    }

    fn is_present(&self, binaries: &TrustedDir, entry: &RuntimeEntry) -> Result<bool, RuntimeError> {
        for pinned in entry.files() {
            if self.open(binaries, &entry.name, &pinned)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A runtime's library, fetched where it is missing; none where it needs none. It is not hashed.
    pub fn library(&self, entry: &RuntimeEntry, progress: &dyn Progress) -> Result<Option<File>, RuntimeError> {
        let Some(pinned) = entry.library() else { return Ok(None) };
        self.fetch(entry, progress)?;
        self.open(&self.binaries()?, &entry.name, &pinned)
    }

    /// Ensures that a runtime's file is present. Once it is, this never uses the network.
    ///
    /// If several processes call it at once, one fetches it and the others wait.
    pub fn fetch(&self, entry: &RuntimeEntry, progress: &dyn Progress) -> Result<Fetched, RuntimeError> {
        let binaries = self.binaries()?;
        if self.is_present(&binaries, entry)? {
            return Ok(Fetched::AlreadyThere);
        }
        let _lock = match self.cache.lock(&entry.file_name(), progress) {
            Err(CacheError::Cancelled { .. }) => {
                return Err(RuntimeError::Cancelled(entry.name.clone()));
            }
            other => other?,
        };
        if self.is_present(&binaries, entry)? {
            return Ok(Fetched::AlreadyThere);
        }
        binaries.remove_leftovers()?;
        self.fetcher.fetch(entry, &binaries, progress)?;
        tracing::info!(runtime = %entry.name, version = %entry.version, "fetched and verified");
        Ok(Fetched::Now)
    }

    /// Reads a fetched runtime and hashes it, so that a file that was damaged or replaced is refused.
    pub fn load(&self, entry: &RuntimeEntry) -> Result<Binary, RuntimeError> {
        let path = self.path(entry);
        let missing = || RuntimeError::Missing { name: entry.name.clone(), path: path.clone() };
        let pinned = entry.binary();
        let mut file = self.open(&self.binaries()?, &entry.name, &pinned)?.ok_or_else(missing)?;
        let bytes = read_at_most(&mut file, entry.size_bytes)
            .map_err(|source| RuntimeError::Read { path: path.clone(), source })?;
        let sha256 = Digest::of(&bytes);
        if sha256 != entry.sha256 {
            return Err(self.corrupt(&entry.name, &pinned, sha256));
        }
        let recipe = self.recipe_of(entry)?;
        Ok(Binary { bytes, sha256, path, entry: Some(entry.clone()), recipe: Some(recipe) })
    }

    /// [`Self::fetch`], then [`Self::load`].
    pub fn load_or_fetch(&self, entry: &RuntimeEntry, progress: &dyn Progress) -> Result<Binary, RuntimeError> {
        self.fetch(entry, progress)?;
        self.load(entry)
    }

    /// Reads any other binary. One with a pinned checksum gets the pinned one's recipe.
    pub fn load_custom(&self, path: &Path) -> Result<Binary, RuntimeError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => RuntimeError::NoSuchFile { path: path.to_owned() },
            _ => RuntimeError::Read { path: path.to_owned(), source },
        };
        let not = |problem: &str| RuntimeError::NotABinary { path: path.to_owned(), problem: problem.to_owned() };
        // A FIFO would block the open itself.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(not("it is not a regular file"));
        }
        let mut file = File::open(path).map_err(failed)?;
        let bytes = read_at_most(&mut file, MAX_BINARY_BYTES).map_err(failed)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BINARY_BYTES {
            return Err(not(&format!("it has more than {MAX_BINARY_BYTES} bytes")));
        }
        if !bytes.starts_with(b"\0asm") {
            return Err(not("it is not a WebAssembly binary (bad magic number)"));
        }
        let sha256 = Digest::of(&bytes);
        let entry = self.manifest.by_digest(&sha256).cloned();
        let recipe = entry.as_ref().map(|entry| self.recipe_of(entry)).transpose()?;
        Ok(Binary { bytes, sha256, path: path.to_owned(), entry, recipe })
    }

    /// Hashes a fetched runtime and compares it with its pin, without keeping it in memory.
    pub fn verify(&self, entry: &RuntimeEntry) -> Result<(), RuntimeError> {
        let binaries = self.binaries()?;
        for pinned in &entry.files() {
            let path = binaries.path_of(&pinned.file_name);
            let missing = || RuntimeError::Missing { name: entry.name.clone(), path: path.clone() };
            let mut file = self.open(&binaries, &entry.name, pinned)?.ok_or_else(missing)?;
            let (sha256, _) = Digest::of_reader(&mut Read::by_ref(&mut file).take(pinned.size_bytes.saturating_add(1)))
                .map_err(|source| RuntimeError::Read { path: path.clone(), source })?;
            if sha256 != pinned.sha256 {
                return Err(self.corrupt(&entry.name, pinned, sha256));
            }
        }
        Ok(())
    }

    /// Removes a fetched runtime's files and returns the bytes freed. Its prepared images stay.
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

    /// The recipe an entry names.
    pub fn recipe_of(&self, entry: &RuntimeEntry) -> Result<Recipe, RuntimeError> {
        self.manifest
            .recipe(&entry.recipe)
            .cloned()
            .ok_or_else(|| RuntimeError::NoRecipe { name: entry.name.clone(), recipe: entry.recipe.clone() })
    }

    fn open(&self, binaries: &TrustedDir, name: &str, pinned: &Pinned) -> Result<Option<File>, RuntimeError> {
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

    fn corrupt(&self, name: &str, pinned: &Pinned, sha256: Digest) -> RuntimeError {
        RuntimeError::Corrupt {
            name: name.to_owned(),
            path: self.cache.path().join("binaries").join(&pinned.file_name),
            expected: format!("sha256 {}", pinned.sha256),
            got: format!("sha256 {sha256}"),
        }
    }
}

/// Reads a file, at most one byte more than `limit_bytes`: enough to detect that it is longer.
pub(crate) fn read_at_most(file: &mut File, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let expected = file.metadata()?.len().min(limit_bytes);
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    file.take(limit_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
