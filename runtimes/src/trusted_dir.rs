//! Directories that only the current user can write to, and atomic creation of files in them.
//!
//! Glovebox runs compiled code from the cache, and stored sessions are private to the user. A directory is therefore
//! opened once, without following a link, and its owner and mode are checked through the handle. All accesses use the
//! handle, so replacing the path later has no effect.
//!
//! File names come from the caller and must be single path components.

use glovebox_vfs::escaped;
use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::CacheError;
use crate::guard::{Guard, GuardedDirectory};

/// The prefix of temporary files. No other name begins with this prefix.
pub const TEMP_PREFIX: &str = ".tmp-";

/// Minimum age of a leftover. A newer temporary file may be unlocked because its writer has not locked it yet.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// Maximum number of attempts to lock a file that other processes remove between opening and locking.
const MAX_LOCK_ATTEMPTS: u32 = 1000;

/// A block of a file that is not stored.
const ZEROS: &[u8] = &[0; 64 << 10];

/// A counter that makes the names of this process's temporary files unique.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// An open directory that has passed the trust rules.
#[derive(Debug)]
pub struct TrustedDir {
    path: PathBuf,
    handle: OwnedFd,
    guard: Guard,
}

impl TrustedDir {
    /// Opens a directory, or creates it and its missing ancestors with mode 0700. While it is open, this process does
    /// not mount the directory, its ancestors or its subdirectories into guests.
    ///
    /// # Errors
    /// Fails if the directory cannot be opened or created, or does not meet the trust rules.
    pub fn open(path: &Path, guarded: GuardedDirectory) -> Result<Self, CacheError> {
        // Collect the components to remove a trailing slash, which would make the kernel follow a link.
        let path: PathBuf = path.components().collect();
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        match builder.create(&path) {
            // If the path is an existing file, the check below reports a better error.
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(CacheError::io("create", &path, e));
            }
            _ => {}
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| open_error(&path, e, true))?;
        check_trust(&path, &metadata(&path, handle.as_fd())?)?;
        let guard =
            Guard::opened(guarded, &path, &handle).map_err(|e| CacheError::io("open the parents of", &path, e))?;
        Ok(Self { path, handle, guard })
    }

    /// Opens or creates a directory inside this directory.
    ///
    /// # Errors
    /// Fails like [`open`](Self::open).
    pub fn subdir(&self, name: &str) -> Result<Self, CacheError> {
        let path = self.path_of(name);
        match rustix::fs::mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(CacheError::io("create", &path, e.into())),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle =
            rustix::fs::openat(&self.handle, name, flags, Mode::empty()).map_err(|e| open_error(&path, e, true))?;
        check_trust(&path, &metadata(&path, handle.as_fd())?)?;
        self.guard.add_child(&handle).map_err(|e| CacheError::io("examine", &path, e))?;
        Ok(Self { path, handle, guard: self.guard.clone() })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a file in the directory, for error messages.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a file for reading, without following a link, and applies the trust rules to it. Returns the file and its
    /// length, or `None` if the file does not exist.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or does not meet the trust rules.
    pub fn open_file(&self, name: &str) -> Result<Option<(File, u64)>, CacheError> {
        // Use `NONBLOCK`, so that a FIFO with this name does not block the process.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let path = self.path_of(name);
        let file = match rustix::fs::openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => File::from(handle),
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(open_error(&path, e, false)),
        };
        let bytes = checked_len(&file, path)?;
        Ok(Some((file, bytes)))
    }

    /// Opens or creates a file that serves as a lock between processes.
    ///
    /// # Errors
    /// Fails if the file cannot be opened or created, or does not meet the trust rules.
    pub fn open_lock(&self, name: &str) -> Result<File, CacheError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let path = self.path_of(name);
        let handle = rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|e| open_error(&path, e, false))?;
        let file = File::from(handle);
        checked_len(&file, path)?;
        Ok(file)
    }

    /// Creates a temporary file, which [`TempFile::persist`] renames.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn create(&self) -> Result<TempFile<'_>, CacheError> {
        loop {
            let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMP_PREFIX}{}-{count}-{nanos:x}", std::process::id());
            let path = self.path_of(&name);
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&self.handle, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(handle) => {
                    let file = File::from(handle);
                    // The lock shows other processes that the writer is alive, so that they keep the file. The kernel
                    // releases the lock when the process ends.
                    file.try_lock().map_err(|e| CacheError::io("lock", &path, e.into()))?;
                    return Ok(TempFile { dir: self, name: Some(name), file });
                }
                Err(Errno::EXIST) => {}
                Err(e) => return Err(CacheError::io("create", &path, e.into())),
            }
        }
    }

    /// Sets a file's access and modification times to the current time, without following a link.
    ///
    /// # Errors
    /// Fails if the file does not exist, or its times cannot be set.
    pub fn touch(&self, name: &str) -> Result<(), CacheError> {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        rustix::fs::utimensat(&self.handle, name, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|e| CacheError::io("touch", &self.path_of(name), e.into()))
    }

    /// Removes a file. Returns `false` if the file did not exist.
    ///
    /// # Errors
    /// Fails if the file exists and cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool, CacheError> {
        match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(CacheError::io("remove", &self.path_of(name), e.into())),
        }
    }

    /// Makes earlier creations, renames and removals durable, if the file system can sync directories.
    pub fn sync(&self) {
        let _ = rustix::fs::fsync(&self.handle);
    }

    /// Returns the sorted names of all entries. Skips names that are not UTF-8.
    ///
    /// # Errors
    /// Fails if the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>, CacheError> {
        let failed = |e: Errno| CacheError::io("list", &self.path, e.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle).map_err(failed)? {
            // This module creates only files with UTF-8 names, so another program created a file with any other name.
            if let Ok(name) = entry.map_err(failed)?.file_name().to_str()
                && !matches!(name, "." | "..")
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes temporary files and directories that killed processes left behind: entries that are unlocked and at
    /// least a minute old.
    ///
    /// # Errors
    /// Fails if the directory cannot be read. Skips leftovers that cannot be removed.
    pub fn remove_leftovers(&self) -> Result<(), CacheError> {
        for name in self.names()? {
            if name.starts_with(TEMP_PREFIX) && self.is_leftover(&name) {
                let path = self.path_of(&name);
                tracing::debug!(path = %escaped(&path), "removing leftovers of a killed process");
                // Ignore errors, because another process may have just removed the leftover.
                if std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir()) {
                    let _ = std::fs::remove_dir_all(&path);
                } else {
                    let _ = self.remove(&name);
                }
            }
        }
        Ok(())
    }

    fn is_leftover(&self, name: &str) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let Ok(handle) = rustix::fs::openat(&self.handle, name, flags, Mode::empty()) else {
            return false;
        };
        let file = File::from(handle);
        let changed = file.metadata().and_then(|metadata| metadata.modified());
        let old = changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age >= LEFTOVER_AGE));
        old && file.try_lock().is_ok()
    }
}

