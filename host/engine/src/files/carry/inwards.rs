//! Copies from the host into a workspace.

use std::io::{self, Read};
use std::path::Path;

use glovebox_core::files::path;
use glovebox_vfs::{FileKind, InodeId, MountSource as _, SourceError, Vfs, VfsError};

use super::{Place, host_path, place};
use crate::files::place::Placer;
use crate::files::{CopyReport, FilesError, IfExists};
use crate::mount::{HostDirectory, Reach};

/// Reads a file of a host directory from its beginning.
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

/// Copies a host file or directory to `to`, below the workspace's directory `top`.
pub(in crate::files) fn into(
    vfs: &mut Vfs,
    top: InodeId,
    host: &Path,
    to: &str,
    if_exists: IfExists,
) -> Result<CopyReport, FilesError> {
    match place(host)? {
        None => Err(host_path(host)),
        Some(Place::File(dir, name)) => {
            let to = path::below(to)?;
            let directory = HostDirectory::open_reaching(dir, Reach::Files)?;
            let stat = directory.stat(name).map_err(host_read(host))?.ok_or_else(|| host_path(host))?;
            if stat.kind != FileKind::File {
                return Err(host_path(host));
            }
            let mut placer = Placer::new(vfs, top, if_exists, "write");
            copy_file(&mut placer, &directory, host, name, &to, stat.size_bytes)?;
            Ok(placer.report)
        }
        Some(Place::Directory) => {
            let to = path::inside(to)?;
            let max_entries = usize::try_from(vfs.limits().inodes).unwrap_or(usize::MAX);
            let placer = Placer::new(vfs, top, if_exists, "write");
            copy_tree(placer, &HostDirectory::open(host)?, host, &to, max_entries)
        }
    }
}

fn host_read(host: &Path) -> impl FnOnce(SourceError) -> FilesError + use<> {
    let path = host.to_owned();
    move |source| FilesError::HostRead { path, source }
}

fn copy_file(
    placer: &mut Placer<'_>,
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
    mut placer: Placer<'_>,
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
        // More entries than the workspace can hold, whatever their sizes.
        entries_left = entries_left
            .checked_sub(entries.len())
            .ok_or(VfsError::NoSpace)
            .map_err(FilesError::refused("write", to))?;
        // Sort by name: the host's order depends on the machine.
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        for entry in entries {
            let from = join(&dir, &entry.name);
            let target = join(to, &from);
            match entry.stat.kind {
                FileKind::Directory => dirs.push(from),
                FileKind::File => copy_file(&mut placer, directory, host, &from, &target, entry.stat.size_bytes)?,
                FileKind::Symlink => {
                    // A link whose target is not UTF-8 cannot be represented.
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
