//! Read-only files that every guest has, outside its quotas: the JavaScript and Python packages, and the interpreter's
//! standard library. The standard library consists of an archive, from which the interpreter imports, and of data files
//! next to the archive, which the library's modules open.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use glovebox_vfs::{FileIdentity, FileKind, MountSource, SourceEntry, SourceError, SourceStat};

use crate::BOOT_REALTIME_NS;

/// The guest path of the JavaScript packages.
pub const LIBRARY_PATH: &str = "/data_js";

/// The guest path of the Python packages.
pub const PACKAGES_PATH: &str = "/app/site-packages";

/// The files of a package library. A backend decides where the files are stored.
pub trait LibraryFiles: Send + Sync {
    /// Returns the files by path, such as `a/b.js`, sorted.
    ///
    /// # Errors
    /// Fails if the files are unavailable. The guest then receives the error `io`.
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError>;
}

/// A library in memory.
impl LibraryFiles for Vec<(String, Vec<u8>)> {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        Ok(self)
    }
}

/// A library in memory, created when a guest first accesses it.
impl<F: FnOnce() -> Vec<(String, Vec<u8>)> + Send> LibraryFiles for LazyLock<Vec<(String, Vec<u8>)>, F> {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        Ok(self)
    }
}

/// A package library as a directory tree.
#[derive(Debug)]
pub struct Library<F>(pub F);

enum FoundEntry<'a> {
    File(usize, &'a [u8]),
    Directory,
}

/// Returns the index of the first file below a directory. `prefix` is the directory's path with a trailing slash.
fn start_of(files: &[(String, Vec<u8>)], prefix: &str) -> usize {
    files.partition_point(|(name, _)| name.as_str() < prefix)
}

fn find<'a>(files: &'a [(String, Vec<u8>)], path: &str) -> Option<FoundEntry<'a>> {
    if let Ok(at) = files.binary_search_by(|(name, _)| name.as_str().cmp(path)) {
        return files.get(at).map(|(_, bytes)| FoundEntry::File(at, bytes));
    }
    let prefix = format!("{path}/");
    let below = files.get(start_of(files, &prefix)).is_some_and(|(name, _)| name.starts_with(&prefix));
    below.then_some(FoundEntry::Directory)
}

fn stat_of(files: &[(String, Vec<u8>)], path: &str) -> Option<SourceStat> {
    Some(match find(files, path)? {
        FoundEntry::Directory => directory(),
        FoundEntry::File(at, bytes) => SourceStat {
            kind: FileKind::File,
            size_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            modified_ns: BOOT_REALTIME_NS,
            changed_ns: 0,
            identity: FileIdentity { device: 1, inode: u64::try_from(at).unwrap_or(u64::MAX).saturating_add(1) },
        },
    })
}

fn directory() -> SourceStat {
    SourceStat {
        kind: FileKind::Directory,
        size_bytes: 0,
        modified_ns: BOOT_REALTIME_NS,
        changed_ns: 0,
        identity: FileIdentity { device: 1, inode: 0 },
    }
}

impl<F: LibraryFiles> MountSource for Library<F> {
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError> {
        let files = self.0.files()?;
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let mut entries: Vec<SourceEntry> = Vec::new();
        for (path, _) in files.get(start_of(files, &prefix)..).unwrap_or_default() {
            let Some(rest) = path.strip_prefix(&prefix) else { break };
            let name = rest.split('/').next().unwrap_or_default();
            // The files below a directory are adjacent, because the list is sorted.
            if entries.last().is_none_or(|last| last.name != name) && entries.len() <= limit {
                let stat = stat_of(files, &format!("{prefix}{name}"));
                entries.extend(stat.map(|stat| SourceEntry { name: name.to_owned(), stat }));
            }
        }
        Ok(entries)
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        // Every guest queries the root, so its attributes must not require unpacking the files.
        Ok(if path.is_empty() { Some(directory()) } else { stat_of(self.0.files()?, path) })
    }

    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let Some(FoundEntry::File(_, bytes)) = find(self.0.files()?, path) else {
            return Err(SourceError::new(format!("the library has no file `{path}`")));
        };
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(into), Some(rest)) = (into.get_mut(..count), rest.get(..count)) {
            into.copy_from_slice(rest);
        }
        Ok(count)
    }

    fn read_link(&self, path: &str) -> Result<String, SourceError> {
        Err(SourceError::new(format!("`{path}` is not a link")))
    }
}

