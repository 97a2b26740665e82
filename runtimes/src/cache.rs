//! The cache directory: location, layout, trust rules, and locks between processes.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use directories::ProjectDirs;
use glovebox_vfs::escaped;
use serde::Serialize;

use crate::{
    Progress,
    guard::Guarded,
    seal::Seals,
    trusted::{FileLock, TrustedDir},
};

/// Directory of the locks, and suffix of their files.
const LOCKS: &str = "locks";
const LOCK_SUFFIX: &str = ".lock";

/// Interval at which a waiting process retries a lock and checks for cancellation.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The kinds of files in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CacheKind {
    /// Fetched binaries of interpreters and tools.
    Binaries,
    /// Wheels of the bundled packages.
    Packages,
    /// Compiled code of runtimes, shared by all images of a runtime.
    Code,
    /// Prepared images: the memory of booted runtimes.
    Images,
    /// Prepared modules, as WebAssembly.
    Modules,
    /// Compiled components.
    Components,
}

impl CacheKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Binaries, Self::Packages, Self::Code, Self::Images, Self::Modules, Self::Components];

    /// Kinds that can be rebuilt without the network. [`Runtimes::evict`](crate::Runtimes::evict) may remove them.
    pub const EVICTABLE: [Self; 4] = [Self::Code, Self::Images, Self::Modules, Self::Components];

    pub(crate) fn directory(self) -> &'static str {
        match self {
            Self::Binaries => "binaries",
            Self::Packages => "packages",
            Self::Code => "code",
            Self::Images => "prepared",
            Self::Modules => "modules",
            Self::Components => "components",
        }
    }
}

/// The directory for downloaded binaries and prepared images.
///
/// Code is loaded from it, so it must belong to the user and be writable by no other user. A new directory gets mode
/// 0700. Several threads and processes may use the cache at once.
#[derive(Debug)]
pub struct CacheDir {
    root: TrustedDir,
    /// Path of the root without links, which identifies files in seals.
    real_path: PathBuf,
    seals: Option<Seals>,
}

