//! Copies from a workspace to the host.

use std::fs;
use std::path::{Path, PathBuf};

use glovebox_core::files::{path, walk};
use glovebox_vfs::{CommitStep, FileKind, Follow, InodeId, MountSource as _, SourceStat, Vfs, VfsLimits};

use super::{Place, file_place, place};
use crate::files::{CopyReport, FilesError, IfExists};
use crate::mount::{self, DEFAULT_LOCK_WAIT, HostDirectory, MountError, Reach};

/// Copies a file or directory of the workspace to the host, with the journaled commit of mounts.
pub(in crate::files) fn out_of(
    vfs: &mut Vfs,
    top: InodeId,
    from: &str,
    host: &Path,
    if_exists: IfExists,
) -> Result<CopyReport, FilesError> {
    let from = path::inside(from)?;
    let refused = || FilesError::refused("read", &from);
    let source = vfs.lookup(top, path::bytes(&from), Follow::Yes).map_err(refused())?;
    let stat = vfs.stat(source).map_err(refused())?;
    let mut made = None;
    let mut plan = Plan { if_exists, steps: Vec::new(), report: CopyReport::default() };
    let directory = if stat.kind == FileKind::Directory {
        match place(host)? {
            Some(Place::Directory) => {}
            Some(Place::File(..)) => return Err(FilesError::Exists { path: host.display().to_string() }),
            None => {
                fs::create_dir(host).map_err(FilesError::io("make the directory on the host"))?;
                made = Some(host.to_owned());
            }
        }
        HostDirectory::open_for_writing(host, DEFAULT_LOCK_WAIT)?
    } else {
        let place = match place(host)? {
            Some(place) => place,
            None => file_place(host)?,
        };
        let Place::File(dir, name) = place else {
            return Err(FilesError::Exists { path: host.display().to_string() });
        };
        let directory = HostDirectory::open_for_writing_reaching(dir, Reach::Files, DEFAULT_LOCK_WAIT)?;
        plan.file(vfs, &directory, name, source)?;
        return plan.carry_out(vfs, &directory);
    };
    let carried = plan.tree(vfs, &directory, source, &from).and_then(|()| plan.carry_out(vfs, &directory));
    if carried.is_err()
        && let Some(made) = made
    {
        // The directory is empty, because the commit changed nothing. It does no harm if it cannot be removed.
        let _ = fs::remove_dir::<PathBuf>(made);
    }
    carried
}

/// The planned steps of a copy to the host.
struct Plan {
    if_exists: IfExists,
    steps: Vec<CommitStep>,
    report: CopyReport,
}

impl Plan {
    fn tree(&mut self, vfs: &mut Vfs, host: &HostDirectory, top: InodeId, from: &str) -> Result<(), FilesError> {
        let found = walk::below(vfs, top, usize::MAX);
        let found = found.map_err(|(path, error)| FilesError::refused("list", &format!("{from}/{path}"))(error))?;
        let mut files = Vec::new();
        // Directories first: a commit's steps have that order.
        for walk::Walked { path, inode, kind } in found {
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

    /// Returns the expected state of a host file: its current state if it may be replaced, otherwise none. The commit
    /// fails if the host changes the file meanwhile.
    fn base(&self, host: &HostDirectory, path: &str) -> Result<Option<SourceStat>, FilesError> {
        match host.stat(path) {
            Ok(Some(_)) if self.if_exists == IfExists::Fail => Err(FilesError::Exists { path: path.to_owned() }),
            Ok(found) => Ok(found),
            // The state is unknown; the commit itself will then fail.
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
        if mount::link_leaves(&path, &target) {
            self.report.skipped_count += 1;
            return Ok(());
        }
        let base = self.base(host, &path)?;
        self.report.link_count += 1;
        self.steps.push(CommitStep::Symlink { path, target, escapes: false, base });
        Ok(())
    }

    /// Checks the copy against the workspace's quotas, and commits it. Each hard link becomes a separate file on the
    /// host, so a copy can be larger than the workspace.
    fn carry_out(self, vfs: &mut Vfs, host: &HostDirectory) -> Result<CopyReport, FilesError> {
        let VfsLimits { bytes: max_bytes, inodes: max_files, .. } = *vfs.limits();
        let (files, bytes) = (self.report.file_count, self.report.bytes);
        if files > max_files || bytes > max_bytes {
            return Err(MountError::TooLarge { files, max_files, bytes, max_bytes }.into());
        }
        host.commit(&self.steps, vfs)?;
        Ok(self.report)
    }
}
