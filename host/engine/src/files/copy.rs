//! Copies files between a workspace and the host.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use glovebox_core::files::{WalkedEntry, entry_path, inside_path, path_bytes, walk};
use glovebox_vfs::{
    CommitStep, FileKind, Follow, InodeId, MountSource as _, OpenOptions, SourceError, SourceStat, Vfs, VfsError,
};
use serde::Serialize;

use crate::{
    files::{FileError, FilesError, IfExists},
    mount::{self, DEFAULT_LOCK_WAIT, DirectoryScope, HostDirectory},
};

/// A host path from the caller, with its type.
enum HostTarget<'p> {
    Directory,
    /// A file: its parent directory and its name.
    File(&'p Path, &'p str),
}

fn host_path(path: &Path) -> FilesError {
    FilesError::HostPath { path: path.to_owned() }
}

fn host_missing(path: &Path) -> FilesError {
    FilesError::HostMissing { path: path.to_owned() }
}

/// Returns a host path's type, without following links. Returns `None` if the path does not exist.
fn host_target(host: &Path) -> Result<Option<HostTarget<'_>>, FilesError> {
    match fs::symlink_metadata(host) {
        Ok(metadata) if metadata.is_symlink() => Err(FilesError::HostLink { path: host.to_owned() }),
        Ok(metadata) if metadata.is_dir() => Ok(Some(HostTarget::Directory)),
        Ok(metadata) if metadata.is_file() => Ok(Some(file_place(host)?)),
        Ok(_) => Err(host_path(host)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FilesError::io("inspect the path on the host")(error)),
    }
}

fn file_place(host: &Path) -> Result<HostTarget<'_>, FilesError> {
    let name = host.file_name().and_then(|name| name.to_str()).ok_or_else(|| host_path(host))?;
    let dir = host.parent().ok_or_else(|| host_path(host))?;
    Ok(HostTarget::File(if dir.as_os_str().is_empty() { Path::new(".") } else { dir }, name))
}

/// A sequential reader of a file in a host directory.
struct HostFile<'h> {
    directory: &'h HostDirectory,
    path: &'h str,
    at: u64,
    failed: Option<SourceError>,
}

impl Read for HostFile<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.directory.read(self.path, self.at, into) {
            Ok(read) => {
                self.at = self.at.saturating_add(read as u64);
                Ok(read)
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::ErrorKind::Other.into())
            }
        }
    }
}

/// Copies a host file or directory to `to`, below the workspace directory `top`.
pub(super) fn from_host(
    vfs: &mut Vfs,
    top: InodeId,
    host: &Path,
    to: &str,
    if_exists: IfExists,
) -> Result<CopyReport, FilesError> {
    match host_target(host)? {
        None => Err(host_missing(host)),
        Some(HostTarget::File(dir, name)) => {
            let to = entry_path(to)?;
            let directory = HostDirectory::open_in_scope(dir, DirectoryScope::Files)?;
            let stat = directory.stat(name).map_err(host_read(host))?.ok_or_else(|| host_missing(host))?;
            if stat.kind != FileKind::File {
                return Err(host_path(host));
            }
            let mut placer = TreeWriter::new(vfs, top, if_exists, "write");
            copy_file(&mut placer, &directory, host, name, &to, stat.size_bytes)?;
            Ok(placer.report)
        }
        Some(HostTarget::Directory) => {
            let to = inside_path(to)?;
            let max_entries = usize::try_from(vfs.limits().inodes).unwrap_or(usize::MAX);
            let placer = TreeWriter::new(vfs, top, if_exists, "write");
            copy_tree(placer, &HostDirectory::open(host)?, host, &to, max_entries)
        }
    }
}

fn host_read(host: &Path) -> impl FnOnce(SourceError) -> FilesError + use<> {
    let path = host.to_owned();
    move |source| FilesError::HostRead { path, source }
}

