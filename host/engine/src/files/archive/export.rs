//! Exports a workspace as a tar archive.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use glovebox_core::files::{fill, walk};
use glovebox_vfs::{FileKind, InodeId, Stat, Vfs};
use tar::{Builder, EntryType, Header};

use crate::files::{CopyReport, FilesError};

const NS_PER_S: u64 = 1_000_000_000;

/// Reads a file of the workspace from its beginning.
struct Contents<'v> {
    vfs: &'v mut Vfs,
    inode: InodeId,
    at: u64,
}

impl Read for Contents<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = fill(self.vfs, self.inode, self.at, into).map_err(io::Error::other)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}

pub(in crate::files) fn export(vfs: &mut Vfs, top: InodeId, writer: impl Write) -> Result<CopyReport, FilesError> {
    let found = walk::below(vfs, top, usize::MAX);
    let found = found.map_err(|(path, error)| FilesError::refused("list", &path)(error))?;
    let mut archive = Builder::new(writer);
    let mut report = CopyReport::default();
    // First name of each file with several hard links.
    let mut first_names: BTreeMap<InodeId, String> = BTreeMap::new();
    for walk::Walked { path, inode, kind } in found {
        let stat = vfs.stat(inode).map_err(FilesError::refused("read", &path))?;
        let failed = FilesError::io("write the archive");
        match kind {
            FileKind::Directory => {
                let mut header = header(EntryType::Directory, 0o755, 0, &stat);
                archive.append_data(&mut header, format!("{path}/"), io::empty()).map_err(failed)?;
                report.directory_count += 1;
            }
            FileKind::Symlink => {
                let target = vfs.read_link(top, path.as_bytes()).map_err(FilesError::refused("read", &path))?;
                append_link(&mut archive, EntryType::Symlink, &path, &target, &stat).map_err(failed)?;
                report.link_count += 1;
            }
            FileKind::File => {
                if let Some(first) = first_names.get(&inode) {
                    append_link(&mut archive, EntryType::Link, &path, first, &stat).map_err(failed)?;
                } else {
                    let mut header = header(EntryType::Regular, 0o644, stat.size_bytes, &stat);
                    let contents = Contents { vfs, inode, at: 0 };
                    archive.append_data(&mut header, &path, contents).map_err(failed)?;
                    report.bytes = report.bytes.saturating_add(stat.size_bytes);
                    if stat.links > 1 {
                        first_names.insert(inode, path);
                    }
                }
                report.file_count += 1;
            }
        }
    }
    archive.into_inner().and_then(|mut writer| writer.flush()).map_err(FilesError::io("write the archive"))?;
    Ok(report)
}

/// Returns a header without information about the machine or its users.
fn header(kind: EntryType, mode: u32, size_bytes: u64, stat: &Stat) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size_bytes);
    header.set_mtime(stat.modified_ns / NS_PER_S);
    header
}

fn append_link(
    archive: &mut Builder<impl Write>,
    kind: EntryType,
    path: &str,
    target: &str,
    stat: &Stat,
) -> io::Result<()> {
    let mut header = header(kind, 0o777, 0, stat);
    // Write the target unchanged: `Builder::append_link` would write `a//b` as `a/b`.
    if header.set_link_name_literal(target).is_err() {
        let mut long = Header::new_gnu();
        long.set_entry_type(EntryType::GNULongLink);
        long.set_path("././@LongLink")?;
        long.set_size(target.len() as u64 + 1);
        long.set_cksum();
        archive.append(&long, target.as_bytes().chain(&[0][..]))?;
    }
    archive.append_data(&mut header, path, io::empty())
}
