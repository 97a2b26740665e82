//! Reads untrusted wheels, and extracts one file from a downloaded wheel.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Cursor, Read, Write},
    path::{Path, PathBuf},
};

use glovebox_vfs::{escaped, escaped_text};
use zip::{ZipArchive, result::ZipError};

use crate::{
    CacheError, Digest, PackageEntry, Progress,
    artefact::HashingWriter,
    entries::PinnedContent,
    trusted_dir::{TempFile, TrustedDir},
};

/// Maximum number of files in a wheel. The largest bundled wheel has 195.
pub const MAX_WHEEL_FILES: usize = 4_096;

/// Maximum size of a wheel in bytes, both packed and unpacked.
pub const MAX_WHEEL_BYTES: u64 = 32 << 20;

/// Maximum length of a path, in bytes: the limit of the guest's file system below a mount.
const MAX_PATH_BYTES: usize = 1_024;

/// The signature of a central directory entry.
const ENTRY_SIGNATURE: &[u8] = b"PK\x01\x02";

/// The signature of the end record of an archive.
const END_SIGNATURE: &[u8] = b"PK\x05\x06";
/// The offset of the number of entries in the end record.
const END_COUNT_AT: usize = 10;

/// The suffixes of compiled files.
const COMPILED: [&str; 8] = [".so", ".pyd", ".dylib", ".dll", ".wasm", ".a", ".o", ".exe"];

/// Reads at most [`MAX_WHEEL_BYTES`] + 1 bytes of a file, so that a caller can detect a file that is too large.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_wheel(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MAX_WHEEL_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The treatment of compiled code in a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompiledCode {
    /// Rejects the wheel.
    Refused,
    /// Omits compiled files, for packages known to work without them.
    LeftOut,
}

/// A defect of a wheel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WheelFault {
    /// The file is not a zip archive, or is damaged.
    #[error("it is not a valid wheel: {name}", name = escaped_text(.0))]
    Unreadable(String),
    /// The wheel has more than [`MAX_WHEEL_FILES`] files.
    #[error("it has more than {MAX_WHEEL_FILES} files")]
    TooManyFiles,
    /// The wheel exceeds [`MAX_WHEEL_BYTES`].
    #[error("it is larger than {MAX_WHEEL_BYTES} bytes")]
    TooLarge,
    /// A path escapes the package, or is invalid in the guest's file system.
    #[error("it contains `{name}`, which is not a relative path without `..`", name = escaped(.0))]
    Path(String),
    /// Two files have the same path, or a file has the path of a directory.
    #[error("it contains the path `{name}` twice", name = escaped(.0))]
    Twice(String),
    /// An entry is a link or another special file.
    #[error("its entry `{name}` is not a plain file", name = escaped(.0))]
    NotAFile(String),
    /// The wheel contains native code.
    #[error(
        "it contains native code (`{name}`); look for a package, or a version of it, \
         that is pure Python (`…-none-any.whl`)", name = escaped(.0)
    )]
    Compiled(String),
}

/// Returns a wheel's files, sorted by path below `site-packages`.
///
/// # Errors
/// Fails if the bytes are not a pure Python wheel, or exceed the limits on the number and the size of files.
pub fn wheel_files(bytes: &[u8], compiled: CompiledCode) -> Result<Vec<(String, Vec<u8>)>, WheelFault> {
    Wheel::open(bytes, compiled)?.unpack(MAX_WHEEL_BYTES)
}

/// A wheel whose list of files is valid. The files are not unpacked yet.
pub(crate) struct Wheel<'a> {
    archive: ZipArchive<Cursor<&'a [u8]>>,
    /// The wheel's files, sorted by path.
    members: Vec<Member>,
}

/// A file that the wheel installs.
struct Member {
    /// The path below `site-packages`.
    path: String,
    /// The index in the archive.
    at: usize,
    /// The length in bytes, as declared by the archive.
    claimed_bytes: u64,
}