/// A lock between processes. It is released on drop and when the process ends.
#[derive(Debug)]
pub struct CacheLock(#[expect(dead_code, reason = "held for its end")] FileLock);

impl CacheDir {
    /// Returns the platform's cache directory: `$XDG_CACHE_HOME/glovebox` or `~/.cache/glovebox` on Linux.
    pub fn default_path() -> Result<PathBuf, CacheError> {
        let dirs = ProjectDirs::from("", "", "glovebox").ok_or(CacheError::NoHome)?;
        Ok(dirs.cache_dir().to_owned())
    }

    /// Opens or creates the cache at `path` and checks the trust rules.
    ///
    /// Seals of compiled files are stored in the user's data directory (`$XDG_DATA_HOME/glovebox/seals` or
    /// `~/.local/share/glovebox/seals` on Linux). If that is impossible, only owner, mode and length of compiled files
    /// are checked.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CacheError> {
        let mut cache = Self::unsealed(path.as_ref())?;
        if let Some(path) = Seals::default_path() {
            match Seals::open(&path) {
                Ok(seals) => cache.seals = Some(seals),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "compiled files are not sealed: the seals cannot be stored");
                }
            }
        }
        Ok(cache)
    }

    /// Like [`open`](Self::open), with the seals in another directory. Users who can write to the cache must not be
    /// able to write there.
    ///
    /// # Errors
    /// If either directory cannot be used.
    pub fn open_sealed(path: impl AsRef<Path>, seals: impl AsRef<Path>) -> Result<Self, CacheError> {
        let cache = Self::unsealed(path.as_ref())?;
        Ok(Self { seals: Some(Seals::open(seals.as_ref())?), ..cache })
    }

    fn unsealed(path: &Path) -> Result<Self, CacheError> {
        let root = TrustedDir::open(path, Guarded::Cache)?;
        let real_path = std::fs::canonicalize(path).map_err(|e| CacheError::io("find", path, e))?;
        Ok(Self { root, real_path, seals: None })
    }

    pub(crate) fn seals(&self) -> Option<&Seals> {
        self.seals.as_ref()
    }

    /// Returns the path of a subdirectory, without links.
    pub(crate) fn real_path_of(&self, name: &str) -> PathBuf {
        self.real_path.join(name)
    }

    /// Returns the path of the cache.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Takes the lock called `name` (letters, digits, `.`, `-`, `_`), and waits while another process holds it.
    ///
    /// Locks belong to open files, so two threads of one process exclude each other like two processes.
    pub fn lock(&self, name: &str, progress: &dyn Progress) -> Result<CacheLock, CacheError> {
        let locks = Arc::new(self.root.subdir(LOCKS)?);
        let name = lock_name(name);
        let mut told = false;
        loop {
            if let Some(lock) = FileLock::try_take(&locks, &name)? {
                return Ok(CacheLock(lock));
            }
            if progress.cancelled() {
                return Err(CacheError::Cancelled { path: locks.path_of(&name) });
            }
            if !told {
                progress.message("waiting for another process that is fetching or preparing the same");
                told = true;
            }
            std::thread::sleep(LOCK_POLL);
        }
    }

    /// Like [`lock`](Self::lock), but returns `None` if the lock is held.
    pub(crate) fn try_lock(&self, name: &str) -> Result<Option<CacheLock>, CacheError> {
        Ok(FileLock::try_take(&Arc::new(self.root.subdir(LOCKS)?), &lock_name(name))?.map(CacheLock))
    }

    /// Removes lock files that killed processes left.
    pub(crate) fn remove_stale_locks(&self) -> Result<(), CacheError> {
        let locks = Arc::new(self.root.subdir(LOCKS)?);
        for name in locks.names()?.iter().filter(|name| name.ends_with(LOCK_SUFFIX)) {
            // Taking and releasing a lock removes its file. A file that is not a lock affects only its own key.
            if let Err(error) = FileLock::try_take(&locks, name) {
                tracing::debug!(%error, "a lock file was not removed");
            }
        }
        Ok(())
    }

    pub(crate) fn subdir(&self, name: &str) -> Result<TrustedDir, CacheError> {
        self.root.subdir(name)
    }
}

fn lock_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    format!("{}{LOCK_SUFFIX}", name.chars().map(plain).collect::<String>())
}

/// Why the cache, or another directory of Glovebox, cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The path is a symbolic link. Following it would trust its creator.
    #[error("`{}` is a symbolic link; remove it, or name its target", escaped(path))]
    Symlink {
        /// Path of the link.
        path: PathBuf,
    },
    /// The directory or file belongs to another user.
    #[error("`{}` belongs to user {owner}, not to you ({user}), so its contents are not trusted; type `chown {user} {}`, or use another directory", escaped(path), escaped(&quoted(path)))]
    Owner {
        /// Path of the directory or file.
        path: PathBuf,
        /// User ID of the owner.
        owner: u32,
        /// Effective user ID of this process.
        user: u32,
    },
    /// Other users can write to the directory or file.
    #[error("`{}` is writable by other users (mode {mode:04o}), so its contents are not trusted; check them and type `chmod go-w {}`, or use another directory", escaped(path), escaped(&quoted(path)))]
    Writable {
        /// Path of the directory or file.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// The path is not a directory.
    #[error("`{}` is not a directory; remove it, or use another directory", escaped(path))]
    NotADirectory {
        /// Path of the existing file or directory.
        path: PathBuf,
    },
    /// The path is not a regular file.
    #[error("`{}` is not a regular file; remove it", escaped(path))]
    NotAFile {
        /// Path of the existing file or directory.
        path: PathBuf,
    },
    /// The user has no home directory.
    #[error("no cache directory was found, because the user has no home directory; name one")]
    NoHome,
    /// The operation was cancelled while it waited for a lock.
    #[error("cancelled while waiting for another process that holds `{}`", escaped(path))]
    Cancelled {
        /// Path of the lock.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", escaped(path))]
    Io {
        /// Name of the operation.
        action: &'static str,
        /// Path that it applied to.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl CacheError {
    /// Creates the error of a failed system call.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
