//! Adds foreign files to a workspace.

use std::collections::BTreeSet;
use std::io::Read;

use glovebox_vfs::{FileKind, Follow, InodeId, OpenOptions, Vfs, VfsError};

use super::{CopyReport, FileError, FilesError, IfExists};

/// Buffer size for copying contents.
const BUFFER_BYTES: usize = 256 << 10;

/// Creates files, directories and links below one directory of a workspace, without following links.
pub(super) struct Placer<'v> {
    vfs: &'v mut Vfs,
    top: InodeId,
    if_exists: IfExists,
    action: &'static str,
    /// Paths of the files and links created so far. A name that occurs twice is refused even if files may be replaced,
    /// because readers disagree on which of the two counts.
    placed: BTreeSet<String>,
    buffer: Vec<u8>,
    pub(super) report: CopyReport,
}

impl<'v> Placer<'v> {
    /// `action` is for messages, such as `import`.
    pub(super) fn new(vfs: &'v mut Vfs, top: InodeId, if_exists: IfExists, action: &'static str) -> Self {
        let report = CopyReport::default();
        Self { vfs, top, if_exists, action, placed: BTreeSet::new(), buffer: Vec::new(), report }
    }

    /// Creates a directory and its parents, and counts it. An existing directory is not an error.
    pub(super) fn directory(&mut self, path: &str) -> Result<(), FilesError> {
        self.directories(path)?;
        self.report.directory_count += 1;
        Ok(())
    }

    /// Creates a directory and its parents.
    pub(super) fn directories(&mut self, path: &str) -> Result<(), FilesError> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends.filter(|end| *end > 0) {
            let Some(dir) = path.get(..end) else { continue };
            match self.vfs.create_dir(self.top, dir.as_bytes()) {
                Ok(_) => {}
                Err(VfsError::AlreadyExists) => match self.kind(dir)? {
                    Some(FileKind::Directory) => {}
                    _ => return Err(self.refused(dir)(VfsError::NotADirectory)),
                },
                Err(error) => return Err(self.refused(dir)(error)),
            }
        }
        Ok(())
    }

    /// Returns the kind of the entry at a path, without following a link at the end. The parents were created here, so
    /// they are no links.
    fn kind(&mut self, path: &str) -> Result<Option<FileKind>, FilesError> {
        match self.vfs.lookup(self.top, path.as_bytes(), Follow::No).and_then(|inode| self.vfs.stat(inode)) {
            Ok(stat) => Ok(Some(stat.kind)),
            Err(VfsError::NotFound) => Ok(None),
            Err(error) => Err(self.refused(path)(error)),
        }
    }

    /// Frees a name for a new file or link: creates its parents, and removes an existing file or link if it may be
    /// replaced.
    fn claim(&mut self, path: &str) -> Result<(), FilesError> {
        let (dir, _) = path.rsplit_once('/').unwrap_or(("", path));
        self.directories(dir)?;
        let is_new = self.placed.insert(path.to_owned());
        match self.kind(path)? {
            None => Ok(()),
            Some(FileKind::Directory) => Err(self.refused(path)(VfsError::IsADirectory)),
            Some(_) if self.if_exists == IfExists::Fail || !is_new => {
                Err(FilesError::Workspace(FileError::Exists { path: path.to_owned() }))
            }
            // Replace the file itself instead of its contents: the old file may have other names.
            Some(_) => self.vfs.unlink(self.top, path.as_bytes()).map_err(self.refused(path)),
        }
    }

    /// Creates a file of exactly `size_bytes` bytes. Charges the quota for all of them before reading the first.
    pub(super) fn file(
        &mut self,
        path: &str,
        size_bytes: u64,
        modified_ns: Option<u64>,
        contents: &mut dyn Read,
    ) -> Result<(), FilesError> {
        self.claim(path)?;
        let options = OpenOptions { create: true, exclusive: true, write: true, ..OpenOptions::default() };
        let opened = self.vfs.open(self.top, path.as_bytes(), options).map_err(self.refused(path))?;
        let filled = self.fill(path, opened.inode, size_bytes, contents);
        let timed = match modified_ns {
            Some(_) => self.vfs.set_times(opened.inode, None, modified_ns).map_err(self.refused(path)),
            None => Ok(()),
        };
        self.vfs.release(opened.inode);
        self.report.file_count += 1;
        filled.and(timed)
    }

    fn fill(&mut self, path: &str, inode: InodeId, size_bytes: u64, contents: &mut dyn Read) -> Result<(), FilesError> {
        self.vfs.set_len(inode, size_bytes).map_err(self.refused(path))?;
        self.buffer.resize(BUFFER_BYTES, 0);
        let mut done = 0_u64;
        while done < size_bytes {
            let want = usize::try_from(size_bytes - done).unwrap_or(usize::MAX).min(BUFFER_BYTES);
            let buffer = self.buffer.get_mut(..want).unwrap_or_default();
            let read = match contents.read(buffer) {
                Ok(0) => {
                    return Err(FilesError::io("read to the end of a file")(std::io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(read) => read.min(want),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FilesError::io("read a file's contents")(error)),
            };
            let data = buffer.get(..read).unwrap_or_default();
            self.vfs.write_at(inode, done, data).map_err(FilesError::refused(self.action, path))?;
            done = done.saturating_add(read as u64);
        }
        self.report.bytes = self.report.bytes.saturating_add(done);
        Ok(())
    }

    /// Creates a link. Skips a link with an absolute target and returns `false`: the guest could not have created it.
    pub(super) fn link(&mut self, path: &str, target: &[u8]) -> Result<bool, FilesError> {
        if target.starts_with(b"/") {
            self.report.skipped_count += 1;
            return Ok(false);
        }
        self.claim(path)?;
        self.vfs.symlink(target, self.top, path.as_bytes()).map_err(self.refused(path))?;
        self.report.link_count += 1;
        Ok(true)
    }

    /// Adds a name to a file that was created here.
    pub(super) fn hard_link(&mut self, path: &str, first: &str) -> Result<(), FilesError> {
        if path == first || !self.placed.contains(first) {
            return Err(self.refused(first)(VfsError::NotFound));
        }
        self.claim(path)?;
        let linked = self.vfs.link(self.top, first.as_bytes(), Follow::No, self.top, path.as_bytes());
        linked.map_err(self.refused(path))?;
        self.report.file_count += 1;
        Ok(())
    }

    /// Sets a directory's modification time. Call it when its contents are complete.
    pub(super) fn set_modified(&mut self, path: &str, modified_ns: u64) -> Result<(), FilesError> {
        let inode = self.vfs.lookup(self.top, path.as_bytes(), Follow::No).map_err(self.refused(path))?;
        self.vfs.set_times(inode, None, Some(modified_ns)).map_err(self.refused(path))
    }

    fn refused(&self, path: &str) -> impl FnOnce(VfsError) -> FilesError + use<> {
        FilesError::refused(self.action, path)
    }
}
