//! Atomic writes of host files.

use glovebox::escaped;
use rustix::fs::OFlags;
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, RandomState},
    io::{self, Write},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::terminal::HintedError;

/// Writes a file that only the current user can read, replacing an existing file. A reader finds either the old or the
/// new file, even during the write and after a crash.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    put_explained(path, bytes, 0o600)
}

/// Fails if [`replace`] cannot write the file, for example because its directory is not writable. Leaves no file
/// behind.
pub(crate) fn check_replace(path: &Path) -> anyhow::Result<()> {
    write_and_rename(path, b"", 0o600, |_, beside, _| fs::remove_file(beside))
        .map_err(|error| explain_error(path, error))
}

/// Like [`replace`], but fails and changes nothing if the file exists.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<(), NotCreated> {
    write_and_rename(path, bytes, 0o600, name_if_free).map_err(|error| NotCreated::new(path, error))
}

/// Fails if [`create`] cannot create the file, for example because its name is too long. Leaves no file behind.
pub(crate) fn check_create(path: &Path) -> Result<(), NotCreated> {
    let name_and_remove = |file: &File, from: &Path, to: &Path| {
        name_if_free(file, from, to)?;
        remove_if_at(file, to)
    };
    write_and_rename(path, b"", 0o600, name_and_remove).map_err(|error| NotCreated::new(path, error))
}

/// Removes an empty file that no process has locked. A process that was killed during [`check_create`] leaves such a
/// file behind.
pub(crate) fn remove_empty(path: &Path) {
    let Ok(file) = open_regular(path) else { return };
    if file.try_lock().is_ok() && file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        // If the removal fails, creating the file fails too.
        let _ = remove_if_at(&file, path);
    }
}

/// Renames a file unless the new name exists.
fn name_if_free(file: &File, from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => {
            // While the file has two names, another process can remove the temporary name and create its own file
            // there. If the removal of the name fails, the next write removes it.
            let _ = remove_if_at(file, from);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if to.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        // The file system might not support hard links.
        Err(_) => fs::rename(from, to),
    }
}

/// The reason why a file was not created.
#[derive(Debug)]
pub(crate) enum NotCreated {
    /// The file exists.
    Exists,
    Failed(anyhow::Error),
}

impl NotCreated {
    fn new(path: &Path, error: io::Error) -> Self {
        match error.kind() == io::ErrorKind::AlreadyExists && path.symlink_metadata().is_ok() {
            true => Self::Exists,
            false => Self::Failed(explain_error(path, error)),
        }
    }
}

/// Like [`replace`], but for a file that other users can read if the process's umask allows it.
pub(crate) fn replace_shared(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    put_explained(path, bytes, 0o666)
}

/// Like [`replace`], but with the permissions of the existing file, which may contain secrets or be shared.
#[cfg(feature = "full")]
pub(crate) fn replace_alike(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let there = fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777);
    put_explained(path, bytes, there.unwrap_or(0o666))
}

fn put_explained(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    write_and_rename(path, bytes, mode, |_, from, to| fs::rename(from, to)).map_err(|error| explain_error(path, error))
}

fn explain_error(path: &Path, error: io::Error) -> anyhow::Error {
    HintedError::new(format!("cannot write `{}`", escaped(path)), "choose a file in a writable directory")
        .caused_by(error)
        .into()
}

/// Writes a temporary file in the same directory, and gives it the name `path`. Calls `name` for this, with the file,
/// its current path and `path`.
fn write_and_rename(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    name: impl Fn(&File, &Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let put_once = || {
        let (beside, mut file) = create_beside(path, mode)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| name(&file, &beside, path));
        if written.is_err() {
            // Ignore an error here, because the earlier error is reported.
            let _ = remove_if_at(&file, &beside);
        }
        written
    };
    match put_once() {
        // A concurrent process may have removed this file. It removes abandoned files by name, so it can remove a file
        // that was created after its check.
        Err(error) if error.kind() == io::ErrorKind::NotFound => put_once(),
        written => written,
    }
}