/// The content of a standard library. A backend decides where the content is stored.
pub trait StandardFiles: Send + Sync + 'static {
    /// A file next to the archive.
    type File;

    /// Reads bytes from the archive. The requested range is within the archive. Returns the number of bytes read.
    ///
    /// # Errors
    /// Fails if the archive is unavailable. The guest then receives the error `io`.
    fn read_archive(&self, offset: u64, into: &mut [u8]) -> Result<usize, SourceError>;

    /// Returns the files of one of the directories next to the archive, by path relative to the library's directory.
    /// Called only when a guest accesses this directory.
    ///
    /// # Errors
    /// Fails if the files are unavailable. The guest then receives the error `io`.
    fn beside(&self, directory: &str) -> Result<&BTreeMap<String, Self::File>, SourceError>;

    /// Returns the length of a file next to the archive, in bytes.
    fn len_of(&self, file: &Self::File) -> u64;

    /// Reads bytes from a file next to the archive. The requested range is within the file. Returns the number of bytes
    /// read.
    ///
    /// # Errors
    /// Fails if the file is unavailable. The guest then receives the error `io`.
    fn read_beside(&self, file: &Self::File, offset: u64, into: &mut [u8]) -> Result<usize, SourceError>;
}

/// A standard library, mounted read-only in every guest of a runtime and outside the guest's quotas.
#[derive(Clone)]
pub struct LibraryMount {
    /// The directory's guest path.
    pub directory: String,
    /// The directory's content.
    pub source: Arc<dyn MountSource>,
}

impl LibraryMount {
    /// Creates a library mount with its archive at `guest_path`. All other files are in the directories `beside`, whose
    /// paths are relative to the archive's directory. These directories can be nested.
    pub fn new<F: StandardFiles>(guest_path: &str, archive_bytes: u64, beside: &[&str], files: F) -> Self {
        // When the runtime was prepared, the path was checked to contain a directory.
        let (directory, name) = guest_path.rsplit_once('/').unwrap_or(("/", guest_path));
        let beside = beside.iter().map(|directory| (*directory).to_owned()).collect();
        let source = StandardLibrary { name: name.to_owned(), archive_bytes, beside, files };
        Self { directory: directory.to_owned(), source: Arc::new(source) }
    }
}

/// A standard library: a directory with an archive of its modules, and the files that are stored outside the archive.
struct StandardLibrary<F> {
    name: String,
    archive_bytes: u64,
    beside: Vec<String>,
    files: F,
}

/// Returns `true` if `path` is `directory` or below it.
fn is_in(path: &str, directory: &str) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the name of the entry in `directory` through which `path` is reached; `None` if `path` is not below
/// `directory`.
fn next<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    let rest = if directory.is_empty() { path } else { path.strip_prefix(directory)?.strip_prefix('/')? };
    rest.split('/').next()
}

fn standard_stat(kind: FileKind, size_bytes: u64, path: &str) -> SourceStat {
    // An FNV-1a hash of the path, so that a file always has the same inode number.
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let identity = FileIdentity { device: 1, inode: path.bytes().fold(0xcbf2_9ce4_8422_2325, hash) };
    SourceStat { kind, size_bytes, modified_ns: BOOT_REALTIME_NS, changed_ns: 0, identity }
}

impl<F: StandardFiles> StandardLibrary<F> {
    /// Returns the files of every directory in `beside` that is or contains `path`.
    fn files_at(&self, path: &str) -> impl Iterator<Item = Result<&BTreeMap<String, F::File>, SourceError>> {
        let directories = self.beside.iter().filter(move |directory| is_in(path, directory));
        directories.map(|directory| self.files.beside(directory))
    }

