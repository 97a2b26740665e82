//! An interpreter's standard library where it is a file of its own: what guests see of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    os::unix::fs::FileExt as _,
    sync::{Arc, OnceLock},
};

use glovebox_core::BOOT_REALTIME_NS;
use glovebox_runtimes::{LibraryEntry, UnpackedEntry, unpack};
use glovebox_vfs::{FileIdentity, FileKind, MountSource, SourceEntry, SourceError, SourceStat};

/// The library, mounted read-only in every guest of a runtime, outside its quotas.
///
/// It is read where it lies: the system's page cache is shared by all guests and processes, and nothing of it is copied before a guest
/// reads it. Mapping it would be another `unsafe` block, and save one copy of what an import reads.
#[derive(Clone)]
pub(crate) struct LibraryMount {
    /// The directory in guests.
    pub(crate) directory: String,
    pub(crate) source: Arc<dyn MountSource>,
}

impl LibraryMount {
    /// A library at the path that its entry gives.
    pub(crate) fn new(entry: &LibraryEntry, file: File) -> Self {
        // The manifest is checked: there is a directory.
        let (directory, name) = entry.guest_path.rsplit_once('/').unwrap_or(("/", &entry.guest_path));
        let unpacked = entry.unpacked.clone().map(|entry| Unpacked { entry, files: OnceLock::new() });
        let library = Library { file, name: name.to_owned(), size_bytes: entry.size_bytes, unpacked };
        Self { directory: directory.to_owned(), source: Arc::new(library) }
    }
}

/// A directory with the library in it, and beside it the files of an archive in it.
struct Library {
    file: File,
    name: String,
    size_bytes: u64,
    unpacked: Option<Unpacked>,
}

/// Files that are unpacked when the first guest of the process looks among them.
struct Unpacked {
    entry: UnpackedEntry,
    /// By their paths in the library's directory. Why there are none, where that failed.
    files: OnceLock<Result<BTreeMap<String, Vec<u8>>, String>>,
}

impl Unpacked {
    /// The files, if `path` is where they are.
    fn files_at(&self, path: &str, library: &File) -> Result<Option<&BTreeMap<String, Vec<u8>>>, SourceError> {
        if !is_in(path, &self.entry.directory) {
            return Ok(None);
        }
        let files = self.files.get_or_init(|| {
            let files = unpack(library, &self.entry.archive).map_err(|error| error.to_string())?;
            Ok(files.into_iter().map(|(path, bytes)| (format!("{}/{path}", self.entry.directory), bytes)).collect())
        });
        files.as_ref().map(Some).map_err(|reason| SourceError::new(reason.clone()))
    }
}

/// Whether `path` is `directory`, or below it.
fn is_in(path: &str, directory: &str) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The name of the entry of `directory` that leads to `path`.
fn next<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    let rest = if directory.is_empty() { path } else { path.strip_prefix(directory)?.strip_prefix('/')? };
    rest.split('/').next()
}

impl Library {
    fn stat_of(kind: FileKind, size_bytes: u64, path: &str) -> SourceStat {
        // FNV-1a: a file has the same number whenever somebody looks.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let identity = FileIdentity { device: 1, inode: path.bytes().fold(0xcbf2_9ce4_8422_2325, hash) };
        SourceStat { kind, size_bytes, modified_ns: BOOT_REALTIME_NS, changed_ns: 0, identity }
    }

    /// The bytes of a file that was unpacked.
    fn unpacked(&self, path: &str) -> Result<Option<&[u8]>, SourceError> {
        let Some(unpacked) = &self.unpacked else { return Ok(None) };
        let files = unpacked.files_at(path, &self.file)?;
        Ok(files.and_then(|files| files.get(path)).map(Vec::as_slice))
    }

    /// Whether there is a directory of this path.
    fn is_directory(&self, path: &str) -> Result<bool, SourceError> {
        let Some(unpacked) = self.unpacked.as_ref().filter(|_| !path.is_empty()) else { return Ok(path.is_empty()) };
        if is_in(&unpacked.entry.directory, path) {
            return Ok(true);
        }
        let files = unpacked.files_at(path, &self.file)?;
        // The first file at or after it is in it, if any is.
        let below = format!("{path}/");
        Ok(files
            .and_then(|files| files.range(below.clone()..).next())
            .is_some_and(|(file, _)| file.starts_with(&below)))
    }
}