/// Creates and locks a temporary file in the same directory. The next write to the same path removes the temporary file
/// of a killed process, unless its name is random. Only the owner of the lock renames or removes the file.
fn create_beside(path: &Path, mode: u32) -> io::Result<(PathBuf, File)> {
    /// The number of attempts to use this name. Another process can make any attempt fail.
    const MAX_ATTEMPTS: usize = 8;

    let create = |beside: &Path| OpenOptions::new().write(true).create_new(true).mode(mode).open(beside);
    // The name does not contain the file's name, which can already have the maximum length.
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(path.file_name());
    let beside = path.with_file_name(format!(".glovebox-{hash:016x}.new"));
    for _ in 0..MAX_ATTEMPTS {
        match create(&beside) {
            Ok(file) => match file.try_lock() {
                // On a file system without locks, abandoned files are never removed.
                Err(TryLockError::Error(_)) => return Ok((beside, file)),
                // Before the file was locked, another process may have removed it as abandoned.
                Ok(()) if is_at(&file, &beside) => return Ok((beside, file)),
                // Do not wait for the lock, because another user can hold it forever.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
            },
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) if remove_abandoned(&beside, path) => {}
            Err(_) => break,
        }
    }
    // A process is writing to the same path, or the name belongs to another user. If this process is killed, no other
    // process removes the file.
    let random = RandomState::new().hash_one(path);
    let beside = path.with_file_name(format!(".glovebox-{hash:016x}-{random:016x}.new"));
    let file = create(&beside)?;
    Ok((beside, file))
}

/// Removes the temporary file of a process that was killed while it wrote to `path`. Returns `false` if the file is in
/// use or cannot be removed.
fn remove_abandoned(beside: &Path, path: &Path) -> bool {
    let file = match open_regular(beside) {
        Ok(file) => file,
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
    };
    // If the process was killed between the two steps of `name_if_free`, the file at `path` has both names. While a
    // suspended execution is being resumed from the file, the file is locked.
    let is_abandoned = file.try_lock().is_ok() || is_at(&file, path);
    is_abandoned && is_at(&file, beside) && fs::remove_file(beside).is_ok()
}

/// Opens a regular file for reading. Does not follow a link, and does not wait for the writer of a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Removes a name of the open file. Succeeds if the name is already missing, or names another file.
fn remove_if_at(file: &File, path: &Path) -> io::Result<()> {
    if is_at(file, path) { fs::remove_file(path) } else { Ok(()) }
}

