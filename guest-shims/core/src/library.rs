//! The files that every guest finds beside its workspace, read-only and outside of its quotas.

use glovebox_vfs::{FileIdentity, FileKind, MountSource, SourceEntry, SourceError, SourceStat};

use crate::BOOT_REALTIME_NS;

/// The guest path of the library: JavaScript's packages.
pub const LIBRARY_PATH: &str = "/data_js";

/// What is in the library. A backend says how it comes by the files.
pub trait LibraryFiles: Send + Sync {
    /// The files by their paths, such as `a/b.js`, sorted.
    fn files(&self) -> &[(String, Vec<u8>)];
}

/// The library as a directory tree.
#[derive(Debug)]
pub struct Library<F>(pub F);

/// What a path is.
enum Found<'a> {
    File(usize, &'a [u8]),
    Directory,
}

impl<F: LibraryFiles> Library<F> {
    fn find(&self, path: &str) -> Option<Found<'_>> {
        let files = self.0.files();
        if let Some((at, (_, bytes))) = files.iter().enumerate().find(|(_, (name, _))| name == path) {
            return Some(Found::File(at, bytes));
        }
        let is_above = |name: &str| name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        files.iter().any(|(name, _)| is_above(name)).then_some(Found::Directory)
    }

    fn stat_of(&self, path: &str) -> Result<SourceStat, SourceError> {
        match self.find(path) {
            Some(Found::Directory) => Ok(directory()),
            Some(Found::File(at, bytes)) => Ok(SourceStat {
                kind: FileKind::File,
                size_bytes: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
                modified_ns: BOOT_REALTIME_NS,
                identity: FileIdentity { device: 1, inode: u64::try_from(at).unwrap_or(u64::MAX).saturating_add(1) },
            }),
            None => Err(SourceError::new(format!("the library has no `{path}`"))),
        }
    }
}

fn directory() -> SourceStat {
    SourceStat {
        kind: FileKind::Directory,
        size_bytes: 0,
        modified_ns: BOOT_REALTIME_NS,
        identity: FileIdentity { device: 1, inode: 0 },
    }
}

impl<F: LibraryFiles> MountSource for Library<F> {
    fn list(&self, dir: &str, limit: usize) -> Result<Vec<SourceEntry>, SourceError> {
        let prefix = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let mut entries: Vec<SourceEntry> = Vec::new();
        for (path, _) in self.0.files() {
            let Some(name) = path.strip_prefix(&prefix).and_then(|rest| rest.split('/').next()) else { continue };
            if entries.last().is_none_or(|last| last.name != name) && entries.len() <= limit {
                entries.push(SourceEntry { name: name.to_owned(), stat: self.stat_of(&format!("{prefix}{name}"))? });
            }
        }
        Ok(entries)
    }

    fn stat(&self, path: &str) -> Result<SourceStat, SourceError> {
        // Asked of every guest: the files need not be unpacked for it.
        if path.is_empty() { Ok(directory()) } else { self.stat_of(path) }
    }

    fn read(&self, path: &str, offset: u64, into: &mut [u8]) -> Result<usize, SourceError> {
        let Some(Found::File(_, bytes)) = self.find(path) else {
            return Err(SourceError::new(format!("the library has no file `{path}`")));
        };
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let (from, to) = (rest.iter(), into.iter_mut());
        Ok(to.zip(from).map(|(to, from)| *to = *from).count())
    }

    fn read_link(&self, path: &str) -> Result<String, SourceError> {
        Err(SourceError::new(format!("`{path}` is no link")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two(Vec<(String, Vec<u8>)>);

    impl LibraryFiles for Two {
        fn files(&self) -> &[(String, Vec<u8>)] {
            &self.0
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
        assert_eq!(library.stat("sub").unwrap().kind, FileKind::Directory);
        assert_eq!(library.stat("sub/b.js").unwrap().size_bytes, 4);
        let mut into = [0; 3];
        assert_eq!(library.read("a.js", 2, &mut into).unwrap(), 2);
        assert_eq!(into, *b"xt\0");
        assert_eq!(library.read("a.js", u64::MAX, &mut into).unwrap(), 0);
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let library = library();
        assert!(library.stat("su").is_err());
        assert!(library.stat("a.js/b").is_err());
        assert!(library.read("sub", 0, &mut [0]).is_err());
        assert!(library.read_link("a.js").is_err());
    }
}