impl<'a> Wheel<'a> {
    /// Reads and checks the list of files in an archive.
    pub(crate) fn open(bytes: &'a [u8], compiled: CompiledCode) -> Result<Self, WheelFault> {
        if length(bytes) > MAX_WHEEL_BYTES {
            return Err(WheelFault::TooLarge);
        }
        // Check the number of entries before allocating memory for them: a wheel of maximum size can have a million
        // entries.
        let entries = bytes.windows(ENTRY_SIGNATURE.len()).filter(|window| *window == ENTRY_SIGNATURE).count();
        if entries > MAX_WHEEL_FILES {
            return Err(WheelFault::TooManyFiles);
        }
        let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|e| unreadable(&e))?;
        // The archive reader silently merges entries with the same name.
        if archive.len() < claimed_entries(bytes) {
            return Err(WheelFault::Unreadable("two of its entries have the same name".to_owned()));
        }
        let mut members = Vec::new();
        for at in 0..archive.len() {
            let member = archive.by_index(at).map_err(|e| unreadable(&e))?;
            let name = member.name().map_err(|e| unreadable(&e))?.into_owned();
            if !is_plain(name.strip_suffix('/').filter(|_| member.is_dir()).unwrap_or(&name)) {
                return Err(WheelFault::Path(name.escape_debug().take(200).collect()));
            }
            if member.is_dir() {
                continue;
            }
            // The upper bits of a Unix mode contain the file type. Archives from other systems have no file types.
            if member.unix_mode().is_some_and(|mode| !matches!(mode & 0o170_000, 0 | 0o100_000)) {
                return Err(WheelFault::NotAFile(name));
            }
            if is_compiled(&name) {
                match compiled {
                    CompiledCode::Refused => return Err(WheelFault::Compiled(name)),
                    CompiledCode::LeftOut => continue,
                }
            }
            if let Some(path) = installed(&name) {
                members.push(Member { path: path.to_owned(), at, claimed_bytes: member.size() });
            }
        }
        members.sort_by(|one, other| one.path.cmp(&other.path));
        check_tree(&members)?;
        Ok(Self { archive, members })
    }

    /// Returns the paths of the files below `site-packages`, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.path.as_str())
    }

    pub(crate) fn file_count(&self) -> usize {
        self.members.len()
    }

    /// Returns the unpacked size in bytes, as declared by the archive.
    pub(crate) fn claimed_bytes(&self) -> u64 {
        self.members.iter().fold(0, |sum, member| sum.saturating_add(member.claimed_bytes))
    }

    /// Returns one file's contents, or `None` if the path does not exist. Fails if the file is larger than `max_bytes`.
    pub(crate) fn read(&mut self, path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, WheelFault> {
        let Ok(index) = self.members.binary_search_by(|member| member.path.as_str().cmp(path)) else {
            return Ok(None);
        };
        let Some(member) = self.members.get(index) else { return Ok(None) };
        read_member(&mut self.archive, member.at, max_bytes).map(Some)
    }

    /// Unpacks all files. Fails before the files exceed `max_bytes` in total.
    pub(crate) fn unpack(self, max_bytes: u64) -> Result<Vec<(String, Vec<u8>)>, WheelFault> {
        let Self { mut archive, members } = self;
        let (mut left, mut files) = (max_bytes, Vec::new());
        for Member { path, at, .. } in members {
            let content = read_member(&mut archive, at, left)?;
            left = left.saturating_sub(length(&content));
            files.push((path, content));
        }
        Ok(files)
    }
}

fn read_member(archive: &mut ZipArchive<Cursor<&[u8]>>, at: usize, max_bytes: u64) -> Result<Vec<u8>, WheelFault> {
    let member = archive.by_index(at).map_err(|e| unreadable(&e))?;
    let mut content = Vec::new();
    // Limit the read, because the length in the header is untrusted.
    member.take(max_bytes.saturating_add(1)).read_to_end(&mut content).map_err(|e| unreadable(&e))?;
    if length(&content) > max_bytes { Err(WheelFault::TooLarge) } else { Ok(content) }
}