/// Returns `true` if `path` is a name of the open file.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(opened), Ok(named)) => (opened.dev(), opened.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        fs::{self, File},
        os::unix::fs::PermissionsExt,
        path::{Path, PathBuf},
        process::Command,
    };

    #[cfg(feature = "full")]
    use super::replace_alike;
    use super::{
        NotCreated, check_create, check_replace, create, create_beside, open_regular, remove_empty, remove_if_at,
        replace, write_and_rename,
    };

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }

    /// Leaves the temporary file of a killed process behind, and returns its path.
    fn abandon(path: &Path) -> PathBuf {
        let (beside, _closed) = create_beside(path, 0o400).unwrap();
        beside
    }

    #[test]
    fn file_is_created_atomically() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        create(&path, b"first").unwrap();
        assert!(matches!(create(&path, b"second"), Err(NotCreated::Exists)));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(matches!(create(&link, b"second"), Err(NotCreated::Exists)), "a link counts as an existing file");
        assert!(matches!(create(&dir.path().join("missing/s.gbx"), b"x"), Err(NotCreated::Failed(_))));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "the temporary file must be removed");
    }

    #[test]
    fn replaced_file_is_private_and_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        fs::write(&path, "an older and longer one").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the temporary file must be removed");
    }

    #[cfg(feature = "full")]
    #[test]
    fn replacement_can_keep_the_file_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.json");
        for mode in [0o600, 0o640, 0o400] {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            replace_alike(&path, b"new").unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn failed_write_leaves_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(replace(&path, b"new").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the temporary file must be removed");
        assert!(replace(&dir.path().join("missing/s.gbx"), b"new").is_err());
    }

    #[test]
    fn next_write_removes_the_file_of_a_killed_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        let left = abandon(&path);
        assert!(left.exists());
        assert_eq!(abandon(&path), left, "killed processes must not leave more than one file");
        create(&path, b"first").unwrap();
        assert_eq!(names(dir.path()), ["s.gbx"]);
        abandon(&path);
        replace(&path, b"second").unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"second".to_vec(), vec!["s.gbx".to_owned()]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        abandon(&path);
        check_replace(&path).unwrap();
        assert_eq!(names(dir.path()), ["s.gbx"]);
    }

    /// The process was killed after the file had received its final name, and before the temporary name was removed.
    #[test]
    fn second_name_of_a_locked_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        let left = abandon(&path);
        fs::hard_link(&left, &path).unwrap();
        let locked = File::open(&path).unwrap();
        locked.lock().unwrap();
        check_replace(&path).unwrap();
        assert_eq!(names(dir.path()), ["s.gbx"]);
    }

    #[test]
    fn temporary_files_of_others_are_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        // A second process is still writing.
        let (beside, writing) = create_beside(&path, 0o600).unwrap();
        replace(&path, b"first").unwrap();
        assert!(super::is_at(&writing, &beside));
        drop(writing);
        fs::remove_file(&beside).unwrap();
        // The temporary name is a link to another file.
        let other = dir.path().join("other");
        fs::write(&other, "own").unwrap();
        std::os::unix::fs::symlink(&other, &beside).unwrap();
        replace(&path, b"second").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::read(&other).unwrap()), (b"second".to_vec(), b"own".to_vec()));
        fs::remove_file(&beside).unwrap();
        assert_eq!(names(dir.path()), ["other", "s.gbx"]);
        // At any time, another user can replace the file with a pipe.
        assert!(Command::new("mkfifo").arg(&beside).status().unwrap().success());
        assert!(open_regular(&beside).is_err());
        replace(&path, b"third").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert!(beside.exists());
    }

    #[test]
    fn file_that_has_taken_over_a_name_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (beside, file) = create_beside(&dir.path().join("s.gbx"), 0o600).unwrap();
        fs::remove_file(&beside).unwrap();
        remove_if_at(&file, &beside).unwrap();
        fs::write(&beside, "other").unwrap();
        remove_if_at(&file, &beside).unwrap();
        assert_eq!(fs::read(&beside).unwrap(), b"other");
    }

    #[test]
    fn write_whose_temporary_file_was_removed_is_repeated_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        let attempts = Cell::new(0);
        let after_removals = |count: u32| {
            attempts.set(0);
            write_and_rename(&path, b"new", 0o600, |_, from, to| {
                attempts.set(attempts.get() + 1);
                if attempts.get() <= count {
                    fs::remove_file(from)?;
                }
                fs::rename(from, to)
            })
        };
        after_removals(1).unwrap();
        assert_eq!((attempts.get(), fs::read(&path).unwrap()), (2, b"new".to_vec()));
        assert_eq!(after_removals(2).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        assert_eq!((attempts.get(), names(dir.path())), (2, vec!["s.gbx".to_owned()]));
    }

    #[test]
    fn only_an_unlocked_empty_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        check_create(&path).unwrap();
        assert!(names(dir.path()).is_empty());
        fs::write(&path, "").unwrap();
        assert!(matches!(check_create(&path), Err(NotCreated::Exists)));
        let locked = File::open(&path).unwrap();
        locked.lock().unwrap();
        remove_empty(&path);
        assert!(path.exists(), "another process is creating the file");
        drop(locked);
        remove_empty(&path);
        assert!(!path.exists());
        fs::write(&path, "x").unwrap();
        remove_empty(&path);
        assert!(path.exists(), "the file is not empty");
    }
}