/// A temporary file. Dropping the value removes the file, unless [`Self::persist`] has renamed it.
#[derive(Debug)]
pub struct TempFile<'a> {
    dir: &'a TrustedDir,
    name: Option<String>,
    file: File,
}

impl TempFile<'_> {
    /// Writes the contents of a new file. Most file systems store no data for long runs of zeros, of which images have
    /// many.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(crate) fn write_sparse(&mut self, bytes: &[u8]) -> io::Result<()> {
        for block in bytes.chunks(ZEROS.len()) {
            if ZEROS.get(..block.len()) == Some(block) {
                self.file.seek(SeekFrom::Current(i64::try_from(block.len()).unwrap_or(i64::MAX)))?;
            } else {
                self.file.write_all(block)?;
            }
        }
        self.file.set_len(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
    }

    /// Removes all write permissions, including the owner's.
    ///
    /// # Errors
    /// Fails if the permissions cannot be changed.
    pub fn read_only(&self) -> Result<(), CacheError> {
        let path = self.dir.path_of(self.name.as_deref().unwrap_or_default());
        rustix::fs::fchmod(&self.file, Mode::RUSR).map_err(|e| CacheError::io("change the mode of", &path, e.into()))
    }

    /// Makes the file executable for its owner and removes all write permissions.
    ///
    /// # Errors
    /// Fails if the permissions cannot be changed.
    pub fn executable(&self) -> Result<(), CacheError> {
        let path = self.dir.path_of(self.name.as_deref().unwrap_or_default());
        let mode = Mode::RUSR | Mode::XUSR;
        rustix::fs::fchmod(&self.file, mode).map_err(|e| CacheError::io("change the mode of", &path, e.into()))
    }

    /// Renames the file to `name`, replacing any existing file. Syncs the contents to disk before the rename.
    ///
    /// # Errors
    /// Fails if the file cannot be synced or renamed. The temporary file is then removed.
    pub fn persist(mut self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.dir.path_of(name);
        self.file.sync_all().map_err(|e| CacheError::io("write", &path, e))?;
        if let Some(temp) = self.name.take() {
            let done = rustix::fs::renameat(&self.dir.handle, &temp, &self.dir.handle, name);
            if let Err(e) = done {
                self.name = Some(temp);
                return Err(CacheError::io("write", &path, e.into()));
            }
        }
        // Make the rename durable.
        self.dir.sync();
        Ok(path)
    }
}

impl Write for TempFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            let _ = self.dir.remove(&name);
        }
    }
}