fn copy_file(
    placer: &mut TreeWriter<'_>,
    directory: &HostDirectory,
    host: &Path,
    from: &str,
    to: &str,
    size_bytes: u64,
) -> Result<(), FilesError> {
    let mut contents = HostFile { directory, path: from, at: 0, failed: None };
    let copied = placer.file(to, size_bytes, None, &mut contents);
    match contents.failed {
        Some(source) => Err(host_read(host)(source)),
        None => copied,
    }
}

fn copy_tree(
    mut placer: TreeWriter<'_>,
    directory: &HostDirectory,
    host: &Path,
    to: &str,
    max_entries: usize,
) -> Result<CopyReport, FilesError> {
    let join = |dir: &str, name: &str| if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") };
    let mut entries_left = max_entries;
    let mut dirs = vec![String::new()];
    while let Some(dir) = dirs.pop() {
        if dir.is_empty() {
            placer.directories(to)?;
        } else {
            placer.directory(&join(to, &dir))?;
        }
        let mut entries = directory.list(&dir, entries_left).map_err(host_read(host))?;
        // Fails if there are more entries than the workspace can contain, regardless of their sizes.
        entries_left = entries_left
            .checked_sub(entries.len())
            .ok_or(VfsError::NoSpace)
            .map_err(FilesError::refused("write", to))?;
        // Sort by name, because the host's listing order depends on the machine.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let from = join(&dir, &entry.name);
            let target = join(to, &from);
            match entry.stat.kind {
                FileKind::Directory => dirs.push(from),
                FileKind::File => copy_file(&mut placer, directory, host, &from, &target, entry.stat.size_bytes)?,
                FileKind::Symlink => {
                    // A link target that is not UTF-8 cannot be represented.
                    match directory.read_link(&from) {
                        Ok(link) => drop(placer.link(&target, link.as_bytes())?),
                        Err(_) => placer.report.skipped_count += 1,
                    }
                }
            }
        }
    }
    let skipped = directory.skipped();
    placer.report.skipped_count += skipped.not_utf8_count + skipped.special_count;
    Ok(placer.report)
}

/// Copies a workspace file or directory to the host, with a journaled commit, as for mounts.
pub(super) fn to_host(
    vfs: &mut Vfs,
    top: InodeId,
    from: &str,
    host: &Path,
    if_exists: IfExists,
) -> Result<CopyReport, FilesError> {
    let from = inside_path(from)?;
    let refused = || FilesError::refused("read", &from);
    let source = vfs.lookup(top, path_bytes(&from), Follow::Yes).map_err(refused())?;
    let stat = vfs.stat(source).map_err(refused())?;
    let mut made = None;
    let mut plan = CopyPlan { if_exists, steps: Vec::new(), report: CopyReport::default() };
    let directory = if stat.kind == FileKind::Directory {
        match host_target(host)? {
            Some(HostTarget::Directory) => {}
            Some(HostTarget::File(..)) => {
                return Err(FilesError::Workspace(FileError::Exists { path: host.display().to_string() }));
            }
            None => {
                fs::create_dir(host).map_err(FilesError::io("create the directory on the host"))?;
                made = Some(host.to_owned());
            }
        }
        HostDirectory::open_for_writing(host, DEFAULT_LOCK_WAIT)?
    } else {
        let place = match host_target(host)? {
            Some(place) => place,
            None => file_place(host)?,
        };
        let HostTarget::File(dir, name) = place else {
            return Err(FilesError::Workspace(FileError::Exists { path: host.display().to_string() }));
        };
        let directory = HostDirectory::open_for_writing_in_scope(dir, DirectoryScope::Files, DEFAULT_LOCK_WAIT)?;
        plan.file(vfs, &directory, name, source)?;
        return plan.carry_out(vfs, &directory);
    };
    let carried = plan.tree(vfs, &directory, source, &from).and_then(|()| plan.carry_out(vfs, &directory));
    if carried.is_err()
        && let Some(made) = made
    {
        // The directory is empty, because the commit changed nothing. An empty directory that cannot be removed is
        // harmless.
        let _ = fs::remove_dir::<PathBuf>(made);
    }
    carried
}