fn unreadable(error: &dyn std::fmt::Display) -> WheelFault {
    WheelFault::Unreadable(error.to_string())
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Returns the number of entries that the end record of an archive declares.
fn claimed_entries(bytes: &[u8]) -> usize {
    let end = bytes.windows(END_SIGNATURE.len()).rposition(|window| window == END_SIGNATURE);
    let count = end.and_then(|at| bytes.get(at.saturating_add(END_COUNT_AT)..)?.first_chunk::<2>());
    count.map_or(0, |count| usize::from(u16::from_le_bytes(*count)))
}

/// Rejects two files with the same path, and a file with the path of a directory.
fn check_tree(members: &[Member]) -> Result<(), WheelFault> {
    let paths: BTreeSet<&str> = members.iter().map(|member| member.path.as_str()).collect();
    let above =
        |path: &str| path.match_indices('/').any(|(at, _)| path.get(..at).is_some_and(|dir| paths.contains(dir)));
    let twice = members.iter().zip(members.iter().skip(1)).find(|(one, next)| one.path == next.path);
    let twice = twice.map(|(one, _)| one).or_else(|| members.iter().find(|member| above(&member.path)));
    twice.map_or(Ok(()), |member| Err(WheelFault::Twice(member.path.clone())))
}

/// Returns the installed path of a wheel's file. Returns `None` for scripts, headers and data, which a sandbox does not
/// use.
fn installed(name: &str) -> Option<&str> {
    match name.split_once('/') {
        Some((top, rest)) if top.ends_with(".data") => {
            rest.strip_prefix("purelib/").or_else(|| rest.strip_prefix("platlib/"))
        }
        _ => Some(name),
    }
}

fn is_plain(path: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    path.len() <= MAX_PATH_BYTES
        && path.split('/').all(part)
        && !path.chars().any(|c| c.is_control() || matches!(c, '\\' | ':'))
}

fn is_compiled(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Also matches names such as `libx.so.1`.
    COMPILED.iter().any(|end| name.ends_with(end)) || name.contains(".so.")
}

/// The number of bytes copied between two checks for cancellation.
const CHUNK_BYTES: usize = 64 << 10;

/// Errors from extracting a file from a downloaded package.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExtractError {
    #[error("the download contains no package")]
    NoPackage,
    #[error("the package cannot be read: {name}", name = escaped_text(&.0.to_string()))]
    Unreadable(#[from] io::Error),
    #[error("the package has no file `{name}`", name = escaped(.0))]
    NoFile(String),
    #[error("pip succeeded, but did not download `{name}`", name = escaped(.0))]
    NotLeft(String),
    #[error("`{file}` is {bytes} bytes, too large for the pinned size of {expected} bytes", file = escaped(.file))]
    TooLong { file: String, bytes: u64, expected: u64 },
    #[error("`{name}` contains no module: no decodable `Buffer.from('…', 'base64')` found", name = escaped(.0))]
    NoModule(String),
    #[error("wrong length: expected {expected} bytes, got {got}")]
    Length { expected: u64, got: String },
    #[error("wrong checksum: expected sha256 {expected}, got {got}")]
    Checksum { expected: Digest, got: Digest },
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Copies `file` from a zip file into the cache. Fails without storing the file if it does not match its pin.
pub(crate) fn take_from(
    archive: &Path,
    file: &str,
    pinned: &PinnedContent,
    into: &TrustedDir,
    progress: &dyn Progress,
) -> Result<(), ExtractError> {
    copy_verified(archive, file, pinned, into, progress)?.persist(&pinned.file_name)?;
    Ok(())
}

/// Copies `file` from a zip file to a temporary file in `into`. Fails if the file does not match its pin.
pub(crate) fn copy_verified<'a>(
    archive: &Path,
    file: &str,
    pinned: &PinnedContent,
    into: &'a TrustedDir,
    progress: &dyn Progress,
) -> Result<TempFile<'a>, ExtractError> {
    let mut archive = ZipArchive::new(File::open(archive)?).map_err(io::Error::from)?;
    let member = match archive.by_name(file) {
        Ok(member) => member,
        Err(ZipError::FileNotFound) => return Err(ExtractError::NoFile(file.to_owned())),
        Err(e) => return Err(io::Error::from(e).into()),
    };
    copy_pinned(member, pinned, into, progress)
}

/// Copies a file to a temporary file in `into`. Fails if the file does not match its pin.
pub(crate) fn copy_pinned<'a>(
    mut from: impl Read,
    pinned: &PinnedContent,
    into: &'a TrustedDir,
    progress: &dyn Progress,
) -> Result<TempFile<'a>, ExtractError> {
    let expected = pinned.size_bytes;
    let mut hashing = HashingWriter::new(into.create()?);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut copied = 0u64;
    loop {
        if progress.cancelled() {
            return Err(ExtractError::Cancelled);
        }
        let count = from.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        copied = copied.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        // The length in the header is untrusted: a few kilobytes can inflate to any size.
        if copied > expected {
            return Err(ExtractError::Length { expected, got: "more".to_owned() });
        }
        let bytes = chunk.get(..count).unwrap_or_default();
        hashing.write_all(bytes).map_err(|e| CacheError::io("write in", into.path(), e))?;
        progress.bytes(copied, expected);
    }
    if copied != expected {
        return Err(ExtractError::Length { expected, got: copied.to_string() });
    }
    let (temp, got) = hashing.finish();
    if got != pinned.sha256 { Err(ExtractError::Checksum { expected: pinned.sha256, got }) } else { Ok(temp) }
}

/// Copies a package's wheel from `dir` into the cache, if it matches its pin.
pub(crate) fn keep(
    dir: &Path,
    package: &PackageEntry,
    into: &TrustedDir,
    progress: &dyn Progress,
) -> Result<(), ExtractError> {
    let wheel = File::open(dir.join(&package.file)).map_err(|_| ExtractError::NotLeft(package.file.clone()))?;
    copy_pinned(wheel, &package.wheel(), into, progress)?.persist(&package.file)?;
    Ok(())
}

/// Returns any wheel in a directory.
pub(crate) fn find_wheel(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "whl"))
}

