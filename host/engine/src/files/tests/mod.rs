//! Tests of reading, changing and copying workspace files.

mod archives;
mod changing;
mod copying;
mod hostile_archives;
mod reading;

use glovebox_core::files::change;
use glovebox_vfs::{Access, Follow, InodeId, RootId, Vfs, VfsError, VfsLimits};

use super::{FileError, Files, FilesError, IfExists, archive, copy};

/// A workspace, initially empty.
struct Space {
    vfs: Vfs,
    root: RootId,
}

impl Space {
    fn new() -> Self {
        Self::with(VfsLimits::default())
    }

    fn with(limits: VfsLimits) -> Self {
        let mut vfs = Vfs::new(limits);
        let root = vfs.add_root(Access::ReadWrite);
        vfs.set_now_ns(1_700_000_000_123_456_789);
        Self { vfs, root }
    }

    /// Creates a workspace with these files, given by path and contents.
    fn holding(files: &[(&str, &str)]) -> Self {
        let mut space = Self::new();
        for (path, contents) in files {
            space.write(path, contents);
        }
        space
    }

    fn top(&self) -> InodeId {
        self.vfs.root_dir(self.root).unwrap()
    }

    fn write(&mut self, path: &str, contents: &str) {
        self.vfs.write_file(self.root, path, contents.as_bytes()).unwrap();
    }

    fn link(&mut self, path: &str, target: &str) {
        let top = self.top();
        self.vfs.symlink(target.as_bytes(), top, path.as_bytes()).unwrap();
    }

    fn hard_link(&mut self, path: &str, target: &str) {
        let top = self.top();
        self.vfs.link(top, target.as_bytes(), Follow::No, top, path.as_bytes()).unwrap();
    }

    fn files(&self) -> Files {
        Files::of(self.vfs.clone(), Some(self.root))
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(self.files().read(path).unwrap()).unwrap()
    }

    /// Lists all paths in ascending order.
    fn paths(&self) -> Vec<String> {
        self.files().list("**").unwrap().into_iter().map(|entry| entry.path).collect()
    }

    fn export(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.files().export_tar(&mut bytes).unwrap();
        bytes
    }

    fn import(&mut self, archive: &[u8], if_exists: IfExists) -> Result<super::CopyReport, FilesError> {
        let top = self.top();
        change::atomically(&mut self.vfs, |vfs| archive::import(vfs, top, archive, if_exists))
    }

    fn copy_in(
        &mut self,
        host: &std::path::Path,
        to: &str,
        if_exists: IfExists,
    ) -> Result<super::CopyReport, FilesError> {
        let top = self.top();
        change::atomically(&mut self.vfs, |vfs| copy::from_host(vfs, top, host, to, if_exists))
    }

    fn put(&mut self, path: &str, contents: &str, if_exists: IfExists) -> Result<(), FilesError> {
        let root = self.root;
        Ok(change::atomically(&mut self.vfs, |vfs| change::write(vfs, root, path, contents.as_bytes(), if_exists))?)
    }

    fn delete(&mut self, path: &str) -> Result<(), FilesError> {
        let root = self.root;
        Ok(change::atomically(&mut self.vfs, |vfs| change::delete(vfs, root, path))?)
    }

    fn delete_all(&mut self, path: &str) -> Result<(), FilesError> {
        let root = self.root;
        Ok(change::atomically(&mut self.vfs, |vfs| change::delete_all(vfs, root, path))?)
    }

    fn rename(&mut self, from: &str, to: &str, if_exists: IfExists) -> Result<(), FilesError> {
        let root = self.root;
        Ok(change::atomically(&mut self.vfs, |vfs| change::rename(vfs, root, from, to, if_exists))?)
    }
}

/// Returns the error from the file system. Panics on any other result.
fn refusal<T: std::fmt::Debug>(result: Result<T, FilesError>) -> VfsError {
    match result {
        Err(FilesError::Workspace(FileError::Refused { source, .. })) => source,
        other => panic!("not refused by the file system: {other:?}"),
    }
}
