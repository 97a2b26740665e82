//! The library: read-only files in every guest, next to its workspace and outside its quotas.

use glovebox_vfs::{FileIdentity, FileKind, MountSource, SourceEntry, SourceError, SourceStat};

use crate::BOOT_REALTIME_NS;

/// The guest path of the library of JavaScript packages.
pub const LIBRARY_PATH: &str = "/data_js";

/// The guest path of the Python packages.
pub const PACKAGES_PATH: &str = "/app/site-packages";

/// The files of the library. A backend decides where they come from.
pub trait LibraryFiles: Send + Sync {
    /// Returns the files by path, such as `a/b.js`, sorted.
    ///
    /// # Errors
    /// The files are unavailable; the guest sees `io`.
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError>;
}

/// A fixed list of files.
impl LibraryFiles for Vec<(String, Vec<u8>)> {
    fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
        Ok(self)
    }
}

/// The library as a directory tree.
#[derive(Debug)]
pub struct Library<F>(pub F);

enum Found<'a> {
    File(usize, &'a [u8]),
    Directory,
}

/// Returns the index of the first file below a directory, whose `prefix` ends in a slash.
fn start_of(files: &[(String, Vec<u8>)], prefix: &str) -> usize {
    files.partition_point(|(name, _)| name.as_str() < prefix)
}

fn find<'a>(files: &'a [(String, Vec<u8>)], path: &str) -> Option<Found<'a>> {
    if let Ok(at) = files.binary_search_by(|(name, _)| name.as_str().cmp(path)) {
        return files.get(at).map(|(_, bytes)| Found::File(at, bytes));
    }
    let prefix = format!("{path}/");
    let below = files.get(start_of(files, &prefix)).is_some_and(|(name, _)| name.starts_with(&prefix));
    below.then_some(Found::Directory)
}

fn stat_of(files: &[(String, Vec<u8>)], path: &str) -> Option<SourceStat> {
    Some(match find(files, path)? {
        Found::Directory => directory(),
        Found::File(at, bytes) => SourceStat {
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
            // The files below one directory are adjacent.
            if entries.last().is_none_or(|last| last.name != name) && entries.len() <= limit {
                let stat = stat_of(files, &format!("{prefix}{name}"));
                entries.extend(stat.map(|stat| SourceEntry { name: name.to_owned(), stat }));
            }
        }
        Ok(entries)
    }

    fn stat(&self, path: &str) -> Result<Option<SourceStat>, SourceError> {
        // Every guest asks for the root, and the answer needs no unpacked files.
        Ok(if path.is_empty() { Some(directory()) } else { stat_of(self.0.files()?, path) })
    }

    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let Some(Found::File(_, bytes)) = find(self.0.files()?, path) else {
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Two(Vec<(String, Vec<u8>)>);

    impl LibraryFiles for Two {
        fn files(&self) -> Result<&[(String, Vec<u8>)], SourceError> {
            Ok(&self.0)
        }
    }

    fn library() -> Library<Two> {
        Library(Two(vec![("a.js".into(), b"text".into()), ("sub/b.js".into(), b"more".into())]))
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
    fn what_is_not_there_is_an_error() {
        let library = library();
        assert_eq!(library.stat("su"), Ok(None));
        assert_eq!(library.stat("a.js/b"), Ok(None));
        assert!(library.read("sub", 0, &mut [0]).is_err());
        assert!(library.read_link("a.js").is_err());
    }

    #[test]
    fn names_that_begin_alike_are_told_apart() {
        let names = ["a-b.js", "a.js", "a/b.js", "a/c.js", "a/d/e.js", "a0.js", "ab/c.js"];
        let library = Library(Two(names.map(|name| (name.to_owned(), Vec::new())).to_vec()));
        let list = |dir: &str, limit| {
            library.list(dir, limit).unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>()
        };
        assert_eq!(list("", 9), ["a-b.js", "a.js", "a", "a0.js", "ab"]);
        assert_eq!(list("a", 9), ["b.js", "c.js", "d"]);
        assert_eq!(list("", 2).len(), 3, "one more than asked for says that there are more");
        for dir in ["a", "ab", "a/d"] {
            assert_eq!(library.stat(dir).unwrap().unwrap().kind, FileKind::Directory);
        }
        for none in ["a-", "b", "a/b", "a/", ""] {
            assert!(library.stat(none).unwrap().is_some() == none.is_empty(), "{none}");
        }
    }
}