/// The planned steps of a copy to the host.
struct CopyPlan {
    if_exists: IfExists,
    steps: Vec<CommitStep>,
    report: CopyReport,
}

impl CopyPlan {
    fn tree(&mut self, vfs: &mut Vfs, host: &HostDirectory, top: InodeId, from: &str) -> Result<(), FilesError> {
        let found = walk(vfs, top, usize::MAX);
        let found = found.map_err(|(path, error)| FilesError::refused("list", &format!("{from}/{path}"))(error))?;
        let mut files = Vec::new();
        // Directories first: a commit requires this order.
        for WalkedEntry { path, inode, kind } in found {
            if mount::is_reserved_path(&path) {
                self.report.skipped_count += 1;
            } else if kind != FileKind::Directory {
                files.push((path, inode, kind));
            } else {
                let is_there = matches!(host.stat(&path), Ok(Some(stat)) if stat.kind == FileKind::Directory);
                self.report.directory_count += 1;
                if !is_there {
                    self.steps.push(CommitStep::CreateDir { path });
                }
            }
        }
        for (path, inode, kind) in files {
            match kind {
                FileKind::Symlink => self.link(vfs, host, top, path)?,
                _ => self.file(vfs, host, &path, inode)?,
            }
        }
        Ok(())
    }

    /// Returns the expected state of a host file: its current state, or `None` if it does not exist. The commit fails
    /// if the file no longer has this state. This function fails if the file exists and must not be replaced.
    fn base(&self, host: &HostDirectory, path: &str) -> Result<Option<SourceStat>, FilesError> {
        match host.stat(path) {
            Ok(Some(_)) if self.if_exists == IfExists::Fail => {
                Err(FilesError::Workspace(FileError::Exists { path: path.to_owned() }))
            }
            Ok(found) => Ok(found),
            // The commit expects no entry at the path, so it replaces nothing. If the error persists, the commit reports
            // it.
            Err(_) => Ok(None),
        }
    }

    fn file(&mut self, vfs: &Vfs, host: &HostDirectory, path: &str, inode: InodeId) -> Result<(), FilesError> {
        let base = self.base(host, path)?;
        let stat = vfs.stat(inode).map_err(FilesError::refused("read", path))?;
        self.report.file_count += 1;
        self.report.bytes = self.report.bytes.saturating_add(stat.size_bytes);
        self.steps.push(CommitStep::WriteFile {
            path: path.to_owned(),
            inode,
            size_bytes: stat.size_bytes,
            modified_ns: stat.modified_ns,
            base,
        });
        Ok(())
    }

    fn link(&mut self, vfs: &mut Vfs, host: &HostDirectory, top: InodeId, path: String) -> Result<(), FilesError> {
        let target = vfs.read_link(top, path.as_bytes()).map_err(FilesError::refused("read", &path))?;
        if mount::link_can_escape(&path, &target) {
            self.report.skipped_count += 1;
            return Ok(());
        }
        let base = self.base(host, &path)?;
        self.report.link_count += 1;
        self.steps.push(CommitStep::Symlink { path, target, escapes: false, base });
        Ok(())
    }

    /// Commits the copy. Each hard link becomes a separate file on the host.
    fn carry_out(self, vfs: &mut Vfs, host: &HostDirectory) -> Result<CopyReport, FilesError> {
        host.commit_within_quotas(&self.steps, vfs)?;
        Ok(self.report)
    }
}

