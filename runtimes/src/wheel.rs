//! Extracting one file from a downloaded wheel.

use glovebox_vfs::{escaped, escaped_text};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use zip::ZipArchive;
use zip::result::ZipError;

use crate::digest::Hashing;
use crate::entries::Pinned;
use crate::trusted::TrustedDir;
use crate::{CacheError, Digest, PackageEntry, Progress};

/// Bytes between two checks for cancellation.
const CHUNK_BYTES: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WheelError {
    #[error("pip reported success but left no wheel")]
    NoWheel,
    #[error("the wheel cannot be read: {name}", name = escaped_text(.0))]
    Unreadable(String),
    #[error("the wheel has no file `{name}`", name = escaped(.0))]
    NoFile(String),
    #[error("pip reported success but left no `{name}`", name = escaped(.0))]
    NotLeft(String),
    #[error("wrong length: expected {expected} bytes, got {got}")]
    Length { expected: u64, got: String },
    #[error("wrong checksum: expected sha256 {expected}, got {got}")]
    Checksum { expected: Digest, got: Digest },
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Copies `file` from the only wheel in `dir` into the cache: see [`take_from`].
pub(crate) fn take(
    dir: &Path,
    file: &str,
    pinned: &Pinned,
    into: &TrustedDir,
    progress: &dyn Progress,
) -> Result<(), WheelError> {
    take_from(&find_wheel(dir).ok_or(WheelError::NoWheel)?, file, pinned, into, progress)
}

/// Copies `file` from a zip file into the cache and hashes it. A file that does not match its pin never gets a name.
pub(crate) fn take_from(
    archive: &Path,
    file: &str,
    pinned: &Pinned,
    into: &TrustedDir,
    progress: &dyn Progress,
) -> Result<(), WheelError> {
    let unreadable = |e: &dyn std::fmt::Display| WheelError::Unreadable(e.to_string());
    let archive = File::open(archive).map_err(|e| unreadable(&e))?;
    let mut archive = ZipArchive::new(archive).map_err(|e| unreadable(&e))?;
    let mut member = match archive.by_name(file) {
        Ok(member) => member,
        Err(ZipError::FileNotFound) => return Err(WheelError::NoFile(file.to_owned())),
        Err(e) => return Err(unreadable(&e)),
    };
    let expected = pinned.size_bytes;
    let temp = into.create()?;
    let mut hashing = Hashing::new(temp);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut copied = 0u64;
    loop {
        if progress.cancelled() {
            return Err(WheelError::Cancelled);
        }
        let count = member.read(&mut chunk).map_err(|e| unreadable(&e))?;
        if count == 0 {
            break;
        }
        copied = copied.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        // The length in the header is untrusted: a few kilobytes can inflate to any size.
        if copied > expected {
            return Err(WheelError::Length { expected, got: "more".to_owned() });
        }
        let bytes = chunk.get(..count).unwrap_or_default();
        hashing.write_all(bytes).map_err(|e| CacheError::io("write in", into.path(), e))?;
        progress.bytes(copied, expected);
    }
    if copied != expected {
        return Err(WheelError::Length { expected, got: copied.to_string() });
    }
    let (temp, got) = hashing.finish();
    if got != pinned.sha256 {
        return Err(WheelError::Checksum { expected: pinned.sha256, got });
    }
    temp.persist(&pinned.file_name)?;
    Ok(())
}

/// Moves a package's wheel from `dir` into the cache, if it matches its pin.
pub(crate) fn keep(dir: &Path, package: &PackageEntry, into: &TrustedDir) -> Result<(), WheelError> {
    let expected = package.size_bytes;
    let wheel = File::open(dir.join(&package.file)).map_err(|_| WheelError::NotLeft(package.file.clone()))?;
    let mut hashing = Hashing::new(into.create()?);
    let copied = std::io::copy(&mut wheel.take(expected.saturating_add(1)), &mut hashing)
        .map_err(|e| CacheError::io("write in", into.path(), e))?;
    if copied != expected {
        let got = if copied > expected { "more".to_owned() } else { copied.to_string() };
        return Err(WheelError::Length { expected, got });
    }
    let (temp, got) = hashing.finish();
    if got != package.sha256 {
        return Err(WheelError::Checksum { expected: package.sha256, got });
    }
    temp.persist(&package.file)?;
    Ok(())
}

/// Returns the first wheel in a directory.
pub(crate) fn find_wheel(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"))
}
