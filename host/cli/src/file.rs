//! Host files that are written whole or not at all.

use glovebox::escaped;
use std::{
    fs,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use crate::terminal::Hinted;

/// Writes a file for this user alone, in place of one that is there. Whoever reads it meanwhile, or after a crash, finds the
/// old one or the new one.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    put_or_explain(path, bytes, 0o600)
}

/// The same for a file that may be anybody's to read, as the process's mask has it.
pub(crate) fn replace_shared(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    put_or_explain(path, bytes, 0o666)
}

fn put_or_explain(path: &Path, bytes: &[u8], mode: u32) -> anyhow::Result<()> {
    put(path, bytes, mode).map_err(|error| {
        Hinted::new(format!("cannot write `{}`", escaped(path)), "name a file in a directory you can write to")
            .because(error)
            .into()
    })
}

fn put(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let beside = beside(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The other error is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A name in the same directory that nobody else uses.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::replace;

    #[test]
    fn a_file_is_replaced_whole_and_is_its_users_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.gbx");
        fs::write(&path, "an older and longer one").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir_all(path.join("full")).unwrap();
        assert!(replace(&path, b"new").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left behind");
        assert!(replace(&dir.path().join("missing/s.gbx"), b"new").is_err());
    }
}