/// Statistics of a copy or an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CopyReport {
    /// The number of files. Each hard link counts as a file.
    pub file_count: u64,
    /// The number of directories, including existing directories, but not the target directory itself.
    pub directory_count: u64,
    /// The number of symbolic links.
    pub link_count: u64,
    /// The size of the file contents in bytes.
    pub bytes: u64,
    /// The number of skipped entries. Copies from the host skip pipes, sockets, devices, names and link targets that
    /// are not UTF-8, and links with an absolute target. Imports of archives skip only links with an absolute target.
    /// Copies to the host skip links that would point outside the target directory, and names that are reserved for
    /// commits.
    pub skipped_count: u64,
}

/// The buffer size for copying contents, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// A writer that creates files, directories and links below one directory of a workspace, without following links.
pub(super) struct TreeWriter<'v> {
    vfs: &'v mut Vfs,
    top: InodeId,
    if_exists: IfExists,
    action: &'static str,
    /// The paths of the files and links created so far. A path that occurs twice is rejected even if files may be
    /// replaced: readers of archives disagree on the valid entry.
    placed: BTreeSet<String>,
    buffer: Vec<u8>,
    pub(super) report: CopyReport,
}

impl<'v> TreeWriter<'v> {
    /// Creates a writer for entries below `top`. `action` is a verb for error messages, such as `import`.
    pub(super) fn new(vfs: &'v mut Vfs, top: InodeId, if_exists: IfExists, action: &'static str) -> Self {
        let report = CopyReport::default();
        Self { vfs, top, if_exists, action, placed: BTreeSet::new(), buffer: Vec::new(), report }
    }

    /// Creates a directory and its missing ancestors, and adds the directory to the report. An existing directory is
    /// not an error.
    pub(super) fn directory(&mut self, path: &str) -> Result<(), FilesError> {
        self.directories(path)?;
        self.report.directory_count += 1;
        Ok(())
    }

    /// Creates a directory and its missing ancestors.
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

    /// Returns the type of the entry at a path, without following a link at its end. This writer created or checked the
    /// ancestors of the path, so the ancestors are not links.
    fn kind(&mut self, path: &str) -> Result<Option<FileKind>, FilesError> {
        match self.vfs.lookup(self.top, path.as_bytes(), Follow::No).and_then(|inode| self.vfs.stat(inode)) {
            Ok(stat) => Ok(Some(stat.kind)),
            Err(VfsError::NotFound) => Ok(None),
            Err(error) => Err(self.refused(path)(error)),
        }
    }

    /// Prepares a path for a new file or link. Creates its missing ancestors. Removes an existing file or link if it
    /// may be replaced.
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
            // Remove the existing file instead of overwriting it, because it may have other names.
            Some(_) => self.vfs.unlink(self.top, path.as_bytes()).map_err(self.refused(path)),
        }
    }

    /// Creates a file of exactly `size_bytes` bytes. Charges the whole size to the quota before reading the first byte.
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
                    return Err(FilesError::io("read to the end of a file")(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(read) => read.min(want),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FilesError::io("read a file's contents")(error)),
            };
            let data = buffer.get(..read).unwrap_or_default();
            self.vfs.write_at(inode, done, data).map_err(FilesError::refused(self.action, path))?;
            done = done.saturating_add(read as u64);
        }
        self.report.bytes = self.report.bytes.saturating_add(done);
        Ok(())
    }

    /// Creates a link. Returns `false` and skips a link with an absolute target, which the guest could not have
    /// created.
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

    /// Adds a hard link to a file that this writer created.
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

    /// Sets an entry's modification time. For a directory, call this after adding all of its entries.
    pub(super) fn set_modified(&mut self, path: &str, modified_ns: u64) -> Result<(), FilesError> {
        let inode = self.vfs.lookup(self.top, path.as_bytes(), Follow::No).map_err(self.refused(path))?;
        self.vfs.set_times(inode, None, Some(modified_ns)).map_err(self.refused(path))
    }

    fn refused(&self, path: &str) -> impl FnOnce(VfsError) -> FilesError + use<> {
        FilesError::refused(self.action, path)
    }
}
