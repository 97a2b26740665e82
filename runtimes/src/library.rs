//! Archives inside an interpreter's standard library, and the source files of the library's modules.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Cursor, Read},
};

use glovebox_vfs::escaped;
use zip::ZipArchive;

// Limits on an archive's contents, so that a damaged archive cannot exhaust memory.
const MAX_BYTES: u64 = 64 << 20;
const MAX_FILES: usize = 10_000;

/// The source files of a library's modules, in an archive embedded in this crate. Each file is unpacked only when it is
/// read, because most scripts read none.
#[derive(Clone)]
pub struct PackedSources(ZipArchive<Cursor<&'static [u8]>>);

/// A file of [`PackedSources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedSource {
    index: usize,
    /// The length of the file in bytes.
    pub size_bytes: u64,
}

impl PackedSources {
    /// Returns the embedded archive with this name, as used in the manifest.
    pub(crate) fn find(name: &str) -> Option<&'static [u8]> {
        match name {
            "python-3.15.0" => Some(include_bytes!("../sources/python-3.15.0.zip")),
            _ => None,
        }
    }

    /// Opens the embedded archive with this name, as used in the manifest.
    ///
    /// # Errors
    /// Fails if there is no such archive.
    pub fn open(name: &str) -> io::Result<Self> {
        let packed = Self::find(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self(ZipArchive::new(Cursor::new(packed))?))
    }

    /// Returns all files, by path in the archive.
    ///
    /// # Errors
    /// Fails if the archive is damaged.
    pub fn files(&mut self) -> io::Result<BTreeMap<String, PackedSource>> {
        let mut files = BTreeMap::new();
        for index in 0..self.0.len() {
            let file = self.0.by_index_raw(index)?;
            files.insert(file.name()?.into_owned(), PackedSource { index, size_bytes: file.size() });
        }
        Ok(files)
    }

    /// Unpacks a file.
    ///
    /// # Errors
    /// Fails if the archive is damaged.
    pub fn read(&mut self, file: PackedSource) -> io::Result<Vec<u8>> {
        read(&mut self.0.by_index(file.index)?, file.size_bytes)
    }
}

/// Unpacks an archive inside a library. Returns its files by path in the archive.
///
/// # Errors
/// Fails if the archive is missing or damaged, has an invalid path, or exceeds 64 MiB or 10,000 entries.
pub fn unpack(library: &File, archive: &str) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("`{archive}`: {what}"));
    let mut library = ZipArchive::new(library)?;
    let inner = read(&mut library.by_name(archive)?, MAX_BYTES)?;
    let mut inner = ZipArchive::new(Cursor::new(inner))?;
    if inner.len() > MAX_FILES {
        return Err(invalid(format!("it has more than {MAX_FILES} files")));
    }
    let (mut files, mut left) = (BTreeMap::new(), MAX_BYTES);
    for at in 0..inner.len() {
        let mut file = inner.by_index(at)?;
        if file.is_dir() {
            continue;
        }
        let path = file.enclosed_name().and_then(|path| path.to_str().map(str::to_owned));
        let path = path
            .ok_or_else(|| invalid(format!("`{}` is not a valid path", escaped(&*file.name().unwrap_or_default()))))?;
        let bytes = read(&mut file, left)?;
        left = left.saturating_sub(bytes.len() as u64);
        files.insert(path, bytes);
    }
    Ok(files)
}

fn read(file: &mut impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it is larger than {max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::wheel_files::tests::zipped;

    fn library(files: &[(&str, &[u8])]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&zipped(&[("a/data.zip", &zipped(files)), ("b.pyc", b"code")])).unwrap();
        file
    }

    #[test]
    fn archive_files_are_unpacked_by_path() {
        let files = unpack(&library(&[("x", b"1"), ("y/z", b"22")]), "a/data.zip").unwrap();
        assert_eq!(files, BTreeMap::from([("x".into(), b"1".to_vec()), ("y/z".into(), b"22".to_vec())]));
    }

    #[test]
    fn invalid_archives_and_outside_paths_are_rejected() {
        unpack(&library(&[]), "a/other.zip").unwrap_err();
        unpack(&library(&[]), "b.pyc").unwrap_err();
        let error = unpack(&library(&[("../x", b"1")]), "a/data.zip").unwrap_err().to_string();
        assert!(error.contains("../x"), "{error}");
    }

    #[test]
    fn file_size_is_limited_by_the_remaining_bytes() {
        assert_eq!(read(&mut &b"1234"[..], 4).unwrap(), b"1234");
        read(&mut &b"12345"[..], 4).unwrap_err();
    }
}