    fn file(&self, path: &str) -> Result<Option<&F::File>, SourceError> {
        for files in self.files_at(path) {
            if let Some(file) = files?.get(path) {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Returns `true` if `path` is the root, is a directory in `beside`, or contains one.
    fn leads_to_files(&self, path: &str) -> bool {
        path.is_empty() || self.beside.iter().any(|directory| is_in(directory, path))
    }

    fn is_directory(&self, path: &str) -> Result<bool, SourceError> {
        if self.leads_to_files(path) {
            return Ok(true);
        }
        let below = format!("{path}/");
        for files in self.files_at(path) {
            // The range starts with the first file below this prefix, if there is one.
            if files?.range(below.clone()..).next().is_some_and(|(file, _)| file.starts_with(&below)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<F: StandardFiles> MountSource for StandardLibrary<F> {
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError> {
        if !self.is_directory(dir)? {
            return Ok(Vec::new());
        }
        let mut names = BTreeSet::new();
        if dir.is_empty() {
            names.insert(self.name.as_str());
        }
        names.extend(self.beside.iter().filter_map(|beside| next(beside, dir)));
        for files in self.files_at(dir) {
            names.extend(files?.keys().filter_map(|path| next(path, dir)));
        }
        let entry = |name: &str| {
            let path = if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
            Ok(self.stat(&path)?.map(|stat| SourceEntry { name: name.to_owned(), stat }))
        };
        names.into_iter().take(limit.saturating_add(1)).filter_map(|name| entry(name).transpose()).collect()
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        let size_bytes = if path == self.name {
            Some(self.archive_bytes)
        } else if self.leads_to_files(path) {
            // The path is a directory. Searching for a file would read all files next to the archive.
            None
        } else {
            self.file(path)?.map(|file| self.files.len_of(file))
        };
        Ok(match size_bytes {
            Some(size_bytes) => Some(standard_stat(FileKind::File, size_bytes, path)),
            None if self.is_directory(path)? => Some(standard_stat(FileKind::Directory, 0, path)),
            None => None,
        })
    }

    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let is_archive = path == self.name;
        let file = if is_archive { None } else { self.file(path)? };
        let size_bytes = match file {
            _ if is_archive => self.archive_bytes,
            Some(file) => self.files.len_of(file),
            None => return Err(SourceError::new(format!("the library has no file `{path}`"))),
        };
        let left = usize::try_from(size_bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = into.len().min(left);
        let into = into.get_mut(..count).filter(|into| !into.is_empty());
        match (into, file) {
            (None, _) => Ok(0),
            (Some(into), None) => self.files.read_archive(offset, into),
            (Some(into), Some(file)) => self.files.read_beside(file, offset, into),
        }
    }

    fn read_link(&self, path: &str) -> Result<String, SourceError> {
        Err(SourceError::new(format!("`{path}` is not a link")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TwoFiles(Vec<(String, Vec<u8>)>);

    impl LibraryFiles for TwoFiles {
        fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
            Ok(&self.0)
        }
    }

    fn library() -> Library<TwoFiles> {
        Library(TwoFiles(vec![("a.js".into(), b"text".into()), ("sub/b.js".into(), b"more".into())]))
    }

    #[test]
    fn files_and_directories_are_listed_and_read() {
        let library = library();
        let names = |dir: &str| library.list(dir, 9).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(names(""), ["a.js", "sub"]);
        assert_eq!(names("sub"), ["b.js"]);
        assert_eq!(library.stat("sub").unwrap().unwrap().kind, FileKind::Directory);
        assert_eq!(library.stat("sub/b.js").unwrap().unwrap().size_bytes, 4);
        let mut into = [0; 3];
        assert_eq!(library.read("a.js", 2, &mut into).unwrap(), 2);
        assert_eq!(into, *b"xt\0");
        assert_eq!(library.read("a.js", u64::MAX, &mut into).unwrap(), 0);
    }

    #[test]
    fn missing_library_path_is_an_error() {
        let library = library();
        assert_eq!(library.stat("su"), Ok(None));
        assert_eq!(library.stat("a.js/b"), Ok(None));
        assert!(library.read("sub", 0, &mut [0]).is_err());
        assert!(library.read_link("a.js").is_err());
    }

    #[test]
    fn names_with_a_common_prefix_are_distinguished() {
        let names = ["a-b.js", "a.js", "a/b.js", "a/c.js", "a/d/e.js", "a0.js", "ab/c.js"];
        let library = Library(TwoFiles(names.map(|name| (name.to_owned(), Vec::new())).to_vec()));
        let list = |dir: &str, limit| {
            library.list(dir, limit).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>()
        };
        assert_eq!(list("", 9), ["a-b.js", "a.js", "a", "a0.js", "ab"]);
        assert_eq!(list("a", 9), ["b.js", "c.js", "d"]);
        assert_eq!(list("", 2).len(), 3, "one entry above the limit shows that there are more");
        for dir in ["a", "ab", "a/d"] {
            assert_eq!(library.stat(dir).unwrap().unwrap().kind, FileKind::Directory);
        }
        for none in ["a-", "b", "a/b", "a/", ""] {
            assert!(library.stat(none).unwrap().is_some() == none.is_empty(), "{none}");
        }
    }

    type Files = BTreeMap<String, Vec<u8>>;

    /// An archive and, for each directory next to it, the files or the error from reading them.
    struct MemoryLibrary {
        archive: Vec<u8>,
        beside: BTreeMap<String, Result<Files, SourceError>>,
    }

    fn copy(bytes: &[u8], offset: u64, into: &mut [u8]) -> usize {
        let offset = usize::try_from(offset).unwrap();
        // Callers never read beyond the end.
        into.copy_from_slice(&bytes[offset..offset + into.len()]);
        into.len()
    }

    impl StandardFiles for MemoryLibrary {
        type File = Vec<u8>;

        fn read_archive(&self, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
            Ok(copy(&self.archive, offset, into))
        }

        fn beside(&self, directory: &str) -> Result<&BTreeMap<String, Vec<u8>>, SourceError> {
            let Some(files) = self.beside.get(directory) else { panic!("the files of `{directory}` must not be read") };
            files.as_ref().map_err(Clone::clone)
        }

        fn len_of(&self, file: &Vec<u8>) -> u64 {
            file.len() as u64
        }

        fn read_beside(&self, file: &Vec<u8>, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
            Ok(copy(file, offset, into))
        }
    }

    fn files(files: &[(&str, &[u8])]) -> Files {
        files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect()
    }

    fn mounted(directories: &[&str], beside: &[(&str, Result<Files, SourceError>)]) -> LibraryMount {
        let beside = beside.iter().map(|(directory, files)| ((*directory).to_owned(), files.clone())).collect();
        let files = MemoryLibrary { archive: b"library".to_vec(), beside };
        LibraryMount::new("/usr/local/lib/python.zip", 7, directories, files)
    }

    fn with_data() -> Arc<dyn MountSource> {
        let files =
            files(&[("python/a/data/one", b"1"), ("python/a/data/two-and", b""), ("python/a/data/two/three", b"333")]);
        mounted(&["python/a/data"], &[("python/a/data", Ok(files))]).source
    }

    fn names(source: &dyn MountSource, dir: &str) -> Vec<String> {
        source.list(dir, 10).unwrap().into_iter().map(|entry| entry.name).collect()
    }

    #[test]
    fn library_directory_contains_only_the_archive() {
        let LibraryMount { directory, source } = mounted(&[], &[]);
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
    fn archive_is_readable_at_any_offset() {
        let source = mounted(&[], &[]).source;
        for (offset, expected) in [(0, &b"libr"[..]), (4, b"ary"), (7, b""), (u64::MAX, b"")] {
            let mut into = [0; 4];
            let count = source.read("python.zip", offset, &mut into).unwrap();
            assert_eq!(&into[..count], expected, "{offset}");
        }
    }

    #[test]
    fn other_files_are_listed_beside_the_archive() {
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
        for (limit, listed) in [(1, 2), (2, 3), (3, 3), (usize::MAX, 3)] {
            assert_eq!(source.list("python/a/data", limit).unwrap().len(), listed, "{limit}");
        }
        let mut into = [0; 4];
        assert_eq!(source.read("python/a/data/two/three", 1, &mut into).unwrap(), 2);
        assert_eq!(&into[..2], b"33");
        assert_eq!(source.read("python/a/data/two/three", 9, &mut into).unwrap(), 0);
    }

    #[test]
    fn unavailable_library_files_fail_on_lookup() {
        let damaged = Err(SourceError::new("damaged"));
        let source = mounted(&["python/a/data"], &[("python/a/data", damaged)]).source;
        source.stat("python/a/data/one").unwrap_err();
        assert_eq!(source.stat("python/other").unwrap(), None);
        assert!(source.stat("python.zip").unwrap().is_some());
    }

    #[test]
    fn nested_directory_is_read_on_first_access() {
        let sources = files(&[("python/a/code", b"22"), ("python/b", b"1")]);
        let source = mounted(&["python/a/data", "python"], &[("python", Ok(sources.clone()))]).source;
        assert_eq!(names(&*source, "python"), ["a", "b"]);
        assert_eq!(names(&*source, "python/a"), ["code", "data"]);
        assert_eq!(source.stat("python/a/code").unwrap().unwrap().size_bytes, 2);
        assert_eq!(source.stat("python/a/data").unwrap().unwrap().kind, FileKind::Directory);
        assert_eq!(source.stat("python/a/other").unwrap(), None);
        let both = [("python", Ok(sources)), ("python/a/data", Ok(files(&[("python/a/data/one", b"1")])))];
        let source = mounted(&["python/a/data", "python"], &both).source;
        assert_eq!(names(&*source, "python/a/data"), ["one"]);
        let mut into = [0; 4];
        assert_eq!(source.read("python/a/data/one", 0, &mut into).unwrap(), 1);
        assert_eq!(source.read("python/a/code", 0, &mut into).unwrap(), 2);
    }
}