impl MountSource for Library {
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError> {
        if !self.is_directory(dir)? {
            return Ok(Vec::new());
        }
        let mut names = BTreeSet::new();
        if dir.is_empty() {
            names.insert(self.name.as_str());
        }
        if let Some(unpacked) = &self.unpacked {
            names.extend(next(&unpacked.entry.directory, dir));
            let files = unpacked.files_at(dir, &self.file)?;
            names.extend(files.into_iter().flatten().filter_map(|(path, _)| next(path, dir)));
        }
        let entry = |name: &str| {
            let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
            Ok(self.stat(&path)?.map(|stat| SourceEntry { name: name.to_owned(), stat }))
        };
        names.into_iter().take(limit).filter_map(|name| entry(name).transpose()).collect()
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        let size = if path == self.name {
            Some(self.size_bytes)
        } else {
            self.unpacked(path)?.map(|bytes| bytes.len() as u64)
        };
        Ok(match size {
            Some(size) => Some(Self::stat_of(FileKind::File, size, path)),
            None if self.is_directory(path)? => Some(Self::stat_of(FileKind::Directory, 0, path)),
            None => None,
        })
    }

    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        if path == self.name {
            if offset >= self.size_bytes {
                return Ok(0);
            }
            return self.file.read_at(into, offset).map_err(|error| SourceError::new(error.to_string()));
        }
        let Some(bytes) = self.unpacked(path)? else {
            return Err(SourceError::new(format!("the library has no file `{path}`")));
        };
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(into), Some(from)) = (into.get_mut(..count), rest.get(..count)) {
            into.copy_from_slice(from);
        }
        Ok(count)
    }

    fn read_link(&self, path: &str) -> Result<String, SourceError> {
        Err(SourceError::new(format!("`{path}` is not a link")))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write as _};

    use glovebox_runtimes::Digest;
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
        LibraryMount::new(&entry, file)
    }

    fn with_data() -> Arc<dyn MountSource> {
        let data = zipped(&[("one", b"1"), ("two/three", b"333"), ("two-and", b"")]);
        let entry = UnpackedEntry { archive: "a/data.zip".into(), directory: "python/a/data".into() };
        mounted(&zipped(&[("a/data.zip", &data)]), Some(entry)).source
    }

    fn names(source: &dyn MountSource, dir: &str) -> Vec<String> {
        source.list(dir, 10).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn the_directory_has_one_file_and_nothing_else() {
        let LibraryMount { directory, source } = mounted(b"library", None);
        assert_eq!(directory, "/usr/local/lib");
        assert_eq!(names(&*source, ""), ["python.zip"]);
        assert_eq!(source.list("python.zip", 10).unwrap(), []);
        assert_eq!(source.stat("python.zip").unwrap().unwrap().size_bytes, 7);
        assert_eq!(source.stat("").unwrap().unwrap().kind, FileKind::Directory);
        for other in ["other", "python.zip/x", "../python.zip"] {
            assert_eq!(source.stat(other).unwrap(), None);
            source.read(other, 0, &mut [0; 4]).unwrap_err();
            source.read_link(other).unwrap_err();
        }
    }

    #[test]
    fn it_is_read_from_anywhere_and_ends_where_it_ends() {
        let source = mounted(b"library", None).source;
        for (offset, expected) in [(0, &b"libr"[..]), (4, b"ary"), (7, b""), (u64::MAX, b"")] {
            let mut into = [0; 4];
            let count = source.read("python.zip", offset, &mut into).unwrap();
            assert_eq!(&into[..count], expected, "{offset}");
        }
    }

    #[test]
    fn the_files_of_an_archive_lie_beside_it() {
        let source = with_data();
        assert_eq!(names(&*source, ""), ["python", "python.zip"]);
        assert_eq!(names(&*source, "python"), ["a"]);
        assert_eq!(names(&*source, "python/a"), ["data"]);
        assert_eq!(names(&*source, "python/a/data"), ["one", "two", "two-and"]);
        assert_eq!(names(&*source, "python/a/data/two"), ["three"]);
        let kind = |path: &str| source.stat(path).unwrap().map(|stat| stat.kind);
        for directory in ["", "python", "python/a", "python/a/data", "python/a/data/two"] {
            assert_eq!(kind(directory), Some(FileKind::Directory), "{directory}");
        }
        for file in ["python/a/data/one", "python/a/data/two/three", "python/a/data/two-and"] {
            assert_eq!(kind(file), Some(FileKind::File), "{file}");
        }
        for nothing in ["pyth", "python/b", "python/a/dat", "python/a/data/t", "python/a/data/one/x"] {
            assert_eq!(kind(nothing), None, "{nothing}");
            assert_eq!(names(&*source, nothing), Vec::<String>::new());
        }
        let mut into = [0; 4];
        assert_eq!(source.read("python/a/data/two/three", 1, &mut into).unwrap(), 2);
        assert_eq!(&into[..2], b"33");
        assert_eq!(source.read("python/a/data/two/three", 9, &mut into).unwrap(), 0);
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
