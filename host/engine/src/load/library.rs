//! An interpreter's standard library in a separate file: access to its bytes.

use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt as _, sync::OnceLock};

use glovebox_core::{LibraryMount, StandardFiles};
use glovebox_runtimes::{LibraryEntry, unpack};
use glovebox_vfs::SourceError;

/// Returns the mount of a library at the path in its manifest entry.
pub(crate) fn library_mount(entry: &LibraryEntry, file: File) -> LibraryMount {
    let directory = entry.unpacked.as_ref().map(|unpacked| unpacked.directory.as_str());
    let files = LibraryFile { file, entry: entry.clone(), beside: OnceLock::new() };
    LibraryMount::new(&entry.guest_path, entry.size_bytes, directory, files)
}

/// A library that is read in place. All guests and processes share the system's page cache, and only bytes that a guest
/// reads are copied. Mapping the file would need another `unsafe` block, and save only one copy of the bytes that an
/// import reads.
struct LibraryFile {
    file: File,
    entry: LibraryEntry,
    /// Files of the unpacked archive, or the error. Unpacked when the first guest of the process looks for them.
    beside: OnceLock<Result<BTreeMap<String, Vec<u8>>, String>>,
}

/// Unpacks the archive in a library, if its entry names one. Returns its files by path in the library's directory.
pub(crate) fn files_beside(entry: &LibraryEntry, library: &File) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let Some(unpacked) = &entry.unpacked else { return Ok(BTreeMap::new()) };
    let files = unpack(library, &unpacked.archive)?;
    Ok(files.into_iter().map(|(path, bytes)| (format!("{}/{path}", unpacked.directory), bytes)).collect())
}

impl StandardFiles for LibraryFile {
    type File = Vec<u8>;

    fn read_archive(&self, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        self.file.read_at(into, offset).map_err(|error| SourceError::new(error.to_string()))
    }

    fn beside(&self) -> Result<&BTreeMap<String, Vec<u8>>, SourceError> {
        let files =
            self.beside.get_or_init(|| files_beside(&self.entry, &self.file).map_err(|error| error.to_string()));
        files.as_ref().map_err(|reason| SourceError::new(reason.clone()))
    }

    fn len_of(&self, file: &Vec<u8>) -> u64 {
        file.len() as u64
    }

    fn read_beside(&self, file: &Vec<u8>, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..count), rest.get(..count)) {
            into.copy_from_slice(from);
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use glovebox_runtimes::{Digest, UnpackedEntry};
    use glovebox_vfs::MountSource;
    use zip::{ZipWriter, write::SimpleFileOptions};

    use super::*;

    fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn mounted(content: &[u8], unpacked: Option<UnpackedEntry>) -> LibraryMount {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let entry = LibraryEntry {
            file: "any".into(),
            guest_path: "/usr/local/lib/python.zip".into(),
            unpacked,
            sha256: Digest::of(content),
            size_bytes: content.len() as u64,
        };
        library_mount(&entry, file)
    }

    fn read(source: &dyn MountSource, path: &str, offset: u64) -> Vec<u8> {
        let mut into = [0; 4];
        let count = source.read(path, offset, &mut into).unwrap();
        into[..count].to_vec()
    }

    #[test]
    fn it_is_read_where_it_lies() {
        let source = mounted(b"library", None).source;
        assert_eq!(read(&*source, "python.zip", 0), b"libr");
        assert_eq!(read(&*source, "python.zip", 4), b"ary");
        assert_eq!(read(&*source, "python.zip", 7), b"");
    }

    #[test]
    fn the_files_of_an_archive_lie_beside_it() {
        let data = zipped(&[("one", b"1"), ("two/three", b"333")]);
        let entry = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        let source = mounted(&zipped(&[("a/data.zip", &data)]), Some(entry)).source;
        assert_eq!(read(&*source, "python/a/data/one", 0), b"1");
        assert_eq!(read(&*source, "python/a/data/two/three", 1), b"33");
        assert_eq!(source.stat("python/a/data/two/three").unwrap().unwrap().size_bytes, 3);
    }

    #[test]
    fn a_damaged_archive_is_an_error_where_somebody_looks_into_it() {
        let entry = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        let source = mounted(&zipped(&[("a/data.zip", b"no archive")]), Some(entry)).source;
        source.stat("python/a/data/one").unwrap_err();
        assert_eq!(source.stat("python/other").unwrap(), None);
        assert!(source.stat("python.zip").unwrap().is_some());
    }
}
