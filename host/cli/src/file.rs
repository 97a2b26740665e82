//! Atomic writes of host files.

use glovebox::escaped;
use std::{
    fs,
    hash::{BuildHasher as _, RandomState},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::terminal::Hinted;

/// Writes a file that only the current user can read, replacing an existing file. A reader finds either the old or the
/// new file, also during the write and after a crash.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    put_explained(path, bytes, 0o600)
}

/// Fails if [`replace`] cannot write the file, because its directory is not writable. Leaves nothing behind.
pub(crate) fn check_replace(path: &Path) -> anyhow::Result<()> {
    put(path, b"", 0o600, |beside, _| fs::remove_file(beside)).map_err(|error| explained(path, error))
}

/// Like [`replace`], but fails and changes nothing if the file exists.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<(), NotCreated> {
    put(path, bytes, 0o600, name_if_free).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists && path.symlink_metadata().is_ok() {
            NotCreated::Exists
        } else {
            NotCreated::Failed(explained(path, error))
        }
    })
}

/// Renames a file unless the new name exists.
fn name_if_free(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
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
    put(path, bytes, mode, |from, to| fs::rename(from, to)).map_err(|error| explained(path, error))
}

fn explained(path: &Path, error: io::Error) -> anyhow::Error {
    Hinted::new(format!("cannot write `{}`", escaped(path)), "choose a file in a writable directory")
        .because(error)
        .into()
}

/// Writes a temporary file in the same directory, and renames it with `name`.
fn put(path: &Path, bytes: &[u8], mode: u32, name: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let beside = beside(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| name(&beside, path));
    if written.is_err() {
        // Ignores this error, because the earlier error is reported.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Returns the name of a temporary file in the same directory.
fn beside(path: &Path) -> PathBuf {
    // Does not contain the file's name, which can already have the maximum length.
    let random: u64 = RandomState::new().hash_one(path);
    path.with_file_name(format!(".{}-{random:016x}.new", std::process::id()))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    #[cfg(feature = "full")]
    use super::replace_alike;
    use super::{NotCreated, create, replace};

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
}