/// A lock between processes, on a separate file. The lock is released when it is dropped or its process ends. Dropping
/// the lock also removes its file, so that lock files do not accumulate.
///
/// The lock belongs to an open file, so it also excludes other threads of the same process.
#[derive(Debug)]
pub struct FileLock {
    dir: Arc<TrustedDir>,
    name: String,
    file: File,
}

impl FileLock {
    /// Acquires the lock on the file `name` in `dir`. Returns `None` if another holder has the lock.
    ///
    /// # Errors
    /// Fails if the lock's file cannot be opened or locked.
    pub fn try_take(dir: &Arc<TrustedDir>, name: &str) -> Result<Option<Self>, CacheError> {
        let failed = |error| CacheError::io("lock", &dir.path_of(name), error);
        for _ in 0..MAX_LOCK_ATTEMPTS {
            let file = dir.open_lock(name)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // The last holder may have removed the file after it was opened here. A lock on a removed file would not
            // exclude other processes.
            if is_current(dir, name, &file)? {
                return Ok(Some(Self { dir: Arc::clone(dir), name: name.to_owned(), file }));
            }
        }
        Err(failed(io::Error::other("another process removes the lock file repeatedly; try again")))
    }
}

/// Returns `true` if `name` still refers to the open file.
fn is_current(dir: &TrustedDir, name: &str, file: &File) -> Result<bool, CacheError> {
    let identity = |file: &File| match file.metadata() {
        Ok(metadata) => Ok((metadata.dev(), metadata.ino())),
        Err(error) => Err(CacheError::io("lock", &dir.path_of(name), error)),
    };
    match dir.open_file(name)? {
        Some((current, _)) => Ok(identity(&current)? == identity(file)?),
        None => Ok(false),
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Remove the file before releasing the lock, while no other holder can exist. A lock file that cannot be
        // removed is harmless. If this lock's file has already been removed, a file with this name belongs to another
        // holder.
        let removed = is_current(&self.dir, &self.name, &self.file)
            .and_then(|is_ours| if is_ours { self.dir.remove(&self.name) } else { Ok(false) });
        if let Err(error) = removed {
            tracing::debug!(%error, "a lock file was not removed");
        }
        // Unlock explicitly. Closing the file would not release the lock while a newly forked child process has a copy
        // of the descriptor, which it keeps until it calls `exec`.
        if let Err(error) = self.file.unlock() {
            tracing::debug!(%error, "a lock could not be released before its file was closed");
        }
    }
}

fn metadata(path: &Path, handle: std::os::fd::BorrowedFd<'_>) -> Result<std::fs::Metadata, CacheError> {
    let failed = |e| CacheError::io("examine", path, e);
    File::from(handle.try_clone_to_owned().map_err(failed)?).metadata().map_err(failed)
}

/// Returns the length of a regular file in bytes. Fails if the file does not meet the trust rules.
fn checked_len(file: &File, path: PathBuf) -> Result<u64, CacheError> {
    let metadata = file.metadata().map_err(|e| CacheError::io("examine", &path, e))?;
    if !metadata.is_file() {
        return Err(CacheError::NotAFile { path });
    }
    check_trust(&path, &metadata)?;
    Ok(metadata.len())
}

/// Checks the trust rules: the current user owns the file or directory, and no other user can write to it.
fn check_trust(path: &Path, metadata: &std::fs::Metadata) -> Result<(), CacheError> {
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(CacheError::Owner { path: path.to_owned(), owner: metadata.uid(), user });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 { Err(CacheError::Writable { path: path.to_owned(), mode }) } else { Ok(()) }
}

fn open_error(path: &Path, error: Errno, directory: bool) -> CacheError {
    let path = path.to_owned();
    let linked = std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_symlink());
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::MLINK if linked => CacheError::Symlink { path },
        Errno::NOTDIR if directory => CacheError::NotADirectory { path },
        _ => CacheError::io("open", &path, error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_file_has_all_bytes() {
        let parent = tempfile::tempdir().unwrap();
        let dir = TrustedDir::open(parent.path(), GuardedDirectory::Cache).unwrap();
        let block = ZEROS.len();
        for length in [0, 1, block - 1, block, 4 * block, 4 * block + 7] {
            for ones in [0..0, 0..1, block..block + 1, 4 * block - 1..4 * block + 7] {
                let mut bytes = vec![0; length];
                bytes.iter_mut().take(ones.end).skip(ones.start).for_each(|byte| *byte = 1);
                let mut file = dir.create().unwrap();
                file.write_sparse(&bytes).unwrap();
                file.persist("file").unwrap();
                assert!(std::fs::read(dir.path_of("file")).unwrap() == bytes, "{length} bytes with {ones:?}");
            }
        }
    }
}
