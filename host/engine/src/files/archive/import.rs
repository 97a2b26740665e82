//! Imports a tar archive into a workspace.

use std::io::Read;

use glovebox_core::files::{FileError, path};
use glovebox_vfs::{InodeId, Vfs};
use tar::Archive;

use super::header::{Kind, Reader, Told, refused};
use crate::files::place::Placer;
use crate::files::{CopyReport, FilesError, IfExists};

/// Maximum number of headers for each inode. An entry can have a long name, a long target and an extension header
/// before its own header, and archives may name a directory twice.
const HEADERS_PER_INODE: u64 = 5;

/// Minimum of that limit, for workspaces with very few inodes.
const HEADERS_LEAST: u64 = 64;

const NS_PER_S: u64 = 1_000_000_000;

pub(in crate::files) fn import(
    vfs: &mut Vfs,
    top: InodeId,
    reader: impl Read,
    if_exists: IfExists,
) -> Result<CopyReport, FilesError> {
    let max_headers = vfs.limits().inodes.saturating_mul(HEADERS_PER_INODE).saturating_add(HEADERS_LEAST);
    let mut archive = Archive::new(reader);
    let mut entries = Reader::new(&mut archive, max_headers)?;
    let mut placer = Placer::new(vfs, top, if_exists, "import");
    // Set the times of directories last: adding entries changes them.
    let mut directories = Vec::new();
    while let Some((told, mut contents)) = entries.next()? {
        let path = name(&told)?;
        let modified_ns = told.modified_s.saturating_mul(NS_PER_S);
        match told.kind {
            Kind::Directory if path.is_empty() => {}
            _ if path.is_empty() => return Err(refused(told.path.as_bytes(), "it has no name")),
            Kind::Directory => {
                placer.directory(&path)?;
                directories.push((path, modified_ns));
            }
            Kind::File => placer.file(&path, told.size_bytes, Some(modified_ns), &mut contents)?,
            Kind::Symlink => {
                if placer.link(&path, &told.target)? {
                    placer.set_modified(&path, modified_ns)?;
                }
            }
            Kind::HardLink => {
                let first = std::str::from_utf8(&told.target).ok().and_then(|target| path::inside(target).ok());
                let first = first.ok_or_else(|| refused(told.path.as_bytes(), "its hard link leads out"))?;
                placer.hard_link(&path, &first)?;
            }
        }
    }
    for (path, modified_ns) in directories {
        placer.set_modified(&path, modified_ns)?;
    }
    Ok(placer.report)
}

fn name(told: &Told) -> Result<String, FilesError> {
    path::inside(&told.path).map_err(|error| match error {
        FileError::Path { reason, .. } => refused(told.path.as_bytes(), reason),
        other => other.into(),
    })
}