#[cfg(test)]
pub(crate) mod tests {
    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    /// Returns an archive of these files.
    pub(crate) fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn refused(files: &[(&str, &[u8])]) -> WheelFault {
        wheel_files(&zipped(files), CompiledCode::Refused).unwrap_err()
    }

    #[test]
    fn wheel_files_are_sorted_and_scripts_omitted() {
        let wheel = zipped(&[
            ("b/x.py", b"x"),
            ("a.py", b""),
            ("b-1.data/scripts/run", b"#!"),
            ("b-1.data/purelib/c.py", b"c"),
        ]);
        let names: Vec<_> =
            wheel_files(&wheel, CompiledCode::Refused).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a.py", "b/x.py", "c.py"]);
    }

    #[test]
    fn invalid_wheel_archive_is_rejected() {
        for bytes in [&b""[..], b"PK", b"#!/bin/sh\n", &[0; 4096]] {
            assert!(matches!(wheel_files(bytes, CompiledCode::Refused), Err(WheelFault::Unreadable(_))));
        }
        let whole = zipped(&[("a.py", b"text")]);
        for length in 0..whole.len() {
            assert!(wheel_files(&whole[..length], CompiledCode::Refused).is_err(), "{length}");
        }
    }

    #[test]
    fn invalid_wheel_paths_are_rejected() {
        for path in ["../a.py", "/a.py", "a/../b.py", "a//b.py", "./a.py", "a\\b.py", "c:a.py", "a\n.py", "\u{1b}[2J"] {
            assert!(matches!(refused(&[(path, b"")]), WheelFault::Path(_)), "{path}");
        }
        let at = "a".repeat(MAX_PATH_BYTES);
        assert!(wheel_files(&zipped(&[(&at, b"")]), CompiledCode::Refused).is_ok());
        assert!(matches!(refused(&[(&format!("{at}a"), b"")]), WheelFault::Path(_)));
    }

    #[test]
    fn duplicate_wheel_paths_are_rejected() {
        assert_eq!(refused(&[("a", b""), ("a/b.py", b"")]), WheelFault::Twice("a/b.py".into()));
        assert_eq!(refused(&[("c.py", b""), ("x.data/purelib/c.py", b"")]), WheelFault::Twice("c.py".into()));
        // The archive reader shows only one of two entries with the same name.
        let mut twice = zipped(&[("a.py", b"1"), ("b.py", b"2")]);
        for at in 0..twice.len() - 4 {
            if &twice[at..at + 4] == b"b.py" {
                twice[at] = b'a';
            }
        }
        let found = wheel_files(&twice, CompiledCode::Refused);
        assert!(matches!(found, Err(WheelFault::Unreadable(why)) if why.contains("same")));
    }

    #[test]
    fn links_are_refused() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.add_symlink("a.py", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        let wheel = zip.finish().unwrap().into_inner();
        assert_eq!(wheel_files(&wheel, CompiledCode::Refused), Err(WheelFault::NotAFile("a.py".into())));
    }

    #[test]
    fn compiled_code_is_rejected_or_omitted() {
        for name in ["a/b.so", "a.cpython-312-x86_64-linux-gnu.so", "a.PYD", "x.dylib", "x.dll", "lib.so.1", "x.wasm"] {
            assert_eq!(refused(&[(name, b"")]), WheelFault::Compiled(name.into()));
        }
        let wheel = zipped(&[("a.so", b"\x7fELF"), ("a.py", b"")]);
        assert_eq!(wheel_files(&wheel, CompiledCode::LeftOut).unwrap(), [("a.py".to_owned(), Vec::new())]);
    }

    #[test]
    fn wheel_bomb_is_rejected_while_unpacking() {
        let half = vec![0; 16 << 20];
        let fits = zipped(&[("a.py", &half), ("b.py", &half)]);
        assert!(fits.len() < 100_000);
        assert_eq!(wheel_files(&fits, CompiledCode::Refused).unwrap().len(), 2);
        assert_eq!(refused(&[("a.py", &half), ("b.py", &half), ("c.py", b"1")]), WheelFault::TooLarge);
    }

    #[test]
    fn number_of_wheel_files_is_limited() {
        let names: Vec<String> = (0..=MAX_WHEEL_FILES).map(|n| format!("{n}.py")).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        assert_eq!(wheel_files(&zipped(&files[1..]), CompiledCode::Refused).unwrap().len(), MAX_WHEEL_FILES);
        assert_eq!(refused(&files), WheelFault::TooManyFiles);
        // A central directory with a million entries, but no end record.
        let flood = ENTRY_SIGNATURE.repeat(1_000_000);
        assert_eq!(wheel_files(&flood, CompiledCode::Refused), Err(WheelFault::TooManyFiles));
    }
}
